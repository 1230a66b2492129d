"""The data that come with thali: their scripts, their truth, and what thali finds in them."""

import re
import runpy
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import thali
from thali.data.readers.files import read

FOLDER = Path(__file__).parents[1] / "examples"
SHORT = {"chains": 2, "warmup": 50, "draws": 50, "seed": 1}
FILES = {
    "make_roles": ["roles.csv", "roles-truth.csv"],
    "make_kitchen": ["kitchen.basket"],
    "make_cells": ["cells.csv", "cells-types.csv"],
}


@pytest.mark.parametrize("name", FILES)
def test_scripts_write_their_files_again(name, tmp_path):
    """What lies here is what the script makes, byte for byte."""
    copy = shutil.copy(FOLDER / f"{name}.py", tmp_path)
    runpy.run_path(str(copy), run_name="__main__")
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([f"{name}.py", *FILES[name]])
    for file in FILES[name]:
        assert (tmp_path / file).read_bytes() == (FOLDER / file).read_bytes()


def test_data_sets_are_those_of_the_files():
    """``thali.datasets`` returns what lies here, with names; each tells its story."""
    datasets = thali.datasets
    for name in ("animals", "roles", "cells"):
        found = getattr(datasets, name)()
        pd.testing.assert_frame_equal(found.data, pd.read_csv(FOLDER / f"{name}.csv", index_col=0))
        assert found.story.endswith(".")
    baskets = read(FOLDER / "kitchen.basket")
    table = datasets.kitchen().data[list(baskets.row_names[1])]
    again = thali.BinaryTensor.from_any(table.to_numpy())
    for one, other in zip(again.rows(0, 120), baskets.rows(0, 120), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", ["roles", "kitchen", "cells", "survey"])
def test_the_truth_fits_the_data(name):
    """Ones are far more frequent where the planted components are than elsewhere."""
    data, has, holds, story = getattr(thali.datasets, name)()
    assert list(has.index) == list(data.index)
    assert list(holds.columns) == list(data.columns)
    is_covered = (has.to_numpy().astype(int) @ holds.to_numpy().astype(int)) > 0
    is_known, is_one = data.notna().to_numpy(), data.to_numpy() > 0
    assert is_one[is_covered & is_known].mean() > 0.8
    assert is_one[~is_covered & is_known].mean() < 0.16
    assert story.endswith(".")


def test_people_and_questions_of_the_survey_differ():
    """As its story says: four questions are common outside of interests, answers are missing."""
    data, has, holds, _ = thali.datasets.survey()
    is_covered = (has.to_numpy().astype(int) @ holds.to_numpy().astype(int)) > 0
    outside = data.mask(is_covered)
    common = outside.mean()[holds.sum() == 0]
    assert len(common) == 4
    assert common.min() > 0.5 > 2 * outside.mean().drop(common.index).max()
    # Binomial with 6,240 trials: mean 374, standard deviation 18.8; 4 of these either way.
    assert abs(data.isna().to_numpy().sum() - 0.06 * data.size) < 4 * np.sqrt(data.size * 0.0564)
    # Equal people would have shares that differ as those of 30 questions do by chance.
    assert outside.drop(columns=common.index).mean(axis=1).std() > 1.3 * np.sqrt(0.07 * 0.93 / 28)


def truth_of_roles():
    """Return users x roles and roles x permissions, from the file."""
    told = pd.read_csv(FOLDER / "roles-truth.csv")
    users, rights = (told[told["kind"] == kind] for kind in ("user", "permission"))
    return pd.crosstab(users["name"], users["role"]), pd.crosstab(rights["role"], rights["name"])


def test_roles_have_errors_as_told():
    """Two entries in a hundred differ from what the roles say, within what chance allows."""
    table = pd.read_csv(FOLDER / "roles.csv", index_col=0)
    has, allows = truth_of_roles()
    allows = allows.reindex(columns=table.columns, fill_value=0)
    n_wrong = ((has @ allows > 0).loc[table.index] != (table == 1)).to_numpy().sum()
    # Binomial with 7,200 trials: mean 144, standard deviation 11.9; 4 of these either way.
    assert table.shape == (120, 60)
    assert abs(n_wrong - 0.02 * table.size) < 4 * np.sqrt(table.size * 0.02 * 0.98)
    assert has.shape[1] == 7
    assert (has.sum(axis=1) > 1).mean() > 0.2


def planted():
    """Return, for every example, the data, and for every part of the truth its columns."""
    table = read(FOLDER / "roles.csv")
    _, allows = truth_of_roles()
    allows = allows.reindex(columns=table.row_names[1], fill_value=0)
    yield "roles", table, allows.to_numpy(bool)

    baskets = read(FOLDER / "kitchen.basket")
    styles = thali.datasets.kitchen().components[list(baskets.row_names[1])]
    yield "kitchen", baskets, styles.to_numpy()

    counts = pd.read_csv(FOLDER / "cells.csv", index_col=0)
    share = (counts > 0).mean()
    chosen = counts.loc[:, (share > 0.05) & (share < 0.8)] > 0
    programmes = thali.datasets.cells().components[chosen.columns]
    yield "cells", chosen, programmes.to_numpy()


@pytest.mark.parametrize(("data", "truth"), [pytest.param(*p[1:], id=p[0]) for p in planted()])
@pytest.mark.filterwarnings("ignore::thali.errors.NotConverged")  # the run is short
def test_what_was_planted_is_found(data, truth):
    """The number of shared components is right, and the point estimate has them, to the entry."""
    posterior = thali.sample(data, **SHORT)
    assert posterior.n_components_table(least_users=2).idxmax() == len(truth)
    codes = {tuple(c) for c in posterior.point_estimate().factors[1].dense().T}
    assert {tuple(part) for part in truth} <= codes


def test_cells_have_the_programmes_of_their_type():
    """Every cell has the programme of its type and no other type's."""
    told = pd.read_csv(FOLDER / "cells-types.csv", index_col=0)
    types = list(told.columns[1:5])
    np.testing.assert_array_equal(told[types].idxmax(axis=1), told["type"])
    assert (told[types].sum(axis=1) == 1).all()
    assert list(told.index) == list(pd.read_csv(FOLDER / "cells.csv", index_col=0).index)


def test_page_of_the_examples_is_complete():
    """It names every file, and gives the size of each."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    files = {p.name for p in FOLDER.iterdir() if p.is_file()} - {"README.md"}
    assert {name for name in files if f"`{name}`" not in text} == set()
    sizes = re.findall(r"`(\w+\.csv)` \| (\d+) [a-z ]+ \W (\d+) ", text)
    assert [name for name, *_ in sizes] == ["animals.csv", "roles.csv", "cells.csv"]
    for name, *told in sizes:
        shape = pd.read_csv(FOLDER / name, index_col=0).shape
        assert tuple(map(int, told)) == shape
    baskets = (FOLDER / "kitchen.basket").read_text(encoding="utf-8").splitlines()
    items = {item for basket in baskets for item in basket.split(", ")}
    assert f"{len(baskets)} baskets of {len(items)} items" in text
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert (FOLDER / link).exists(), link
