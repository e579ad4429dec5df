"""Geodesics of positions and directions in a field of FODs, made ready for a backend."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.memory import Memory
from napari_gpubio.diffusion.fods.harmonics import (
    coefficient_count,
    half_sphere,
    harmonics,
    pair_count,
    paired_in_mask,
    recurrence,
)
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.fibers.kernels.fibers.problem import FiberProblem
from napari_gpubio.fibers.settings import LiftedGeodesic

Array = npt.NDArray[Any]
_SMOOTHING = 0.02  # of the largest amplitude: how far from zero the FOD is clipped smoothly
_DIRECTIONS = 600  # of the half sphere, 6 degrees apart: for the largest amplitude, and to draw from
_ROBUST = 99.0  # percentile of the voxels' largest amplitudes


class LiftedVolumes(NamedTuple):
    """What all rays read.

    FODs (X + 2, Y + 2, Z + 2, P) in the order of `paired` with a border of zeros, the constants of the harmonics, the
    mask, voxels per mm of world vectors and mm per voxel (nine numbers each, row by row), the number of voxels along
    each axis, and the order of the harmonics.
    """

    fods: Any
    table: Any
    mask: Any
    to_voxel: tuple[Any, ...]
    to_world: tuple[Any, ...]
    shape: tuple[int, ...]
    lmax: int


class LiftedSettings(NamedTuple):
    """How rays are traced: scalars, those of floating point in the type of the tracing."""

    max_steps: int
    every: int
    power: int
    guiding: bool
    step_mm: Any
    cutoff: Any
    max_bend: Any
    max_drift: Any
    over_largest: Any
    smoothing: Any
    delta: Any
    epsilon_2: Any
    inverse_stiffness_2: Any


@dataclass(frozen=True, eq=False)
class LiftedProblem(FiberProblem):
    """Geodesics of positions x and directions n (Duits, Meesters, Mirebeau and Portegies 2018).

    Crossing bundles lie apart in the space of both. With the stiffness xi (1/mm) and a small eps the metric is

        F^2 = C^2 (xi^2 (v.n)^2 + (xi / eps)^2 |v - (v.n) n|^2 + |n'|^2),

    so that curves go along their direction. With momenta p of x, and q of n, which is tangential, rays obey

        H = ((p.n)^2 + eps^2 |p - (p.n) n|^2) / (2 xi^2 C^2) + |q|^2 / (2 C^2)
        x' = ((p.n) n + eps^2 (p - (p.n) n)) / (xi C)^2,     n' = q / C^2,     p' = 2 H grad_x ln C,
        q' = -(1 - eps^2) (p.n) (p - (p.n) n) / (xi C)^2 + 2 H grad_n ln C - |q|^2 / C^2 n.

    The cost C is made from ``s = delta + (f+ / f_max)^power`` with the FOD f at x along n: ``f+ = (f + sqrt(f^2 +
    s0^2)) / 2`` is clipped smoothly, f_max is a robust maximum over the mask.

    shortest
        ``C = 1 / s``, as in the paper, which looks for the shortest path between two places. Rays that are sent off
        are another matter: 2 H grad_n ln C turns n away from a peak of the FOD, and the angle grows as ``cosh(k x)``
        with ``k = xi sqrt(a + 1 - eps^2)`` per mm, where ``ln C = const + a theta^2 / 2``. Unless they are so stiff
        that they are straight, rays leave their bundle.
    guiding
        ``C = s``. The same term turns n toward the peak, and 2 H grad_x ln C turns p toward the middle of the bundle:
        rays oscillate about fibers, with the wave number ``xi sqrt(a - 1 + eps^2)``, and follow their bends down to
        radii near 1 / xi, as light follows a glass fiber. They are geodesics too, but not shortest paths.

    They start with p along n, q = 0 and H = 1/2, and end where p.n is no longer positive: a cusp, after which they
    would go backwards. Between voxels the coefficients are quadratic B-splines.
    """

    methods: ClassVar[type[LiftedGeodesic]] = LiftedGeodesic
    point_number: ClassVar[str] = "fod"
    reported: ClassVar[tuple[str, ...]] = ("riemannian_length_mm", "drift", "mean_fod", "alignment")
    field: FodField
    settings: LiftedGeodesic

    @cached_property
    def stiffness_per_mm(self) -> float:
        """The stiffness in this field."""
        return self.settings.stiffness(self.field.voxel_sizes_mm)

    @property
    def metric_unit(self) -> float:
        """Rays count lengths times the stiffness."""
        return self.stiffness_per_mm

    @property
    def lmax(self) -> int:
        """Largest order of the harmonics that are used."""
        return min(self.field.lmax, self.settings.lmax // 2 * 2)

    def memory(self, device: Device) -> Memory:
        """The FODs, with a voxel more on every side, and the mask."""
        padded = math.prod(n + 2 for n in self.field.shape)
        fods = padded * pair_count(self.lmax) * np.dtype(self.real).itemsize
        return Memory(inputs=fods + math.prod(self.field.shape))

    @property
    def keys(self) -> dict[str, tuple[Any, ...]]:
        """What the arrays that the field keeps depend on."""
        return {**super().keys, "fods": ("lifted", self.settings.precision, self.lmax)}

    @cached_property
    def volumes(self) -> LiftedVolumes:
        """What all rays read; FODs are zero outside the mask and where they are not finite."""
        return LiftedVolumes(
            fods=self.field.cache.get(self.keys["fods"], self._make_pairs),
            table=recurrence(self.lmax).astype(self.real),
            mask=self.mask,
            **self.matrices,
            shape=self.field.shape,
            lmax=self.lmax,
        )

    def _make_pairs(self) -> Array:
        shape = tuple(n + 2 for n in self.field.shape)
        pairs = np.zeros((*shape, pair_count(self.lmax)), self.real)
        paired_in_mask(self._coefficients, self.field.mask, pairs[1:-1, 1:-1, 1:-1])
        return pairs

    @property
    def _coefficients(self) -> Array:
        return self.field.coefficients[..., : coefficient_count(self.lmax)]

    @property
    def largest(self) -> float:
        """The robust maximum of the FODs."""
        return float(self.field.cache.get(("largest", self.lmax), self._find_largest))

    def _find_largest(self) -> float:
        values = harmonics(half_sphere(_DIRECTIONS), self.lmax).T.astype(np.float32)
        rows = np.nan_to_num(self._coefficients[self.field.mask].astype(np.float32), posinf=0.0, neginf=0.0)
        peaks = [(rows[n : n + 16384] @ values).max(axis=1) for n in range(0, len(rows), 16384)]
        return max(float(np.percentile(np.concatenate(peaks), _ROBUST)), 1e-30)

    def drawn(self, places: Array, start: int) -> Array:
        """Draw from the FODs of the nearest voxels, in proportion to their amplitudes; see `FiberProblem.drawn`."""
        from napari_gpubio.core.philox import uniform

        choices = half_sphere(_DIRECTIONS)
        rows = self._coefficients[tuple(self.nearest(places).T)].astype(np.float64)
        rows = np.nan_to_num(rows, posinf=0.0, neginf=0.0)
        sums = np.cumsum(np.maximum(rows @ harmonics(choices, self.lmax).T, 0.0) ** 2, axis=1)
        chance = uniform(self.settings.random_seed, start, len(places), 1) * sums[:, -1:]
        return np.asarray(choices[np.minimum(np.sum(sums <= chance, axis=1), len(choices) - 1)])

    @cached_property
    def scalars(self) -> LiftedSettings:
        """The settings as the backends take them."""
        s, real = self.settings, self.real
        return LiftedSettings(
            max_steps=self.lengths.ray_steps,
            every=s.points_every,
            power=s.power,
            guiding=s.cost == "guiding",
            step_mm=real(self.lengths.step_mm),
            cutoff=real(s.fod_stop),
            max_bend=real(1.0 / s.min_radius_mm if s.min_radius_mm > 0 else 1e18),
            max_drift=real(s.max_drift),
            over_largest=real(1.0 / self.largest),
            smoothing=real(_SMOOTHING),
            delta=real(s.delta),
            epsilon_2=real(s.epsilon**2),
            inverse_stiffness_2=real(self.stiffness_per_mm**-2),
        )
