"""Streamlines in a field of FODs, made ready for a backend."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.settings import kind_of
from napari_gpubio.diffusion.fods.harmonics import pair_count, paired_in_mask, recurrence
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.fibers.kernels.fibers.problem import FiberProblem
from napari_gpubio.fibers.settings import StreamlineMethod

Array = npt.NDArray[Any]
SD_STREAM, IFOD1, IFOD2 = 0, 1, 2  # the same numbers in streamlines.py and streamlines.cu
_KINDS = {"sd_stream": SD_STREAM, "ifod1": IFOD1, "ifod2": IFOD2}
# Grids of directions in a cone: largest probability over the largest on the grid (see `StreamlineProblem`), and rings,
# each with its part of the cone's angle and its number of directions. Cones of half the angle around seven cover it.
_FEW_UP_TO_DEG = 45.0  # the usual angle of iFOD2
_SEVEN, _NINETEEN = (1.6, ((0.0, 1), (math.sqrt(0.75), 6))), (1.35, ((0.0, 1), (0.5, 6), (1.0, 12)))


class FodVolumes(NamedTuple):
    """What all streamlines read.

    FODs (X, Y, Z, P) in the order of `paired`, the constants of the harmonics, the mask, voxels per mm of world
    directions (nine numbers, row by row), the number of voxels along each axis, and the order of the harmonics.
    """

    fods: Any
    table: Any
    mask: Any
    to_voxel: tuple[Any, ...]
    shape: tuple[int, ...]
    lmax: int


class StreamlineSettings(NamedTuple):
    """How streamlines are traced: scalars; ``grid``: turns (angle, azimuth) of a cone, shape (G, 2)."""

    kind: int
    max_steps: int
    every: int
    trials: int
    seed: Any
    step_mm: Any
    cutoff: Any
    least_cos: Any
    headroom: Any
    grid: Any


@dataclass(frozen=True, eq=False)
class StreamlineProblem(FiberProblem):
    """Streamlines in a field of FODs.

    sd_stream
        Follows the peak nearest to its direction (Tournier et al. 2012).
    ifod1
        Draws each step's direction in a cone with a probability proportional to the FOD (first order).
    ifod2
        Draws an arc, with a probability from the FODs along it (second order; Tournier et al. 2010): with amplitudes
        F_0 to F_3 at its start, its two inner points and its end, ``(F_0^1/2 F_1 F_2 F_3^1/2)^1/4``.

    Directions are drawn by rejection. Their largest probability is that of the directions of a grid in the cone times a
    factor, which the largest one between them does not exceed in FODs of order 8. Where no direction of the grid is
    possible, the fiber ends, which decides how long fibers of iFOD2 are: with seven directions as long as MRtrix's,
    which has as many; with nineteen they go on past the ends of bundles. In cones wider than the usual 45 degrees, and
    for iFOD1, there are nineteen. An arc that leaves the mask between its ends ends the fiber, too.
    """

    methods: ClassVar[type[StreamlineMethod]] = StreamlineMethod
    point_number: ClassVar[str] = "fod"
    reported: ClassVar[tuple[str, ...]] = ("mean_fod",)
    field: FodField
    settings: StreamlineMethod

    @property
    def kind(self) -> int:
        """The kind of streamlines."""
        return _KINDS[kind_of(self.settings)]

    def memory(self, device: Device) -> Memory:
        """The FODs and the mask."""
        each = pair_count(self.field.lmax) * np.dtype(self.real).itemsize + 1
        return Memory(inputs=math.prod(self.field.shape) * each)

    @property
    def keys(self) -> dict[str, tuple[Any, ...]]:
        """What the arrays that the field keeps depend on."""
        return {**super().keys, "fods": ("pairs", self.settings.precision)}

    @cached_property
    def volumes(self) -> FodVolumes:
        """What all streamlines read; FODs are zero outside the mask and where they are not finite."""
        return FodVolumes(
            fods=self.field.cache.get(self.keys["fods"], self._make_pairs),
            table=recurrence(self.field.lmax).astype(self.real),
            mask=self.mask,
            to_voxel=self.matrices["to_voxel"],
            shape=self.field.shape,
            lmax=self.field.lmax,
        )

    def _make_pairs(self) -> Array:
        pairs = np.empty((*self.field.shape, pair_count(self.field.lmax)), self.real)
        paired_in_mask(self.field.coefficients, self.field.mask, pairs)
        return pairs

    @cached_property
    def scalars(self) -> StreamlineSettings:
        """The settings as the backends take them."""
        s, real = self.settings, self.real
        return StreamlineSettings(
            kind=self.kind,
            max_steps=self.lengths.ray_steps,
            every=s.points_every,
            trials=s.trials,
            seed=np.uint64(s.random_seed),
            step_mm=real(self.lengths.step_mm),
            cutoff=real(s.fod_stop),
            least_cos=real(math.cos(math.radians(s.max_angle_deg))),
            headroom=real(self._grid[0]),
            grid=self._turns(),
        )

    @property
    def _grid(self) -> tuple[float, tuple[tuple[float, int], ...]]:
        few = self.kind == IFOD2 and self.settings.max_angle_deg <= _FEW_UP_TO_DEG
        return _SEVEN if few else _NINETEEN

    def _turns(self) -> Array:
        largest, turns = math.radians(self.settings.max_angle_deg), []
        for ring, (part, count) in enumerate(self._grid[1]):
            turns += [(largest * part, 2.0 * math.pi * (n + 0.5 * (ring % 2)) / count) for n in range(count)]
        return np.array(turns, self.real)
