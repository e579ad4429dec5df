"""Profiles: the values of an image along a bundle, from one end to the other (AFQ, Yeatman et al. 2012)."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Tabular
from napari_gpubio.core.space import checked_affine
from napari_gpubio.diffusion.regions import AnyRegion, Box, Region, Sphere, distances_mm
from napari_gpubio.tractograms.bundles.resample import resample, resample_values
from napari_gpubio.tractograms.bundles.sampling import values_at
from napari_gpubio.tractograms.bundles.settings import WEIGHTINGS
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.places import check_place

Array = npt.NDArray[Any]
REVERSED = "were reversed"  # how the note about it ends: fibers of a file run either way
_SIDES = (("left", "right"), ("posterior", "anterior"), ("inferior", "superior"))
Start = int | AnyRegion | npt.ArrayLike | None
_MIN_FIBERS = 500  # worth a thread
_COMPARED = 12  # points of two fibers whose distances tell whether they run the same way
_ROUNDS = 10


@dataclass(frozen=True, eq=False, kw_only=True)
class Profile(Tabular):
    """Values along a bundle.

    Parameters
    ----------
    mean, sd, se
        Weighted mean at each node, standard deviation of the fibers (unbiased) and standard error of the mean, shape
        (K,), in the image's unit; NaN where too few fibers have a value.
    counts
        Fibers that have a value at each node, shape (K,).
    line_mm
        Mean position of them (of all fibers where none has a value), shape (K, 3), world mm.
    values
        Value of each fiber at each node, shape (F, K); NaN outside of the image.
    weights
        Weight of each fiber at each node, shape (F, K); they add up to 1 at a node.
    turned
        Which fibers were reversed so that all run the same way, shape (F,).
    weighting
        How fibers were weighted.
    """

    mean: npt.NDArray[np.float64]
    sd: npt.NDArray[np.float64]
    se: npt.NDArray[np.float64]
    counts: npt.NDArray[np.int64]
    line_mm: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]
    weights: npt.NDArray[np.float64]
    turned: npt.NDArray[np.bool_]
    weighting: str

    def __len__(self) -> int:
        return len(self.mean)

    @property
    def ends(self) -> tuple[str, str]:
        """Where the first and the last node lie, seen from each other, in words such as "left" and "right"."""
        way = self.line_mm[-1] - self.line_mm[0]
        axis = int(np.argmax(np.abs(way)))
        low, high = _SIDES[axis]
        return (low, high) if way[axis] >= 0 else (high, low)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was changed or is missing, in sentences for the user."""
        notes = []
        if self.turned.any():
            notes.append(f"{np.count_nonzero(self.turned):,} of {len(self.turned):,} fibers {REVERSED}")
        if (lost := int(np.count_nonzero(self.counts < len(self.turned)))) > 0:
            notes.append(f"at {lost} of {len(self)} nodes fibers lie outside of the image or where it has no value")
        return tuple(notes)


def profile(
    fibers: Tractogram,
    image: npt.ArrayLike | str,
    affine: npt.ArrayLike | None = None,
    nodes: int = 100,
    weighting: str = "afq",
    *,
    start: Start = None,
) -> Profile:
    """Average an image, or a number of the fibers' points, over a bundle at nodes from its one end to the other.

    All fibers are made to run the same way, and resampled to nodes at equal distances along each. At each node the
    values are averaged with weights 1 / d, where d is the Mahalanobis distance of a fiber's node from the mean position
    (covariance over N). Where two fibers or fewer have a value, or the nodes lie in a plane, weights are equal.

    Parameters
    ----------
    fibers
        One bundle.
    image, affine
        Volume of real numbers, shape (X, Y, Z), and voxel to world, mm; trilinear interpolation. Or the name of a
        number of the points, such as ``"fa"``, without an affine; linear along each fiber.
    nodes
        Number of nodes, at least 2.
    weighting
        ``"afq"``: as above. ``"none"``: all fibers alike. ``"dipy"``: with the distance of
        `dipy.stats.analysis.gaussian_weights`, which inverts the upper triangle of the covariance, for comparison.
    start
        Which end is the first node. None: of the fiber of median length, the left, back or lower end, along the axis
        in which its ends are farthest apart; other fibers run like the bundle's mean line. A number: the first point of
        that fiber. A line of world points, shape (n, 3): its first point. (Fibers run like that fiber or line, by the
        mean distance of points, MDF of Garyfallidis et al. 2012.) A region: of each fiber, the end that is nearer.

    Returns
    -------
    Profile
        Without fibers all of it is NaN and the counts are 0.

    Raises
    ------
    InvalidInput
        If the weighting, the start or the number is unknown, ``nodes`` is below 2, a fiber has no point, the image is
        no volume or has no affine, or all fibers lie outside of it, or their place is not known.
    """
    if weighting not in WEIGHTINGS:
        raise InvalidInput(f"weighting is {weighting!r}; give one of {', '.join(WEIGHTINGS)}")
    lines = resample(fibers, nodes)
    turned = _turned(lines, fibers, start)
    ordered = _by_nodes(lines, turned)
    if isinstance(image, str):
        return _averaged(ordered, _values_by_nodes(fibers, image, nodes, turned), turned, weighting)
    if affine is None:
        raise InvalidInput("the image has no affine, so its place is unknown; give the one that its file has")
    check_place(fibers, np.shape(image), checked_affine(affine), "the image")
    return _averaged(ordered, values_at(ordered, image, affine), turned, weighting)


