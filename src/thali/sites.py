"""The register of random numbers: every use has an address of its own.

A random number is read at ``(key, sweep, site, row, index)`` (:mod:`thali.streams`). The site says
what the number is used for. If a move takes several decisions at one site, the index tells them
apart. Stored chains depend on sites and indices: never reuse or renumber one, and raise
``VERSION`` when a seed gives a different chain than before.
"""

from __future__ import annotations

from enum import IntEnum

VERSION = 13
"""Version of the random stream: the same seed gives the same chain within one version."""

SITES_PER_MODE = 64
"""Sites of mode m are shifted by m * SITES_PER_MODE, so that modes never share an address."""

FURTHER = 1 << 20
"""Numbers below SITES_PER_MODE are used up. Further sites begin here, beyond those of any mode."""


class Site(IntEnum):
    """What a random number is used for."""

    ROW_BITS = 1  # entry (row, component) of a factor
    BIRTH_COUNT = 2  # how many single-row components a row owns
    BIRTH_COVER = 3  # whether at least one of a row's new components has a column
    BIRTH_BITS = 4  # codes of the new components
    BIRTH_DEATH = 5  # birth or death of one single-row component, with its own density
    ORDER = 6  # order in which the components are visited
    BLOCKS = 7  # partition of the rows into blocks
    STICKS = 8  # weights of the Beta process
    ALPHA = 9  # concentration of the buffet
    DENSITY = 10  # densities of the factors; row 1: weights that tie those of components
    NOISE = 11  # error rates
    START = 12  # starting factors of the finite model
    CHAIN = 13  # keys of chains
    SIMULATION = 14  # keys of simulated data, which share no number with chains of the same seed
    FACTOR = 15  # simulated: entries of a factor
    DISHES = 16  # simulated: which known dishes a customer takes
    NEW_DISHES = 17  # simulated: how many new dishes a customer takes
    FLIPS = 18  # simulated: the data given the factors
    UNKNOWN = 19  # simulated: which entries are unknown
    MEMBERSHIP = 20  # memberships and levels of new rows, given components
    REPLICATE = 21  # replicated data, given a draw

    SPLIT = 22  # split or merge of components: proposal and acceptance
    SPLIT_ROWS = 23  # which of the two components each user gets
    SPLIT_CODES = 24  # codes of the changed components
    GUIDED = 25  # guided birth or death: the same three uses
    GUIDED_ROWS = 26
    GUIDED_CODES = 27
    RESIDUAL = 28  # residual birth or death: the same three uses
    RESIDUAL_ROWS = 29
    RESIDUAL_CODES = 30
    COMPOUND = 31  # birth or death of a compound: the same three uses
    COMPOUND_ROWS = 32
    COMPOUND_CODES = 33
    OWN_COMPONENT = 34  # birth or death of a row's own component, with other entries of the row
    OWN_COMPONENT_ORDER = 35  # which other entries are drawn with it
    ANCHORED = 36  # split or merge guided by two anchor rows: the same three uses
    ANCHORED_ROWS = 37
    ANCHORED_CODES = 38
    FIRST_ROWS = 39  # subset of rows that a chain starts on, and the keys of its starts
    SEARCH = 40  # keys of searches for the fewest errors

    GROWN_USERS = 41  # start: rows around which components are proposed, and how many with each
    GROWN_CODES = 42  # start: codes of new components
    MERGED_CODES = 43  # start: codes of merged components
    MERGE_WINDOW = 44  # start: columns of the first decision about a merger
    REGROWN = 45  # start: which components are removed before others are grown in their place
    GROWN_ROWS = 46  # start: users of new components

    TOGGLE = 47  # users of one component join or leave another: proposal and acceptance
    TOGGLE_CODES = 48  # codes of both

    LEVELS = 49  # levels of rows and columns
    JUMPS = 50  # jumps of columns
    LEVEL_PRIORS = 51  # means and spreads of levels and jumps
    HIDDEN = 52  # entries that starts on trial do not know
    TRUE_LEVELS = 53  # simulated: levels of rows and columns, jumps of columns

    SEEDED = 54  # birth or death around a seed row: the same three uses
    SEEDED_ROWS = 55
    SEEDED_CODES = 56

    BOX = 57  # tensors, birth or death around a seed entry: proposal and acceptance
    BOX_ROWS = 58  # by mode: the lines of the component
    BOX_CODES = 59
    OWN_BOX = 60  # the same three uses for a component of a single row
    OWN_BOX_ROWS = 61
    OWN_BOX_CODES = 62

    LEVEL_PAIRS = 63  # jump and level of a column, drawn together

    TRADE = FURTHER  # by mode: level of a line together with its components
    TRADE_BITS = FURTHER + 1  # by mode: these components
    SINGLE = FURTHER + 2  # component of a single column, or a level instead; row: the try
    SINGLE_ROWS = FURTHER + 3  # its users
    OFFSET_WITH_JUMP = FURTHER + 4


