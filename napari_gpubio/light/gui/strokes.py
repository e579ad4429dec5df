"""Sources and detectors as line segments: arrow, footprint, cone of light. World mm, shape (N, 2, 3): start and end."""

import numpy as np
import numpy.typing as npt

from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.gui.tissue import Position
from napari_gpubio.light.source import Source

Strokes = npt.NDArray[np.float64]
ROUND = 36  # segments of a circle
RAYS = 8  # that show a cone
_HEAD, _SLIMNESS = 0.35, 0.3  # length of the arrow's head, of the arrow; and its half width, of its length
NOTHING: Strokes = np.empty((0, 2, 3))


def arrow(source: Source, tail_mm: float) -> Strokes:
    """The arrow that ends where light starts; it lies before the source, so that it hides no light.

    A source that shines to every side has no arrow but a star.
    """
    position, (u, v, w) = np.asarray(source.position_mm), source.frame()
    if source.kind == "isotropic":
        spokes = [*np.eye(3), *-np.eye(3)]
        return np.array([[position + 0.15 * tail_mm * s, position + 0.4 * tail_mm * s] for s in spokes])
    if source.kind in ("line", "cylinder"):
        return NOTHING
    around = circle(position - _HEAD * tail_mm * w, u, v, _SLIMNESS * _HEAD * tail_mm)[:, 0]
    return np.array([[position - tail_mm * w, position], *[[corner, position] for corner in around]])


def footprint(source: Source) -> Strokes:
    """Outline of where light starts: the disk, rectangle, segment or cylinder; a point has none."""
    position, (u, v, w) = np.asarray(source.position_mm), source.frame()
    if source.kind in ("fiber", "gaussian", "disk", "lambertian"):
        return circle(position, u, v, source.radius_mm)
    if source.kind in ("planar", "pattern"):
        right, up = u * source.width_mm / 2, v * source.height_mm / 2
        return closed(position + np.array([-right - up, right - up, right + up, up - right]))
    half = w * source.length_mm / 2
    if source.kind == "line":
        return np.array([[position - half, position + half]])
    if source.kind == "cylinder":
        sides = [source.radius_mm * side for side in (u, -u, v, -v)]
        ends = [circle(position + end, u, v, source.radius_mm) for end in (-half, half)]
        return np.concatenate([*ends, [[position - half + side, position + half + side] for side in sides]])
    return NOTHING


def spread(source: Source, length_mm: float, n: float) -> Strokes:
    """Rays along the edge of the light that a cone or a fiber gives; ``n`` is the index of what is before it."""
    if source.kind == "cone":
        angle, radius = np.deg2rad(source.half_angle_deg), 0.0
    elif source.kind == "fiber":
        angle, radius = np.arcsin(min(1.0, source.numerical_aperture / n)), source.radius_mm
    else:
        return NOTHING
    position, (u, v, w) = np.asarray(source.position_mm), source.frame()
    turns = 2 * np.pi * np.arange(RAYS) / RAYS
    outwards = np.cos(turns)[:, None] * u + np.sin(turns)[:, None] * v
    starts = position + radius * outwards
    return np.stack([starts, starts + length_mm * (np.cos(angle) * w + np.sin(angle) * outwards)], axis=1)


def disc(detector: Detector, normal: Position) -> Strokes:
    """Outline of a detector that lies on a surface with this normal."""
    u, v, _ = Source(direction=tuple(normal)).frame()
    return circle(np.asarray(detector.position_mm), u, v, detector.radius_mm)


def circle(center: Position, u: Position, v: Position, radius: float) -> Strokes:
    """A circle in the plane of two unit vectors."""
    turns = 2 * np.pi * np.arange(ROUND) / ROUND
    return closed(center + radius * (np.cos(turns)[:, None] * u + np.sin(turns)[:, None] * v))


def closed(corners: Position) -> Strokes:
    """A polygon, shape (N, 3), as segments."""
    return np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)


def in_slice(strokes: Strokes, axis: int, position: float, reach: float) -> Strokes:
    """Strokes laid flat into a slice across an axis, or none if no part of them comes near it.

    Parameters
    ----------
    strokes
        In viewer axes (z, y, x).
    axis, position
        Which axis the slice cuts, and where.
    reach
        How far from the slice strokes may be.
    """
    if not len(strokes):
        return strokes
    along = strokes[..., axis]
    if along.min() > position + reach or along.max() < position - reach:
        return strokes[:0]
    flat = strokes.copy()
    flat[..., axis] = position
    return flat
