"""Optodes of a SNIRF file, put on the surface of the labels."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.gui.optodes import Optodes, Placement, lifted
from napari_gpubio.light.gui.tissue import Tissue, vector
from napari_gpubio.light.io.snirf import read_snirf
from napari_gpubio.light.surface import nearest_surface

FAR_MM = 15.0  # further from the surface than a cap can be: the file is in other coordinates


@dataclass(frozen=True, slots=True)
class Montage:
    """Sources and detectors on the surface, and what to say of them."""

    optodes: Optodes
    told: str


def read_montage(path: str | Path, tissue: Tissue) -> Montage:
    """Read sources and detectors from a SNIRF file and snap them to the surface.

    Raises
    ------
    InvalidInput
        If the file cannot be read, holds no positions, or there is no surface.
    """
    read = read_snirf(path)
    sources = [
        Placement(entry_mm=(0.0, 0.0, 0.0), direction=(0.0, 0.0, 1.0), name=name).on_surface(tissue, point)
        for name, point in zip(read.sources, _snapped(read.source_positions_mm, tissue), strict=True)
    ]
    empty = Optodes(sources=tuple(sources))
    places = [lifted(tissue, point) for point in _snapped(read.detector_positions_mm, tissue)]
    radius = empty.usual_radius_mm(tissue)
    detectors = tuple(
        Detector(position_mm=vector(place), radius_mm=radius, name=name)
        for name, place in zip(read.detectors, places, strict=True)
    )
    optodes = Optodes(sources=tuple(sources), detectors=detectors)
    positions = np.concatenate([read.source_positions_mm, read.detector_positions_mm])
    return Montage(optodes, _told(optodes, positions, read.notes))


def _snapped(positions_mm: npt.NDArray[np.float64], tissue: Tissue) -> list[npt.NDArray[np.float64]]:
    return [nearest_surface(tissue.labels, tissue.affine, position) for position in positions_mm]


def _told(optodes: Optodes, positions_mm: npt.NDArray[np.float64], notes: tuple[str, ...]) -> str:
    """How many there are, and how far they were from the surface."""
    on_surface = [source.entry_mm for source in optodes.sources] + [d.position_mm for d in optodes.detectors]
    moved = np.linalg.norm(np.array(on_surface) - positions_mm, axis=1)
    text = (
        f"{len(optodes.sources)} sources and {len(optodes.detectors)} detectors were moved onto the surface, by "
        f"{np.median(moved):.1f} mm (at most {moved.max():.1f} mm)."
    )
    if moved.max() > FAR_MM:
        text += " That is far: the file is probably in other coordinates than these labels. Check where they lie."
    return " ".join([text, *notes])
