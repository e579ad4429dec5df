"""Pieces of "Copy as Python": settings as code, and layers as paths."""

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.napari_io import saved_path
from napari_gpubio.core.settings import Settings
from napari_gpubio.core.volumes import read_array


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """Code that goes on with the result of a script: its imports, and its lines."""

    imports: tuple[str, ...]
    lines: tuple[str, ...]


def call_text(module: str, settings: Any) -> str:
    """Return the code that makes a settings instance, with only what differs from the defaults."""
    parts = []
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.init and value != field.default:
            text = call_text(module, value) if isinstance(value, Settings) else repr(value)
            parts.append(f"{field.name}={text}")
    return f"{module}.{type(settings).__name__}({', '.join(parts)})"


def points_text(points: Any) -> str:
    """Return points in mm as a Python list, to a thousandth of a millimeter."""
    return repr([tuple(round(float(v), 3) for v in point) for point in np.atleast_2d(points)])


def file_name(text: str) -> str:
    """Return a layer's name as a file name that every system takes."""
    return "".join(c if c.isalnum() or c in " -_." else "_" for c in text).strip(" .") or "unnamed"


def nifti_file_of(layer: Any, stored: npt.NDArray[Any]) -> Path | None:
    """Return the NIfTI file that holds exactly what an image layer shows, or None.

    ``stored`` is its array as a file has it, (X, Y, Z) or (X, Y, Z, N).
    """
    return saved_path(layer, read_array, stored)


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file, in short."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]
