"""Loops of one plane that overlap in part: united, or cut out of each other by the even-odd rule.

DICOM has no rule for loops of one structure that cover each other in part. A loop inside another one is a hole in most
programs, and here. Where two loops cross, the even-odd rule makes a hole of what both hold, although it was drawn
twice; so such loops become those around what they hold together, unless the even-odd rule is requested, as by the type
CLOSEDPLANAR_XOR.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
UNION, XOR = "union", "xor"
OVERLAPS = (UNION, XOR)
_POINTS = 48  # along an edge of the box in which a smaller loop is compared with a larger one
_APART, _INSIDE = 0.01, 0.99  # shares of the smaller loop inside the larger one: neighbors that touch, and holes
_SHIFT_MM = 1e-6 * np.array([0.618, 0.414])  # so that edges of two loops never lie on each other


def overlapping(loops: Sequence[Array]) -> list[list[int]]:
    """Groups of loops of a plane that overlap each other in part, by their numbers."""
    groups: list[list[int]] = []
    for pair in combinations(range(len(loops)), 2):
        if not _APART < _share_inside(*(loops[n] for n in pair)) < _INSIDE:
            continue
        touched = [group for group in groups if set(pair) & set(group)]
        groups = [group for group in groups if group not in touched]
        groups.append(sorted({*pair, *(n for group in touched for n in group)}))
    return groups


def united(loops: Sequence[Array]) -> list[Array] | None:
    """The loops around what at least one of some loops holds; None if they touch themselves in a way without one."""
    shifted = [_counterclockwise(loop) + n * _SHIFT_MM for n, loop in enumerate(loops)]
    kept = [
        piece
        for n, pieces in enumerate(_cut(shifted))
        for piece in pieces[_is_outside(pieces.mean(axis=1), [*shifted[:n], *shifted[n + 1 :]])]
    ]
    return _chained(kept)


def inside_loop(points: Array, loop: Array) -> Mask:
    """Which points (N, 2) lie inside a loop by the even-odd rule."""
    a, b = loop, np.concatenate([loop[1:], loop[:1]])
    x, y = points[:, :1], points[:, 1:]
    crosses = (a[:, 1] <= y) != (b[:, 1] <= y)
    rise = np.where(a[:, 1] == b[:, 1], 1.0, b[:, 1] - a[:, 1])
    at = a[:, 0] + (y - a[:, 1]) / rise * (b[:, 0] - a[:, 0])
    return np.asarray((crosses & (x < at)).sum(axis=1) % 2 == 1)


def _share_inside(a: Array, b: Array) -> float:
    """About which share of the smaller of two loops lies inside the other one."""
    small, large = sorted((a, b), key=lambda loop: abs(_area(loop)))
    low, high = small.min(axis=0), small.max(axis=0)
    if (high < large.min(axis=0)).any() or (low > large.max(axis=0)).any():
        return 0.0
    steps = (np.arange(_POINTS) + 0.5) / _POINTS
    points = low + (high - low) * np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    own = points[inside_loop(points, small)]
    return float(inside_loop(own, large).mean()) if len(own) else 0.0


def _area(loop: Array) -> float:
    x, y = loop.T
    return 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def _counterclockwise(loop: Array) -> Array:
    return loop if _area(loop) > 0 else loop[::-1]


def _cut(loops: Sequence[Array]) -> Iterator[Array]:
    """The segments of each loop, shape (N, 2 ends, 2), cut wherever another loop crosses them."""
    crossings: list[list[tuple[int, float, Array]]] = [[] for _ in loops]  # segment, where on it (0 to 1), the point
    for n, m in combinations(range(len(loops)), 2):
        first, along_first, second, along_second, points = _crossings(loops[n], loops[m])
        crossings[n] += zip(first.tolist(), along_first.tolist(), points, strict=True)
        crossings[m] += zip(second.tolist(), along_second.tolist(), points, strict=True)
    for loop, found in zip(loops, crossings, strict=True):
        corners = [(n, 0.0, point) for n, point in enumerate(loop)]
        path = np.array([point for _, _, point in sorted(corners + found, key=lambda one: one[:2])])
        yield np.stack([path, np.concatenate([path[1:], path[:1]])], axis=1)


def _crossings(a: Array, b: Array) -> tuple[npt.NDArray[np.int64], Array, npt.NDArray[np.int64], Array, Array]:
    """Where two loops cross: segment of the first and where on it, the same of the second, and the points."""
    along_a = np.concatenate([a[1:], a[:1]]) - a
    along_b = np.concatenate([b[1:], b[:1]]) - b
    apart = b[None] - a[:, None]
    determinant = _cross(along_a[:, None], along_b[None])
    with np.errstate(divide="ignore", invalid="ignore"):
        s, t = _cross(apart, along_b[None]) / determinant, _cross(apart, along_a[:, None]) / determinant
    n, m = np.nonzero((s > 0) & (s < 1) & (t > 0) & (t < 1))
    return n, s[n, m], m, t[n, m], a[n] + s[n, m, None] * along_a[n]


def _cross(a: Array, b: Array) -> Array:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def _is_outside(points: Array, loops: Sequence[Array]) -> Mask:
    """Which points lie in none of some loops."""
    return ~np.any([inside_loop(points, loop) for loop in loops], axis=0)


def _chained(pieces: Sequence[Array]) -> list[Array] | None:
    """Pieces joined into loops, each at the end of the one before; None where they do not close."""
    following = {piece[0].tobytes(): piece for piece in pieces}
    if len(following) < len(pieces):
        return None
    loops = []
    while following:
        start, piece = following.popitem()
        loop = [piece[0]]
        while (end := piece[1].tobytes()) != start:
            if end not in following:
                return None
            piece = following.pop(end)
            loop.append(piece[0])
        loops.append(np.array(loop))
    return loops
