"""Volumes of labels: whether numbers are labels, and what of them is background."""

import weakref
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import stored_array, volume_of
from napari_gpubio.core.world_aligned import WorldAligned

Array = npt.NDArray[Any]
_MIN_EQUAL = 0.5  # of neighbors in a volume of labels; two thirds in atlases of coarse voxels
_LOOK_VALUES = 10_000
_MAX_VOXELS_LOOKED_AT = 1 << 19
_NEARLY = 1e-3
_LARGEST_WHOLE = 2.0**53
_known: dict[int, tuple[Any, bool]] = {}  # by the address of a layer's data: the data, weakly, and whether it is labels


def as_labels(values: Array) -> tuple[npt.NDArray[np.integer[Any]] | None, str]:
    """Return whole numbers as labels, whatever their type, or None if they are none, and a note.

    NaN is background, as in masks of SPM, and so is the only negative number where there is no 0; numbers that are
    nearly whole, as a rounded factor in a header leaves them, are rounded. The note says so.
    """
    note = ""
    if values.dtype.kind in "fb":
        some = values.ravel(order="K")[:: max(1, values.size // _LOOK_VALUES)]
        if not (_are_whole(some) and _are_whole(values)):
            return None, ""
        missing, notes = np.isnan(values), []
        if count := int(np.count_nonzero(missing)):
            values = np.where(missing, 0, values)
            notes.append(f"{count:,} voxels are NaN, and were taken for background (0)")
        whole = np.rint(values)
        if off := float(np.abs(values - whole).max()):
            notes.append(f"its numbers are up to {off:.2g} off whole ones, and were rounded to labels")
        values, note = whole.astype(np.int64), "; ".join(notes)
    elif values.dtype.kind not in "iu":
        return None, ""
    low = int(values.min())
    if low < 0 and not ((values == 0) | ((values < 0) & (values != low))).any():
        return np.where(values == low, 0, values), f"there is no 0; {low} was taken for background"
    return values, note


def label_volume(layer: Any) -> npt.NDArray[np.integer[Any]]:
    """Return the labels (X, Y, Z) of a labels layer, or of an image that holds some.

    Raises
    ------
    InvalidInput
        If the layer is no volume, or an image of fractions.
    """
    volume = volume_of(layer)
    labels = volume if layer._type_string == "labels" else as_labels(volume)[0]
    if labels is None:
        raise InvalidInput(f"the image {layer.name!r} holds fractions, not labels; choose a layer of whole numbers")
    return labels


def _are_whole(values: Array) -> bool:
    """Whether all of some real numbers but NaN are whole, or nearly so and not near 0, and not all are NaN."""
    known, whole = ~np.isnan(values), np.rint(values)
    with np.errstate(invalid="ignore"):  # inf - inf
        near = (values == whole) | ((np.abs(values - whole) <= _NEARLY) & (whole != 0))
    return bool(known.any() and (~known | (near & (np.abs(values) < _LARGEST_WHOLE))).all())


def looks_like_labels(array: Array) -> bool:
    """Return whether a volume of whole numbers is rather one of labels or a mask than an image.

    Labels lie in regions: of the neighbors along the longest axis that are not both 0, most are equal; in an image,
    noise makes them differ. They are not negative, and one other number than 0 is a mask wherever it lies, also
    everywhere.
    """
    if array.ndim != 3 or array.dtype.kind not in "iub" or array.min() < 0 or array.max() == 0:
        return False
    if ((array == 0) | (array == array.max())).all():
        return True
    along = np.moveaxis(array, int(np.argmax(array.shape)), 0)
    before, after = along[:-1], along[1:]
    some = (before > 0) | (after > 0)
    return bool(some.any() and np.count_nonzero((before == after) & some) >= _MIN_EQUAL * np.count_nonzero(some))


def holds_labels(layer: Any) -> bool:
    """Return whether an image layer of three dimensions holds labels or a mask, as far as some of its rows show it.

    It is looked at once, unless it gets other data.
    """
    data = layer.data
    if getattr(layer, "rgb", False) or layer.ndim != len("xyz") or not isinstance(data, np.ndarray | WorldAligned):
        return False
    key = id(data)
    if key not in _known:
        _known[key] = weakref.ref(data, lambda _: _known.pop(key)), _shows_labels(stored_array(layer))
    return _known[key][1]


def _shows_labels(array: Array) -> bool:
    if array.dtype.kind not in "iubf" or not array.size:
        return False
    along = np.moveaxis(array, int(np.argmax(array.shape)), 0)
    step = int(np.ceil(np.sqrt(array.size / _MAX_VOXELS_LOOKED_AT)))
    labels, _ = as_labels(along[:, ::step, ::step])
    if labels is not None and labels.min() == labels.max():  # a small mask lies between those rows
        labels, _ = as_labels(along)
    return labels is not None and looks_like_labels(labels)
