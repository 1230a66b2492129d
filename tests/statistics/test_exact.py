"""The oracles and the comparisons are themselves tested: everything else leans on them."""

from itertools import product
from math import exp, factorial

import numpy as np
import pytest
import scipy.stats
from scipy.integrate import dblquad, quad

from support import compare, exact
from support.exact import Priors

X22 = np.array([[1, 0], [1, 1]])
X32 = np.array([[1, 1], [1, 0], [0, 1]])
X222 = np.array([[[1, 1], [0, 1]], [[1, 0], [0, 0]]])
BASE = {"alpha": 0.9, "density": (0.3,), "spurious": 0.1, "dropped": 0.2}
GRID = ((0.1, 0.4, 0.8), (0.3, 0.5, 0.2))


def all_known(x):
    return np.ones(x.shape, dtype=bool)


def one_unknown(x):
    known = all_known(x)
    known.flat[1] = False
    return known


def likelihood_by_cells(x, known, predicted, spurious, dropped):
    """Probability of the data given one prediction, cell by cell."""
    total = 1.0
    for value, seen, f in zip(x.flat, known.flat, predicted.flat, strict=True):
        p_one = 1 - dropped if f else spurious
        if seen:
            total *= p_one if value else 1 - p_one
    return total


def brute_force_finite(x, known, n_components, column_laws, *, spurious=0.1, dropped=0.2):
    """Law of the prediction times likelihood, by a loop over every bit of every factor.

    `column_laws[j]` is the probability of one component's column of mode j.
    """
    out = np.zeros(1 << x.size)
    modes = [list(product((0, 1), repeat=s)) for s in x.shape]
    for components in product(list(product(*modes)), repeat=n_components):
        predicted = np.zeros(x.shape, dtype=bool)
        weight = 1.0
        for columns in components:
            for law, column in zip(column_laws, columns, strict=True):
                weight *= law(column)
            for cell in product(*[range(s) for s in x.shape]):
                predicted[cell] |= all(c[i] for c, i in zip(columns, cell, strict=True))
        F = sum(1 << i for i, f in enumerate(predicted.flat) if f)
        out[F] += weight * likelihood_by_cells(x, known, predicted, spurious, dropped)
    return out / out.sum()


def bernoulli(density):
    return lambda column: density ** sum(column) * (1 - density) ** (len(column) - sum(column))


def union_zeta(values):
    """Sum over subsets, along the last axis."""
    out = np.array(values)
    S = np.arange(out.shape[-1])
    for i in range(S.size.bit_length() - 1):
        has = S[S >> i & 1 == 1]
        out[..., has] += out[..., has ^ (1 << i)]
    return out


# --- encoding ---------------------------------------------------------------------------------


def test_canonical_of_a_matrix_state():
    z = np.array([[1, 0], [1, 1]], dtype=bool)
    u = np.array([[0, 1], [1, 0]], dtype=bool)
    state = exact.canonical((z, u))
    assert state.k == 2
    assert state.prediction == 0b1110  # cells (0, 1), (1, 0) and (1, 1)
    assert state.key == (0b0110, 0b1011)


def test_canonical_ignores_labels_and_takes_no_components():
    rng = np.random.default_rng(0)
    factors = [rng.random((s, 4)) < 0.5 for s in (2, 3, 2)]
    shuffled = [f[:, [2, 0, 3, 1]] for f in factors]
    assert exact.canonical(factors) == exact.canonical(shuffled)
    covered = np.einsum("il,jl,kl->ijk", *[f.astype(int) for f in factors]) > 0
    assert exact.canonical(factors).prediction == exact.as_bitmask(covered)
    assert exact.canonical([f[:, :0] for f in factors]) == (0, 0, ())


def test_priors_reject_contradictions():
    with pytest.raises(ValueError, match="not both"):
        Priors(alpha=1.0, alpha_prior=(1.0, 1.0), density=(0.5,))
    with pytest.raises(ValueError, match="exactly one"):
        Priors(alpha=1.0)
    with pytest.raises(ValueError, match="sum to one"):
        Priors(alpha=1.0, density_grid=((0.2, 0.4), (0.5, 0.6)))
    with pytest.raises(ValueError, match="Unknown noise"):
        Priors(alpha=1.0, density=(0.5,), noise="loud")


