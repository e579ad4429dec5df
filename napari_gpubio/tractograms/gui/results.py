"""Results of the tracking panel: numbers of shown, all and picked fibers, a histogram with a filter, colors."""

import csv
import functools
from pathlib import Path
from typing import Any

import numpy as np
import pyqtgraph
from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtGui import QImage, QPixmap
from qtpy.QtWidgets import QApplication, QFormLayout, QWidget
from superqt import QLabeledDoubleRangeSlider

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import write_text
from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.text import delimited, file_name
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Connection, Connections, Debouncer
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import Label, notes_text
from napari_gpubio.gui.layers import LayerListener
from napari_gpubio.gui.lines.sampling import title_of
from napari_gpubio.gui.looks import RangeFilter, filter_of, set_filter
from napari_gpubio.gui.plots import Axis, ThemedPlot
from napari_gpubio.gui.results import ResultBox
from napari_gpubio.gui.streamlines.color_box import ColorByBox
from napari_gpubio.tractograms.gui.fibers import turn_to
from napari_gpubio.tractograms.gui.numbers import READABLE, fiber_numbers, picked_numbers
from napari_gpubio.tractograms.io.tables import fiber_table, write_fiber_table
from napari_gpubio.tractograms.model import Tractogram

_PLOT_HEIGHT = 132  # pixels; room for bars, ticks and the title of the axis
_BINS = 24
_MIN_PLAIN = 1e-3  # smaller numbers are written with a power of ten
_ALL_ALPHA = 70  # of 255: the bars of all fibers, behind those of the shown ones
MEASURES = ("length_mm", "mean_fa", "mean_fod", "alignment", "alignment_fa", "speed", "drift")
TABLES = "Comma-separated values (*.csv)"


class FiberCountPlot(ThemedPlot):
    """Bars of how many fibers have a value."""

    left = Axis(title="fibers")
    grid = False


