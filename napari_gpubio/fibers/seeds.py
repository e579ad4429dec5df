"""Where fibers start and in which directions: seed points, and a fan of directions at each.

Fiber ``f`` belongs to seed ``f // per_seed`` and has direction number ``f % per_seed``, so any range of fibers can be
launched without the others.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import position_text
from napari_gpubio.core.parameters import check_params, param
from napari_gpubio.core.settings import Settings, Words, part
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import apply_affine, in_grid
from napari_gpubio.core.steps import drive
from napari_gpubio.diffusion.fods.harmonics import coefficient_count
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.fods.settings import PeakSettings
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.regions import AnyRegion, Region, voxels_on
from napari_gpubio.fibers.directions import Cone, Directions, FromFod, Isotropic, Principal
from napari_gpubio.tractograms.places import check_place

Array = npt.NDArray[Any]
Field = TensorField | FodField | FixelField
WHITE_MATTER_FA = 0.2
# White matter, as shares of the 95th percentile. That of FODs makes it as large as an FA of 0.2 does on a scan with
# b = 1000 s/mm^2; their integral is as high in gray matter there.
_SHARE_OF_ORDER_2, _SHARE_OF_FIXELS = 0.35, 0.5
_GOLDEN_ANGLE = np.pi * (3.0 - np.sqrt(5.0))


def checked_points(points_mm: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return seed points as an array (S, 3) of world mm.

    InvalidInput if there are none, they are not triples, or not finite.
    """
    points = np.atleast_2d(np.asarray(points_mm, np.float64))
    if points.size == 0:
        raise InvalidInput("there are no seed points; click in the image, or give at least one (x, y, z) in mm")
    if points.ndim != 2 or points.shape[1] != 3:
        raise InvalidInput(f"seed points have shape {points.shape}; give (x, y, z) in mm for each")
    if not np.isfinite(points).all():
        raise InvalidInput("a seed point is not finite; give (x, y, z) in mm")
    return points


def ball(center_mm: npt.ArrayLike, radius_mm: float, count: int, *, seed: int = 0) -> npt.NDArray[np.float64]:
    """Seed points spread uniformly at random in a ball, shape (count, 3), world mm.

    Parameters
    ----------
    center_mm
        World position of the center.
    radius_mm
        Radius; 0 gives ``count`` times the center.
    count
        Number of points.
    seed
        Seed of the random numbers; the same gives the same points.
    """
    from napari_gpubio.core.philox import uniform

    if count < 1 or not radius_mm >= 0:
        raise InvalidInput(
            f"a ball of {count} points with radius {radius_mm} mm cannot be seeded; give at least 1 and 0 mm"
        )
    u = uniform(seed, 0, count, 3).astype(np.float64)
    cos = 2 * u[:, 0] - 1
    sin, turn = np.sqrt(1 - cos**2), 2 * np.pi * u[:, 1]
    unit = np.stack([sin * np.cos(turn), sin * np.sin(turn), cos], axis=1)
    return checked_points(center_mm) + radius_mm * np.cbrt(u[:, 2:]) * unit


def label_points(
    labels: Array, affine: Array, label: int, *, per_voxel: int = 1, seed: int = 0
) -> npt.NDArray[np.float64]:
    """Seed points in every voxel of a label: the voxel's center, or ``per_voxel`` random points inside it.

    Parameters
    ----------
    labels
        Label volume, shape (X, Y, Z).
    affine
        Voxel to world, mm.
    label
        Which label; it must be there.
    per_voxel
        Points in each voxel; 1 is its center.
    seed
        Seed of the random numbers.

    Returns
    -------
    ndarray
        Shape (S, 3), world mm; in an order in which the first ones, too, are spread over all of the label.
    """
    from napari_gpubio.core.philox import uniform

    if per_voxel < 1:
        raise InvalidInput(f"{per_voxel} seed points in each voxel are none; give at least 1")
    voxels = np.argwhere(labels == label)
    if not len(voxels):
        raise InvalidInput(f"no voxel has label {label}; the volume has labels {np.unique(labels)[:20].tolist()}")
    order = scattered(len(voxels))
    if per_voxel == 1:
        return apply_affine(affine, voxels[order])
    shifts = uniform(seed, 0, len(voxels), 3 * per_voxel).reshape(-1, per_voxel, 3) - 0.5
    return apply_affine(affine, (voxels[:, None, :] + shifts)[order].reshape(-1, 3))


