"""Fewest roles: exact covers of tables of users and permissions, against published numbers.

    ./dev python experiments/roles.py FOLDER [--files 'rolemining_*' …] [--seconds 60]

FOLDER has the tables as npz files: ``shape``, ``bits`` (packed entries) and possibly ``mask``
(packed: which are known). The published number of roles is ``best_known_k`` in the file; of
simulated tables, it is the number of roles that they were made of (``U_true``).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np
from _runs import RESULTS, how_it_was_run, table, write_page

from thali.bits import pack
from thali.optimize.covers import fewest_components
from thali.threads import n_threads

HEAD = """# Fewest roles

An exact cover of a table of users and permissions is a set of roles that gives every user all of
their permissions and no others. The fewer roles, the better. *Published* is the smallest number of
roles in the covers that the authors of ConstrainedRM distribute with the tables
(RoleMining/ConstrainedRM on GitHub, MIT licence); the tables `rolemining_*` are those of HP Labs
(Ene et al., SACMAT 2008), and for simulated tables (`rolesynth_*`) it is the number of roles that
they were made of. *Lower bound* is the number of roles that any cover needs: where it is the
number found, no cover has fewer roles, which is marked as proven.

Every cover was counted again on the original table: it has no error of either kind. Each table
was given {seconds:g} seconds at most, one seed, and the same settings. Most of them are solved by
dropping entries that are covered whenever another one is. The last column has the seconds until
the answer, proof included.
"""


def read(path):
    """Return the ones, the known entries, and the published number of roles or None."""
    with np.load(path) as stored:
        shape = tuple(stored["shape"])
        size = int(np.prod(shape))
        ones = np.unpackbits(stored["bits"], count=size).reshape(shape).astype(bool)
        known = np.ones(shape, bool)
        if "mask" in stored:
            known = np.unpackbits(stored["mask"], count=size).reshape(shape).astype(bool)
        published = None
        if "best_known_k" in stored:
            published = int(stored["best_known_k"])
        elif "U_true" in stored:
            published = len(stored["U_true"])
    return ones & known, known, published


def solve(ones, known, seconds, threads):
    """Return the cover and the seconds that it took."""
    start = perf_counter()
    cover = fewest_components(
        pack(ones), None if known.all() else pack(known), n_rows=len(ones),
        n_columns=ones.shape[1], seconds=seconds, seed=0, threads=threads,
    )  # fmt: skip
    return cover, perf_counter() - start


def compile_kernels(threads):
    """Use everything once, so that no table's seconds go to the compiler."""
    rng = np.random.default_rng(0)
    users, codes = (rng.random((n, 18)) < 0.3 for n in (40, 30))
    ones = (users.astype(int) @ codes.T.astype(int)) > 0
    solve(ones, np.ones_like(ones), 5.0, threads)


def n_wrong(cover, ones, known):
    """Count the known entries that contradict the roles."""
    covered = cover.users.astype(np.float32) @ cover.codes.T.astype(np.float32) > 0
    return int(((covered != ones) & known).sum())


def work(path, seconds, threads):
    """Return the row of one table."""
    ones, known, published = read(path)
    cover, taken = solve(ones, known, seconds, threads)
    if wrong := n_wrong(cover, ones, known):
        raise AssertionError(f"{wrong} entries of {path.name} contradict the roles")
    number = cover.users.shape[1]
    best = f"**{number}**" if published is not None and number <= published else number
    return [
        f"`{path.stem}`", f"{len(ones):,} x {ones.shape[1]:,}",
        "" if published is None else published, best, cover.lower_bound,
        "yes" if cover.is_optimal else "no", f"{taken:.2f}",
    ]  # fmt: skip


def main():
    """Solve the tables and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", nargs="+", default=["rolemining_*", "rolesynth_*"])
    parser.add_argument("--seconds", type=float, default=60.0, help="most seconds per table")
    parser.add_argument("--threads", type=int, default=None, help="default: all cores")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    threads = n_threads(chosen.threads)
    paths = sorted({p for name in chosen.files for p in chosen.folder.glob(f"{name}.npz")})
    compile_kernels(threads)
    rows = []
    for path in paths:
        rows.append(work(path, chosen.seconds, threads))
        print(*rows[-1], flush=True)
    names = ["file", "shape", "published", "ours", "lower bound", "proven", "seconds"]
    grid = table(names, rows)
    head = HEAD.format(seconds=chosen.seconds)
    chosen.out.mkdir(parents=True, exist_ok=True)
    how = how_it_was_run(f"{threads} threads").replace(str(chosen.folder), "FOLDER")
    write_page(chosen.out / "roles.md", head, grid, how)


if __name__ == "__main__":
    main()
