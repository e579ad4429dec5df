"""Fiber orientation distributions, and fixels: what a voxel holds where fibers of several directions cross.

Directions and harmonics are in world axes (RAS); the basis is that of MRtrix 3
(see `napari_gpubio.diffusion.fods.harmonics`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Described, GriddedArray
from napari_gpubio.core.space import checked_affine, voxel_sizes_mm
from napari_gpubio.diffusion.fods.harmonics import harmonics, lmax_of
from napari_gpubio.diffusion.model import Cache

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class FodField(GriddedArray, array="coefficients"):
    """Fiber orientation distributions (FODs) on a voxel grid.

    Parameters
    ----------
    coefficients
        Of even spherical harmonics, shape (X, Y, Z, N), zero outside the mask.
    mask
        Voxels that hold a distribution, shape (X, Y, Z).
    affine
        Voxel to world, mm.
    tissues
        Densities of other tissues, such as ``"gm"`` and ``"csf"``, shape (X, Y, Z) each.
    path
        The file it came from, or None.
    notes
        What a reader or the deconvolution found or changed, in sentences for the user.
    parameters
        How it was made; only what JSON can hold.
    complete
        False if the deconvolution was stopped before its end.

    Raises
    ------
    InvalidInput
        If shapes do not fit each other.
    """

    coefficients: Array
    mask: npt.NDArray[np.bool_]
    affine: npt.NDArray[np.float64]
    tissues: Mapping[str, Array] = field(default_factory=dict)
    path: Path | None = None
    notes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True
    cache: Cache = field(default_factory=Cache, repr=False)

    def __post_init__(self) -> None:
        if self.coefficients.ndim != 4:
            raise InvalidInput(f"FODs have shape (X, Y, Z, N); this array has shape {self.coefficients.shape}")
        lmax_of(self.coefficients.shape[3])
        if self.mask.shape != self.shape:
            raise InvalidInput(f"the mask has shape {self.mask.shape} and the FODs {self.shape}; they must be the same")
        for name, density in self.tissues.items():
            if density.shape != self.shape:
                raise InvalidInput(
                    f"the density of {name} has shape {density.shape} and the FODs {self.shape}; they must be the same"
                )
        object.__setattr__(self, "affine", checked_affine(self.affine))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Dimensions of the grid."""
        return self.coefficients.shape[:3]

    @property
    def lmax(self) -> int:
        """Largest order of the harmonics."""
        return lmax_of(self.coefficients.shape[3])

    @property
    def voxel_sizes_mm(self) -> npt.NDArray[np.float64]:
        """Edge lengths of a voxel in mm."""
        return voxel_sizes_mm(self.affine)

    def amplitudes(self, directions: npt.ArrayLike) -> Array:
        """Amplitudes of every voxel in some world directions (K, 3), shape (X, Y, Z, K)."""
        values = harmonics(directions, self.lmax).astype(self.coefficients.dtype)
        return np.asarray(self.coefficients @ values.T)