# --- likelihood -------------------------------------------------------------------------------


def test_fixed_noise_by_cells():
    known = one_unknown(X32)
    got = exact.likelihood(X32, known, Priors(**BASE))
    for F, covered in enumerate(exact.patterns(6)):
        want = likelihood_by_cells(X32, known, covered, 0.1, 0.2)
        assert got[F] == pytest.approx(want, rel=1e-12)


def average_over_rate(prior, function):
    """Expectation of a function of e ~ Beta(prior) truncated to (0, 1/2)."""
    law = scipy.stats.beta(*prior)
    return quad(lambda e: function(e) * law.pdf(e), 0, 0.5)[0] / law.cdf(0.5)


@pytest.mark.parametrize("F", [0, 5, 15])
def test_integrated_noise_by_quadrature(F):
    known = one_unknown(X22)
    f = exact.patterns(4)[F].reshape(2, 2)
    priors = Priors(density=(0.3,), noise="equal", error_prior=(2.0, 6.0))
    want = average_over_rate((2.0, 6.0), lambda e: likelihood_by_cells(X22, known, f, e, e))
    assert exact.likelihood(X22, known, priors)[F] == pytest.approx(want, rel=1e-9)
    a, b = (1.5, 5.0), (2.0, 4.0)
    priors = Priors(density=(0.3,), noise="unequal", spurious_prior=a, dropped_prior=b)
    laws = scipy.stats.beta(*a), scipy.stats.beta(*b)

    def integral(function):
        def density(e1, e0):
            return function(e0, e1) * laws[0].pdf(e0) * laws[1].pdf(e1)

        return dblquad(density, 0, 1, 0, lambda e0: 1 - e0, epsabs=1e-12)[0]

    want = integral(lambda *e: likelihood_by_cells(X22, known, f, *e)) / integral(lambda *_: 1.0)
    assert exact.likelihood(X22, known, priors)[F] == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize("noise", ["fixed", "equal", "unequal"])
def test_likelihood_is_normalised_over_data(noise):
    priors = Priors(density=(0.3,), noise=noise, error_prior=(2.0, 3.0))
    total = sum(
        exact.likelihood(np.array(bits).reshape(2, 2), all_known(X22), priors)
        for bits in product((0, 1), repeat=4)
    )
    assert np.allclose(total, 1.0, atol=1e-12)


# --- nonparametric model ----------------------------------------------------------------------


@pytest.mark.parametrize("x", [X22, X32, X222], ids=["2x2", "3x2", "2x2x2"])
@pytest.mark.parametrize("law", ["fixed", "learned", "grid"])
def test_number_of_components_without_data_is_poisson(x, law):
    density = {
        "fixed": {"density": (0.3, 0.6)[: x.ndim - 1]},
        "learned": {"density_prior": (2.0, 3.0)},
        "grid": {"density_grid": GRID},
    }[law]
    priors = Priors(alpha=1.3, **density)
    joint = exact.joint_ibp(x, ~all_known(x), priors, max_components=10)
    want = scipy.stats.poisson(1.3 * exact.harmonic(len(x))).pmf(np.arange(11))
    assert np.abs(joint.sum(axis=1) - want).max() < 1e-13


def test_posteriors_are_normalised_and_possible():
    P = exact.posterior_ibp(X32, one_unknown(X32), Priors(**BASE))
    assert P.shape == (17, 64)
    assert P.sum() == pytest.approx(1.0, abs=1e-13)
    assert (P >= 0).all()
    assert (P[0, 1:] == 0).all()  # no component covers nothing
    diagonal = exact.as_bitmask([[1, 0], [0, 1], [0, 0]])
    assert P[1, diagonal] == 0  # not a box
    assert P[2, diagonal] > 0


