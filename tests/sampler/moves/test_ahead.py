"""A try that is rejected where the data are is rejected by the move itself, and few others are."""

import numpy as np
import pytest

import thali
from support.host_device import HostDevice
from support.mutants import one_quickly
from support.places import needs_compiler
from thali.engines.cpu.engine import CpuEngine
from thali.engines.gpu import row_sets
from thali.engines.gpu.device import source
from thali.engines.gpu.engine import GpuEngine
from thali.model import Model, PerComponent
from thali.sampler import Schedule, Target, step
from thali.sampler.moves import ahead
from thali.sampler.moves import move as one_move
from thali.sampler.moves.move import Attempt, SumOut
from thali.sampler.moves.seeded import SEEDED
from thali.sampler.moves.tries import moves_of
from thali.streams import Stream, chain_key

pytestmark = needs_compiler
KEY = chain_key(6)
ALL_MOVES = Schedule(hold=0, starts=0)
MODELS = {
    "buffet": Model(),
    "finite": Model(4),
    "own densities": Model(density=PerComponent(1.0, 2.0, n_values=3, tied=None)),
    "buffet with effects": Model(noise="effects"),
    "finite with effects": Model(4, noise="effects"),
}


def engine(edit=None):
    """Return a GPU engine whose kernels run on the host, perhaps with a mistake."""
    device = HostDevice()
    device.edit = edit
    return GpuEngine(device, threads=1)


def data_of(shape, seed):
    return thali.simulate(
        shape, 3, spurious=0.2, dropped=0.3, row_spread=1.0, unknown=0.1, seed=seed
    ).tensor


def states(model, device=None):
    """Yield states of chains on small tables with unknown entries, and their targets."""
    for seed, shape in enumerate(((12, 70), (70, 12), (150, 30))):
        cpu = Target.prepare(data_of(shape, seed), model, ALL_MOVES, CpuEngine(1))
        gpu = Target.prepare(data_of(shape, seed), model, ALL_MOVES, device or engine())
        state = cpu.initial(KEY)
        for number in range(16):
            state, _ = step(KEY, state, cpu)
            if number % 5 == 0:
                yield state, gpu


def compare(model, monkeypatch, device=None, n_tries=40):
    """Return by move: tries, those rejected at once, accepted ones among these, and missed ones.

    A try is missed if the block of columns rejects it, but nobody saw it.
    """
    calls, plain = [], one_move.gains_by_set

    def counted(*arguments):
        calls.append(1)
        return plain(*arguments)

    monkeypatch.setattr(one_move, "gains_by_set", counted)
    found = {}
    for state, target in states(model, device):
        planned = [(m, i) for m in moves_of(state, target).values() for i in range(n_tries)]
        stream = Stream(KEY, np.uint64(1_000 + state.sweep))
        attempts = [Attempt(stream, np.uint64(i), state, target) for _, i in planned]
        rows = target.engine.row_sets(state.factors)
        looks = [m.look(a, rows) for (m, _), a in zip(planned, attempts, strict=True)]
        is_rejected = ahead.look_together(looks, rows)
        for (m, _), attempt, early in zip(planned, attempts, is_rejected, strict=True):
            calls.clear()
            proposal = m.propose(attempt)
            after = m.decide(attempt, proposal) if proposal.is_possible else None
            is_block = isinstance(m, SumOut) and m is not SEEDED and len(calls) == 1
            found[m.name] = found.get(m.name, 0) + np.array(
                [1, early, early and after is not None, is_block and not early]
            )
    return found


@pytest.mark.parametrize("name", MODELS)
def test_what_is_rejected_ahead_is_rejected(name, monkeypatch):
    """In every state, for every move; and every try that the first decision rejects is seen."""
    found = compare(MODELS[name], monkeypatch)
    for move, (n_tries, n_early, n_wrong, n_missed) in found.items():
        assert n_wrong == n_missed == 0, (move, found)
        if move not in ("reseat", "seeded"):
            assert 0 < n_early < n_tries or move == "compound", (move, found)


@pytest.mark.gpu
@pytest.mark.parametrize("name", MODELS)
def test_what_a_gpu_rejects_ahead_is_rejected(name, monkeypatch):
    """Where threads work together, too."""
    found = compare(MODELS[name], monkeypatch, GpuEngine(threads=1))
    assert sum(counts[1] for counts in found.values()) > 0
    assert all(counts[2] == counts[3] == 0 for counts in found.values()), found


