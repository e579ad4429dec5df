"""The plot: curves, a line at a dose, a line at a volume, a dose interval, and the voxel that was clicked."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyqtgraph
from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QWidget

from napari_gpubio.dose.gui.axes import Axes, interval_words, thinned
from napari_gpubio.dose.gui.plot_axis import DoseAxis
from napari_gpubio.dose.gui.readout import Shown

Array = npt.NDArray[Any]
SCREEN, PAPER = "#a8adb3", "#222222"  # text and axes: on napari's themes, and on white
LINK, VOLUME = "#2dffb2", "#ffb347"  # of what is lit in the image, and of the line at a volume
_SLACK, _LEAST_SHARE = 0.01, 0.4  # of the range that is shown: by how much curves leave it, and what they fill
_NEAR_PIXELS = 24.0
_MARGINS = 6, 4, 12, 6  # pixels; pyqtgraph moves titles beyond the axes' edges, and half a number may stand there
_WIDTH, _POINTED = 2, 5  # of curves, pixels: usual, and of the one whose name is pointed at
_DASHED = Qt.PenStyle.DashLine
_ON_SCREEN, IN_A_FIGURE = 250, 2000  # points of a curve along its width, and along its height
_NO_CURVE = np.empty(0), np.empty(0)


class DvhPlot(pyqtgraph.PlotWidget):
    """Draws histograms and lets lines be dragged.

    Signals carry doses in units of the dose, volumes as on the axis, and the number of a curve (-1: none is near).

    Parameters
    ----------
    ink
        Color of axes and text.
    background
        Color behind all, None for the window's.
    detail
        Points that a curve is drawn with along its width, and along its height.
    """

    dose_dragged = Signal(float)
    dose_dropped = Signal()
    volume_dragged = Signal(float)
    band_dragged = Signal(float, float)
    hovered = Signal(int, float)
    curve_clicked = Signal(int)

    def __init__(
        self, ink: str = SCREEN, background: str | None = None, detail: int = _ON_SCREEN, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent, background=background, axisItems={"bottom": DoseAxis("bottom")})
        self._ink, self._axes = ink, Axes()
        self._detail = self._steps = detail
        self._items: list[Any] = []
        self._curves: tuple[Shown, ...] = ()
        self._drawn: list[tuple[Array, Array]] = []  # places and volumes of each curve
        self._scale: tuple[Any, ...] = ()
        self._frame: tuple[float, float, float] | None = None
        self._titles: tuple[Any, ...] = ()
        self._names: tuple[Any, ...] = ()
        self.showGrid(x=True, y=True, alpha=0.15)
        self.setMenuEnabled(False)
        self.hideButtons()
        for side in ("bottom", "left"):
            axis = self.getAxis(side)
            axis.setPen(ink)
            axis.setTextPen(ink)
            axis.enableAutoSIPrefix(False)
            axis.setStyle(showValues=False)  # as long as there is nothing to read
        self.getAxis("left").setWidth(58)
        self.getAxis("bottom").setHeight(42)
        self.getAxis("bottom").setStyle(hideOverlappingLabels=_MARGINS[2])
        self.plotItem.layout.setContentsMargins(*_MARGINS)
        self._add_tools()
        self.scene().sigMouseMoved.connect(self._on_mouse)
        self.scene().sigMouseClicked.connect(self._on_click)
        self.plotItem.vb.sigRangeChanged.connect(self._on_zoom)

    def _add_tools(self) -> None:
        pen, hover = pyqtgraph.mkPen(LINK, width=2), pyqtgraph.mkPen("#ffffff", width=3)
        label = {"color": self._ink, "position": 0.93, "movable": False, "fill": "#26293099"}
        self.dose_line = pyqtgraph.InfiniteLine(angle=90, movable=True, pen=pen, hoverPen=hover, labelOpts=label)
        self.volume_line = pyqtgraph.InfiniteLine(
            angle=0, movable=True, pen=pyqtgraph.mkPen(VOLUME, width=2), hoverPen=hover
        )
        self.band = pyqtgraph.LinearRegionItem(brush=f"{LINK}22", hoverBrush=f"{LINK}3a", pen=pen, hoverPen=hover)
        self.prescription = pyqtgraph.InfiniteLine(
            angle=90, pen=pyqtgraph.mkPen(self._ink, width=1, style=Qt.PenStyle.DotLine)
        )
        self.marks = pyqtgraph.ScatterPlotItem(size=10, pxMode=True)
        self.marks.setZValue(20)
        for item in (self.dose_line, self.volume_line, self.band, self.prescription):
            item.setVisible(False)
            self.addItem(item, ignoreBounds=True)
        self.addItem(self.marks, ignoreBounds=True)
        self.dose_line.sigDragged.connect(lambda line: self.dose_dragged.emit(self._dose_at(line.value())))
        self.dose_line.sigPositionChangeFinished.connect(lambda _: self.dose_dropped.emit())
        self.volume_line.sigDragged.connect(lambda line: self.volume_dragged.emit(float(line.value())))
        self.band.sigRegionChanged.connect(self._on_band)

    # -- curves ---------------------------------------------------------------------------------------------------

    def show_curves(self, curves: Sequence[Shown], axes: Axes, start: float, edges: Array) -> None:
        """Draw histograms; see `Axes.curve` for the last two."""
        anew = len(curves) != len(self._items) or axes.differential != self._axes.differential
        if anew or (axes.dose_text, axes.volume_text, axes.logarithmic) != self._titles:
            self._titles, self._frame = (axes.dose_text, axes.volume_text, axes.logarithmic), None
        kept = self._kept_doses()
        self._axes = axes
        if anew:
            self._make_items(len(curves), axes)
        self._draw(curves, (axes, start, edges))
        self._name_axes(axes, interval_words(edges, axes) if axes.differential else "", has_values=bool(curves))
        self._place(kept)
        self._fit()

    def _name_axes(self, axes: Axes, intervals: str, *, has_values: bool) -> None:
        """Name the axes, if they are not named so: numbers and titles take a while to draw."""
        names = axes.logarithmic, axes.dose_text + intervals, axes.volume_text, has_values
        if names == self._names:
            return
        self._names = names
        self.getAxis("bottom").logarithmic = axes.logarithmic
        for side, text in zip(("bottom", "left"), names[1:3], strict=True):
            self.getAxis(side).setStyle(showValues=has_values)
            self.setLabel(side, text)
        self._center_titles()

    def _draw(self, curves: Sequence[Shown], scale: tuple[Axes, float, Array]) -> None:
        """Draw the curves that are not there yet; their places depend on the scale: axes, start and edges."""
        told = (*scale[:2], *scale[2])
        stays = told == self._scale
        for number, (item, one) in enumerate(zip(self._items, curves, strict=True)):
            if stays and self._curves[number] is one:
                continue
            self._drawn[number] = scale[0].curve(one.dvh, *scale[1:])
            item.setPen(one.color, width=_WIDTH, style=_DASHED if one.second else Qt.PenStyle.SolidLine)
            item.setData(*thinned(*self._drawn[number], self._steps))
        self._curves, self._scale = tuple(curves), told

    def _on_zoom(self, *_: Any) -> None:
        """Draw with as many points as can be seen in the part that is shown."""
        if self._frame is None:
            return
        (left, right), (bottom, top) = self.plotItem.vb.viewRange()
        magnified = max((self._frame[1] - self._frame[0]) / (right - left), self._frame[2] / (top - bottom), 1.0)
        steps = self._detail * 2 ** math.ceil(math.log2(magnified))
        if steps != self._steps:
            self._steps = steps
            for item, curve in zip(self._items, self._drawn, strict=True):
                item.setData(*thinned(*curve, steps))

    def _center_titles(self) -> None:
        """Put the titles of the axes in their middle; pyqtgraph does so for the title that was there before."""
        for side in ("bottom", "left"):
            self.getAxis(side).resizeEvent(None)

    def _make_items(self, count: int, axes: Axes) -> None:
        for item in self._items:
            self.removeItem(item)
        more = {"x": [0.0, 1.0], "y": [0.0], "stepMode": "center"} if axes.differential else {}
        self._items = [pyqtgraph.PlotCurveItem(**more) for _ in range(count)]
        self._drawn, self._scale = [_NO_CURVE] * count, ()
        for item in self._items:
            self.addItem(item)

    def point_at(self, number: int) -> None:
        """Draw one curve thicker than the others; -1: none."""
        for n, item in enumerate(self._items):
            pen = item.opts["pen"]
            item.setPen(pen.color(), width=_POINTED if n == number else _WIDTH, style=pen.style())

    def _fit(self) -> None:
        """Show all of the curves, unless they are seen well as it is: the user may have zoomed in, or is scaling."""
        if not self._drawn:
            return
        right = max(float(x[-1]) for x, _ in self._drawn)
        left = min(float(x[0]) for x, _ in self._drawn)
        top = max((float(y.max()) for _, y in self._drawn if len(y)), default=1.0)
        frame = (left, right, top)
        if self._frame is None or not self._is_seen_well(frame, self._frame):
            self._frame = frame
            self.setXRange(left, right if right > left else left + 1, padding=0.02)
            self.setYRange(0.0, top or 1.0, padding=0.04)

    def _is_seen_well(self, now: tuple[float, float, float], shown: tuple[float, float, float]) -> bool:
        """Whether curves in one range fill another one well."""
        left, right, top = now
        width, height = shown[1] - shown[0], shown[2]
        too_wide = left < shown[0] - _SLACK * width or right > shown[1] + _SLACK * width
        too_high = top > (1 + _SLACK) * height
        too_small = right - shown[0] < _LEAST_SHARE * width or top < _LEAST_SHARE * height
        return not (too_wide or too_high or too_small)

    # -- lines ----------------------------------------------------------------------------------------------------

    def show_dose_line(self, dose: float | None) -> None:
        """Put the line at a dose, or take it away."""
        self.dose_line.setVisible(dose is not None)
        if dose is not None:
            self.dose_line.setValue(float(self._axes.place_of_dose(dose)))

    def show_volume_line(self, volume: float | None) -> None:
        """Put the line at a volume, as on the axis, or take it away."""
        self.volume_line.setVisible(volume is not None)
        if volume is not None:
            self.volume_line.setValue(volume)

    def show_band(self, ends: tuple[float, float] | None) -> None:
        """Put the interval between two doses, or take it away."""
        self.band.setVisible(ends is not None)
        if ends is not None:
            was = self.band.blockSignals(True)
            self.band.setRegion([float(self._axes.place_of_dose(dose)) for dose in ends])
            self.band.blockSignals(was)

    def show_prescription(self, dose: float | None) -> None:
        """Mark the prescription, or take it away."""
        self.prescription.setVisible(dose is not None)
        if dose is not None:
            self.prescription.setValue(float(self._axes.place_of_dose(dose)))

    def show_marks(self, marks: Sequence[tuple[int, float, bool]]) -> None:
        """Mark doses on curves: number of the curve, dose, and whether the voxel lies in the structure."""
        spots = []
        for number, dose, is_inside in marks:
            x, y = self._drawn[number]
            place = float(self._axes.place_of_dose(dose))
            height = float(y[np.clip(np.searchsorted(x, place) - 1, 0, len(y) - 1)]) if len(x) > len(y) else float(
                np.interp(place, x, y, right=0.0)
            )  # fmt: skip
            color = self._items[number].opts["pen"].color()
            look = {"brush": color, "size": 13} if is_inside else {"brush": None, "size": 8}
            spots.append({"pos": (place, height), "pen": pyqtgraph.mkPen("w" if is_inside else color), **look})
        self.marks.setData(spots)

    def _kept_doses(self) -> list[Any]:
        """Doses of the lines, before the axes change."""
        low, high = self.band.getRegion()
        return [self._dose_at(place) for place in (self.dose_line.value(), low, high, self.prescription.value())]

    def _place(self, doses: list[Any]) -> None:
        """Put the lines where their doses are now."""
        line, low, high, prescription = (float(self._axes.place_of_dose(dose)) for dose in doses)
        was = self.band.blockSignals(True)
        self.band.setRegion([low, high])
        self.band.blockSignals(was)
        self.dose_line.setValue(line)
        self.prescription.setValue(prescription)

    # -- the mouse ------------------------------------------------------------------------------------------------

    def _dose_at(self, place: float) -> float:
        return float(self._axes.dose_at_place(place))

    def _on_band(self, *_: Any) -> None:
        low, high = self.band.getRegion()
        self.band_dragged.emit(self._dose_at(low), self._dose_at(high))

    def _on_mouse(self, position: Any) -> None:
        number = self._curve_at(position)
        dose = self._dose_at(self.plotItem.vb.mapSceneToView(position).x()) if number >= 0 else 0.0
        self.hovered.emit(number, dose)

    def _on_click(self, event: Any) -> None:
        number = self._curve_at(event.scenePos())
        if number >= 0 and event.button() == Qt.MouseButton.LeftButton:
            self.curve_clicked.emit(number)

    def _curve_at(self, position: Any) -> int:
        """The curve nearest to a place on screen, or -1 if none is near."""
        box = self.plotItem.vb
        if not box.sceneBoundingRect().contains(position) or not self._drawn:
            return -1
        point, pixel = box.mapSceneToView(position), box.viewPixelSize()
        distances = [_distance(x, y, (point.x(), point.y()), pixel) for x, y in self._drawn]
        nearest = int(np.argmin(distances))
        return nearest if distances[nearest] <= _NEAR_PIXELS else -1


def _distance(x: Array, y: Array, point: tuple[float, float], pixel: tuple[float, float]) -> float:
    """Distance of a point to the points of a curve and to its height there, pixels."""
    if not len(y):
        return np.inf
    ends = x[: len(y)]
    down = np.interp(point[0], ends, y, left=y[0], right=0.0) - point[1]
    near = np.hypot((ends - point[0]) / pixel[0], (y - point[1]) / pixel[1]).min()
    return float(min(abs(down) / pixel[1], near))