@pytest.mark.parametrize("x", [X32, X222], ids=["3x2", "2x2x2"])
def test_union_law_against_its_closed_form(x):
    """P(k components, all inside S) is Poisson with the rate of the boxes inside S."""
    density = (0.3, 0.6)[: x.ndim - 1]
    joint = exact.joint_ibp(x, ~all_known(x), Priors(alpha=1.1, density=density), 8)
    rate = np.zeros(1 << x.size)
    for columns in product(*[list(product((0, 1), repeat=s)) for s in x.shape]):
        m, n = sum(columns[0]), len(x)
        if m:
            weight = 1.1 * factorial(n - m) * factorial(m - 1) / factorial(n)
            for q, u in zip(density, columns[1:], strict=True):
                weight *= bernoulli(q)(u)
            box = np.array(columns[0])
            for u in columns[1:]:
                box = np.multiply.outer(box, u)
            rate[exact.as_bitmask(box)] += weight
    inside = union_zeta(rate)
    void = exp(-1.1 * exact.harmonic(len(x)))
    for k, row in enumerate(union_zeta(joint)):
        assert np.allclose(row, void * inside**k / factorial(k), rtol=1e-12, atol=0)


@pytest.mark.parametrize("noise", ["fixed", "equal"])
@pytest.mark.parametrize("x", [X22, X32], ids=["2x2", "3x2"])
def test_two_oracles_agree(x, noise):
    priors = Priors(**BASE, noise=noise)
    known = one_unknown(x)
    n, d = x.shape
    P = exact.posterior_ibp(x, known, priors, max_components=3)
    states = exact.posterior_states(x, known, priors, max_components=3)
    assert sum(states.values()) == pytest.approx(1.0, abs=1e-12)
    Q = np.zeros_like(P)
    for key, p in states.items():
        bits = np.array([[c >> i & 1 for c in key] for i in range(n + d)], dtype=bool)
        state = exact.canonical((bits[:n], bits[n:]))
        assert state.key == key
        Q[state.k, state.prediction] += p
    assert np.abs(P - Q).max() < 1e-12


def test_states_by_hand():
    """One row, one feature: the components are of two kinds, with independent Poisson numbers."""
    priors = Priors(alpha=2.0, density=(0.25,), spurious=0.1, dropped=0.3)
    states = exact.posterior_states([[1]], [[True]], priors, max_components=3)
    off, on = 0b01, 0b11
    base = states[()]
    assert len(states) == 1 + 2 + 3 + 4
    assert states[(off,)] / base == pytest.approx(1.5)
    assert states[(on,)] / base == pytest.approx(0.5 * 0.7 / 0.1)
    assert states[(off, off, on)] / base == pytest.approx(1.5**2 / 2 * 0.5 * 7)
    assert states[(on, on, on)] / base == pytest.approx(0.5**3 / 6 * 7)


