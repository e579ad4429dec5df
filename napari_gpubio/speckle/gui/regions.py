"""Regions of interest: shapes drawn over the maps, their pixels, and K² averaged over them."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Shapes
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations.records import Output
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import single_shot
from napari_gpubio.gui.layers import LayerListener
from napari_gpubio.speckle.gui.live import LiveRecipe
from napari_gpubio.speckle.gui.panel_layers import AXES, PANEL, REGIONS, frames_of, place_of
from napari_gpubio.speckle.gui.plots import STACK
from napari_gpubio.speckle.gui.pulse import NO_COURSE, BeatRows, Measure
from napari_gpubio.speckle.gui.run import StackResult
from napari_gpubio.speckle.live import TimeCourse
from napari_gpubio.speckle.opening import HeldRegions
from napari_gpubio.speckle.pulsatility import RegionPulsatility, flow_pulsatility, region_pulsatility
from napari_gpubio.speckle.regions import RegionCurve, flow_of, region_curves
from napari_gpubio.speckle.settings import ContrastSettings, FlowIndex, InverseCorrelationTime, TimedIndex

Array = npt.NDArray[Any]
NAME = "region"  # the column of the features that names a shape
_LINE, _MIN_LINE = 0.003, 0.25  # width of a line: share of the image's width, and pixels
STACK_RATE = "Of {!r}, at {:g} frames/s: the rate of the source, above. Another true rate scales the beat rates."
LIVE_RATE = "Of the live time course, at the times of its frames."
_DELAY_MS = 150  # after the last change of a shape, in which the mouse may go on


class RegionListener(QObject):
    """Turns the shapes of a layer into masks.

    ``changed`` is emitted when there are other shapes or another layer, a moment after the last change.
    """

    changed = Signal()

    def __init__(self, viewer: Any, parent: QObject) -> None:
        super().__init__(parent)
        self.layer: Any = None
        self._count = 0
        self._delay = single_shot(_DELAY_MS, self._on_unchanged, self)
        self._listener = LayerListener(viewer, lambda layer: layer == self.layer, data_changed=self._on_change)

    def follow(self, layer: Any | None) -> None:
        """Follow another layer, or none."""
        self.layer = layer
        self._listener.attach()
        self._delay.start()

    def detach(self) -> None:
        """Stop following."""
        self.layer = None
        self._listener.detach()
        self._delay.stop()

    @property
    def colors(self) -> dict[str, str]:
        """Color of each region, by its name."""
        return {} if self.layer is None else {name: _color(name) for name in _names(self.layer)}

    def masks(self, image: Any, shape: tuple[int, int]) -> dict[str, npt.NDArray[np.bool_]]:
        """Return the pixels of each shape, by its name; shapes outside the image are left out.

        The pixels are those of a layer or of what else has its scale and translation; ``shape`` is that of its last two
        axes.
        """
        if self.layer is None or not len(self.layer.data):
            return {}
        masks = zip(_names(self.layer), _shape_masks(self.layer, image, shape), strict=True)
        return {name: mask for name, mask in masks if mask.any()}

    def _on_change(self, *_: Any) -> None:
        self._delay.start()

    def _on_unchanged(self) -> None:
        if self.layer is not None and len(self.layer.data):
            self._name_new()
            self._delay.stop()  # names and colors change no region
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
        layer.features = {NAME: names}
        layer.edge_color = [_color(name) for name in names]
        layer.text = {"string": "{" + NAME + "}", "size": 10, "color": theme.WHITE, "anchor": "upper_left"}


def shapes_mask(layer: Any, image: Any, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return the pixels of an image that lie in any shape of a layer."""
    return np.asarray(_shape_masks(layer, image, shape).any(axis=0)) if len(layer.data) else np.zeros(shape, bool)


def layer_of_region(viewer: Any, wanted: Output[Any], image: Any | None) -> Any | None:
    """Return the Shapes layer of a viewer that marks a part of an image which no file holds, if there is one."""
    if image is None:
        return None
    rows, columns = frames_of(image).shape[-2:]
    shapes = (one for one in viewer.layers if isinstance(one, Shapes))
    marks = ((one, {one.name: shapes_mask(one, image, (rows, columns))}) for one in shapes)
    return next((one for one, mask in marks if HeldRegions.of(mask).output() == wanted), None)


