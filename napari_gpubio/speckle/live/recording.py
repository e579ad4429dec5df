"""Recording of raw frames, in a thread and a ring of its own.

A slow disk drops recorded frames, which are counted, and never live ones. A CSV beside the file has timestamps.
"""

import errno
import logging
import threading
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.speckle.live.buffers import FrameMode, Ring
from napari_gpubio.speckle.live.frame import CLOCK, Clock, Frame
from napari_gpubio.speckle.live.writers import FrameWriter, TimestampTable, check_new, open_writer, timestamps_path

logger = logging.getLogger(__name__)
SYNC_PERIOD_S = 1.0
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingStatus:
    """Status of a recording.

    ``running`` is whether frames are still accepted, ``dropped`` counts those lost because the disk was too slow,
    ``megabytes`` is the size of what was written (MiB), and ``message`` what went wrong, or empty.
    """

    path: Path
    running: bool
    written: int
    dropped: int
    waiting: int
    megabytes: float
    message: str


class Recording:
    """A recording that starts at once and runs until it is stopped or writing fails.

    Errors of the disk are reported in `status`, not raised in the thread that offers frames.

    Parameters
    ----------
    path
        A new file, .tif (BigTIFF) or .zarr (an optional extra).
    about
        Metadata, as JSON can hold it: exposure, camera.
    slots
        Frames that may wait for the disk.
    clock
        For tests.

    Raises
    ------
    InvalidInput
        If the path exists already, its folder is missing, or its suffix is unknown.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        about: Mapping[str, Any] | None = None,
        slots: int = 32,
        clock: Clock = CLOCK,
    ) -> None:
        self.path = Path(path)
        check_new(self.path)
        self._about = {"began": datetime.now().astimezone().isoformat(), **(about or {})}
        self._ring = Ring(slots, FrameMode.EVERY_FRAME)
        self._clock = clock
        self._written, self._bytes, self._message = 0, 0, ""
        self._thread = threading.Thread(target=self._work, name="speckle recorder", daemon=True)
        self._thread.start()

    @property
    def status(self) -> RecordingStatus:
        """Status at this moment."""
        counts = self._ring.counts
        return RecordingStatus(
            path=self.path,
            running=self._thread.is_alive(),
            written=self._written,
            dropped=counts.dropped,
            waiting=counts.waiting,
            megabytes=self._bytes / 2**20,
            message=self._message,
        )

    def offer(self, frame: Frame) -> None:
        """Copy a frame to be recorded, and return at once; frames after the end are ignored."""
        try:
            self._ring.put(frame)
        except (GpuBioError, MemoryError) as error:
            self._fail(f"the recording to {self.path.name} ended: {error}")

    def stop(self) -> None:
        """Accept no more frames; waiting frames are still written."""
        self._ring.close()

    def close(self, timeout_s: float = 30.0) -> bool:
        """Stop, and wait until all frames are written; return whether they are."""
        self.stop()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _fail(self, message: str) -> None:
        self._message = self._message or message
        self._ring.close()

    def _work(self) -> None:
        try:
            self._record()
        except OSError as error:
            self._fail(self._refusal(error))
        except GpuBioError as error:
            self._fail(f"the recording to {self.path.name} ended: {error}")
        except Exception as error:  # there is no caller to raise to
            logger.exception("the recorder failed")
            self._fail(f"the recording to {self.path.name} failed: {error!r}; {self._kept()}")
        finally:
            self._ring.close(discard=True)

    def _record(self) -> None:
        synced_s = self._clock.now()
        writer: FrameWriter | None = None
        table: TimestampTable | None = None
        with ExitStack() as files:
            while not self._ring.ended:
                with self._ring.take() as frame:
                    if frame is None:
                        continue
                    if writer is None or table is None:
                        writer = files.enter_context(closing(open_writer(self.path, frame.pixels, self._about)))
                        table = files.enter_context(closing(TimestampTable(timestamps_path(self.path))))
                    writer.append(frame.pixels)
                    self._written += 1
                    self._bytes += frame.pixels.nbytes
                    table.append(frame, self._ring.counts.dropped)
                if self._clock.now() - synced_s > SYNC_PERIOD_S:
                    writer.sync()
                    table.sync()
                    synced_s = self._clock.now()

    def _refusal(self, error: OSError) -> str:
        if error.errno in _FULL:
            return (
                f"the disk is full and the recording to {self.path.name} ended; {self._kept()}. "
                "Free some space and start another"
            )
        return f"{self.path.name} can no longer be written ({error.strerror or error}); {self._kept()}"

    def _kept(self) -> str:
        return f"its {self._written} frames can be read"
