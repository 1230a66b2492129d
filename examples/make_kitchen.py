"""Make kitchen.basket: shopping for made-up dinners, one basket a line.

The baskets and their story are those of ``thali.datasets.kitchen()``.
"""

from pathlib import Path

from thali.datasets import kitchen


def main():
    """Write the file beside this one."""
    table = kitchen().data
    lines = [", ".join(table.columns[basket == 1]) + "\n" for basket in table.to_numpy()]
    (Path(__file__).parent / "kitchen.basket").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
