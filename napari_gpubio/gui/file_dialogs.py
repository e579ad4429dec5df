"""File dialogs that return a path or None, or write what is asked for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from qtpy.QtWidgets import QFileDialog, QWidget

from napari_gpubio.core.errors import GpuBioError


def open_path(parent: QWidget | None, title: str, filters: str, *, start: str = "") -> Path | None:
    """Open a dialog for a file to read, with filters such as ``"Tables (*.csv);;All files (*)"``; None if cancelled."""
    chosen, _ = QFileDialog.getOpenFileName(parent, title, start, filters)
    return Path(chosen) if chosen else None


def open_paths(parent: QWidget | None, title: str, filters: str) -> list[Path]:
    """Open a dialog for files to read, with filters as those of `open_path`; none if cancelled."""
    chosen, _ = QFileDialog.getOpenFileNames(parent, title, "", filters)
    return [Path(name) for name in chosen]


def save_path(parent: QWidget | None, title: str, filters: str, *, name: str = "") -> Path | None:
    """Open a dialog for a file to write; a name without an extension gets the first one of the chosen filter."""
    chosen, kind = QFileDialog.getSaveFileName(parent, title, name, filters)
    if not chosen:
        return None
    path = Path(chosen)
    return path if path.suffix else path.with_name(path.name + _first_extension(kind))


def opens_with(parent: QWidget, title: str, filters: str, act: Callable[[Path], object]) -> Callable[..., None]:
    """Return what opens a dialog for a file to read, and calls a function with the one that is chosen."""

    def ask(*_: object) -> None:
        if path := open_path(parent, title, filters):
            act(path)

    return ask


def saves_with(
    parent: QWidget, title: str, filters: str, name: str, act: Callable[[Path], object]
) -> Callable[..., None]:
    """Return what opens a dialog for a file to write, and calls a function with the one that is chosen."""

    def ask(*_: object) -> None:
        if path := save_path(parent, title, filters, name=name):
            act(path)

    return ask


def write_table(
    parent: QWidget, title: str, name: str, write: Callable[[Path], object], failed: Callable[[str], object]
) -> None:
    """Ask where a table goes and write it as CSV; a sentence says why it was not written."""
    path = save_path(parent, title, "Table (*.csv)", name=name)
    with_path(path and path.with_suffix(".csv"), write, failed)


def with_path(path: Path | None, act: Callable[[Path], object], failed: Callable[[str], object]) -> None:
    """Call a function with a path, if one was chosen; a sentence says why it could not do its work.

    An empty one ends before what was said of an earlier try.
    """
    if path is None:
        return
    failed("")
    try:
        act(path)
    except GpuBioError as error:
        failed(str(error))


def folder_path(parent: QWidget | None, title: str, *, start: str = "") -> Path | None:
    """Open a dialog for a folder."""
    chosen: Any = QFileDialog.getExistingDirectory(parent, title, start)
    return Path(chosen) if chosen else None


def _first_extension(kind: str) -> str:
    """Return the extension of a filter such as ``"NIfTI (*.nii.gz *.nii)"``."""
    inside = kind[kind.find("(") + 1 : kind.rfind(")")].split()
    return inside[0].lstrip("*") if inside and inside[0].startswith("*.") and inside[0] != "*.*" else ""
