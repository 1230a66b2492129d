"""Change what a stored run says, as an earlier version or a forger would have written it."""

import json
from io import BytesIO

import numpy as np

from thali.trace.run import _write_header


def read_header(folder):
    """Return the header of a run without its seal."""
    header = json.loads((folder / "header.json").read_text())
    header.pop("sha256", None)
    return header


def rewrite_header(folder, **changes):
    """Write other values into the header of a run, and seal it."""
    _write_header(folder, read_header(folder) | changes)


def as_before_seals(folder):
    """Turn a run into one of format 1, whose files have no digest at their end."""
    for path in (folder / "data.npz", *folder.glob("chain-*/*.npz")):
        unseal(path)
    for path in folder.glob("chain-*/state.npz"):
        arrays = dict(np.load(path))
        parts = [path.with_name(f"draws-{start:08d}.npz") for start in arrays["starts"]]
        digests = [_digest(part) for part in parts]
        arrays["digests"] = np.array(digests, np.uint8).reshape(len(parts), 32)
        np.savez(path, **arrays)
    header = read_header(folder) | {"format": 1}
    (folder / "header.json").write_text(json.dumps(header, indent=2, ensure_ascii=False))


def unseal(path):
    """Write the arrays of a file anew, without a digest at its end."""
    buffer = BytesIO()
    np.savez(buffer, **dict(np.load(path)))
    path.write_bytes(buffer.getvalue())


def _digest(path):
    from hashlib import sha256

    return np.frombuffer(sha256(path.read_bytes()).digest(), np.uint8)
