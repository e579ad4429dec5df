"""Sources without a camera: a stack, and a simulated speckle camera."""

import math
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live.frame import (
    CAMERA_TYPES,
    CLOCK,
    Clock,
    Frame,
    Pixels,
    bits_of,
    camera_pixels,
    check_camera_type,
    checked_rate,
    paced,
)


class StackSource:
    """Plays an array at a chosen rate; frames are read or computed one by one.

    Parameters
    ----------
    stack
        Shape (T, H, W), integers of 8 to 16 bits: NumPy, Dask, memory-mapped, zarr.
    rate_hz
        Frames per second.
    loop
        Start again at the end.
    exposure_ms
        Exposure time of the frames, if known.
    bits
        Bits of the camera, for instance 12; by default those of the type.
    name
        Name in messages.
    clock
        For tests.

    Raises
    ------
    InvalidInput
        If the stack has another shape or type, or the rate is invalid.
    """

    can_wait = False
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
        """Nothing to prepare."""

    def frames(self, stop: threading.Event) -> Generator[Frame, None, None]:
        """Yield the frames at the chosen rate."""
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
        """Nothing to release."""


def _check_stack(stack: Any, name: str) -> None:
    shape, dtype = getattr(stack, "shape", None), getattr(stack, "dtype", None)
    if shape is None or dtype is None:
        raise InvalidInput(f"{name} is a {type(stack).__name__}; give an array of shape (frames, height, width)")
    if len(shape) == 4 and shape[-1] in (3, 4):
        raise InvalidInput(f"{name} has shape {tuple(shape)} and looks like color frames; give one channel of it")
    if len(shape) != 3 or 0 in shape:
        raise InvalidInput(f"{name} has shape {tuple(shape)}; give an array of shape (frames, height, width)")
    check_camera_type(dtype, name)


STEPS = 64
STEP_DECORRELATION = 0.5  # d: correlation times per step
BACKGROUND_STEPS = 8  # x = 4
VESSEL_STEPS = 20  # x = 10 at flow 1
MIN_FLOW, MAX_FLOW = 1 / VESSEL_STEPS, (STEPS - 1) / VESSEL_STEPS
TILE_PIXELS = 512
CUTOFF = 0.25  # of the pupil, cycles per pixel: a speckle of about 4 pixels
_STEP_LEVEL = 128  # mean of a step: sums over all steps stay below 2^16, and rounding adds 5e-6 to K^2 of one step


