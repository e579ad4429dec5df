"""Layers that another reader made of files that one of ours reads, too: what differs is reported, with the remedy.

Ours are loaded by name, as in `napari_gpubio.gui.actions`, so that this kit imports no engine.
"""

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Image

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import LayerData, carried
from napari_gpubio.gui.results import ResultFiles

# by endings of names; they have `what_differs` and `read_layer`
_READERS = dict.fromkeys((".tif", ".tiff", ".btf", ".tf8", ".lsm", ".stk"), "napari_gpubio.speckle.napari_io")
_NAPARI_READER = "napari"
Remedies = Sequence[tuple[str, Callable[..., Any]]]


def foreign_file(layer: Any) -> Path | None:
    """The file that another reader has opened in one piece as an image, if one of ours reads it, too; or None."""
    path = Path(layer.source.path or "")
    is_one = isinstance(layer, Image) and isinstance(layer.data, np.ndarray)  # napari makes lazy arrays of several
    is_foreign = is_one and carried(layer, "path") is None and path.suffix.lower() in _READERS
    return path if is_foreign and path.is_file() else None


def show_instead(layer: Any, read: LayerData) -> None:
    """Let a layer show what one of our readers has read of its file; it stays where it lies."""
    array, keywords, _ = read
    layer.metadata.update(keywords["metadata"])
    layer.data = array
    layer.reset_contrast_limits()


class ForeignFiles:
    """Looks at files of layers in workers.

    Parameters
    ----------
    tell
        Called with a sentence and remedies, texts and what they call, as napari's notifications have them.
    """

    def __init__(self, tell: Callable[[str, Remedies], Any]) -> None:
        self._tell, self._files = tell, ResultFiles(None)
        self._files.error_occurred.connect(lambda text: tell(text, ()) if text else None)

    def look_at(self, layer: Any) -> None:
        """Tell of a layer's file what another reader has not shown, as soon as a worker has looked."""
        if (path := foreign_file(layer)) is not None:
            is_napari = (layer.source.reader_plugin or _NAPARI_READER) == _NAPARI_READER
            look = partial(_differences, values=layer.data.size, is_napari=is_napari)
            self._files.read(path, look, partial(self._offer, layer, path))

    def cancel(self) -> None:
        """Drop what is being looked at or read."""
        self._files.detach()

    def _offer(self, layer: Any, path: Path, found: tuple[str, ...]) -> None:
        if found and foreign_file(layer) is not None:
            remedy = "Read it as frames", lambda *_: self._read(layer, path)
            text = "\n".join([f"{path.name}: {found[0]}", *found[1:]])
            self._tell(text, () if layer.rgb else (remedy,))

    def _read(self, layer: Any, path: Path) -> None:
        if foreign_file(layer) is not None:  # not clicked twice
            self._files.read(path, _ours(path).read_layer, partial(show_instead, layer))


def _ours(path: Path) -> Any:
    return importlib.import_module(_READERS[path.suffix.lower()])


def _differences(path: Path, **shown: Any) -> tuple[str, ...]:
    try:
        found: tuple[str, ...] = _ours(path).what_differs(path, **shown)
    except InvalidInput:  # what cannot be read as frames is left to the other reader
        return ()
    return found