def scattered(count: int) -> npt.NDArray[np.int64]:
    """Return the numbers below ``count`` in an order in which any first ones are spread evenly, always the same.

    From each to the next it is about the golden ratio of all, and at the end on from the start.
    """
    places = np.arange(count) * ((np.sqrt(5.0) - 1.0) / 2.0) % 1.0
    return np.argsort(np.argsort(places))


def white_matter(field: Field, least_fa: float = WHITE_MATTER_FA) -> npt.NDArray[np.bool_]:
    """Voxels of the white matter, shape (X, Y, Z): the largest connected part of those of the mask with a high value.

    What is not connected with it is mostly noise at the edge of the brain, or the scalp. The value is FA in a field of
    tensors, which is not below ``least_fa``; of FODs it is the norm of the coefficients of order 2, not below 0.35 of
    its 95th percentile; of fixels the amplitude of the largest, not below half of its 95th percentile. InvalidInput if
    there is none.
    """
    from scipy import ndimage

    high = _is_high(field, least_fa)
    parts, count = ndimage.label(high & field.mask, np.ones((3, 3, 3)))
    if not count:
        if isinstance(field, TensorField):
            raise InvalidInput(f"no voxel has an FA of {least_fa:g} or more, so no white matter was found; lower it")
        raise InvalidInput("no voxel has a direction, so no white matter was found; seed from a region")
    return np.asarray(parts == np.argmax(np.bincount(parts.ravel())[1:]) + 1)


def _is_high(field: Field, least_fa: float) -> npt.NDArray[np.bool_]:
    """Where the value that tells white matter from the rest is high, shape (X, Y, Z)."""
    from napari_gpubio.diffusion.tensors.scalar_maps import fa_map

    if isinstance(field, TensorField):
        return np.asarray(fa_map(field) >= least_fa)
    if not field.mask.any():
        return field.mask
    if isinstance(field, FodField):
        value, share = np.linalg.norm(field.coefficients[..., 1 : coefficient_count(2)], axis=-1), _SHARE_OF_ORDER_2
    else:
        value, share = field.dense(1)[1][..., 0], _SHARE_OF_FIXELS
    return np.asarray((value > 0) & (value >= share * np.percentile(value[field.mask], 95)))


def white_matter_points(
    field: Field, *, per_voxel: int = 1, least_fa: float = WHITE_MATTER_FA
) -> npt.NDArray[np.float64]:
    """Seed points in every voxel of the white matter, shape (S, 3), world mm; see `white_matter` and `label_points`."""
    return label_points(white_matter(field, least_fa), field.affine, 1, per_voxel=per_voxel)


