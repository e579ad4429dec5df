"""Phase functions for tests."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def henyey_greenstein(g: float) -> Callable[[Floats], Floats]:
    """The density of Henyey and Greenstein, which has the mean 1 over all cosines."""
    return lambda cosines: (1 - g * g) / (1 + g * g - 2 * g * cosines) ** 1.5


def inverse_henyey_greenstein(g: float, points: int) -> Floats:
    """Its cosines at equal steps of their distribution, from -1 to 1."""
    u = np.linspace(0.0, 1.0, points)
    return (1 + g * g - ((1 - g * g) / (1 - g + 2 * g * u)) ** 2) / (2 * g)
