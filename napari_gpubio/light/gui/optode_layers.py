"""Layers that show sources and detectors: markers, arrows, and outlines of beams."""

from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Points, Vectors
from napari.utils.colormaps.standardize_color import transform_color

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import FOLLOWS, IN_MM, KEY, carried
from napari_gpubio.core.space import apply_affine, slice_steps_mm, world_to_viewer
from napari_gpubio.gui import theme
from napari_gpubio.gui.layers import set_marks
from napari_gpubio.light.gui.labels import Position, Tissue, vector
from napari_gpubio.light.gui.optodes import Optodes
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import OUTSIDE
from napari_gpubio.optics.sources import (
    Cylinder,
    Fiber,
    Isotropic,
    Linear,
    Opening,
    Rectangle,
    Ring,
    Round,
    Scattered,
    Source,
    frame_along,
)
from napari_gpubio.optics.surface import inward_normal, label_at


class _SpansVolume:
    """A layer whose extent is given instead of found in its data."""

    volume_extent: Any = np.zeros((2, 3))  # first and last voxel center in the layer's data coordinates

    @property
    def _extent_data(self) -> Any:
        return np.array(self.volume_extent)

    @property
    def _extent_data_augmented(self) -> Any:
        return self._extent_data


class Marks(_SpansVolume, Points):
    """Markers of sources and detectors."""

    _type_string = "points"  # a copy, or what is saved, is an ordinary layer


class Beams(_SpansVolume, Vectors):
    """Arrows and outlines of sources and detectors."""

    _type_string = "vectors"


Strokes = npt.NDArray[np.float64]
CIRCLE_SEGMENTS = 36
CONE_RAYS = 8
_HEAD, _SLIMNESS = 0.35, 0.3  # length of the arrow's head, of the arrow; and its half width, of its length
NOTHING: Strokes = np.empty((0, 2, 3))


def arrow(source: Source, tail_mm: float) -> Strokes:
    """The arrow that ends where light starts; it lies before the source, so that it hides no light.

    A source that emits in all directions has a star instead.
    """
    position, (u, v, w) = np.asarray(source.position_mm), source.frame()
    if isinstance(source, Isotropic):
        spokes = [*np.eye(3), *-np.eye(3)]
        return np.array([[position + 0.15 * tail_mm * s, position + 0.4 * tail_mm * s] for s in spokes])
    if isinstance(source, Linear):
        return NOTHING
    around = circle(position - _HEAD * tail_mm * w, u, v, _SLIMNESS * _HEAD * tail_mm)[:, 0]
    return np.array([[position - tail_mm * w, position], *[[corner, position] for corner in around]])


def footprint(source: Source) -> Strokes:
    """Outline of where light starts: the disk, rectangle, segment or cylinder; a point has none."""
    position, (u, v, w) = np.asarray(source.position_mm), source.frame()
    if isinstance(source, Round):
        edge = circle(position, u, v, source.outer_radius_mm)
        inner = source.inner_radius_mm if isinstance(source, Ring) else 0.0
        return np.concatenate([edge, circle(position, u, v, inner)]) if inner else edge
    if isinstance(source, Rectangle):
        right, up = u * source.width_mm / 2, v * source.across_mm / 2
        return closed(position + np.array([-right - up, right - up, right + up, up - right]))
    if not isinstance(source, Linear):
        return NOTHING
    half = w * source.length_mm / 2
    if isinstance(source, Cylinder):
        sides = [source.radius_mm * side for side in (u, -u, v, -v)]
        ends = [circle(position + end, u, v, source.radius_mm) for end in (-half, half)]
        return np.concatenate([*ends, [[position - half + side, position + half + side] for side in sides]])
    return np.array([[position - half, position + half]])


def spread(source: Source, length_mm: float, n: float) -> Strokes:
    """Rays along the edge of the light that a cone or a fiber gives; ``n`` is the index of what is before it."""
    if isinstance(source, Opening):
        angle, radius = np.deg2rad(source.half_angle_deg), 0.0
    elif isinstance(source, Scattered):
        angle, radius = np.deg2rad(source.angle_sd_deg), 0.0
    elif isinstance(source, Fiber):
        angle, radius = np.arcsin(min(1.0, source.numerical_aperture / n)), source.radius_mm
    else:
        return NOTHING
    position, (u, v, w) = np.asarray(source.position_mm), source.frame()
    turns = 2 * np.pi * np.arange(CONE_RAYS) / CONE_RAYS
    outwards = np.cos(turns)[:, None] * u + np.sin(turns)[:, None] * v
    starts = position + radius * outwards
    return np.stack([starts, starts + length_mm * (np.cos(angle) * w + np.sin(angle) * outwards)], axis=1)


