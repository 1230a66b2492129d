"""The parts of the search for covers: each against the same thing in plain loops."""

from itertools import combinations

import numpy as np
import pytest

from thali.bits import pack, unpack
from thali.bits.words import transpose
from thali.optimize.covers.bound import Apart, search_apart
from thali.optimize.covers.part import Part
from thali.optimize.covers.program import solve_program
from thali.optimize.covers.rectangles import list_rectangles
from thali.optimize.covers.reduce import drop_contained, drop_dominated, label_parts
from thali.optimize.covers.table import merge_repeated

KEY = np.uint64(11)


def random_table(seed, shape=(14, 12), share=0.5, unknown=0.0):
    """Return a table, and its entries that may and that must be covered as dense arrays."""
    rng = np.random.default_rng(seed)
    ones, known = rng.random(shape) < share, rng.random(shape) >= unknown
    table = merge_repeated(pack(ones & known), pack(known), shape[1]).table
    return table, *(unpack(words, table.shape[1]) for words in (table.rows, table.required()))


def fits(table, allowed):
    """Return which entries fit together, in plain loops."""
    places = list(zip(table.row_of, table.column_of, strict=True))
    return np.array([[allowed[i, d] and allowed[r, j] for r, d in places] for i, j in places])


@pytest.mark.parametrize("unknown", [0.0, 0.3])
def test_merged_tables_are_the_original(unknown):
    """Equal rows and columns are kept once, and found again by their numbers."""
    rng = np.random.default_rng(0)
    rows, columns = rng.integers(0, 9, 70), rng.integers(0, 8, 66)
    ones, known = rng.random((9, 8)) < 0.4, rng.random((9, 8)) >= unknown
    ones[2] = False
    ones, known = (part[rows][:, columns] for part in (ones & known, known))
    table, row_of, column_of = merge_repeated(pack(ones), pack(known), 66)
    assert table.shape[0] <= 8
    for words, original in ((table.rows, ones | ~known), (table.required(), ones)):
        dense = unpack(words, table.shape[1])
        is_kept = np.outer(row_of >= 0, column_of >= 0)
        assert (dense[row_of][:, column_of] == original)[is_kept].all()
    assert not ones[row_of < 0].any()
    assert not ones[:, column_of < 0].any()
    assert (table.columns == pack(unpack(table.rows, table.shape[1]).T)).all()


@pytest.mark.parametrize("seed", range(6))
def test_nothing_dominated_is_left(seed):
    """An entry is dropped if it fits with all that another one fits with, and only then."""
    table, allowed, _ = random_table(seed, share=0.35, unknown=0.1 * (seed % 2))
    near = fits(table, allowed)
    starts, required, host = table.starts(), table.required(), np.arange(len(table.row_of))
    order = table.shortest_first()
    changed = np.array([~np.uint64(0)]), required.copy()
    while changed[0].any():
        dropped = np.zeros(1, np.uint64), np.zeros_like(required)
        before = required.copy()
        drop_dominated(order, *table, starts, required, host, changed, dropped)
        assert (before == required | dropped[1]).all()
        assert (dropped[0] == pack(dropped[1].any(axis=1))).all()
        changed = dropped
    is_left = host == np.arange(len(host))
    assert (unpack(required, table.shape[1])[table.row_of, table.column_of] == is_left).all()
    for dropped in np.flatnonzero(~is_left):
        assert near[dropped, host[dropped]]
    kept = np.flatnonzero(is_left)
    inside = near[np.ix_(kept, kept)]
    for e, f in combinations(range(len(kept)), 2):
        if inside[e, f]:
            assert (inside[e] & ~inside[f]).any()
            assert (inside[f] & ~inside[e]).any()
    labels = label_parts(*table, starts, required)
    assert (labels[~is_left] == -1).all()
    reached = np.linalg.matrix_power(inside.astype(int), len(kept)) > 0 if len(kept) < 12 else None
    assert not (inside & (labels[kept][:, None] != labels[kept])).any()
    if reached is not None:
        assert (reached == (labels[kept][:, None] == labels[kept])).all()


