"""Factorization of AnnData under the name that scanpy uses ("tools"): ``import thali.tl``."""

from thali.single_cell import factorize, to_anndata

__all__ = ["factorize", "to_anndata"]