def disc(detector: Detector, normal: Position) -> Strokes:
    """Outline of a detector that lies on a surface with this normal."""
    u, v, _ = frame_along(vector(normal))
    return circle(np.asarray(detector.position_mm), u, v, detector.radius_mm)


def circle(center: Position, u: Position, v: Position, radius: float) -> Strokes:
    """A circle in the plane of two unit vectors."""
    turns = 2 * np.pi * np.arange(CIRCLE_SEGMENTS) / CIRCLE_SEGMENTS
    return closed(center + radius * (np.cos(turns)[:, None] * u + np.sin(turns)[:, None] * v))


def closed(corners: Position) -> Strokes:
    """A polygon, shape (N, 3), as segments."""
    return np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)


def in_slice(strokes: Strokes, axis: int, position: float, reach: float) -> Strokes:
    """Strokes (z, y, x) laid flat into a slice across an axis, or none if all are farther from it than ``reach``."""
    if not len(strokes):
        return strokes
    along = strokes[..., axis]
    if along.min() > position + reach or along.max() < position - reach:
        return strokes[:0]
    flat = strokes.copy()
    flat[..., axis] = position
    return flat


MARKERS, LINES = "source and detectors", "source beam"
SOURCE_COLOR, OTHER_COLOR, DETECTOR_COLOR, SPREAD_COLOR = theme.SOURCE, theme.MUTED, theme.DETECTOR, theme.SOURCE + "88"
# sizes as shares of the longest side of the volume
MARKER, SMALLEST, TAIL, SPREAD, WIDTH = 0.024, 0.015, 0.13, 0.1, 0.004
RIM = 0.16  # of a ring, as a share of its diameter
TISSUE_INDEX = 1.37  # for drawing a fiber's cone
_ON_TOP = "translucent_no_depth"  # what is inside the tissue must stay visible
_TEXT = {"string": "{name}", "size": 11, "color": "white", "anchor": "upper_left", "blending": _ON_TOP}


