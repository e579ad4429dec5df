"""What every way of tracing fibers shares: where they begin, where they may go, and what they write."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Problem
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.space import apply_affine, voxel_sizes_mm
from napari_gpubio.diffusion.regions import AnyRegion, distances_mm, voxels_on
from napari_gpubio.fibers.kernels.fibers.tally import ALIGNED, BOTH, DRIFTED, PATH, RIEMANNIAN, SAMPLES, TOTAL
from napari_gpubio.fibers.seeds import Launch
from napari_gpubio.fibers.settings import Lengths, TrackMethod

Array = npt.NDArray[Any]
IN_MASK, IN_TARGET = 1, 2  # bits of a voxel in the mask; of the kernels too


class Rays(NamedTuple):
    """Where fibers begin.

    Start points (voxels) and directions, each (F, 3), the rays of each fiber, the fibers' numbers in the launch, and
    the maximum length (mm) of each ray, shape (R,); a ray for which it is negative is left as it is.
    """

    seeds: Any
    directions: Any
    per_fiber: int
    numbers: Any
    limits: Any

    def of(self, which: Any) -> "Rays":
        """The rays of some fibers."""
        return Rays(
            self.seeds[which],
            self.directions[which],
            self.per_fiber,
            self.numbers[which],
            self.limits.reshape(-1, self.per_fiber)[which].ravel(),
        )


class RayOutput(NamedTuple):
    """What rays write, one row for each ray.

    Points (R, P, 4) with a number each, how many there are, the stop reason, and `STATS` numbers.
    """

    points: Any
    written: Any
    reasons: Any
    stats: Any

    def of(self, which: Any, per_fiber: int) -> "RayOutput":
        """Return what the rays of some fibers wrote."""
        rows = (per_fiber * which[:, np.newaxis] + np.arange(per_fiber)).ravel()
        return RayOutput(*(values[rows] for values in self))


class Fibers(NamedTuple):
    """Packed fibers: offsets (F + 1,), points (P, 3) in world mm, and the number of each point (P,), such as FA."""

    offsets: Any
    points: Any
    values: Any


@dataclass(frozen=True, eq=False)
class FiberProblem(Problem):
    """Fibers to trace: a field, seeds and directions, settings.

    ``target``: where rays end, with `StopReason.TARGET`; ``only_target``: whether the others are left out. A subclass
    names the methods that it is of, the number that every point has, and the numbers of fibers that it reports.
    """

    work = "fiber tracking in this volume"
    at_first = 512
    methods: ClassVar[type[TrackMethod]]
    point_number: ClassVar[str]
    reported: ClassVar[tuple[str, ...]]
    field: Any
    launch: Launch
    settings: TrackMethod
    target: AnyRegion | None = None
    only_target: bool = False

    def __post_init__(self) -> None:
        if self.only_target and self.target is None:
            raise InvalidInput("only fibers that reach a target are kept, but there is no target; give a region")

    @property
    def volume(self) -> Any:
        """The field that rays are traced in."""
        return self.field

    @property
    def items(self) -> int:
        """Number of fibers."""
        return len(self.launch)

    def memory(self, device: Device) -> Memory:
        """What is kept with the field once it is prepared, and taken while it is; besides fibers."""
        raise NotImplementedError

    @cached_property
    def volumes(self) -> Any:
        """What all rays read, as the kernel of the CPU takes it."""
        raise NotImplementedError

    @cached_property
    def scalars(self) -> Any:
        """How rays are traced and where they end, as the kernels take it."""
        raise NotImplementedError

    @property
    def keys(self) -> dict[str, tuple[Any, ...]]:
        """What the arrays of `volumes` that the field keeps, on a device too, depend on."""
        return {"mask": ("mask", self.target)}

    def fiber_numbers(self, stats: Array) -> dict[str, Array]:
        """Numbers of each fiber, shape (F,), from those of its rays, shape (F, rays, `STATS`): those of `reported`.

        Length in the metric, drift, means along the fiber, and length over that in the metric.
        """
        sums = stats.sum(axis=1).T
        length, riemannian, samples = sums[PATH], sums[RIEMANNIAN] / self.metric_unit, np.maximum(sums[SAMPLES], 1)
        numbers = {
            "riemannian_length_mm": riemannian,
            "drift": stats[:, :, DRIFTED].max(axis=1),
            f"mean_{self.point_number}": sums[TOTAL] / samples,
            "alignment": sums[ALIGNED] / samples,
            f"alignment_{self.point_number}": sums[BOTH] / samples,
            "speed": np.divide(length, riemannian, out=np.zeros_like(length), where=riemannian > 0),
        }
        return {name: numbers[name] for name in self.reported}

    @cached_property
    def lengths(self) -> Lengths:
        """Step, lengths, and the most steps and points of a ray in this field."""
        return self.settings.lengths(voxel_sizes_mm(self.field.affine))

    @property
    def rays_per_fiber(self) -> int:
        """Two where fibers go both ways, else one."""
        return 2 if self.launch.directions.both_ways else 1

    @property
    def real(self) -> type[np.floating[Any]]:
        """Floating-point type of the tracing."""
        return np.float64 if self.settings.precision == "double" else np.float32

    @property
    def metric_unit(self) -> float:
        """Of lengths in the metric, as rays count them."""
        return 1.0

    @property
    def matrices(self) -> dict[str, tuple[Any, ...]]:
        """Voxels per mm of world vectors, and mm per voxel: nine numbers each, row by row."""
        pair = {"to_voxel": self.to_voxel, "to_world": self.volume.affine}
        return {name: tuple(self.real(m) for m in matrix[:3, :3].ravel()) for name, matrix in pair.items()}

    @cached_property
    def to_voxel(self) -> npt.NDArray[np.float64]:
        """World mm to voxel coordinates, 4 x 4."""
        return np.asarray(np.linalg.inv(self.volume.affine))

    def rays(self, start: int, count: int) -> Rays:
        """Where the fibers ``start`` to ``start + count - 1`` begin; each way has its share of the length.

        Where the launch has no direction, one is drawn.
        """
        points, directions = self.launch.rays(start, count)
        m, ways = self.to_voxel, self.rays_per_fiber
        places = points @ m[:3, :3].T + m[:3, 3]
        is_drawn = np.asarray(~directions.any(axis=1))
        if is_drawn.any():
            directions = np.where(is_drawn[:, None], self.drawn(places, start), directions)
        return Rays(
            np.ascontiguousarray(places, self.real),
            np.ascontiguousarray(self.in_own_axes(directions), self.real),
            ways,
            np.arange(start, start + count, dtype=np.int64),
            np.full(ways * count, self.lengths.max_length_mm / ways, self.real),
        )

    def drawn(self, places: Array, start: int) -> Array:
        """Return directions (F, 3) of the fibers from ``start`` on, at places (F, 3) in voxels; zero where unknown."""
        return np.zeros(places.shape)

    def nearest(self, places: Array) -> npt.NDArray[np.int64]:
        """Return the voxel (F, 3) of the field that is nearest to each place."""
        return np.clip(np.floor(places + 0.5).astype(np.int64), 0, np.array(self.volume.shape) - 1)

    def in_own_axes(self, directions: Array) -> Array:
        """Return directions (F, 3) in world axes in those in which rays are traced: here the same."""
        return directions

    @property
    def mask(self) -> npt.NDArray[np.uint8]:
        """What each voxel is to a ray, shape (X, Y, Z): `IN_MASK`, `IN_TARGET`, their sum, or 0, where no ray goes.

        InvalidInput if no ray can reach the target.
        """
        return np.asarray(self.volume.cache.get(("mask", self.target), self._make_mask))

    def _make_mask(self) -> npt.NDArray[np.uint8]:
        mask = IN_MASK * self.volume.mask.astype(np.uint8)
        if self.target is not None:
            mask += IN_TARGET * reachable(self.target, self.volume).astype(np.uint8)
        return mask

    @cached_property
    def masked(self) -> bool:
        """Whether some voxel ends a ray: those outside the mask, and the target's."""
        return self.target is not None or not bool(self.volume.mask.all())


def reachable(target: AnyRegion, field: Any) -> npt.NDArray[np.bool_]:
    """Which voxels of a field belong to a target, shape (X, Y, Z): those in the mask, and next to it.

    InvalidInput if there are none.
    """
    from scipy import ndimage

    near = ndimage.binary_dilation(field.mask, np.ones((3, 3, 3)))
    voxels = voxels_on(target, field.shape, field.affine) & near
    if not voxels.any():
        away = distances_mm(target, apply_affine(field.affine, np.argwhere(field.mask))).min(initial=np.inf)
        raise InvalidInput(
            f"the target {target.name!r} has no voxel in the brain mask, which is {away:.1f} mm away from it; "
            "choose another region, or a larger one"
        )
    return voxels