def _per_voxel() -> Any:
    text = "Seed points in each voxel; 1 is its center."
    return param(1, "Seeds per voxel", text, minimum=1, maximum=1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedSettings:
    """The ball of seed points around a click."""

    radius_mm: float = param(
        3.0, "Seed radius", "Radius of the ball of seed points around a click; 0 = only the clicked point.",
        unit="mm", minimum=0.0, maximum=50.0, step=0.5,
    )  # fmt: skip
    points: int = param(100, "Seed points", "Number of seed points in the ball.", minimum=1, maximum=100_000, step=10)
    per_voxel: int = _per_voxel()

    def __post_init__(self) -> None:
        check_params(self)


Point = tuple[float, float, float]


def _places(rows: list[list[str]]) -> tuple[Point, ...]:
    try:
        return tuple((float(x), float(y), float(z)) for x, y, z in rows)
    except ValueError:
        raise InvalidInput(f"a seed is {' '.join(rows[-1])!r}; give three numbers, world mm") from None


@dataclass(frozen=True, kw_only=True)
class AtPoints(Settings):
    """Points, or balls of points around them."""

    kind: ClassVar[str] = "points"
    words: ClassVar[Any] = {"seed": Words(("X", "Y", "Z"), _places)}
    seed: tuple[Point, ...] = part("Seeds", "World position; may be given several times.", unit="mm", default=())
    radius_mm: float = param(
        0.0, "Seed radius", "Radius of the ball of seed points around each.", unit="mm", minimum=0.0, maximum=50.0,
        step=0.5,
    )  # fmt: skip
    points: int = param(1, "Seed points", "Number of seed points in a ball.", minimum=1, maximum=100_000, step=10)

    def check(self) -> None:
        """Raise InvalidInput if there is no seed, or half a ball."""
        if not self.seed:
            raise InvalidInput("there is no seed; give at least one position")
        if (self.points > 1) != (self.radius_mm > 0):
            raise InvalidInput(f"points is {self.points} and radius_mm {self.radius_mm:g}; a ball of seeds needs both")

    def points_in(self, field: Field | None = None, region: AnyRegion | None = None) -> Array:  # noqa: ARG002 - as of the others
        """Return seed points, shape (S, 3), world mm; always the same for the same seeds."""
        if self.points == 1:
            return checked_points(self.seed)
        return np.concatenate([ball(one, self.radius_mm, self.points, seed=n) for n, one in enumerate(self.seed)])


@dataclass(frozen=True, kw_only=True)
class InRegion(Settings):
    """Every voxel of the volume whose center lies in a region."""

    kind: ClassVar[str] = "region"
    per_voxel: int = _per_voxel()

    def points_in(self, field: Field, region: AnyRegion | None = None) -> Array:
        """Return seed points, shape (S, 3), world mm; InvalidInput if there is no region, or it has no voxel there."""
        if region is None:
            raise InvalidInput("seeds are those of a region, but there is no region; give one")
        if isinstance(region, Region):
            place = region.voxels.shape, region.affine
            check_place(field, *place, f"the region {region.name!r}", is_oriented=region.is_oriented)
        voxels = voxels_on(region, field.shape, field.affine)
        if not voxels.any():
            raise InvalidInput(f"the region {region.name!r} has no voxel in the volume; choose another")
        return label_points(voxels, field.affine, 1, per_voxel=self.per_voxel)


@dataclass(frozen=True, kw_only=True)
class InWhiteMatter(Settings):
    """Every voxel of the white matter; see `white_matter`."""

    kind: ClassVar[str] = "white-matter"
    per_voxel: int = _per_voxel()

    def points_in(self, field: Field, region: AnyRegion | None = None) -> Array:  # noqa: ARG002 - as of the others
        """Return seed points, shape (S, 3), world mm; InvalidInput if there is no white matter."""
        return white_matter_points(field, per_voxel=self.per_voxel)


@dataclass(frozen=True, kw_only=True)
class InWhiteMatterByFa(InWhiteMatter):
    """Every voxel of the white matter in tensors; see `white_matter`."""

    kind: ClassVar[str] = "white-matter"
    least_fa: float = param(WHITE_MATTER_FA, "Least FA", "Of the white matter.", above=0.0, maximum=1.0, step=0.05)

    def points_in(self, field: Field, region: AnyRegion | None = None) -> Array:  # noqa: ARG002 - as of the others
        """Return seed points, shape (S, 3), world mm; InvalidInput if there is no white matter."""
        return white_matter_points(field, per_voxel=self.per_voxel, least_fa=self.least_fa)


def cap_directions(count: int, half_angle: float) -> npt.NDArray[np.float64]:
    """Return ``count`` unit vectors spread evenly over a cap around +z (Fibonacci lattice), shape (count, 3).

    The half angle is in radians; pi gives the whole sphere.
    """
    n = np.arange(count)
    cos = 1.0 - (1.0 - np.cos(half_angle)) * (n + 0.5) / count
    sin, turn = np.sqrt(np.maximum(0.0, 1.0 - cos**2)), n * _GOLDEN_ANGLE
    return np.stack([sin * np.cos(turn), sin * np.sin(turn), cos], axis=1)


@dataclass(frozen=True, eq=False, slots=True)
class Launch(ShortRepr):
    """The seeds and directions of one run.

    Parameters
    ----------
    points_mm
        Seed points, shape (S, 3), world mm.
    axes
        Unit principal direction at each seed, shape (S, 3), world axes.
    directions
        The fan at each seed.
    """

    points_mm: npt.NDArray[np.float64]
    axes: npt.NDArray[np.float64]
    directions: Directions

    def __len__(self) -> int:
        return len(self.points_mm) * self.directions.per_seed

    def seed_of(self, start: int, count: int) -> npt.NDArray[np.int64]:
        """Seed index of each fiber of a range, shape (count,)."""
        return np.arange(start, start + count, dtype=np.int64) // self.directions.per_seed

    def rays(self, start: int, count: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Start points and unit directions (world) of the fibers from ``start`` on, each (count, 3)."""
        return self._at(np.arange(start, start + count, dtype=np.int64))

    def one_way(self) -> "Launch":
        """The same seeds, where fibers go both ways each in both directions of its axis, as fibers of their own."""
        if not self.directions.both_ways:
            return self
        directions = dataclasses.replace(self.directions, both_ways=False)
        if isinstance(directions, Isotropic):
            return dataclasses.replace(self, directions=directions)
        axes = np.stack([self.axes, -self.axes], axis=1).reshape(-1, 3)
        return Launch(np.repeat(self.points_mm, 2, axis=0), axes, directions)

    def some(self, fibers: npt.NDArray[np.int64]) -> "Launch":
        """The fibers with these indices, one way, each as a seed of its own."""
        return Launch(*self._at(fibers), Principal(both_ways=False))

    def _at(self, fibers: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        d = self.directions
        which, place = np.divmod(fibers, d.per_seed)
        if isinstance(d, Isotropic):
            half_angle = np.pi / 2 if d.both_ways else np.pi  # the other half is tracked backwards
            return self.points_mm[which], cap_directions(d.count, half_angle)[place]
        if isinstance(d, Cone):
            fan = cap_directions(d.count, np.deg2rad(d.half_angle_deg))[place]
            return self.points_mm[which], _turned(fan, self.axes[which])
        return self.points_mm[which], self.axes[which]  # zero where directions are drawn later


def make_launch(field: Field, points_mm: npt.ArrayLike, directions: Directions) -> Launch:
    """Prepare seeds on a field: check that they lie in its mask and find the principal directions there.

    InvalidInput if no seed lies inside the volume and the mask.
    """
    points = checked_points(points_mm)
    if isinstance(field, FixelField):
        field = field.ordered()
    voxel, inside = _in_mask(field, points)
    if not inside.any():
        in_volume = [p for p, v in zip(points, voxel, strict=True) if _in_volume(field, v)]
        raise InvalidInput(_nothing_there(field, in_volume[0] if in_volume else points[0]))
    if isinstance(directions, FromFod):
        axes = np.zeros((np.count_nonzero(inside), 3))
    elif isinstance(field, FodField):
        axes = _largest_peak_at(field, voxel[inside])
    elif isinstance(field, FixelField):
        axes = _largest_fixel_at(field, voxel[inside])
    else:
        axes = _principal_at(field, voxel[inside])
    return Launch(points[inside], axes, directions)


def check_seed(field: Field, center_mm: npt.ArrayLike, around_mm: npt.ArrayLike | None = None) -> None:
    """Raise InvalidInput, with the position, unless there is a tensor at a world position in mm.

    ``around_mm``: seed points, shape (S, 3), any of which may have the tensor instead.
    """
    point = checked_points(center_mm)
    if not _in_mask(field, point if around_mm is None else checked_points(around_mm))[1].any():
        raise InvalidInput(_nothing_there(field, point[0]))


def _in_mask(field: Field, points: Array) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Voxel coordinates of world points, and which of them lie in the mask."""
    voxel = apply_affine(np.linalg.inv(field.affine), points)
    nearest = np.floor(voxel + 0.5).astype(np.int64)
    inside = in_grid(nearest, field.shape)
    at = tuple(nearest[inside].T)
    if isinstance(field, FodField):
        inside[inside] = field.mask[at] & (field.coefficients[*at, 0] > 0)
    elif isinstance(field, FixelField):
        inside[inside] = field.counts[at] > 0
    else:
        inside[inside] = field.mask[at] & (field.tensors[at][:, :3].sum(axis=1) > 0)
    return voxel, inside


def _in_volume(field: Field, voxel: Array) -> bool:
    return bool(((voxel >= -0.5) & (voxel < np.array(field.shape) - 0.5)).all())


def _nothing_there(field: Field, point: Array) -> str:
    where = position_text(point)
    if not _in_volume(field, apply_affine(np.linalg.inv(field.affine), point)):
        return f"the seed at {where} lies outside the volume; place it in the brain"
    what = "tensors" if isinstance(field, TensorField) else "FODs" if isinstance(field, FodField) else "fixels"
    return f"the seed at {where} lies in the background, where there are no {what}; place it in the brain"


def _principal_at(field: TensorField, voxel: Array) -> npt.NDArray[np.float64]:
    """Principal direction of the trilinearly interpolated tensor at voxel positions, shape (S, 3), world axes."""
    from napari_gpubio.diffusion.kernels.tensors.cpu import eigen_decompose

    return np.asarray(eigen_decompose(_interpolated(field.tensors, voxel))[1][:, 0, :])


def _largest_peak_at(field: FodField, voxel: Array) -> npt.NDArray[np.float64]:
    """Direction of the largest peak of the trilinearly interpolated FOD, shape (S, 3), world axes; zero for none."""
    from napari_gpubio.diffusion.fods.rows import search_steps
    from napari_gpubio.diffusion.kernels.peaks.problem import PeakProblem

    coefficients = _interpolated(field.coefficients, voxel)
    problem = PeakProblem(coefficients=coefficients.astype(np.float32), settings=PeakSettings(most=1))
    return np.asarray(drive(search_steps(problem, CPU))[0][:, 0, :3])


def _largest_fixel_at(field: FixelField, voxel: Array) -> npt.NDArray[np.float64]:
    """Direction of the nearest voxel's largest fixel, shape (S, 3), world axes.

    It is the trilinear mean of that fixel and of those of the voxels around that are nearest to it, within 45 degrees.
    """
    directions, _ = field.dense()
    shape, nearest = np.array(field.shape), np.floor(voxel + 0.5).astype(np.int64)
    axes = directions[(*nearest.T, 0)].astype(np.float64)
    low = np.floor(voxel).astype(np.int64)
    total = np.zeros_like(axes)
    for corner in np.ndindex(2, 2, 2):
        at = low + corner
        weight = np.prod(1.0 - np.abs(voxel - at), axis=1)
        fixels = directions[tuple(np.clip(at, 0, shape - 1).T)]
        cosines = (fixels @ axes[..., None])[..., 0]
        best = np.abs(cosines).argmax(axis=1)[:, None]
        cosine = np.take_along_axis(cosines, best, axis=1)
        counts = (np.abs(cosine) >= np.sqrt(0.5)) & in_grid(at, shape)[:, None]
        mean = np.sign(cosine) * np.take_along_axis(fixels, best[..., None], axis=1)[:, 0]
        total += np.where(counts, weight[:, None] * mean, 0.0)
    return np.asarray(total / np.linalg.norm(total, axis=1, keepdims=True))


def _interpolated(volume: Array, voxel: Array) -> npt.NDArray[np.float64]:
    """Values (S, C) of a volume (X, Y, Z, C) at voxel positions, trilinear; the volume's edge goes on outside."""
    shape = np.array(volume.shape[:3])
    low = np.clip(np.floor(voxel).astype(np.int64), 0, np.maximum(shape - 2, 0))
    fraction = np.clip(voxel - low, 0.0, 1.0)
    values = np.zeros((len(voxel), volume.shape[3]))
    for corner in np.ndindex(2, 2, 2):
        at = np.minimum(low + corner, shape - 1)
        weight = np.prod(np.where(corner, fraction, 1 - fraction), axis=1)
        values += weight[:, None] * volume[tuple(at.T)]
    return values


def _turned(fan: Array, axes: Array) -> npt.NDArray[np.float64]:
    """Turn vectors given around +z so that +z falls on each axis (Duff et al. 2017, a frame without a singularity)."""
    x, y, z = axes.T
    sign = np.where(z >= 0, 1.0, -1.0)
    a = -1.0 / (sign + z)
    b = x * y * a
    first = np.stack([1.0 + sign * x * x * a, sign * b, -sign * x], axis=1)
    second = np.stack([b, sign + y * y * a, -y], axis=1)
    return np.asarray(fan[:, :1] * first + fan[:, 1:2] * second + fan[:, 2:] * axes)
