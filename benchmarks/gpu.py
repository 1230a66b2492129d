"""The GPU engine at 1,300,000 x 28,000: times by device events, ceilings of the same run.

    python benchmarks/gpu.py                # everything, on a machine with a CUDA device
    python benchmarks/gpu.py --rows 130000  # smaller
    python benchmarks/gpu.py --effects      # only this: row and column effects against none
    python benchmarks/gpu.py --inference 50 --effects  # only this: from nothing, as users do

Data are made on the device, fresh random bits; medians of several rounds; nothing is timed before
it ran once.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import platform
import pstats
from time import perf_counter

import cupy as cp
import numpy as np

import thali
from thali.bits import Factor, PackedTensor, Totals, Unfolding
from thali.bits.words import n_words
from thali.engines.cpu.engine import CpuEngine
from thali.engines.gpu import device
from thali.engines.gpu.device_memory import Lines, stride_of
from thali.engines.gpu.engine import GpuEngine
from thali.model import Levels, Model
from thali.model.effects import effects_for
from thali.model.levels import Hyper
from thali.sampler import Schedule, Target, chain, start, step
from thali.sampler.grow.densities import look
from thali.sampler.level_counts import count_lines
from thali.sampler.levels import draw_levels
from thali.sampler.schedule import MOVES
from thali.sampler.step import sweeps_per_draw, update_mode
from thali.streams import Stream, chain_key

KEY = chain_key(0)
QUIET = Schedule(blocks=4, hold=0, **dict.fromkeys(MOVES, 0))
DENSITY = 0.12  # of the factors

SIMULATE = r"""
__device__ unsigned mix(unsigned x) {
    x ^= x >> 16; x *= 0x7feb352dU; x ^= x >> 15; x *= 0x846ca68bU; x ^= x >> 16;
    return x;
}
extern "C" __global__ void bits(unsigned seed, double p, long long n, unsigned* out) {
    long long w = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (w >= n) return;
    unsigned limit = (unsigned)(p * 4294967296.0), word = 0;
    for (int b = 0; b < 32; b++)
        word |= (unsigned)(mix(mix(seed + b * 0x9e3779b9U) ^ mix((unsigned)w) ^
                               (unsigned)(w >> 32) * 0x85ebca6bU) < limit) << b;
    out[w] = word;
}
extern "C" __global__ void data(const unsigned* users, long long user_stride,
    const unsigned* codes, long long code_stride, int n_components, long long n_rows,
    long long n_columns, double spurious, double dropped, unsigned seed, unsigned* out,
    long long stride, const float* rows, const float* columns, float jump) {
    long long w = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (32 * w >= n_columns) return;
    unsigned s = (unsigned)(spurious * 4294967296.0), d = (unsigned)(dropped * 4294967296.0);
    for (long long row = blockIdx.y; row < n_rows; row += gridDim.y) {
        unsigned covered = 0;
        for (int l = 0; l < n_components; l++)
            if ((users[l * user_stride + (row >> 5)] >> (row & 31)) & 1)
                covered |= codes[l * code_stride + w];
        unsigned word = 0, base = mix((unsigned)row * 0x9e3779b9U + mix((unsigned)w ^ seed));
        for (int b = 0; b < 32 && 32 * w + b < n_columns; b++) {
            unsigned r = mix(base + b * 0x68bc21ebU), on = (covered >> b) & 1;
            if (rows) {
                float odds = rows[row] + columns[32 * w + b] + (on ? jump : 0.0f);
                word |= (r * 2.3283064e-10f < 1.0f / (1.0f + expf(-odds))) << b;
            } else word |= (on ? r >= d : r < s) << b;
        }
        out[row * stride + w] = word;
    }
}
extern "C" __global__ void reading(const uint4* from, long long n, unsigned* out) {
    unsigned total = 0;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += (long long)gridDim.x * blockDim.x) {
        uint4 v = from[i];
        total += v.x ^ v.y ^ v.z ^ v.w;
    }
    if (total == 12345) out[0] = total;
}
extern "C" __global__ void popcounts(unsigned* out, int n) {
    unsigned x = threadIdx.x + blockIdx.x * 77u, a = 0, b = 0, c = 0, d = 0;
    for (int i = 0; i < n; i++) {
        a += __popc(x ^ a); b += __popc(x ^ b); c += __popc(x ^ c); d += __popc(x ^ d);
    }
    out[threadIdx.x + blockIdx.x * blockDim.x] = a + b + c + d;
}
extern "C" __global__ void logic(unsigned* out, int n) {
    unsigned x = threadIdx.x, y = blockIdx.x, a = x, b = y, c = 3, d = 4;
    for (int i = 0; i < n; i++) {
        a = (a & x) ^ b; b = (b & y) ^ c; c = (c & x) ^ d; d = (d & y) ^ a;
    }
    out[threadIdx.x + blockIdx.x * blockDim.x] = a ^ b ^ c ^ d;
}
"""
MODULE = cp.RawModule(code=SIMULATE)


def random_lines(n, n_bits, density, seed):
    """Return packed random lines on the device and on the host."""
    out = cp.zeros((n, 2 * stride_of(n_bits)), cp.uint32)
    MODULE.get_function("bits")(
        (-(-out.size // 256),), (256,), (np.uint32(seed), density, np.int64(out.size), out)
    )
    dense_words = out.view(cp.uint64)[:, : n_words(n_bits)].copy()
    if n_bits % 64:
        dense_words[:, -1] &= cp.uint64((1 << (n_bits % 64)) - 1)
    return dense_words


def made_on_device(
    shape, n_components, spurious=0.02, dropped=0.4, seed=1, *, on_host=False, levels=None
):
    """Return an engine with simulated data, the packed tensor and the true factors.

    With levels, these decide instead of the two error rates.
    """
    factors = [
        Factor(cp.asnumpy(random_lines(n_components, n, DENSITY, seed + i)), n)
        for i, n in enumerate(shape)
    ]
    engine = GpuEngine()
    users, codes = (engine.lines(f) for f in factors)
    out = cp.zeros((shape[0], 2 * stride_of(shape[1])), cp.uint32)
    MODULE.get_function("data")(
        (-(-out.shape[1] // 256), 65535), (256,),
        (users.words, users.stride, codes.words, codes.stride, np.int32(n_components),
         np.int64(shape[0]), np.int64(shape[1]), spurious, dropped, np.uint32(seed), out,
         np.int64(out.shape[1]), *on_device(levels)),
    )  # fmt: skip
    lines = Lines(out, shape[1], engine.device)
    n_ones = int(engine.sizes(lines)[:, 0].sum())
    widths = [n_words(shape[1]), n_words(shape[0])]
    unfoldings = [
        Unfolding(np.broadcast_to(np.uint64(0), (n, w)), None)
        for n, w in zip(shape, widths, strict=True)
    ]
    tensor = PackedTensor(shape, tuple(unfoldings), int(np.prod(shape)), n_ones)
    loaded = GpuEngine(engine.device)
    loaded.tensor, loaded._unfoldings = tensor, [(lines, None)]
    most_ones = int(engine.sizes(lines)[:, 0].max())
    loaded.totals = Totals(shape, tensor.n_known, n_ones, most_ones)
    loaded.transpose_matrix(shape)
    if on_host:
        unfoldings = [
            Unfolding(from_device(u.words.view(cp.uint64)[:, :w]), None)
            for (u, _), w in zip(loaded._unfoldings, widths, strict=True)
        ]
        loaded.tensor = tensor = tensor._replace(unfoldings=tuple(unfoldings))
    return loaded, tensor, factors


def on_device(levels):
    """Return what the simulation needs to know about levels."""
    if levels is None:
        return np.uint64(0), np.uint64(0), np.float32(0)
    grids = levels.prior.grids
    rows, columns = grids.rows[levels.rows], grids.columns[levels.columns]
    jump = grids.jumps[levels.jumps[0]]
    return cp.asarray(rows, cp.float32), cp.asarray(columns, cp.float32), np.float32(jump)


def levels_of(shape, seed=3):
    """Return levels with spreads 1 (rows) and 1.5 (columns, around -4), and one jump of 4."""
    prior, rng = effects_for(shape), np.random.default_rng(seed)
    grids = prior.grids
    mean, spread, jump = (
        int(np.abs(grid - value).argmin())
        for grid, value in ((grids.columns, -4.0), (grids.spreads, 1.5), (grids.jumps, 4.0))
    )
    of_rows = int(np.abs(grids.spreads - 1.0).argmin())
    rows, columns = (
        rng.choice(len(log_prior), n, p=np.exp(log_prior))
        for log_prior, n in (
            (grids.of_rows[of_rows], shape[0]), (grids.of_columns[mean, spread], shape[1]),
        )
    )  # fmt: skip
    offset = int(np.abs(grids.offsets).argmin())
    hyper = Hyper(of_rows, mean, spread, jump, 0, offset)
    return Levels(prior, rows, columns, np.full(shape[1], jump), hyper)


def from_device(array, step=1 << 28):
    """Copy a large array to the host in blocks."""
    out = np.empty(array.shape, np.uint64)
    rows = max(1, step // (8 * array.shape[1]))
    for first in range(0, len(out), rows):
        out[first : first + rows] = cp.asnumpy(array[first : first + rows])
    return out


class Loaded(GpuEngine):
    """An engine that has its data already."""

    def load(self, tensor):
        return self if tensor is self.tensor else GpuEngine(self.device).load(tensor)


def target_of(engine, tensor, model, schedule):
    loaded = Loaded(engine.device)
    loaded.tensor, loaded._unfoldings = tensor, engine._unfoldings
    loaded.totals, loaded._first = engine.totals, loaded.unfolding(0)
    return Target(loaded, model, model.priors(2), schedule)


def start_of(target, factors, levels=None):
    """Return a state at the truth."""
    state = (
        target.initial(KEY, [np.zeros((f.n_rows, 0), bool) for f in factors])
        if (target.priors.buffet is not None)
        else Target.initial(target, KEY)
    )
    noise = type(state.noise)(0.02, 0.4) if levels is None else levels
    densities = tuple(
        d if p is None else np.array(DENSITY)
        for d, p in zip(state.densities, target.priors.densities, strict=True)
    )
    state = state._replace(factors=tuple(factors), noise=noise, densities=densities)
    return target.recount(state)


def timed(job, rounds, warm=2):
    """Return the medians of device and wall time in milliseconds, and the spread of the first."""
    for _ in range(warm):
        job()
    between, wall = [], []
    for _ in range(rounds):
        start, end = cp.cuda.Event(), cp.cuda.Event()
        cp.cuda.Device().synchronize()
        began = perf_counter()
        start.record()
        job()
        end.record()
        end.synchronize()
        wall.append(1e3 * (perf_counter() - began))
        between.append(cp.cuda.get_elapsed_time(start, end))
    return float(np.median(between)), float(np.median(wall)), float(np.ptp(between))


def ceilings():
    """Measure memory bandwidth, population counts and logic operations a second."""
    a, b = (cp.random.randint(0, 2**31, 1 << 29, dtype=cp.int32) for _ in range(2))
    copy = 2 * a.nbytes / timed(lambda to=a, of=b: cp.copyto(to, of), 10)[0] * 1e3
    total = cp.zeros(1, cp.uint32)
    reading = MODULE.get_function("reading")
    arguments = (a, np.int64(a.nbytes // 16), total)
    read = a.nbytes / timed(lambda: reading((132 * 16,), (256,), arguments), 10)[0] * 1e3
    del a, b
    cp.get_default_memory_pool().free_all_blocks()
    out = cp.empty(132 * 16 * 256, cp.uint32)
    rates = []
    for name, ops in (("popcounts", 4), ("logic", 4)):
        kernel = MODULE.get_function(name)
        ms = timed(lambda k=kernel: k((132 * 16,), (256,), (out, np.int32(4096))), 10)[0]
        rates.append(out.size * 4096 * ops / ms * 1e3)
    return copy, read, *rates


def updates(shape, n_components, rounds):
    """Time (a), (b) and (c) at a size; return what was found."""
    engine, tensor, factors = made_on_device(shape, n_components)
    stream = Stream(KEY, np.uint64(99))
    finite = target_of(engine, tensor, Model(n_components), QUIET)
    state = start_of(finite, factors)
    a = timed(lambda: update_mode(stream, state, finite, 0), rounds)
    b = timed(lambda: update_mode(stream, state, finite, 1), rounds)
    buffet = target_of(engine, tensor, Model(), QUIET)
    first = start_of(buffet, factors)
    now = [first]

    def sweep():
        now[0], _ = step(KEY, now[0], buffet)

    c = timed(sweep, rounds)
    print(f"{shape[0]:>9} x {shape[1]} x {n_components:<3} (a) {a[0]:7.2f} (b) {b[0]:7.2f} "
          f"(c) {c[0]:7.2f} ms, wall {a[1]:.2f} {b[1]:.2f} {c[1]:.2f}, spread {a[2]:.2f} "
          f"{b[2]:.2f} {c[2]:.2f}; {now[0].n_components} components", flush=True)  # fmt: skip
    return engine, tensor, factors, (a, b, c), sweep, (finite, state), (buffet, first)


def bits_of(shape):
    """Return the bits of device memory per entry that were taken."""
    return 8 * cp.get_default_memory_pool().total_bytes() / np.prod(shape, dtype=float)


def effects(shape, n_components, rounds, *, with_cpu, is_profiled):
    """Compare sweeps with and without row and column effects, each on data of its own kind."""
    times = []
    for levels in (None, levels_of(shape)):
        times.append(one_kind(shape, n_components, levels, rounds, is_profiled=is_profiled))
        gc.collect()
        cp.get_default_memory_pool().free_all_blocks()
    (device, wall, plain), (with_effects, also, with_draws) = times
    print(f"a sweep with effects takes {with_effects / device:.2f} times that without, in wall "
          f"time {also / wall:.2f} times, draws of levels apart; with these "
          f"{with_draws / plain:.2f} times")  # fmt: skip
    if with_cpu:
        same_as_cpu((shape[0] // 20, shape[1]), n_components)


def one_kind(shape, n_components, levels, rounds, *, is_profiled):
    """Time updates and sweeps with or without effects.

    Returns device and wall time of a sweep, done again and again, and wall time of sweeps that
    follow one another, with their draws of levels.
    """
    stream = Stream(KEY, np.uint64(99))
    engine, tensor, factors = made_on_device(shape, n_components, levels=levels)
    noise = {} if levels is None else {"noise": levels.prior}
    finite = target_of(engine, tensor, Model(n_components, **noise), QUIET)
    state = start_of(finite, factors, levels)
    a, b = (timed(lambda m=m: update_mode(stream, state, finite, m), rounds) for m in (0, 1))
    buffet = target_of(engine, tensor, Model(**noise), QUIET)
    now = [start_of(buffet, factors, levels)]

    def sweep(number=1):  # levels are drawn in sweeps whose number is a multiple of some number
        now[0], _ = step(KEY, now[0]._replace(sweep=number), buffet)

    whole, every = timed(sweep, rounds), sweeps_per_draw(buffet.totals.n_known)
    kind = "two error rates"
    if levels is not None:
        kind = f"{len(levels.row_classes[0])} x {len(levels.column_classes[0])} classes"
    print(f"{kind}: (a) {a[0]:.2f} (b) {b[0]:.2f} (c) {whole[0]:.2f} ms, wall {a[1]:.2f} "
          f"{b[1]:.2f} {whole[1]:.2f}; {now[0].n_components} components; {bits_of(shape):.2f} "
          "bits an entry", flush=True)  # fmt: skip
    if is_profiled:
        for mode in (0, 1):
            print(f"  update of mode {mode}")
            by_kernel(finite.engine, lambda m=mode: update_mode(stream, state, finite, m))
        print("  sweep")
        by_kernel(buffet.engine, sweep)
    if levels is not None:
        classes = levels.column_classes[2], levels.row_classes[1]
        rows, columns = (
            timed(lambda m=m: count_lines(now[0], buffet, m, classes[m]), 2) for m in (0, 1)
        )
        drawing, with_offset = (
            timed(lambda n=n: draw_levels(stream, now[0], buffet, number=n), 3) for n in (1, 0)
        )
        print(f"  levels, in one of {every} sweeps: counting rows {rows[1]:.0f} ms, columns "
              f"{columns[1]:.0f}, the whole draw {drawing[1]:.0f} ms, with the offset, every "
              f"eighth time, {with_offset[1]:.0f} ms; {bits_of(shape):.2f} bits an entry",
              flush=True)  # fmt: skip
        if is_profiled:
            by_kernel(buffet.engine, lambda: draw_levels(stream, now[0], buffet), rounds=1)
            with cProfile.Profile() as profile:
                draw_levels(stream, now[0], buffet, number=1)
            pstats.Stats(profile).sort_stats("tottime").print_stats(18)
    # Sweeps as they follow one another. With effects, either half begins with a draw of levels,
    # the second with one that draws the offset as well, which is so in one of eight draws.
    some = range(7 * every, 9 * every)
    wall = [timed(lambda n=n: sweep(n), 1, warm=0)[1] for n in some]
    print(f"  sweeps {some[0]} to {some[-1]}, ms:", *(f"{ms:.0f}" for ms in wall), flush=True)
    return *whole[:2], (7 * sum(wall[:every]) + sum(wall[every:])) / (8 * every)


def same_as_cpu(shape, n_components):
    """Say whether the engines draw the same bits with effects, in a sweep that draws levels."""
    levels = levels_of(shape)
    model = Model(noise=levels.prior)
    engine, tensor, factors = made_on_device(shape, n_components, on_host=True, levels=levels)
    cpu = Target(CpuEngine().load(tensor), model, model.priors(2), QUIET)
    ends = []
    for target in (target_of(engine, tensor, model, QUIET), cpu):
        began = perf_counter()
        state, _ = step(KEY, start_of(target, factors, levels), target)
        took, noise = perf_counter() - began, state.noise
        drawn = [noise.rows, noise.columns, noise.jumps, noise.hyper, state.covered]
        ends.append((took, [*(f.words for f in state.factors), *drawn]))
    (gpu_s, one), (cpu_s, other) = ends
    is_same = all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    print(f"{shape[0]} x {shape[1]}, a sweep with its draw of levels: GPU {gpu_s:.2f} s, CPU "
          f"{cpu_s:.2f} s, compiling included; same bits: {is_same}")  # fmt: skip


def crossover(rounds, n_columns=2_048):
    """Print what a sweep takes on either engine as data grow, with and without moves."""
    print("entries, then ms a sweep: gpu, cpu; without moves gpu, cpu")
    for n_rows in (512, 2_048, 8_192, 32_768, 131_072):
        _, tensor, factors = made_on_device((n_rows, n_columns), 10, on_host=True)
        wall = []
        for schedule in (Schedule(hold=0), QUIET):
            for engine in ("gpu", "cpu"):
                target = Target.prepare(tensor, Model(), schedule, engine)
                wall.append(timed(sweeps(target, factors), rounds, warm=5)[1])
        print(f"{n_rows * n_columns:>11,}", *(f"{ms:7.1f}" for ms in wall), flush=True)


def sweeps(target, factors):
    """Return what does one more sweep, from the truth on."""
    now = [start_of(target, factors)]

    def sweep():
        now[0], _ = step(KEY, now[0], target)

    return sweep


def wrong_entries(shape, engine, truth, found, n_rows=20_000):
    """Return the share of entries whose noise-free value is not recovered, on the first rows."""
    words = []
    for factors in (truth, found):
        users, codes = (engine.lines(f) for f in factors)
        out = cp.zeros((n_rows, 2 * stride_of(shape[1])), cp.uint32)
        MODULE.get_function("data")(
            (-(-out.shape[1] // 256), n_rows), (256,),
            (users.words, users.stride, codes.words, codes.stride,
             np.int32(factors[0].n_components), np.int64(n_rows), np.int64(shape[1]), 0.0, 0.0,
             np.uint32(1), out, np.int64(out.shape[1]), *on_device(None)),
        )  # fmt: skip
        words.append(out)
    different = Lines(words[0] ^ words[1], shape[1], engine.device)
    return engine.sizes(different)[:, 0].sum() / (n_rows * shape[1])


def inference(shape, n_true, n_sweeps, seconds, schedule, learns_effects, has_levels):
    """Sample from scratch, as ``thali.sample`` does: grow on some of the rows, then use all."""
    levels = levels_of(shape) if has_levels else None
    engine, tensor, truth = made_on_device(shape, n_true, seed=11, levels=levels)
    model = Model(noise=effects_for(shape)) if learns_effects else Model()
    ones = from_device(engine._unfoldings[0][0].words.view(cp.uint64)[:, : n_words(shape[1])])
    tensor = tensor._replace(unfoldings=(Unfolding(ones, None), tensor.unfoldings[1]))
    print(f"{tensor.n_ones / tensor.n_known:.1%} ones", flush=True)
    target = target_of(engine, tensor, model, schedule)
    began, where = perf_counter(), None
    for _ in look(target):
        pass
    print(f"  a look at the data: {perf_counter() - began:.1f} s")
    for now in start(KEY, target):
        begun = now.state
        if where != now.stage:
            where = now.stage
            print(f"  {where or 'started'}: {begun.n_components} components, "
                  f"{perf_counter() - began:.1f} s", flush=True)  # fmt: skip
    first, times = perf_counter() - began, []
    for state, info in chain(KEY, target, n_sweeps, begun):
        times.append(perf_counter() - began)
        if len(times) < 4 or len(times) % 50 == 0 or times[-1] > seconds:
            print(f"  all rows, sweep {state.sweep}: {info.n_components} components, "
                  f"{times[-1]:.1f} s, moves {info.moves}", flush=True)  # fmt: skip
        if times[-1] > seconds:
            break
    wrong = wrong_entries(shape, engine, truth, state.factors)
    pool = cp.get_default_memory_pool()
    bits = 8 * pool.total_bytes() / np.prod(shape, dtype=float)
    print(f"inference: {first:.1f} s for the start, {times[-1] - first:.1f} s for {len(times)} "
          f"sweeps of all rows, {times[-1]:.1f} s together; {state.n_components} components for "
          f"{n_true}, {wrong:.2e} of the entries wrong; {bits:.2f} bits of device memory an "
          "entry")  # fmt: skip
    return lambda: step(KEY, state, target)


def kernel_events(engine, job, rounds):
    """Do a job some times; return its kernels, each with the events before and after it."""
    place, plain, events = engine.device, engine.device.launch, []

    def launch(name, *arguments, **named):
        start, end = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        plain(name, *arguments, **named)
        end.record()
        events.append((name, start, end))

    place.launch = launch
    for _ in range(rounds):
        job()
    cp.cuda.Device().synchronize()
    del place.launch
    return events


def by_kernel(engine, job, rounds=3):
    """Print what a job's kernels take, each between two events."""
    times = {}
    for name, begin, end in kernel_events(engine, job, rounds):
        n, total = times.get(name, (0, 0.0))
        times[name] = (n + 1, total + cp.cuda.get_elapsed_time(begin, end))
    for name, (n, total) in sorted(times.items(), key=lambda item: -item[1][1]):
        print(f"    {name:24} {total / rounds:7.3f} ms in {n // rounds} launches", flush=True)


