"""Inputs and readouts of live imaging; the displayed map: its color bar, limits, baseline, video."""

import math
from datetime import datetime
from typing import Any

import numpy as np
from napari.layers import Image
from qtpy.QtCore import QRectF, QSignalBlocker, Qt, Signal
from qtpy.QtGui import QColor, QImage, QPainter
from qtpy.QtWidgets import QCheckBox, QGridLayout, QSpinBox, QWidget

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.numbers import NO_NUMBER, short_number
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Follower, connect_all
from napari_gpubio.gui.fields import ElidedComboBox, NumberBox
from napari_gpubio.gui.file_dialogs import save_path
from napari_gpubio.gui.forms import Label, aligned_form, fill_column, muted_label, row_label, row_of, text_button
from napari_gpubio.gui.layers import LayerBox, LayerListener
from napari_gpubio.speckle.gui.panel_layers import is_map, limits_of, set_limits
from napari_gpubio.speckle.live import FrameMode, LiveStatus, RecordingStatus

START, STOP, ENDING = "Start live", "Stop live", "ending…"
RECORD, END = "Record…", "End recording"
_MODE_TIPS = {
    FrameMode.EVERY_FRAME: "Processes every frame, for time courses; "
    "what does not fit in the buffer is dropped and counted",
    FrameMode.MAX_RECENT: "Processes the newest frame; frames that cannot be processed in time are skipped and counted",
}
_RECORDING_FILES = "TIFF (*.tif);;zarr (*.zarr)"
_NUMBERS = {
    "camera": ("Camera", "Frames per second from the source"),
    "processed": ("Processed", "Maps per second"),
    "drawn": ("Drawn", "Maps per second drawn on screen"),
    "latency": ("Latency", "From the arrival of a frame to its map"),
    "ring": ("Ring", "Frames waiting to be processed, of the buffer's capacity"),
    "dropped": ("Dropped", "Frames lost because the buffer was full or the source dropped them"),
    "skipped": ("Skipped", "Frames skipped on purpose in the mode 'most recent'"),
    "saturated": ("Saturated", "Share of pixels at the camera's largest value; their contrast is too low"),
    "level": ("Mean level", "Of the raw frame"),
}
_COLUMNS = 3
_MAX_SATURATED_PERCENT = 0.1  # without a warning