def _turned(lines: Array, fibers: Tractogram, start: Start) -> npt.NDArray[np.bool_]:
    """Which lines run from the last node to the first."""
    if not len(lines):
        return np.zeros(0, bool)
    if isinstance(start, Region | Sphere | Box):
        return distances_mm(start, lines[:, -1]) < distances_mm(start, lines[:, 0])
    few = np.linspace(0, lines.shape[1] - 1, _COMPARED).astype(np.int64)
    if start is not None:
        return _unlike(lines[:, few], _guide(lines, fibers, start)[few])
    return _turned_from_mean(lines[:, few])


def _turned_from_mean(lines: Array) -> npt.NDArray[np.bool_]:
    """Begin with the fiber of median length; then compare all with their mean line, until none turns."""
    lengths = np.linalg.norm(np.diff(lines, axis=1), axis=2).sum(axis=1)
    line = lines[np.argsort(lengths, kind="stable")[len(lines) // 2]]
    way = line[-1] - line[0]
    turned = _unlike(lines, line[::-1] if way[np.argmax(np.abs(way))] < 0 else line)
    for _ in range(_ROUNDS):
        mean = (lines[~turned].sum(axis=0) + lines[turned, ::-1].sum(axis=0)) / len(lines)
        before, turned = turned, _unlike(lines, mean)
        if (turned == before).all():
            break
    return turned


def _unlike(lines: Array, line: Array) -> npt.NDArray[np.bool_]:
    """Which lines are nearer to a line when they are reversed."""
    from napari_gpubio.core.jit import run_blocks
    from napari_gpubio.tractograms.kernels.profiles import find_turned

    turned = np.zeros(len(lines), bool)
    parts = (np.ascontiguousarray(lines), np.ascontiguousarray(line), turned)
    run_blocks(find_turned, len(lines), *parts, least=_MIN_FIBERS)
    return turned


def _guide(lines: Array, fibers: Tractogram, start: Any) -> npt.NDArray[np.float64]:
    """The line that all fibers shall run like, shape (K, 3)."""
    if np.ndim(start) == 0:
        if not isinstance(start, int | np.integer) or not 0 <= start < len(lines):
            raise InvalidInput(f"start is {start!r}; give a fiber from 0 to {len(lines) - 1}, a line, or a region")
        return np.asarray(lines[start])
    points = np.asarray(start, np.float32)
    if points.ndim != 2 or points.shape[1] != 3 or len(points) < 2 or not np.isfinite(points).all():
        raise InvalidInput(f"the line to start from has shape {points.shape}; give two or more points (x, y, z) in mm")
    if len(points) == lines.shape[1]:
        return points.astype(np.float64)
    one = Tractogram(points=points, offsets=np.array([0, len(points)]), affine=fibers.affine, shape=fibers.shape)
    return np.asarray(resample(one, lines.shape[1])[0])


def _by_nodes(lines: Array, turned: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """All lines the same way, node by node, shape (K, F, 3)."""
    from napari_gpubio.core.jit import run_blocks
    from napari_gpubio.tractograms.kernels.profiles import by_nodes

    ordered = np.empty((lines.shape[1], len(lines), 3))
    run_blocks(by_nodes, len(lines), lines, turned, ordered, least=_MIN_FIBERS)
    return ordered


def _values_by_nodes(
    fibers: Tractogram, name: str, nodes: int, turned: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """A number of the points, the same way in all fibers, node by node, shape (K, F)."""
    if name not in fibers.per_point or np.ndim(fibers.per_point[name]) != 1:
        numbers = [known for known, values in fibers.per_point.items() if np.ndim(values) == 1]
        raise InvalidInput(f"the points have no number {name!r}; they have {', '.join(numbers) or 'none'}")
    values = resample_values(fibers, np.asarray(fibers.per_point[name]), nodes)
    values[turned] = values[turned, ::-1]
    return np.ascontiguousarray(values.T)


def _averaged(nodes: Array, values: Array, turned: npt.NDArray[np.bool_], weighting: str) -> Profile:
    from napari_gpubio.core.jit import run_blocks
    from napari_gpubio.tractograms.kernels.profiles import MOMENTS, node_moments, node_statistics

    count = len(nodes)
    moments, out, weights = np.empty((count, MOMENTS)), np.empty((count, 3)), np.empty(values.shape)
    run_blocks(node_moments, count, nodes, values, moments)
    run_blocks(node_statistics, count, nodes, values, moments, _forms(moments, weighting), weights, out)
    line, missed = moments[:, 1:4].copy(), moments[:, 0] == 0
    if len(turned):
        line[missed] = nodes[missed].mean(axis=1)
    return Profile(
        mean=out[:, 0], sd=out[:, 1], se=out[:, 2], counts=moments[:, 0].astype(np.int64), line_mm=line,
        values=values.T, weights=weights.T, turned=turned, weighting=weighting,
    )  # fmt: skip


def _forms(moments: Array, weighting: str) -> npt.NDArray[np.float64]:
    """Coefficients of xx, yy, zz, xy, xz, yz in the square of the distance at each node; NaN: equal weights."""
    forms = np.full((len(moments), 6), np.nan)
    usable = moments[:, -1] > 0
    if weighting == "none" or not usable.any():
        return forms
    xx, yy, zz, xy, xz, yz = moments[usable, 4:10].T
    below = 0.0 if weighting == "dipy" else 1.0
    covariance = np.array([[xx, xy, xz], [below * xy, yy, yz], [below * xz, below * yz, zz]])
    inverse = np.linalg.inv(np.moveaxis(covariance, -1, 0))
    both = inverse + np.swapaxes(inverse, 1, 2)
    forms[usable] = np.stack([*(inverse[:, n, n] for n in range(3)), both[:, 0, 1], both[:, 0, 2], both[:, 1, 2]], 1)
    return forms