def test_learned_alpha_by_numerical_integration():
    shape, rate = 2.0, 1.5
    known = one_unknown(X32)
    fixed = {key: value for key, value in BASE.items() if key != "alpha"}
    learned = exact.joint_ibp(X32, known, Priors(**fixed, alpha_prior=(shape, rate)), 12)
    density = scipy.stats.gamma(shape, scale=1 / rate).pdf
    # the integrand is exp(-c alpha) times a polynomial: Gauss-Laguerre is exact
    c = rate + exact.harmonic(3)
    t, w = np.polynomial.laguerre.laggauss(12)
    total = 0.0
    for node, weight in zip(t / c, w / c, strict=True):
        joint = exact.joint_ibp(X32, known, Priors(**(BASE | {"alpha": node})), 12)
        total = total + weight * exp(c * node) * density(node) * joint
    assert np.allclose(learned, total, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("x", [X22, X222], ids=["2x2", "2x2x2"])
def test_learned_density_by_numerical_integration(x):
    """With q = sin^2 and a half-integer Beta the integrand is a trigonometric polynomial.

    Its degree in the doubled angle is 2 * 4 + 3, so eight midpoints are exact.
    """
    known = one_unknown(x)
    learned = exact.joint_ibp(x, known, Priors(alpha=0.9, density_prior=(1.5, 2.5)), 4)
    q, w = half_integer_nodes((1.5, 2.5), 8)
    total = 0.0
    for i in product(range(q.size), repeat=x.ndim - 1):
        priors = Priors(alpha=0.9, density=tuple(q[list(i)]))
        total = total + w[list(i)].prod() * exact.joint_ibp(x, known, priors, 4)
    # Differences of sums of up to one are right to some 1e-16.
    assert np.allclose(learned, total, rtol=1e-10, atol=1e-15)


def half_integer_nodes(prior, count):
    angle = (np.arange(count) + 0.5) * np.pi / (2 * count)
    q = np.sin(angle) ** 2
    return q, scipy.stats.beta(*prior).pdf(q) * np.sin(2 * angle) * np.pi / (2 * count)


@pytest.mark.parametrize("x", [X32, X222], ids=["3x2", "2x2x2"])
def test_grid_of_one_point_is_a_fixed_density(x):
    known = one_unknown(x)
    fixed = exact.posterior_ibp(x, known, Priors(alpha=0.9, density=(0.3,) * (x.ndim - 1)))
    grid = exact.posterior_ibp(x, known, Priors(alpha=0.9, density_grid=((0.3,), (1.0,))))
    assert np.abs(fixed - grid).max() < 1e-14


def test_grid_differs_from_its_mean_and_from_one_shared_draw():
    """One component follows the mixture; two components mix independently."""
    known = one_unknown(X22)
    grid = exact.joint_ibp(X22, known, Priors(alpha=0.9, density_grid=GRID), 2)
    each = [exact.joint_ibp(X22, known, Priors(alpha=0.9, density=(q,)), 2) for q in GRID[0]]
    shared = np.tensordot(GRID[1], each, axes=1)
    assert np.allclose(grid[:2], shared[:2], rtol=1e-12, atol=0)
    assert np.abs(grid[2] / shared[2] - 1).max() > 0.01


def test_twelve_cells_are_feasible():
    x = np.arange(12).reshape(3, 4) % 3 == 0
    P = exact.posterior_ibp(x, all_known(x), Priors(**BASE))
    assert P.shape == (17, 4096)
    assert P.sum() == pytest.approx(1.0, abs=1e-12)
    with pytest.raises(ValueError, match="at most 12 cells"):
        exact.posterior_ibp(np.zeros((13, 1)), np.ones((13, 1), bool), Priors(**BASE))


# --- finite model -----------------------------------------------------------------------------


def test_finite_matrix_by_brute_force():
    known = one_unknown(X22)
    got = exact.posterior_finite(X22, known, Priors(**BASE), 2, density_rows=0.4)
    laws = [bernoulli(0.4), bernoulli(0.3)]
    assert np.abs(got - brute_force_finite(X22, known, 2, laws)).max() < 1e-12


def test_finite_tensor_by_brute_force():
    known = one_unknown(X222)
    priors = Priors(density=(0.3, 0.7), spurious=0.1, dropped=0.2)
    got = exact.posterior_finite(X222, known, priors, 1, density_rows=0.4)
    laws = [bernoulli(0.4), bernoulli(0.3), bernoulli(0.7)]
    assert np.abs(got - brute_force_finite(X222, known, 1, laws)).max() < 1e-12


@pytest.mark.parametrize("density_rows", [None, 0.4])
def test_finite_grid_by_brute_force(density_rows):
    known = one_unknown(X22)
    priors = Priors(density_grid=GRID, spurious=0.1, dropped=0.2)
    got = exact.posterior_finite(X22, known, priors, 2, density_rows=density_rows)

    def mixture(column):
        return sum(w * bernoulli(q)(column) for q, w in zip(*GRID, strict=True))

    laws = [mixture if density_rows is None else bernoulli(density_rows), mixture]
    assert np.abs(got - brute_force_finite(X22, known, 2, laws)).max() < 1e-12


@pytest.mark.parametrize("density_rows", [None, 0.4])
def test_finite_learned_densities_by_numerical_integration(density_rows):
    known = one_unknown(X32)
    prior = (1.5, 2.5)
    learned = exact.joint_finite(X32, known, Priors(density_prior=prior), 2, density_rows)
    q, w = half_integer_nodes(prior, 8)
    rows = zip(q, w, strict=True) if density_rows is None else [(density_rows, 1.0)]
    total = 0.0
    for (p, v), (r, u) in product(rows, list(zip(q, w, strict=True))):
        total = total + u * v * exact.joint_finite(X32, known, Priors(density=(r,)), 2, p)
    assert np.allclose(learned, total, rtol=1e-10, atol=0)


def test_finite_needs_every_density():
    with pytest.raises(ValueError, match="density_rows"):
        exact.posterior_finite(X22, all_known(X22), Priors(**BASE), 2)


# --- comparisons ------------------------------------------------------------------------------


def independent_draws(P, n, rng):
    i = rng.choice(P.size, size=n, p=P.ravel())
    return np.divmod(i, P.shape[-1])


def sticky_draws(P, n, rng, stay):
    """A chain that keeps its state with probability `stay` and else draws afresh from P."""
    ks, Fs = independent_draws(P, n, rng)
    fresh = rng.random(n) >= stay
    fresh[0] = True
    last = np.maximum.accumulate(np.where(fresh, np.arange(n), 0))
    return ks[last], Fs[last]


def table(**change):
    return exact.posterior_ibp(X32, one_unknown(X32), Priors(**(BASE | change)))


def test_bound_is_the_quantile_it_claims_to_be():
    for m, batches in ((1, 50), (20, 50), (300, 100)):
        t = compare.bound(m, batches)
        assert 2 * m * scipy.stats.t(batches - 1).sf(t) == pytest.approx(1e-6, rel=1e-6)
    assert compare.bound(20) == pytest.approx(6.4, abs=0.05)


def test_right_sampler_is_accepted():
    P = table()
    compare.assert_matches(*independent_draws(P, 100_000, np.random.default_rng(1)), P)


@pytest.mark.parametrize("change", [{"alpha": 0.94}, {"density": (0.315,)}, {"dropped": 0.19}])
def test_slightly_wrong_sampler_is_rejected(change):
    P, wrong = table(), table(**change)
    assert compare.total_variation(P, wrong) < 0.025
    draws = independent_draws(wrong, 400_000, np.random.default_rng(2))
    assert compare.rejects(*draws, P)
    with pytest.raises(AssertionError, match="worst"):
        compare.assert_matches(*draws, P)
    compare.assert_matches(*draws, wrong)


def test_autocorrelation_is_paid_for():
    """A chain with autocorrelation time 39: its plain standard errors are six times too small."""
    P = table()
    wrong = table(alpha=1.3)
    rng = np.random.default_rng(3)
    compare.assert_matches(*sticky_draws(P, 200_000, rng, stay=0.95), P)
    assert compare.rejects(*sticky_draws(wrong, 200_000, rng, stay=0.95), P)


@pytest.mark.parametrize("stay", [0.0, 0.9])
def test_false_alarms_are_as_rare_as_promised(stay):
    """At a level of 5 % the bound holds in at least 95 % of runs, and is not vacuous."""
    P = table()
    rng = np.random.default_rng(4)
    runs = 200
    n = 4000 if stay == 0 else 20_000
    z = [compare.z_scores(*sticky_draws(P, n, rng, stay), P) for _ in range(runs)]
    alarms = sum(compare._largest(v) > compare.bound(len(v), level=0.05) for v in z)
    assert alarms <= scipy.stats.binom(runs, 0.05).isf(1e-4)
    assert max(map(compare._largest, z)) < compare.bound(20)
    scores = np.concatenate([list(v.values()) for v in z])
    assert 0.85 < scores.std() < 1.15


def test_rare_events_do_not_alarm():
    """Two points, one of probability p: whatever p, the largest score stays moderate."""
    rng = np.random.default_rng(5)
    n, worst = 5000, 0.0
    for p in np.geomspace(1e-5, 0.1, 13):
        P = np.array([1 - p, p])
        for stay in (0.0, 0.8):
            for _ in range(15):
                _, Fs = sticky_draws(P, n, rng, stay)
                worst = max(worst, compare.max_abs_z(None, Fs, P))
    assert worst < compare.bound(2)


def test_impossible_events_are_rejected_at_once():
    P = table()
    ks, Fs = independent_draws(P, 10_000, np.random.default_rng(6))
    assert not compare.rejects(ks, Fs, P)
    ks[-1], Fs[-1] = 0, 1
    assert compare.max_abs_z(ks, Fs, P) == np.inf
    assert compare.rejects(ks, Fs, P)


def test_table_without_number_of_components():
    P = exact.posterior_finite(X32, one_unknown(X32), Priors(**BASE), 2, density_rows=0.4)
    wrong = exact.posterior_finite(X32, one_unknown(X32), Priors(**BASE), 2, density_rows=0.42)
    rng = np.random.default_rng(7)
    compare.assert_matches(None, rng.choice(P.size, size=100_000, p=P), P)
    assert compare.rejects(None, rng.choice(P.size, size=100_000, p=wrong), P)


def test_inconclusive_comparisons_say_so():
    P = table()
    rng = np.random.default_rng(8)
    with pytest.raises(ValueError, match="too few"):
        compare.rejects(*independent_draws(P, 60, rng), P)
    with pytest.raises(ValueError, match="too short"):
        compare.rejects(*sticky_draws(P, 20_000, rng, stay=0.998), P)
    short = exact.posterior_ibp(X32, one_unknown(X32), Priors(**BASE), max_components=4)
    with pytest.raises(ValueError, match="enumerate more"):
        compare.rejects(*independent_draws(short, 10_000, rng), short)
    with pytest.raises(ValueError, match="No summary"):
        compare.assert_matches(None, np.zeros(500, int), np.array([1 - 1e-6, 1e-6]))
    ks, Fs = independent_draws(P, 1000, rng)
    with pytest.raises(ValueError, match="outside"):
        compare.rejects(ks, Fs + 64, P)
    with pytest.raises(ValueError, match="same length"):
        compare.rejects(ks[1:], Fs, P)


def test_states_are_compared():
    known = one_unknown(X22)
    states = exact.posterior_states(X22, known, Priors(**BASE), 3)
    wrong = exact.posterior_states(X22, known, Priors(**(BASE | {"density": (0.33,)})), 3)
    rng = np.random.default_rng(9)

    def draws(law, n):
        keys = list(law)
        return [keys[i] for i in rng.choice(len(keys), size=n, p=list(law.values()))]

    right = draws(states, 50_000)
    compare.assert_states_match(right, states)
    assert compare.rejects_states(draws(wrong, 50_000), states)
    assert compare.rejects_states([*right, (99,)], states)


def autoregression(n, m, rho, rng):
    """Stationary standard normal chains, one per column."""
    out = np.empty((n, m))
    out[0] = rng.standard_normal(m)
    noise = np.sqrt(1 - rho**2) * rng.standard_normal((n, m))
    for i in range(1, n):
        out[i] = rho * out[i - 1] + noise[i]
    return out


def test_geweke_scores():
    rng = np.random.default_rng(10)
    prior = rng.standard_normal((10_000, 40))
    chain = autoregression(20_000, 40, 0.8, rng)
    z = compare.geweke_z(prior, chain)
    assert z.shape == (40,)
    assert 0.7 < z.std() < 1.3
    assert not compare.geweke_rejects(prior, chain)
    compare.assert_geweke(prior, chain)
    shifted = chain + np.where(np.arange(40) == 3, 0.2, 0.0)
    assert compare.geweke_rejects(prior, shifted)
    with pytest.raises(AssertionError, match="worst: s3"):
        compare.assert_geweke(prior, shifted, names=[f"s{i}" for i in range(40)])


def test_geweke_constant_and_invalid_columns():
    rng = np.random.default_rng(11)
    prior = np.column_stack([rng.standard_normal(500), np.ones(500), np.ones(500), np.ones(500)])
    chain = np.column_stack([rng.standard_normal(500), np.ones(500), np.zeros(500), np.ones(500)])
    chain[7, 3] = np.nan
    z = compare.geweke_z(prior, chain)
    assert abs(z[0]) < 5
    assert z[1] == 0
    assert np.isinf(z[2])
    assert np.isinf(z[3])


def test_total_variation():
    assert compare.total_variation([0.5, 0.5], [0.25, 0.75]) == pytest.approx(0.25)
    assert compare.total_variation({"a": 1.0}, {"b": 1.0}) == 1.0
    assert compare.total_variation({"a": 0.5, "b": 0.5}, {"a": 0.5, "b": 0.5}) == 0.0
