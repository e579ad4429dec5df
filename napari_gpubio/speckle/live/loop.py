"""The live loop: source thread -> ring -> processing thread -> newest result.

No thread of the loop calls into a GUI: a GUI's timer reads `LiveLoop.latest` and `LiveLoop.status`, and calls
`LiveLoop.count_drawn` when it has drawn. An error in a thread ends both and is reported in the status.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.speckle.live.buffers import FrameMode, Latest, Ring
from napari_gpubio.speckle.live.frame import CLOCK, Clock, Frame, Pixels, Source
from napari_gpubio.speckle.live.recording import Recording

logger = logging.getLogger(__name__)
Process = Callable[[Pixels], Any]
_MAX_EVENTS = 64  # about two seconds of a camera
_LEVEL_PERIOD_S = 0.1


class State(StrEnum):
    """State of a live loop."""

    STOPPED = "stopped"
    RUNNING = "running"
    ENDED = "ended"  # the source had no more frames, and all were processed
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveStatus:
    """Status of a live loop at one moment; frames are counted from the start.

    Parameters
    ----------
    message
        What went wrong or is waited for, or empty.
    camera_hz, processed_hz, drawn_hz
        Frames per second that came from the source, were processed, and were drawn.
    dropped, skipped, lost
        Frames lost because the ring was full ("every frame"), passed over on purpose ("most recent"), and known to
        have been lost at the source.
    waiting, slots, ring_megabytes
        Frames in the ring, its size, and its memory (MiB).
    mean_level, saturated_percent
        Of a recent frame; NaN before the first.
    latency_ms
        Time from the arrival of a frame to its result, mean of the last ones; NaN before the first.
    """

    state: State
    message: str
    camera_hz: float
    processed_hz: float
    drawn_hz: float
    received: int
    processed: int
    drawn: int
    dropped: int
    skipped: int
    lost: int
    waiting: int
    slots: int
    ring_megabytes: float
    mean_level: float
    saturated_percent: float
    latency_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveResult:
    """What the process returned for a frame, its number and time, and the time from its arrival to this result."""

    value: Any
    number: int
    timestamp_s: float
    latency_s: float


class LiveLoop:
    """Runs frames of a source through a process.

    Parameters
    ----------
    source
        See `Source`.
    process
        Called with the pixels of a frame, shape (H, W), which are valid during the call only; returns a result of any
        type.
    mode
        ``"every frame"`` or ``"most recent"``; see `FrameMode`.
    slots
        Slots of the ring.
    latest
        Buffer of results; for a process that reuses spare results, which needs it as well.
    clock
        For tests.

    Raises
    ------
    InvalidInput
        If the mode is unknown or there are too few slots.
    """

    def __init__(
        self,
        source: Source,
        process: Process,
        *,
        mode: FrameMode | str = FrameMode.EVERY_FRAME,
        slots: int = 16,
        latest: Latest[LiveResult] | None = None,
        clock: Clock = CLOCK,
    ) -> None:
        self.source = source
        self.latest: Latest[LiveResult] = Latest() if latest is None else latest
        self._process, self._mode, self._slots, self._clock = process, mode, slots, clock
        self._threads: tuple[threading.Thread, ...] = ()
        self._recording: Recording | None = None
        self._reset()

    @property
    def is_running(self) -> bool:
        """Whether a thread is running."""
        return any(thread.is_alive() for thread in self._threads)

    @property
    def recording(self) -> Recording | None:
        """The current recording, or the last one."""
        return self._recording

    def start(self) -> None:
        """Start both threads, with counts of 0.

        Raises
        ------
        InvalidInput
            If it runs already.
        """
        if self.is_running:
            how = "is still ending; start again in a moment" if self._stop.is_set() else "runs already; stop it first"
            raise InvalidInput(f"live imaging from {self.source.name} {how}")
        self._reset()
        self.latest.clear()
        self._state = State.RUNNING
        self._threads = tuple(
            threading.Thread(target=work, name=name, daemon=True)
            for work, name in ((self._acquire, "speckle source"), (self._work, "speckle process"))
        )
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Request both threads to end, and return at once; waiting frames are not processed."""
        if self._state is State.RUNNING:
            self._state = State.STOPPED
        self._stop.set()
        self._ring.close(discard=True)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for both threads to end; return whether they have."""
        for thread in self._threads:
            thread.join(timeout_s)
        return not self.is_running

    def close(self, timeout_s: float = 10.0) -> bool:
        """Stop, wait for both threads and the recording, and clear the results; return whether all have ended."""
        self.stop()
        ended = self.wait(timeout_s)
        if self._recording is not None:
            ended = self._recording.close(timeout_s) and ended
        self.latest.clear()
        return ended

    def record(self, recording: Recording | None) -> None:
        """Send every raw frame from now on to a recording as well; None ends the current one.

        A recording also ends with the source.
        """
        before, self._recording = self._recording, recording
        if before is not None:
            before.stop()

    def count_drawn(self) -> None:
        """Count a result as drawn."""
        self._drawn.add()
        self._n_drawn += 1

    def status(self) -> LiveStatus:
        """Return the status at this moment."""
        counts, recorder = self._ring.counts, "" if self._recording is None else self._recording.status.message
        return LiveStatus(
            state=self._state,
            message=self._message or recorder or self.source.message,
            camera_hz=self._camera.rate_hz,
            processed_hz=self._processed.rate_hz,
            drawn_hz=self._drawn.rate_hz,
            received=counts.received,
            processed=self._n_processed,
            drawn=self._n_drawn,
            dropped=counts.dropped,
            skipped=counts.skipped,
            lost=self.source.lost,
            waiting=counts.waiting,
            slots=self._ring.slots,
            ring_megabytes=self._ring.nbytes / 2**20,
            mean_level=self._levels.mean_level,
            saturated_percent=self._levels.saturated_percent,
            latency_ms=1e3 * self._processed.mean,
        )

    def _reset(self) -> None:
        self._ring = Ring(self._slots, self._mode)
        self._stop = threading.Event()
        self._state, self._message = State.STOPPED, ""
        self._camera, self._processed, self._drawn = (RateMeter(self._clock) for _ in range(3))
        self._levels = LevelMeter(self._clock)
        self._n_processed = self._n_drawn = 0

    def _acquire(self) -> None:
        """Run the source thread."""
        try:
            with self._errors_reported(self.source.name), closing(self.source):
                self.source.open()
                with closing(self.source.frames(self._stop)) as frames:
                    self._accept_all(frames)
        finally:
            self._ring.close()
            if self._recording is not None:
                self._recording.stop()

    def _accept_all(self, frames: Iterator[Frame]) -> None:
        for frame in frames:
            self._camera.add()
            if (recording := self._recording) is not None:
                recording.offer(frame)
            if not self._ring.put(frame, can_wait=self.source.can_wait):
                return

    def _work(self) -> None:
        """Run the processing thread."""
        try:
            with self._errors_reported("the processing"):
                while not self._ring.ended:
                    with self._ring.take() as frame:
                        if frame is not None:
                            self._process_one(frame)
            if self._state is State.RUNNING:
                self._state = State.ENDED
        finally:
            self._stop.set()
            self._ring.close(discard=True)

    def _process_one(self, frame: Frame) -> None:
        self._levels.measure(frame.pixels, self.source.bits)
        value = self._process(frame.pixels)
        latency_s = self._clock.now() - frame.arrived_s
        self.latest.publish(
            LiveResult(value=value, number=frame.number, timestamp_s=frame.timestamp_s, latency_s=latency_s)
        )
        self._processed.add(latency_s)
        self._n_processed += 1

    @contextmanager
    def _errors_reported(self, what: str) -> Iterator[None]:
        """Report an error in the block in the status."""
        try:
            yield
        except GpuBioError as error:
            self._fail(str(error))
        except MemoryError as error:
            self._fail(f"{what} ran out of memory ({error}); use fewer slots or smaller frames")
        except Exception as error:  # there is no caller to raise to
            logger.exception("%s failed", what)
            self._fail(f"{what} failed: {type(error).__name__}: {error}")

    def _fail(self, message: str) -> None:
        self._message = self._message or message
        self._state = State.FAILED


class RateMeter:
    """Rate of the last events, and mean of their values."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._times: deque[float] = deque(maxlen=_MAX_EVENTS)
        self._values: deque[float] = deque(maxlen=_MAX_EVENTS)

    def add(self, value: float = 0.0) -> None:
        """Add an event that happens now."""
        with self._lock:
            self._times.append(self._clock.now())
            self._values.append(value)

    @property
    def rate_hz(self) -> float:
        """Events per second; it falls toward 0 when no more come."""
        with self._lock:
            n = len(self._times)
            if n < 2:
                return 0.0
            first, last = self._times[0], self._times[-1]
        # after the next of n regular events is due, n periods after the first, the second term is larger
        elapsed = max(last - first, (self._clock.now() - first) * (n - 1) / n)
        return (n - 1) / elapsed if elapsed > 0 else 0.0

    @property
    def mean(self) -> float:
        """Mean of the last values, or NaN."""
        with self._lock:
            return sum(self._values) / len(self._values) if self._values else float("nan")


class LevelMeter:
    """Mean level and saturated share of frames, measured at most ten times a second: it takes 1 ms per megapixel."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._measured_s = -float("inf")
        self.mean_level = float("nan")
        self.saturated_percent = float("nan")

    def measure(self, pixels: Pixels, bits: int) -> None:
        """Measure a frame, if the last measurement is old enough."""
        if self._clock.now() - self._measured_s < _LEVEL_PERIOD_S:
            return
        self._measured_s = self._clock.now()
        self.mean_level = float(pixels.mean(dtype=np.float64))
        self.saturated_percent = 100.0 * int(np.count_nonzero(pixels >= 2**bits - 1)) / pixels.size