class SimulatedCamera:
    """Simulated 12-bit frames of a background and a vessel across the middle, whose flow can change; without noise.

    Fully developed dynamic speckle: the field of every pixel is a complex Gaussian process of first order,
    E <- a E + b G with a = exp(-d) and b = sqrt(1 - a^2), whose steps G are band-limited to one speckle size. A frame
    is the mean of n steps of abs(E)^2, an exposure of x = T / tau_c = n d correlation times. Its contrast is exact, see
    `napari_gpubio.speckle.indices.expected_k2`.

    The steps are computed once, as running sums, so that the sum over any exposure is one difference; this takes about
    one second in the first `open`, and 34 MB. They are periodic in both directions: a small tile covers a frame of any
    size without a seam, from another corner for every frame. Frames are thus independent of each other, as they are
    where the time between them is long compared with tau_c.

    Parameters
    ----------
    shape
        (H, W) of a frame.
    rate_hz
        Frames per second.
    exposure_ms
        Exposure time that it reports.
    mean_level
        Mean of the pixels.
    n_frames
        Number of frames; endless by default.
    seed
        Seed of the random numbers.
    tile
        Edge length of the tile, pixels.
    clock
        For tests.

    Raises
    ------
    InvalidInput
        If a parameter is out of range.
    """

    can_wait = False
    lost = 0
    bits = 12

    def __init__(
        self,
        shape: tuple[int, int] = (1040, 1392),
        rate_hz: float = 30.0,
        *,
        exposure_ms: float = 10.0,
        mean_level: float = 600.0,
        n_frames: int | None = None,
        seed: int = 0,
        tile: int = TILE_PIXELS,
        clock: Clock = CLOCK,
    ) -> None:
        for what, value in (("exposure_ms", exposure_ms), ("mean_level", mean_level)):
            if not 0 < value < math.inf:
                raise InvalidInput(f"{what} is {value}; it must be positive")
        if min(shape) < 1:
            raise InvalidInput(f"the frame has shape {shape}; give a positive height and width")
        self.name = "the simulated camera"
        self.message = ""
        self.shape: tuple[int, int] | None = (int(shape[0]), int(shape[1]))
        self.dtype: npt.DTypeLike | None = np.dtype(np.uint16)
        self.rate_hz: float | None = checked_rate(rate_hz)
        self.exposure_ms: float | None = exposure_ms
        height = int(shape[0])
        self.vessel_rows = slice(3 * height // 8, 5 * height // 8)
        self._frame = np.empty(shape, np.uint16)
        self._mean_level, self._n_frames, self._seed, self._tile = mean_level, n_frames, seed, tile
        self._rate_hz, self._clock = checked_rate(rate_hz), clock
        self._sums: npt.NDArray[np.uint16] | None = None
        self._vessel_steps = VESSEL_STEPS

    @property
    def flow(self) -> float:
        """Flow in the vessel relative to that at the start, inverse to tau_c; may be set at any time.

        It is rounded to a multiple of 1/20 from 0.05 to 3.15.
        """
        return self._vessel_steps / VESSEL_STEPS

    @flow.setter
    def flow(self, flow: float) -> None:
        if not math.isfinite(flow):
            raise InvalidInput(f"flow is {flow}; give a number from {MIN_FLOW:g} to {MAX_FLOW:g}")
        self._vessel_steps = min(max(round(flow * VESSEL_STEPS), 1), STEPS - 1)

    def open(self) -> None:
        """Compute the tile, the first time."""
        if self._sums is None:
            self.message = "computing the speckle of the simulated camera"
            self._sums = running_sums(self._tile, self._seed)
            self.message = ""

    def frames(self, stop: threading.Event) -> Generator[Frame, None, None]:
        """Yield frames at the chosen rate, all in the same memory."""
        rng = np.random.default_rng((self._seed, 1))
        for number in paced(self._rate_hz, self._clock, stop):
            if number == self._n_frames:
                return
            self._expose(rng)
            yield Frame(
                pixels=self._frame,
                number=number,
                timestamp_s=number / self._rate_hz,
                arrived_s=self._clock.now(),
            )

    def close(self) -> None:
        """Do nothing: the tile is kept for the next start."""

    def _expose(self, rng: np.random.Generator) -> None:
        """Fill the frame with the same speckle everywhere, exposed longer in the vessel."""
        vessel_steps = self._vessel_steps
        begin = int(rng.integers(STEPS + 1 - max(vessel_steps, BACKGROUND_STEPS)))
        corner = tuple(int(n) for n in rng.integers(self._tile, size=2))
        cover(self._frame, self._exposed(begin, BACKGROUND_STEPS, corner), first_row=0)
        rows = self.vessel_rows
        cover(self._frame[rows], self._exposed(begin, vessel_steps, corner), first_row=rows.start)

    def _exposed(self, begin: int, steps: int, corner: tuple[int, ...]) -> npt.NDArray[np.uint16]:
        """Return the tile from a corner on, exposed over some steps."""
        assert self._sums is not None
        total = self._sums[begin + steps] - self._sums[begin]  # exact modulo 2^16
        level = total * np.float32(self._mean_level / (steps * _STEP_LEVEL)) + np.float32(0.5)
        exposed = np.minimum(level, 2**self.bits - 1).astype(np.uint16)
        return np.roll(exposed, corner, (0, 1))


def running_sums(tile: int, seed: int) -> npt.NDArray[np.uint16]:
    """Return the sums C of all steps before each, modulo 2^16, shape (STEPS + 1, tile, tile).

    C[j + n] - C[j] is a sum of n steps.
    """
    rng = np.random.default_rng(seed)
    f = np.fft.fftfreq(tile)
    pupil = (f[:, None] ** 2 + f[None, :] ** 2 <= CUTOFF**2).astype(np.float32)
    pupil *= np.float32(tile / math.sqrt(2.0 * pupil.sum()))  # fields have mean intensity 1
    a = math.exp(-STEP_DECORRELATION)
    b = math.sqrt(1 - a * a)
    sums = np.zeros((STEPS + 1, tile, tile), np.uint16)
    field = _random_field(rng, pupil)
    for step in range(STEPS):
        intensity = _STEP_LEVEL * (field.real**2 + field.imag**2)
        sums[step + 1] = sums[step] + np.rint(intensity).astype(np.uint16)
        field = np.complex64(a) * field + np.complex64(b) * _random_field(rng, pupil)
    return sums


def _random_field(rng: np.random.Generator, pupil: npt.NDArray[np.float32]) -> npt.NDArray[np.complex64]:
    from scipy import fft

    noise = rng.standard_normal((*pupil.shape, 2), np.float32).view(np.complex64)[..., 0]
    field: npt.NDArray[np.complex64] = fft.ifft2(pupil * noise, norm="ortho", overwrite_x=True)
    return field


def cover(frame: Pixels, tile: Pixels, first_row: int) -> None:
    """Cover a frame with a periodic tile; the frame starts at row ``first_row`` of the tiling."""
    edge = tile.shape[0]
    for top in range(-(first_row % edge), frame.shape[0], edge):
        for left in range(0, frame.shape[1], edge):
            part = frame[max(top, 0) : top + edge, left : left + edge]
            begin = max(-top, 0)
            part[...] = tile[begin : begin + part.shape[0], : part.shape[1]]
