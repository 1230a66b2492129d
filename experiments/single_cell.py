"""Rukat & Yau (2018), section 3.2: ``./dev python experiments/single_cell.py PATH``.

Cells x genes, a one where a gene was detected. Samples the posterior, draws the cells' factor,
and compares it with the known cell types and with other representations of the same ones.
Results go to ``single_cell/NAME.json`` and ``NAME.png``, from which ``single_cell.md`` is written
anew for all data sets that have been run. The data themselves are not stored.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import warnings
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.cluster.hierarchy import leaves_list, linkage
from scipy.stats import mode, spearmanr
from sklearn.cluster import AgglomerativeClustering
from sklearn.decomposition import NMF, PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.neighbors import NearestNeighbors

import thali
from thali.data import BinaryTensor
from thali.errors import NotConverged
from thali.inference import WARMUP
from thali.model import Beta, PerComponent

ROOT = Path(__file__).resolve().parents[1]
N_NEIGHBOURS = 5
N_GENES = 8  # named for each component
N_LISTED = 30  # components on the page, those of most cells
MOST_PARTS = 40  # of NMF, whose time grows with them
N_PAIRS = 100  # of cells of one type, from which depth is spoken of
SURE = 0.9  # probability from which a component has a gene
DENSITIES = {"chosen by the data": None, "shared": Beta(), "own": PerComponent()}

SC3 = (
    "hemberg-lab/SC3-paper-figures, `data/2a.csv` @ 3b9ab0e17ea2: medians, from expression (301 "
    "cells, 23,730 genes); its `Pollen1` and `Pollen2` are read as 4 tissues and 11 populations"
)
SIMLR = (
    "BatzoglouLabSU/SIMLR, `data/Test_3_Pollen.RData` @ c94b2b1e088c: from the same cells, not "
    "binarized; NMI as stored there, ARI computed from the clusters stored there"
)
PUBLISHED = [  # what the file is called, labels; ARI and NMI by method; source
    (
        ("pollen2014_scdatasets", "pollen2014_standata"),
        "labels",
        {
            "SC3": (0.958,),
            "SEURAT": (0.829,),
            "SINCERA": (0.818,),
            "SNN-Cliq": (0.770,),
            "pcaReduce": (0.852,),
            "tSNE+kmeans": (0.849,),
        },
        SC3,
    ),
    (
        ("pollen2014_scdatasets", "pollen2014_standata"),
        "labels_tissue",
        {
            "SC3": (0.675,),
            "SEURAT": (0.689,),
            "SINCERA": (0.704,),
            "SNN-Cliq": (0.430,),
            "pcaReduce": (0.488,),
            "tSNE+kmeans": (0.704,),
        },
        SC3,
    ),
    (("pollen2014_simlr",), "labels", {"SIMLR": (0.943, 0.950)}, SIMLR),
]


# --- data ------------------------------------------------------------------------------------


class Cells(NamedTuple):
    """Cells x genes and what is known of them."""

    ones: np.ndarray  # (n_cells, n_genes), bool
    is_known: np.ndarray  # the same shape
    genes: np.ndarray | None  # names
    labels: dict[str, np.ndarray]  # types of the cells, by the name of the labelling
    reads: np.ndarray | None  # of each cell: how deeply it was sequenced
    source: str

    @property
    def types(self):
        """The first labels; without any, all cells are of one type."""
        return next(iter(self.labels.values()), np.full(len(self.ones), "cells"))


def read(path, layer, key):
    """Read a file of either format."""
    return _read_h5ad(path, layer, key) if path.suffix == ".h5ad" else _read_npz(path, key)


def _read_npz(path, key):
    with np.load(path) as file:
        stored = {name: file[name] for name in file.files}
    shape = tuple(stored["shape"])

    def unpack(name):
        return np.unpackbits(stored[name], count=np.prod(shape)).reshape(shape).astype(bool)

    reads = stored.get("row_reads")
    if reads is None and "counts" in stored:
        reads = stored["counts"].sum(axis=1, dtype=np.int64)
    meta = json.loads(str(stored.get("meta", "{}")))
    return Cells(
        unpack("bits"),
        unpack("mask") if "mask" in stored else np.ones(shape, bool),
        stored.get("col_names"),
        {n: v for n, v in stored.items() if (n == key if key else n.startswith("labels"))},
        reads,
        "{source}, `{path}` @ {commit:.12}".format(**meta) if "source" in meta else "",
    )


def _read_h5ad(path, layer, key):
    try:
        import anndata  # noqa: PLC0415 - optional
    except ImportError as error:
        raise SystemExit("Files .h5ad need anndata; install `thali[anndata]`.") from error
    table = anndata.read_h5ad(path)
    values = table.layers[layer] if layer else table.X
    counts = values.toarray() if hasattr(values, "toarray") else np.asarray(values)
    labels = {key: table.obs[key].astype(str).to_numpy()} if key else {}
    genes = table.var_names.to_numpy(str)
    return Cells(counts > 0, ~np.isnan(counts), genes, labels, np.nansum(counts, axis=1), "")


# --- what the posterior says -----------------------------------------------------------------


def components(posterior, cells):
    """Return probabilities of users and genes of the components that at least two cells have.

    The alignment averages over the draws that have a component; times the share of those draws
    it is the probability in all of them. Components of one cell say nothing about types.
    """
    aligned = posterior.align()
    users, genes = (np.nan_to_num(mean) * aligned.matched for mean in aligned.means)
    chosen = np.flatnonzero(posterior.point_estimate().factors[0].sizes() > 1)
    chosen = chosen[readable(type_means(users[:, chosen], cells.types).to_numpy())]
    return users[:, chosen], genes[:, chosen], aligned.matched[chosen], aligned.similarity[chosen]


def type_means(users, types):
    """Return the mean of every type, types with similar components side by side."""
    means = pd.DataFrame(users).groupby(types).mean()
    if min(means.shape) < 2:
        return means
    return means.iloc[leaves_list(linkage(means, "average", optimal_ordering=True))]


def readable(means):
    """Order components: those of most types first, then from the first type to the last."""
    weight = means.sum(axis=0)
    centre = np.arange(len(means)) @ means / np.maximum(weight, 1e-9)
    is_common = weight > len(means) / 2
    return np.lexsort([np.where(is_common, -weight, centre), ~is_common])


def describe(cells, users, genes, matched, similarity):
    """Return what is known of every component."""
    means = type_means(users, cells.types)
    lines = []
    for number in range(users.shape[1]):
        mean = users[:, number]
        lines.append(
            {
                "cells": float(mean.sum()),
                "types": [str(t) for t in means.index[means[number] > 0.5]],
                "genes": float(genes[:, number].sum()),
                "matched": float(matched[number]),
                "similarity": float(similarity[number]),
                "depth": None if cells.reads is None else deeper(mean > 0.5, cells),
                "top": top_genes(cells, genes, number, mean) if cells.genes is not None else [],
            }
        )
    return lines


def top_genes(cells, genes, number, weights):
    """Name genes that few other components have; of those, the ones that set its cells apart."""
    sure = np.flatnonzero(genes[:, number] > SURE)
    elsewhere = np.delete(genes, number, axis=1)[sure].sum(axis=1)
    ones = cells.ones[:, sure]
    contrast = np.average(ones, axis=0, weights=weights) - ones.mean(axis=0)
    best = np.lexsort([-contrast, elsewhere.round()])[:N_GENES]
    return [str(name) for name in cells.genes[sure[best]]]


def deeper(mine, cells):
    """Return how often the one that has a component has more reads, of two cells of one type."""
    wins = n_pairs = 0
    for name in np.unique(cells.types):
        is_type = cells.types == name
        has, lacks = cells.reads[is_type & mine], cells.reads[is_type & ~mine]
        wins += np.count_nonzero(has[:, None] > lacks)
        n_pairs += has.size * lacks.size
    return wins / n_pairs if n_pairs >= N_PAIRS else None


def with_reads(posterior, cells):
    """Return rank correlations of a cell's reads with its components, shared and its own."""
    factor = posterior.point_estimate().factors[0]
    found = {}
    for name, chosen in (("shared", factor.sizes() > 1), ("own", factor.sizes() == 1)):
        numbers = factor.dense()[:, chosen].sum(axis=1)
        found[name] = spearmanr(cells.reads, numbers).statistic if np.ptp(numbers) else 0.0
    return found


