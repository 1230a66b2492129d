"""Stage 2: data, factors and their Boolean products in packed form, 64 entries per word."""

from thali.bits.codes import inner_mode, khatri_rao
from thali.bits.counts import Confusion, Counts, Totals
from thali.bits.factor import Factor
from thali.bits.tensor import PackedTensor, Unfolding
from thali.bits.words import Index, Words, pack, unpack

__all__ = [
    "Confusion",
    "Counts",
    "Factor",
    "Index",
    "PackedTensor",
    "Totals",
    "Unfolding",
    "Words",
    "inner_mode",
    "khatri_rao",
    "pack",
    "unpack",
]
