"""What is timed: frames of the seed's table, one by one as a camera sends them, and a stack in one call."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.checks import Speed
from napari_gpubio.core.device import Device
from napari_gpubio.speckle.run import contrast
from napari_gpubio.speckle.settings import ContrastSettings
from napari_gpubio.speckle.stream import ContrastStream

SEED_SHAPE = (1040, 1392)
_STACK = 24
_SETTINGS = ContrastSettings(window=5, mask=False)


def speckle_frames(count: int, shape: tuple[int, int] = SEED_SHAPE) -> npt.NDArray[np.uint16]:
    """Make 12-bit frames of fully developed speckle without correlation between pixels."""
    light = np.random.default_rng(0).exponential(800.0, (count, *shape))
    return np.minimum(light, 4095).astype(np.uint16)


def _live(device: Device) -> Callable[[], float]:
    (frame,) = speckle_frames(1)
    stream = ContrastStream(_SETTINGS, SEED_SHAPE, np.uint16, device=device)
    stream.slot()[...] = frame
    return lambda: float(stream.push(stream.slot()) is not None) * frame.size


def _stack(device: Device) -> Callable[[], float]:
    frames = np.repeat(speckle_frames(1), _STACK, axis=0)
    return lambda: float(contrast(frames, _SETTINGS, device=device).contrast.size)


SPEEDS = (
    Speed(name="one frame of 1392 x 1040, 5 x 5, K and SFI", unit="pixels", prepare=_live),
    Speed(name=f"{_STACK} frames of 1392 x 1040, whole call", unit="pixels", prepare=_stack),
)