def on_cpu(shape, n_components, times, part, whole):
    """Do (a), (b) and (c) with the CPU engine, once warm; say whether the bits are the same."""
    _, tensor, _ = made_on_device(shape, n_components, on_host=True)
    stream = Stream(KEY, np.uint64(99))
    jobs = [(f"({'ab'[mode]})", part, lambda s, t, mode=mode: update_mode(stream, s, t, mode))
            for mode in (0, 1)]  # fmt: skip
    jobs.append(("(c)", whole, lambda s, t: step(KEY, s, t)[0]))
    for (name, (target, state), job), time in zip(jobs, times, strict=True):
        engine = CpuEngine()
        cpu = Target(engine.load(tensor), target.model, target.priors, QUIET)
        job(state, cpu)
        began = perf_counter()
        after = job(state, cpu)
        took = 1e3 * (perf_counter() - began)
        same = job(state, target)
        is_same = same.noise == after.noise and all(
            np.array_equal(a.words, b.words)
            for a, b in zip(same.factors, after.factors, strict=True)
        )
        print(f"(e) {name} on the CPU, {engine.threads} threads: {took:.0f} ms, "
              f"{took / time[0]:.0f} times the GPU's; same bits: {is_same}",
              flush=True)  # fmt: skip


def main() -> None:  # noqa: C901, PLR0912, PLR0915
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_300_000)
    parser.add_argument("--columns", type=int, default=28_000)
    parser.add_argument("--components", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--profile", action="store_true", help="say where host time goes")
    parser.add_argument("--inference", type=int, help="only this: sample so many sweeps")
    parser.add_argument("--no-warmup", action="store_true", help="compile while sampling")
    parser.add_argument("--tries", type=int, help="of each of these moves, on all rows")
    parser.add_argument("--moves", nargs="*", default=[m for m in MOVES if m != "residual"])
    parser.add_argument("--seconds", type=float, default=60.0, help="on all rows, at most")
    parser.add_argument("--crossover", action="store_true", help="only this: small data, too")
    parser.add_argument("--effects", action="store_true", help="only this: effects against none")
    parser.add_argument("--no-cpu", action="store_true")
    parser.add_argument("--blocks", type=int, help="try another number of counting blocks")
    parser.add_argument("--quick", action="store_true", help="one size only")
    options = parser.parse_args()
    if options.blocks:
        device.OPTIONS = (*device.OPTIONS, f"-DCOUNT_BLOCKS={options.blocks}")
    properties = cp.cuda.runtime.getDeviceProperties(0)
    print(f"{properties['name'].decode()}, CuPy {cp.__version__}, Python "
          f"{platform.python_version()}, thali {thali.__version__}")  # fmt: skip
    if options.inference:
        tries = {} if options.tries is None else {
            name: options.tries * (name in options.moves) for name in MOVES
        }  # fmt: skip
        quick, schedule = (
            Schedule(warmup=n, first_rows=rows, **tries)
            for n, rows in ((3, 1024), (options.inference, Schedule().first_rows))
        )
        small, whole = (40_000, 1_000), (options.rows, options.columns)
        for has_levels in (False, True)[: 1 + options.effects]:
            print("data with", "effects" if has_levels else "two error rates", flush=True)
            if not options.no_warmup:  # kernels are compiled
                inference(small, 4, 10, 999.0, quick, options.effects, has_levels)
            sweep = inference(whole, 24, options.inference, options.seconds, schedule,
                              options.effects, has_levels)  # fmt: skip
            gc.collect()
            cp.get_default_memory_pool().free_all_blocks()
        if options.profile:
            with cProfile.Profile() as profile:
                sweep()
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    if options.effects:
        effects((options.rows, options.columns), options.components, options.rounds,
                with_cpu=not options.no_cpu, is_profiled=options.profile)  # fmt: skip
        return
    if options.crossover:
        crossover(4 * options.rounds)
        return
    copy, read, popc, logic = ceilings()
    cp.get_default_memory_pool().free_all_blocks()
    print(
        f"ceilings: copy {copy / 1e12:.2f} TB/s, read {read / 1e12:.2f} TB/s, "
        f"{popc / 1e12:.2f} T popcounts/s, {logic / 1e12:.2f} T logic/s",
        flush=True,
    )
    shape = (options.rows, options.columns)
    found = updates(shape, options.components, options.rounds)
    engine, tensor, factors, times, sweep, (finite, state), whole = found
    ones = [int(f.sizes().sum()) for f in factors]
    for name, time, codes, n in (("(a)", times[0], ones[1], shape[0]),
                                 ("(b)", times[1], ones[0], shape[1])):  # fmt: skip
        n_bytes = codes * n / 8
        least = n_bytes / read * 1e3
        print(f"{name} reads {n_bytes / 1e9:.1f} GB of data: {least:.2f} ms at the ceiling of "
              f"reading, {least / time[0]:.0%} of which it reaches")  # fmt: skip
    pool = cp.get_default_memory_pool()
    bits = 8 * pool.total_bytes() / np.prod(shape, dtype=float)
    print(f"device memory {pool.total_bytes() / 1e9:.2f} GB, {bits:.2f} bits an entry")
    if options.profile:
        for mode in (0, 1):
            print(f"  update of mode {mode}")
            order = (Stream(KEY, np.uint64(99)), state, finite, mode)
            by_kernel(engine, lambda order=order: update_mode(*order))
        print("  sweep")
        by_kernel(engine, sweep)
        with cProfile.Profile() as profile:
            for _ in range(5):
                sweep()
        pstats.Stats(profile).sort_stats("tottime").print_stats(22)
    if not options.no_cpu:
        on_cpu(shape, options.components, times, (finite, state), whole)
    if options.quick:
        return
    del engine, tensor, factors, found, sweep, finite, state, whole
    for smaller, n in (((options.rows // 10, options.columns), options.components),
                       (shape, 8), (shape, 64)):  # fmt: skip
        pool.free_all_blocks()
        updates(smaller, n, options.rounds)


if __name__ == "__main__":
    main()
