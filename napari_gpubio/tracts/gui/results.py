"""Results of the tracking panel: numbers, drift, colors, a filter, the picked fiber."""

import functools
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyqtgraph
from qtpy.QtCore import QSignalBlocker, Qt
from qtpy.QtGui import QImage, QPixmap
from qtpy.QtWidgets import QFormLayout, QLabel, QWidget
from superqt import QLabeledDoubleRangeSlider

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.gui import theme
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.layers import LayerListener
from napari_gpubio.gui.plots import ThemedPlot
from napari_gpubio.gui.results import Number, ResultBox
from napari_gpubio.tracts.model import Tractogram
from napari_gpubio.tracts.settings import StopReason

READABLE = {
    "direction": "direction",
    "uniform": "uniform",
    "length_mm": "length (mm)",
    "riemannian_length_mm": "Riemannian length (mm)",
    "drift": "drift of g(v, v)",
    "mean_fa": "mean FA",
    "alignment": "alignment with V1",
    "alignment_fa": "alignment × FA",
    "speed": "Euclidean / Riemannian length",
    "stop_reason": "stop reason",
    "fa": "FA along the fiber",
}
_PLOT_HEIGHT = 132  # pixels; room for bars, ticks and the title of the axis
FILTERS = ("length_mm", "mean_fa", "alignment", "alignment_fa", "speed", "drift")
REASON_TEXT = {
    StopReason.VOLUME: "left the volume",
    StopReason.MASK: "left the mask",
    StopReason.FA: "FA too low",
    StopReason.STEPS: "most steps",
    StopReason.LENGTH: "longest length",
    StopReason.CURVATURE: "bend too tight",
    StopReason.DRIFT: "drift too large",
    StopReason.INVALID: "tensor not usable",
}


