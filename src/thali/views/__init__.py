"""Arrays that pictures and reports show.

Nothing is drawn here, and no array is larger than the picture that it is for.
"""

from thali.views.aligned import Components, components, names
from thali.views.describe import Card, Member, Neighbour, Overlap, cards, overlap, titles
from thali.views.line_levels import LineLevels, has_effects, levels
from thali.views.numbers import Numbers, Quantity, numbers, quantities
from thali.views.order import component_order, seriate
from thali.views.pairs import Pair, pairs
from thali.views.raster import Blocks, blocks

__all__ = [
    "Blocks",
    "Card",
    "Components",
    "LineLevels",
    "Member",
    "Neighbour",
    "Numbers",
    "Overlap",
    "Pair",
    "Quantity",
    "blocks",
    "cards",
    "component_order",
    "components",
    "has_effects",
    "levels",
    "names",
    "numbers",
    "overlap",
    "pairs",
    "quantities",
    "seriate",
    "titles",
]