class OptodeLayers:
    """Draws sources and detectors."""

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self._strokes: list[tuple[Strokes, str]] = []  # in viewer axes (z, y, x), with their colors
        self._markers, self._sizes = np.empty((0, 3)), np.empty(0)
        self._names, self._colors = [""], [SOURCE_COLOR]
        self._step, self._extent = np.ones(3), np.zeros((2, 3))
        self._width = 0.0
        self.reach = 0.0  # how far from a slice, in world units, a marker is still drawn in it
        self._looks: tuple[Any, ...] | None = None  # as they were given last, with the layers
        self._drawn: tuple[Any, ...] | None = None  # as it was last

    def show_optodes(self, optodes: Optodes, source: Source | None, tissue: Tissue) -> None:
        """Draw what is placed; ``source`` is the active one, or None."""
        size, self._width = MARKER * tissue.extent_mm, WIDTH * tissue.extent_mm
        self._step = slice_steps_mm(tissue.affine)
        corners = np.array([(0, 0, 0), np.array(tissue.labels.shape) - 1])
        self._extent = np.sort(world_to_viewer(apply_affine(tissue.affine, corners)), axis=0)
        self.reach = max(size / 2, float(self._step.max()))
        self._strokes = [(world_to_viewer(s), c) for s, c in _strokes(optodes, source, tissue) if len(s)]
        self._markers = world_to_viewer(np.reshape(list(optodes), (-1, 3)))
        self._colors = [_color(optodes, index) for index in range(len(self._markers))]
        smallest = SMALLEST * tissue.extent_mm
        widths = [size] * len(optodes.sources) + [max(2 * d.radius_mm, smallest) for d in optodes.detectors]
        self._sizes = np.array(widths)
        several = len(optodes.sources) > 1
        self._names = [source.name if several else "" for source in optodes.sources]
        self._names += [detector.name for detector in optodes.detectors]
        if len(self._markers) or self._layer("markers") is not None:
            self._add_missing()
            self._dress()
        self._drawn = None
        self.follow_slice()

    def clear(self) -> None:
        """Draw nothing any more."""
        self._looks = None
        self._strokes, self._markers = [], np.empty((0, 3))
        for layer in (self._layer("markers"), self._layer("lines")):
            if layer is not None:
                self._viewer.layers.remove(layer.name)

    def follow_slice(self, *_: Any) -> None:
        """Draw everything as the slice on screen needs it: what is near it is laid flat into it."""
        lines, markers = self._layer("lines"), self._layer("markers")
        if self._viewer.dims.ndim < 3 or lines is None or markers is None:
            return  # they are being removed
        strokes, positions, shown = self._in_slice()
        segments = np.concatenate([np.empty((0, 2, 3)), *[part for part, _ in strokes]])
        drawn = (segments, positions, shown)
        if self._drawn is not None and all(map(np.array_equal, drawn, self._drawn)):
            return  # most steps of a slider go past slices that show none of it
        self._drawn = drawn
        vectors = np.stack([segments[:, 0], segments[:, 1] - segments[:, 0]], axis=1)
        set_marks(lines, vectors / self._step)
        if len(segments):
            lines.edge_color = transform_color([color for part, color in strokes for _ in part])
        set_marks(markers, positions / self._step)
        markers.shown = shown

    def bring_to_front(self) -> None:
        """Put the lines and the markers above all other layers."""
        layers = self._viewer.layers
        for layer in (self._layer("lines"), self._layer("markers")):
            if layer is not None:
                layers.move(layers.index(layer.name), len(layers))

    # -- the inside -----------------------------------------------------------------------------------------------

    def _layer(self, part: str) -> Any | None:
        return next((layer for layer in self._viewer.layers if carried(layer, "optodes") == part), None)

    def _add_missing(self) -> None:
        if self._layer("lines") is None:
            self._add(Beams(ndim=3, name=LINES, vector_style="line", **_common("lines")))
        if self._layer("markers") is None:
            self._add(Marks(ndim=3, name=MARKERS, border_width=RIM, face_color="transparent", **_common("markers")))

    def _dress(self) -> None:
        """Give the layers all that does not depend on the slice."""
        lines: Any = self._layer("lines")
        markers: Any = self._layer("markers")
        for layer in (lines, markers):
            layer.volume_extent = self._extent / self._step
            if not np.array_equal(layer.scale, self._step):
                layer.scale = self._step
        mean = float(self._step.mean())
        looks = lines, markers, self._width, mean, self._names, self._colors, self._sizes.tolist()
        if self._looks == looks:
            return  # napari cuts the layer again for each of these
        self._looks = looks
        lines.edge_width = self._width / mean
        set_marks(markers, self._markers / self._step)
        markers.features = {"name": np.array(self._names, dtype=object)}
        markers.text = _TEXT
        if len(self._markers):
            markers.border_color, markers.size = self._colors, self._sizes / mean
            markers.face_color = "transparent"  # what is marked is seen in the ring

    def _in_slice(self) -> tuple[list[tuple[Strokes, str]], Any, Any]:
        """Lines and markers laid flat into the slice on screen, and which markers are near it."""
        dims = self._viewer.dims
        strokes, markers, shown = self._strokes, self._markers.copy(), np.ones(len(self._markers), bool)
        for axis in [axis - (dims.ndim - 3) for axis in dims.not_displayed if axis >= dims.ndim - 3]:
            at = dims.point[dims.ndim - 3 + axis]
            strokes = [(in_slice(lines, axis, at, self.reach), color) for lines, color in strokes]
            near = np.abs(markers[:, axis] - at) <= self.reach
            markers[near, axis] = at
            shown &= near
        return strokes, markers, shown

    def _add(self, layer: Any) -> None:
        """Add a layer; the active layer stays active, so that the user's tools stay with it."""
        active = self._viewer.layers.selection.active
        layer.volume_extent, layer.scale = self._extent / self._step, self._step
        self._viewer.add_layer(layer)
        if active is not None and active in self._viewer.layers:
            self._viewer.layers.selection.active = active


def _common(part: str) -> dict[str, Any]:
    return {"blending": _ON_TOP, "metadata": {KEY: {"optodes": part, FOLLOWS: True}}, **IN_MM}


def _strokes(optodes: Optodes, source: Source | None, tissue: Tissue) -> list[tuple[Strokes, str]]:
    """Lines of the active source and of the detectors, world mm, with their colors."""
    size = tissue.extent_mm
    drawn = [(disc(d, _normal(d, tissue)), DETECTOR_COLOR) for d in optodes.detectors]
    if source is not None:
        outside = label_at(tissue.labels, tissue.affine, source.position_mm) == OUTSIDE
        drawn += [
            (spread(source, SPREAD * size, 1.0 if outside else TISSUE_INDEX), SPREAD_COLOR),
            (footprint(source), SOURCE_COLOR),
            (arrow(source, TAIL * size), SOURCE_COLOR),
        ]
    return drawn


def _normal(detector: Detector, tissue: Tissue) -> Any:
    try:
        return inward_normal(tissue.labels, tissue.affine, detector.position_mm)
    except InvalidInput:  # tissue was painted away around it
        return np.array([0.0, 0.0, 1.0])


def _color(optodes: Optodes, index: int) -> str:
    if index >= len(optodes.sources):
        return DETECTOR_COLOR
    return SOURCE_COLOR if index == optodes.active else OTHER_COLOR
