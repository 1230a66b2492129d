"""Random numbers: the right generator, one number per address, and nothing else."""

from collections import Counter
from itertools import combinations, permutations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from support import oracle
from thali import sites
from thali.sites import FURTHER, SITES_PER_MODE, Site, site_of
from thali.streams import (
    Stream,
    chain_key,
    fraction,
    philox,
    uniform64,
)

WORD = st.integers(0, 2**32 - 1)
ADDRESS = st.tuples(st.integers(0, 2**64 - 1), WORD, WORD, WORD, WORD)
check = settings(deadline=None, max_examples=50, derandomize=True)


def encrypt(counter, key):
    """Return the four words that Philox makes of a counter and a key of two words."""
    pairs = philox(*map(np.uint64, counter), np.uint64(key[0] | key[1] << 32))
    return [int(pair) >> shift & 0xFFFFFFFF for pair in pairs for shift in (0, 32)]


def stream_of(seed, sweep=0):
    return Stream(chain_key(seed), np.uint64(sweep))


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ("0 0 0 0", "0 0", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        (" ".join(["ffffffff"] * 4), "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            "243f6a88 85a308d3 13198a2e 03707344",
            "a4093822 299f31d0",
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_known_answers(counter, key, expected):
    """Philox 4x32-10 gives the vectors that its authors publish with Random123."""
    counter, key, expected = ([int(w, 16) for w in t.split()] for t in (counter, key, expected))
    assert encrypt(counter, key) == expected


@check
@given(st.tuples(WORD, WORD, WORD, WORD), st.tuples(WORD, WORD))
def test_philox_is_the_oracle(counter, key):
    """Compiled and plain Philox agree everywhere."""
    assert encrypt(counter, key) == oracle.philox(counter, key)


@check
@given(ADDRESS, ADDRESS)
def test_addresses_differ(first, second):
    """Changing any part of an address, one at a time, changes the number."""
    mixed = {(*first[:i], b, *first[i + 1 :]) for i, b in enumerate(second)} | {first}
    assert len({int(uniform64(*map(np.uint64, a))) for a in mixed}) == len(mixed)


@check
@given(st.integers(0, 2**64 - 1), WORD, WORD, WORD, st.integers(0, 20))
def test_stream_is_the_oracle(key, sweep, site, row, n):
    """Bits, uniforms and orders of a stream are those of the oracle."""
    fast, slow = Stream(np.uint64(key), np.uint64(sweep)), oracle.Stream(key, sweep)
    assert fast.bits(site, n, row).tolist() == [slow.bits(site, row, i) for i in range(n)]
    assert fast.uniforms(site, n, row).tolist() == [slow.uniform(site, row, i) for i in range(n)]
    assert fast.permutation(site, n, row).tolist() == slow.permutation(site, row, n)


def test_uniforms():
    """Uniforms have the mean and variance of uniforms."""
    n = 100_000
    u = stream_of(0).uniforms(Site.NOISE, n)
    assert 0.0 < u.min() < u.max() < 1.0
    # Five standard errors; the fourth central moment of a uniform is 1 / 80.
    assert abs(u.mean() - 1 / 2) < 5 * (1 / 12 / n) ** 0.5
    assert abs(((u - 1 / 2) ** 2).mean() - 1 / 12) < 5 * ((1 / 80 - 1 / 144) / n) ** 0.5


@pytest.mark.parametrize("n", [0, 1, 2, 100])
def test_permutation(n):
    """A permutation holds every number once."""
    assert sorted(stream_of(3).permutation(Site.ORDER, n)) == list(range(n))


def test_permutations_are_uniform():
    """All orders of three are equally frequent over sweeps and rows."""
    draws = [
        tuple(stream_of(7, sweep).permutation(Site.ORDER, 3, row))
        for sweep, row in product(range(60), range(60))
    ]
    counts = Counter(draws)
    assert set(counts) == set(permutations(range(3)))
    expected = len(draws) / 6
    # Pearson's statistic exceeds this bound once in a million seeds.
    assert sum((c - expected) ** 2 / expected for c in counts.values()) < chi2.isf(1e-6, df=5)


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_bad_seed(seed):
    """A seed that is no 64-bit number is refused in a sentence."""
    with pytest.raises(ValueError, match=rf"^seed={seed} was given; allowed are .*another\.$"):
        chain_key(seed)


def test_chain_keys():
    """Chains of a seed, and chains of different seeds, have different keys."""
    seeds = [0, 1, 2**32, 2**64 - 1]
    assert len({int(chain_key(s, c)) for s, c in product(seeds, range(50))}) == 200
    assert chain_key(5) == chain_key(5, 0)


def test_sites():
    """No two uses of randomness share a number, in any mode."""
    assert len(set(Site.__members__.values())) == len(Site.__members__)
    assert all(0 <= site < SITES_PER_MODE or site >= FURTHER for site in Site)
    assert len({site_of(s, m) for s, m in product(Site, range(500))}) == 500 * len(Site)


INDICES = {
    sites.BirthDeathIndex: {},
    sites.SplitIndex: {"SHARES": 3, "DECISION": 3},
    sites.ExchangeIndex: {"SHARES": 3, "DECISION": 3},
    sites.AnchoredIndex: {"DECISION": 3},
    sites.GuidedIndex: {"RATES": 4, "DECISION": 3},
    sites.CompoundIndex: {"PARTS": 5, "DECISION": 3},
    sites.ResidualIndex: {},
    sites.ReplacementIndex: {},
    sites.OwnComponentIndex: {},
    sites.ToggleIndex: {"DECISION": 3},
    sites.SeededIndex: {"DECISION": 3},
    sites.BoxIndex: {"DECISION": 3},
    sites.LevelIndex: {},
    sites.TradeIndex: {},
    sites.SingleIndex: {},
    sites.OffsetIndex: {},
}
"""How many numbers those indices stand for that stand for several."""

EITHER_OR = {
    ("IS_ANY_PARTNER", "SHARES"), ("PARTNER", "SHARES"), ("N_PARTS", "VICTIM"), ("ROW", "VICTIM"),
    ("SEED", "VICTIM"),
}  # fmt: skip
"""Indices of which a try needs one at most: a split has shares, a merge a partner."""


def shared_numbers(register, lengths):
    """Return the pairs of indices that share a number and may both be used."""
    spans = {
        name: set(range(index, index + lengths.get(name, 1)))
        for name, index in register.__members__.items()
    }
    return {
        pair
        for pair in combinations(sorted(spans), 2)
        if spans[pair[0]] & spans[pair[1]] and pair not in EITHER_OR
    }


@pytest.mark.parametrize("register", INDICES, ids=lambda register: register.__name__)
def test_indices_of_a_site(register):
    """No two decisions of a try share a number, unless only one of them is taken."""
    assert shared_numbers(register, INDICES[register]) == set()


def test_an_index_that_is_used_twice_is_noticed():
    """The comparison above finds a span that reaches into the next."""
    assert shared_numbers(sites.GuidedIndex, {"RATES": 5}) == {("DECISION", "RATES")}


def test_every_register_is_looked_at():
    """The anchored move draws at its own site by two registers, which must not overlap."""
    registers = {
        r for r in vars(sites).values() if isinstance(r, type) and r.__name__ != "IntEnum"
    }
    assert registers == {Site, *INDICES}
    anchored = {**sites.SplitIndex.__members__, **sites.AnchoredIndex.__members__}
    alike = {n: anchored[n] for n in ("IS_SPLIT", "FIRST", "IS_ANY_PARTNER", "PARTNER")}
    assert not set(alike.values()) & set(sites.AnchoredIndex)


def test_uniforms_never_reach_zero_or_one():
    """Even with no bit or all 64 set: inverse distribution functions stay finite."""
    assert 0.0 < fraction(np.uint64(0)) < 1e-15
    assert 1.0 - 1e-15 < fraction(np.uint64(2**64 - 1)) < 1.0


@pytest.mark.parametrize(("seed", "chain"), [(1.5, 0), (True, 0), ("1", 0), (1, -1), (1, 2**32)])
def test_bad_address_of_a_chain(seed, chain):
    """Seeds and chains are integers, not what rounds to one."""
    with pytest.raises(ValueError, match="was given; allowed are integers from 0"):
        chain_key(seed, chain)


def test_the_changelog_names_the_version():
    """Whoever reads it knows whether chains of two versions can be compared."""
    text = (Path(__file__).parents[1] / "CHANGELOG.md").read_text()
    assert f"The random stream has version {sites.VERSION}." in text
