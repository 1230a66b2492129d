"""Make kitchen.basket: shopping for made-up dinners, one basket a line.

Every dinner is of one style of cooking, or two; nobody buys all that a style could have, and
something else falls into the basket now and then.
"""

from pathlib import Path

import numpy as np

STYLES = {
    "curry": "onion, garlic, ginger, turmeric, cumin, coriander, chickpeas, rice, chili, yoghurt",
    "pasta": "pasta, tomatoes, garlic, basil, parmesan, olive oil, mozzarella, capers",
    "baking": "flour, sugar, butter, eggs, vanilla, baking powder, milk, lemon",
    "tacos": "tortillas, beans, avocado, lime, coriander, chili, tomatoes, cheddar",
    "noodles": "noodles, soy sauce, ginger, sesame oil, tofu, spring onions, mushrooms, lime",
    "breakfast": "bread, butter, jam, coffee, milk, eggs, oranges, oats",
}
DROPPED, SPURIOUS, N_BASKETS, SEED = 0.12, 0.01, 120, 3


def make():
    """Return baskets, lists of items."""
    rng = np.random.default_rng(SEED)
    items = sorted({item for style in STYLES for item in STYLES[style].split(", ")})
    holds = np.array([[item in STYLES[style].split(", ") for item in items] for style in STYLES])
    baskets = []
    for n_styles in rng.choice([1, 2], N_BASKETS, p=[0.6, 0.4]):
        wanted = holds[rng.choice(len(STYLES), n_styles, replace=False)].any(axis=0)
        bought = rng.random(len(items)) < np.where(wanted, 1 - DROPPED, SPURIOUS)
        baskets.append([item for item, is_in in zip(items, bought, strict=True) if is_in])
    return baskets


def main():
    """Write the file beside this one."""
    lines = [", ".join(basket) + "\n" for basket in make()]
    (Path(__file__).parent / "kitchen.basket").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
