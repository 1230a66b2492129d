"""Whatever happens to the files of a run, it reads as written, or a sentence names the file.

Bits that flip, files that somebody crafted, processes that die at a bad moment, and runs of
earlier versions.
"""

import shutil
import threading
import time
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

import thali
from support.runs import as_before_seals, read_header, rewrite_header, unseal
from thali.errors import RunExists, ThaliError, TraceDamaged, TraceMismatch
from thali.sites import VERSION
from thali.trace import Run
from thali.trace.files import read_arrays, write_arrays
from thali.trace.run import _read_header
from thali.trace.seal import check_archive, check_text
from thali.trace.settings import MOST_CHAINS

pytestmark = pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")

GOLDEN = Path(__file__).parents[1] / "golden" / "format_1"
DATA = thali.simulate((9, 7), 1, spurious=0.05, unknown=0.1, seed=1).tensor
SHORT = {"n_components": 1, "chains": 1, "warmup": 1, "draws": 2, "seed": 5, "progress": False}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small run, and the log densities of its draws."""
    out = tmp_path_factory.mktemp("runs") / "run"
    posterior = thali.sample(DATA, **SHORT, out=out)
    return out, posterior.log_joint


@pytest.fixture
def run(small, tmp_path):
    """A copy of the small run."""
    return Path(shutil.copytree(small[0], tmp_path / "run"))


def files_of(folder):
    """All files of a run that hold anything."""
    return [path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size]


def flipped(content, bit):
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


# --- bits that flip ----------------------------------------------------------------------------


def test_the_files_of_a_run(small):
    """These are all; every one ends with a digest."""
    names = [str(path.relative_to(small[0])) for path in files_of(small[0])]
    assert names == [
        "chain-0/draws-00000000.npz", "chain-0/state.npz", "data.npz", "header.json",
    ]  # fmt: skip


def test_every_flipped_bit_is_noticed(small):
    """Every single bit of every file: the file is not what its digest says, or has none.

    A file without a digest is refused, too: see below.
    """
    n_bits = 0
    for path in files_of(small[0]):
        content = path.read_bytes()
        is_whole = is_whole_text if path.suffix == ".json" else is_whole_archive
        assert is_whole(content)
        for bit in range(8 * len(content)):
            assert not is_whole(flipped(content, bit)), (path, bit)
        n_bits += 8 * len(content)
    assert n_bits > 90_000


def is_whole_text(content):
    return check_text(content)


def is_whole_archive(content):
    return check_archive(BytesIO(content))[0]


def test_flipped_bits_do_not_reach_a_posterior(run, small):
    """As users meet them: loading names the file; resuming repairs draws, and nothing else."""
    rng = np.random.default_rng(1)
    for path in files_of(run):
        content = path.read_bytes()
        for bit in rng.integers(0, 8 * len(content), 6).tolist():
            path.write_bytes(flipped(content, bit))
            with pytest.raises(TraceDamaged, match=path.name):
                thali.load(run)
            if path.parent == run:
                with pytest.raises(TraceDamaged, match=path.name):
                    thali.resume(run)
                path.write_bytes(content)
        if path.parent != run:
            resumed = thali.resume(run, progress=False)
            np.testing.assert_array_equal(resumed.log_joint, small[1])
    np.testing.assert_array_equal(thali.load(run).log_joint, small[1])


def test_a_seal_cannot_be_left_out(run):
    """A file without a digest is not taken for one of an earlier version."""
    for path in files_of(run):
        content = path.read_bytes()
        if path.suffix == ".npz":
            unseal(path)
        else:
            path.write_bytes(content[: content.index(b',\n  "sha256"')] + b"\n}")
        with pytest.raises(TraceDamaged, match=rf"{path.name} is (damaged \(the digest|not what)"):
            thali.load(run)
        path.write_bytes(content)


# --- runs of earlier versions ------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["effects", "unequal"])
def test_runs_of_format_1_are_read_and_continued(noise, tmp_path):
    """A run that was written before files had digests, kept with the tests."""
    expected = {
        "effects": [-119.53580511360671, -120.1275733528864, -119.99812498390918],
        "unequal": [-52.49079531485475, -56.38213750694076, -48.73990328503964],
    }[noise]
    out = shutil.copytree(GOLDEN / noise, tmp_path / "run")
    posterior = thali.load(out)
    assert posterior.log_joint[0].tolist() == expected
    assert posterior.mode_names == ("who", "what")
    assert posterior.row_names[1][:2] == ("column 0", "column 1")
    assert posterior.starts[0]
    if read_header(out)["stream"] != VERSION:
        with pytest.raises(TraceMismatch, match="random stream differs"):
            thali.resume(out, draws=5)
        return
    more = thali.resume(out, draws=5, progress=False)
    assert more.log_joint[0, :3].tolist() == expected
    np.testing.assert_array_equal(thali.load(out).log_joint, more.log_joint)


def test_a_run_without_seals_goes_on_exactly(run, small):
    """Format 1 stays format 1; its new files have digests, which are looked at."""
    as_before_seals(run)
    np.testing.assert_array_equal(thali.load(run).log_joint, small[1])
    more = thali.resume(run, draws=6, progress=False)
    np.testing.assert_array_equal(
        more.log_joint, thali.sample(DATA, **SHORT | {"draws": 6}).log_joint
    )
    assert _read_header(run / "header.json")["format"] == 1
    for path in (run / "header.json", run / "chain-0" / "state.npz"):
        content = path.read_bytes()
        path.write_bytes(flipped(content, 8 * (len(content) - 10)))
        with pytest.raises(TraceDamaged, match=path.name):
            thali.load(run)
        path.write_bytes(content)


def test_altered_directories_of_archives_without_seals(run):
    """What a library raises on them has the name of the file, and the draws are whole."""
    as_before_seals(run)
    path = run / "chain-0" / "state.npz"
    content = bytearray(path.read_bytes())
    at = content.rindex(b"PK\x01\x02")
    content[at + 6] = 0xFF  # a version of zip that does not exist
    path.write_bytes(content)
    with pytest.raises(TraceDamaged, match=r"state.npz is damaged .*\. 2 draws per chain are in"):
        thali.load(run)
    assert thali.load(run, partial=True).n_draws == 2


# --- crafted files -----------------------------------------------------------------------------


def refused(run):
    """Loading and resuming end in a sentence, soon."""
    begun = time.monotonic()
    for call in (thali.load, thali.resume):
        with pytest.raises((TraceDamaged, TraceMismatch)) as caught:
            call(run)
        assert "\n" not in str(caught.value)
    assert time.monotonic() - begun < 5
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[" * 100_000, b"[]", b"7", b'{"format": 1}', b'{"format": 2}', b"\xff\xfe{}",
     b'{"format": [1]}', b'{"format": true, "settings": {}}', b'{"a":' * 100_000,
     b'{"format": ' + b"9" * 5_000 + b"}", b"\0" * 100],
    ids=lambda part: str(part[:16]),
)  # fmt: skip
def test_headers_that_are_none(run, content):
    """Nothing, other JSON, and JSON so deep that it exhausts the stack."""
    (run / "header.json").write_bytes(content)
    with pytest.raises(TraceDamaged, match=r"header.json is damaged"):
        thali.load(run)


SETTINGS = {
    "chains": [0, -1, "2", None, [], 1.5, True, MOST_CHAINS + 1, 200_000, 10**30,
               {"class": "Model"}],
    "draws": [0, "3", None, {}, -(10**30)],
    "thin": [0, None, "a"],
    "seed": [-1, 2**64, "x", None, 0.5],
    "shape": [[], [9], [9, 7, 3], [7, 9], [0, 7], [9, -7], "97", None, {"class": "Gamma"},
              [9.0, 7], [2**40, 2**40], [10**30, 2], [[9], 7]],
    "model": [None, {}, 3, {"class": "Nothing"}, {"class": []}, {"class": "Schedule"},
              {"class": "Model", "noise": "loud"}, {"class": "Model", "density": [0.5] * 9},
              {"class": "Model", "alpha": "x"}, {"class": "Model", "n_components": -1},
              {"class": "Model", "other": 1}, {"class": "Gamma", "shape": 1.0, "rate": 1.0}],
    "schedule": [None, {}, {"class": "Model"}, {"class": "Schedule", "warmup": -1},
                 {"class": "Schedule", "kind": "late"}, {"class": "Schedule", "blocks": "b"}],
    "more": [1],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, value) for name, values in SETTINGS.items() for value in values],
    ids=lambda part: str(part)[:30],
)
def test_settings_that_cannot_be(run, name, value):
    """A header with a right digest and wrong values is refused; the sentence names a file."""
    rewrite_header(run, settings=read_header(run)["settings"] | {name: value})
    sentence = refused(run)
    assert "header.json" in sentence or "data.npz" in sentence


@pytest.mark.parametrize(
    "changes",
    [{"digest": None}, {"digest": "0"}, {"stream": "6"}, {"version": 1}, {"settings": []}],
)
def test_headers_that_cannot_be(run, changes):
    """The other fields, likewise."""
    rewrite_header(run, **changes)
    refused(run)


WORD = np.uint64
STATE = {
    "starts": [np.array(["0"]), np.array([0.0]), np.array([5]), np.array([-1]), np.array(0),
               np.array([0, 0]), np.array([[0]]), np.zeros(0, np.int64), np.array([0, 2**62])],
    "digests": [np.zeros((1, 32), np.uint8), np.zeros((1, 3), np.uint8), np.zeros(0, np.uint8),
                np.array(["x"])],
    "n_components": [np.array([-1]), np.array([2**62]), np.array([9]), np.array(["1"]),
                     np.zeros(0, np.int64), np.array(1), np.array([1.0])],
    "covered": [np.zeros((1, 0), np.int64), np.zeros(2, np.int64), np.array([["a", "b"]])],
    "sweep": [np.array([-5]), np.array(["x"]), np.zeros((1, 1), np.int64)],
    "noise": [np.zeros((1, 5)), np.array([[2.0, 0.1]]), np.array([["a", "b"]]), np.zeros(0)],
    "alpha": [np.array([np.nan]), np.array([-1.0]), np.array(["a"])],
    "factor_0": [np.zeros((1, 9), WORD), np.zeros((0, 1), WORD), np.ones((1, 1)),
                 np.full((1, 1), 2**40, WORD)],
    "factor_1": [np.zeros((1, 0), WORD), np.zeros((1, 1), np.int64)],
    "density_1": [np.zeros(7), np.array(["a"])],
    "moves": [np.zeros((1, 2), np.int64), np.zeros((1, 99, 2), np.int64)],
    "move_names": [np.array([1, 2]), np.array("x")],
    "wall_seconds": [np.array([1.0, 2.0]), np.array("soon")],
    "start_stage": [np.array(["a", "b"])],
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "at"), [(name, at) for name, values in STATE.items() for at in range(len(values))]
)
def test_states_that_cannot_be(run, small, name, at):
    """Damage that names the file, even if its digest is right; the draws are computed again."""
    path = run / "chain-0" / "state.npz"
    write_arrays(path, read_arrays(path) | {name: STATE[name][at]})
    with pytest.raises(TraceDamaged, match=r"(state|draws-\d+).npz is "):
        thali.load(run)
    resumed = thali.resume(run, progress=False)
    np.testing.assert_array_equal(resumed.log_joint, small[1])


@pytest.mark.parametrize(
    ("name", "value"),
    [("covered", np.zeros((2, 0), np.int64)), ("n_components", np.array([0, -9])),
     ("factor_1", np.full((2, 1), 2**63, WORD)), ("log_joint", np.array(["a", "b"]))],
)  # fmt: skip
def test_draws_that_cannot_be(run, name, value):
    """A file of draws that the state lists by its right digest, and that holds no draws."""
    path, state = run / "chain-0" / "draws-00000000.npz", run / "chain-0" / "state.npz"
    digest = write_arrays(path, read_arrays(path) | {name: value})
    write_arrays(state, read_arrays(state) | {"digests": np.frombuffer(digest, np.uint8)[None]})
    with pytest.raises(TraceDamaged, match=rf"draws-00000000.npz is damaged \(its {name} cannot"):
        thali.load(run)


@pytest.mark.parametrize(
    "levels",
    [{"row_levels": 255}, {"column_levels": 200}, {"jumps": 255}, {"level_priors": 255}],
    ids=lambda part: next(iter(part)),
)
def test_levels_beyond_their_grids(levels, tmp_path):
    """Compiled code would read what is not there."""
    out = shutil.copytree(GOLDEN / "effects", tmp_path / "run")
    path = out / "chain-0" / "state.npz"
    arrays = read_arrays(path)
    for name, value in levels.items():
        write_arrays(path, arrays | {name: np.full_like(arrays[name], value)})
        with pytest.raises(TraceDamaged, match=rf"state.npz is damaged \(its {name} cannot be"):
            thali.load(out)


@pytest.mark.parametrize(
    ("spread", "jumps"),
    [(0, [7, 7, 8]), (0, [9, 9, 9]), (9, [5, 10, 6]), (2, [5, 10, 5])],
    ids=["two instead of one", "not the mean", "no multiple of 0.5", "a spread that is too small"],
)
def test_jumps_that_no_chain_has(spread, jumps, tmp_path):
    """One jump of any size, or jumps of every fifth size."""
    out = shutil.copytree(GOLDEN / "effects", tmp_path / "run")
    path = out / "chain-0" / "state.npz"
    arrays = read_arrays(path)
    own, priors = arrays["jumps"].copy(), arrays["level_priors"].copy()
    priors[:, 3], priors[:, 4] = 7, spread

    def write(jumps):
        own[:] = np.resize(jumps, own.shape)
        write_arrays(path, arrays | {"jumps": own, "level_priors": priors})

    write(jumps)
    with pytest.raises(TraceDamaged, match=r"state.npz is damaged \(its jumps cannot be"):
        thali.load(out)
    priors[:, 4] = min(spread, 1) * 9
    write([5, 10, 0] if spread else [7])
    thali.load(out)


def names_of(plain):
    return np.frombuffer(plain if isinstance(plain, bytes) else str(plain).encode(), np.uint8)


@pytest.mark.parametrize(
    "changes",
    [
        {"ones": np.zeros((9, 2), WORD)}, {"ones": np.zeros(9, WORD)}, {"ones": np.eye(9)},
        {"ones": np.array("x")}, {"known": np.zeros((1, 1), WORD)}, {"known": np.array("x")},
        *({"names": names_of(text)} for text in (
            b"[" * 100_000, "[]", "{}", "7", '[["a","b"],[null]]', '[["a","a"],[null,null]]',
            '[["a","b"],[["x"],null]]', '[["a",2],[null,null]]', '[[["a"],"b"],[null,null]]',
            b"\xff", '["ab",[null,null]]',
        )),
    ],
    ids=lambda part: f"{next(iter(part))}-{next(iter(part.values())).tobytes()[:20]!s}",
)  # fmt: skip
def test_data_that_cannot_be(run, changes):
    """Other shapes, other types, and names that are none."""
    path = run / "data.npz"
    write_arrays(path, read_arrays(path) | changes)
    assert "data.npz is " in refused(run)


def test_archives_that_unpack_to_more_than_they_are(run):
    """A run stores arrays as they are: a compressed one may be thousands of times larger."""
    as_before_seals(run)
    for name in ("data.npz", "chain-0/state.npz"):
        content = (run / name).read_bytes()
        np.savez_compressed(run / name, **dict(np.load(BytesIO(content))))
        with pytest.raises(TraceDamaged, match=r"\.npz is damaged \(one of its arrays is compr"):
            thali.load(run)
        (run / name).write_bytes(content)
    with zipfile.ZipFile(run / "data.npz", "a") as archive:
        archive.writestr("more", b"no array")
    with pytest.raises(TraceDamaged, match=r"data.npz is damaged \(one of its parts is no array"):
        thali.load(run)


@pytest.mark.parametrize("name", ["chain-0/state.npz", "data.npz"])
def test_folders_in_the_place_of_files(run, name):
    """They are no files, says the sentence, and names them."""
    (run / name).unlink()
    (run / name).mkdir()
    with pytest.raises(TraceDamaged, match=rf"{Path(name).name} could not be read \(Is a dir"):
        thali.load(run)


# --- bad moments -------------------------------------------------------------------------------


def test_death_before_the_first_state(tmp_path):
    """The first checkpoint wrote its draws and nothing else: they are read, and go on."""
    out = tmp_path / "run"
    settings = SHORT | {"n_components": None, "noise": "unequal", "draws": 5}
    whole = thali.sample(DATA, **settings, out=out)
    (out / "chain-0" / "state.npz").unlink()
    read = thali.load(out)
    np.testing.assert_array_equal(read.log_joint, whole.log_joint)
    assert read.starts == whole.starts
    (out / "chain-0" / "draws-00000000.npz.tmp").write_bytes(b"half")
    more = thali.resume(out, draws=8, progress=False)
    np.testing.assert_array_equal(
        more.log_joint, thali.sample(DATA, **settings | {"draws": 8}).log_joint
    )
    assert more.starts == whole.starts
    (out / "chain-0" / "state.npz").unlink()
    with pytest.raises(TraceDamaged, match=r"state.npz is missing\. 8 draws per chain are intact"):
        thali.load(out)  # two files of draws: a state was there


@pytest.mark.parametrize("is_made", [False, True], ids=["new folder", "empty folder"])
def test_threads_that_make_the_same_run(is_made, tmp_path):
    """One makes it; the others are told so, and what it made is whole."""
    out = tmp_path / "run"
    if is_made:
        out.mkdir()
    ended, start = [], threading.Barrier(4)

    def make():
        start.wait()
        try:
            ended.append(thali.sample(DATA, **SHORT, out=out))
        except ThaliError as error:
            ended.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = [end for end in ended if not isinstance(end, ThaliError)]
    assert len(made) == 1
    assert all(isinstance(e, RunExists | TraceMismatch) for e in ended if e is not made[0])
    np.testing.assert_array_equal(thali.load(out).log_joint, made[0].log_joint)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_too_many_chains(tmp_path):
    """What a header may not ask for, nobody may."""
    with pytest.raises(
        ValueError, match=f"chains=20000 was given; allowed are at most {MOST_CHAINS}"
    ):
        thali.sample(DATA, **SHORT | {"chains": 20_000}, out=tmp_path / "run")
    assert Run.open(GOLDEN / "unequal").settings.chains == 1
