"""The part of the panel that runs live imaging: start and stop, which frames, read-outs, recording."""

from datetime import datetime
from pathlib import Path
from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QComboBox, QFileDialog, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from napari_gpubio.speckle.gui.readout import LiveReadout
from napari_gpubio.speckle.live import LiveStatus, Mode, RecordingStatus

START, STOP, ENDING = "Start live", "Stop live", "ending …"
RECORD, END = "Record …", "End recording"
_TIPS = {
    Mode.MOST_RECENT: "Shows the newest frame; what cannot be processed in time is skipped and counted",
    Mode.EVERY_FRAME: "Processes all frames, for time courses; what does not fit in the ring is dropped and counted",
}
_FILES = "TIFF (*.tif);;zarr (*.zarr)"


class LiveBox(QWidget):
    """Start, read-outs and recording.

    ``started`` and ``stopped`` say that the button was pressed; ``record_wanted`` carries a path.
    """

    started = Signal()
    stopped = Signal()
    record_wanted = Signal(object)
    record_ended = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.start_button, self.record_button = QPushButton(START, self), QPushButton(RECORD, self)
        self.record_button.setToolTip("Write every raw frame to a TIFF or zarr file, with its time")
        self.record_button.setEnabled(False)
        self.mode = QComboBox(self)
        for mode in (Mode.EVERY_FRAME, Mode.MOST_RECENT):
            self.mode.addItem(str(mode))
            self.mode.setItemData(self.mode.count() - 1, _TIPS[mode], Qt.ItemDataRole.ToolTipRole)
        self.mode.setToolTip("\n".join(f"{mode}: {text}" for mode, text in _TIPS.items()))
        self.readout = LiveReadout(self)
        self.record_text = QLabel(self)
        self.record_text.setWordWrap(True)
        self._is_live = self._is_recording = False
        self._fill()
        self.start_button.clicked.connect(self._on_start)
        self.record_button.clicked.connect(self._on_record)

    def show_live(self, is_live: bool) -> None:
        """Let the buttons say whether frames come."""
        self._is_live = is_live
        self.start_button.setText(STOP if is_live else START)
        self.start_button.setEnabled(True)
        self.mode.setEnabled(not is_live)
        self.record_button.setEnabled(is_live or self._is_recording)
        if not is_live:
            self.readout.show_stopped()

    def show_ending(self) -> None:
        """Say that it will stop in a moment."""
        self.start_button.setText(ENDING)
        self.start_button.setEnabled(False)

    def show_status(self, status: LiveStatus, recording: RecordingStatus | None) -> None:
        """Show the read-outs of a moment."""
        self.readout.show_status(status)
        self.show_recording(recording)

    def show_recording(self, recording: RecordingStatus | None) -> None:
        """Say how far the recording is."""
        self._is_recording = recording is not None and recording.running
        self.record_button.setText(END if self._is_recording else RECORD)
        self.record_button.setEnabled(self._is_live or self._is_recording)
        self.record_text.setVisible(recording is not None)
        if recording is not None:
            self.record_text.setText(_words(recording))

    def _fill(self) -> None:
        row = QHBoxLayout()
        row.addWidget(self.start_button, 2)
        row.addWidget(self.mode, 2)
        row.addWidget(self.record_button, 2)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        for part in (self.readout, self.record_text):
            layout.addWidget(part)
        layout.insertLayout(0, row)
        self.record_text.hide()

    def _on_start(self) -> None:
        (self.stopped if self._is_live else self.started).emit()

    def _on_record(self, *_: Any) -> None:
        if self._is_recording:
            self.record_ended.emit()
            return
        name = f"speckle {datetime.now().astimezone():%Y-%m-%d %H-%M-%S}.tif"
        chosen, kind = QFileDialog.getSaveFileName(self, "Record raw frames", name, _FILES)
        if chosen:
            self.record_wanted.emit(_with_suffix(Path(chosen), kind))


def _with_suffix(path: Path, kind: str) -> Path:
    """A path with the ending of the chosen kind of file, where the user typed none."""
    return path if path.suffix else path.with_suffix(".zarr" if "zarr" in kind else ".tif")


def _words(recording: RecordingStatus) -> str:
    lost = f", {recording.dropped:,} dropped (the disk is too slow)" if recording.dropped else ", none dropped"
    what = "recording to" if recording.running else "recorded to"
    waiting = f", {recording.waiting} waiting" if recording.waiting else ""
    written = f"{recording.written:,} frames written, {recording.megabytes:,.0f} MiB"
    return f"{what} {recording.path.name}: {written}{lost}{waiting}"