class FiberBox(ResultBox):
    """Numbers and display options of one layer of fibers; empty again when the user deletes it."""

    layer_described = Signal()  # another layer, or none, or other fibers of the same
    kept = ("kept_layer",)
    keeps_controls = False  # for undo: they show what is kept with the layer

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__("Click in the brain to see the fibers that pass there.", parent)
        self.layer: Any | None = None
        self._described: tuple[Any, Any] | None = None  # the layer and its fibers
        self._viewer = viewer
        self._picks: list[tuple[Any, Tractogram, int]] = []
        self._listener = LayerListener(
            viewer, lambda layer: layer == self.layer, layers_changed=self._on_layers, colors_changed=self._on_colors
        )
        self._update = Debouncer(self._show_what_is_shown, self)
        self._events = Connections(self._event_pairs)
        self.followers = (*self.followers, self._listener, self._events)
        self._build()

    def describe_layer(self, layer: Any | None) -> None:
        """Show the display options and numbers of a fiber layer, which the controls then apply to."""
        described = None if layer is None else (layer, carried(layer, "tractogram"))
        is_shown = described is not None and described == self._described  # what changes in it is followed
        self.layer, self._described = layer, described
        self._listener.refresh()
        self._events.attach()
        if layer is None:
            self.clear()
        elif not is_shown:
            self._show_layer(layer)
        if layer is not None:
            turn_to(layer)
        self.layer_described.emit()

    @property
    def kept_layer(self) -> tuple[Any, ...]:
        """The layer, its fibers and its filter, as undo keeps them."""
        layer = self.layer
        return (None,) if layer is None else (layer, carried(layer, "tractogram"), filter_of(layer))

    @kept_layer.setter
    def kept_layer(self, kept: tuple[Any, ...]) -> None:
        self._described = None  # whatever was shown of it before
        self.describe_layer(kept[0] if kept[0] in self._viewer.layers else None)

    def show_kept(self) -> None:
        """Do nothing: the layer is shown."""

    def describe_fiber(self, layer: Any, fiber: int) -> None:
        """Describe a layer, and add the numbers of a fiber picked in it; those of other layers are not listed then."""
        self.describe_layer(layer)
        self._picks = [pick for pick in self.picks() if (pick[0], pick[2]) != (layer, fiber)]
        self._picks.append((layer, layer.metadata[KEY]["tractogram"], fiber))
        self._show_numbers()

    def picks(self) -> list[tuple[Any, Tractogram, int]]:
        """Layer, fibers and index of each picked fiber that is still there, the last one picked at the end."""
        return [p for p in self._picks if p[0] in self._viewer.layers and carried(p[0], "tractogram") is p[1]]

    def detach(self) -> None:
        """Stop following it; what is being written comes to its end."""
        self._update.cancel()
        self._picks = []
        super().detach()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _show_layer(self, layer: Any) -> None:
        self._color.set_layer(layer)
        self._fill_measures(layer)
        self._on_colors(layer)
        self._show_filter()
        self._show_what_is_shown()

    def _event_pairs(self) -> list[Connection]:
        if self.layer is None:
            return []
        events = self.layer.events
        return [(event, self._request_update) for event in (events.shown, events.visible)]

    def _request_update(self, *_: Any) -> None:
        self._update.request()

    def _on_layers(self) -> None:
        if self.layer is not None and not self._listener.layers:
            self.describe_layer(None)

    def _on_colors(self, layer: Any) -> None:
        """Show how the fibers are colored, here or in napari's controls of the layer."""
        if self._color.findData(layer.color_by) < 0:
            self._color.fill()  # an image that was chosen elsewhere
        self._color.show_choice()
        self._show_bar()

    def _show_what_is_shown(self) -> None:
        """Show the numbers and the histogram, of shown and of all fibers."""
        self._show_numbers()
        self._show_histogram()
        if self.layer is not None and filter_of(self.layer) is None:
            self._show_range()

    def _show_numbers(self) -> None:
        if self.layer is None:
            return
        fibers, findings = self.layer.metadata[KEY]["tractogram"], []
        if not fibers.complete:
            findings.append(("warning", "The run was stopped early; some fibers are missing."))
        if fibers.notes:
            findings.append(("warning", notes_text(fibers.notes)))
        if not self.layer.visible:
            findings.append(("warning", f"“{self.layer.name}” is hidden; show it in the layer list to see its fibers."))
        rows, head = fiber_numbers(fibers, self.layer.per_fiber, self.layer.shown), ""
        for layer, _, fiber in self.picks():
            if layer == self.layer:
                head = f"{layer.name}, fiber {fiber}"
                rows += picked_numbers(head, layer.per_fiber, fiber)
        self.show_numbers(rows, findings, head=head)

    def _build(self) -> None:
        self._plot = FiberCountPlot(self)
        self._plot.setFixedHeight(_PLOT_HEIGHT)
        self._plot.setToolTip("Bright bars: the fibers that are shown. Faint bars: all fibers.")
        self._plot.plotItem.layout.setContentsMargins(1, 1, 1, 8)  # the title of the axis hangs out at the bottom
        self._plot.setMouseEnabled(x=False, y=False)
        self._color = ColorByBox(lambda: self._viewer.layers, READABLE, self)
        self._bar = Label(self)
        self._limits = Label(self)
        self._measure = ElidedComboBox(self, tip="Show only fibers whose value lies between the two handles")
        self._measure.currentIndexChanged.connect(self._on_measure)
        self._range = QLabeledDoubleRangeSlider(Qt.Orientation.Horizontal, self)
        self._range.valueChanged.connect(self._on_filter)
        colors, shown = QFormLayout(), QFormLayout()
        colors.addRow("Color by", self._color)
        colors.addRow(self._bar)
        colors.addRow(self._limits)
        shown.addRow("Filter by", self._measure)
        shown.addRow(self._range)
        self.content.addLayout(colors)
        self.content.addWidget(self._plot)
        self.content.addLayout(shown)

    # -- colors ---------------------------------------------------------------------------------------------------

    def _show_bar(self) -> None:
        image = None if self.layer is None else self.layer.color_bar_image(10, 240)
        limits = None if self.layer is None else self.layer.color_bar_limits
        self._bar.setVisible(image is not None)
        self._limits.setVisible(limits is not None)
        if self.layer is None or image is None or limits is None:
            return
        rgb = np.ascontiguousarray(image[..., :3])
        drawn = QImage(rgb.data, rgb.shape[1], rgb.shape[0], 3 * rgb.shape[1], QImage.Format.Format_RGB888)
        self._bar.setPixmap(QPixmap.fromImage(drawn))
        largest = max(map(abs, limits))
        form = f".{_decimals(largest)}f" if largest >= _MIN_PLAIN else ".1e"
        low, high = (format(limit, form) for limit in limits)
        name = READABLE.get(self.layer.color_by) or self.layer.color_title
        self._limits.setText(f"{low}  to  {high}   {name}")

    # -- histogram and filter -------------------------------------------------------------------------------------

    def _show_histogram(self) -> None:
        """Show how the number that filters is distributed; drift, which spans decades, by its logarithm."""
        values, measure = self._values(), self._measure.currentData()
        self._plot.clear()
        usable = np.zeros(0, bool)
        if self.layer is not None and values is not None:
            is_log = measure == "drift"
            usable = np.isfinite(values) & ((values > 0) | (not is_log))
            values = np.log10(values, where=usable, out=np.zeros(len(values))) if is_log else values
            self._plot.setLabel("bottom", self._measure.currentText() + (", log₁₀" if is_log else ""))
        self._plot.setVisible(bool(usable.any()))
        if self.layer is None or values is None or not usable.any():
            return
        counts, edges = np.histogram(values[usable], bins=_BINS)
        shown, _ = np.histogram(values[usable & self.layer.shown], bins=edges)
        for heights, brush in ((counts, theme.translucent(theme.ACCENT, _ALL_ALPHA)), (shown, theme.ACCENT)):
            bars = pyqtgraph.BarGraphItem(x0=edges[:-1], x1=edges[1:], height=heights, brush=brush, pen=None)
            self._plot.addItem(bars)

    def _fill_measures(self, layer: Any) -> None:
        """List the numbers that the fibers can be shown by: those of tracking first, then the file's own."""
        chosen = self._measure.currentData()
        names = [name for name in MEASURES if name in layer.per_fiber]
        names += [name for name in layer.per_fiber if name not in (*MEASURES, "stop_reason")]
        with QSignalBlocker(self._measure):
            self._measure.clear()
            for name in names:
                self._measure.addItem(READABLE.get(name) or title_of(name), name)
            self._measure.setCurrentIndex(max(self._measure.findData(chosen), 0))

    def _values(self) -> Any | None:
        return None if self.layer is None else self.layer.per_fiber.get(self._measure.currentData())

    def _show_filter(self) -> None:
        """Show the filter that the layer has, or one that lets everything through."""
        chosen = None if self.layer is None else filter_of(self.layer)
        if chosen is not None:
            with QSignalBlocker(self._measure):
                self._measure.setCurrentIndex(self._measure.findData(chosen.measure))
        self._show_range()

    def _show_range(self) -> None:
        values, chosen = self._values(), None if self.layer is None else filter_of(self.layer)
        finite = np.empty(0) if values is None else values[np.isfinite(values)]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
        digits = _decimals(high)
        unit = 10.0**-digits
        low, high = np.floor(low / unit) * unit, np.ceil(high / unit) * unit  # what the slider shows includes all
        was = self._range.blockSignals(True)
        self._range.setDecimals(digits)
        self._range.setRange(low, max(high, low + unit))
        if chosen is not None and chosen.measure == self._measure.currentData():
            ends = (low if chosen.low is None else chosen.low, high if chosen.high is None else chosen.high)
            self._range.setValue((max(low, ends[0]), min(high, max(ends[1], low))))
        else:
            self._range.setValue((low, high))
        self._range.blockSignals(was)

    def _on_measure(self, *_: Any) -> None:
        """Another number: all fibers are shown until its range is narrowed."""
        self._show_range()
        if self.layer is not None:
            set_filter(self.layer, RangeFilter(self._measure.currentData()))
            self._show_histogram()

    def _on_filter(self, limits: tuple[float, float]) -> None:
        if self._values() is None or self.layer is None:
            return
        digits = self._range.decimals()
        low, high = (round(float(value), digits) for value in limits)
        unit = 0.5 * 10.0**-digits
        is_open = (low <= self._range.minimum() + unit, high >= self._range.maximum() - unit)
        measure = self._measure.currentData()
        set_filter(self.layer, RangeFilter(measure, None if is_open[0] else low, None if is_open[1] else high))

    # -- tables ---------------------------------------------------------------------------------------------------

    def add_table_menu(self) -> None:
        """Add a button for the numbers of each fiber: to copy them, or to write them to a file."""
        self.add_menu(
            "Fiber table",
            "Numbers of each fiber, one row for each: for a spreadsheet or a statistics package",
            (
                ("Copy picked fibers", self.copy_picked),
                ("Export picked fibers (CSV)…", lambda: self._export("picked")),
                ("Export shown fibers (CSV)…", lambda: self._export("shown")),
                ("Export all fibers (CSV)…", lambda: self._export("all")),
                ("Clear picked fibers", self.clear_picked),
            ),
        )

    def copy_picked(self) -> None:
        """Put the numbers of the picked fibers on the clipboard, one row for each, with tabs."""
        try:
            QApplication.clipboard().setText(self._picked_table("\t"))
        except InvalidInput as error:
            self.files.error_occurred.emit(str(error))
            return
        self.files.error_occurred.emit("")  # that of an earlier try has ended
        self.files.status_changed.emit("copied to the clipboard")

    def clear_picked(self) -> None:
        """Forget the picked fibers."""
        for layer, _, _ in self.picks():
            layer.select_fiber(None)
        self._picks = []
        self._show_numbers()

    def _picked_table(self, separator: str) -> str:
        """One table of the picked fibers; a column that only some of them have stays empty for the others."""
        picks, rows = self.picks(), list[dict[str, str]]()
        if not picks:
            raise InvalidInput("no fiber is picked; Ctrl+click a fiber, and more if you like")
        for layer in dict.fromkeys(layer for layer, _, _ in picks):
            which = np.array([fiber for picked, _, fiber in picks if picked == layer])
            table = csv.DictReader(fiber_table(carried(layer, "tractogram"), which).splitlines())
            rows += [{"bundle": layer.name} | row for row in table]
        names = dict.fromkeys(name for row in rows for name in row)
        return delimited([names, *([row.get(name, "") for name in names] for row in rows)], separator)

    def _export(self, which: str) -> None:
        name = "picked fibers" if which == "picked" or self.layer is None else f"{self.layer.name} {which} fibers"
        title = f"Export the numbers of the {which} fibers"
        self.files.ask_to_write(title, TABLES, file_name(name) + ".csv", lambda: self._table_writer(which))

    def _table_writer(self, which: str) -> Any:
        if which == "picked":
            text = self._picked_table(",")
            return functools.partial(write_text, text=text)
        if self.layer is None:
            raise InvalidInput("there are no fibers; click in the brain first")
        fibers = self.layer.metadata[KEY]["tractogram"]
        shown = self.layer.shown.copy() if which == "shown" else None
        return functools.partial(_write_table, fibers=fibers, shown=shown)


def _write_table(path: Path, fibers: Tractogram, shown: Any | None) -> str:
    write_fiber_table(path, fibers, shown)
    count = len(fibers) if shown is None else np.count_nonzero(shown)
    return f"saved the numbers of {count:,} fibers in {path.name}"


def _decimals(largest: float) -> int:
    """Digits behind the point that show three figures of a number."""
    return int(np.clip(2 - np.floor(np.log10(largest)), 0, 9)) if largest > 0 else 2
