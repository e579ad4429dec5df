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
    frames, step
        Frames that each map is made of, and from one map to the next.
    """

    name: str
    k2: npt.NDArray[np.float64]
    used: npt.NDArray[np.int64]
    skipped: npt.NDArray[np.int64]
    exposure_ms: float
    beta: float = 1.0
    frames: int = 1
    step: int = 1

    def times_s(self, rate_hz: float) -> Array:
        """Return the time of each map, that of the last frame of its window, if so many frames come in a second."""
        return (np.arange(len(self.k2)) * self.step + self.frames - 1) / rate_hz

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
    k2 = maps.squared.reshape(-1, *maps.squared.shape[-2:])
    mask = None if maps.mask is None else maps.mask.reshape(k2.shape)
    curves = []
    for name, given in regions.items():
        pixels = np.asarray(given)
        if pixels.shape != k2.shape[1:]:
            raise InvalidInput(
                f"region {name!r} has shape {pixels.shape} and a map {k2.shape[1:]}; draw it on the maps"
            )
        if not pixels.any():
            raise InvalidInput(f"region {name!r} is empty; mark at least one pixel")
        inside = k2[:, pixels != 0].astype(np.float64)
        good = np.isfinite(inside)
        if mask is not None:
            good &= is_valid(mask[:, pixels != 0], skip)
        used = good.sum(axis=1)
        total = np.where(good, inside, 0.0).sum(axis=1)
        mean = np.divide(total, used, out=np.full(len(k2), np.nan), where=used > 0)
        curves.append(
            RegionCurve(
                name=name, k2=mean, used=used, skipped=inside.shape[1] - used, exposure_ms=maps.settings.exposure_ms,
                beta=maps.settings.beta, frames=maps.settings.depth, step=maps.settings.step,
            )
        )  # fmt: skip
    return tuple(curves)
