"""The page on files says what happens."""

import doctest
import re
from pathlib import Path

from thali.data.readers import files

PAGE = Path(__file__).parents[3] / "docs" / "files.md"


def test_examples_of_the_page(tmp_path, monkeypatch):
    """They run, one after the other, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    runner = doctest.DocTestRunner()
    runner.run(test)
    assert runner.tries > 15
    assert runner.failures == 0


def test_page_names_every_format():
    """An ending that is read is on the page, and so is every option."""
    text = PAGE.read_text()
    for ending in (*files._TEXT, *files._READERS, ".zarr"):
        assert f"`{ending}`" in text
    for option in (
        "binarize",
        "missing",
        "transpose",
        "layer",
        "kind",
        "threads",
        "sep",
        "array",
        "sheet",
        "modes",
        "unlisted",
        "encoding",
        "skip",
        "names",
        "drop",
        "ones",
        "zeros",
    ):
        assert f"`{option}" in text
