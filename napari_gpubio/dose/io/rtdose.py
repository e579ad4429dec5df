"""A dose from a DICOM RTDOSE file."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.io.dicom import decoded, numbers, read_dataset, required
from napari_gpubio.dose.io.geometry import EVEN, plane_axes, to_world
from napari_gpubio.dose.model import Dose

Array = npt.NDArray[Any]
_UNITS = {"GY": "Gy"}


def read_rtdose(path: str | Path, *, unit: str | None = None) -> Dose:
    """Read the dose grid of an RTDOSE file.

    Parameters
    ----------
    path
        The file, uncompressed, deflated or run-length encoded.
    unit
        Where the file says that its doses are relative, what they are then, for instance ``"%"``.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, of another kind, without a dose grid or its scaling, in frames that are not
        evenly spaced, or in relative units that are not told.
    """
    name = Path(path).name
    dataset = read_dataset(path, "RTDOSE")
    found = _unit_of(dataset, unit, name)
    values = _pixels(dataset, name) * float(numbers(dataset, "DoseGridScaling", name, 1)[0])
    return Dose(
        values=values.transpose(2, 1, 0),
        affine=_affine(dataset, len(values), name),
        unit=found,
        frame_of_reference=str(dataset.get("FrameOfReferenceUID", "")),
        name=name,
    )


def _unit_of(dataset: Any, unit: str | None, name: str) -> str:
    stated = str(dataset.get("DoseUnits", "")).strip().upper()
    if stated in _UNITS:
        return _UNITS[stated]
    if unit is None:
        raise InvalidInput(f"{name} gives its doses as {stated or 'nothing'}, not in Gy; say what they are with unit=")
    return unit


def _pixels(dataset: Any, name: str) -> Array:
    """Frames, rows, columns as float64; float32 would lose bits of 32-bit pixels."""
    rows, columns = int(numbers(dataset, "Rows", name, 1)[0]), int(numbers(dataset, "Columns", name, 1)[0])
    frames = int(numbers(dataset, "NumberOfFrames", name, 1)[0]) if dataset.get("NumberOfFrames") else 1
    required(dataset, "PixelData", name)
    pixels = decoded(f"the dose grid of {name}", lambda: np.asarray(dataset.pixel_array))
    if pixels.size != frames * rows * columns:
        raise InvalidInput(
            f"{name} declares {frames} frames of {rows} x {columns} and holds {pixels.size} values; export it again"
        )
    return pixels.reshape(frames, rows, columns).astype(np.float64)


def _affine(dataset: Any, frames: int, name: str) -> Array:
    """Index of column, row, frame to world mm (RAS)."""
    axes, distance = plane_axes(dataset, name), _frame_distance(dataset, frames, name)
    return to_world(axes, distance, numbers(dataset, "ImagePositionPatient", name, 3))


def _frame_distance(dataset: Any, frames: int, name: str) -> float:
    """From one frame to the next along the normal, mm; negative if they run against it.

    The offsets begin with 0, or with the patient coordinate of the image position (DICOM PS3.3 C.8.8.3.2); their
    differences mean the same in both cases.
    """
    if frames == 1:
        if not dataset.get("SliceThickness"):
            raise InvalidInput(f"{name} has a single frame and no SliceThickness; give a dose of several frames")
        return float(numbers(dataset, "SliceThickness", name, 1)[0])
    steps = np.diff(numbers(dataset, "GridFrameOffsetVector", name, frames))
    step = float(steps.mean())
    if step == 0 or np.abs(steps - step).max() > EVEN * abs(step):
        raise InvalidInput(
            f"the frames of {name} are {np.abs(steps).min():.4g} to {np.abs(steps).max():.4g} mm apart; export the "
            "dose on an evenly spaced grid"
        )
    return step
