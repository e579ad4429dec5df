"""Inputs and readouts of live imaging: start and stop, which frames, recording."""

import math
from datetime import datetime

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QComboBox, QGridLayout, QLabel, QWidget

from napari_gpubio.gui import theme
from napari_gpubio.gui.file_dialogs import save_path
from napari_gpubio.gui.forms import fill_column, muted_label, row_of, text_button
from napari_gpubio.speckle.live import LiveStatus, Mode, RecordingStatus

START, STOP, ENDING = "Start live", "Stop live", "ending…"
RECORD, END = "Record…", "End recording"
_MODE_TIPS = {
    Mode.EVERY_FRAME: "Processes all frames, for time courses; what does not fit in the ring is dropped and counted",
    Mode.MOST_RECENT: "Shows the newest frame; what cannot be processed in time is skipped and counted",
}
_RECORDING_FILES = "TIFF (*.tif);;zarr (*.zarr)"
_NUMBERS = {
    "camera": ("Camera", "Frames per second that come from the source"),
    "processed": ("Processed", "Maps per second"),
    "drawn": ("Drawn", "Maps per second that reach the screen"),
    "latency": ("Latency", "From the arrival of a frame to its map"),
    "ring": ("Ring", "Frames that wait to be processed, and room for them"),
    "dropped": ("Dropped", "Frames lost: the ring was full, or the source lost them before"),
    "skipped": ("Skipped", "Frames passed over on purpose, in the mode 'most recent'"),
    "saturated": ("Saturated", "Share of pixels at the camera's largest value: they have too little contrast"),
    "level": ("Mean level", "Of the raw frame"),
}
_COLUMNS = 3
_MOST_SATURATED = 0.1  # percent that pass without a warning
_NO_NUMBER = "–"


class LiveReadout(QWidget):
    """A small table of numbers; those that need attention are in the color of warnings."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.values: dict[str, QLabel] = {}
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 2, 0, 2)
        grid.setVerticalSpacing(1)
        for number, (key, (name, tip)) in enumerate(_NUMBERS.items()):
            row, column = divmod(number, _COLUMNS)
            title, value = muted_label(self, name), QLabel(_NO_NUMBER, self)
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
            "level": _number_text(status.mean_level, "{:.0f} ADU"),
        }
        for key, text in texts.items():
            self.values[key].setText(text)
        self._warn("dropped", is_on=lost > 0)
        self._warn("saturated", is_on=status.saturated_percent > _MOST_SATURATED)
        self._warn("ring", is_on=status.waiting >= status.slots - 1)

    def clear_rates(self) -> None:
        """Clear the numbers that mean nothing any more once no frames come; the counts stay to be read."""
        for key in ("camera", "processed", "drawn", "latency", "ring"):
            self.values[key].setText(_NO_NUMBER)
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
        self.mode = QComboBox(self)
        for mode, tip in _MODE_TIPS.items():
            self.mode.addItem(str(mode))
            self.mode.setItemData(self.mode.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.mode.setToolTip("\n".join(f"{mode}: {tip}" for mode, tip in _MODE_TIPS.items()))
        self.readout = LiveReadout(self)
        self.record_text = QLabel(self)
        self.record_text.setWordWrap(True)
        self._is_live = self._is_recording = False
        row = row_of(self.start_button, self.mode, self.record_button)
        for number in range(row.count()):
            row.setStretch(number, 1)
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
    return form.format(value) if math.isfinite(value) else _NO_NUMBER
