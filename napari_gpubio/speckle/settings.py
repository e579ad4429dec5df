"""Settings of speckle contrast, and noise of the camera, whose variance is subtracted from that of a window."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import check_params, check_unused, param
from napari_gpubio.speckle.stored import each_frame

MODES = ("spatial", "temporal", "spatio-temporal")
EDGES = ("valid", "reflect", "shrink", "zero")
INDICES = ("sfi", "squared", "inverse", "ict", "relative", "none")
NONFINITE = ("inf", "nan", "clip")
_OVER_PIXELS, _OVER_FRAMES = {"mode": ("spatial", "spatio-temporal")}, {"mode": ("temporal", "spatio-temporal")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContrastSettings:
    """Windows and indices of speckle contrast K, the standard deviation over the mean (N - 1 convention).

    K is computed over a square of pixels (spatial), over frames (temporal) or over both.
    """

    mode: str = param(
        "spatial",
        "Mode",
        "Contrast over a square of pixels in one frame, over the frames at one pixel, or over both.",
        choices=MODES,
    )
    window: int = param(
        5, "Window", "Edge of the square, an odd number.", unit="pixels", minimum=3,
        maximum=31, step=2, where=_OVER_PIXELS,
    )  # fmt: skip
    frames: int = param(
        25,
        "Frames",
        "Frames of a temporal or spatio-temporal window.",
        unit="frames",
        minimum=2,
        maximum=10_000,
        where=_OVER_FRAMES,
    )
    blocks: bool = param(
        False,
        "Blocks",
        "One map per block of frames, instead of one per frame from the first full window on.",
        advanced=True,
        where=_OVER_FRAMES,
    )
    exposure_ms: float = param(
        10.0, "Exposure", "Exposure time T of the camera.", unit="ms", above=0.0, maximum=1e6, step=1.0
    )
    index: str = param(
        "sfi",
        "Index",
        "Second map: speckle flow index 1/(2TK²), K², 1/K², inverse correlation time by the full model, flow relative "
        "to a baseline, or none.",
        choices=INDICES,
    )
    beta: float = param(
        1.0,
        "β",
        "K² of a scatterer at rest (polarization, speckle size); for the inverse correlation time.",
        above=0.0,
        maximum=1.0,
        step=0.05,
        advanced=True,
    )
    edges: str = param(
        "valid",
        "Edges",
        "Windows that extend beyond the border: no value (valid), mirrored frame (reflect), only the pixels that are "
        "there (shrink), or zeros beyond the border.",
        choices=EDGES,
        advanced=True,
        where=_OVER_PIXELS,
    )
    nonfinite: str = param(
        "inf",
        "Constant windows",
        "Value of an index where K is 0: infinite, NaN, or the largest float32 (clip).",
        choices=NONFINITE,
        advanced=True,
        where={"index": ("sfi", "inverse", "ict", "relative")},
    )
    mask: bool = param(
        True, "Validity mask", "Also mark where contrast does not mean flow: edges, saturation, low light.",
        advanced=True,
    )  # fmt: skip
    saturation: int = param(
        0,
        "Saturation",
        "Level from which a pixel counts as saturated, before the dark level is subtracted: 4095 of a 12-bit camera; "
        "0 = the largest value of the data type; none for floating-point frames.",
        unit="ADU",
        minimum=0,
        maximum=65535,
        advanced=True,
    )
    low_signal: float = param(
        0.0,
        "Low signal",
        "Windows with a mean below this, dark level subtracted, are marked; 0 = never.",
        unit="ADU",
        minimum=0.0,
        maximum=65535.0,
        advanced=True,
        where={"mask": (True,)},
    )

    def __post_init__(self) -> None:
        check_params(self)
        if self.window % 2 == 0:
            raise InvalidInput(f"window is {self.window} pixels; give an odd number, for instance {self.window + 1}")

    @property
    def width(self) -> int:
        """Pixels along an edge of the window; 1 in temporal mode."""
        return 1 if self.mode == "temporal" else self.window

    @property
    def depth(self) -> int:
        """Frames of a window."""
        return 1 if self.mode == "spatial" else self.frames

    @property
    def step(self) -> int:
        """Frames from one map to the next."""
        return self.depth if self.blocks else 1

    @property
    def samples(self) -> int:
        """Number N of samples in a whole window."""
        return self.width**2 * self.depth

    def count(self, frames: int) -> int:
        """Return the number of maps of a number of frames."""
        return max(0, (frames - self.depth) // self.step + 1)

    @property
    def unit(self) -> str:
        """Unit of the index."""
        return "1/s" if self.index in ("sfi", "ict") else ""


Array = npt.NDArray[Any]
DARK_STEPS = 16  # of an ADU
_QUANTISATION = 1.0 / 12.0  # ADU², of rounding to integers


@dataclass(frozen=True, kw_only=True, eq=False)
class NoiseModel:
    """A camera's dark level, gain and noise; the defaults correct nothing.

    K² = K²(raw) - g/I - σ²/I², with the mean I above the dark level in ADU, the gain g in ADU per electron and the
    variance σ² of the read noise in ADU², to which 1/12 is added for rounding (as in Zilpelwar et al., Biomed. Opt.
    Express 13:6533, 2022). At low light I is noisy, too, so that its powers have a bias (expanded to second order, with
    the variance (g I + σ²)/N of the mean of N samples and its covariance with the variance of the window); without it
    K² = (K²(raw) - g/I - σ²/I² - 2 g σ²/(N I³)) / (1 - g/(N I) + 3 σ²/(N I²)). The dark level is kept in sixteenths of
    an ADU, so that sums stay integers; samples below it stay negative, since clipping them would change the variance.

    Parameters
    ----------
    dark_map, variance_map
        Mean and variance (ADU, ADU²) of each pixel in the dark, shape (Y, X), instead of ``dark_adu`` and
        ``read_noise_adu``; see `measure_dark`.
    """

    dark_adu: float = param(0.0, "Dark level", "Mean signal in the dark.", unit="ADU", minimum=0.0, maximum=65535.0)
    gain: float = param(
        0.0, "Gain", "ADU per electron; 0 = shot noise is not subtracted.", unit="ADU/e⁻", minimum=0.0, maximum=1e4,
        step=0.01,
    )  # fmt: skip
    read_noise_adu: float = param(
        0.0, "Read noise", "Standard deviation in the dark.", unit="ADU", minimum=0.0, maximum=1e4, step=0.1
    )
    quantization: bool = param(
        False, "Quantisation", "Subtract the 1/12 ADU² of rounding; a variance measured in the dark has it already."
    )
    dark_map: Array | None = None
    variance_map: Array | None = None

    def __post_init__(self) -> None:
        check_params(self)
        for name, level in (("dark_map", "dark_adu"), ("variance_map", "read_noise_adu")):
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, _checked_map(name, values))
                check_unused(self, [level], f"{name} says it for each pixel")

    @property
    def has_dark(self) -> bool:
        """Whether a dark level is subtracted."""
        return self.dark_map is not None or self.dark_adu > 0

    @property
    def has_noise(self) -> bool:
        """Whether variance is subtracted."""
        return self.gain > 0 or self.read_noise_adu > 0 or self.quantization or self.variance_map is not None

    def dark_of(self, shape: tuple[int, int]) -> Array:
        """Return the dark level of each pixel, ADU, shape (Y, X)."""
        return _spread(self.dark_map, self.dark_adu, shape, "dark_map")

    def floor_of(self, shape: tuple[int, int], width: int) -> Array:
        """Return the variance that does not depend on light, averaged over each window, ADU², shape (Y, X)."""
        from scipy.ndimage import uniform_filter

        variance = _spread(self.variance_map, self.read_noise_adu**2, shape, "variance_map")
        return uniform_filter(variance, width, mode="reflect") + _QUANTISATION * self.quantization


def measure_dark(frames: Any, *, gain: float = 0.0) -> NoiseModel:
    """Make a noise model from frames taken in the dark.

    Parameters
    ----------
    frames
        Shape (T, Y, X), at least two frames, which are read one at a time.
    gain
        ADU per electron, where it is known.

    Raises
    ------
    InvalidInput
        If they are not a stack of finite numbers.
    """
    stack = frames if hasattr(frames, "ndim") else np.asarray(frames)
    if stack.ndim != 3 or len(stack) < 2 or stack.dtype.kind not in "uif":
        raise InvalidInput(f"the dark frames have shape {stack.shape}; give a stack (frames, y, x) of two or more")
    mean, squares = np.zeros(stack.shape[1:]), np.zeros(stack.shape[1:])
    for frame in each_frame(stack):  # a stack of doubles would need much memory
        mean += frame
    mean /= len(stack)
    for frame in each_frame(stack):
        squares += np.square(frame - mean)
    return NoiseModel(gain=gain, dark_map=mean, variance_map=squares / (len(stack) - 1))


def _checked_map(name: str, values: npt.ArrayLike) -> Array:
    array = np.asarray(values, np.float64)
    if array.ndim != 2 or not np.isfinite(array).all() or (array < 0).any():
        raise InvalidInput(f"{name} has shape {array.shape}; give a map (y, x) of finite numbers, none below 0")
    return array


def _spread(values: Array | None, level: float, shape: tuple[int, int], name: str) -> Array:
    if values is None:
        return np.full(shape, level, np.float64)
    if values.shape != shape:
        raise InvalidInput(
            f"{name} has shape {values.shape} and the frames {shape}; give one of the same camera region"
        )
    return values
