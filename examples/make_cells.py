"""Make cells.csv, counts of genes in simulated blood cells, and cells-types.csv, their types.

The counts and their story are those of ``thali.datasets.cells()``.
"""

from pathlib import Path

from thali.datasets import cells

N_TYPES = 4  # the programmes after these are states


def main():
    """Write both files beside this one."""
    folder = Path(__file__).parent
    counts, runs, _, _ = cells()
    counts.to_csv(folder / "cells.csv")
    types = runs.iloc[:, :N_TYPES].idxmax(axis=1)
    told = runs.astype(int)
    told.insert(0, "type", types)
    told.to_csv(folder / "cells-types.csv")


if __name__ == "__main__":
    main()
