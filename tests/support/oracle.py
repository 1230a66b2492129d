"""The model in plain loops: no bits, no unfolding, no Numba, nothing imported from thali.

Every conditional is read off the full tensor, entry by entry. Integers are Python's own. The
engines must agree with this file bit for bit; it is slow and meant to be obvious.

A component is a tuple of lists of 0/1, one list per mode. ``x`` maps an index tuple to 0 or 1 and
lacks the unknown entries.
"""

from __future__ import annotations

import itertools
from decimal import Decimal, getcontext
from math import exp, floor, lgamma, log, log1p

from scipy.integrate import quad
from scipy.special import betainc, betaincinv, gammaincinv

getcontext().prec = 60
ROW_BITS, BIRTH_COUNT, BIRTH_COVER, BIRTH_BITS = 1, 2, 3, 4
BIRTH_MOVE, ORDER, BLOCKS, STICKS, ALPHA, DENSITY, NOISE = 5, 6, 7, 8, 9, 10, 11
ONE = 1 << 64
GRID = 1 << 24


# --- random numbers ---------------------------------------------------------------------------


def philox(counter, key):
    """Philox 4x32-10 of a four-word counter and a two-word key."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


class Stream:
    def __init__(self, key, sweep):
        self.key, self.sweep = int(key), int(sweep)

    def bits(self, site, row, index):
        out = philox((index, row, site, self.sweep), (self.key & 0xFFFFFFFF, self.key >> 32))
        return out[0] | out[1] << 32

    def uniform(self, site, row, index):
        return ((self.bits(site, row, index) >> 12) + 0.5) / 2**52

    def permutation(self, site, row, n):
        return sorted(range(n), key=lambda i: self.bits(site, row, i))


# --- decisions --------------------------------------------------------------------------------


def fixed(value):
    return round(max(-(2.0**37), min(2.0**37, value)) * GRID)


def threshold(p):
    return ONE - 1 if p >= 1 else floor(Decimal(min(p, 1 - 2.0**-53)) * ONE)


def _table(unit, n):
    return [min(floor((Decimal(-i) / unit).exp() * ONE), ONE - 1) for i in range(n)]


UNITS, MIDDLE, LOW = _table(1, 64), _table(2**12, 4096), _table(2**24, 4096)


def exp_neg(score):
    if score >= 45 * GRID:
        return 0
    return (UNITS[score >> 24] * MIDDLE[score >> 12 & 4095] >> 64) * LOW[score & 4095] >> 64


def gibbs(score, r):
    e = exp_neg(abs(score))
    unlikely = r < e and (r * e >> 64) < e - r
    return int((score >= 0) != unlikely)


def categorical(scores, r):
    weights = [exp_neg(max(scores) - s) >> 12 for s in scores]
    left = r * sum(weights) >> 64
    for k, weight in enumerate(weights):
        if left < weight:
            return k
        left -= weight
    raise AssertionError


# --- the model --------------------------------------------------------------------------------


def covers(component, cell):
    return all(column[i] for column, i in zip(component, cell, strict=True))


def predict(components, cell):
    return any(covers(c, cell) for c in components)


def weights(spurious, dropped):
    return log((1 - dropped) / spurious), log(dropped / (1 - spurious))


def log_odds(prior, w1, w0, n_ones, n_zeros):
    """The rule behind every conditional (eq. 10), written here once."""
    return prior + w1 * n_ones + w0 * n_zeros


def confusion(x, components):
    """Return tp, fp, tn, fn."""
    counts = {(1, 1): 0, (1, 0): 0, (0, 0): 0, (0, 1): 0}
    for cell, value in x.items():
        counts[int(predict(components, cell)), value] += 1
    return counts[1, 1], counts[1, 0], counts[0, 0], counts[0, 1]


def decided_cells(x, components, mode, row, component):
    """Return how many ones and zeros of a row this component alone decides."""
    c1 = c0 = 0
    for cell, value in x.items():
        if cell[mode] != row:
            continue
        in_code = all(component[m][i] for m, i in enumerate(cell) if m != mode)
        if in_code and not predict([c for c in components if c is not component], cell):
            c1, c0 = c1 + value, c0 + (1 - value)
    return c1, c0


def update_row(stream, x, components, mode, row, w1, w0, prior, held=()):
    """Draw a row's entries, one component after another; ``prior`` is a list of integers."""
    for position, component in enumerate(components):
        if position in held:
            continue
        c1, c0 = decided_cells(x, components, mode, row, component)
        score = log_odds(prior[position], w1, w0, c1, c0)
        r = stream.bits(ROW_BITS + 64 * mode, row, position)
        component[mode][row] = gibbs(score, r)


