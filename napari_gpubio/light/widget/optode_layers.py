"""The layers that show sources and detectors: markers with names, and lines for the arrow and the outlines."""

from collections.abc import Callable
from typing import Any

import numpy as np
from napari.utils.colormaps.standardize_color import transform_color

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layers import KEY, carried
from napari_gpubio.core.space import slice_steps_mm
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.source import Source
from napari_gpubio.light.surface import inward_normal
from napari_gpubio.light.widget.optodes import Optodes
from napari_gpubio.light.widget.strokes import Strokes, arrow, disc, footprint, in_slice, spread
from napari_gpubio.light.widget.tissue import Tissue

MARKERS, LINES = "source and detectors", "source beam"
SOURCE_COLOUR, OTHER_COLOUR, DETECTOR_COLOUR, SPREAD_COLOUR = "#ffd23f", "#8d8f98", "#35d0ff", "#ffd23f88"
# sizes as shares of the longest side of the volume
MARKER, TAIL, SPREAD, WIDTH = 0.024, 0.13, 0.1, 0.004
TISSUE_INDEX = 1.37
_ON_TOP = "translucent_no_depth"  # what is inside the tissue must stay visible


class OptodeLayers:
    """Draws sources and detectors.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self._strokes: list[tuple[Strokes, str]] = []  # in viewer axes, with their colours
        self._markers, self._names, self._colours = np.empty((0, 3)), [""], [SOURCE_COLOUR]
        self._step = np.ones(3)
        self._drawing = False
        self._size = self._width = self._reach = 0.0

    @property
    def reach(self) -> float:
        """How far from a slice, in world units, a marker is still drawn in it."""
        return self._reach

    def show(self, optodes: Optodes, source: Source | None, tissue: Tissue) -> None:
        """Draw what is placed; ``source`` is the one that shines, or None."""
        self._size, self._width = MARKER * tissue.extent_mm, WIDTH * tissue.extent_mm
        self._step = slice_steps_mm(tissue.affine, tissue.labels.shape)
        self._reach = max(self._size / 2, float(self._step.max()))
        self._strokes = [(tissue.to_viewer(s), c) for s, c in _strokes(optodes, source, tissue) if len(s)]
        self._markers = tissue.to_viewer(np.reshape(list(optodes), (-1, 3)))
        self._colours = [_colour(optodes, index) for index in range(len(self._markers))]
        several = len(optodes.sources) > 1
        self._names = [source.name if several else "" for source in optodes.sources]
        self._names += [detector.name for detector in optodes.detectors]
        self.follow_slice()

    def clear(self) -> None:
        """Draw nothing any more."""
        self._strokes, self._markers = [], np.empty((0, 3))
        for layer in (self._layer("markers"), self._layer("lines")):
            if layer is not None:
                self._viewer.layers.remove(layer.name)

    def follow_slice(self, *_: Any) -> None:
        """Draw everything as the slice on screen needs it: what is near it is laid flat into it."""
        if self._drawing or not (len(self._markers) or self._layer("markers")):
            return
        self._drawing = True  # a new layer moves the sliders, which calls this again
        try:
            self._draw()
        finally:
            self._drawing = False

    def _draw(self) -> None:
        dims = self._viewer.dims
        strokes, markers, shown = self._strokes, self._markers.copy(), np.ones(len(self._markers), bool)
        for axis in [axis - (dims.ndim - 3) for axis in dims.not_displayed if axis >= dims.ndim - 3]:
            at = dims.point[dims.ndim - 3 + axis]
            strokes = [(in_slice(lines, axis, at, self._reach), colour) for lines, colour in strokes]
            shown &= np.abs(markers[:, axis] - at) <= self._reach
            markers[:, axis] = at
        self._show_lines(strokes)
        self._show_markers(markers, shown)

    def bring_to_front(self) -> None:
        """Put the lines and the markers above all other layers."""
        layers = self._viewer.layers
        for layer in (self._layer("lines"), self._layer("markers")):
            if layer is not None:
                layers.move(layers.index(layer.name), len(layers))

    # -- the inside -----------------------------------------------------------------------------------------------

    def _layer(self, part: str) -> Any | None:
        return next((layer for layer in self._viewer.layers if carried(layer, "optodes") == part), None)

    def _show_markers(self, positions: Any, shown: Any) -> None:
        layer = self._layer("markers")
        names = {"name": np.array(self._names, dtype=object)}
        if layer is None:
            layer = self._add(
                lambda: self._viewer.add_points(
                    positions / self._step,
                    name=MARKERS,
                    scale=self._step,
                    border_color="black",
                    border_width=0.1,
                    blending=_ON_TOP,
                    features=names,
                    text={"string": "{name}", "size": 11, "color": "white", "anchor": "upper_left", "blending": _ON_TOP},
                    metadata={KEY: {"optodes": "markers"}},
                )
            )
        layer.scale = self._step
        layer.data = positions / self._step
        layer.features = names
        layer.face_color = self._colours or SOURCE_COLOUR
        layer.size = self._size / float(self._step.mean())
        layer.shown = shown

    def _show_lines(self, shown: list[tuple[Strokes, str]]) -> None:
        layer = self._layer("lines")
        strokes = np.concatenate([np.empty((0, 2, 3)), *[strokes for strokes, _ in shown]])
        colours = [colour for strokes, colour in shown for _ in strokes]
        vectors = np.stack([strokes[:, 0], strokes[:, 1] - strokes[:, 0]], axis=1) / self._step
        if layer is None:
            layer = self._add(
                lambda: self._viewer.add_vectors(
                    vectors,
                    name=LINES,
                    scale=self._step,
                    vector_style="line",
                    blending=_ON_TOP,
                    metadata={KEY: {"optodes": "lines"}},
                )
            )
        layer.scale = self._step
        layer.data = vectors
        layer.edge_width = self._width / float(self._step.mean())
        layer.edge_color = transform_color(colours) if colours else SOURCE_COLOUR

    def _add(self, make: Callable[[], Any]) -> Any:
        """Add a layer; the active layer stays active, so that the user's tools stay with it."""
        active = self._viewer.layers.selection.active
        layer = make()
        if active is not None and active in self._viewer.layers:
            self._viewer.layers.selection.active = active
        return layer


def _strokes(optodes: Optodes, source: Source | None, tissue: Tissue) -> list[tuple[Strokes, str]]:
    """Lines of the source that shines and of the detectors, world mm, with their colours."""
    size = tissue.extent_mm
    drawn = [(disc(d, _normal(d, tissue)), DETECTOR_COLOUR) for d in optodes.detectors]
    if source is not None:
        drawn += [
            (spread(source, SPREAD * size, TISSUE_INDEX), SPREAD_COLOUR),
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
