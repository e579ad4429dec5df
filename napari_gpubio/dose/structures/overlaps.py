"""Loops of one plane that overlap in part: united, or cut out of each other by the even-odd rule.

DICOM has no rule for loops of one structure that cover each other in part. A loop inside another one is a hole in most
programs, and here. Where two loops cross, the even-odd rule makes a hole of what both hold, although it was drawn
twice; so such loops become those around what they hold together, unless the even-odd rule is requested, as by the type
CLOSEDPLANAR_XOR.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
UNION, XOR = "union", "xor"
OVERLAPS = (UNION, XOR)
_POINTS = 32  # along an edge of the box in which a smaller loop is compared with a larger one
_MAX_PAIRS = 1 << 21  # of points or segments that are compared in one go
_APART, _INSIDE = 0.01, 0.99  # shares of the smaller loop inside the larger one: neighbors that touch, and holes
_SAME = 1e-3  # share by which the areas of two loops may differ that are one, written twice with other digits
_SHIFT_MM = 1e-6 * np.array([0.618, 0.414])  # so that edges of two loops never lie on each other


def near_copies(loops: Sequence[Array], share: float = _SAME) -> set[int]:
    """Numbers of loops that are others once more, with other digits or points: by even-odd they would leave nothing.

    ``share`` is that of the area by which they may differ.
    """
    areas = [abs(_area(loop)) for loop in loops]
    found: set[int] = set()
    for n, m in _with_common_box(loops):
        if n in found or abs(areas[n] - areas[m]) > share * max(areas[n], areas[m]):
            continue
        if _share_inside(loops[n], loops[m]) >= 1 - share:
            found.add(m)
    return found


def overlapping(loops: Sequence[Array]) -> list[list[int]]:
    """Groups of loops of a plane that overlap each other in part, by their numbers."""
    groups: list[list[int]] = []
    for pair in _with_common_box(loops):
        first, second = (loops[n] for n in pair)
        if not len(_crossings(first, second + _SHIFT_MM).first):
            continue  # side by side, or one in the other; this is known sooner
        if not _APART < _share_inside(first, second) < _INSIDE:
            continue
        touched = [group for group in groups if set(pair) & set(group)]
        groups = [group for group in groups if group not in touched]
        groups.append(sorted({*pair, *(n for group in touched for n in group)}))
    return groups


def _with_common_box(loops: Sequence[Array]) -> list[tuple[int, int]]:
    """Pairs of loops whose boxes overlap."""
    low, high = np.array([loop.min(axis=0) for loop in loops]), np.array([loop.max(axis=0) for loop in loops])
    common = np.all((low[:, None] < high[None]) & (low[None] < high[:, None]), axis=2)
    return [(int(n), int(m)) for n, m in np.argwhere(np.triu(common, 1))]


def united(loops: Sequence[Array]) -> list[Array] | None:
    """The loops around what some loops hold together; None if they touch themselves in a way without one.

    Those inside others of them are their holes, where no further loop lies; keyholes are taken for a loop and its hole.
    """
    families = _families([_opened(loop, n * _SHIFT_MM) for n, loop in enumerate(loops)])
    directed = [(n, _directed(loop, family)) for n, family in enumerate(families) for loop in family]
    kept = [
        piece
        for (n, _), pieces in zip(directed, _cut(directed), strict=True)
        for piece in pieces[_is_outside(pieces.mean(axis=1), families[:n] + families[n + 1 :])]
    ]
    return _chained(kept)


def _directed(loop: Array, family: Sequence[Array]) -> Array:
    """A counterclockwise loop, clockwise if it is a hole of its family."""
    depth = sum(bool(inside_loop(loop[:1], one)[0]) for one in family if one is not loop)
    return loop[:: 1 - 2 * (depth % 2)]


def _opened(loop: Array, shift: Array) -> list[Array]:
    """The loops of a keyhole without the bridge that joins them, or any other loop; moved, and counterclockwise."""
    moved = loop + shift
    ends = np.stack([moved, np.concatenate([moved[1:], moved[:1]])], axis=1)
    ways = {one.tobytes() for one in ends}
    pieces = [one for one in ends if one[::-1].tobytes() not in ways]
    parts = _chained(pieces) if 3 <= len(pieces) < len(loop) else None
    return [_counterclockwise(one) for one in parts or [moved]]


def _families(loops: Sequence[list[Array]]) -> list[list[Array]]:
    """Loops that do not cross each other together, each with those that it lies in; keyholes for themselves."""
    families: list[list[Array]] = []
    for parts in sorted(loops, key=lambda one: -max(abs(_area(part)) for part in one)):
        free = [family for family in families if not any(len(_crossings(parts[0], one).first) for one in family)]
        around = [family for family in free if any(inside_loop(parts[0][:1], one)[0] for one in family)]
        if len(parts) == 1 and free:
            (around or free)[0].append(parts[0])
        else:
            families.append(parts)
    return families


def inside_loop(points: Array, loop: Array) -> Mask:
    """Which points (N, 2) lie inside a loop by the even-odd rule."""
    rows = max(1, _MAX_PAIRS // len(loop))
    parts = [_inside_loop(points[n : n + rows], loop) for n in range(0, len(points), rows)]
    return np.concatenate(parts) if parts else np.zeros(0, np.bool_)


def _inside_loop(points: Array, loop: Array) -> Mask:
    a, b = loop, np.concatenate([loop[1:], loop[:1]])
    x, y = points[:, :1], points[:, 1:]
    crosses = (a[:, 1] <= y) != (b[:, 1] <= y)
    rise = np.where(a[:, 1] == b[:, 1], 1.0, b[:, 1] - a[:, 1])
    at = a[:, 0] + (y - a[:, 1]) * ((b[:, 0] - a[:, 0]) / rise)
    return np.asarray((crosses & (x < at)).sum(axis=1) % 2 == 1)


def _share_inside(a: Array, b: Array) -> float:
    """About which share of the smaller of two loops lies inside the other one."""
    small, large = sorted((a, b), key=lambda loop: abs(_area(loop)))
    low, high = small.min(axis=0), small.max(axis=0)
    steps = (np.arange(_POINTS) + 0.5) / _POINTS
    points = low + (high - low) * np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    own = points[inside_loop(points, small)]
    return float(inside_loop(own, large).mean()) if len(own) else 0.0


def _area(loop: Array) -> float:
    x, y = loop.T
    return 0.5 * float(x @ np.roll(y, -1) - y @ np.roll(x, -1))


def _counterclockwise(loop: Array) -> Array:
    return loop if _area(loop) > 0 else loop[::-1]


def _cut(loops: Sequence[tuple[int, Array]]) -> Iterator[Array]:
    """The segments of each loop, shape (N, 2 ends, 2), cut wherever one of another family crosses them."""
    crossings: list[list[tuple[int, float, Array]]] = [[] for _ in loops]  # segment, where on it (0 to 1), the point
    for (n, (own, a)), (m, (other, b)) in combinations(enumerate(loops), 2):
        if own != other:
            both = _crossings(a, b)
            crossings[n] += zip(both.first.tolist(), both.along_first.tolist(), both.points, strict=True)
            crossings[m] += zip(both.second.tolist(), both.along_second.tolist(), both.points, strict=True)
    for (_, loop), found in zip(loops, crossings, strict=True):
        corners = [(n, 0.0, point) for n, point in enumerate(loop)]
        path = np.array([point for _, _, point in sorted(corners + found, key=lambda one: one[:2])])
        yield np.stack([path, np.concatenate([path[1:], path[:1]])], axis=1)


class _Crossings(NamedTuple):
    """Where two loops cross."""

    first: npt.NDArray[np.int64]  # segment of the one loop
    along_first: Array  # and where on it, 0 to 1
    second: npt.NDArray[np.int64]  # the same of the other
    along_second: Array
    points: Array


def _crossings(a: Array, b: Array) -> _Crossings:
    rows = max(1, _MAX_PAIRS // len(b))
    along_a = np.concatenate([a[1:], a[:1]]) - a
    along_b = np.concatenate([b[1:], b[:1]]) - b
    found = []
    for start in range(0, len(a), rows):
        ours = slice(start, start + rows)
        apart = b[None] - a[ours, None]
        determinant = _cross(along_a[ours, None], along_b[None])
        with np.errstate(divide="ignore", invalid="ignore"):
            s, t = _cross(apart, along_b[None]) / determinant, _cross(apart, along_a[ours, None]) / determinant
        n, m = np.nonzero((s > 0) & (s < 1) & (t > 0) & (t < 1))
        points = a[ours][n] + s[n, m, None] * along_a[ours][n]
        found.append(_Crossings(n + start, s[n, m], m, t[n, m], points))
    return _Crossings(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _cross(a: Array, b: Array) -> Array:
    return np.asarray(a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0])


def _is_outside(points: Array, families: Sequence[Sequence[Array]]) -> Mask:
    """Which points lie in none of some families of loops, by the even-odd rule in each."""
    outside = np.ones(len(points), np.bool_)
    for family in families:
        outside &= np.sum([inside_loop(points, loop) for loop in family], axis=0) % 2 == 0
    return outside


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
