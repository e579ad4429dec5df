"""One volume to be denoised, scaled and laid out, the same for both backends."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from napari_gpubio.denoise.kernels.anlm.windows import Triple, Windows, brick_counts
from napari_gpubio.denoise.settings import DenoiseSettings

Float = npt.NDArray[np.float32]
TINY = 1e-30  # least sum of squares, of volumes that are near 1: where noise is zero, only equal patches count
NOTHING = 3e38  # sum of squares where there is no candidate
_KNOWN_SHARE = 1.3  # of the mean measure of noise, which the measure is at least where the noise is known
_SAMPLE = 20_000  # voxels that are enough to know what is typical
_LARGEST = 1e15  # scaled numbers stay below, so that sums of their squares stay finite
# Pre-selection as (A and (C or first)) or (B and C and second) or third, see `flags`.
_RULES = {"seed": (1, 1, 0), "coupe": (0, 0, 0), "itk": (0, 1, 0), "none": (0, 0, 1)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """A scaled volume and everything that a backend needs to know to filter it.

    Parameters
    ----------
    values
        Shape (X, Y, Z), float32, divided by a power of two so that typical values are near 1.
    usable
        Voxels that are filtered and averaged, shape (X, Y, Z), uint8; patches read the others too.
    windows
        Radii along each axis.
    settings
        What the user chose.
    calibration
        Least mean squared difference of residual patches in white noise of variance 1, for each patch.
    variance
        Known variance of the noise, scaled, shape (X, Y, Z); None: estimated.
    """

    values: Float
    usable: npt.NDArray[np.uint8]
    windows: Windows
    settings: DenoiseSettings
    calibration: tuple[float, ...]
    variance: Float | None = None

    @property
    def shape(self) -> Triple:
        """Dimensions of the volume."""
        x, y, z = self.values.shape
        return x, y, z

    @property
    def bricks(self) -> int:
        """Number of work items."""
        x, y, z = brick_counts(self.shape)
        return x * y * z

    @property
    def flags(self) -> tuple[int, int, int]:
        """Pre-selection: whether A alone suffices, whether B with C does, whether anything does."""
        return _RULES[self.settings.preselection]

    @cached_property
    def maximum(self) -> np.float32:
        """Largest value, which inverted means are measured from."""
        return np.float32(self.values.max())

    @property
    def floor(self) -> np.float32:
        """Voxels with this value or less are left out of averages."""
        return np.float32(0.0 if self.settings.skip_zeros else -NOTHING)

    @property
    def cutoff(self) -> np.float32:
        """Distance beyond which a weight is zero."""
        return np.float32(self.settings.cutoff or NOTHING)

    @property
    def resident_bytes(self) -> int:
        """About what a GPU keeps: values, mask, sums and estimates of each patch; and slabs of some 200 MB at most."""
        slabs = min(self.values.size * 40, 200 << 20)
        return self.values.size * (4 * (1 + 2 * len(self.windows.patches)) + 1) + slabs

    def known_sums(self) -> Float | None:
        """What sums of squares are at least where the noise is known, shape (patches, X, Y, Z); None where it is not.

        The measure of noise is a least of many, so that it is too small for weights wherever it is small by luck, and
        it also holds what differs between the best of patches, which a map of the noise does not know. So a known noise
        does not take its place, but is what it is at least: `_KNOWN_SHARE` times what it is on the mean in white noise.
        The share was tried on simulated magnitudes of heads: 1.2 to 1.4 are equally good, and from 0.8 on a true map is
        nowhere worse than none.
        """
        if self.variance is None:
            return None
        factors = _KNOWN_SHARE * np.array(self.windows.patch_sizes) * np.array(self.calibration)
        return np.asarray(factors[:, None, None, None] * self.variance, np.float32)


def scale_of(values: npt.NDArray[np.floating]) -> float:
    """Power of two that a volume is divided by: near the median of its absolute values that are not zero.

    A power of two, so that scaling costs no precision, and lower for volumes of more than 15 decades above it.
    """
    largest = max(float(values.max()), -float(values.min()))
    some = values.ravel()[:: values.size // _SAMPLE | 1]
    sizes = np.abs(some[some != 0]).astype(np.float64)
    typical = float(np.median(sizes)) if sizes.size else largest
    return float(2.0 ** np.round(np.log2(max(typical, largest / _LARGEST))))
