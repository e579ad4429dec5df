"""Best paths between two regions along fixels, distinct ones, and the middle of the flow beside them."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.space import apply_affine, lengths_along
from napari_gpubio.fibers.flow.nodes import FixelNodes
from napari_gpubio.fibers.flow.settings import RouteSettings

Array = npt.NDArray[Any]
TOLERANCE, SKEW_DEG, LARGEST_SKEW_DEG = 0.5, 15.0, 35.0  # voxels beside a center; where the rate doubles; at most
PENALTY = 3.0  # factor, less 1, of what lies beside a route that was found, for the next search
WINDOW_MM = 8.0
_SAME_WAY = 0.8  # cosine between fixels of one route
_ACROSS_MM, _SMOOTH_MM, _SPACING_MM = 8.0, 3.0, 1.0
_FLOOR = 0.05  # of the strength that the flow gives a fixel


class Path(NamedTuple):
    """Nodes of a path (P,), and its positions in world mm (P, 3)."""

    nodes: npt.NDArray[np.int64]
    points_mm: npt.NDArray[np.float64]


class PathNumbers(NamedTuple):
    """What a path is like; see `FlowRoutes`."""

    cost_per_mm: float
    weakest_link: float
    sharpest_turn_deg_per_mm: float
    least_strength: float


class PathSearch:
    """Paths from some fixels to others.

    Parameters
    ----------
    nodes
        The fixels.
    settings
        Angle, and cost of turns.
    starts, goals
        Fixels of both regions, ascending.
    """

    def __init__(self, nodes: FixelNodes, settings: RouteSettings, starts: Array, goals: Array) -> None:
        self.nodes, self._settings = nodes, settings
        self._starts = np.sort(np.concatenate([2 * starts, 2 * starts + 1])).astype(np.int64)
        self._goals = np.zeros(len(nodes.voxels), np.uint8)
        self._goals[goals] = 1

    def best(
        self, strengths: Array, penalties: Array | None = None, *, widest: bool = False
    ) -> tuple[Path, float] | None:
        """Return the best path and its cost, or None if there is none.

        Parameters
        ----------
        strengths
            Of the fixels, at most 1, shape (F,); paths go through none of 0.
        penalties
            Factors of the cost at each fixel, less 1, shape (F,).
        widest
            Whether the largest rate on the way counts, which is then the cost.
        """
        from napari_gpubio.fibers.kernels.paths import NEW, PathArrays, PathState, search

        nodes, angle = self.nodes, self._settings.flow.angle_deg
        affine = nodes.field.affine
        arrays = PathArrays(
            first=nodes.first,
            voxels=nodes.voxels,
            directions=nodes.directions,
            resistances=np.divide(1.0, strengths, out=np.full(len(strengths), np.inf), where=strengths > 0),
            penalties=np.zeros(len(strengths)) if penalties is None else penalties,
            goals=self._goals,
            to_world=tuple(affine[:3].ravel().tolist()),
            shape=tuple(int(n) for n in nodes.field.shape),  # type: ignore[arg-type]
            size_mm=nodes.voxel_size_mm,
            tolerance_mm=TOLERANCE * nodes.voxel_size_mm,
            turn_scale=math.radians(self._settings.turn_deg_per_mm),
            skew_scale=math.radians(SKEW_DEG),
            least_cosine=math.cos(math.radians(angle)),
            largest_skew=math.tan(math.radians(LARGEST_SKEW_DEG)),
            widest=widest,
        )
        state = PathState(
            costs=np.full(nodes.count, np.inf),
            parents=np.full(nodes.count, -1, np.int64),
            positions=np.zeros((nodes.count, 3)),
            places=np.full(nodes.count, NEW, np.int64),
            heap=np.zeros(nodes.count, np.int64),
        )
        end = int(search(self._starts, arrays, state))
        if end < 0:
            return None
        way = [end]
        while (before := int(state.parents[way[-1]])) >= 0:
            way.append(before)
        found = np.array(way[::-1])
        return Path(found, state.positions[found]), float(state.costs[end])

    def distinct(
        self, strengths: Array, count: int, line_of: Callable[[Path], Array], accepts: Callable[[Path, Array], bool]
    ) -> list[tuple[Path, npt.NDArray[np.float64]]]:
        """Return up to so many paths and their lines, whose mean distance is no less than that of routes, best first.

        ``line_of``: makes the line of a path; ``accepts``: whether both may be a route. Other arguments are those of
        `best`.
        """
        from scipy.spatial import KDTree

        penalties, found = np.zeros(len(strengths)), list[tuple[Path, npt.NDArray[np.float64]]]()
        centers = fixel_centers_mm(self.nodes)
        tree, apart = KDTree(centers), self._settings.route_distance_mm
        for tries in range(4 * count):
            best = self.best(strengths, penalties)
            if best is None or len(found) == count:
                break
            path, line = best[0], line_of(best[0])
            if accepts(path, line) and all(_distance_mm(line, other) > apart for _, other in found):
                found.append((path, line))
            for node, point in zip(path.nodes, path.points_mm, strict=True):
                near = np.array(tree.query_ball_point(point, apart), np.int64)
                cosines = np.abs(self.nodes.directions[near] @ self.nodes.directions[node >> 1])
                near = near[cosines > _SAME_WAY]
                penalties[near] = np.maximum(penalties[near], PENALTY * (1 + tries / 2))
        return found

    def numbers(self, path: Path) -> PathNumbers:
        """Cost and turns of a path along fixels of their own strengths."""
        nodes = self.nodes
        fixels = path.nodes >> 1
        strengths = nodes.strengths[fixels]
        tangents = nodes.directions[fixels] * (1.0 - 2.0 * (path.nodes & 1))[:, np.newaxis]
        steps = np.diff(path.points_mm, axis=0)
        lengths = np.linalg.norm(steps, axis=1)
        middle = tangents[1:] + tangents[:-1]
        middle /= np.linalg.norm(middle, axis=1, keepdims=True)
        turns = np.arccos(np.clip((tangents[1:] * tangents[:-1]).sum(axis=1), -1.0, 1.0))
        skews = np.arccos(np.clip((steps * middle).sum(axis=1) / np.maximum(lengths, 1e-12), -1.0, 1.0))
        turn_rate = turns / (np.maximum(lengths, 1e-12) * math.radians(self._settings.turn_deg_per_mm))
        rates = 1.0 + turn_rate**2 + (skews / math.radians(SKEW_DEG)) ** 2
        rates *= 0.5 * (1.0 / strengths[1:] + 1.0 / strengths[:-1])
        costs, along = np.concatenate([[0.0], np.cumsum(rates * lengths)]), np.concatenate([[0.0], np.cumsum(lengths)])
        worst, sharpest = 1.0, 0.0
        for first in range(len(along)):
            last = min(int(np.searchsorted(along, along[first] + WINDOW_MM)), len(along) - 1)
            length = along[last] - along[first]
            if length >= 0.5 * WINDOW_MM:
                worst = max(worst, (costs[last] - costs[first]) / length)
                angle = math.acos(min(1.0, max(-1.0, float(tangents[first] @ tangents[last]))))
                sharpest = max(sharpest, math.degrees(angle) / length)
        mean = costs[-1] / along[-1] if along[-1] > 0 else 1.0
        return PathNumbers(float(mean), float(worst), float(sharpest), float(strengths.min()))


def fixel_centers_mm(nodes: FixelNodes) -> npt.NDArray[np.float64]:
    """World positions of the centers of the fixels' voxels, shape (F, 3)."""
    return apply_affine(nodes.field.affine, np.stack(np.unravel_index(nodes.voxels, nodes.field.shape), axis=1))


