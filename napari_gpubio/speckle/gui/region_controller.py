"""Ties regions to what is averaged over them: the live maps, and the maps of a whole stack."""

from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QObject

from napari_gpubio.core.napari_io import carried
from napari_gpubio.speckle.gui.course_box import STACK, CourseBox
from napari_gpubio.speckle.gui.live_layers import LiveLayers
from napari_gpubio.speckle.gui.live_process import LiveProcess
from napari_gpubio.speckle.gui.offline import Done
from napari_gpubio.speckle.gui.places import place_of
from napari_gpubio.speckle.gui.regions import RegionListener, add_regions, draw_more
from napari_gpubio.speckle.regions import region_curves


class RegionController(QObject):
    """Hands regions on when they are drawn, and fills the time course of a whole stack.

    Parameters
    ----------
    viewer
        The napari viewer.
    box
        Where regions are chosen and curves are drawn.
    layers, process
        Of the live maps.
    pictured
        Returns the layer that a new region is drawn over, or None.
    """

    def __init__(
        self,
        viewer: Any,
        box: CourseBox,
        layers: LiveLayers,
        process: LiveProcess,
        pictured: Callable[[], Any | None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.listener = RegionListener(self)
        self._viewer, self._box, self._layers, self._process, self._pictured = viewer, box, layers, process, pictured
        self._shape: tuple[int, int] | None = None  # of the live maps
        self._done: Done | None = None
        self._baseline_maps = 1
        box.shapes_box.currentIndexChanged.connect(lambda *_: self.listener.follow(box.shapes_box.layer))
        self.listener.changed.connect(self._on_regions)

    def attach(self) -> None:
        """Follow the shapes that are chosen."""
        self.listener.follow(self._box.shapes_box.layer)

    def detach(self) -> None:
        """Hear no more of any shape."""
        self.listener.detach()

    def draw(self) -> None:
        """Make ready to draw regions over the map that is shown: in the chosen layer, else in a new one."""
        image = self._pictured()
        width = 512 if image is None else int(image.data.shape[-1])
        layer = self._box.shapes_box.layer
        if layer is None:
            layer = add_regions(self._viewer, {} if image is None else place_of(image), width)
            self._box.shapes_box.choose(layer)
        else:
            draw_more(self._viewer, layer, width)
        self._viewer.layers.selection.active = layer

    def come_up(self) -> None:
        """Put the regions above a map that was added over them, or that lies elsewhere now."""
        layer, layers = self.listener.layer, self._viewer.layers
        if layer is not None and layer in layers:
            layers.move(layers.index(layer), len(layers))
        self._send()

    def begin_live(self, shape: tuple[int, int] | None) -> None:
        """Average over the regions from the first live map on, whose shape may not be known yet."""
        self._shape = shape
        self._send()

    def set_live_shape(self, shape: tuple[int, int]) -> None:
        """Say how large live maps are, once they are known."""
        if shape != self._shape:
            self._shape = shape
            self._send()

    def set_done(self, done: Done, baseline_maps: int) -> None:
        """Show the curves of a whole stack, relative to its first maps."""
        self._done, self._baseline_maps = done, baseline_maps
        self._fill_course()

    def _on_regions(self) -> None:
        self._box.colors = self.listener.colors
        self._send()
        self._fill_course()
        self._box.show_course()

    def _send(self) -> None:
        """Let the live loop average over the regions."""
        masks = {} if self._shape is None else self.listener.masks(self._layers.lies, self._shape)
        self._process.set_regions(masks)

    def _fill_course(self) -> None:
        done = self._done
        layer = None if done is None else self._map_of(done)
        if done is None or layer is None:
            return
        masks = self.listener.masks(layer, done.maps.contrast.shape[-2:])
        if not masks:
            return
        course = self._box.courses[STACK]
        events = course.events
        course.clear()
        curves, times_s = region_curves(done.maps, masks), done.times_s
        for number, time_s in enumerate(times_s):
            course.append(float(time_s), {curve.name: float(curve.k2[number]) for curve in curves})
        for event in events:
            course.mark(event.time_s, event.label)
        last = min(self._baseline_maps, len(course)) - 1
        course.set_baseline(float(times_s[0]), float(times_s[last]))
        self._box.show_course(STACK)

    def _map_of(self, done: Done) -> Any | None:
        """A layer with maps of the stack, for its place."""
        return next((layer for layer in self._viewer.layers if carried(layer, "source") == done.request.name), None)
