"""Optodes from a file, put on the surface."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.surface import above_surface, inward_normal, nearest_surface
from napari_gpubio.light.widget.optodes import Optodes, Placement
from napari_gpubio.light.widget.tissue import Tissue, vector


@dataclass(frozen=True, slots=True)
class Montage:
    """Sources and detectors on the surface, and how far they were from it."""

    optodes: Optodes
    told: str


def read_montage(path: str | Path, tissue: Tissue) -> Montage:
    """Read sources and detectors from a SNIRF file and snap them to the surface.

    Raises
    ------
    InvalidInput
        If the file cannot be read, holds no positions, or there is no surface.
    """
    raise NotImplementedError
