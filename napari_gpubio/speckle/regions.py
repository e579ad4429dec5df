"""Time courses of regions of interest: K² is averaged, not an index, whose mean is biased upward by noise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Tabular
from napari_gpubio.speckle.indices import inverse_correlation_time, relative_flow, speckle_flow_index
from napari_gpubio.speckle.model import ALL, LEFT_OUT, ContrastMaps, is_valid
from napari_gpubio.speckle.settings import FlowIndex, TimedIndex

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class RegionCurve(Tabular):
    """The time course of a region.

    Parameters
    ----------
    name
        Name of the region.
    k2
        Mean of K² over its valid pixels in each map; NaN where it has none. Negative if more noise was subtracted than
        there is; contrast and flow are then NaN.
    used, skipped
        Pixels that were averaged, and pixels that were left out because of the mask, in each map.
    index
        What flow is computed by, with the exposure of the camera; None if that is not known.
    frames, step
        Frames that each map is made of, and from one map to the next.
    """

    name: str
    k2: npt.NDArray[np.float64]
    used: npt.NDArray[np.int64]
    skipped: npt.NDArray[np.int64]
    index: TimedIndex | None = None
    frames: int = 1
    step: int = 1

    def times_s(self, rate_hz: float) -> Array:
        """Return the time of each map, that of the last frame of its window, if so many frames come in a second."""
        return (np.arange(len(self.k2)) * self.step + self.frames - 1) / rate_hz

    @property
    def contrast(self) -> Array:
        """Square root of the mean of K²."""
        return np.sqrt(np.where(self.k2 < 0, np.nan, self.k2))

    @property
    def flow(self) -> Array:
        """Flow by the mean of K², 1/s; InvalidInput if the exposure is not known."""
        if self.index is None:
            raise InvalidInput("flow needs the exposure of the camera; give flow=FlowIndex(exposure_ms=...)")
        return flow_of(self.k2, self.index)

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


def flow_of(k2: npt.ArrayLike, index: TimedIndex) -> Array:
    """Return flow by K², 1/s."""
    if isinstance(index, FlowIndex):
        return speckle_flow_index(k2, index.exposure_ms)
    return inverse_correlation_time(k2, index.exposure_ms, index.beta)


def region_curves(
    maps: ContrastMaps,
    regions: Mapping[str, npt.ArrayLike],
    *,
    flow: TimedIndex | None = None,
    skip: int | None = None,
) -> tuple[RegionCurve, ...]:
    """Average K² over regions in every map.

    Parameters
    ----------
    maps
        A map or a stack of them.
    regions
        Name and pixels of each region: booleans of shape (Y, X).
    flow
        What flow is computed by; by default the index of the maps, if it is one in 1/s.
    skip
        Bits of the mask; pixels with one of them are left out, as are pixels without a contrast. By default all bits,
        but where the camera's noise was subtracted windows below it count: without them means would be too high.

    Raises
    ------
    InvalidInput
        If a region has another shape, or no pixel.
    """
    taker = CurveTaker(regions, flow=flow, skip=skip)
    taker.take(0, maps)
    taker.finish(maps, len(maps))
    return taker.curves


class CurveTaker:
    """Averages K² over regions of maps as they are computed; see `region_curves`, `contrast_steps` and their ``into``.

    Parameters
    ----------
    regions, flow, skip
        As of `region_curves`.

    Attributes
    ----------
    curves
        The time courses, when the run has ended.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio import speckle
    >>> from napari_gpubio.speckle.regions import CurveTaker
    >>> frames = np.random.default_rng(0).integers(1, 255, (40, 32, 32), np.uint8)
    >>> taker = CurveTaker({"all": np.ones((32, 32))})
    >>> made = speckle.contrast(frames, into=[taker], device="cpu")
    >>> taker.curves[0].k2.shape
    (40,)
    """

    def __init__(
        self, regions: Mapping[str, npt.ArrayLike], *, flow: TimedIndex | None = None, skip: int | None = None
    ) -> None:
        self._regions = {name: np.asarray(pixels) for name, pixels in regions.items()}
        self._skip, self._flow = skip, flow
        self._means: dict[str, list[tuple[int, Array, Array]]] = {name: [] for name in self._regions}
        self.curves: tuple[RegionCurve, ...] = ()

    def take(self, first: int, maps: ContrastMaps) -> None:
        """Average over some maps; see `napari_gpubio.speckle.model.MapTaker`."""
        shape = maps.signed.shape[-2:]
        for name, pixels in self._regions.items():
            if pixels.shape != shape:
                raise InvalidInput(f"region {name!r} has shape {pixels.shape} and a map {shape}; draw it on the maps")
            if not pixels.any():
                raise InvalidInput(f"region {name!r} is empty; mark at least one pixel")
            self._means[name].append((first, *mean_k2(maps[..., pixels != 0], self._skip)))

    def finish(self, made: ContrastMaps, count: int) -> None:
        """Put the time courses together."""
        s = made.settings
        index = self._flow or (s.index if isinstance(s.index, TimedIndex) else None)
        self.curves = tuple(
            RegionCurve(
                name=name, k2=k2, used=used, skipped=np.count_nonzero(pixels) - used, index=index, frames=s.depth,
                step=s.step,
            )
            for name, pixels in self._regions.items()
            for k2, used in [self._in_order(name, count)]
        )  # fmt: skip

    def _in_order(self, name: str, count: int) -> tuple[Array, Array]:
        """K² and pixels of a region in each map."""
        k2, used = np.full(count, np.nan), np.zeros(count, np.int64)
        for first, mean, pixels in self._means[name]:
            k2[first : first + len(mean)], used[first : first + len(mean)] = mean, pixels
        return k2, used


def mean_k2(inside: ContrastMaps, skip: int | None = None) -> tuple[Array, Array]:
    """Return the mean of K² in each map, NaN where there is none, and the number of its pixels.

    Parameters
    ----------
    inside
        Some pixels of a map, or of all maps of a stack: ``maps[..., pixels]``.
    skip
        As in `region_curves`.
    """
    k2 = np.atleast_2d(inside.squared).astype(np.float64, order="C")  # each map is summed alike, however many there are
    good = np.isfinite(k2)
    if inside.mask is not None:
        chosen = (LEFT_OUT if inside.noise_subtracted else ALL) if skip is None else skip
        good &= is_valid(np.atleast_2d(inside.mask), chosen)
    used = good.sum(axis=1)
    total = np.where(good, k2, 0.0).sum(axis=1)
    return np.divide(total, used, out=np.full(len(k2), np.nan), where=used > 0), used
