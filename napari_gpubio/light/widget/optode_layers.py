"""The layers that show sources and detectors: markers with names, and lines for the arrow and the outlines."""

from typing import Any

import numpy as np
from napari.utils.colormaps.standardize_color import transform_color

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layers import KEY, carried
from napari_gpubio.core.space import apply_affine, slice_steps_mm
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.model import OUTSIDE
from napari_gpubio.light.source import Source
from napari_gpubio.light.surface import inward_normal, label_at
from napari_gpubio.light.widget.optode_marks import Beams, Marks
from napari_gpubio.light.widget.optodes import Optodes
from napari_gpubio.light.widget.strokes import Strokes, arrow, disc, footprint, in_slice, spread
from napari_gpubio.light.widget.tissue import Tissue

MARKERS, LINES = "source and detectors", "source beam"
SOURCE_COLOUR, OTHER_COLOUR, DETECTOR_COLOUR, SPREAD_COLOUR = "#ffd23f", "#8d8f98", "#35d0ff", "#ffd23f88"
# sizes as shares of the longest side of the volume
MARKER, SMALLEST, TAIL, SPREAD, WIDTH = 0.024, 0.015, 0.13, 0.1, 0.004
TISSUE_INDEX = 1.37  # for drawing a fibre's cone
_ON_TOP = "translucent_no_depth"  # what is inside the tissue must stay visible
_TEXT = {"string": "{name}", "size": 11, "color": "white", "anchor": "upper_left", "blending": _ON_TOP}


class OptodeLayers:
    """Draws sources and detectors.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self._strokes: list[tuple[Strokes, str]] = []  # in viewer axes (z, y, x), with their colours
        self._markers, self._sizes = np.empty((0, 3)), np.empty(0)
        self._names, self._colours = [""], [SOURCE_COLOUR]
        self._step, self._extent = np.ones(3), np.zeros((2, 3))
        self._width = self._reach = 0.0

    @property
    def reach(self) -> float:
        """How far from a slice, in world units, a marker is still drawn in it."""
        return self._reach

    def show(self, optodes: Optodes, source: Source | None, tissue: Tissue) -> None:
        """Draw what is placed; ``source`` is the one that shines, or None."""
        size, self._width = MARKER * tissue.extent_mm, WIDTH * tissue.extent_mm
        self._step = slice_steps_mm(tissue.affine, tissue.labels.shape)
        self._extent = np.sort(tissue.to_viewer(_ends(tissue)), axis=0)
        self._reach = max(size / 2, float(self._step.max()))
        self._strokes = [(tissue.to_viewer(s), c) for s, c in _strokes(optodes, source, tissue) if len(s)]
        self._markers = tissue.to_viewer(np.reshape(list(optodes), (-1, 3)))
        self._colours = [_colour(optodes, index) for index in range(len(self._markers))]
        smallest = SMALLEST * tissue.extent_mm
        widths = [size] * len(optodes.sources) + [max(2 * d.radius_mm, smallest) for d in optodes.detectors]
        self._sizes = np.array(widths)
        several = len(optodes.sources) > 1
        self._names = [source.name if several else "" for source in optodes.sources]
        self._names += [detector.name for detector in optodes.detectors]
        if len(self._markers):
            self._add_missing()
        self.follow_slice()

    def clear(self) -> None:
        """Draw nothing any more."""
        self._strokes, self._markers = [], np.empty((0, 3))
        for layer in (self._layer("markers"), self._layer("lines")):
            if layer is not None:
                self._viewer.layers.remove(layer.name)

    def follow_slice(self, *_: Any) -> None:
        """Draw everything as the slice on screen needs it: what is near it is laid flat into it."""
        lines, markers = self._layer("lines"), self._layer("markers")
        if self._viewer.dims.ndim < 3:  # the layers are being removed
            return
        strokes, positions, shown = self._in_slice()
        if lines is not None:
            self._show_lines(lines, strokes)
        if markers is not None:
            self._show_markers(markers, positions, shown)

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
            self._add(Marks(ndim=3, name=MARKERS, border_color="black", border_width=0.1, **_common("markers")))

    def _in_slice(self) -> tuple[list[tuple[Strokes, str]], Any, Any]:
        """Lines and markers laid flat into the slice on screen, and which markers are near it."""
        dims = self._viewer.dims
        strokes, markers, shown = self._strokes, self._markers.copy(), np.ones(len(self._markers), bool)
        for axis in [axis - (dims.ndim - 3) for axis in dims.not_displayed if axis >= dims.ndim - 3]:
            at = dims.point[dims.ndim - 3 + axis]
            strokes = [(in_slice(lines, axis, at, self._reach), colour) for lines, colour in strokes]
            shown &= np.abs(markers[:, axis] - at) <= self._reach
            markers[:, axis] = at
        return strokes, markers, shown

    def _show_lines(self, layer: Any, strokes: list[tuple[Strokes, str]]) -> None:
        lines = np.concatenate([np.empty((0, 2, 3)), *[part for part, _ in strokes]])
        colours = [colour for part, colour in strokes for _ in part]
        self._place(layer, np.stack([lines[:, 0], lines[:, 1] - lines[:, 0]], axis=1))
        layer.edge_width = self._width / float(self._step.mean())
        layer.edge_color = transform_color(colours) if colours else SOURCE_COLOUR

    def _show_markers(self, layer: Any, positions: Any, shown: Any) -> None:
        self._place(layer, positions)
        layer.features = {"name": np.array(self._names, dtype=object)}
        layer.text = _TEXT
        layer.face_color = self._colours or SOURCE_COLOUR
        layer.size = self._sizes / float(self._step.mean()) if len(positions) else 1
        layer.shown = shown

    def _place(self, layer: Any, data: Any) -> None:
        """Give a layer its data; one step of a slider stays one slice of the volume."""
        layer.volume_extent = self._extent / self._step
        layer.scale = self._step
        layer.data = data / self._step

    def _add(self, layer: Any) -> None:
        """Add a layer; the active layer stays active, so that the user's tools stay with it."""
        active = self._viewer.layers.selection.active
        layer.volume_extent, layer.scale = self._extent / self._step, self._step
        self._viewer.add_layer(layer)
        if active is not None and active in self._viewer.layers:
            self._viewer.layers.selection.active = active


