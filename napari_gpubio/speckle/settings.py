"""Settings of speckle contrast, and noise of the camera, whose variance is subtracted from that of a window.

The window, the index of flow and the mask are chosen by their classes, each with the settings that it needs.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.speckle.stored import each_frame

EDGES = ("valid", "reflect", "shrink", "zero")
NONFINITE = ("inf", "nan", "clip")

# -- windows ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _OverPixels(Settings):
    window: int = param(5, "Window", "Edge of the square, an odd number.", unit="pixels", minimum=3, maximum=31, step=2)
    edges: str = param(
        "valid", "Edges",
        "Windows that extend beyond the border: no value (valid), mirrored frame (reflect), only the pixels that are "
        "there (shrink), or zeros beyond the border.",
        choices=EDGES, advanced=True,
    )  # fmt: skip

    def check(self) -> None:
        """Raise InvalidInput if the square has no middle."""
        if self.window % 2 == 0:
            raise InvalidInput(f"window is {self.window} pixels; give an odd number, for instance {self.window + 1}")


@dataclass(frozen=True, kw_only=True)
class _OverFrames(Settings):
    frames: int = param(25, "Frames", "Of a window.", minimum=2, maximum=10_000)
    blocks: bool = param(
        False, "Blocks", "One map per block of frames, instead of one per frame from the first full window on.",
        advanced=True,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Spatial(_OverPixels):
    """Contrast over a square of pixels of one frame."""

    frames: ClassVar[int] = 1
    blocks: ClassVar[bool] = False


@dataclass(frozen=True, kw_only=True)
class Temporal(_OverFrames):
    """Contrast over the frames at one pixel."""

    window: ClassVar[int] = 1
    edges: ClassVar[str] = EDGES[0]


@dataclass(frozen=True, kw_only=True)
class SpatioTemporal(_OverFrames, _OverPixels):
    """Contrast over a square of pixels and over frames."""

    kind: ClassVar[str] = "spatio-temporal"


Mode = Spatial | Temporal | SpatioTemporal

# -- indices ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class NoIndex(Settings):
    """Contrast K alone."""

    kind: ClassVar[str] = "none"


@dataclass(frozen=True, kw_only=True)
class Squared(Settings):
    """K²."""


@dataclass(frozen=True, kw_only=True)
class _Infinite(Settings):
    nonfinite: str = param(
        "inf", "Constant windows", "Value of an index where K is 0: infinite, NaN, or the largest float32 (clip).",
        choices=NONFINITE, advanced=True,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Inverse(_Infinite):
    """1/K²."""


@dataclass(frozen=True, kw_only=True)
class _Exposed(_Infinite):
    exposure_ms: float = param(
        10.0, "Exposure", "Exposure time T of the camera.", unit="ms", above=0.0, maximum=1e6, step=1.0
    )


@dataclass(frozen=True, kw_only=True)
class FlowIndex(_Exposed):
    """Speckle flow index 1/(2TK²)."""

    kind: ClassVar[str] = "sfi"


@dataclass(frozen=True, kw_only=True)
class InverseCorrelationTime(_Exposed):
    """Inverse correlation time by the full model."""

    kind: ClassVar[str] = "ict"
    beta: float = param(
        1.0, "β", "K² of a scatterer at rest (polarization, speckle size).",
        above=0.0, maximum=1.0, step=0.05, advanced=True,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class RelativeFlow(_Infinite):
    """Flow relative to a baseline, K₀²/K²."""

    kind: ClassVar[str] = "relative"
    baseline: tuple[int, int] | None = part(
        "Baseline", "First and last of the frames whose flow is 1, counted from 0; all by default.", default=None
    )

    def check(self) -> None:
        """Raise InvalidInput if the baseline has no frame."""
        if self.baseline is not None and not 0 <= self.baseline[0] <= self.baseline[1]:
            raise InvalidInput(f"baseline is {self.baseline}; give its first and last frame, counted from 0")


Index = FlowIndex | Squared | Inverse | InverseCorrelationTime | RelativeFlow | NoIndex
TimedIndex = FlowIndex | InverseCorrelationTime

# -- the mask ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Validity(Settings):
    """Mark where contrast does not mean flow: edges, saturation, low light."""

    saturation: int = param(
        0, "Saturation",
        "Level from which a pixel counts as saturated, before the dark level is subtracted: 4095 of a 12-bit camera; "
        "0 = the largest value of the data type; none for floating-point frames.",
        unit="ADU", minimum=0, maximum=65535, advanced=True,
    )  # fmt: skip
    low_signal: float = param(
        0.0, "Low signal", "Windows with a mean below this, dark level subtracted, are marked; 0 = never.",
        unit="ADU", minimum=0.0, maximum=65535.0, advanced=True,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NoMask(Settings):
    """Mark nothing."""

    kind: ClassVar[str] = "none"
    saturation: ClassVar[int] = 0
    low_signal: ClassVar[float] = 0.0


Mask = Validity | NoMask


@dataclass(frozen=True, kw_only=True)
class WindowSettings(Settings):
    """Windows of speckle contrast K, the standard deviation over the mean (N - 1 convention)."""

    mode: Mode = part(
        "Mode", "Window: a square of pixels of one frame, the frames at one pixel, or both.", default=Spatial()
    )
    mask: Mask = part(
        "Validity mask", "Also mark where contrast does not mean flow: edges, saturation, low light.",
        default=Validity(), advanced=True,
    )  # fmt: skip

    @property
    def width(self) -> int:
        """Pixels along an edge of the window; 1 in temporal mode."""
        return self.mode.window

    @property
    def depth(self) -> int:
        """Frames of a window."""
        return self.mode.frames

    @property
    def step(self) -> int:
        """Frames from one map to the next."""
        return self.depth if self.mode.blocks else 1

    @property
    def samples(self) -> int:
        """Number N of samples in a whole window."""
        return self.width**2 * self.depth

    def count(self, frames: int) -> int:
        """Return the number of maps of a number of frames."""
        return max(0, (frames - self.depth) // self.step + 1)

    @property
    def has_mask(self) -> bool:
        """Whether pixels are marked."""
        return isinstance(self.mask, Validity)


@dataclass(frozen=True, kw_only=True)
class ContrastSettings(WindowSettings):
    """Windows of speckle contrast, and an index of flow.

    Examples
    --------
    >>> from napari_gpubio.speckle import ContrastSettings, InverseCorrelationTime, Temporal
    >>> settings = ContrastSettings(mode=Temporal(frames=25), index=InverseCorrelationTime(exposure_ms=5.0))
    >>> settings.samples, settings.unit
    (25, '1/s')
    """

    index: Index = part(
        "Index",
        "Second map: speckle flow index 1/(2TK²), K², 1/K², inverse correlation time by the full model, flow relative "
        "to a baseline, or none.",
        default=FlowIndex(),
    )

    @property
    def has_index(self) -> bool:
        """Whether there is a second map."""
        return not isinstance(self.index, NoIndex)

    @property
    def unit(self) -> str:
        """Unit of the index."""
        return "1/s" if isinstance(self.index, _Exposed) else ""


# -- noise ------------------------------------------------------------------------------------------------------------

Array = npt.NDArray[Any]
DARK_STEPS_PER_ADU = 16
_QUANTISATION = 1.0 / 12.0  # ADU², of rounding to integers


@dataclass(frozen=True, kw_only=True)
class NoiseModel(Settings):
    """A camera's dark level, gain and noise as numbers; the defaults correct nothing. See `DarkNoise` for maps.

    K² = K²(raw) - g/I - σ²/I², with the mean I above the dark level in ADU, the gain g in ADU per electron and the
    variance σ² of the read noise in ADU², to which 1/12 is added for rounding (as in Zilpelwar et al., Biomed. Opt.
    Express 13:6533, 2022). At low light I is noisy, too, so that its powers have a bias (expanded to second order, with
    the variance (g I + σ²)/N of the mean of N samples and its covariance with the variance of the window); without it
    K² = (K²(raw) - g/I - σ²/I² - 2 g σ²/(N I³)) / (1 - g/(N I) + 3 σ²/(N I²)). The dark level is kept in sixteenths of
    an ADU, so that sums stay integers; samples below it stay negative, since clipping them would change the variance.
    """

    dark_adu: float = param(0.0, "Dark level", "Mean signal in the dark.", unit="ADU", minimum=0.0, maximum=65535.0)
    gain: float = param(
        0.0, "Gain", "ADU per electron; 0 = shot noise is not subtracted.", unit="ADU/e⁻", minimum=0.0, maximum=1e4,
        step=0.01,
    )  # fmt: skip
    read_noise_adu: float = param(
        0.0, "Read noise", "Standard deviation in the dark.",
        unit="ADU", minimum=0.0, maximum=1e4, step=0.1, advanced=True,
    )  # fmt: skip
    quantization: bool = param(
        False, "Quantisation", "Subtract the 1/12 ADU² of rounding; a variance measured in the dark has it already.",
        advanced=True,
    )  # fmt: skip

    @property
    def has_dark(self) -> bool:
        """Whether a dark level is subtracted."""
        return self.dark_adu > 0

    @property
    def has_noise(self) -> bool:
        """Whether variance is subtracted."""
        return self.gain > 0 or self.read_noise_adu > 0 or self.quantization

    def dark_of(self, shape: tuple[int, int]) -> Array:
        """Return the dark level of each pixel, ADU, shape (Y, X)."""
        return np.full(shape, self.dark_adu, np.float64)

    def floor_of(self, shape: tuple[int, int], width: int) -> Array:
        """Return the variance that does not depend on light, averaged over each window, ADU², shape (Y, X)."""
        from scipy.ndimage import uniform_filter

        variance = np.full(shape, self.read_noise_adu**2, np.float64)
        return uniform_filter(variance, width, mode="reflect") + _QUANTISATION * self.quantization


@dataclass(frozen=True, kw_only=True, eq=False)
class DarkNoise(ShortRepr):
    """A camera's dark level and noise, measured for each pixel, and its gain; what is subtracted is as in `NoiseModel`.

    Parameters
    ----------
    dark_map, variance_map
        Mean and variance (ADU, ADU²) of each pixel in the dark, shape (Y, X); see `measure_dark`. Without a variance,
        none is subtracted.
    gain
        ADU per electron; 0: shot noise is not subtracted.
    """

    dark_map: Array
    variance_map: Array | None = None
    gain: float = 0.0
    has_dark: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name in ("dark_map", "variance_map"):
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, _checked_map(name, values))
        NoiseModel(gain=self.gain)  # which checks it

    @property
    def has_noise(self) -> bool:
        """Whether variance is subtracted."""
        return self.gain > 0 or self.variance_map is not None

    def with_gain(self, gain: float) -> "DarkNoise":
        """Return the same of a camera whose gain is known."""
        return replace(self, gain=gain)

    def dark_of(self, shape: tuple[int, int]) -> Array:
        """Return the dark level of each pixel, ADU, shape (Y, X)."""
        return _of_shape(self.dark_map, shape, "dark_map")

    def floor_of(self, shape: tuple[int, int], width: int) -> Array:
        """Return the variance that does not depend on light, averaged over each window, ADU², shape (Y, X)."""
        from scipy.ndimage import uniform_filter

        if self.variance_map is None:
            return np.zeros(shape)
        return np.asarray(uniform_filter(_of_shape(self.variance_map, shape, "variance_map"), width, mode="reflect"))


Noise = NoiseModel | DarkNoise


def measure_dark(frames: Any, *, gain: float = 0.0) -> DarkNoise:
    """Measure the noise of a camera on frames taken in the dark.

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
    return DarkNoise(gain=gain, dark_map=mean, variance_map=squares / (len(stack) - 1))


def _checked_map(name: str, values: npt.ArrayLike) -> Array:
    array = np.asarray(values, np.float64)
    if array.ndim != 2 or not np.isfinite(array).all() or (array < 0).any():
        raise InvalidInput(f"{name} has shape {array.shape}; give a map (y, x) of finite numbers, none below 0")
    return array


def _of_shape(values: Array, shape: tuple[int, int], name: str) -> Array:
    if values.shape != shape:
        raise InvalidInput(
            f"{name} has shape {values.shape} and the frames {shape}; give one of the same camera region"
        )
    return values
