"""The register of random numbers: every use has an address that nothing else has.

A random number is read at ``(key, sweep, site, row, index)`` (:mod:`thali.streams`). The site says
what it is used for; where one site serves several decisions of a move, the index says which. Both
numbers are part of every stored chain: never reuse or renumber one, and raise ``VERSION`` when the
same seed gives another chain than before.
"""

from __future__ import annotations

from enum import IntEnum

VERSION = 4
"""Version of the random stream."""

SITES_PER_MODE = 64
"""Sites of mode m are shifted by m * SITES_PER_MODE, so that modes never share an address."""


class Site(IntEnum):
    """What a random number is used for."""

    ROW_BITS = 1  # entry (row, component) of a factor
    BIRTH_COUNT = 2  # how many single-row components a row owns
    BIRTH_COVER = 3  # whether a column is in at least one of a row's new components
    BIRTH_BITS = 4  # the new components themselves
    BIRTH_DEATH = 5  # birth or death of one single-row component, with its own density
    ORDER = 6  # order in which the components are visited
    BLOCKS = 7  # partition of the rows into blocks
    STICKS = 8  # weights of the Beta process
    ALPHA = 9
    DENSITY = 10
    NOISE = 11
    START = 12  # starting factors of the finite model
    CHAIN = 13  # keys of chains
    SIMULATION = 14  # keys of simulated data: a chain of the same seed shares no number with them
    FACTOR = 15  # simulated: entries of a factor
    DISHES = 16  # simulated: which known dishes a customer takes
    NEW_DISHES = 17  # simulated: how many new ones
    FLIPS = 18  # simulated: the data given the factors
    UNKNOWN = 19  # simulated: which entries are unknown
    MEMBERSHIP = 20  # memberships of new rows, given components
    REPLICATE = 21  # replicated data, given a draw

    SPLIT = 22  # split or merge: what is tried, and whether it is accepted
    SPLIT_ROWS = 23  # which of the two every user gets
    SPLIT_CODES = 24  # codes of the components concerned
    GUIDED = 25  # guided birth or death: likewise
    GUIDED_ROWS = 26
    GUIDED_CODES = 27
    RESIDUAL = 28  # residual birth or death: likewise
    RESIDUAL_ROWS = 29
    RESIDUAL_CODES = 30
    COMPOUND = 31  # birth or death of a compound: likewise
    COMPOUND_ROWS = 32
    COMPOUND_CODES = 33
    OWN_COMPONENT = 34  # a row's own component against its other entries: likewise
    OWN_COMPONENT_ORDER = 35
    ANCHORED = 36  # split or merge by what fits two rows: likewise
    ANCHORED_ROWS = 37
    ANCHORED_CODES = 38
    FIRST_ROWS = 39  # rows that a chain of many rows starts with, and the key of what they draw
    SEARCH = 40  # keys of searches for few errors


class BirthDeathIndex(IntEnum):
    """Indices at ``Site.BIRTH_DEATH``, for every row."""

    IS_BIRTH = 0
    VICTIM = 1
    DECISION = 2
    DENSITY = 3


class SplitIndex(IntEnum):
    """Indices at ``Site.SPLIT`` and ``Site.ANCHORED``: what split and merge draw alike."""

    IS_SPLIT = 0
    FIRST = 1  # the component to split, or the first to merge
    IS_ANY_PARTNER = 2  # merge: whether any component may be the partner, or only the most alike
    PARTNER = 3  # merge: which of them
    SHARES = 2  # split (where there is no partner): three numbers, to whom users go
    DENSITY = 5  # split: density of the new component
    DECISION = 6  # three numbers: a block of columns, the decision by it, the decision by all


class ExchangeIndex(IntEnum):
    """Indices at ``Site.SPLIT`` of the finite model, which exchanges instead of splitting."""

    FIRST = 0
    IS_ANY_PARTNER = 1
    SHARES = 2  # three numbers: as a split's
    PARTNER = 5
    DECISION = 6
    THIRD = 9


class AnchoredIndex(IntEnum):
    """Further indices at ``Site.ANCHORED``."""

    WINDOW = 4  # which words of columns are looked at
    ANCHOR = 5
    OTHER_ANCHOR = 6
    DECISION = 7
    DENSITY = 10


class GuidedIndex(IntEnum):
    """Indices at ``Site.GUIDED``."""

    IS_BIRTH = 0
    FIRST = 1
    SECOND = 2
    VICTIM = 3
    RATES = 4  # four numbers, one for each class of rows
    DECISION = 8
    DENSITY = 11


class CompoundIndex(IntEnum):
    """Indices at ``Site.COMPOUND``."""

    IS_BIRTH = 0
    IS_UNION = 1
    N_PARTS = 2  # birth
    VICTIM = 2  # death
    RATE_INSIDE = 3
    RATE_OUTSIDE = 4
    PARTS = 5  # one number for each part, five at most
    DECISION = 10
    DENSITY = 13


class ResidualIndex(IntEnum):
    """Indices at ``Site.RESIDUAL``."""

    IS_BIRTH = 0
    SEED = 1  # birth: the row that shows what is left
    VICTIM = 1  # death
    DECISION = 2
    DENSITY = 3


class ReplacementIndex(IntEnum):
    """Indices at ``Site.RESIDUAL`` of the finite model, which replaces a component."""

    VICTIM = 0
    SEED = 1
    DECISION = 2


class OwnComponentIndex(IntEnum):
    """Indices at ``Site.OWN_COMPONENT``."""

    IS_BIRTH = 0
    ROW = 1  # birth
    VICTIM = 1  # death
    DECISION = 2
    ENTRIES = 3  # which combination of its other entries the row gets
    WINDOW = 4  # words of columns of the first decision
    FIRST_DECISION = 5


def site_of(site: Site, mode: int) -> int:
    """Return the number of a site in a given mode."""
    return int(site) + SITES_PER_MODE * mode