MISTAKES = {
    "rates": ("(in_b ? both : first) : (in_b", "(in_b ? both : second) : (in_b"),
    "rank": ("k < begin; k += blockDim.x) before", "k < 0; k += blockDim.x) before"),
    "classes": ("(row[i] & 31)) & 1) << s", "(row[i] & 31)) & 1) << (s > 0)"),
    "shares": ("if (u < to_first || u >= to_second) in_first", "if (u >= to_first) in_first"),
    "marks": ("popcount(free & marks[side", "popcount(x & marks[side"),
}


@pytest.mark.parametrize("mistake", one_quickly(MISTAKES))
def test_mistakes_are_noticed(mistake, monkeypatch):
    """The same comparison sees other rows, and other classes of rows."""
    found = compare(Model(), monkeypatch, engine(MISTAKES[mistake]))
    assert sum(counts[2] + counts[3] for counts in found.values()) > 0


@pytest.mark.parametrize("name", MODELS)
def test_bounds_of_scores(name):
    """The score of a drawn or given component lies within its bounds, and not far from them."""
    near = 0
    for state, target in states(MODELS[name]):
        rows = target.engine.row_sets(state.factors)
        stream = Stream(KEY, np.uint64(1_000 + state.sweep))
        for number in range(20):
            attempt = Attempt(stream, np.uint64(number), state, target)
            rest = thali.sampler.moves.residual._Rest(
                attempt, np.ones(state.n_components, bool), 0.3, 0.1
            )
            seed = (7 * number) % target.shape[0]
            (users, _), score = rest.draw(seed)
            n_users, most = answered(rest.most(rows, seed), rows)
            assert n_users in (-1, int(users.view(np.uint8).size and popcounts(users)))
            assert score < most
            near += most - score < 3.0
            if number < state.n_components:
                lines = tuple(factor.words[number] for factor in state.factors)
                rest = thali.sampler.moves.residual._rest_without(attempt, number, 0.1)
                assert answered(rest.least(rows, number), rows) < rest.weigh(*lines)
    assert near > 10


def popcounts(words):
    return sum(int(word).bit_count() for word in words)


def answered(look, rows):
    """Run one look alone."""
    answer = None
    while True:
        try:
            question = look.send(answer)
        except StopIteration as end:
            return end.value
        (answer,) = rows.answer([question])


@pytest.mark.parametrize("name", ["buffet", "finite", "buffet with effects"])
def test_chains_are_those_of_the_cpu(name):
    """With tries that are rejected ahead, and some that are accepted."""
    schedule, ends = Schedule(hold=0, starts=0, first_rows=0), []
    accepted = 0
    for place in (engine(), CpuEngine(1)):
        target = Target.prepare(data_of((12, 70), 2), MODELS[name], schedule, place)
        state = target.initial(KEY)
        for _ in range(25):
            state, info = step(KEY, state, target)
            accepted += sum(n for _, n in info.moves.values())
        ends.append([*(f.words.tolist() for f in state.factors), state.covered])
    assert ends[0] == ends[1]
    assert accepted > 4


def test_nobody_looks_where_no_block_decides(monkeypatch):
    """Nor on an engine of the host."""
    state, gpu = next(states(Model()))
    planned, stream = [], Stream(KEY, np.uint64(1))
    assert ahead.Ahead.on(stream, planned, state, gpu) is not None
    cpu = Target.prepare(data_of((12, 70), 0), Model(), ALL_MOVES, CpuEngine(1))
    assert ahead.Ahead.on(stream, planned, state, cpu) is None
    monkeypatch.setattr(one_move, "_BLOCK", 128)
    assert ahead.Ahead.on(stream, planned, state, gpu) is None


def test_constants_are_those_of_the_kernels():
    """They are written down twice."""
    for name in ("MOST_SETS", "SETS_AT_ONCE"):
        assert f"#define {name} {getattr(row_sets, name)}" in source()
    assert f"#define NEAR_WORDS {row_sets.NEAR // 32} " in source()
    assert f"#define MOST_WINDOW {row_sets.MOST_WINDOW} " in source()
    assert "const double GAIN_SCALE = 1 << 20;" in source()
    assert thali.engines.base.GAIN_SCALE == 1 << 20
