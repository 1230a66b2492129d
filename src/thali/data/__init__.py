"""Stage 1: read whatever the user has into a labelled binary tensor.

All later stages work on :class:`BinaryTensor`, so only this package knows about input formats.
"""

from thali.data.binary import BinaryTensor
from thali.data.entries import Entries, Packed, Pattern

__all__ = ["BinaryTensor", "Entries", "Packed", "Pattern"]
