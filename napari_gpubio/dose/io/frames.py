"""Frames of a dose that are not evenly spaced, brought to an even distance.

Between frames a dose is linear wherever it is counted, so linear interpolation to a distance that all frames are
multiples of changes nothing: the smallest distance of two frames, or the half of it, a third and so on. Where there is
none, frames lie a little beside the new ones, and the note says how far.
"""

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.reading import note
from napari_gpubio.dose.io.dicom import EVEN

Array = npt.NDArray[np.float64]
_ROUNDED_MM, _ROUNDED = 0.06, 0.1  # how far frames may lie beside even positions, mm and share: written with a decimal
_MAX_PARTS = 6  # of the smallest distance
_MAX_RESAMPLED_VALUES = 1 << 29  # 4 GB


def evenly_spaced(values: Array, offsets: Array, name: str) -> tuple[Array, float]:
    """Frames at an even distance, and that distance along the normal in mm (with sign); a note if they were resampled.

    Parameters
    ----------
    values
        Frames, rows, columns; at least two frames.
    offsets
        Of the frames along the normal, mm.
    name
        Of the file.

    Raises
    ------
    InvalidInput
        If frames lie at one place, or there would be too many.
    """
    gaps = np.diff(offsets)
    step = float(gaps.mean())
    if not (gaps * step > 0).all():
        raise InvalidInput(
            f"frames of {name} lie at one place (GridFrameOffsetVector runs by {_range(gaps)} mm from "
            "frame to frame); export the dose again"
        )
    off = float(np.ptp(offsets - step * np.arange(len(offsets)))) / 2
    if off <= max(EVEN * abs(step), min(_ROUNDED_MM, _ROUNDED * abs(step))):
        return values, step
    step, apart = _even_step(offsets)
    count = round(abs(float(offsets[-1] - offsets[0])) / step) + 1
    if count * values[0].size > _MAX_RESAMPLED_VALUES:
        raise InvalidInput(
            f"frames of {name} are {_range(np.abs(gaps))} mm apart, which takes {count} frames {short_number(step)} mm "
            "apart, too many to hold; export the dose on an evenly spaced grid"
        )
    taken = f"frames of {name} are {_range(np.abs(gaps))} mm apart and were interpolated linearly to {count} frames"
    beside = f"; frames of the file lie up to {short_number(apart)} mm beside them" if apart > EVEN * step else ""
    note(f"{taken} {short_number(step)} mm apart{beside}")
    return _resampled(values, np.abs(offsets - offsets[0]), step, count), float(np.copysign(step, gaps[0]))


def _even_step(offsets: Array) -> tuple[float, float]:
    """A distance that all offsets are multiples of, or nearly, and how far they lie beside its multiples."""
    places = np.abs(offsets - offsets[0])
    smallest = float(np.diff(places).min())
    found = [(smallest / parts, _beside(places, smallest / parts)) for parts in range(1, _MAX_PARTS + 1)]
    return next((one for one in found if one[1] <= EVEN * one[0]), found[-1])


def _beside(places: Array, step: float) -> float:
    return float(np.abs(places - step * np.round(places / step)).max())


def _resampled(values: Array, places: Array, step: float, count: int) -> Array:
    """Frames at multiples of a step, linear between those that are there; the last one holds beyond."""
    wanted = np.minimum(step * np.arange(count), places[-1])
    before = np.clip(np.searchsorted(places, wanted + 1e-9 * step, side="right") - 1, 0, len(places) - 2)
    share = np.clip((wanted - places[before]) / np.diff(places)[before], 0.0, 1.0)[:, None, None]
    return np.asarray(values[before] + share * (values[before + 1] - values[before]))


def _range(gaps: Array) -> str:
    return f"{short_number(float(gaps.min()))} to {short_number(float(gaps.max()))}"
