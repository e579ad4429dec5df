"""Optical properties of tissues, and label volumes that have them.

Lengths are in mm, mu_a and mu_s in 1/mm. A **grid position** is measured in mm from the outer corner of the first voxel
along the volume's own axes (i, j, k); the engine works in it. World positions are mm (RAS) through the affine, which
takes the index of a voxel's center to the world.
"""

import copy
import dataclasses
import numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.by_planes import looked_up
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import GriddedArray
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.core.space import apply_affine, checked_affine, nearest_voxels, rotation_of, voxel_sizes_mm
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from napari_gpubio.optics.scattering_tensors import PRODUCT, check_model, checked_tensors

THICKEST_MM = 1e9  # a layer of at least this is taken as endless

Array = npt.NDArray[Any]
OUTSIDE = 0  # the label of what light does not travel through
# Volumes of a domain, with the numbers that they may have in tissue.
VOXEL_LIMITS = {
    "mua_per_mm": (0.0, np.inf),
    "mus_per_mm": (0.0, np.inf),
    "g": (-1.0, 1.0),
    "n": (1.0, 10.0),
}


@dataclass(frozen=True, kw_only=True)
class Medium(Settings):
    """Optical properties of one label.

    Parameters
    ----------
    label
        The voxels' value, 1 to 65535.
    name
        What it is.
    mua_per_mm, mus_per_mm
        Absorption and scattering coefficient, 1/mm.
    g
        Anisotropy: mean cosine of the scattering angle, -1 to 1.
    n
        Refractive index, at least 1.
    source
        Where the numbers come from, for the user.

    Raises
    ------
    InvalidInput
        If a property is negative, not finite or out of its range.
    """

    label: int = param(1, "Label", "Value of the voxels.", minimum=1, maximum=65535)
    name: str = param("", "Name", "What the label stands for.")
    mua_per_mm: float = param(0.0, "µa", "Absorption coefficient.", unit="1/mm", minimum=0.0, step=0.001)
    mus_per_mm: float = param(0.0, "µs", "Scattering coefficient.", unit="1/mm", minimum=0.0, step=0.1)
    g: float = param(0.0, "g", "Mean cosine of the scattering angle.", minimum=-1.0, maximum=1.0, step=0.01)
    n: float = param(1.37, "n", "Refractive index.", minimum=1.0, maximum=10.0, step=0.01)
    source: str = param("", "Source", "Where the numbers come from.")

    def __post_init__(self) -> None:
        try:
            super().__post_init__()
        except InvalidInput as error:
            raise InvalidInput(f"label {self.label}{self.name and f' ({self.name})'}: {error}") from error

    @property
    def title(self) -> str:
        """What people call it."""
        return self.name or f"label {self.label}"

    @property
    def musp_per_mm(self) -> float:
        """Reduced scattering coefficient mu_s' = mu_s (1 - g), 1/mm."""
        return self.mus_per_mm * (1.0 - self.g)