def _common(part: str) -> dict[str, Any]:
    return {"blending": _ON_TOP, "metadata": {KEY: {"optodes": part}}}


def _ends(tissue: Tissue) -> Any:
    """Centres of the first and the last voxel, world mm, shape (2, 3)."""
    return apply_affine(tissue.affine, [(0, 0, 0), np.array(tissue.labels.shape) - 1])


def _strokes(optodes: Optodes, source: Source | None, tissue: Tissue) -> list[tuple[Strokes, str]]:
    """Lines of the source that shines and of the detectors, world mm, with their colours."""
    size = tissue.extent_mm
    drawn = [(disc(d, _normal(d, tissue)), DETECTOR_COLOUR) for d in optodes.detectors]
    if source is not None:
        outside = label_at(tissue.labels, tissue.affine, source.position_mm) == OUTSIDE
        drawn += [
            (spread(source, SPREAD * size, 1.0 if outside else TISSUE_INDEX), SPREAD_COLOUR),
            (footprint(source), SOURCE_COLOUR),
            (arrow(source, TAIL * size), SOURCE_COLOUR),
        ]
    return drawn


def _normal(detector: Detector, tissue: Tissue) -> Any:
    try:
        return inward_normal(tissue.labels, tissue.affine, detector.position_mm)
    except InvalidInput:  # tissue was painted away around it
        return np.array([0.0, 0.0, 1.0])


def _colour(optodes: Optodes, index: int) -> str:
    if index >= len(optodes.sources):
        return DETECTOR_COLOUR
    return SOURCE_COLOUR if index == optodes.active else OTHER_COLOUR
