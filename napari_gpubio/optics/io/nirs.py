"""Positions of optodes from ``.nirs`` files of HOMER, which are MATLAB files with a struct ``SD``.

Read are ``SD.SrcPos`` and ``SD.DetPos`` (or ``SrcPos3D`` and ``DetPos3D``, where both are there), ``SD.Lambda``,
``SD.SpatialUnit`` and ``SD.MeasList``, or ``ml``. Files of MATLAB 7.3, which are HDF5, are refused.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.optics.io.matlab import read_matlab
from napari_gpubio.optics.io.snirf import FLAT, OWN_SYSTEM, Optodes, millimeters, placed_optodes

Floats = npt.NDArray[np.float64]


@reads_file
def read_nirs(path: str | Path) -> Optodes:
    """Read where the optodes are.

    Parameters
    ----------
    path
        A ``.nirs`` file.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged or of another kind, or has no sources or no detectors.
    """
    content = read_matlab(path, ("SD", "ml"))
    probe = content.get("SD")
    if not isinstance(probe, dict):
        raise InvalidInput("it has no struct SD, so it has no probe; export it again, or give a .snirf file")
    unit = _unit(probe)
    ending = "Pos3D" if all(_numbers(probe, f"{name}Pos3D").size for name in ("Src", "Det")) else "Pos"
    if ending == "Pos" and any(_numbers(probe, f"{name}Pos3D").size for name in ("Src", "Det")):
        note("only sources or only detectors have positions in space (Pos3D), so those of the layout were taken")
    places = {name: _positions(probe, f"{name}{ending}") * unit for name in ("Src", "Det")}
    sources, detectors = (([f"{name[0]}{row + 1}" for row in range(len(at))], at) for name, at in places.items())
    note(OWN_SYSTEM)
    own = _numbers(probe, "MeasList")
    return placed_optodes(
        sources,
        detectors,
        _pairs(own if own.size else _numbers(content, "ml")),
        wavelengths_nm=tuple(float(value) for value in _numbers(probe, "Lambda").ravel() if np.isfinite(value)),
    )


def _numbers(fields: dict[str, Any], name: str) -> Floats:
    """The real numbers of a field, or none."""
    found = fields.get(name)
    return found.astype(np.float64) if isinstance(found, np.ndarray) else np.empty(0)


def _positions(probe: dict[str, Any], field: str) -> Floats:
    """Positions of all optodes, shape (N, 3), in the file's unit."""
    found = _numbers(probe, field)
    if not found.size:
        raise InvalidInput(f"it has no SD.{field}; export it again, with the probe")
    found = np.atleast_2d(found)
    if found.ndim != 2 or found.shape[1] not in (2, 3):
        raise InvalidInput(f"SD.{field} has shape {found.shape}; it must be (optodes, 3)")
    if found.shape[1] == 2 or not found[:, 2].any():
        note(f"SD.{field} {FLAT}")
    return np.pad(found, ((0, 0), (0, 3 - found.shape[1])))


def _unit(probe: dict[str, Any]) -> float:
    """Millimeters in the unit of length."""
    word = probe.get("SpatialUnit", "")
    if not isinstance(word, str) or not word.strip():
        note("SD.SpatialUnit is missing; positions were taken as mm")
        return 1.0
    return millimeters(word, "SD.SpatialUnit")


def _pairs(listed: Floats) -> Iterator[tuple[int, int]]:
    """Source and detector of every measurement, from 0."""
    for source, detector in listed[:, :2].tolist() if listed.ndim == 2 and listed.shape[1] >= 2 else ():
        yield source - 1, detector - 1