def uncovered(x, components, row):
    n1 = n0 = 0
    for cell, value in x.items():
        if cell[0] == row and not predict(components, cell):
            n1, n0 = n1 + value, n0 + (1 - value)
    return n1, n0


def new_factor(q, k, w):
    """Log factor of an uncovered entry when k components with unknown codes are there."""
    none_on = (1 - q) ** k
    return log(none_on + (1 - none_on) * exp(w))


def births(stream, x, shape, components, row, alpha, q, noise):
    """Draw the single-row components of a row of a matrix."""
    w1, w0 = weights(*noise)
    n1, n0 = uncovered(x, components, row)
    rate = alpha / shape[0]
    scores = [
        log_odds(
            fixed(k * log(rate) - lgamma(k + 1)),
            fixed(new_factor(q, k, w1)),
            fixed(new_factor(q, k, w0)),
            n1,
            n0,
        )
        for k in range(60)
    ]
    k = categorical(scores, stream.bits(BIRTH_COUNT, row, 0))
    none_on = (1 - q) ** k
    new = [([int(n == row) for n in range(shape[0])], [0] * shape[1]) for _ in range(k)]
    for d in range(shape[1]):
        is_free = (row, d) in x and not predict(components, (row, d))
        if k and is_free:
            w = w1 if x[row, d] else w0
            some = (1 - none_on) / (none_on * exp(-w) + (1 - none_on))
            if stream.bits(BIRTH_COVER, row, d) >= threshold(some):
                continue
        must = is_free
        for j in range(k):
            p = q / (1 - (1 - q) ** (k - j)) if must else q
            sure = must and j == k - 1
            if sure or stream.bits(BIRTH_BITS + (j << 16), row, d) < threshold(p):
                new[j][1][d] = 1
                must = False
    return new


def size(component, mode=0):
    return sum(component[mode])


def logit_stick(m, n, u):
    a, b = m, n - m + 1
    if a <= b:
        p = float(betaincinv(a, b, u))
        return log(p) - log1p(-p)
    p = float(betaincinv(b, a, 1 - u))
    return log1p(-p) - log(p)


def sweep_blocks(stream, x, shape, components, n_blocks, alpha, q, noise):
    w1, w0 = weights(*noise)
    for block, rows in blocks_of(stream, shape[0], n_blocks):
        scan = [components[i] for i in stream.permutation(ORDER, block, len(components))]
        single = [c for c in scan if size(c) == 1 and c[0].index(1) in rows]
        shared = [c for c in scan if not any(c is s for s in single)]
        prior = [
            fixed(logit_stick(size(c), shape[0], stream.uniform(STICKS, block, i)))
            for i, c in enumerate(shared)
        ]
        held = [
            i
            for i, c in enumerate(shared)
            if not any(c[0][n] for n in range(shape[0]) if n not in rows)
        ]
        new = []
        for row in rows:
            k = sum(c[0][row] for c in single)
            v1 = fixed(w1) - fixed(new_factor(q, k, w1))
            v0 = fixed(w0) - fixed(new_factor(q, k, w0))
            update_row(stream, x, shared, 0, row, v1, v0, prior, held)
            new += births(stream, x, shape, shared, row, alpha, q, noise)
        components = shared + new
    return components