@dataclass(frozen=True, eq=False, kw_only=True)
class FixelField(Described):
    """Fixels: the fiber directions of each voxel, none to several, the largest first.

    Fixels lie one behind the other, in C order of their voxels.

    Parameters
    ----------
    counts
        Number of fixels in each voxel, shape (X, Y, Z).
    directions
        Unit directions in world axes, either way along the fiber, shape (F, 3), float32.
    amplitudes
        Peak amplitude, fiber density or volume fraction of each fixel, shape (F,), float32, as the source has it.
    affine
        Voxel to world, mm.
    numbers
        Further named numbers of each fixel, shape (F,) each.
    path
        The file or folder it came from, or None.
    notes
        What a reader found or changed, in sentences for the user.
    parameters
        How it was made; only what JSON can hold.
    complete
        False if the search for peaks was stopped before its end.

    Raises
    ------
    InvalidInput
        If the numbers of fixels do not add up, a direction is no unit vector, or an amplitude is not finite.
    """

    counts: Array
    directions: npt.NDArray[np.float32]
    amplitudes: npt.NDArray[np.float32]
    affine: npt.NDArray[np.float64]
    numbers: Mapping[str, Array] = field(default_factory=dict)
    path: Path | None = None
    notes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True
    cache: Cache = field(default_factory=Cache, repr=False)

    def __post_init__(self) -> None:
        total = int(np.sum(self.counts, dtype=np.int64))
        if self.counts.ndim != 3 or self.directions.shape != (total, 3) or self.amplitudes.shape != (total,):
            raise InvalidInput(
                f"the voxels count {total} fixels, but there are {len(self.directions)} directions and "
                f"{len(self.amplitudes)} amplitudes; give one of each for every fixel"
            )
        for name, values in self.numbers.items():
            if len(values) != total:
                raise InvalidInput(f"{name!r} has {len(values)} values for {total} fixels; give one for each")
        if not np.isfinite(self.amplitudes).all():
            raise InvalidInput("some amplitudes of fixels are not finite; leave these fixels out")
        lengths = np.linalg.norm(self.directions, axis=1)
        if not (np.abs(lengths - 1.0) < 1e-3).all():
            raise InvalidInput("some directions of fixels are no unit vectors; divide them by their length")
        object.__setattr__(self, "affine", checked_affine(self.affine))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Dimensions of the grid."""
        x, y, z = self.counts.shape
        return x, y, z

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """Voxels that hold a fixel, shape (X, Y, Z)."""
        return np.asarray(self.counts > 0)

    @cached_property
    def first(self) -> npt.NDArray[np.int64]:
        """Index of the first fixel of each voxel, shape (X, Y, Z)."""
        counts = self.counts.ravel().astype(np.int64)
        return np.asarray((np.cumsum(counts) - counts).reshape(self.shape))

    def dense(self, most: int | None = None) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Directions (X, Y, Z, n, 3) and amplitudes (X, Y, Z, n) of the first fixels of each voxel, zero where none is.

        ``most``: n; None for that of the voxel that has the most.
        """
        n = int(self.counts.max(initial=0)) if most is None else most
        directions = np.zeros((*self.shape, n, 3), np.float32)
        amplitudes = np.zeros((*self.shape, n), np.float32)
        for rank in range(n):
            there = self.counts > rank
            which = self.first[there] + rank
            directions[there, rank] = self.directions[which]
            amplitudes[there, rank] = self.amplitudes[which]
        return directions, amplitudes

    def ordered(self) -> "FixelField":
        """The same fixels, whatever the order in which they are stored, without further numbers.

        The axes of the grid are as near as they can be to those of the world; the fixels of a voxel begin with the
        largest, and those of one amplitude follow each other by direction.
        """
        field: FixelField = self.cache.get(("ordered",), self._ordered)
        return field

    def _ordered(self) -> "FixelField":
        from nibabel.orientations import apply_orientation, inv_ornt_aff, io_orientation

        turn = io_orientation(self.affine)
        counts = apply_orientation(self.counts, turn)
        directions, amplitudes = (apply_orientation(values, turn)[counts > 0] for values in self.dense())
        there = np.arange(amplitudes.shape[1]) < counts[counts > 0][:, np.newaxis]
        keys = np.moveaxis(directions * _half_sphere(directions), -1, 0)
        order = np.lexsort((*keys, -amplitudes, ~there), axis=-1)
        return FixelField(
            counts=counts,
            directions=np.take_along_axis(directions, order[..., np.newaxis], axis=1)[there],
            amplitudes=np.take_along_axis(amplitudes, order, axis=1)[there],
            affine=self.affine @ inv_ornt_aff(turn, self.shape),
        )

    @staticmethod
    def from_dense(directions: Array, amplitudes: Array, affine: Array, **facts: Any) -> "FixelField":
        """Fixels from arrays with a place for each.

        Parameters
        ----------
        directions
            World axes, of any length, shape (X, Y, Z, n, 3).
        amplitudes
            Shape (X, Y, Z, n). A place whose amplitude or direction is zero or not finite holds no fixel.
        affine
            Voxel to world, mm.
        **facts
            ``path``, ``notes``, ``parameters``.
        """
        lengths = np.linalg.norm(directions, axis=-1)
        there = np.isfinite(lengths) & (lengths > 0) & np.isfinite(amplitudes) & (amplitudes > 0)
        order = np.argsort(np.where(there, -amplitudes, np.inf), axis=-1, kind="stable")
        there = np.take_along_axis(there, order, axis=-1)
        sorted_directions = np.take_along_axis(directions, order[..., None], axis=-2)[there]
        units = sorted_directions / np.linalg.norm(sorted_directions, axis=-1, keepdims=True)
        return FixelField(
            counts=there.sum(axis=-1).astype(np.uint8),
            directions=units.astype(np.float32),
            amplitudes=np.take_along_axis(amplitudes, order, axis=-1)[there].astype(np.float32),
            affine=affine,
            **facts,
        )


def _half_sphere(directions: Array) -> Array:
    """Sign of the first component that is not zero, shape (..., 1): times it, a direction and its opposite are one."""
    first = (directions != 0).argmax(axis=-1)[..., np.newaxis]
    return np.sign(np.take_along_axis(directions, first, axis=-1))
