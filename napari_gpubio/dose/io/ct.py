"""A CT series as one volume."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import reading
from napari_gpubio.dose.io.dicom import (
    EVEN,
    number_of,
    numbers,
    pixels_of,
    plane_axes,
    read_dataset,
    required,
    sorted_by_modality,
    text_of,
    to_world,
)

Array = npt.NDArray[Any]
_STRAIGHT_MM = 0.05  # how far the first pixel of a slice may lie off the line through those of the others
_TURNED = 1e-3  # by how much axes and spacings of slices may differ
_MISSING = 1.5  # times the usual distance: there is a slice missing


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class CtImage:
    """A CT series.

    Parameters
    ----------
    values
        Hounsfield units, shape (X, Y, Z): int16 where that holds them exactly, else float32.
    affine
        Voxel centers to world mm (RAS), 4 x 4.
    frame_of_reference
        What the coordinates refer to (a DICOM UID), where the files have it.
    name
        Of the series or of the folder.
    """

    values: Array
    affine: npt.NDArray[np.float64]
    frame_of_reference: str = ""
    name: str = ""


def read_ct(path: str | Path | Sequence[str | Path], *, series: str | None = None) -> CtImage:
    """Read a CT series.

    Parameters
    ----------
    path
        A folder, of which all CT files are taken, or the files of a series in any order.
    series
        SeriesInstanceUID, where there are several.

    Raises
    ------
    InvalidInput
        If there is no CT file, a DICOM file of the folder is damaged, there are several series, slices differ in size
        or orientation, two lie in one plane, one is missing, they are not evenly spaced, or the gantry was tilted.
    """
    files, name = _files_of(path)
    with reading(name):
        slices = [read_dataset(file, "CT") for file in files]
        for one in slices:
            required(one, "PixelData", _slice_name(one, name))  # the last attribute, which a file that was cut lacks
        return _volume(_one_series(slices, series, name), name)


def _files_of(path: str | Path | Sequence[str | Path]) -> tuple[list[Path], str]:
    if not isinstance(path, str | Path):
        files = [Path(one) for one in path]
        return files, files[0].parent.name if files else "nothing"
    folder = Path(path)
    if not folder.is_dir():
        return [folder], folder.name
    return ct_files(folder), folder.name


def ct_files(folder: Path) -> list[Path]:
    """The CT files of a folder, by their headers.

    InvalidInput if a DICOM file cannot be read: it may be a slice, without which the volume would end too early.
    """
    kinds, damaged = sorted_by_modality(folder)
    refuse_damaged(damaged, folder.name)
    return kinds.get("CT", [])


def refuse_damaged(damaged: Sequence[str], name: str) -> None:
    """Refuse a series beside which there are files that cannot be read."""
    if damaged:
        more = f" ({len(damaged) - 1} more files cannot either)" if len(damaged) > 1 else ""
        raise InvalidInput(
            f"{damaged[0]}{more}, or take it out of {name} if it is no CT slice: a slice may be missing without it"
        )


def _one_series(slices: list[Any], series: str | None, name: str) -> list[Any]:
    counts = Counter(text_of(one, "SeriesInstanceUID", name) for one in slices)
    if series is None and len(counts) > 1:
        known = ", ".join(f"{uid or 'without a number'} ({count} slices)" for uid, count in counts.items())
        raise InvalidInput(f"{name} holds {len(counts)} CT series: {known}; choose one with series=")
    chosen = [one for one in slices if series in (None, text_of(one, "SeriesInstanceUID", name))]
    if not chosen:
        raise InvalidInput(
            f"{name} holds no CT slices{f' of series {series}' if series else ''}; choose another folder"
        )
    return chosen


def _volume(slices: list[Any], name: str) -> CtImage:
    if any((number_of(one, "NumberOfFrames", _slice_name(one, name)) or 1) > 1 for one in slices):
        raise InvalidInput(f"{name} is a CT image of several frames in one file; export it slice by slice")
    axes = _common_axes(slices, name)
    corners = np.array([numbers(one, "ImagePositionPatient", _slice_name(one, name), 3) for one in slices])
    order = np.argsort(corners @ axes[:, 2], kind="stable")
    distance = _slice_distance(corners[order], axes, slices, name)
    values = _pixels([slices[n] for n in order], name)
    first = slices[order[0]]
    return CtImage(
        values=values.transpose(2, 1, 0),
        affine=to_world(axes, distance, corners[order[0]]),
        frame_of_reference=text_of(first, "FrameOfReferenceUID", name),
        name=text_of(first, "SeriesDescription", name) or name,
    )


def _common_axes(slices: list[Any], name: str) -> Array:
    """Axes of all slices, see `plane_axes`."""
    shapes = {
        tuple(int(numbers(one, side, _slice_name(one, name), 1)[0]) for side in ("Rows", "Columns")) for one in slices
    }
    if len(shapes) > 1:
        raise InvalidInput(f"the slices of {name} have different sizes ({sorted(shapes)}); choose those of one series")
    axes = [plane_axes(one, _slice_name(one, name)) for one in slices]
    if np.abs(np.array(axes) - axes[0]).max() > _TURNED:
        raise InvalidInput(f"the slices of {name} differ in orientation or pixel size; choose those of one series")
    return axes[0]


def _slice_distance(corners: Array, axes: Array, slices: list[Any], name: str) -> float:
    """From one slice to the next along the normal, mm, or InvalidInput."""
    if len(corners) == 1:
        thickness = float(numbers(slices[0], "SliceThickness", name, 1)[0])
        if not thickness > 0:
            raise InvalidInput(f"SliceThickness of {name} is {thickness:g} mm; give a series of several slices")
        return thickness
    depths = corners @ axes[:, 2]
    steps, usual = np.diff(depths), float(np.median(np.diff(depths)))
    if steps.min() < EVEN * max(usual, 1e-6):
        raise InvalidInput(f"{name} has two slices at {depths[steps.argmin()]:.4g} mm; choose those of one series")
    if steps.max() > _MISSING * usual:
        gap = int(steps.argmax())
        raise InvalidInput(
            f"{name} has no slice between {depths[gap]:.4g} and {depths[gap + 1]:.4g} mm, though others are "
            f"{usual:.4g} mm apart; add the missing files"
        )
    if np.abs(steps - usual).max() > EVEN * usual:
        raise InvalidInput(
            f"the slices of {name} are {steps.min():.4g} to {steps.max():.4g} mm apart; resample the series evenly"
        )
    _refuse_tilt(corners, axes[:, 2], name)
    return float(depths[-1] - depths[0]) / (len(depths) - 1)


def _refuse_tilt(corners: Array, normal: Array, name: str) -> None:
    way = corners[-1] - corners[0]
    aside = way - (way @ normal) * normal
    if (off := float(np.linalg.norm(aside))) > _STRAIGHT_MM * np.sqrt(len(corners)):
        tilt = np.degrees(np.arctan2(off, float(way @ normal)))
        raise InvalidInput(
            f"{name} was taken with the gantry tilted by {tilt:.3g} degrees: its slices are shifted against each "
            "other; resample it on a straight grid"
        )


def _pixels(slices: Iterable[Any], name: str) -> Array:
    """Slices, rows, columns in Hounsfield units."""
    found = [_slice_values(one, name) for one in slices]
    exact = all(np.can_cast(one.dtype, np.int16) or one.dtype == np.int16 for one in found)
    return np.stack([one.astype(np.int16 if exact else np.float32) for one in found])


def _slice_values(dataset: Any, name: str) -> Array:
    stored = pixels_of(dataset, _slice_name(dataset, name))
    slope = float(numbers(dataset, "RescaleSlope", name, 1)[0]) if "RescaleSlope" in dataset else 1.0
    intercept = float(numbers(dataset, "RescaleIntercept", name, 1)[0]) if "RescaleIntercept" in dataset else 0.0
    if stored.ndim != 2:
        raise InvalidInput(
            f"{_slice_name(dataset, name)} has pixels of shape {stored.shape}; one slice in gray values is needed"
        )
    values = stored * slope + intercept
    whole = slope == int(slope) and intercept == int(intercept)
    fits = whole and values.min() >= -(2**15) and values.max() < 2**15
    return values.astype(np.int16 if fits else np.float32)


def _slice_name(dataset: Any, name: str) -> str:
    """The name of a slice in messages: its file's, where it has one."""
    file = getattr(dataset, "filename", None)
    return f"{Path(file).name}, a slice of {name}," if file else f"a slice of {name}"
