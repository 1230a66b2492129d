"""Small data of our own making, to try thali on: written by hand or simulated.

Every function returns a :class:`Dataset`: the table, the components behind it if they are known,
and its story. Nothing is downloaded.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Dataset", "animals", "cells", "kitchen", "roles", "survey"]


class Dataset(NamedTuple):
    """A table with its story, and the components behind it if the table is simulated."""

    data: pd.DataFrame
    memberships: pd.DataFrame | None  # Boolean, rows x components: the truth; None if not known
    components: pd.DataFrame | None  # Boolean, components x columns: the truth
    story: str


def animals() -> Dataset:
    """Return 69 animals x 34 attributes, written by hand; several explanations fit them.

    Examples
    --------
    >>> import thali
    >>> animals = thali.datasets.animals()
    >>> animals.data.shape, int(animals.data.loc["lion", "hunts"])
    ((69, 34), 1)
    """
    import pandas as pd  # noqa: PLC0415 - slow to import

    with files("thali.datasets").joinpath("animals.csv").open(encoding="utf-8") as file:
        table = pd.read_csv(file, index_col=0)
    return Dataset(
        table,
        None,
        None,
        "69 animals and 34 things that an animal may have or do, written down by hand. Nobody "
        "knows the true components: kinds such as birds and fish overlap with ways of life such "
        "as hunting or living in water, and several explanations fit about equally well.",
    )


def roles() -> Dataset:
    """Return 120 users x 60 permissions of a made-up company, with 7 roles and 2% errors.

    Examples
    --------
    >>> import thali
    >>> roles = thali.datasets.roles()
    >>> roles.data.shape, list(roles.components.index)[:3]
    ((120, 60), ['developer', 'operator', 'analyst'])
    """
    from thali.datasets.company import make  # noqa: PLC0415 - needs pandas

    return Dataset(
        *make(),
        "Who may do what in a made-up company. A user has one role, two or three, and a role is "
        "a list of permissions, some of which other roles have, too. Six permissions belong to "
        "no role. Then 2% of the entries were flipped: permissions given by hand, and forgotten "
        "ones.",
    )


def kitchen() -> Dataset:
    """Return 120 baskets x 41 items bought for made-up dinners, of 6 styles of cooking.

    Examples
    --------
    >>> import thali
    >>> kitchen = thali.datasets.kitchen()
    >>> int(kitchen.data["rice"].sum()), kitchen.memberships.shape
    (19, (120, 6))
    """
    from thali.datasets.dinners import make  # noqa: PLC0415 - needs pandas

    return Dataset(
        *make(),
        "Shopping for dinners of one style of cooking, or two. Nobody buys all that a style could "
        "have (12% are left out), and now and then something else falls into the basket.",
    )


def cells() -> Dataset:
    """Return counts of 79 genes in 180 simulated blood cells, of 4 types and in 2 states.

    Examples
    --------
    >>> import thali
    >>> cells = thali.datasets.cells()
    >>> is_on = cells.data > 0  # the data are counts
    >>> bool(is_on.loc[cells.memberships["T cell"], "CD3D"].mean() > 0.8)
    True
    """
    from thali.datasets.blood import make  # noqa: PLC0415 - needs pandas

    return Dataset(
        *make(),
        "Simulated counts of genes with real names. A blood cell runs the gene programme of its "
        "type; a quarter of all cells divide, and a quarter answer to interferon, whatever their "
        "type. 15% of the genes that are on are missed, and 2% of the others are read by mistake.",
    )


def survey() -> Dataset:
    """Return answers of 160 made-up people to 39 questions on spare time, with 6 interests.

    Examples
    --------
    >>> import thali
    >>> survey = thali.datasets.survey()
    >>> survey.data.shape, int(survey.data.isna().sum().sum())
    ((160, 39), 376)
    """
    from thali.datasets.leisure import make  # noqa: PLC0415 - needs pandas

    return Dataset(
        *make(),
        "What people did in a year, by their own account. Somebody with an interest has done most "
        "of what belongs to it. Some people say yes more easily than others, four things are done "
        "by most people whatever their interests, and 6% of the answers are missing.",
    )
