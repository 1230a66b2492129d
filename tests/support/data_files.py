"""Write small files of entries, read them, and compare what was said about bad ones."""

import gzip
import re

import numpy as np
import pytest
from scipy import sparse

from thali.data.readers.files import read
from thali.errors import InvalidValue
from thali.sentences import say

VALUES = np.array([[0.0, 1.0, np.nan], [1.0, 1.0, 0.0]])


def ternary(tensor):
    """Return the values of a tensor, NaN where unknown."""
    ones, unknown = tensor.rows()
    return ones.astype(float) if unknown is None else np.where(unknown, np.nan, ones)


def save(path, name):
    """Write the values in the format that an extension stands for."""
    path = path / name
    if path.suffix == ".npy":
        np.save(path, VALUES)
    elif name == "sparse.npz":
        sparse.save_npz(path, sparse.csr_array(VALUES))
    elif path.suffix == ".npz":
        np.savez_compressed(path, anything=VALUES)
    else:
        separator = "\t" if path.suffix == ".tsv" else ","
        lines = ["a b c", "0 1 ", "1 1 0"]
        path.write_text("\n".join(line.replace(" ", separator) for line in lines) + "\n")
    return path


def write(path, content, name="t.csv"):
    path = path / name
    octets = content if isinstance(content, bytes) else content.encode()
    path.write_bytes(gzip.compress(octets) if path.suffix == ".gz" else octets)
    return path


def assert_refused(path, reason, **options):
    with pytest.raises(ValueError, match=re.escape(say(reason))) as caught:
        read(path, **options)
    message = str(caught.value)
    assert type(caught.value) is InvalidValue
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert message.endswith(".")