def _shape_masks(layer: Any, image: Any, shape: tuple[int, int]) -> npt.NDArray[np.bool_]:
    """Return the pixels of each shape, (shapes, Y, X)."""
    outlines = [_in_pixels(layer, image, vertices) for vertices in layer.data]
    return np.asarray(Shapes(outlines, shape_type=list(layer.shape_type)).to_masks(mask_shape=shape))


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
    """Return the vertices of a shape in pixels of an image, along the last two axes: shapes mean any frame."""
    scale, shift = (np.asarray(getattr(layer, name))[-2:] for name in ("scale", "translate"))
    own_scale, own_shift = (np.asarray(getattr(image, name))[-2:] for name in ("scale", "translate"))
    return np.asarray((np.asarray(vertices)[:, -2:] * scale + shift - own_shift) / own_scale)


class RegionController(QObject):
    """Lets the user draw regions, averages live maps over them, and fills the time course of a whole stack."""

    def __init__(self, panel: Any) -> None:
        super().__init__(panel)
        self.listener = RegionListener(panel.viewer, self)
        self._panel, self._box, self._viewer = panel, panel.course_box, panel.viewer
        self._shape: tuple[int, int] | None = None  # of the live maps
        self._result: StackResult | None = None
        self._curves: tuple[RegionCurve, ...] = ()  # of the result
        self._box.shapes_box.currentIndexChanged.connect(self.attach)
        self.listener.changed.connect(self._on_regions)

    def attach(self, *_: Any) -> None:
        """Follow the chosen shapes."""
        self.listener.follow(self._box.shapes_box.layer)

    def detach(self) -> None:
        """Stop following."""
        self.listener.detach()

    def start_drawing(self) -> None:
        """Let the user draw regions over the displayed map: in the chosen layer, else in a new one."""
        image, layer = self._panel.displayed_layer(), self._box.shapes_box.layer
        if image is None:
            self._panel.show_error("there is no picture to draw on; open frames, or start live imaging")
            return
        line = max(_LINE * int(image.data.shape[-1]), _MIN_LINE)
        if layer is None:
            layer = self._viewer.add_shapes(
                None, ndim=2, name="regions", edge_width=line, face_color=theme.TRANSPARENT,
                edge_color=theme.REGIONS[0], features={NAME: np.empty(0, dtype=object)},
                metadata={KEY: {PANEL: REGIONS}}, axis_labels=AXES[1:], **place_of(image),
            )  # fmt: skip
            self._box.shapes_box.choose(layer)
        else:
            self._raise(layer)
            layer.visible = True
            layer.selected_data = set()  # else the selected shapes would get the new line
            layer.current_edge_width = line
        layer.mode = "add_polygon"
        self._viewer.layers.selection.active = layer
        self._panel.show_status("click around a region; a double click, or Enter, ends it")

    def raise_regions(self) -> None:
        """Put the regions above a map that was added over them, or that lies elsewhere now."""
        layer = self.listener.layer
        if layer is not None and layer in self._viewer.layers:
            self._raise(layer)
        self._average_live()

    def start_live(self, shape: tuple[int, int] | None) -> None:
        """Average over the regions from the first live map (Y, X) on, whose shape may not be known yet."""
        self._shape = shape
        self._average_live()

    def set_live_shape(self, shape: tuple[int, int]) -> None:
        """Set the shape of live maps, once it is known."""
        if shape != self._shape:
            self.start_live(shape)

    def set_result(self, result: StackResult | None) -> None:
        """Show the curves of a whole stack, relative to its first maps, or none."""
        self._result = result
        if result is None:
            self._curves = ()
            self._box.courses[STACK].clear()
            self._box.draw_curves(STACK)
        self._fill_course()

    def _raise(self, layer: Any) -> None:
        layers = self._viewer.layers
        layers.move(layers.index(layer), len(layers))

    def _on_regions(self) -> None:
        self._box.colors = self.listener.colors
        self._average_live()
        self._fill_course()
        self._box.draw_curves()

    def _average_live(self) -> None:
        """Let the live loop average over the regions."""
        masks = {} if self._shape is None else self.listener.masks(self._panel.layers.geometry, self._shape)
        self._panel.runner.process.set_regions(masks)

    def _fill_course(self) -> None:
        """Fill the time course of the whole stack; its events stay."""
        if (result := self._result) is None:
            return
        if not (masks := self.masks_of_result()):
            self._curves = ()
            return
        course = self._box.courses[STACK]
        events = course.events
        course.clear()
        maps = dataclasses.replace(result.maps, index=None)  # K² as `RegionCurves` has it, to the last bit
        curves, times_s = region_curves(maps, masks, flow=FlowIndex(exposure_ms=result.run.exposure_ms)), result.times_s
        self._curves = curves
        for number, time_s in enumerate(times_s):
            course.append(float(time_s), {curve.name: float(curve.k2[number]) for curve in curves})
        for event in events:
            course.mark(event.time_s, event.label)
        last = min(result.run.baseline_maps, len(course)) - 1
        course.set_baseline(float(times_s[0]), float(times_s[last]))
        self._box.draw_curves(STACK)
        if self._panel.pulse_box.pulses:
            self.measure_pulse()  # what is shown would be of other curves

    def masks_of_result(self) -> dict[str, npt.NDArray[np.bool_]]:
        """Return the pixels of the regions in the maps of a whole stack."""
        if (result := self._result) is None:
            return {}
        height, width = result.maps.signed.shape[-2:]
        scale, translate = (result.run.place[name][-2:] for name in ("scale", "translate"))
        return self.listener.masks(SimpleNamespace(scale=scale, translate=translate), (height, width))

    # -- the beat -------------------------------------------------------------------------------------------------

    def measure_pulse(self) -> None:
        """Measure the beat of flow in the regions whose curves are shown."""
        box, result = self._panel.pulse_box, self._result
        if self._box.course is self._box.courses[STACK]:
            if not self._curves or result is None:
                self._panel.show_error(NO_COURSE)
                return
            box.measure(
                _stack_measure(self._curves, result), STACK_RATE.format(result.run.name, result.run.rate_hz),
                self.listener.colors,
            )  # fmt: skip
            return
        if not self._box.course.regions:
            self._panel.show_error(NO_COURSE)
            return
        measure = _live_measure(self._box.course, self._panel.runner.process.recipe)
        box.measure(measure, LIVE_RATE, self.listener.colors)