class LiveReadout(QWidget):
    """A small table of numbers; those that need attention are in the color of warnings."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.values: dict[str, Label] = {}
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 2, 0, 2)
        grid.setVerticalSpacing(1)
        for number, (key, (name, tip)) in enumerate(_NUMBERS.items()):
            row, column = divmod(number, _COLUMNS)
            title, value = muted_label(self, name), Label(NO_NUMBER, self)
            for label in (title, value):
                label.setToolTip(tip)
            grid.addWidget(title, 2 * row, column)
            grid.addWidget(value, 2 * row + 1, column)
            self.values[key] = value

    def show_status(self, status: LiveStatus) -> None:
        """Show the numbers of a moment."""
        lost = status.dropped + status.lost
        texts = {
            "camera": f"{status.camera_hz:.1f} /s",
            "processed": f"{status.processed_hz:.1f} /s",
            "drawn": f"{status.drawn_hz:.1f} /s",
            "latency": _number_text(status.latency_ms, "{:.1f} ms"),
            "ring": f"{status.waiting} of {status.slots}",
            "dropped": f"{lost:,} of {status.received + status.lost:,}",
            "skipped": f"{status.skipped:,}",
            "saturated": _number_text(status.saturated_percent, "{:.2f} %"),
            "level": _number_text(status.mean_level, "{:,.0f} ADU"),
        }
        for key, text in texts.items():
            self.values[key].setText(text)
        self._warn("dropped", is_on=lost > 0)
        self._warn("saturated", is_on=status.saturated_percent > _MAX_SATURATED_PERCENT)
        self._warn("ring", is_on=status.waiting >= status.slots - 1)

    def clear_rates(self) -> None:
        """Clear the numbers that mean nothing any more once no frames come; the counts stay to be read."""
        for key in ("camera", "processed", "drawn", "latency", "ring"):
            self.values[key].setText(NO_NUMBER)
        self._warn("ring", is_on=False)

    def _warn(self, key: str, *, is_on: bool) -> None:
        style = theme.text_style(theme.WARNING, bold=True) if is_on else ""
        if self.values[key].styleSheet() != style:
            self.values[key].setStyleSheet(style)


class LiveBox(QWidget):
    """Start, recording, and once frames have come, readouts. ``record_requested`` carries a path."""

    start_requested = Signal()
    stop_requested = Signal()
    record_requested = Signal(object)
    recording_end_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.start_button = text_button(START, "", self, self._on_start)
        record_tip = "Write every raw frame to a TIFF or zarr file, with its time"
        self.record_button = text_button(RECORD, record_tip, self, self._on_record)
        self.record_button.setEnabled(False)
        self.mode = ElidedComboBox(self)
        for mode, tip in _MODE_TIPS.items():
            self.mode.addItem(str(mode))
            self.mode.setItemData(self.mode.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.mode.setToolTip("\n".join(f"{mode}: {tip}" for mode, tip in _MODE_TIPS.items()))
        self.readout = LiveReadout(self)
        self.record_text = Label(self, wordWrap=True)
        self._is_live = self._is_recording = False
        row = row_of(self.start_button, self.mode, self.record_button, stretch=(1, 1, 1))
        fill_column(self, row, self.readout, self.record_text)
        self.readout.hide()
        self.record_text.hide()

    def set_live(self, *, is_live: bool) -> None:
        """Set the buttons and readouts for live imaging, or for its end."""
        self._is_live = is_live
        self.start_button.setText(STOP if is_live else START)
        self.start_button.setEnabled(True)
        self.mode.setEnabled(not is_live)
        self.record_button.setEnabled(is_live or self._is_recording)
        if is_live:
            self.readout.show()
        else:
            self.readout.clear_rates()

    def set_ending(self) -> None:
        """Show that live imaging will stop in a moment."""
        self.start_button.setText(ENDING)
        self.start_button.setEnabled(False)

    def show_recording(self, recording: RecordingStatus | None) -> None:
        """Show how far the recording is."""
        self._is_recording = recording is not None and recording.running
        self.record_button.setText(END if self._is_recording else RECORD)
        self.record_button.setEnabled(self._is_live or self._is_recording)
        self.record_text.setVisible(recording is not None)
        if recording is not None:
            self.record_text.setText(_recording_text(recording))

    def _on_start(self) -> None:
        (self.stop_requested if self._is_live else self.start_requested).emit()

    def _on_record(self) -> None:
        if self._is_recording:
            self.recording_end_requested.emit()
            return
        name = f"speckle {datetime.now().astimezone():%Y-%m-%d %H-%M-%S}"
        path = save_path(self, "Record raw frames", _RECORDING_FILES, name=name)
        if path is not None:
            self.record_requested.emit(path)


def _recording_text(recording: RecordingStatus) -> str:
    lost = f", {recording.dropped:,} dropped (the disk is too slow)" if recording.dropped else ", none dropped"
    what = "recording to" if recording.running else "recorded to"
    waiting = f", {recording.waiting} waiting" if recording.waiting else ""
    written = f"{recording.written:,} frames written, {recording.megabytes:,.0f} MiB"
    return f"{what} {recording.path.name}: {written}{lost}{waiting}"


def _number_text(value: float, form: str) -> str:
    return form.format(value) if math.isfinite(value) else NO_NUMBER


NO_MAP = "no map yet"
NO_BASELINE = "none taken yet; press Take while frames come in"
_MAX_BASELINE_MAPS, _BASELINE_MAPS = 10_000, 30
_BAR, _GAP = 14, 3  # pixels
_VIDEO_TIP = "Write the displayed map as a GIF, an mp4 (needs pip install imageio-ffmpeg) or PNG images"
_BASELINE_TIP = "Maps averaged as the baseline, flow 1. Live: the next ones after Take; of a stack: the first ones"


def _why_no_map(layer: Any) -> str | None:
    return None if is_map(layer) else "not a map of this panel" if isinstance(layer, Image) else ""


class ColorBar(QWidget):
    """The colors of an image layer between its limits, with the unit, as wide as the panel."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = ""
        self._colors: Any = None
        self._limits = (0.0, 1.0)
        self.setFixedHeight(_BAR + 2 * _GAP + self.fontMetrics().height())

    def set_layer(self, layer: Any | None, title: str) -> None:
        """Show the colors of a layer, or nothing if it is None."""
        self.title = title
        if layer is None:
            self._colors = None
        else:
            self._colors = np.ascontiguousarray(255 * layer.colormap.map(np.linspace(0, 1, 256)), np.uint8)
            low, high = layer.contrast_limits
            self._limits = (float(low), float(high))
        self.setVisible(layer is not None)
        self.update()

    def paintEvent(self, _event: Any) -> None:
        """Qt: draw."""
        if self._colors is None:
            return
        painter = QPainter(self)
        image = QImage(self._colors.tobytes(), 256, 1, 1024, QImage.Format.Format_RGBA8888)
        painter.drawImage(QRectF(0, _GAP, self.width(), _BAR), image)
        painter.setPen(QColor(theme.TEXT))
        below = QRectF(0, _BAR + _GAP, self.width(), self.height() - _BAR - _GAP)
        low, high = self._limits
        sides = (Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignHCenter, Qt.AlignmentFlag.AlignRight)
        for side, text in zip(sides, (short_number(low, 3), self.title, short_number(high, 3)), strict=True):
            painter.drawText(below, int(side | Qt.AlignmentFlag.AlignVCenter), text)
        painter.end()