@dataclass(frozen=True, eq=False, kw_only=True)
class Domain(GriddedArray, array="labels"):
    """A label volume with optical properties.

    Parameters
    ----------
    labels
        Shape (X, Y, Z), integers 0 to 65535; 0 is outside. Voxels may be anisotropic.
    affine
        Voxel to world, mm; its axes must be perpendicular.
    media
        Properties of each label that occurs; others may be there too.
    outside_n
        Refractive index of what surrounds the labels.
    mua_per_mm, mus_per_mm, g, n
        Properties voxel by voxel, shape (X, Y, Z), instead of the media's (continuous media); those that are None are
        the label's. Light is refracted wherever n changes from one voxel to the next.
    phase_function
        How light is scattered, in all media alike, instead of by Henyey and Greenstein with the media's g.
    mus_tensor_per_mm
        Scattering tensors voxel by voxel, shape (X, Y, Z, 6) or (X, Y, Z, 3, 3), 1/mm, world axes, zeros where the
        label's scattering holds; see `napari_gpubio.optics.scattering_tensors`. They are kept as (X, Y, Z, 6).
    scattering_model
        How light scatters where there is a tensor: ``product``, ``free`` or ``mixture``.
    path
        The file of the labels, or None.
    notes
        Messages of the reader to the user about what it found or changed.

    Raises
    ------
    InvalidInput
        If shapes do not fit, a label has no properties, a number is out of range, or the affine is sheared.
    """

    labels: Array
    affine: npt.NDArray[np.float64]
    media: tuple[Medium, ...]
    outside_n: float = 1.0
    mua_per_mm: Array | None = None
    mus_per_mm: Array | None = None
    g: Array | None = None
    n: Array | None = None
    phase_function: TabulatedPhaseFunction | None = None
    mus_tensor_per_mm: Array | None = None
    scattering_model: str = PRODUCT
    path: Path | None = None
    notes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", checked_labels(self.labels))
        object.__setattr__(self, "affine", _perpendicular(self.affine))
        object.__setattr__(self, "media", tuple(self.media))
        if not (np.isfinite(self.outside_n) and self.outside_n >= 1.0):
            raise InvalidInput(f"the refractive index outside is {self.outside_n}; it must be at least 1")
        object.__setattr__(self, "outside_n", float(self.outside_n))  # a NumPy number cannot be written as JSON
        self._check_volumes()
        if self.phase_function is not None and self.g is not None:
            raise InvalidInput("the domain has a phase function and g voxel by voxel; leave one of them out")
        self._check_tensors()
        known = [medium.label for medium in self.media]
        if twice := {label for label in known if known.count(label) > 1}:
            raise InvalidInput(f"label {min(twice)} has two rows of optical properties; remove one")
        if missing := [label for label in self.labels_present if label not in known]:
            listed = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
            raise InvalidInput(
                f"no optical properties for label {listed}; add a row, or set those voxels to 0 (outside)"
            )

    def _check_one_scattering(self) -> None:
        if self.mus_per_mm is not None and self.mus_tensor_per_mm is not None:
            raise InvalidInput(
                "both mus_per_mm and mus_tensor_per_mm are given, and either says how much a voxel scatters; give one"
            )
        if self.g is not None and self.mus_tensor_per_mm is not None:
            raise InvalidInput(
                "both g voxel by voxel and mus_tensor_per_mm are given, and tensors are made with the label's g; give "
                "one of them"
            )
        if self.phase_function is not None and self.mus_tensor_per_mm is not None:
            raise InvalidInput(
                "both a phase function and mus_tensor_per_mm are given, and either says where light is scattered to; "
                "give one"
            )

    def _check_volumes(self, names: Iterable[str] = tuple(VOXEL_LIMITS)) -> None:
        self._check_one_scattering()
        for name in names:
            if getattr(self, name) is not None:
                object.__setattr__(self, name, self._checked_volume(name))

    def _check_tensors(self) -> None:
        check_model(self.scattering_model)
        if self.mus_tensor_per_mm is None:
            return
        tensors = checked_tensors(self.mus_tensor_per_mm, self.labels)
        object.__setattr__(self, "mus_tensor_per_mm", tensors if tensors.any() else None)

    def _checked_volume(self, name: str) -> Array:
        values = np.asarray(getattr(self, name))
        if values.shape != self.labels.shape:
            raise InvalidInput(
                f"{name} has shape {values.shape} and the labels {self.labels.shape}; make them the same"
            )
        inside = values[self.labels != OUTSIDE]
        low, high = VOXEL_LIMITS[name]
        wrong = ~(np.isfinite(inside) & (inside >= low) & (inside <= high))
        if wrong.any():
            limits = f"finite and at least {low:g}" if np.isinf(high) else f"from {low:g} to {high:g}"
            raise InvalidInput(f"{name} has the value {inside[wrong][0]} in tissue; it must be {limits} there")
        return np.where(self.labels == OUTSIDE, 0.0, values).astype(np.float32)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Dimensions of the grid."""
        x, y, z = self.labels.shape
        return x, y, z

    @property
    def voxel_sizes_mm(self) -> npt.NDArray[np.float64]:
        """Edge lengths of a voxel in mm."""
        return voxel_sizes_mm(self.affine)

    @property
    def voxel_volume_mm3(self) -> float:
        """Volume of a voxel."""
        return float(np.prod(self.voxel_sizes_mm))

    @cached_property
    def labels_present(self) -> tuple[int, ...]:
        """Labels that occur, without the outside."""
        size = 1 << 8 * self.labels.itemsize
        counts = sum(np.bincount(plane.ravel(), minlength=size) for plane in self.labels)  # which are made 8 bytes each
        return tuple(int(label) for label in np.flatnonzero(counts) if label != OUTSIDE)

    @cached_property
    def ranks(self) -> Array:
        """Number of each voxel's label among those present, from 1; 0 outside. Shape (X, Y, Z), uint8 if it fits."""
        ranks = np.zeros(65536, np.uint8 if len(self.labels_present) < 255 else np.uint16)
        for rank, label in enumerate(self.labels_present, 1):
            ranks[label] = rank
        return looked_up(ranks, self.labels)

    @cached_property
    def cavities(self) -> npt.NDArray[np.bool_]:
        """Which voxels of label 0 are enclosed by tissue, shape (X, Y, Z): light that goes there is lost.

        Voxels that touch by a face, an edge or a corner belong together.
        """
        outside = self.labels == OUTSIDE
        if not outside.any():
            return outside
        from scipy import ndimage

        parts, _ = ndimage.label(np.pad(outside, 1, constant_values=True), np.ones((3, 3, 3)))
        return np.asarray(outside & (parts[1:-1, 1:-1, 1:-1] != parts[0, 0, 0]))

    def with_air_in_cavities(self) -> "Domain":
        """Return a domain whose cavities have a label of their own, the first that is free, with the medium air.

        Light then crosses them in straight lines, refracted where it enters and leaves.

        Raises
        ------
        InvalidInput
            If there are no cavities, or no label is free.
        """
        cavities, used = self.cavities, {OUTSIDE, *self.labels_present, *(medium.label for medium in self.media)}
        if not cavities.any():
            raise InvalidInput("the tissue has no cavities: all voxels of label 0 are connected to the outside")
        label = next((number for number in range(1, 65536) if number not in used), None)
        if label is None:
            raise InvalidInput("all labels from 1 to 65535 are in use; free one for the air in cavities")
        labels = np.where(cavities, label, self.labels.astype(np.uint16))
        air = Medium(label=label, name="air", n=1.0)
        n = None if self.n is None else np.where(cavities, air.n, self.n)
        return dataclasses.replace(self, labels=labels, media=(*self.media, air), n=n, path=None)

    @property
    def is_continuous(self) -> bool:
        """Whether a property is given voxel by voxel."""
        return any(getattr(self, name) is not None for name in VOXEL_LIMITS)

    def with_optics(
        self, media: Sequence[Medium], *, mua_per_mm: Array | None = None, mus_per_mm: Array | None = None
    ) -> "Domain":
        """Return the same labels with other media of the same labels; what was counted of them is not counted again.

        What else is given voxel by voxel (g, n, and scattering tensors), and the phase function, stay.

        Raises
        ------
        InvalidInput
            If a coefficient does not fit or is out of range.
        """
        other = copy.copy(self)  # with what it has cached
        for name, value in {"media": tuple(media), "mua_per_mm": mua_per_mm, "mus_per_mm": mus_per_mm}.items():
            object.__setattr__(other, name, value)
        other._check_volumes([name for name in VOXEL_LIMITS if getattr(other, name) is not getattr(self, name)])
        return other

    def with_tensors(self, mus_tensor_per_mm: Array | None, scattering_model: str = PRODUCT) -> "Domain":
        """Return the same tissue with scattering tensors, or with None without any; see the parameters of a domain.

        `napari_gpubio.optics.anisotropy.with_fibers` makes them of a diffusion MRI.

        Raises
        ------
        InvalidInput
            If the shape does not fit, a tensor is not positive definite, or mu_s or g is given voxel by voxel too.
        """
        other = copy.copy(self)  # with what it has cached
        object.__setattr__(other, "mus_tensor_per_mm", mus_tensor_per_mm)
        object.__setattr__(other, "scattering_model", scattering_model)
        other._check_one_scattering()
        other._check_tensors()
        return other

    @property
    def is_anisotropic(self) -> bool:
        """Whether a voxel has a scattering tensor."""
        return self.mus_tensor_per_mm is not None

    def medium(self, label: int) -> Medium:
        """Properties of a label; g, and with it mu_s', is that of the phase function, where the domain has one.

        Raises
        ------
        InvalidInput
            If it has none.
        """
        for medium in self.media:
            if medium.label == label:
                return medium if self.phase_function is None else dataclasses.replace(medium, g=self.phase_function.g)
        raise InvalidInput(f"label {label} has no optical properties; there are {[m.label for m in self.media]}")

    def medium_at(self, position_mm: npt.ArrayLike) -> Medium:
        """Properties of the voxel at a world position (the nearest one beyond the grid), continuous media included.

        Raises
        ------
        InvalidInput
            If it is outside (label 0).
        """
        voxel = nearest_voxels(self.affine, position_mm)
        place = tuple(np.clip(voxel, 0, np.array(self.shape) - 1))
        own = {name: getattr(self, name) for name in VOXEL_LIMITS}
        given: dict[str, Any] = {name: float(values[place]) for name, values in own.items() if values is not None}
        return dataclasses.replace(self.medium(int(self.labels[place])), **given)

    def absorption(self) -> npt.NDArray[np.float32]:
        """mu_a of every voxel, 1/mm, shape (X, Y, Z)."""
        return self.property_volume("mua_per_mm")

    def property_volume(self, name: str) -> npt.NDArray[np.float32]:
        """One property of every voxel, given voxel by voxel or by its label, shape (X, Y, Z); 0 where no tissue is.

        Parameters
        ----------
        name
            ``mua_per_mm``, ``mus_per_mm``, ``g`` or ``n``.
        """
        given: npt.NDArray[np.float32] | None = getattr(self, name)
        if given is not None:
            return given
        table = [0.0, *(getattr(self.medium(label), name) for label in self.labels_present)]
        return looked_up(np.array(table, np.float32), self.ranks)

    def world_to_grid(self, points_mm: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Grid positions (mm from the outer corner of the first voxel) of world positions, shape (..., 3)."""
        return (apply_affine(np.linalg.inv(self.affine), points_mm) + 0.5) * self.voxel_sizes_mm

    def grid_to_world(self, points_mm: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """World positions of grid positions, shape (..., 3)."""
        return apply_affine(self.affine, np.asarray(points_mm, np.float64) / self.voxel_sizes_mm - 0.5)

    def direction_to_grid(self, directions: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """World directions along the volume's own axes, shape (..., 3)."""
        return np.asarray(directions, np.float64) @ rotation_of(self.affine)

    def direction_to_world(self, directions: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Directions along the volume's own axes in world axes, shape (..., 3)."""
        return np.asarray(directions, np.float64) @ rotation_of(self.affine).T


def checked_labels(labels: Array) -> Array:
    """Return labels as uint8 or uint16, shape (X, Y, Z), given as whole numbers of any type.

    Raises
    ------
    InvalidInput
        If the shape is another, or a value is no whole number from 0 to 65535, or all are 0.
    """
    values = np.asarray(labels)
    if values.ndim != 3 or not values.size:
        raise InvalidInput(f"the labels have shape {values.shape}; give a volume with three dimensions")
    if values.dtype.kind == "f":
        if not np.isfinite(values).all() or (values != np.round(values)).any():
            raise InvalidInput("the labels have values that are not integers; give a segmentation, not an image")
    elif values.dtype.kind not in "iub":
        raise InvalidInput(f"the labels are of type {values.dtype}; give integers")
    low, high = int(values.min()), int(values.max())
    if low < 0 or high > 65535:
        raise InvalidInput(f"the labels range from {low} to {high}; they must lie between 0 and 65535")
    if high == 0:
        raise InvalidInput("every voxel is 0, which is outside; label the tissue with 1 or more")
    return np.ascontiguousarray(values, np.uint8 if high < 256 else np.uint16)


def _perpendicular(affine: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the affine, if its axes are perpendicular."""
    matrix = checked_affine(affine)
    axes = matrix[:3, :3] / voxel_sizes_mm(matrix)
    if np.abs(axes.T @ axes - np.eye(3)).max() > 1e-3:
        raise InvalidInput(
            "the volume is sheared (its axes are not perpendicular); resample it to an orthogonal grid first"
        )
    return matrix


@dataclass(frozen=True, kw_only=True)
class Layer(Settings):
    """One layer.

    Parameters
    ----------
    n, mua_per_mm, mus_per_mm, g
        Refractive index, absorption and scattering coefficient (1/mm), anisotropy. A layer that neither absorbs nor
        scatters is glass.
    thickness_mm
        Thickness; infinite for the last layer of a semi-infinite medium, which is kept as `THICKEST_MM`.
    name
        What it is.

    Raises
    ------
    InvalidInput
        If a number is out of its range.
    """

    n: float = param(1.4, "n", "Refractive index.", minimum=1.0, maximum=10.0, step=0.01)
    mua_per_mm: float = param(0.0, "µa", "Absorption coefficient.", unit="1/mm", minimum=0.0, step=0.01)
    mus_per_mm: float = param(0.0, "µs", "Scattering coefficient.", unit="1/mm", minimum=0.0, step=1.0)
    g: float = param(0.0, "g", "Mean cosine of the scattering angle.", minimum=-1.0, maximum=1.0, step=0.01)
    thickness_mm: float = part("Thickness", "From its top to its bottom.", default=1.0, unit="mm")
    name: str = param("", "Name", "What the layer is.")

    def __post_init__(self) -> None:
        if not (isinstance(self.thickness_mm, numbers.Real) and self.thickness_mm > 0):
            raise InvalidInput(f"thickness_mm is {self.thickness_mm!r}; it must be greater than 0 (or infinite)")
        object.__setattr__(self, "thickness_mm", min(float(self.thickness_mm), THICKEST_MM))
        super().__post_init__()

    def check(self) -> None:
        """Raise InvalidInput if scattering would not change the direction."""
        if self.mus_per_mm > 0 and self.g == 1.0:
            raise InvalidInput(
                "g is 1 in a layer that scatters: scattering would not change the direction; set mus_per_mm to 0"
            )

    @property
    def is_glass(self) -> bool:
        """Whether light neither scatters nor is absorbed in it."""
        return self.mua_per_mm == 0 and self.mus_per_mm == 0

    @property
    def is_endless(self) -> bool:
        """Whether it has no far side."""
        return not self.thickness_mm < THICKEST_MM