@pytest.mark.parametrize("is_by_row", [True, False])
def test_entries_of_contained_lines_are_dropped(is_by_row):
    """The entries of a line that contains another one join those of the other, and no others."""
    n_dropped = 0
    for seed in range(6):
        table, allowed, _ = random_table(seed, share=0.3, unknown=0.1)
        near = fits(table, allowed)
        host, required = np.arange(len(table.row_of)), table.required()
        lines, across = table.rows, table.columns
        if not is_by_row:
            lines, across, required = across, lines, transpose(required, table.shape[1])
        given = table.column_of, table.starts(), required, host
        drop_contained(0, len(lines), lines, across, is_by_row, *given)
        dense = allowed if is_by_row else allowed.T
        line_of, other_of = (table.row_of, table.column_of)[:: 1 if is_by_row else -1]
        expected = 0
        for e in range(len(host)):
            inside = [
                f
                for f in range(len(host))
                if other_of[f] == other_of[e]
                and f != e
                and (dense[line_of[f]] <= dense[line_of[e]]).all()
            ]
            # Lines that may be covered in the same places contain each other: one entry is left.
            twins = [f for f in inside if (dense[line_of[f]] == dense[line_of[e]]).all()]
            expected += len(inside) > 0 and (len(twins) < len(inside) or min(twins) < e)
            if host[e] != e:
                assert host[e] in inside
                assert not (near[host[e]] & ~near[e]).any()
        assert (host != np.arange(len(host))).sum() == expected
        assert unpack(required, dense.shape[1]).sum() == len(host) - expected
        n_dropped += expected
    assert n_dropped >= 20


@pytest.mark.parametrize("seed", range(3))
def test_lower_bounds_are_sets_that_do_not_fit(seed):
    """No two entries of the set fit together, and all counts of the search are right."""
    table, allowed, _ = random_table(seed)
    near = fits(table, allowed)
    apart = Apart.start(table.shortest_first())
    graph = table.rows, table.columns, table.row_of, table.column_of
    random = KEY, np.uint64(0), np.uint64(seed), np.zeros(1, np.int64)
    packed = table.required(), table.firsts()
    best = search_apart(200_000, 1000, graph, packed, tuple(apart), random)
    chosen = apart.lists[2, : apart.sizes[2]]
    assert 1 < len(chosen) <= best <= min(table.shape)
    assert near[np.ix_(chosen, chosen)].sum() == len(chosen)
    assert (apart.links == near[:, chosen].sum(axis=1)).all()
    for kind in range(4):
        members = apart.lists[kind, : apart.sizes[kind]]
        assert (apart.kinds[members] == kind).all()
    assert apart.sizes[:4].sum() == len(table.row_of)


def rectangles_by_brute_force(allowed):
    """Return all maximal rectangles as pairs of sets of bits."""
    found = set()
    for number in range(1, 2 ** allowed.shape[1]):
        code = np.array([number >> j & 1 for j in range(allowed.shape[1])], bool)
        users = allowed[:, code].all(axis=1)
        if users.any():
            found.add((users.tobytes(), allowed[users].all(axis=0).tobytes()))
    return found


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_all_maximal_rectangles_are_listed_once(share):
    """Also if all rows have a column in common, and only if there are not too many."""
    for seed in range(10):
        allowed = random_table(seed, (9, 8), share)[1]
        allowed[:, 0] |= seed % 2 == 0
        rows, columns = pack(allowed), pack(allowed.T)
        expected = rectangles_by_brute_force(allowed)
        for limit in (len(expected), len(expected) + 5):
            users, codes, n = list_rectangles(rows, columns, limit)
            users, codes = unpack(users, len(rows)), unpack(codes, len(columns))
            listed = [(users[k].tobytes(), codes[k].tobytes()) for k in range(n)]
            assert len(listed) == len(expected)
            assert set(listed) == expected
        assert list_rectangles(rows, columns, len(expected) - 1)[2] == len(expected)


@pytest.mark.parametrize("seed", range(3))
def test_searches_count_right(seed):
    """After some sweeps, every number that a search keeps is what a recount gives."""
    table, _, required = random_table(seed, (20, 18), 0.55)
    part = Part(table, KEY, 0)
    for _ in range(3):
        part.sweep(1, None)
    assert part.lower_bound <= len(part.users)
    users, codes = unpack(part.users, table.shape[0]), unpack(part.codes, table.shape[1])
    covered = (users.T.astype(int) @ codes.astype(int)) > 0
    assert covered[required].all()
    assert not (covered & ~unpack(table.rows, table.shape[1])).any()
    for walk in part._walks:
        inside = unpack(walk.users, table.shape[0])[:, table.row_of]
        inside &= unpack(walk.codes, table.shape[1])[:, table.column_of]
        inside &= walk.is_used[:, None] > 0
        assert (walk.counts == inside.sum(axis=0)).all()
        alone = inside & (walk.counts == 1)
        used = walk.is_used > 0
        assert (walk.losses[used] == (alone * walk.weights).sum(axis=1)[used]).all()
        assert (np.sort(walk.uncovered[: walk.sizes[0]]) == np.flatnonzero(walk.counts == 0)).all()


def test_the_integer_program_and_the_search_agree():
    """Both are exact on small tables; a program that is too large is not tried."""
    for seed in range(5):
        table = random_table(seed, (10, 9), 0.6)[0]
        answer = solve_program(table, 1000, None)
        part = Part(table, KEY, 0)
        while not part.is_optimal:
            part.sweep(1, None)
        assert answer.lower_bound == len(answer.cover[0]) == len(part.users)
        assert solve_program(table, 3, None) is None