def move_single(stream, x, shape, components, row, own, grid, rate, noise):
    """Try one birth or death of a component that the row owns alone; code and density summed out.

    Return (born component or None, its density, dead component or None).
    """
    w1, w0 = weights(*noise)
    is_birth = stream.bits(BIRTH_MOVE, row, 0) >> 63
    if not is_birth and not own:
        return None, None, None
    victim = None if is_birth else own[stream.bits(BIRTH_MOVE, row, 1) * len(own) >> 64]
    rest = [c for c in components if c is not victim]
    n1, n0 = uncovered(x, rest, row)
    scores = [
        log_odds(
            fixed(-log(len(grid))),
            fixed(log(1 - q + q * exp(w1))),
            fixed(log(1 - q + q * exp(w0))),
            n1,
            n0,
        )
        for q in grid
    ]
    total = sum(exp_neg(max(scores) - s) >> 12 for s in scores)
    n_own = len(own) + is_birth
    scale = max(scores) + fixed(log(rate) - log(n_own))
    r = stream.bits(BIRTH_MOVE, row, 2)
    if is_birth:
        if scale < 0 and not r >> 12 < total * exp_neg(-scale) >> 64:
            return None, None, None
        q = grid[categorical(scores, stream.bits(BIRTH_MOVE, row, 3))]
        born = ([int(n == row) for n in range(shape[0])], [0] * shape[1])
        for d in range(shape[1]):
            if (row, d) in x and not predict(components, (row, d)):
                w = w1 if x[row, d] else w0
                p = q / (exp(-w) * (1 - q) + q)
                born[1][d] = int(stream.bits(BIRTH_COVER, row, d) < threshold(p))
            else:
                born[1][d] = int(stream.bits(BIRTH_BITS, row, d) < threshold(q))
        return born, q, None
    scaled = r * total >> 64
    if scale >= 0:
        dies = scaled < exp_neg(scale) >> 12
    else:
        dies = scaled * exp_neg(-scale) >> 64 < 1 << 52
    return None, None, victim if dies else None


def blocks_of(stream, n_rows, n_blocks):
    order = stream.permutation(BLOCKS, 0, n_rows)
    n_blocks = min(n_blocks, n_rows)
    short, longer = divmod(n_rows, n_blocks)
    for block in range(n_blocks):
        start = block * short + min(block, longer)
        yield block, sorted(order[start : start + short + (block < longer)])


def sweep_own_densities(stream, x, shape, components, densities, grid, n_blocks, alpha, noise):
    """The block schedule with single-row components held, then born or dying one at a time."""
    w1, w0 = (fixed(w) for w in weights(*noise))
    for block, rows in blocks_of(stream, shape[0], n_blocks):
        order = stream.permutation(ORDER, block, len(components))
        components, densities = [components[i] for i in order], [densities[i] for i in order]
        prior = [
            fixed(logit_stick(size(c), shape[0], stream.uniform(STICKS, block, i)))
            for i, c in enumerate(components)
        ]
        single = [c for c in components if size(c) == 1 and c[0].index(1) in rows]
        outside = [n for n in range(shape[0]) if n not in rows]
        held = [i for i, c in enumerate(components) if not any(c[0][n] for n in outside)]
        born, dead = [], []
        for row in rows:
            update_row(stream, x, components, 0, row, w1, w0, prior, held)
            own = [c for c in single if c[0][row]]
            new, q, old = move_single(
                stream, x, shape, components, row, own, grid, alpha / shape[0], noise
            )
            born += [] if new is None else [(new, q)]
            dead += [] if old is None else [old]
        alive = [i for i, c in enumerate(components) if not any(c is d for d in dead)]
        components = [components[i] for i in alive] + [c for c, _ in born]
        densities = [densities[i] for i in alive] + [q for _, q in born]
    return components, densities


def draw_own_density(stream, component, position, mode, n_rows, grid):
    n = size(component, mode)
    scores = [n * log(q) + (n_rows - n) * log1p(-q) for q in grid]
    shares = [exp(s - max(scores)) for s in scores]
    u = stream.uniform(DENSITY + 64 * mode, 0, position) * sum(shares)
    for q, share in zip(grid, shares, strict=True):
        if u < share:
            return q
        u -= share
    return grid[-1]


