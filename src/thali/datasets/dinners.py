"""Shopping for made-up dinners, whose styles of cooking are known.

Every dinner is of one style of cooking, or two; nobody buys all that a style could have, and
something else falls into the basket now and then.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

STYLES = {
    "curry": "onion, garlic, ginger, turmeric, cumin, coriander, chickpeas, rice, chili, yoghurt",
    "pasta": "pasta, tomatoes, garlic, basil, parmesan, olive oil, mozzarella, capers",
    "baking": "flour, sugar, butter, eggs, vanilla, baking powder, milk, lemon",
    "tacos": "tortillas, beans, avocado, lime, coriander, chili, tomatoes, cheddar",
    "noodles": "noodles, soy sauce, ginger, sesame oil, tofu, spring onions, mushrooms, lime",
    "breakfast": "bread, butter, jam, coffee, milk, eggs, oranges, oats",
}
DROPPED, SPURIOUS, N_BASKETS, SEED = 0.12, 0.01, 120, 3


def make() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return the table, and the truth: baskets x styles and styles x items."""
    rng = np.random.default_rng(SEED)
    items = sorted({item for style in STYLES for item in STYLES[style].split(", ")})
    holds = np.array([[item in STYLES[style].split(", ") for item in items] for style in STYLES])
    has = np.zeros((N_BASKETS, len(STYLES)), bool)
    bought = np.zeros((N_BASKETS, len(items)), bool)
    for basket, n_styles in enumerate(rng.choice([1, 2], N_BASKETS, p=[0.6, 0.4])):
        has[basket, rng.choice(len(STYLES), n_styles, replace=False)] = True
        wanted = holds[has[basket]].any(axis=0)
        bought[basket] = rng.random(len(items)) < np.where(wanted, 1 - DROPPED, SPURIOUS)
    baskets = pd.RangeIndex(1, N_BASKETS + 1, name="basket")  # as lines of a file are counted
    return (
        pd.DataFrame(bought, baskets, items).astype(int),
        pd.DataFrame(has, baskets, list(STYLES)),
        pd.DataFrame(holds, list(STYLES), items),
    )
