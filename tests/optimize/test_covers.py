"""The fewest components with no error: against brute force, planted covers and plain counts."""

from itertools import combinations

import numpy as np
import pytest

from support.mutants import mutate
from thali.bits import pack
from thali.optimize.covers import fewest_components


def solve(ones, known=None, *, sweeps=20, seed=0, threads=1, **settings):
    """Search on dense tables."""
    words = None if known is None else pack(known)
    ones = ones if known is None else ones & known
    n_rows, n_columns = ones.shape
    return fewest_components(
        pack(ones), words, n_rows=n_rows, n_columns=n_columns, sweeps=sweeps, seed=seed,
        threads=threads, **settings,
    )  # fmt: skip


def n_wrong(users, codes, ones, known=None):
    """Count known entries that contradict the components, in plain NumPy."""
    covered = (users.astype(int) @ codes.T.astype(int)) > 0
    wrong = covered != ones
    return int(wrong.sum() if known is None else (wrong & known).sum())


def fewest_by_brute_force(ones, known):
    """Try all sets of rectangles, smallest sets first."""
    allowed, required = ones | ~known, ones & known
    n_columns = ones.shape[1]
    rectangles = set()
    for number in range(1, 2**n_columns):
        code = np.array([number >> j & 1 for j in range(n_columns)], bool)
        users = allowed[:, code].all(axis=1)
        rectangles.add((np.outer(users, code) & required).tobytes())
    inside = [np.frombuffer(r, bool) for r in rectangles]
    for k in range(len(inside) + 1):
        for chosen in combinations(inside, k):
            if (np.any(chosen, axis=0) if k else np.zeros(ones.size, bool))[
                required.ravel()
            ].all():
                return k
    raise AssertionError


def is_right(ones, known):
    """Return whether number, proof and entries are right."""
    cover = solve(ones, known)
    number = cover.users.shape[1]
    is_proven = cover.is_optimal and cover.lower_bound == number
    is_exact = n_wrong(cover.users, cover.codes, ones, known) == 0
    return is_exact and is_proven and number == fewest_by_brute_force(ones, known)


def tiny_tables(share_unknown):
    """Yield tables on which all covers can be tried."""
    rng = np.random.default_rng(1)
    for _ in range(60):
        shape = rng.integers(1, 6, 2)
        ones = rng.random(shape) < rng.uniform(0.2, 0.9)
        yield ones, rng.random(shape) >= share_unknown


@pytest.mark.parametrize("share_unknown", [0.0, 0.25])
def test_tiny_tables_have_the_fewest_components(share_unknown):
    """All covers are tried, and none is smaller."""
    assert all(is_right(*table) for table in tiny_tables(share_unknown))


def test_a_wrong_reduction_is_noticed(monkeypatch):
    """Entries that are dropped although they need a component of their own make wrong covers."""
    mutant = mutate("thali.optimize.covers.reduce", [("narrow(code, rows[r])", "pass")])
    monkeypatch.setattr("thali.optimize.covers.reduced.drop_dominated", mutant.drop_dominated)
    assert not all(is_right(*table) for table in tiny_tables(0.0))


def test_the_count_notices_both_kinds_of_errors():
    """A component that is missing and one that is too large are noticed."""
    ones = np.random.default_rng(2).random((20, 15)) < 0.3
    cover = solve(ones)
    assert n_wrong(cover.users, cover.codes, ones) == 0
    assert n_wrong(cover.users[:, 1:], cover.codes[:, 1:], ones) > 0
    larger = cover.users.copy()
    larger[~larger[:, 0], 0] = True
    assert n_wrong(larger, cover.codes, ones) > 0


@pytest.mark.parametrize(
    ("shape", "n_roles", "n_own"), [((60, 40), 8, 2), ((300, 130), 20, 3), ((129, 65), 12, 2)]
)
def test_planted_roles(shape, n_roles, n_own):
    """A table made of roles has no larger cover than those, whatever is unknown."""
    rng = np.random.default_rng(n_roles)
    codes = rng.random((shape[1], n_roles)) < 0.15
    users = rng.random((shape[0], n_roles)).argsort(axis=1) < n_own
    ones = (users.astype(int) @ codes.T.astype(int)) > 0
    for known in (np.ones(shape, bool), rng.random(shape) < 0.8):
        cover = solve(ones, known)
        assert n_wrong(cover.users, cover.codes, ones, known) == 0
        assert cover.lower_bound <= cover.users.shape[1] <= n_roles


