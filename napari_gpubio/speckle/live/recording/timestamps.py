"""The table of timestamps beside a recording."""

import os
from pathlib import Path

from napari_gpubio.speckle.live.frame import Frame

COLUMNS = ("index", "number", "timestamp_s", "arrived_s", "dropped")


class TimestampTable:
    """A CSV that is flushed after each row.

    Its columns: the frame's index in the recording, its number at the source, its time on the source's clock, its
    arrival on the machine's clock, and how many frames the recorder had dropped by then.

    Parameters
    ----------
    path
        A file that does not exist.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("x", encoding="ascii", newline="")
        self._rows = 0
        self._put(",".join(COLUMNS))

    def append(self, frame: Frame, dropped: int) -> None:
        """Add the row of a frame that is written, or raise OSError."""
        self._put(f"{self._rows},{frame.number},{frame.timestamp_s:.6f},{frame.arrived_s:.6f},{dropped}")
        self._rows += 1

    def sync(self) -> None:
        """Ask the system to bring everything to the disk itself."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file; harmless when repeated."""
        self._file.close()

    def _put(self, line: str) -> None:
        self._file.write(line + "\n")
        self._file.flush()
