"""Reference cases of the live loop: it keeps up with a camera, and counts every loss.

The caller provides the process; loop, ring and simulated camera are those of live imaging.
"""

import contextlib
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import numpy as np

from napari_gpubio.core.checks import Check, Finding, difference_finding
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.speckle.live.buffers import Latest
from napari_gpubio.speckle.live.loop import LiveLoop, LiveResult, LiveStatus, Process, State
from napari_gpubio.speckle.live.sources import SimulatedCamera

LONG_S, SHORT_S = 10.0, 1.0
SHAPE, RATE_HZ = (1040, 1392), 30.0
RATE_TOLERANCE_HZ = 1.0
SLOTS = 8
_PATIENCE_S = 60.0
MakeProcess = Callable[[Device], AbstractContextManager[Process]]


def mean_level(_: Device) -> AbstractContextManager[Process]:
    """Return a trivial process: the mean of the frame, on the CPU."""
    return contextlib.nullcontext(lambda pixels: float(pixels.mean(dtype=np.float64)))


def live_checks(make_process: MakeProcess = mean_level, seconds: float = LONG_S) -> tuple[Check, ...]:
    """Return the checks of the live loop.

    Parameters
    ----------
    make_process
        Returns, for a device, a context with the process of a frame. The process is called once before the time is
        measured, so that compilation does not count.
    seconds
        Duration of the run: `LONG_S` for a check, `SHORT_S` for a test.
    """
    return (
        Check(
            name=f"live, {RATE_HZ:g} frames/s of {SHAPE[1]} x {SHAPE[0]} for {seconds:g} s",
            source="every frame of the simulated camera, in order",
            run=lambda device: _pace(make_process(device), seconds),
        ),
        Check(name="live, a consumer that sleeps", source="frames - ring slots", run=_sleeper),
    )


def _pace(making: AbstractContextManager[Process], seconds: float) -> list[Finding]:
    """Process every frame of a camera at its rate, without a backlog."""
    n = round(seconds * RATE_HZ)
    camera = SimulatedCamera(SHAPE, RATE_HZ, n_frames=n, tile=256)
    with contextlib.closing(camera), making as process:
        camera.open()
        process(np.ones(SHAPE, np.uint16))
        status = _run(LiveLoop(camera, process), seconds)
    return [
        difference_finding("frames dropped", 0, status.dropped, 0.0),
        difference_finding("frames processed", n, status.processed, 0.0),
        difference_finding("processed rate (frames/s)", RATE_HZ, status.processed_hz, RATE_TOLERANCE_HZ),
        Finding(
            quantity="latency (ms), less than the time between frames", reference=1e3 / RATE_HZ,
            result=status.latency_ms, error=max(0.0, status.latency_ms - 1e3 / RATE_HZ), tolerance=0.0,
        ),
    ]  # fmt: skip


def _sleeper(_: Device) -> list[Finding]:
    """Sleep in the first frame until the camera has ended: the ring keeps the newest frames."""
    camera, results = _SmallCamera(), _Numbers()
    status = _run(LiveLoop(camera, lambda _: camera.done.wait(_PATIENCE_S), slots=SLOTS, latest=results))
    n = camera.n_frames
    return [
        difference_finding("frames dropped", n - SLOTS, status.dropped, 0.0),
        difference_finding("frames dropped, from missing numbers", n - len(set(results.numbers)), status.dropped, 0.0),
        difference_finding("results out of order", 0, int(np.sum(np.diff(results.numbers) <= 0)), 0.0),
    ]


class _SmallCamera(SimulatedCamera):
    """A small camera with an event that is set after its last frame."""

    n_frames = 60

    def __init__(self) -> None:
        super().__init__((64, 64), 200.0, n_frames=self.n_frames, tile=64)
        self.done = threading.Event()

    def close(self) -> None:
        self.done.set()


class _Numbers(Latest[LiveResult]):
    """Records the numbers of all processed frames."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers: list[int] = []

    def publish(self, result: LiveResult) -> None:
        self.numbers.append(result.number)
        super().publish(result)


def _run(loop: LiveLoop, seconds: float = 0.0) -> LiveStatus:
    """Run a loop until its source has no more frames."""
    with contextlib.closing(loop):
        loop.start()
        loop.wait(seconds + _PATIENCE_S)
        status = loop.status()
    if status.state is not State.ENDED:
        raise GpuBioError(f"the live loop has not ended: {status.message or status.state}")
    return status
