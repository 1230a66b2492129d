"""What few rows and columns need in two calls is what levels do step by step."""

import numpy as np
import pytest

import thali
from support.mutants import mutate
from thali.model import Effects, Model
from thali.sampler import Schedule, Target, level_weights, levels
from thali.sampler.moves.at_once import Patience
from thali.streams import Stream, chain_key

KEY = chain_key(4)
PRIORS = {
    "default": Effects(),
    "one jump": Effects(jumps=False),
    "own jumps of all sizes": Effects(jump_stride=1),
    "rows alone": Effects(columns=False),
    "columns alone": Effects(rows=False),
    "nothing": Effects(rows=False, columns=False, jumps=False),
    "no lattice": Effects(row_levels=(-np.pi / 2, 0.0, 1.5), spreads=(0.0, 0.3, 2.0)),
}
SETTINGS = {
    "all drawn": {},
    "jumps held": {"is_jump_held": True},
    "columns held": {"is_column_held": True},
    "fewer effects": {"prior": Effects(rows=False, columns=False, jumps=False)},
}
MISTAKES = {
    "rows do not go down": ("rows - down, columns", "rows, columns"),
    "groups of offsets stay": ("else fine, *groups,", "else fine, groups[0], 0,"),
    "no offset with rows": ("0 if is_offset_held else fine", "0"),
    "one level for all classes": ("tuple(counts), values,", "tuple(counts), 0 * values,"),
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(levels, "PATIENCE", Patience(0))


def draws(noise_prior, shape=(40, 60), n=10, **settings):
    """Return levels that follow each other, with fixed components; some entries are unknown."""
    made = thali.simulate(shape, 3, spurious=0.1, dropped=0.2, unknown=0.1, seed=1)
    rng = np.random.default_rng(2)
    factors = [rng.random((n, 3)) < 0.3 for n in shape]
    target = Target.prepare(made.tensor, Model(3, noise=noise_prior), Schedule(), threads=1)
    state, found = target.initial(KEY, factors), []
    for number in range(n):
        stream = Stream(KEY, np.uint64(number))
        noise = levels.draw_levels(stream, state, target, number=number, **settings)
        state = state._replace(noise=noise)
        parts = noise.rows, noise.columns, noise.jumps, *noise.row_classes, *noise.column_classes
        found.append([noise.hyper, *(part.tolist() for part in parts)])
    return found


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", PRIORS)
def test_the_same_levels(name, setting, monkeypatch):
    """Every level, mean, spread and class is the same; if all is drawn, it changes."""
    found = draws(PRIORS[name], **SETTINGS[setting])
    monkeypatch.setattr(levels, "_FEW_LINES", 0)
    assert found == draws(PRIORS[name], **SETTINGS[setting])
    assert SETTINGS[setting] or len({str(one) for one in found}) > 5


def test_the_same_levels_of_so_many_rows_that_sums_have_parts(monkeypatch):
    """Sums over many rows are added up in the same order."""
    shape = 2 * levels.CHUNK + 3, 12
    found = draws(PRIORS["default"], shape, 2)
    monkeypatch.setattr(levels, "_FEW_LINES", 0)
    assert found == draws(PRIORS["default"], shape, 2)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_noticed(mistake, monkeypatch):
    """The same comparison fails."""
    expected = draws(PRIORS["default"], n=20)
    mutant = mutate("thali.sampler.matrix_levels", [MISTAKES[mistake]])
    monkeypatch.setattr(levels, "draw_matrix", mutant.draw_matrix)
    assert draws(PRIORS["default"], n=20) != expected


@pytest.mark.parametrize("n", [4, 16, 116])
def test_means_of_jumps_are_in_question_in_groups(n):
    """Every mean is in one group, whichever of the group is the present one; limits alternate."""
    limits = []
    assert {level_weights.means_together(mean, 8, n) for mean in range(n)} == {(0, n)}
    for number in (1, 2):
        groups = {level_weights.means_together(mean, number, n) for mean in range(n)}
        assert sorted(k for lo, hi in groups for k in range(lo, hi)) == list(range(n))
        limits.append({lo for lo, _ in groups} - {0})
    assert not limits[0] & limits[1]