class BirthDeathIndex(IntEnum):
    """Indices at ``Site.BIRTH_DEATH``, for every row."""

    IS_BIRTH = 0
    VICTIM = 1
    DECISION = 2
    DENSITY = 3


class SplitIndex(IntEnum):
    """Indices at ``Site.SPLIT``, most of which ``Site.ANCHORED`` shares."""

    IS_SPLIT = 0
    FIRST = 1  # the component to split, or the first to merge
    IS_ANY_PARTNER = 2  # merge: whether any component may be the partner, or only the most similar
    PARTNER = 3  # merge: which component is the partner
    SHARES = 2  # split (which has no partner): three numbers, the probabilities of users' groups
    DENSITY = 5  # split: density of the new component
    DECISION = 6  # three numbers: a block of columns, the decision by it, and by all columns


class ExchangeIndex(IntEnum):
    """Indices at ``Site.SPLIT`` of the finite model, which merges and splits in one move."""

    FIRST = 0
    IS_ANY_PARTNER = 1
    SHARES = 2  # three numbers, as for a split
    PARTNER = 5
    DECISION = 6
    THIRD = 9


class AnchoredIndex(IntEnum):
    """Further indices at ``Site.ANCHORED``."""

    WINDOW = 4  # which words of columns the proposal looks at
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
    RATES = 4  # four numbers, one per class of rows
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
    PARTS = 5  # one number per part, five at most
    DECISION = 10
    DENSITY = 13


class ResidualIndex(IntEnum):
    """Indices at ``Site.RESIDUAL``."""

    IS_BIRTH = 0
    SEED = 1  # birth: the row whose uncovered ones suggest the component
    VICTIM = 1  # death
    DECISION = 2
    DENSITY = 3


class ReplacementIndex(IntEnum):
    """Indices at ``Site.RESIDUAL`` of the finite model, which replaces a component."""

    VICTIM = 0
    SEED = 1
    DECISION = 2


class ToggleIndex(IntEnum):
    """Indices at ``Site.TOGGLE``."""

    FIRST = 0  # the component whose users change
    SECOND = 1  # the component whose users they are
    DECISION = 2  # three numbers: a block of columns, the decision by it, and by all columns


class SeededIndex(IntEnum):
    """Indices at ``Site.SEEDED``."""

    IS_BIRTH = 0
    SEED = 1
    SIZE = 2  # how many rows the component begins with
    VICTIM = 3  # death
    DENSITY = 4
    DECISION = 5  # three numbers: a block of columns, the decision by it, and by all columns


class BoxIndex(IntEnum):
    """Indices at ``Site.BOX`` and ``Site.OWN_BOX``."""

    IS_BIRTH = 0
    ROW = 1  # row of the seed
    ENTRY = 2  # which entry of this row is the seed
    VICTIM = 3  # death
    DECISION = 4  # three numbers: a block of lines, the decision by it, and by all lines


class LevelIndex(IntEnum):
    """Indices at ``Site.LEVEL_PRIORS``."""

    ROW_SPREAD = 0
    COLUMN_MEAN = 1
    COLUMN_SPREAD = 2
    JUMP_MEAN = 3
    JUMP_SPREAD = 4
    SHIFT = 5  # of all rows against all columns
    OFFSET = 6
    GROUPS = 7  # of offsets
    PAIRS_MEAN = 8  # of jumps, with levels and jumps summed out
    PAIRS_SPREAD = 9


class TradeIndex(IntEnum):
    """Rows at ``Site.TRADE``; the index is the line."""

    DISTANCE = 0  # of the proposed level from the present one
    KIND = 1  # of columns with jumps: what changes, level or jump or one against the other
    DECISION = 2


class SingleIndex(IntEnum):
    """Indices at ``Site.SINGLE``, for every try."""

    IS_BIRTH = 0
    CHOICE = 1  # of a column, or of a component
    LEVEL = 2
    DENSITY = 3
    DECISION = 4


class OffsetIndex(IntEnum):
    """Indices at ``Site.OFFSET_WITH_JUMP``."""

    OFFSETS = 0  # where blocks of offsets begin
    JUMPS = 1  # where blocks of jumps begin
    PAIR = 2


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
