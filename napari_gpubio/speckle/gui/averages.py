"""Averages of K²: over maps, for a baseline, and over the pixels of a region."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.speckle.model import ContrastMaps, is_valid

Array = npt.NDArray[Any]


class MapMean:
    """The mean of finite values of maps, pixel by pixel.

    Parameters
    ----------
    wanted
        How many maps are to be averaged.
    """

    def __init__(self, wanted: int) -> None:
        self.wanted, self.count = wanted, 0
        self._sum: Array | None = None
        self._used: Array | None = None

    def add(self, values: Array) -> None:
        """Add a map (Y, X); one of another size than those before it begins anew."""
        finite = np.isfinite(values)
        if self._sum is None or self._used is None or self._sum.shape != values.shape:
            self._sum, self._used = np.zeros(values.shape), np.zeros(values.shape, np.int32)
            self.count = 0
        self._sum += np.where(finite, values, 0.0)
        self._used += finite
        self.count += 1

    def mean(self) -> Array:
        """Return the mean so far; NaN where no map had a value."""
        assert self._sum is not None
        assert self._used is not None
        return np.divide(self._sum, self._used, out=np.full(self._sum.shape, np.nan), where=self._used > 0)


def mean_map(maps: Array) -> Array:
    """Return the mean of the finite values of a stack of maps (T, Y, X); NaN where there is none."""
    mean = MapMean(len(maps))
    for one in maps:
        mean.add(one)
    return mean.mean()


def mean_k2(maps: ContrastMaps, where: Array) -> float:
    """Mean of K² over pixels, given by their numbers, that may be trusted."""
    if maps.settings.index == "squared" and maps.index is not None:
        values = maps.index.reshape(-1)[where].astype(np.float64)
    else:
        values = maps.contrast.reshape(-1)[where].astype(np.float64) ** 2
    good = np.isfinite(values)
    if maps.mask is not None:
        good &= is_valid(maps.mask.reshape(-1)[where])
    return float(values[good].mean()) if good.any() else float("nan")