def sweep_serial(stream, x, shape, components, alpha, q, noise, *, is_integrated):
    w1, w0 = weights(*noise)
    for row in range(shape[0]):
        own = [c for c in components if size(c) == 1 and c[0][row]]
        k = len(own) if is_integrated else 0
        if is_integrated:
            components = [c for c in components if not any(c is o for o in own)]
        v1 = fixed(w1) - fixed(new_factor(q, k, w1))
        v0 = fixed(w0) - fixed(new_factor(q, k, w0))
        order = list(range(len(components)))
        for i in range(len(order) - 1, 0, -1):
            j = stream.bits(ORDER, row, i) * (i + 1) >> 64
            order[i], order[j] = order[j], order[i]
        for position, index in enumerate(order):
            component = components[index]
            others = size(component) - component[0][row]
            if others == 0:
                continue
            c1, c0 = decided_cells(x, components, 0, row, component)
            score = log_odds(fixed(log(others) - log(shape[0] - others)), v1, v0, c1, c0)
            component[0][row] = gibbs(score, stream.bits(ROW_BITS, row, position))
        components = [c for c in components if not any(c is o for o in own)]
        components = components + births(stream, x, shape, components, row, alpha, q, noise)
    return components


# --- error rates and hyperparameters ------------------------------------------------------------


def draw_rate(a, b, u, upper):
    return float(betaincinv(a, b, u * float(betainc(a, b, upper))))


def draw_noise(stream, counts, kind, now):
    """Flat priors: of one rate cut to (0, 1/2), or of two rates whose sum is below one."""
    tp, fp, tn, fn = counts
    u = [stream.uniform(NOISE, 0, i) for i in range(2)]
    if kind == "equal":
        rate = draw_rate(1 + fp + fn, 1 + tp + tn, u[0], 0.5)
        return rate, rate
    spurious = draw_rate(1 + fn, 1 + tn, u[0], 1 - now[1])
    return spurious, draw_rate(1 + fp, 1 + tp, u[1], 1 - spurious)


def draw_density(stream, components, mode, n_rows):
    n_ones = sum(size(c, mode) for c in components)
    n_zeros = n_rows * len(components) - n_ones
    return float(betaincinv(1 + n_ones, 1 + n_zeros, stream.uniform(DENSITY + 64 * mode, 0, 0)))


def draw_alpha(stream, n_components, n_rows):
    harmonic = sum(1 / n for n in range(1, n_rows + 1))
    return float(gammaincinv(1 + n_components, stream.uniform(ALPHA, 0, 0))) / (1 + harmonic)


# --- the log joint density -------------------------------------------------------------------


def log_beta(p, a, b, upper=1.0):
    """Log density of Beta(a, b), cut to (0, upper)."""
    mass = log(float(betainc(a, b, upper))) if upper < 1 else 0.0
    constant = lgamma(a + b) - lgamma(a) - lgamma(b)
    return constant + (a - 1) * log(p) + (b - 1) * log1p(-p) - mass


def log_two_rates(rates, priors):
    """Log density of two independent Beta distributions, given that the sum is below one."""
    (a0, b0), (a1, b1) = priors
    mass, _ = quad(lambda p: exp(log_beta(p, a0, b0)) * float(betainc(a1, b1, 1 - p)), 0, 1)
    return sum(log_beta(p, a, b) for p, (a, b) in zip(rates, priors, strict=True)) - log(mass)


def log_likelihood(x, components, noise):
    total = 0.0
    for cell, value in x.items():
        p_one = 1 - noise[1] if predict(components, cell) else noise[0]
        total += log(p_one if value else 1 - p_one)
    return total


