"""Time courses of regions of interest: K² is averaged, not an index, whose mean is biased upward by noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.indices import inverse_correlation_time, relative_flow, speckle_flow_index
from napari_gpubio.speckle.model import ALL, ContrastMaps, is_valid

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class RegionCurve:
    """The time course of a region.

    Parameters
    ----------
    name
        Name of the region.
    k2
        Mean of K² over its valid pixels in each map; NaN where it has none.
    used, skipped
        Pixels that were averaged, and pixels that were left out because of the mask, in each map.
    exposure_ms, beta
        Exposure time and β of the model, for the indices.
    """

    name: str
    k2: npt.NDArray[np.float64]
    used: npt.NDArray[np.int64]
    skipped: npt.NDArray[np.int64]
    exposure_ms: float
    beta: float = 1.0

    @property
    def contrast(self) -> Array:
        """Square root of the mean of K²."""
        return np.sqrt(self.k2)

    @property
    def sfi(self) -> Array:
        """Speckle flow index of the mean of K², 1/s."""
        return speckle_flow_index(self.k2, self.exposure_ms)

    @property
    def ict(self) -> Array:
        """Inverse correlation time of the mean of K², 1/s."""
        return inverse_correlation_time(self.k2, self.exposure_ms, self.beta)

    def relative(self, baseline: slice | Sequence[int]) -> Array:
        """Return flow relative to the mean of K² over the baseline maps.

        Raises
        ------
        InvalidInput
            If the baseline has no map with a value.
        """
        chosen = self.k2[baseline]
        if not np.isfinite(chosen).any():
            raise InvalidInput(f"the baseline of region {self.name!r} has no valid pixel; choose other maps for it")
        return relative_flow(self.k2, np.nanmean(chosen))


def region_curves(
    maps: ContrastMaps, regions: Mapping[str, npt.ArrayLike], *, skip: int = ALL
) -> tuple[RegionCurve, ...]:
    """Average K² over regions in every map.

    Parameters
    ----------
    maps
        A map or a stack of them.
    regions
        Name and pixels of each region: booleans of shape (Y, X).
    skip
        Bits of the mask; pixels with one of them are left out, as are pixels without a contrast.

    Raises
    ------
    InvalidInput
        If a region has another shape, or no pixel.
    """
    k2 = maps.squared if maps.squared.ndim == 3 else maps.squared[None]
    mask = None if maps.mask is None else maps.mask.reshape(k2.shape)
    s = maps.settings
    return tuple(
        _curve(name, k2, mask, _pixels(name, pixels, k2.shape[1:]), skip, (s.exposure_ms, s.beta))
        for name, pixels in regions.items()
    )


def _pixels(name: str, pixels: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    region = np.asarray(pixels)
    if region.shape != shape:
        raise InvalidInput(f"region {name!r} has shape {region.shape} and a map {shape}; draw it on the maps")
    if not region.any():
        raise InvalidInput(f"region {name!r} is empty; mark at least one pixel")
    return region != 0


def _curve(name: str, k2: Array, mask: Any, region: Array, skip: int, model: tuple[float, float]) -> RegionCurve:
    inside = k2[:, region].astype(np.float64)
    good = np.isfinite(inside)
    if mask is not None:
        good &= is_valid(mask[:, region], skip)
    used = good.sum(axis=1)
    total = np.where(good, inside, 0.0).sum(axis=1)
    mean = np.divide(total, used, out=np.full(len(k2), np.nan), where=used > 0)
    return RegionCurve(
        name=name, k2=mean, used=used, skipped=inside.shape[1] - used, exposure_ms=model[0], beta=model[1]
    )
