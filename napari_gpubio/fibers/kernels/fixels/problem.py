"""Geodesics in a field of fixels, made ready for a backend."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.memory import Memory
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.fibers.kernels.fibers.problem import FiberProblem
from napari_gpubio.fibers.settings import FixelGeodesic

Array = npt.NDArray[Any]
_ALONG = 1.7  # diffusivity along a fiber, 1e-3 mm^2/s; it sets the unit of the Riemannian length only


class FixelVolumes(NamedTuple):
    """What all rays read.

    Fixels (X + 2, Y + 2, Z + 2, M, 4): direction in world axes and amplitude, zero where there is none, with a border
    of no fixels; the mask; voxels per mm of world vectors and mm per voxel (nine numbers each, row by row); the number
    of voxels along each axis.
    """

    fixels: Any
    mask: Any
    to_voxel: tuple[Any, ...]
    to_world: tuple[Any, ...]
    shape: tuple[int, ...]


class FixelSettings(NamedTuple):
    """How rays are traced: scalars, those of floating point in the type of the tracing.

    ``across`` and ``excess``: the dual metric of a fixel along d is ``across I + excess d d'``.
    """

    max_steps: int
    every: int
    step_mm: Any
    cutoff: Any
    max_bend: Any
    max_drift: Any
    least_cos: Any
    least_weight: Any
    across: Any
    excess: Any


@dataclass(frozen=True, eq=False)
class FixelProblem(FiberProblem):
    """Geodesics in a field of fixels: where fibers cross, a ray sees the tensors of those that it follows only.

    Directions are smoothed first, each with those of the voxels around that are nearest to it, since a ray that is
    askew to its fibers has most of its momentum across them, and noise in the directions turns that into speed. A fixel
    of direction d has the tensor ``D = l_across I + (l_along - l_across) d d'``, and the metric ``g = D^-p``.
    Around a ray, each of 27 voxels gives the fixel that is nearest by angle to the ray's reference, which is the mean
    direction of those that it gave one step before, not the ray's own direction. So a ray that runs askew through a
    bundle keeps to its fixels at a crossing, and the choice, which is the same for all stages of a step, changes only
    where the fibers themselves have turned. The dual metric W is the mean of the voxels' ``D^p``, weighted by a
    quadratic B-spline: positive weights, and a continuous gradient. With momentum p (mm, world axes) rays obey

        H = 1/2 p.W(x) p,    x' = W p,    p_k' = -1/2 p.(d_k W) p.

    Voxels that have no fixel within an angle are left out of the mean. As isotropic slow tensors they would bend rays
    out of the bundle: at a boundary where a fast medium ends, the momentum along it is kept, and H then asks for more
    of it across. A ray ends where less than a share of the spline's weight is left.
    """

    methods: ClassVar[type[FixelGeodesic]] = FixelGeodesic
    point_number: ClassVar[str] = "amplitude"
    reported: ClassVar[tuple[str, ...]] = ("riemannian_length_mm", "drift", "mean_amplitude", "alignment", "speed")
    field: FixelField
    settings: FixelGeodesic

    @property
    def volume(self) -> FixelField:
        """The fixels in an order of their own: sums are rounded alike, and draws are the same, for any storage."""
        return self.field.ordered()

    def memory(self, device: Device) -> Memory:
        """The fixels and the mask."""
        return Memory(inputs=self.fixels.nbytes + int(np.prod(self.volume.shape)))

    @property
    def fixels(self) -> Array:
        """Directions and amplitudes; see `FixelVolumes`."""
        return np.asarray(self.field.cache.get(self.keys["fixels"], self._make_fixels))

    @property
    def keys(self) -> dict[str, tuple[Any, ...]]:
        """What the arrays that the field keeps depend on."""
        s = self.settings
        own = "fixels", s.precision, s.smoothing_voxels, s.smoothing_voxels and s.angle_deg
        return {**super().keys, "fixels": own}

    @cached_property
    def volumes(self) -> FixelVolumes:
        """What all rays read."""
        return FixelVolumes(fixels=self.fixels, mask=self.mask, **self.matrices, shape=self.volume.shape)

    def _make_fixels(self) -> Array:
        field = self.volume
        directions, amplitudes = field.dense(max(1, int(field.counts.max(initial=0))))
        if self.settings.smoothing_voxels > 0:
            least_cos = math.cos(math.radians(self.settings.angle_deg))
            directions = smoothed(directions, field.mask, self.settings.smoothing_voxels, least_cos)
        fixels = np.zeros((*(n + 2 for n in field.shape), amplitudes.shape[3], 4), self.real)
        fixels[1:-1, 1:-1, 1:-1, :, :3] = directions
        fixels[1:-1, 1:-1, 1:-1, :, 3] = np.nan_to_num(amplitudes, posinf=0.0, neginf=0.0)
        return fixels

    def drawn(self, places: Array, start: int) -> Array:
        """Draw a fixel of the nearest voxel, in proportion to its amplitude; see `FiberProblem.drawn`."""
        from napari_gpubio.core.philox import uniform

        fixels = self.fixels[tuple(self.nearest(places).T + 1)].astype(np.float64)
        sums = np.cumsum(fixels[..., 3], axis=1)
        chance = uniform(self.settings.random_seed, start, len(places), 1)[:, 0] * sums[:, -1]
        which = np.minimum((sums <= chance[:, None]).sum(axis=1), fixels.shape[1] - 1)
        return np.asarray(fixels[np.arange(len(places)), which, :3])

    @cached_property
    def scalars(self) -> FixelSettings:
        """The settings as the backends take them."""
        s, real = self.settings, self.real
        along, across = _ALONG**s.power, (_ALONG / s.anisotropy) ** s.power
        return FixelSettings(
            max_steps=self.lengths.ray_steps,
            every=s.points_every,
            step_mm=real(self.lengths.step_mm),
            cutoff=real(s.fod_stop),
            max_bend=real(1.0 / s.min_radius_mm if s.min_radius_mm > 0 else 0.0),
            max_drift=real(s.max_drift),
            least_cos=real(math.cos(math.radians(s.angle_deg))),
            least_weight=real(s.weight),
            across=real(across),
            excess=real(along - across),
        )


def smoothed(directions: Array, mask: npt.NDArray[np.bool_], sigma: float, least_cos: float) -> Array:
    """Each fixel's direction averaged with those nearest to it in the 26 voxels around.

    Parameters
    ----------
    directions
        World axes, zero where there is no fixel, shape (X, Y, Z, M, 3).
    mask
        Voxels that have a fixel, shape (X, Y, Z).
    sigma
        Standard deviation of the Gaussian weight, voxels.
    least_cos
        Fixels at a larger angle do not count.

    Returns
    -------
    ndarray
        Unit directions, shape (X, Y, Z, M, 3).
    """
    padded = np.pad(directions, [(1, 1)] * 3 + [(0, 0)] * 2)
    voxels = np.argwhere(mask) + 1
    own = padded[tuple(voxels.T)]
    sums = np.zeros_like(own)
    for shift in np.argwhere(np.ones((3, 3, 3))) - 1:
        near = padded[tuple((voxels + shift).T)]
        cosines = np.einsum("vma,vna->vmn", own, near)
        best = np.abs(cosines).argmax(axis=2)[..., None]
        cosine = np.take_along_axis(cosines, best, axis=2)
        weight = np.exp(-0.5 * (shift @ shift) / sigma**2) * np.sign(cosine) * (np.abs(cosine) >= least_cos)
        sums += weight * np.take_along_axis(near, best, axis=1)
    lengths = np.linalg.norm(sums, axis=-1, keepdims=True)
    out = directions.copy()
    out[mask] = np.where(lengths > 0, sums / np.maximum(lengths, 1e-30), own)
    return out