# --- agreement with types --------------------------------------------------------------------


def representations(posterior, cells, users):
    """Return what cells are compared by: ours and, of the same data, what else is usual."""
    ones = cells.ones.astype(np.float32)
    n = max(1, min(users.shape[1], *(side - 1 for side in ones.shape)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # close enough for a comparison
        parts = NMF(min(n, MOST_PARTS), init="nndsvd", random_state=0).fit_transform(ones)
    return {
        f"thali: {users.shape[1]} components": users,
        "thali: genes without errors": posterior.predict(noise_free=True),
        "zeros and ones as they are": ones,
        f"PCA, {n} dimensions": PCA(n, random_state=0).fit_transform(ones),
        f"NMF, {parts.shape[1]} dimensions": parts,
    }


def agreement(values, types):
    """Return ARI and NMI of Ward's clusters, and the share of right neighbours."""
    names, numbers = np.unique(types, return_inverse=True)
    clusters = AgglomerativeClustering(len(names)).fit_predict(values)
    nearest = NearestNeighbors(n_neighbors=N_NEIGHBOURS).fit(values)
    votes = numbers[nearest.kneighbors(return_distance=False)]  # without the cell itself
    return [
        adjusted_rand_score(numbers, clusters),
        normalized_mutual_info_score(numbers, clusters),
        float((mode(votes, axis=1).mode == numbers).mean()),
    ]


# --- one run ---------------------------------------------------------------------------------


def run(cells, options):
    """Sample, draw the figure, and return all that the page says."""
    tensor = BinaryTensor.from_any(
        np.ma.masked_array(cells.ones, ~cells.is_known), mode_names=("cells", "genes")
    )
    settings = {name: getattr(options, name) for name in ("chains", "warmup", "draws", "seed")}
    model = {"noise": options.noise, "density": DENSITIES[options.density]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # the page has the verdict
        # Compile before the clock starts.
        thali.sample(cells.ones[:30, :99], chains=1, warmup=2, draws=2, seed=0, **model)
        start = perf_counter()
        posterior = thali.sample(tensor, **settings, **model)
    seconds = perf_counter() - start
    print(posterior, f"{seconds:.0f} s", flush=True)
    users, genes, *trust = components(posterior, cells)
    draw(posterior, cells, users).savefig(options.folder / f"{options.name}.png", dpi=150)
    compared = representations(posterior, cells, users) if cells.labels else {}
    return {
        "source": cells.source,
        "shape": cells.ones.shape,
        "ones": cells.ones[cells.is_known].mean(),
        "settings": {**settings, "noise": options.noise, "density": options.density},
        "seconds": seconds,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, thali {thali.__version__}",
        "n_components": {
            name: posterior.n_components_table(least).to_dict()
            for name, least in (("all", 1), ("shared", 2))
        },
        "error": posterior.error.mean(),
        "summary": in_text(posterior.summary(), 3),
        "verdict": str(posterior.verdict() or ""),
        "check": in_text(posterior.check(n_replicates=20).drop(columns="p_value"), 4),
        "with_reads": None if cells.reads is None else with_reads(posterior, cells),
        "components": describe(cells, users, genes, *trust),
        "agreement": {
            key: {name: agreement(values, types) for name, values in compared.items()}
            for key, types in cells.labels.items()
        },
        "n_types": {key: len(np.unique(types)) for key, types in cells.labels.items()},
    }


def draw(posterior, cells, users):
    """Draw who has which component, cells ordered by type, and how many components there are."""
    figure = Figure(figsize=(9.0, 5.5), layout="constrained")
    panels = figure.subplot_mosaic([["cells", "shared"], ["cells", "all"]], width_ratios=[3, 1])
    names = type_means(users, cells.types).index
    numbers = names.get_indexer(cells.types)
    order = np.lexsort([*users.round().T[::-1], numbers])
    left = panels["cells"]
    image = left.imshow(users[order], cmap="Blues", aspect="auto", interpolation="nearest")
    image.set_clim(0, 1)
    ends = np.cumsum(np.bincount(numbers))
    for end in ends[:-1]:
        left.axhline(end - 0.5, color="#808080", lw=0.6)
    left.set_yticks((ends + np.r_[0, ends[:-1]] - 1) / 2, names)
    left.tick_params(axis="y", length=0)
    left.set_xlabel("components of two cells or more")
    left.xaxis.get_major_locator().set_params(integer=True)
    figure.colorbar(
        image, ax=left, location="top", shrink=0.4, aspect=40, ticks=[0, 1], label="probability"
    )
    shared = np.array([(draw.state.factors[0].sizes() > 1).sum() for draw in posterior])
    histogram(panels["shared"], shared.reshape(posterior.n_components.shape))
    histogram(panels["all"], posterior.n_components)
    panels["shared"].set_xlabel("number of these")
    panels["all"].set_xlabel("number of all components")
    if posterior.n_chains > 1:
        panels["shared"].legend(
            frameon=False, ncols=2, fontsize="small", loc="lower center", bbox_to_anchor=(0.5, 1.0)
        )
    return figure


def histogram(panel, numbers):
    """Draw the posterior of a number, and which chain said so."""
    width = max(1, -(-np.ptp(numbers) // 20))  # whole: every bar holds as many numbers
    bins = np.arange(numbers.min(), numbers.max() + width + 1, width) - 0.5
    weights = [np.full(len(chain), 1 / numbers.size) for chain in numbers]
    labels = [f"chain {number + 1}" for number in range(len(numbers))]
    panel.hist(list(numbers), bins, weights=weights, stacked=True, label=labels)
    panel.set_ylabel("probability")
    panel.xaxis.get_major_locator().set_params(integer=True)


# --- the page --------------------------------------------------------------------------------

INTRODUCTION = """# Single cells

Section 3.2 of Rukat & Yau (2018) factorizes single-cell expression: cells x genes, a one where a
gene was detected. This page does the same with thali's default settings, under which every cell
and every gene has a level of its own. It is written by `experiments/single_cell.py`, which takes
a path to the file; the data themselves are not part of thali. The paper has a picture, of 301
cells and about 21,000 genes with 35% ones, from 200 draws in one to two minutes on a laptop. The
tables below hold these cells as others have processed them, or other cells.

How to read the tables:

- *ARI* and *NMI* compare the types with Ward's clusters; there are as many clusters as types.
  *Neighbours* is the share of cells most of whose {n} nearest cells are of the same type. The
  methods that we compare with treat unknown entries as zeros.
- A component of a single cell says that this cell is unlike the others. Pictures, scores and
  lists have the components that at least two cells have in a typical draw.
- *Matched* is the share of draws that have the component, and *similarity* how similar it is
  there.
- *Depth*: if one of two cells of a type has the component and the other does not, how often is
  it the one with more reads? A value of 0.5 says that the component has nothing to do with
  depth; near 0 or 1, depth may be all that it explains. It is empty for fewer than {pairs}
  pairs.
- *Genes that set it apart* are in the component with probability above {sure} and in the fewest
  other components; among those, the genes that are detected more often in its cells than
  elsewhere.
"""


def write_page(folder):
    """Write the page anew from all results there are."""
    sections = (section(p.stem, json.loads(p.read_text())) for p in sorted(folder.glob("*.json")))
    text = "\n".join([INTRODUCTION.format(n=N_NEIGHBOURS, sure=SURE, pairs=N_PAIRS), *sections])
    folder.with_suffix(".md").write_text(text, encoding="utf-8")


def section(name, result):
    """Return what the page says about one data set."""
    n_cells, n_genes = result["shape"]
    chosen = result["settings"]
    n_sweeps = chosen["chains"] * (chosen["warmup"] + chosen["draws"])
    source = f" Source: {result['source']}." if result["source"] else ""
    return f"""## {name}

{n_cells:,} cells x {n_genes:,} genes, {result["ones"]:.0%} ones.{source}

{chosen["chains"]} chain(s) of {chosen["warmup"]} sweeps of warm-up and {chosen["draws"]} draws;
seed {chosen["seed"]}, `noise="{chosen["noise"]}"`, density of components: {chosen["density"]}.
{result["seconds"]:.0f} s in all, {1000 * result["seconds"] / n_sweeps:.0f} ms per sweep
({result["machine"]}).

```{{image}} single_cell/{name}.png
:alt: Heat map of cells by components, and bar charts of the number of components.
```

{how_many(result["n_components"])}

{result["verdict"] or "Nothing speaks against the chains."}

{table(*result["summary"])}

{contradicted(result["error"], chosen["noise"])} Data simulated from the posterior, compared with
the data:

{table(*result["check"])}

{agreement_tables(name, result)}

{depth(result)}
{component_table(result["components"])}
"""


def contradicted(share, noise):
    """Say how many entries components contradict, which with effects they do not explain alone."""
    if noise == "effects":
        return (
            f"Taken alone, components contradict {share:.1%} of the entries: they make ones more "
            "probable, and levels of cells and genes do the rest."
        )
    return f"{share:.1%} of the entries contradict the components."


def how_many(tables):
    """Return the posterior of the number of components as a table; of many, the most probable."""
    header = ["components", "mean", "5%", "95%", "most probable (probability)"]
    lines = []
    for name, of in (("all", "all"), ("shared", "of two cells or more")):
        numbers = np.array(list(map(int, tables[name])))
        chance = np.array(list(tables[name].values()))
        low, high = numbers[np.searchsorted(chance.cumsum(), (0.05, 0.95))]
        best = np.sort(np.argsort(-chance, kind="stable")[:6])
        told = ", ".join(f"{numbers[i]} ({chance[i]:.2f})" for i in best)
        lines.append([of, f"{numbers @ chance:.1f}", low, high, told])
    return table(header, lines)


def agreement_tables(name, result):
    """Return our scores, and below them the published ones."""
    parts, sources = [], []
    for key, ours in result["agreement"].items():
        lines = [[m, *(f"{s:.3f}" for s in scores), "this run"] for m, scores in ours.items()]
        for names, labels, methods, source in PUBLISHED:
            if name in names and labels == key:
                sources.append(source)
                for method, scores in methods.items():
                    told = [f"{score:.3f}" for score in scores]
                    lines.append([method, *told, *[""] * (3 - len(told)), "published"])
        parts.append(f"Agreement with `{key}` ({result['n_types'][key]} types):")
        parts.append(table(["", "ARI", "NMI", "neighbours", ""], lines))
    return "\n\n".join([*parts, *(f"Published: {source}." for source in dict.fromkeys(sources))])


def depth(result):
    """Say how much components have to do with reads."""
    if result["with_reads"] is None:
        return ""
    known = [line["depth"] for line in result["components"] if line["depth"] is not None]
    n_deep = sum(abs(value - 0.5) > 0.3 for value in known)
    shared, own = (f"{result['with_reads'][name]:.2f}" for name in ("shared", "own"))
    return f"""A cell's number of reads and of components have a rank correlation of {shared}, for
components of that cell alone of {own}. Depth is below 0.2 or above 0.8 for {n_deep} of the
{len(known)} components for which it is known.
"""


def component_table(lines):
    """Return the components of most cells, in the order of the picture."""
    sizes = np.array([line["cells"] for line in lines])
    listed = np.sort(np.argsort(-sizes, kind="stable")[:N_LISTED])
    header = ["", "cells", "genes", "matched", "similarity", "depth"]
    header += ["types, most cells of which have it", "genes that set it apart"]
    rows = []
    for number in listed:
        line = lines[number]
        row = [number, *(f"{line[name]:.0f}" for name in ("cells", "genes"))]
        row += [f"{line[name]:.2f}" for name in ("matched", "similarity")]
        row += ["" if line["depth"] is None else f"{line['depth']:.2f}"]
        rows.append([*row, ", ".join(line["types"]), " ".join(line["top"])])
    told = f"{len(listed)} of {len(lines)} components, in the order of the picture:"
    return f"{told}\n\n{table(header, rows)}"


def in_text(frame, digits):
    """Return header and lines of a table of numbers."""
    lines = [[name, *(f"{v:.{digits}g}" for v in row)] for name, row in frame.T.items()]
    return [frame.index.name, *frame.columns], lines


def table(header, lines):
    """Return a table in Markdown."""
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def main():
    """Run one data set; write the page of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="cells x genes: .npz of packed bits, or .h5ad")
    parser.add_argument("--layer", help="of an .h5ad; X by default")
    parser.add_argument("--labels", help="which labels; all by default, of an .h5ad none")
    parser.add_argument("--name", help="of the results; by default that of the file")
    parser.add_argument("--noise", default="effects", choices=["effects", "unequal", "equal"])
    parser.add_argument("--density", default="chosen by the data", choices=DENSITIES)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=WARMUP)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results")
    options = parser.parse_args()
    options.name = options.name or options.path.stem
    options.folder = options.out / "single_cell"
    options.folder.mkdir(parents=True, exist_ok=True)
    result = run(read(options.path, options.layer, options.labels), options)
    stored = json.dumps(result, indent=1, allow_nan=False)
    (options.folder / f"{options.name}.json").write_text(stored + "\n")
    write_page(options.folder)


if __name__ == "__main__":
    main()