class MapBox(QWidget, Follower):
    """The map that is displayed, and the baseline of relative flow."""

    baseline_requested = Signal()
    video_requested = Signal()
    baseline_changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.layer_box = LayerBox(viewer, _why_no_map, empty=NO_MAP, parent=self)
        self.layer_box.setMinimumContentsLength(6)
        self.color_bar = ColorBar(self)
        self.low, self.high = (NumberBox(-1e12, 1e12, 0.0, 4, self) for _ in range(2))
        rescale_tip = "Set the limits that contain 98 % of the values on screen"
        self.rescale_button = text_button("Rescale", rescale_tip, self, self._rescale)
        self.on_canvas = QCheckBox("color bar over the image", self, checked=True)
        self.baseline_maps = QSpinBox(self)
        self.baseline_maps.setRange(1, _MAX_BASELINE_MAPS)
        self.baseline_maps.setValue(_BASELINE_MAPS)
        take_tip = "Average the next live maps as the baseline, flow 1"
        self.baseline_button = text_button("Take", take_tip, self, self.baseline_requested.emit)
        self.baseline_text = muted_label(self, NO_BASELINE)
        self.video_button = text_button("Video…", _VIDEO_TIP, self, self.video_requested.emit)
        self._viewer = viewer
        self._typed_baseline = _BASELINE_MAPS  # by the user, where a stack has fewer maps
        self._listener = LayerListener(
            viewer, lambda layer: layer == self.layer, layers_changed=self._update, colors_changed=self._update
        )
        self.followers = (self.layer_box, self._listener)
        self._fill()
        connect_all((
            (self.layer_box.currentIndexChanged, self._on_layer),
            (self.on_canvas.toggled, self._update_canvas),
            (self.baseline_maps.valueChanged, self._on_baseline_maps),
            (self.low.valueChanged, self._on_limits),
            (self.high.valueChanged, self._on_limits),
        ))  # fmt: skip

    @property
    def layer(self) -> Any | None:
        """The chosen map, or None."""
        return self.layer_box.layer

    def attach(self) -> None:
        """Follow the viewer's layers."""
        super().attach()
        self._on_layer()

    def limit_baseline(self, maps: int | None) -> None:
        """Offer at most so many maps for a baseline, or any number if None; a larger number comes back with them."""
        before = self.baseline_maps.value()
        with QSignalBlocker(self.baseline_maps):
            self.baseline_maps.setMaximum(_MAX_BASELINE_MAPS if maps is None else max(1, maps))
            self.baseline_maps.setValue(self._typed_baseline)
        if self.baseline_maps.value() != before:
            self.baseline_changed.emit()

    def _fill(self) -> None:
        form = aligned_form(None)
        tip = "The live map, or one of a whole stack"
        form.addRow(row_label("Displayed map", tip, self), row_of(self.layer_box, self.video_button))
        limits = row_of(self.low, self.high, self.rescale_button, stretch=(1, 1, 0))
        form.addRow(row_label("Limits", "Kept fixed, so that changes in flow remain visible", self), limits)
        form.addRow(row_label("Baseline (maps)", _BASELINE_TIP, self), row_of(self.baseline_maps, self.baseline_button))
        form.addRow("", self.baseline_text)
        form.addRow(self.on_canvas)
        fill_column(self, self.color_bar, form)
        self.color_bar.hide()

    def _on_baseline_maps(self, count: int) -> None:
        self._typed_baseline = count
        self.baseline_changed.emit()

    def _on_layer(self, *_: Any) -> None:
        self._listener.refresh()
        for part in (self.low, self.high, self.rescale_button, self.on_canvas, self.video_button):
            part.setEnabled(self.layer is not None)
        self._update_canvas()

    def _update(self, *_: Any) -> None:
        layer = self.layer
        self.color_bar.set_layer(layer, "" if layer is None else str(carried(layer, "title") or layer.name))
        if layer is None:
            return
        low, high = layer.contrast_limits
        for box, value in ((self.low, low), (self.high, high)):
            box.setSingleStep((high - low) / 20)
            box.show_value(value)

    def _rescale(self) -> None:
        """Set the limits by the values on screen: of a stack, those of the displayed map."""
        layer = self.layer
        if layer is None:
            return
        values = layer.data
        if layer.ndim > 2:
            at = float(layer.world_to_data(self._viewer.dims.point)[0])
            values = values[min(max(round(at), 0), len(values) - 1)]
        set_limits(layer, limits_of(values))

    def _on_limits(self, *_: Any) -> None:
        low, high = self.low.value(), self.high.value()
        if self.layer is not None and low < high:
            set_limits(self.layer, (low, high))

    def _update_canvas(self, *_: Any) -> None:
        if self.layer is not None:
            self.layer.colorbar.visible = self.on_canvas.isChecked()
