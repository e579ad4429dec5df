"""Regions of interest: shapes drawn over the maps, their pixels, and K² averaged over them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Shapes
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Connection, Connections, connect_all
from napari_gpubio.speckle.gui.layers import AXES, PANEL, REGIONS, LiveLayers, place_of
from napari_gpubio.speckle.gui.live import LiveProcess
from napari_gpubio.speckle.gui.plots import STACK, CourseBox
from napari_gpubio.speckle.gui.request import StackResult
from napari_gpubio.speckle.regions import region_curves

Array = npt.NDArray[Any]
NAME = "region"  # the column of the features that names a shape
_LINE, _LEAST_LINE = 0.003, 0.25  # width of a line: share of the image's width, and pixels
_UNKNOWN_WIDTH = 512  # pixels, of an image that is not there yet
_DELAY_MS = 150  # after the last change of a shape, in which the mouse may go on


class RegionListener(QObject):
    """Turns the shapes of a layer into masks, a moment after their last change.

    ``changed`` is emitted when there are other shapes, or another layer of shapes.
    """

    changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.layer: Any = None
        self._count = 0
        self._connections = Connections(self._pairs)
        self._delay = QTimer(self)
        self._delay.setSingleShot(True)
        self._delay.setInterval(_DELAY_MS)
        self._delay.timeout.connect(self._on_unchanged)

    def follow(self, layer: Any | None) -> None:
        """Follow another layer, or none."""
        self.layer = layer
        self._connections.attach()
        self._delay.start()

    def detach(self) -> None:
        """Disconnect from the layer."""
        self.follow(None)
        self._delay.stop()

    def _pairs(self) -> list[Connection]:
        return [] if self.layer is None else [(self.layer.events.data, self._on_change)]

    @property
    def colors(self) -> dict[str, str]:
        """Color of each region, by its name."""
        return {} if self.layer is None else {name: _color(name) for name in _names(self.layer)}

    def masks(self, image: Any, shape: tuple[int, int]) -> dict[str, npt.NDArray[np.bool_]]:
        """Return the pixels of each shape, by its name; shapes outside the image are left out.

        Parameters
        ----------
        image
            The layer whose pixels are meant, or None for the pixels of the shapes.
        shape
            Of its last two axes.
        """
        if self.layer is None or not len(self.layer.data):
            return {}
        outlines = [_in_pixels(self.layer, image, vertices) for vertices in self.layer.data]
        drawn = Shapes(outlines, shape_type=list(self.layer.shape_type))
        masks = zip(_names(self.layer), drawn.to_masks(mask_shape=shape), strict=True)
        return {name: mask for name, mask in masks if mask.any()}

    def _on_change(self, *_: Any) -> None:
        self._delay.start()

    def _on_unchanged(self) -> None:
        if self.layer is not None and len(self.layer.data):
            self._name_new()
        self.changed.emit()

    def _name_new(self) -> None:
        """Give shapes that have no name of their own one that was not used before, and its color."""
        layer, names, seen = self.layer, _names(self.layer), set()
        self._count = max([self._count, *(_number(name) for name in names)])
        for place, name in enumerate(names):
            if not name or name in seen:
                self._count += 1
                names[place] = f"region {self._count}"
            seen.add(names[place])
        if names == _names(layer):
            return
        with layer.events.data.blocker(self._on_change):
            layer.features = {NAME: names}
            layer.edge_color = [_color(name) for name in names]
            layer.text = {"string": "{" + NAME + "}", "size": 10, "color": theme.WHITE, "anchor": "upper_left"}


def add_regions(viewer: Any, place: dict[str, Any], width: int) -> Any:
    """Add a layer to draw regions in, ready for polygons; returns it.

    Parameters
    ----------
    viewer
        The napari viewer.
    place
        Scale, translation and units.
    width
        Of the image, pixels; lines are as wide as suits it.
    """
    layer = viewer.add_shapes(
        None, ndim=2, name="regions", edge_width=_line(width), face_color=theme.TRANSPARENT,
        edge_color=theme.REGIONS[0], features={NAME: np.empty(0, dtype=object)}, metadata={KEY: {PANEL: REGIONS}},
        axis_labels=AXES[1:], **place,
    )  # fmt: skip
    layer.mode = "add_polygon"
    return layer


def prepare_regions(viewer: Any, layer: Any, width: int) -> None:
    """Make an existing layer ready for more polygons: on top, visible, with lines that suit the image."""
    viewer.layers.move(viewer.layers.index(layer), len(viewer.layers))
    layer.visible = True
    layer.selected_data = set()  # else the selected shapes would get the new line
    layer.current_edge_width = _line(width)
    layer.mode = "add_polygon"


def _line(width: int) -> float:
    return max(_LINE * width, _LEAST_LINE)


def _names(layer: Any) -> list[str]:
    features = layer.features
    if NAME not in features:
        return [""] * len(layer.data)
    return [name if isinstance(name, str) else "" for name in features[NAME]]


def _number(name: str) -> int:
    end = name.removeprefix("region ")
    return int(end) if end.isdigit() else 0


def _color(name: str) -> str:
    return theme.REGIONS[(_number(name) - 1) % len(theme.REGIONS)]


def _in_pixels(layer: Any, image: Any, vertices: Array) -> Array:
    """Vertices of a shape, in pixels of an image; of the last two axes, as the shapes mean any frame."""
    flat = np.asarray(vertices)[:, -2:]
    if image is None:
        return flat
    scale, shift = (np.asarray(getattr(layer, name))[-2:] for name in ("scale", "translate"))
    own_scale, own_shift = (np.asarray(getattr(image, name))[-2:] for name in ("scale", "translate"))
    return (flat * scale + shift - own_shift) / own_scale


class RegionController(QObject):
    """Averages live maps over the regions, and fills the time course of a whole stack.

    Parameters
    ----------
    viewer
        The napari viewer.
    box
        Where regions are chosen and curves are drawn.
    layers, process
        Of the live maps.
    displayed
        Returns the layer that a new region is drawn over, or None.
    """

    def __init__(
        self,
        viewer: Any,
        box: CourseBox,
        layers: LiveLayers,
        process: LiveProcess,
        displayed: Callable[[], Any | None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.listener = RegionListener(self)
        self._viewer, self._box, self._layers, self._process, self._displayed = viewer, box, layers, process, displayed
        self._shape: tuple[int, int] | None = None  # of the live maps
        self._result: StackResult | None = None
        self._baseline_maps = 1
        connect_all((
            (box.shapes_box.currentIndexChanged, self.attach),
            (self.listener.changed, self._on_regions),
        ))  # fmt: skip

    def attach(self, *_: Any) -> None:
        """Follow the chosen shapes."""
        self.listener.follow(self._box.shapes_box.layer)

    def detach(self) -> None:
        """Disconnect from the shapes."""
        self.listener.detach()

    def start_drawing(self) -> None:
        """Let the user draw regions over the displayed map: in the chosen layer, else in a new one."""
        image = self._displayed()
        width = _UNKNOWN_WIDTH if image is None else int(image.data.shape[-1])
        layer = self._box.shapes_box.layer
        if layer is None:
            layer = add_regions(self._viewer, {} if image is None else place_of(image), width)
            self._box.shapes_box.choose(layer)
        else:
            prepare_regions(self._viewer, layer, width)
        self._viewer.layers.selection.active = layer

    def raise_regions(self) -> None:
        """Put the regions above a map that was added over them, or that lies elsewhere now."""
        layer, layers = self.listener.layer, self._viewer.layers
        if layer is not None and layer in layers:
            layers.move(layers.index(layer), len(layers))
        self._average_live()

    def start_live(self, shape: tuple[int, int] | None) -> None:
        """Average over the regions from the first live map (Y, X) on, whose shape may not be known yet."""
        self._shape = shape
        self._average_live()

    def set_live_shape(self, shape: tuple[int, int]) -> None:
        """Set the shape of live maps, once it is known."""
        if shape != self._shape:
            self.start_live(shape)

    def set_result(self, result: StackResult, baseline_maps: int) -> None:
        """Show the curves of a whole stack, relative to its first maps."""
        self._result, self._baseline_maps = result, baseline_maps
        self._fill_course()

    def _on_regions(self) -> None:
        self._box.colors = self.listener.colors
        self._average_live()
        self._fill_course()
        self._box.draw_curves()

    def _average_live(self) -> None:
        """Let the live loop average over the regions."""
        masks = {} if self._shape is None else self.listener.masks(self._layers.geometry, self._shape)
        self._process.set_regions(masks)

    def _fill_course(self) -> None:
        result = self._result
        layer = None if result is None else self._map_of(result)
        if result is None or layer is None:
            return
        height, width = result.maps.contrast.shape[-2:]
        masks = self.listener.masks(layer, (height, width))
        if not masks:
            return
        course = self._box.courses[STACK]
        events = course.events
        course.clear()
        curves, times_s = region_curves(result.maps, masks), result.times_s
        for number, time_s in enumerate(times_s):
            course.append(float(time_s), {curve.name: float(curve.k2[number]) for curve in curves})
        for event in events:
            course.mark(event.time_s, event.label)
        last = min(self._baseline_maps, len(course)) - 1
        course.set_baseline(float(times_s[0]), float(times_s[last]))
        self._box.draw_curves(STACK)

    def _map_of(self, result: StackResult) -> Any | None:
        """A layer with maps of the stack, for its place."""
        name = result.request.name
        return next((layer for layer in self._viewer.layers if carried(layer, "source") == name), None)
