"""Make roles.csv, who may do what in a made-up company, and roles-truth.csv, why.

The table and its story are those of ``thali.datasets.roles()``.
"""

from pathlib import Path

import pandas as pd

from thali.datasets import roles


def main():
    """Write both files beside this one."""
    folder = Path(__file__).parent
    table, has, allows, _ = roles()
    table.to_csv(folder / "roles.csv")
    rights = {role: allows.columns[allows.loc[role]] for role in allows.index}
    lines = [(role, "permission", right) for role in rights for right in rights[role]]
    lines += [(role, "user", user) for role in rights for user in has.index[has[role]]]
    pd.DataFrame(lines, columns=["role", "kind", "name"]).to_csv(
        folder / "roles-truth.csv", index=False
    )


if __name__ == "__main__":
    main()
