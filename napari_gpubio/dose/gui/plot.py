"""The plot: curves, a line at a dose, a line at a volume, a dose interval, marks of a voxel."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyqtgraph
from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtWidgets import QWidget

from napari_gpubio.dose.gui.curves import Axes, Curve, thin_points
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.plots import Axis, ThemedPlot

_RANGE_SLACK, _MIN_SHARE = 0.01, 0.4  # by how much curves may leave the visible range, and how much they must fill
_NEAR_PIXELS = 24.0
_MARGINS = 6, 4, 12, 6  # left, top, right, bottom, pixels; titles and half a label stand out beyond the axes
_WIDTH, _EMPHASIZED_WIDTH = 2, 5  # of curves, pixels
_SCREEN_DETAIL, FIGURE_DETAIL = 250, 2000  # points of a curve along its width, and along its height
_BAND_ALPHA = 60  # of 255
_NO_CURVE = np.empty(0), np.empty(0)
Array = npt.NDArray[Any]
Interval = tuple[float, float]


class DvhPlot(ThemedPlot):
    """Draws histograms, and lets lines be dragged.

    Signals have doses in units of the dose, volumes as on the axis, and the number of a curve (-1: none is near).
    """

    dose_dragged = Signal(float)
    volume_dragged = Signal(float)
    interval_dragged = Signal(float, float)
    mouse_moved = Signal(int, float)
    curve_clicked = Signal(int)
    bottom, left = Axis(pixels=42, decades=True, plain=(-2, 3)), Axis(pixels=58)

    def __init__(
        self,
        text_color: str | None = None,
        background: str | None = None,
        detail: int = _SCREEN_DETAIL,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent, text_color=text_color, background=background)
        self.getAxis("bottom").logarithmic = False
        self._text_color, self._axes = text_color or theme.TEXT, Axes()
        self._detail = self._steps = detail
        self._items: list[Any] = []
        self._bands: list[Any] = []  # what is shaded about each curve
        self._curves: tuple[Curve, ...] = ()
        self._points: list[tuple[Array, Array]] = []  # positions and volumes of each curve
        self._scale: tuple[Any, ...] = ()
        self._frame: tuple[float, float, float] | None = None  # left, right and top of what was fitted last
        self._fitted_axes: tuple[Any, ...] = ()
        self._named_axes: tuple[Any, ...] = ()
        for side in ("bottom", "left"):
            self.getAxis(side).setStyle(showValues=False)  # as long as there is nothing to read
        self.plotItem.layout.setContentsMargins(*_MARGINS)
        self._add_lines()
        connect_all(
            [
                (self.scene().sigMouseMoved, self._on_mouse),
                (self.scene().sigMouseClicked, self._on_click),
                (self.plotItem.vb.sigRangeChanged, self._on_zoom),
                (self.dose_line.sigDragged, lambda line: self.dose_dragged.emit(self._dose_at(line.value()))),
                (self.volume_line.sigDragged, lambda line: self.volume_dragged.emit(float(line.value()))),
                (self.interval.sigRegionChanged, self._on_interval),
            ]
        )

    def _add_lines(self) -> None:
        pen, hover = pyqtgraph.mkPen(theme.SELECTED, width=2), pyqtgraph.mkPen(theme.WHITE, width=3)
        volume_pen = pyqtgraph.mkPen(theme.WARNING, width=2)
        dotted = pyqtgraph.mkPen(self._text_color, width=1, style=Qt.PenStyle.DotLine)
        self.dose_line = pyqtgraph.InfiniteLine(angle=90, movable=True, pen=pen, hoverPen=hover)
        self.volume_line = pyqtgraph.InfiniteLine(angle=0, movable=True, pen=volume_pen, hoverPen=hover)
        self.interval = pyqtgraph.LinearRegionItem(
            brush=theme.translucent(theme.SELECTED, 34),
            hoverBrush=theme.translucent(theme.SELECTED, 58),
            pen=pen,
            hoverPen=hover,
        )
        self.prescription = pyqtgraph.InfiniteLine(angle=90, pen=dotted)
        self.marks = pyqtgraph.ScatterPlotItem(size=10, pxMode=True)
        self.marks.setZValue(20)
        for item in (self.dose_line, self.volume_line, self.interval, self.prescription):
            item.setVisible(False)
            self.addItem(item, ignoreBounds=True)
        self.addItem(self.marks, ignoreBounds=True)

    # -- curves ---------------------------------------------------------------------------------------------------

    def draw_curves(self, curves: Sequence[Curve], axes: Axes, start: float, edges: Array) -> None:
        """Draw histograms; ``start`` and ``edges`` as of `Axes.points_of`."""
        needs_items = len(curves) != len(self._items) or axes.differential != self._axes.differential
        if needs_items or (axes.dose_title, axes.volume_title, axes.logarithmic) != self._fitted_axes:
            self._fitted_axes, self._frame = (axes.dose_title, axes.volume_title, axes.logarithmic), None
        self._axes = axes
        if needs_items:
            self._make_items(len(curves), axes)
        self._draw_changed(curves, (axes, start, edges))
        self._name_axes(axes, axes.interval_text(edges) if axes.differential else "", has_values=bool(curves))
        self._fit_range()

    def _name_axes(self, axes: Axes, intervals: str, *, has_values: bool) -> None:
        """Name the axes where their titles change, because titles take a while to draw."""
        names = axes.logarithmic, axes.dose_title + intervals, axes.volume_title, has_values
        if names == self._named_axes:
            return
        self._named_axes = names
        self.getAxis("bottom").logarithmic = axes.logarithmic
        for side, text in zip(("bottom", "left"), names[1:3], strict=True):
            self.getAxis(side).setStyle(showValues=has_values)
            self.setLabel(side, text)
            self.getAxis(side).resizeEvent(None)  # centers the title; pyqtgraph does so for the one before

    def _draw_changed(self, curves: Sequence[Curve], scale: tuple[Axes, float, Array]) -> None:
        """Draw the curves that have changed; their positions depend on the scale: axes, start and edges."""
        axes, start, edges = scale
        key = (axes, start, *edges)
        for number, (item, curve) in enumerate(zip(self._items, curves, strict=True)):
            if key == self._scale and self._curves[number] is curve:
                continue
            self._points[number] = axes.points_of(curve.dvh, start, edges)
            style = Qt.PenStyle.DashLine if curve.second else Qt.PenStyle.SolidLine
            item.setPen(curve.color, width=_WIDTH, style=style)
            item.setData(*thin_points(*self._points[number], self._steps))
            self._draw_band(self._bands[number], curve, scale)
        self._curves, self._scale = tuple(curves), key

    def _draw_band(self, shading: Any, curve: Curve, scale: tuple[Axes, float, Array]) -> None:
        """Shade what lies between the borders of a curve's band; a differential histogram has none."""
        axes, start, edges = scale
        is_drawn = curve.band is not None and not axes.differential and not curve.dvh.is_empty
        shading.setVisible(is_drawn)
        if curve.band is None or not is_drawn:
            return
        for item, border in zip(shading.curves, (curve.band.low, curve.band.high), strict=True):
            item.setData(*thin_points(*axes.points_of(border, start, edges), self._detail))
        shading.setBrush(theme.translucent(curve.color, _BAND_ALPHA))

    def _on_zoom(self, *_: Any) -> None:
        """Draw as many points as can be distinguished in the visible range."""
        if self._frame is None:
            return
        (left, right), (bottom, top) = self.plotItem.vb.viewRange()
        magnified = max((self._frame[1] - self._frame[0]) / (right - left), self._frame[2] / (top - bottom), 1.0)
        steps = self._detail * 2 ** math.ceil(math.log2(magnified))
        if steps != self._steps:
            self._steps = steps
            for item, curve in zip(self._items, self._points, strict=True):
                item.setData(*thin_points(*curve, steps))

    def _make_items(self, count: int, axes: Axes) -> None:
        for item in (*self._items, *self._bands):
            self.removeItem(item)
        more = {"x": [0.0, 1.0], "y": [0.0], "stepMode": "center"} if axes.differential else {}
        self._items = [pyqtgraph.PlotCurveItem(**more) for _ in range(count)]
        self._points, self._scale = [_NO_CURVE] * count, ()
        self._bands = [
            pyqtgraph.FillBetweenItem(pyqtgraph.PlotCurveItem([], []), pyqtgraph.PlotCurveItem([], []))
            for _ in range(count)
        ]
        for item in (*self._bands, *self._items):
            self.addItem(item)

    def emphasize_curve(self, number: int) -> None:
        """Draw one curve thicker than the others; -1 for none."""
        for n, item in enumerate(self._items):
            pen = item.opts["pen"]
            item.setPen(pen.color(), width=_EMPHASIZED_WIDTH if n == number else _WIDTH, style=pen.style())

    def _fit_range(self) -> None:
        """Fit the visible range to the curves, unless they fill it well: the user may have zoomed in, or is scaling."""
        if not self._points:
            return
        right = max(float(x[-1]) for x, _ in self._points)
        left = min(float(x[0]) for x, _ in self._points)
        top = max((float(y.max()) for _, y in self._points if len(y)), default=1.0)
        frame = (left, right, top)
        if self._frame is None or not self._fills_well(frame, self._frame):
            self._frame = frame
            self.setXRange(left, right if right > left else left + 1, padding=0.02)
            self.setYRange(0.0, top or 1.0, padding=0.04)

    @staticmethod
    def _fills_well(frame: tuple[float, float, float], fitted: tuple[float, float, float]) -> bool:
        """Whether curves in one frame fill another one well."""
        left, right, top = frame
        width, height = fitted[1] - fitted[0], fitted[2]
        too_wide = left < fitted[0] - _RANGE_SLACK * width or right > fitted[1] + _RANGE_SLACK * width
        too_high = top > (1 + _RANGE_SLACK) * height
        too_small = right - fitted[0] < _MIN_SHARE * width or top < _MIN_SHARE * height
        return not (too_wide or too_high or too_small)

    # -- lines ----------------------------------------------------------------------------------------------------

    def place_line(self, line: Any, at: float | Interval | None) -> None:
        """Place `dose_line`, `prescription`, `interval` or `volume_line`, or hide it.

        ``at``: a dose, two of them for the interval, or a volume as on the axis.
        """
        line.setVisible(at is not None)
        if at is None:
            return
        place = at if line is self.volume_line else self._axes.position_of_dose(at)
        with QSignalBlocker(line):
            (line.setRegion if line is self.interval else line.setValue)(place)

    def place_marks(self, marks: Sequence[tuple[int, float, bool]]) -> None:
        """Mark doses on curves: number of the curve, dose, and whether the voxel lies inside the structure."""
        spots = []
        for number, dose, is_inside in marks:
            x, y = self._points[number]
            position = float(self._axes.position_of_dose(dose))
            if len(x) > len(y):  # volumes of intervals
                height = float(y[np.clip(np.searchsorted(x, position) - 1, 0, len(y) - 1)])
            else:
                height = float(np.interp(position, x, y, right=0.0))
            color = self._items[number].opts["pen"].color()
            style = {"brush": color, "size": 13} if is_inside else {"brush": None, "size": 8}
            pen = pyqtgraph.mkPen(theme.WHITE if is_inside else color)
            spots.append({"pos": (position, height), "pen": pen, **style})
        self.marks.setData(spots)

    # -- the mouse ------------------------------------------------------------------------------------------------

    def curve_at(self, position: Any) -> int:
        """Return the number of the curve nearest to a position in the scene, or -1 if none is near."""
        box = self.plotItem.vb
        if not box.sceneBoundingRect().contains(position) or not self._points:
            return -1
        point, pixel = box.mapSceneToView(position), box.viewPixelSize()
        distances = [_distance(x, y, (point.x(), point.y()), pixel) for x, y in self._points]
        nearest = int(np.argmin(distances))
        return nearest if distances[nearest] <= _NEAR_PIXELS else -1

    def _dose_at(self, x: float) -> float:
        return float(self._axes.dose_at_position(x))

    def _on_interval(self, *_: Any) -> None:
        low, high = self.interval.getRegion()
        self.interval_dragged.emit(self._dose_at(low), self._dose_at(high))

    def _on_mouse(self, position: Any) -> None:
        number = self.curve_at(position)
        dose = self._dose_at(self.plotItem.vb.mapSceneToView(position).x()) if number >= 0 else 0.0
        self.mouse_moved.emit(number, dose)

    def _on_click(self, event: Any) -> None:
        number = self.curve_at(event.scenePos())
        if number >= 0 and event.button() == Qt.MouseButton.LeftButton:
            self.curve_clicked.emit(number)


def _distance(x: Array, y: Array, point: tuple[float, float], pixel: tuple[float, float]) -> float:
    """Distance of a point from a curve in pixels: to its points, and to its height there."""
    if not len(y):
        return np.inf
    ends = x[: len(y)]
    down = np.interp(point[0], ends, y, left=y[0], right=0.0) - point[1]
    near = np.hypot((ends - point[0]) / pixel[0], (y - point[1]) / pixel[1]).min()
    return float(min(abs(down) / pixel[1], near))