def flow_strengths(density: Array) -> npt.NDArray[np.float64]:
    """Strengths of fixels by the flow through them, for the path in its middle: 0.05 to 1, shape (F,)."""
    largest = float(np.percentile(density[density > 0], 95))
    return np.asarray(np.clip(np.sqrt(density / largest), _FLOOR, 1.0))


def centered(nodes: FixelNodes, density: Array, points_mm: Array) -> npt.NDArray[np.float64]:
    """Move a line to the middle of the flow: to its mean in the plane across, within 8 mm, and smooth it.

    ``density``: of the flow at each fixel, shape (F,).
    """
    from scipy.spatial import KDTree

    line, there = smoothed(points_mm, _SMOOTH_MM), np.flatnonzero(density > 0)
    if len(line) < 3 or not len(there):
        return line
    centers, size = fixel_centers_mm(nodes)[there], nodes.voxel_size_mm
    near_points = KDTree(centers).query_ball_point(line, _ACROSS_MM)
    tangents = np.gradient(line, axis=0)
    tangents /= np.maximum(np.linalg.norm(tangents, axis=1, keepdims=True), 1e-9)
    moved = line.copy()
    for n, (point, tangent, near) in enumerate(zip(line, tangents, near_points, strict=True)):
        away = centers[near] - point
        weights = density[there[near]] * np.exp(-0.5 * (away @ tangent / size) ** 2)
        weights = weights * (np.abs(nodes.directions[there[near]] @ tangent) > 0.7)
        if weights.sum() > 0:
            mean = weights @ away / weights.sum()
            moved[n] = point + mean - (mean @ tangent) * tangent
    return smoothed(moved, _SMOOTH_MM)


def smoothed(points_mm: Array, sigma_mm: float) -> npt.NDArray[np.float64]:
    """A line resampled at even distances and smoothed along itself; its ends stay."""
    from scipy.ndimage import gaussian_filter1d

    if len(points_mm) < 3:
        return np.asarray(points_mm, np.float64)
    along = lengths_along(points_mm)
    count = max(3, round(float(along[-1]) / _SPACING_MM) + 1)
    even = np.linspace(0.0, along[-1], count)
    line = np.stack([np.interp(even, along, points_mm[:, axis]) for axis in range(3)], axis=1)
    border = min(int(3 * sigma_mm / _SPACING_MM) + 1, count - 1)
    before, after = 2 * line[0] - line[border:0:-1], 2 * line[-1] - line[-2 : -border - 2 : -1]
    padded = np.concatenate([before, line, after])
    sigma = sigma_mm * (count - 1) / max(float(along[-1]), 1e-9)
    return np.asarray(gaussian_filter1d(padded, sigma, axis=0, truncate=3)[border : border + count])


def _distance_mm(one: Array, other: Array) -> float:
    """The larger of the mean distances of each line from the other."""
    from scipy.spatial import KDTree

    return float(max(KDTree(one).query(other)[0].mean(), KDTree(other).query(one)[0].mean()))
