"""Source for a camera of Micro-Manager (pymmcore-plus, an optional extra)."""

import contextlib
import threading
from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live.frame import CLOCK, Clock, Frame, SourceFailed, camera_pixels

POLL_S = 0.001  # Micro-Manager has no blocking call
SILENCE_S = 5.0


class CameraSource:
    """Delivers every frame of the current camera of a Micro-Manager core.

    Frames are popped from the core's circular buffer. If the camera numbers its frames, those lost by overflows of this
    buffer are counted in ``lost``.

    Parameters
    ----------
    core
        A ``CMMCorePlus`` with a camera; by default the shared instance of the process.
    config
        Micro-Manager configuration file to load first.
    exposure_ms
        Exposure time to set; unchanged by default.
    buffer_mb
        Size of the core's circular buffer to set, in MB; unchanged by default.
    clock
        For tests.

    Raises
    ------
    InvalidInput
        If the exposure time or the size of the buffer is not positive.
    """

    rate_hz: float | None = None
    can_wait = False

    def __init__(
        self,
        core: Any = None,
        *,
        config: str | None = None,
        exposure_ms: float | None = None,
        buffer_mb: int | None = None,
        clock: Clock = CLOCK,
    ) -> None:
        for what, value in (("exposure_ms", exposure_ms), ("buffer_mb", buffer_mb)):
            if value is not None and not 0 < value < float("inf"):
                raise InvalidInput(f"{what} is {value}; it must be positive")
        self.name = "the camera"
        self.shape: tuple[int, int] | None = None
        self.dtype: npt.DTypeLike | None = None
        self.bits = 16
        self.exposure_ms = exposure_ms
        self._reset()
        self._core, self._config, self._buffer_mb, self._clock = core, config, buffer_mb, clock
        self._requested_ms = exposure_ms

    def open(self) -> None:
        """Set the camera up.

        Raises
        ------
        InvalidInput
            If pymmcore-plus is not installed, there is no camera, it is busy, or it gives color or more than 16 bits.
        """
        if self._core is None:
            self._core = _shared_core()
        self._reset()
        try:
            self._set_up(self._core)
        except RuntimeError as error:
            raise SourceFailed(f"{self.name} does not answer ({error}); check its cable, power and driver") from error

    def frames(self, stop: threading.Event) -> Generator[Frame, None, None]:
        """Run the camera and give its frames."""
        core = self._core
        try:
            core.startContinuousSequenceAcquisition(0)
            yield from self._popped(core, stop)
        except RuntimeError as error:
            raise SourceFailed(
                f"{self.name} stopped working ({error}); check its cable and power, and start again"
            ) from error
        finally:
            with contextlib.suppress(RuntimeError):  # the camera may be disconnected
                core.stopSequenceAcquisition()

    def close(self) -> None:
        """Do nothing: the core may be shared."""

    def _reset(self) -> None:
        self.lost = self.overflows = 0
        self.message = ""
        self._overflowed = False

    def _set_up(self, core: Any) -> None:
        if self._config is not None:
            core.loadSystemConfiguration(self._config)
        label = core.getCameraDevice()
        if not label:
            raise InvalidInput("Micro-Manager has no camera; load a configuration with one")
        self.name = f"the camera {label}"
        if core.isSequenceRunning():
            raise InvalidInput(f"{self.name} is running already; stop the other live view first")
        if self._requested_ms is not None:
            core.setExposure(self._requested_ms)
        if self._buffer_mb is not None:
            core.setCircularBufferMemoryFootprint(int(self._buffer_mb))
        self._read_format(core)

    def _read_format(self, core: Any) -> None:
        components, size = core.getNumberOfComponents(), core.getBytesPerPixel()
        if components != 1 or size not in (1, 2):
            raise InvalidInput(
                f"{self.name} gives {components} components of {size // components} bytes a pixel; "
                "choose a gray pixel type of 8 to 16 bits in Micro-Manager"
            )
        self.exposure_ms = float(core.getExposure())
        self.shape = (int(core.getImageHeight()), int(core.getImageWidth()))
        self.dtype = np.dtype(np.uint8 if size == 1 else np.uint16)
        self.bits = int(core.getImageBitDepth())

    def _popped(self, core: Any, stop: threading.Event) -> Iterator[Frame]:
        numbers = _Numbers()
        begun = last_s = self._clock.now()
        while not stop.is_set():
            if core.getRemainingImageCount() == 0:
                self._check_alive(core, last_s)
                self._clock.wait(stop, POLL_S)
                continue
            pixels, metadata = core.popNextImageAndMD()
            last_s = self._clock.now()
            number = numbers.next(metadata)
            self._note_losses(core, numbers.lost)
            yield Frame(
                pixels=camera_pixels(pixels, f"a frame of {self.name}"),
                number=number,
                timestamp_s=_elapsed_s(metadata, last_s - begun),
                arrived_s=last_s,
            )

    def _check_alive(self, core: Any, last_s: float) -> None:
        if not core.isSequenceRunning() and core.getRemainingImageCount() == 0:
            raise SourceFailed(f"{self.name} stopped sending frames; check its cable and power, and start again")
        silence_s = self._clock.now() - last_s
        if silence_s > SILENCE_S + 10e-3 * (self.exposure_ms or 0.0):
            self.message = f"{self.name} has sent no frame for {silence_s:.0f} s; check its trigger and cable"

    def _note_losses(self, core: Any, lost: int) -> None:
        overflowed = bool(core.isBufferOverflowed())
        self.overflows += overflowed and not self._overflowed  # some versions of the core reset it at once, some never
        self._overflowed = overflowed
        self.lost, self.message = lost, ""
        if self.overflows or lost:
            self.message = (
                f"the buffer of {self.name} overflowed and frames were lost ({lost} counted); take frames more slowly, "
                "of a smaller region, or with a larger buffer"
            )


class _Numbers:
    """Continues the camera's frame numbers in one rising series, and counts the missing ones."""

    def __init__(self) -> None:
        self.lost = 0
        self._next = 0
        self._offset: int | None = None

    def next(self, metadata: Any) -> int:
        """Return the number of the next frame."""
        own = _number(metadata)
        if own is None:
            number = self._next
        else:
            if self._offset is None or own + self._offset < self._next:  # the first, or the camera restarted its count
                self._offset = self._next - own
            number = own + self._offset
        self.lost += number - self._next
        self._next = number + 1
        return number


def _number(metadata: Any) -> int | None:
    try:
        return int(metadata["ImageNumber"])
    except (KeyError, TypeError, ValueError):
        return None


def _elapsed_s(metadata: Any, otherwise: float) -> float:
    """Return the camera's time of a frame, or else that of its arrival."""
    try:
        return float(metadata["ElapsedTime-ms"]) * 1e-3
    except (KeyError, TypeError, ValueError):
        return otherwise


def _shared_core() -> Any:
    try:
        from pymmcore_plus import CMMCorePlus
    except ImportError as error:
        raise InvalidInput("cameras need pymmcore-plus; install it with pip install 'napari-gpubio[camera]'") from error
    return CMMCorePlus.instance()
