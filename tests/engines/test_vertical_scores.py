"""Scores in single precision leave to integers whatever is not certain."""

import pytest

from support.classes import Case
from support.mutants import mutate, one_quickly
from thali.engines.cpu import draw_rows
from thali.engines.cpu.engine import CpuEngine
from thali.model import Weights

MISTAKES = {
    "nothing is near": ("_ROUNDING * terms", "-np.float64(LIMIT)"),
    "counts of another row": ("(row & _7) * _LINE + (row >> _3)", "(row & _7) * _LINE"),
    "single-row components are forgotten": ("singles[first + i] > 0", "singles[first + i] > 99"),
}


def drawn(form):
    """Draw all users with weak data, which leave most open, and with stronger ones."""
    found = []
    for strength in (1, 5, 25):
        case = Case((300, 200), 6, n_classes=(1, 1))
        weights = Weights(strength * case.weights.fixed().table)
        order = case.order(0)._replace(weights=weights, prior=3 * strength * case.prior)
        users, gained = case.loaded(CpuEngine(1, form)).update(order, case.factors[0])
        found.append((users.words.tolist(), tuple(gained)))
    return found


def test_forms_agree():
    """Both forms draw the same bits; some rows have single-row components integrated out."""
    assert drawn("vertical") == drawn("horizontal")


@pytest.mark.parametrize("mistake", one_quickly(MISTAKES))
def test_mistakes_are_found(mistake, monkeypatch):
    """The same comparison fails."""
    mutant = mutate("thali.engines.cpu.vertical", [MISTAKES[mistake]])
    monkeypatch.setattr(draw_rows, "vertical", mutant)
    assert drawn("vertical") != drawn("horizontal")