class FiberBox(ResultBox):
    """Numbers and display options of one bundle's fibers; empty again when the user deletes their layer."""

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__("Click in the brain to see the fibers that pass there.", parent)
        self.layer: Any | None = None
        self._picked: tuple[Number, ...] = ()
        self._listener = LayerListener(
            viewer, lambda layer: layer == self.layer, layers_changed=self._on_layers, colors_changed=self._on_colors
        )
        self._build()

    def describe_layer(self, layer: Any | None) -> None:
        """Show the display options and numbers of a fiber layer, which the controls then apply to."""
        self.layer = layer
        self._picked = ()
        self._listener.refresh()
        if layer is None:
            self.clear()
            return
        with QSignalBlocker(self._color):
            self._color.clear()
            for name in layer.color_choices:
                self._color.addItem(READABLE.get(name, name), name)
        self._on_colors(layer)
        self._show_filter()
        self._show_numbers()
        self._show_drift(layer.metadata[KEY]["tractogram"])

    def describe_fiber(self, layer: Any, fiber: int) -> None:
        """Show the numbers of a picked fiber of a layer below those of the described one."""
        if self.layer is None:
            self.describe_layer(layer)
        group = f"{layer.name}, fiber {fiber}"
        self._picked = tuple(
            Number(group=group, name="ended", text=REASON_TEXT.get(StopReason(int(values[fiber])), "?"))
            if name == "stop_reason"
            else Number(group=group, name=READABLE.get(name, name), text=f"{values[fiber]:.3g}")
            for name, values in layer.per_fiber.items()
        )
        self._show_numbers()

    def attach(self) -> None:
        """Follow the layer that is described."""
        self._listener.attach()

    def detach(self) -> None:
        """Stop following it; what is being written comes to its end."""
        self._listener.detach()
        super().detach()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _on_layers(self) -> None:
        if self.layer is not None and not self._listener.layers:
            self.describe_layer(None)

    def _on_colors(self, layer: Any) -> None:
        """Show how the fibers are colored, here or in napari's controls of the layer."""
        with QSignalBlocker(self._color):
            self._color.setCurrentIndex(self._color.findData(layer.color_by))
        self._show_bar()

    def _show_numbers(self) -> None:
        if self.layer is not None:
            fibers = self.layer.metadata[KEY]["tractogram"]
            stopped = () if fibers.complete else (("warning", "The run was stopped early: fibers are missing."),)
            self.show_numbers((*fiber_numbers(fibers), *self._picked), stopped)

    def _build(self) -> None:
        self._plot = ThemedPlot(self, grid=False)
        self._plot.setFixedHeight(_PLOT_HEIGHT)
        self._plot.plotItem.layout.setContentsMargins(1, 1, 1, 8)  # the title of the axis hangs out at the bottom
        self._plot.setLabel("bottom", "drift of g(v, v), log₁₀")
        self._plot.setLabel("left", "fibers")
        self._plot.setMouseEnabled(x=False, y=False)
        self._plot.hideButtons()
        self._color = ElidedComboBox(self)
        self._color.currentIndexChanged.connect(self._on_color)
        self._bar = QLabel(self)
        self._limits = QLabel(self)
        self._measure = ElidedComboBox(self)
        for name in FILTERS:
            self._measure.addItem(READABLE[name], name)
        self._measure.currentIndexChanged.connect(lambda *_: self._show_range())
        self._range = QLabeledDoubleRangeSlider(Qt.Orientation.Horizontal, self)
        self._range.valueChanged.connect(self._on_filter)
        form = QFormLayout()
        form.addRow("Color by", self._color)
        form.addRow(self._bar)
        form.addRow(self._limits)
        form.addRow("Show by", self._measure)
        form.addRow(self._range)
        self.content.addWidget(self._plot)
        self.content.addLayout(form)

    def _show_drift(self, fibers: Tractogram) -> None:
        drift = fibers.per_fiber.get("drift")
        positive = drift[(drift > 0) & np.isfinite(drift)] if drift is not None else np.empty(0)
        self._plot.clear()
        self._plot.setVisible(len(positive) > 0)
        if len(positive):
            counts, edges = np.histogram(np.log10(positive), bins=24)
            self._plot.addItem(
                pyqtgraph.BarGraphItem(x0=edges[:-1], x1=edges[1:], height=counts, brush=theme.ACCENT, pen=None)
            )

    def _on_color(self, *_: Any) -> None:
        if self.layer is not None and self._color.currentData() is not None:
            self.layer.color_by = self._color.currentData()

    def _show_bar(self) -> None:
        image = None if self.layer is None else self.layer.color_bar_image(10, 240)
        limits = None if self.layer is None else self.layer.color_bar_limits
        self._bar.setVisible(image is not None)
        self._limits.setVisible(limits is not None)
        if image is None or limits is None:
            return
        rgb = np.ascontiguousarray(image[..., :3])
        drawn = QImage(rgb.data, rgb.shape[1], rgb.shape[0], 3 * rgb.shape[1], QImage.Format.Format_RGB888)
        self._bar.setPixmap(QPixmap.fromImage(drawn))
        self._limits.setText(f"{limits[0]:.3g}  to  {limits[1]:.3g}   {self._color.currentText()}")

    def _show_filter(self) -> None:
        """Show the filter that the layer has, or one that lets everything through."""
        ours = self._filter_of_layer()
        if ours is not None:
            with QSignalBlocker(self._measure):
                self._measure.setCurrentIndex(self._measure.findData(ours[0]))
        self._show_range()

    def _show_range(self) -> None:
        values = self._filter_values()
        was = self._range.blockSignals(True)
        low, high = (float(values.min()), float(values.max())) if values is not None and len(values) else (0.0, 1.0)
        self._range.setDecimals(_decimals(high))
        self._range.setRange(low, max(high, low + 10.0 ** -_decimals(high)))
        ours = self._filter_of_layer()
        kept = ours is not None and ours[0] == self._measure.currentData()
        self._range.setValue(ours[1] if ours is not None and kept else (low, high))
        self._range.blockSignals(was)
        if not kept and self.layer is not None:
            self._on_filter((low, high))

    def _filter_of_layer(self) -> tuple[str, tuple[float, float]] | None:
        return None if self.layer is None else self.layer.metadata[KEY].get("filter")

    def _filter_values(self) -> Any | None:
        return None if self.layer is None else self.layer.per_fiber.get(self._measure.currentData())

    def _on_filter(self, limits: tuple[float, float]) -> None:
        values = self._filter_values()
        if values is not None and self.layer is not None:
            half = 0.51 * 10.0 ** -self._range.decimals()  # the slider rounds
            self.layer.shown = (values >= limits[0] - half) & (values <= limits[1] + half)
            self.layer.metadata[KEY]["filter"] = (self._measure.currentData(), tuple(limits))


def fiber_numbers(fibers: Tractogram) -> list[Number]:
    """Return how many fibers, how long, how fast, how far g(v, v) drifted."""
    launched, seconds = fibers.parameters.get("launched", len(fibers)), fibers.parameters.get("seconds", 0.0)
    device = str(fibers.parameters.get("device", "")).split(" (")[0]
    number = functools.partial(Number, group="Fibers")
    rows = [number(name="number", text=f"{len(fibers):,} of {launched:,}" if device else f"{len(fibers):,}")]
    if device:
        rows.append(number(name=f"time on {device}", text=f"{seconds:.2f}", unit="s"))
    if len(fibers):
        lengths, drift = fibers.lengths_mm(), fibers.per_fiber.get("drift")
        rows += [
            number(name="mean length", text=f"{lengths.mean():.0f}", unit="mm"),
            number(name="longest", text=f"{lengths.max():.0f}", unit="mm"),
        ]
        if drift is not None and drift.max() > 0:
            rows += [
                number(name="drift of g(v, v), median", text=f"{np.median(drift):.1e}"),
                number(name="drift of g(v, v), 99 % below", text=f"{np.percentile(drift, 99):.1e}"),
            ]
    return rows


def notes_text(notes: Iterable[str]) -> str:
    """Join notes of a reader or a run, each as a sentence with a capital letter and a full stop."""
    return " ".join(note[:1].upper() + note[1:].rstrip(".") + "." for note in notes if note)


def _decimals(largest: float) -> int:
    """Digits behind the point that show three figures of a number."""
    return int(np.clip(2 - np.floor(np.log10(largest)), 0, 9)) if largest > 0 else 2
