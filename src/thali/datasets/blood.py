"""Counts of genes in simulated blood cells, whose types and states are known.

The names of the genes are real, the numbers are not. A cell runs the gene programme of its type;
a quarter of all cells divide, and a quarter answer to interferon, whatever their type. Genes that
are on are missed now and then, and others are read by mistake.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

TYPES = {
    "T cell": "CD3D CD3E CD3G CD2 TRAC TRBC1 IL7R LCK CD27 BCL11B",
    "B cell": "CD19 MS4A1 CD79A CD79B PAX5 BANK1 CD22 TCL1A CD37 HLA-DRA CD74",
    "monocyte": "CD14 LYZ S100A8 S100A9 FCN1 CSF1R VCAN CD68 MNDA HLA-DRA CD74",
    "NK cell": "NKG7 GNLY GZMA GZMB PRF1 CST7 KLRD1 KLRF1 NCAM1 CD2",
}
STATES = {
    "division": "MKI67 TOP2A CDK1 CCNB1 CCNB2 BIRC5 AURKB TYMS PCNA UBE2C",
    "interferon": "IFIT1 IFIT2 IFIT3 ISG15 MX1 MX2 OAS1 OAS2 IFI6 IFI44L",
}
PROGRAMMES = TYPES | STATES
CELLS = {"T cell": 65, "B cell": 35, "monocyte": 45, "NK cell": 35}
HOUSEKEEPING = ["ACTB", "GAPDH", "MALAT1", "B2M", "EEF1A1", "RPLP0"]
OTHER = [
    "ALB",
    "INS",
    "TTN",
    "MYH7",
    "KRT5",
    "SFTPC",
    "GFAP",
    "NEUROD1",
    "RHO",
    "OPN1SW",
    "CRYAA",
    "KCNJ1",
    "UMOD",
    "AQP2",
]
IN_STATE, DROPPED, SPURIOUS, SEED = 0.25, 0.15, 0.02, 7


def make() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return counts, cells x genes, and the truth: cells x programmes, programmes x genes."""
    rng = np.random.default_rng(SEED)
    of_programmes = {gene for genes in PROGRAMMES.values() for gene in genes.split()}
    genes = sorted(of_programmes) + HOUSEKEEPING + OTHER
    types = rng.permutation([name for name, n_cells in CELLS.items() for _ in range(n_cells)])
    runs = np.array([[programme == name for programme in PROGRAMMES] for name in types])
    runs[:, len(TYPES) :] = rng.random((len(types), len(STATES))) < IN_STATE
    holds = np.array([[gene in part.split() for gene in genes] for part in PROGRAMMES.values()])
    is_on = (runs @ holds) | np.isin(genes, HOUSEKEEPING)
    detected = rng.random(is_on.shape) < np.where(is_on, 1 - DROPPED, SPURIOUS)
    counts = detected * (1 + rng.poisson(np.where(is_on, 3.0, 0.3)))
    cells = pd.Index([f"cell-{number:03}" for number in range(len(types))], name="cell")
    return (
        pd.DataFrame(counts, cells, genes),
        pd.DataFrame(runs, cells, list(PROGRAMMES)),
        pd.DataFrame(holds, list(PROGRAMMES), genes),
    )
