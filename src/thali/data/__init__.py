"""Stage 1: whatever a user has becomes a labelled binary tensor.

Later stages see only :class:`BinaryTensor`, so that input formats are dealt with here alone.
"""

from thali.data.binary import BinaryTensor
from thali.data.entries import Entries, Packed, Pattern

__all__ = ["BinaryTensor", "Entries", "Packed", "Pattern"]