def log_factors(components, densities, alpha, shape, *, is_buffet):
    """Log prior of the factors; ``densities[mode]`` is a number or a list, one a component."""
    total = 0.0
    for mode in range(len(shape)):
        if mode == 0 and is_buffet:
            continue
        q = densities[mode]
        for i, c in enumerate(components):
            p = q[i] if isinstance(q, list) else q
            total += sum(log(p) if bit else log1p(-p) for bit in c[mode])
    if is_buffet:
        n = shape[0]
        total -= alpha * sum(1 / i for i in range(1, n + 1))
        for c in components:
            total += log(alpha) + lgamma(n - size(c) + 1) + lgamma(size(c)) - lgamma(n + 1)
        own = [
            densities[1][i] if isinstance(densities[1], list) else 0
            for i in range(len(components))
        ]
        labelled = [(*map(tuple, c), q) for c, q in zip(components, own, strict=True)]
        for c in set(labelled):
            total -= lgamma(labelled.count(c) + 1)
    return total


# --- whole sweeps -----------------------------------------------------------------------------


class Chain:
    """A chain with flat priors on all rates and densities; compare with ``thali.sampler``."""

    def __init__(
        self, key, x, shape, components, kind, noise_kind, noise, densities, alpha=3.0, grid=None
    ):
        self.key, self.x, self.shape, self.components = key, x, shape, components
        self.kind, self.noise_kind, self.noise = kind, noise_kind, noise
        self.densities, self.alpha, self.sweep = list(densities), alpha, 0
        self.grid = grid  # densities a component can have, if each has its own

    def step(self, n_blocks=2):
        stream = Stream(self.key, self.sweep)
        hyper = (self.alpha, self.densities[1], self.noise)
        w1, w0 = (fixed(w) for w in weights(*self.noise))
        is_finite = self.kind == "finite"
        if is_finite:
            self._update(stream, 0, w1, w0)
        elif self.kind == "own densities":
            self.components, self.densities[1] = sweep_own_densities(
                stream, self.x, self.shape, self.components, self.densities[1], self.grid,
                n_blocks, self.alpha, self.noise,
            )  # fmt: skip
        elif self.kind == "parallel":
            self.components = sweep_blocks(
                stream, self.x, self.shape, self.components, n_blocks, *hyper
            )
        else:
            self.components = sweep_serial(
                stream, self.x, self.shape, self.components, *hyper,
                is_integrated=self.kind == "serial-integrated",
            )  # fmt: skip
        for mode in range(1, len(self.shape)):
            if not is_finite:
                order = stream.permutation(ORDER + 64 * mode, 0, len(self.components))
                self.components = [self.components[i] for i in order]
                if self.grid:
                    self.densities[1] = [self.densities[1][i] for i in order]
            self._update(stream, mode, w1, w0)
        for mode in range(0 if is_finite else 1, len(self.shape)):
            n_rows = self.shape[mode]
            if self.grid:
                self.densities[mode] = [
                    draw_own_density(stream, c, i, mode, n_rows, self.grid)
                    for i, c in enumerate(self.components)
                ]
            else:
                self.densities[mode] = draw_density(stream, self.components, mode, n_rows)
        if not is_finite:
            self.alpha = draw_alpha(stream, len(self.components), self.shape[0])
        counts = confusion(self.x, self.components)
        self.noise = draw_noise(stream, counts, self.noise_kind, self.noise)
        self.sweep += 1

    def _update(self, stream, mode, w1, w0):
        each = self.densities[mode] if self.grid else [self.densities[mode]] * len(self.components)
        prior = [fixed(log(q) - log1p(-q)) for q in each]
        for row in range(self.shape[mode]):
            update_row(stream, self.x, self.components, mode, row, w1, w0, prior)

    def factors(self):
        """Return dense factors as nested lists, (n_rows, n_components) each."""
        return [
            [[c[mode][row] for c in self.components] for row in range(n)]
            for mode, n in enumerate(self.shape)
        ]


def as_cells(values, known=None):
    """Turn an array into the dictionary of its known entries."""
    cells = itertools.product(*(range(n) for n in values.shape))
    return {c: int(values[c]) for c in cells if known is None or known[c]}


def as_components(factors):
    """Turn dense factors into a list of components."""
    n = factors[0].shape[1]
    return [tuple([int(v) for v in f[:, k]] for f in factors) for k in range(n)]