def flow_index(kind: str, exposure_ms: float, settings: ContrastSettings) -> TimedIndex:
    """What flow is computed by, of its name, with the β of maps if they have one."""
    if kind == "sfi":
        return FlowIndex(exposure_ms=exposure_ms)
    beta = settings.index.beta if isinstance(settings.index, InverseCorrelationTime) else 1.0
    return InverseCorrelationTime(exposure_ms=exposure_ms, beta=beta)


def _stack_measure(curves: tuple[RegionCurve, ...], result: StackResult) -> Measure:
    def measure(chosen: BeatRows) -> list[RegionPulsatility]:
        index = flow_index(chosen.flow, result.run.exposure_ms, result.maps.settings)
        each = (dataclasses.replace(curve, index=index) for curve in curves)
        return [region_pulsatility(curve, result.run.rate_hz, chosen) for curve in each]

    return measure


def _live_measure(course: TimeCourse, recipe: LiveRecipe) -> Measure:
    """Return what measures a live time course as it is now: every region in the samples in which it was measured."""
    times = course.times_s
    samples = {name: course.contrast_squared(name)[: len(times)] for name in course.regions}
    later = np.diff(times, prepend=-np.inf) > 0.0

    def measure(chosen: BeatRows) -> list[RegionPulsatility]:
        pulses, index = [], flow_index(chosen.flow, recipe.exposure_ms, recipe.settings)
        for name, k2 in samples.items():
            used = later & np.isfinite(k2)
            step_s = float(np.median(np.diff(times[used]))) if np.count_nonzero(used) > 1 else 0.0
            flow, window_s = flow_of(k2[used], index), recipe.settings.depth * step_s
            pulses.append(flow_pulsatility(times[used], flow, chosen, name=name, window_s=window_s, index=chosen.flow))
        return pulses

    return measure
