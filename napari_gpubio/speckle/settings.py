"""Settings of speckle contrast."""

from dataclasses import dataclass

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import check_params, param

MODES = ("spatial", "temporal", "spatio-temporal")
EDGES = ("valid", "reflect", "shrink", "zero")
INDICES = ("sfi", "squared", "inverse", "ict", "relative", "none")
NONFINITE = ("inf", "nan", "clip")


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
        5, "Window", "Edge of the square, an odd number; not used in temporal mode.", unit="pixels", minimum=3,
        maximum=31, step=2,
    )  # fmt: skip
    frames: int = param(
        25, "Frames", "Frames of a temporal or spatio-temporal window.", unit="frames", minimum=2, maximum=10_000
    )
    blocks: bool = param(
        False,
        "Blocks",
        "One map per block of frames, instead of one per frame from the first full window on.",
        advanced=True,
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
    )
    nonfinite: str = param(
        "inf",
        "Constant windows",
        "Value of an index where K is 0: infinite, NaN, or the largest float32 (clip).",
        choices=NONFINITE,
        advanced=True,
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
