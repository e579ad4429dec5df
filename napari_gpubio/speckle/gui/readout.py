"""The read-outs of live imaging."""

import math

from qtpy.QtWidgets import QGridLayout, QLabel, QWidget

from napari_gpubio.speckle.live import LiveStatus

_ALARM, _QUIET = "color: #ffb347; font-weight: 600;", ""
_NAMES = {
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


class LiveReadout(QWidget):
    """A small table of numbers; those that should worry are in orange."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.values: dict[str, QLabel] = {}
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 2, 0, 2)
        grid.setVerticalSpacing(1)
        for place, (key, (name, tip)) in enumerate(_NAMES.items()):
            row, column = divmod(place, _COLUMNS)
            title, value = QLabel(name, self), QLabel("–", self)
            title.setStyleSheet("color: #9a9a9a; font-size: 8pt;")
            for label in (title, value):
                label.setToolTip(tip)
            grid.addWidget(title, 2 * row, column)
            grid.addWidget(value, 2 * row + 1, column)
            self.values[key] = value

    def show_status(self, status: LiveStatus) -> None:
        """Show the numbers of a moment."""
        lost = status.dropped + status.lost
        saturated = status.saturated_percent
        texts = {
            "camera": f"{status.camera_hz:.1f} /s",
            "processed": f"{status.processed_hz:.1f} /s",
            "drawn": f"{status.drawn_hz:.1f} /s",
            "latency": _told(status.latency_ms, "{:.1f} ms"),
            "ring": f"{status.waiting} of {status.slots}",
            "dropped": f"{lost:,} of {status.received + status.lost:,}",
            "skipped": f"{status.skipped:,}",
            "saturated": _told(saturated, "{:.2f} %"),
            "level": _told(status.mean_level, "{:.0f} ADU"),
        }
        for key, text in texts.items():
            self.values[key].setText(text)
        self._alarm("dropped", lost > 0)
        self._alarm("saturated", saturated > _MOST_SATURATED)
        self._alarm("ring", status.waiting >= status.slots - 1)

    def show_stopped(self) -> None:
        """Nothing comes any more; the counts stay to be read."""
        for key in ("camera", "processed", "drawn", "latency", "ring"):
            self.values[key].setText("–")
        self._alarm("ring", False)

    def _alarm(self, key: str, is_on: bool) -> None:
        style = _ALARM if is_on else _QUIET
        if self.values[key].styleSheet() != style:
            self.values[key].setStyleSheet(style)


def _told(value: float, form: str) -> str:
    return form.format(value) if math.isfinite(value) else "–"
