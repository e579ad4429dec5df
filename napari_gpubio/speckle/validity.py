"""Where contrast does not mean flow: the bits of the validity mask.

A mask is an unsigned byte for each pixel of a map, 0 where nothing is wrong with its window.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

EDGE = 1  # the window reaches over the border
ZERO_MEAN = 2  # its mean is not positive, so there is no contrast
ZERO_VARIANCE = 4  # all its samples are equal
SATURATED = 8  # a sample is saturated
LOW_SIGNAL = 16  # its mean is below the limit of the settings
BELOW_NOISE = 32  # its variance is less than that of the camera's noise
ALL = EDGE | ZERO_MEAN | ZERO_VARIANCE | SATURATED | LOW_SIGNAL | BELOW_NOISE
NAMES = {
    EDGE: "edge",
    ZERO_MEAN: "zero mean",
    ZERO_VARIANCE: "zero variance",
    SATURATED: "saturated",
    LOW_SIGNAL: "low signal",
    BELOW_NOISE: "below noise",
}


def count_bits(mask: npt.NDArray[np.uint8]) -> dict[str, int]:
    """Return how many pixels have each bit, by its name."""
    return {name: int(np.count_nonzero(mask & bit)) for bit, name in NAMES.items()}


def is_valid(mask: npt.NDArray[np.uint8], skip: int = ALL) -> npt.NDArray[Any]:
    """Return where none of the bits ``skip`` is set."""
    return np.asarray((mask & np.uint8(skip)) == 0)
