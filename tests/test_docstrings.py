"""The examples of all docstrings do what they show."""

import doctest
import importlib
from pathlib import Path

import pytest

import napari_gpubio

ROOT = Path(napari_gpubio.__file__).parent
NEEDS_A_WINDOW = {"napari_gpubio.tractograms.show"}


def modules():
    """Names of all modules that have examples and need no window."""
    paths = [path for path in sorted(ROOT.rglob("*.py")) if "gui" not in path.parts]
    names = [path.relative_to(ROOT.parent).with_suffix("").parts for path in paths if ">>> " in path.read_text("utf-8")]
    return [".".join(parts).removesuffix(".__init__") for parts in names]


@pytest.mark.parametrize("name", modules())
def test_examples_of_docstrings_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    for example in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
        if example.name not in NEEDS_A_WINDOW:
            out = []
            assert runner.run(example, out=out.append).failed == 0, "".join(out)
