"""One array of 0, 1 and 2 for unknown, in every form of input that a user may have."""

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import sparse

from thali.data import Pattern

FORMATS = ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")

UNKNOWN = 2  # in the ternary arrays from which all inputs are made


def dense(entries):
    """Return a Boolean array of what a tensor holds, sparse or not."""
    if not isinstance(entries, Pattern):
        return entries
    data = np.ones(entries.indices.size, bool)
    return sparse.csr_array((data, entries.indices, entries.indptr), shape=entries.shape).toarray()


def ternary(tensor):
    codes = dense(tensor.ones).astype(int)
    if tensor.unknown is not None:
        is_unknown = dense(tensor.unknown)
        assert is_unknown.any()
        assert not (is_unknown & dense(tensor.ones)).any()
        codes[is_unknown] = UNKNOWN
    return codes


def as_float(codes, dtype=np.float64):
    return np.where(codes == UNKNOWN, np.nan, codes).astype(dtype)


def as_object(codes, missing):
    values = codes.astype(object)
    values[codes == UNKNOWN] = missing
    return values


def as_frame(codes, dtype):
    return pd.DataFrame(as_object(codes, pd.NA)).astype(dtype)


def ternaries(**sizes):
    return arrays(
        np.int8, array_shapes(**sizes), elements=st.integers(0, 2), fill=st.nothing()
    ).filter(lambda codes: (codes != UNKNOWN).any())


def dense_inputs(codes):
    hidden = as_float(codes)
    hidden[codes == UNKNOWN] = np.resize([7.0, np.inf, np.nan, 1.0], (codes == UNKNOWN).sum())
    yield as_float(codes)
    yield as_float(codes, np.float16)
    yield as_float(codes, ">f4")
    yield as_float(codes, np.longdouble)
    yield np.asfortranarray(as_float(codes))
    yield as_float(codes)[::-1][::-1]
    yield np.repeat(as_float(codes), 2, axis=-1)[..., ::2]
    yield as_object(codes, None)
    yield as_object(codes, np.nan)
    yield as_object(codes, pd.NA)
    yield np.where(codes == UNKNOWN, None, (codes == 1).astype(object))
    yield as_float(codes).tolist()
    yield as_object(codes, None).tolist()
    yield tuple(as_object(codes, pd.NA).tolist())
    yield list(as_float(codes))
    yield np.ma.masked_array(hidden, codes == UNKNOWN)
    yield np.ma.masked_array(codes, codes == UNKNOWN)
    yield np.ma.masked_array(codes == 1, codes == UNKNOWN)
    yield np.ma.masked_array(codes != 0, codes == UNKNOWN)
    yield list(np.ma.masked_array(codes, codes == UNKNOWN))
    yield [list(part) for part in np.ma.masked_array(codes, codes == UNKNOWN)]