N_PLANTED = 18


def dense_table(seed):
    """Return a table of many overlapping components, which hardly gets smaller."""
    rng = np.random.default_rng(seed)
    users, codes = (rng.random((n, N_PLANTED)) < 0.3 for n in (40, 30))
    return (users.astype(int) @ codes.T.astype(int)) > 0


@pytest.mark.parametrize("seed", range(3))
def test_hard_tables(seed):
    """There are no errors, the bounds do not cross, and what was planted is no better."""
    ones = dense_table(seed)
    numbers = []
    cover = solve(ones, seed=seed, sweeps=6, on_progress=lambda *told: numbers.append(told))
    assert n_wrong(cover.users, cover.codes, ones) == 0
    assert all(bound <= number for number, bound in numbers)
    assert [n for n, _ in numbers] == sorted((n for n, _ in numbers), reverse=True)
    assert [n for _, n in cover.trace] == sorted({n for n, _ in numbers}, reverse=True)
    assert cover.trace[-1][1] == cover.users.shape[1] <= N_PLANTED


def test_threads_do_not_change_the_answer():
    """The same seed and sweeps give the same components; another seed need not."""
    ones = dense_table(5)
    first, second = (solve(ones, sweeps=5, seed=3, threads=threads) for threads in (1, 3))
    assert (first.users == second.users).all()
    assert (first.codes == second.codes).all()
    assert first.lower_bound == second.lower_bound
    other = solve(ones, sweeps=5, seed=4)
    assert other.users.shape != first.users.shape or (other.users != first.users).any()


@pytest.mark.parametrize(
    ("ones", "expected"),
    [
        (np.zeros((3, 4), bool), 0),
        (np.zeros((0, 4), bool), 0),
        (np.ones((3, 70), bool), 1),
        (np.eye(5, dtype=bool), 5),
        (~np.eye(4, dtype=bool), 4),
        (~np.eye(6, dtype=bool), 4),  # n with n <= C(k, k // 2): 6 = C(4, 2)
    ],
    ids=["zeros", "no rows", "ones", "identity", "all but the diagonal", "six of them"],
)
def test_known_answers(ones, expected):
    """Tables whose Boolean rank is known."""
    cover = solve(ones)
    assert cover.users.shape == (ones.shape[0], expected)
    assert cover.codes.shape == (ones.shape[1], expected)
    assert cover.is_optimal
    assert n_wrong(cover.users, cover.codes, ones) == 0


def test_lines_without_a_known_one_have_no_component():
    """A row of which nothing is known fits everything, and is said to have nothing."""
    ones = np.random.default_rng(6).random((12, 9)) < 0.4
    known = np.ones_like(ones)
    known[3] = known[:, 5] = False
    cover = solve(ones, known)
    assert not cover.users[3].any()
    assert not cover.codes[5].any()
    assert n_wrong(cover.users, cover.codes, ones, known) == 0


def test_no_time_gives_a_cover_all_the_same():
    """Also without a single sweep, or if the user stops at once."""
    ones = np.random.default_rng(7).random((30, 20)) < 0.5

    def stop(*_):
        raise KeyboardInterrupt

    for settings in ({"sweeps": None, "seconds": 0.0}, {"sweeps": 0}, {"on_progress": stop}):
        cover = solve(ones, **settings)
        assert n_wrong(cover.users, cover.codes, ones) == 0
        assert cover.users.shape[1] <= 20
        assert cover.is_stopped == ("on_progress" in settings)


def test_dense_tables_are_refused():
    """The table is given as packed rows."""
    ones = np.ones((3, 70), bool)
    with pytest.raises(ValueError, match=r"^ones and known must be packed rows.*\(3, 2\)\.$"):
        fewest_components(ones, None, n_rows=3, n_columns=70, seed=0, threads=1)
