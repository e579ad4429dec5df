"""A stack of frames played as if a camera took them."""

import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live.clock import CLOCK, Clock
from napari_gpubio.speckle.live.frame import CAMERA_TYPES, Frame, bits_of, camera_pixels, check_camera_type
from napari_gpubio.speckle.live.sources.pacing import checked_rate, paced


class StackSource:
    """Play an array at a chosen rate; a frame is read (or computed) when its turn comes.

    Parameters
    ----------
    stack
        Shape (T, H, W), integers of 8 to 16 bits: NumPy, Dask, memory-mapped, zarr.
    rate_hz
        Frames per second.
    loop
        Begin again at the end.
    exposure_ms
        Exposure time of the frames, if known.
    bits
        Bits of the camera, for instance 12; those of the type if left out.
    name
        The stack as the user knows it.
    clock
        For tests.

    Raises
    ------
    InvalidInput
        If it is no such stack.
    """

    patient = False
    lost = 0
    message = ""

    def __init__(
        self,
        stack: Any,
        rate_hz: float = 30.0,
        *,
        loop: bool = False,
        exposure_ms: float | None = None,
        bits: int | None = None,
        name: str = "the stack",
        clock: Clock = CLOCK,
    ) -> None:
        _check_stack(stack, name)
        self.name = name
        self.rate_hz: float | None = checked_rate(rate_hz)
        self.exposure_ms = exposure_ms
        self.shape: tuple[int, int] | None = (int(stack.shape[1]), int(stack.shape[2]))
        self.dtype: npt.DTypeLike | None = stack.dtype if stack.dtype in CAMERA_TYPES else np.dtype(np.uint16)
        self.bits = bits_of(self.dtype) if bits is None else bits
        self._stack, self._loop, self._clock = stack, loop, clock
        self._rate_hz = checked_rate(rate_hz)

    def open(self) -> None:
        """Nothing to get ready."""

    def frames(self, stop: threading.Event) -> Generator[Frame, None, None]:
        """Give the frames at the chosen rate."""
        length = len(self._stack)
        for number in paced(self._rate_hz, self._clock, stop):
            if number >= length and not self._loop:
                return
            index = number % length
            yield Frame(
                pixels=camera_pixels(self._stack[index], f"frame {index} of {self.name}"),
                number=number,
                timestamp_s=number / self._rate_hz,
                arrived_s=self._clock.now(),
            )

    def close(self) -> None:
        """Nothing to let go of."""


def _check_stack(stack: Any, name: str) -> None:
    shape, dtype = getattr(stack, "shape", None), getattr(stack, "dtype", None)
    if shape is None or dtype is None:
        raise InvalidInput(f"{name} is a {type(stack).__name__}; give an array of shape (frames, height, width)")
    if len(shape) == 4 and shape[-1] in (3, 4):
        raise InvalidInput(f"{name} has shape {tuple(shape)} and looks like color frames; give one channel of it")
    if len(shape) != 3 or 0 in shape:
        raise InvalidInput(f"{name} has shape {tuple(shape)}; give an array of shape (frames, height, width)")
    check_camera_type(dtype, name)
