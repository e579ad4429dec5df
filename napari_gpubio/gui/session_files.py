"""Sessions as files of napari's: dropped on the window or opened by its menu, and as what saves all layers at once."""

from pathlib import Path
from typing import Any

import napari

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import LayerReader, Paths, listed, reader_if
from napari_gpubio.core.operations.sessions import is_session
from napari_gpubio.gui.switcher import open_panel

_NO_LAYERS: list[Any] = [(None,)]  # as napari asks for of a reader that shows what it reads itself


def get_reader(path: Paths) -> LayerReader | None:
    """Return what opens a session in the panel of the viewer, or None for other files (napari's reader)."""
    return reader_if(is_session, path, _open)


def write_session(path: str, layers: list[Any]) -> list[str]:
    """Save layers of the current viewer as a session, with the drafts of its panels (napari's writer).

    Parameters
    ----------
    path
        Of the archive.
    layers
        Data, attributes and kind of each, as napari gives them; the viewer's own layers of these names are saved.

    Raises
    ------
    InvalidInput
        If no window is open, or the session cannot be written.
    """
    viewer, names = _viewer(), [attributes["name"] for _, attributes, _ in layers]
    _panel(viewer).save_at_once(Path(path), [layer for layer in viewer.layers if layer.name in names])
    return [path]


def _open(path: Paths) -> list[Any]:
    panel = _panel(_viewer())
    for one in listed(path):
        panel.open(one)
    return _NO_LAYERS


def _panel(viewer: Any) -> Any:
    return open_panel(viewer, "Session")


def _viewer() -> Any:
    viewer = napari.current_viewer()
    if viewer is None:
        raise InvalidInput("a session is of a window: open one first, or use `napari-gpubio run` in a shell")
    return viewer
