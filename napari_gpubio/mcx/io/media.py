"""What is in a voxel of an MCX volume (``MediaFormat``) other than a label: optical properties, as a `Domain` has them.

MCX calls a voxel outside whose value is not a number, or whose bits are all 0 in the packed formats.
"""

import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.model import Domain, Medium

Array = npt.NDArray[Any]
NAMES = ("mua_per_mm", "mus_per_mm", "g", "n")  # in the order of MCX


@dataclass(frozen=True)
class VoxelFormat:
    """Type and number of the values of a voxel, least significant first."""

    dtype: str
    count: int


LABELS = {"byte": "<u1", "short": "<u2", "integer": "<u4"}
FORMATS = {
    "mua_float": VoxelFormat("<f4", 1),
    "muamus_float": VoxelFormat("<f4", 2),
    "asgn_float": VoxelFormat("<f4", 4),
    "muamus_half": VoxelFormat("<f2", 2),
    "muamus_short": VoxelFormat("<u2", 2),
    "asgn_byte": VoxelFormat("<u1", 4),
    "labelplus": VoxelFormat("<u2", 2),
}
REFUSED = {
    "svmc": "voxels that a plane splits in two, which this engine does not have; give the label of the larger part, in "
    "finer voxels where that is too coarse",
    "mixlabel": "two labels in a voxel, between which MCX draws at every step; give mean properties as asgn_float",
}
_GRAYS = {"muamus_short": (65535.0, 65535.0), "asgn_byte": (255.0, 255.0, 255.0, 127.0)}  # of the second medium


def check_format(form: str) -> None:
    """Raise InvalidInput if a format is none of MCX's, or one that has no counterpart."""
    if form in REFUSED:
        raise InvalidInput(f"Domain.MediaFormat is {form!r}, {REFUSED[form]}")
    if form not in LABELS and form not in FORMATS:
        raise InvalidInput(f"Domain.MediaFormat is {form[:40]!r}; give one of {', '.join([*LABELS, *FORMATS])}")


def values_of(array: Array, form: str, what: str) -> Array:
    """Return the values of each voxel from an array as a file has it, shape (X, Y, Z, count).

    A single value needs no axis of its own; several are along the last axis, or the first as in MATLAB and Python, or
    packed into one integer or float of as many bytes.
    """
    kind = FORMATS[form]
    dtype = np.dtype(kind.dtype).newbyteorder("=")
    if array.ndim == 4 and array.dtype == dtype and kind.count in (array.shape[0], array.shape[-1]):
        return array if array.shape[-1] == kind.count else np.moveaxis(array, 0, -1)
    if array.ndim == 3 and array.dtype.itemsize == dtype.itemsize * kind.count:
        if kind.count == 1 and array.dtype == dtype:
            return array[..., None]
        if kind.count > 1 and array.dtype.kind in "uif":
            parts = np.ascontiguousarray(array).view(dtype).reshape(*array.shape, kind.count)
            return parts if sys.byteorder == "little" else parts[..., ::-1]
    raise InvalidInput(
        f"{what} has shape {array.shape} of type {array.dtype}; {form} needs {dtype.name}, (x, y, z, {kind.count})"
    )


def domain_of(
    values: Array, form: str, media: Sequence[Medium], outside_n: float, unit_mm: float
) -> tuple[Domain, tuple[str, ...]]:
    """Make a domain from the values of each voxel.

    Parameters
    ----------
    values
        As `values_of` gives them, shape (X, Y, Z, count).
    form
        Their format, a key of `FORMATS`.
    media
        Properties that the voxels do not have themselves: of ``labelplus`` the medium of each label, of gray levels the
        two media between which they lie, else a single one.
    outside_n
        Refractive index outside.
    unit_mm
        Edge of a voxel, mm; some formats have coefficients per voxel.

    Returns
    -------
    domain
        Of voxels of 1 mm, with coefficients in 1/mm.
    notes
        Messages to the user.

    Raises
    ------
    InvalidInput
        If there are too few media, or a value is not possible.
    """
    if form == "labelplus":
        return _label_plus(values, media, outside_n, unit_mm)
    if form in _GRAYS:
        outside, properties = ~values.any(axis=-1), _mixed(values, form, media)
    else:
        outside, properties = np.isnan(values).any(axis=-1), values.astype(np.float32)
    if form == "muamus_half":
        outside |= ~np.ascontiguousarray(values).view(np.uint16).any(axis=-1)
        properties = properties / np.float32(unit_mm)  # the file has them per voxel
    inside = np.asarray(~outside, np.uint8)
    volumes = {name: np.where(outside, 0.0, properties[..., i]) for i, name in enumerate(NAMES[: values.shape[-1]])}
    domain = _domain(inside, media[:1], outside_n, volumes)
    return domain, _notes(form, domain)


def _domain(labels: Array, media: Sequence[Medium], outside_n: float, volumes: dict[str, Any]) -> Domain:
    return Domain(labels=labels, affine=np.eye(4), media=tuple(media), outside_n=outside_n, **volumes)


def _mixed(values: Array, form: str, media: Sequence[Medium]) -> Array:
    """Gray levels between the properties of the media 1 and 2."""
    if len(media) < 2:
        raise InvalidInput(f"Domain.MediaFormat is {form!r}, gray levels between media 1 and 2; give both")
    low, high = (np.array([getattr(medium, name) for name in NAMES]) for medium in media[:2])
    count = values.shape[-1]
    return np.asarray(low[:count] + values / np.array(_GRAYS[form]) * (high - low)[:count], np.float32)


def _label_plus(
    values: Array, media: Sequence[Medium], outside_n: float, unit_mm: float
) -> tuple[Domain, tuple[str, ...]]:
    """Low word: the label, and in the two highest bits which property is the voxel's own; high word: the property."""
    labels, which = values[..., 0] & 0x3FFF, values[..., 0] >> 14
    own = np.abs(np.ascontiguousarray(values[..., 1]).view(np.float16).astype(np.float32))
    domain = _domain(labels, media, outside_n, {})
    volumes: dict[str, Any] = {}
    for index, name in enumerate(NAMES):
        has_own = (which == index) & (labels > 0)
        if has_own.any():
            scale = np.float32(unit_mm if index < 2 else 1.0)  # the file has coefficients per voxel
            volumes[name] = np.where(has_own, own / scale, domain.property_volume(name))
    return dataclasses.replace(domain, **volumes), ()


def _notes(form: str, domain: Domain) -> tuple[str, ...]:
    """Where MCX takes the numbers otherwise than they stand there."""
    notes = []
    if form == "asgn_float" and domain.g is not None and (domain.g < 0).any():
        notes.append("Some voxels have a negative g, which is used as it is; MCX takes its magnitude.")
    if form == "asgn_byte" and domain.n is not None and np.ptp(domain.n[domain.labels > 0]) > 0:
        notes.append(
            "Light is refracted wherever n changes; MCX does so in this format only where n is not that of medium 1."
        )
    return tuple(notes)


def packed_properties(domain: Domain) -> tuple[str, Array]:
    """Return a domain's properties voxel by voxel as MCX takes them: the format, and values of shape (X, Y, Z, count).

    Voxels outside are not a number. MCX keeps the values in half precision.
    """
    form = "asgn_float"
    if len(domain.labels_present) == 1 and domain.g is None and domain.n is None:
        form = "muamus_float"  # with g and n of the only medium
    values = [domain.property_volume(name) for name in NAMES[: FORMATS[form].count]]
    outside = domain.labels == 0
    return form, np.stack([np.where(outside, np.nan, value) for value in values], axis=-1).astype(np.float32)
