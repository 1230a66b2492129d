"""Packed files are read as they were written, row by row if need be."""

import numpy as np
import pytest
from click.testing import CliRunner

import thali
from thali.bits import PackedTensor
from thali.cli import main
from thali.data import BinaryTensor
from thali.data.entries import copy_rows, file_of
from thali.data.readers.files import read
from thali.data.readers.packed import write_packed
from thali.errors import InvalidValue


def written(path, data):
    tensor = BinaryTensor.from_any(
        data, row_names=[["r"] * data.shape[0], None, None][: data.ndim]
    )
    with path.open("wb") as file:
        write_packed(file, tensor, *PackedTensor.from_tensor(tensor).unfoldings[0])
    return tensor


@pytest.mark.parametrize("unknown", [0.0, 0.2])
@pytest.mark.parametrize("shape", [(70, 130), (9, 66, 5)], ids=str)
def test_what_was_written_is_read(shape, unknown, tmp_path):
    data = thali.simulate(shape, 3, unknown=unknown, seed=1).tensor
    tensor = written(tmp_path / "data.packed", data)
    found = read(tmp_path / "data.packed")
    assert (found.shape, found.n_known, found.n_ones) == (shape, tensor.n_known, tensor.n_ones)
    assert (found.mode_names, found.row_names) == (tensor.mode_names, tensor.row_names)
    for here, there in zip(found.rows(3, 8), tensor.rows(3, 8), strict=True):
        assert (here is None and there is None) or (here == there).all()
    packed, expected = (PackedTensor.from_tensor(t) for t in (found, tensor))
    for words, wanted in zip(packed.unfoldings[0], expected.unfoldings[0], strict=True):
        if wanted is not None:
            assert file_of(words) is not None
            assert (copy_rows(words, 2, 7) == wanted[2:7]).all()
            assert (copy_rows(words[1:], 2, 7) == wanted[3:8]).all()
            assert (words == wanted).all()
    if len(shape) == 2:
        assert (found.transposed().rows()[0] == tensor.transposed().rows()[0]).all()


def test_files_that_are_not_whole(tmp_path):
    path = tmp_path / "data.packed"
    written(path, np.eye(70))
    content = path.read_bytes()
    for wrong in (content[:-1], content + b"0", b"{}\n", b"", content.replace(b"70", b"71", 1)):
        path.write_bytes(wrong)
        with pytest.raises(InvalidValue, match="not packed data of thali, or was cut off"):
            read(path)
    path.write_bytes(content)
    with pytest.raises(InvalidValue, match="zeros and ones already"):
        read(path, binarize=0.5)


def test_convert(tmp_path):
    """The command writes a file that is the same data, and none in place of another."""
    data, out = tmp_path / "data.csv", tmp_path / "data.packed"
    data.write_text("name,a,b\nx,1,0\ny,,1\n")
    result = CliRunner().invoke(main, ["convert", str(data), str(out)])
    assert result.exit_code == 0, result.output
    assert "2 x 2 entries, 3 known, 2 of them one" in result.output
    found = read(out)
    assert found.row_names == (("x", "y"), ("a", "b"))
    assert found.rows()[1].tolist() == [[False, False], [True, False]]
    assert CliRunner().invoke(main, ["convert", str(data), str(out)]).exit_code == 2
    wrong = CliRunner().invoke(main, ["convert", str(data), str(tmp_path / "data.npy")])
    assert wrong.exit_code == 2
    assert "allowed is .packed" in wrong.output
