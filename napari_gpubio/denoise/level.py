"""The noise of one volume from its finest detail, which anatomy hardly reaches.

Second differences of neighbors along all axes at once hold the highest frequencies alone. Of their absolute values in
a block, a low quantile is that of noise even where anatomy has edges; and of the blocks around a place, those with
the least of it are the flattest. White noise has the same level at all frequencies, so that this is its standard
deviation (compare Donoho and Johnstone 1994, who take the median of the finest wavelets).
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from napari_gpubio.core.numbers import short_number
from napari_gpubio.denoise.kernels.anlm.problem import NoiseGrid, scale_of
from napari_gpubio.denoise.noise import without_floor

Array = npt.NDArray[Any]
SHORTEST_AXIS_VOXELS = 5
_BLOCK_VOXELS = 512  # or more; in a volume a cube of 8
_MAX_BLOCKS = {1: 64, 2: 16, 3: 8}  # along each of so many axes
_FEWEST_VALUES, _FEWEST_OF_BLOCK, _MANY = 1000, 64, 5
_QUANTILE, _OF_NORMAL = 0.25, 0.31864  # of absolute values, and what it is of normal ones with standard deviation 1
_AROUND, _FLATTEST, _EQUALS = 1, 0.2, 1.3  # blocks on each side, a quantile of them, and what times it is as flat
_CALM, _FITS = 1.15, 12  # spread over level of noise alone, at most; steps of the fit of a trend
_DARK, _LOWER = 6.0, 0.3  # mean square over variance of magnitudes without signal, at most; a quantile of blocks
_CLEAR = 3.0  # signal / noise that counts
# Of logarithms in fluence: slope 0.48 to 0.75 and correlation 0.95 to 1; in heads up to 0.35, or 0.85 if it is steeper.
_FEWEST_BLOCKS, _RANGE, _STEEP, _CLOSE = 4, 1.0, 0.42, 0.9
_COLORED = 1.25  # ratio of coarser to finest detail in the flattest tenth of blocks; 0.7 to 1 where noise is white
_STRUCTURED, _SHARE = 1.5, 0.1  # times the noise that detail is where there is anatomy, and in how many blocks
_FEWEST_BLOCKS_OF_SHARE = 12


@dataclass(frozen=True, eq=False, kw_only=True)
class Level:
    """The noise of a volume.

    Parameters
    ----------
    grid
        Standard deviation by blocks, or None where the finest detail does not tell it.
    is_doubtful
        Whether noise that is measured by patches instead has to be checked, for it may be that of anatomy.
    is_colored
        Whether the finest detail has less of it than coarser detail, which was taken instead.
    structured
        Share of the blocks with signal whose detail is more than noise, 0 where they are few.
    """

    grid: NoiseGrid | None = None
    is_doubtful: bool = False
    is_colored: bool = False
    structured: float = 0.0

    @property
    def sigma(self) -> Array | None:
        """Standard deviation at each voxel, shape (X, Y, Z)."""
        return None if self.grid is None else np.asarray(self.grid.sigma())

    def note(self, scale: float) -> str:
        """Say that the noise is uncertain, or what would count as noise, or nothing; ``scale`` is the unit of sigma."""
        if self.grid is None:
            return ""
        sigma = scale * float(np.median(self.grid.levels))
        if self.is_colored:
            return (
                "the finest detail of the image has less noise than coarser detail: the image is interpolated, or its "
                f"anatomy is fine everywhere. σ = {short_number(sigma, 3)} was taken from detail along single axes, "
                "and may be half or twice that of the noise; give σ if you know it"
            )
        if self.structured < _SHARE:
            return ""
        return (
            f"similar patches differ by more than the finest detail, σ = {short_number(sigma, 3)}, shows in "
            f"{100 * self.structured:.0f} % of the image: so that anatomy is not counted as noise, σ was taken from "
            "the finest detail; give σ if you know it, or take it from patches (Noise from)"
        )


class _Blocks(NamedTuple):
    """Blocks of shape (blocks, voxels) along each of three axes in turn."""

    values: Array  # with a halo of 1 along the axes with detail
    valid: Array  # without
    middles: list[Array]
    axes: list[int]  # with detail
    there: int  # voxels that are usable and not 0
    step: int = 1  # of those that there were

    def some(self) -> "_Blocks":
        """Every second block along each axis, where there are many: enough for what is one number of the volume."""
        step = 2 if min(self.values.shape[2 * axis] for axis in self.axes) > _MANY else 1
        values, valid = (array[::step, :, ::step, :, ::step] for array in (self.values, self.valid))
        return self._replace(values=values, valid=valid, step=step)

    def of(self, statistic: Array) -> Array:
        """A statistic of all blocks for those that are left."""
        return statistic[:: self.step, :: self.step, :: self.step]


def find_level(volume: Array, usable: npt.NDArray[np.uint8], *, is_rician: bool) -> Level:
    """Find the noise of a volume in its finest detail.

    There is none to be found in few voxels. The noise of fluence follows its signal, and patches measure it better.
    Where noise is correlated, as after interpolation, the finest detail has too little of it, and detail along single
    axes is taken, which has half of it or more.

    Parameters
    ----------
    volume, usable
        Shape (X, Y, Z). Voxels that are exactly 0 do not count, for a background is cut away so.
    is_rician
        Whether the values are magnitudes, whose variance is less than that of the noise where signal is low.

    Examples
    --------
    >>> import numpy as np
    >>> noisy = 100 + 3 * np.random.default_rng(0).normal(size=(32, 32, 32))
    >>> found = find_level(noisy, np.ones(noisy.shape, np.uint8), is_rician=False)
    >>> bool(abs(np.median(found.sigma) - 3) < 0.3)
    True
    """
    blocks = _blocks_of(volume, usable)
    if not blocks.axes or not blocks.values.any():
        return Level()
    scale = scale_of(blocks.values)  # so that squares of fluence are numbers
    blocks = blocks._replace(values=blocks.values / blocks.values.dtype.type(scale))
    detail = _detail(blocks.values, blocks.axes)
    finest = _scales(detail, blocks.valid)
    sizes, mean, mean_squares = _moments(blocks)
    known = np.isfinite(finest)
    if sizes[known].sum() < _FEWEST_VALUES:
        return Level(is_doubtful=is_rician)
    if not is_rician and (_is_sparse(blocks) or _follows(finest, mean)):
        return Level()
    spread = np.sqrt(_per_block(np.square(detail), blocks.valid) / np.maximum(sizes, 1))
    some = blocks.some()
    coarser, power = _along_axes(some)
    ratios = (coarser / some.of(finest))[np.isfinite(some.of(finest))]
    is_colored = bool(ratios.size and np.nanpercentile(ratios, 10) > _COLORED)
    if is_colored:
        finest, spread = _along_axes(blocks)
    is_dark = np.zeros(finest.shape, bool)
    if is_rician:
        is_dark = mean_squares < _DARK * np.square(finest)
        finest, spread = _without_floors(finest, spread, mean_squares, is_dark)
    flat = np.where(is_dark, finest, _flattest(finest, spread))
    has_signal = some.of(known & (np.abs(mean) > _CLEAR * finest))
    structured = power[has_signal] > _STRUCTURED * some.of(flat)[has_signal]
    share = float(structured.mean()) if structured.size >= _FEWEST_BLOCKS_OF_SHARE else 0.0
    x, y, z = blocks.middles
    nx, ny, nz = volume.shape
    grid = NoiseGrid((flat * scale).astype(np.float32), (x, y, z), (nx, ny, nz))
    return Level(grid=grid, is_colored=is_colored, structured=share)


# -- blocks -----------------------------------------------------------------------------------------------------------


def _blocks_of(volume: Array, usable: npt.NDArray[np.uint8]) -> _Blocks:
    """Blocks that are spread evenly over a volume; along axes that are too short for detail, all of it."""
    axes = [axis for axis in range(3) if volume.shape[axis] >= SHORTEST_AXIS_VOXELS]
    side = int(np.ceil(_BLOCK_VOXELS ** (1.0 / max(len(axes), 1)) - 1e-9))
    places, middles = [], []
    for axis, n in enumerate(volume.shape):
        halo = int(axis in axes)
        length = min(side, n - 2) if halo else n
        count = min(_MAX_BLOCKS[len(axes)], (n - 2) // length) if halo else 1
        first = np.round(np.linspace(0, n - 2 * halo - length, count)).astype(int)
        places.append(first[:, None] + np.arange(length + 2 * halo))
        middles.append(first + halo + 0.5 * (length - 1))
    where = np.ix_(*(place.ravel() for place in places))
    shape = [n for place in places for n in place.shape]
    values = volume[where].reshape(shape)
    valid = values != 0
    if not usable.all():
        valid &= usable[where].reshape(shape) != 0
    return _Blocks(values, _eroded(valid, axes), middles, axes, int(np.count_nonzero(_inner(valid, axes))))


def _part(blocks: Array, axis: int, part: slice) -> Array:
    """A part of the voxels of each block along an axis of the volume."""
    where = [slice(None)] * blocks.ndim
    where[2 * axis + 1] = part
    return blocks[tuple(where)]


def _sides(blocks: Array, axis: int) -> tuple[Array, Array, Array]:
    """Voxels, those before and those behind them, without the halo along an axis."""
    return tuple(_part(blocks, axis, part) for part in (slice(1, -1), slice(0, -2), slice(2, None)))  # type: ignore[return-value]


def _second(blocks: Array, axis: int) -> Array:
    """Second differences along an axis, with the variance of white noise."""
    here, before, behind = _sides(blocks, axis)
    return np.asarray((before + behind - (here + here)) * here.dtype.type(6.0**-0.5))


def _detail(blocks: Array, axes: list[int]) -> Array:
    for axis in axes:
        blocks = _second(blocks, axis)
    return blocks


def _inner(blocks: Array, axes: list[int]) -> Array:
    for axis in axes:
        blocks = _part(blocks, axis, slice(1, -1))
    return blocks


def _eroded(marked: Array, axes: list[int]) -> Array:
    """Voxels that are marked with all of their neighbors."""
    for axis in axes:
        marked = np.logical_and.reduce(_sides(marked, axis))
    return marked


def _rows(blocks: Array) -> Array:
    """Shape (blocks along three axes, voxels of a block)."""
    x, _, y, _, z, _ = blocks.shape
    return blocks.transpose(0, 2, 4, 1, 3, 5).reshape(x, y, z, -1)


def _per_block(values: Array, valid: Array) -> Array:
    """Sum over the valid voxels of each block, in double precision."""
    return np.asarray(np.sum(_rows(values), axis=-1, where=_rows(valid), dtype=np.float64))


def _moments(blocks: _Blocks) -> tuple[Array, Array, Array]:
    """Valid voxels of each block, and the means of their values and of the squares."""
    values, valid = _inner(blocks.values, blocks.axes), blocks.valid
    sizes = _per_block(valid, valid)
    mean, mean_squares = (_per_block(v, valid) / np.maximum(sizes, 1) for v in (values, np.square(values)))
    return sizes, mean, mean_squares


def _along_axes(blocks: _Blocks) -> tuple[Array, Array]:
    """Level and standard deviation of the second differences along one axis, median over the axes."""
    levels, spreads = [], []
    sizes = np.maximum(_per_block(blocks.valid, blocks.valid), 1)
    for axis in blocks.axes:
        detail = _inner(_second(blocks.values, axis), [other for other in blocks.axes if other != axis])
        levels.append(_scales(detail, blocks.valid))
        spreads.append(np.sqrt(_per_block(np.square(detail), blocks.valid) / sizes))
    return np.median(levels, axis=0), np.median(spreads, axis=0)


# -- levels -----------------------------------------------------------------------------------------------------------


def _scales(detail: Array, valid: Array) -> Array:
    """Standard deviation of the noise of each block by a low quantile of its detail; NaN where nothing is seen."""
    sizes = np.where(_rows(valid), np.abs(_rows(detail)), np.inf)
    count = _rows(valid).sum(axis=-1)
    at = (count * _QUANTILE).astype(int)
    sizes.partition(np.unique(at), axis=-1)
    found = np.take_along_axis(sizes, at[..., None], axis=-1)[..., 0] / _OF_NORMAL
    return np.where((count >= _FEWEST_OF_BLOCK) & (found > 0), found, np.nan)


def _is_sparse(blocks: _Blocks) -> bool:
    """Whether most voxels that are not 0 lie beside such as are 0, as in counts of few photons."""
    return 2 * int(np.count_nonzero(blocks.valid)) < blocks.there


def _follows(levels: Array, mean: Array) -> bool:
    """Whether the noise of blocks grows with their signal as counts do: near its square root, over some range."""
    known = mean > np.where(np.isfinite(levels), levels, np.inf)
    if np.count_nonzero(known) < _FEWEST_BLOCKS:
        return False
    signal, noise = np.log(mean[known]), np.log(levels[known])
    if np.ptp(signal) < _RANGE:
        return False
    slope, correlation = np.polyfit(signal, noise, 1)[0], np.corrcoef(signal, noise)[0, 1]
    return bool(slope > _STEEP and correlation > _CLOSE)


def _without_floors(levels: Array, spread: Array, mean_squares: Array, is_dark: Array) -> tuple[Array, Array]:
    """Levels and spreads of the noise from those of magnitudes.

    Without signal the correction multiplies errors; but no anatomy is there, so that dark blocks are taken alike.
    """
    variance = np.square(levels)
    if is_dark.any():
        around = _around(np.where(is_dark, mean_squares, np.nan))[is_dark]
        mean_squares[is_dark] = _quantile(around, _LOWER)  # some hold a little signal
        variance[is_dark] = np.median((variance / mean_squares)[is_dark]) * mean_squares[is_dark]
    known = np.isfinite(variance)
    factor = np.sqrt(without_floor(variance[known], mean_squares[known][:, None]) / variance[known])
    levels, spread = np.sqrt(variance), np.where(is_dark, np.sqrt(variance), spread)
    levels[known], spread[known] = factor * levels[known], factor * spread[known]
    return levels, spread


def _flattest(levels: Array, spread: Array) -> Array:
    """Noise of the blocks: that of the flattest around each, along the trend of the volume.

    The flattest are those little above a low quantile. Levels of such blocks are averaged, or where nothing but noise
    can be in them their spread, which is more certain.
    """
    trend = _trend(levels)
    relative, spreads = _around(levels / trend), _around(spread / trend)
    relative = np.where(np.isfinite(relative).any(axis=-1, keepdims=True), relative, 1.0)
    among = relative <= _EQUALS * _quantile(relative, _FLATTEST)[..., None]
    flat = np.mean(relative, axis=-1, where=among, keepdims=True)
    found = np.where(spreads <= _CALM * flat, spreads, relative)
    return np.asarray(trend * np.mean(found, axis=-1, where=among))


def _trend(levels: Array) -> Array:
    """Trend of the lower levels, an exponential of a quadratic of the place, as the coils of a scanner make noise vary.

    It begins as a low quantile, and is fitted again and again to the levels that are below it or little above.
    """
    known = np.isfinite(levels)
    places = [np.linspace(-1.0, 1.0, n) if n > 2 else np.zeros(n) for n in levels.shape]
    grids = [np.ones(levels.shape), *np.meshgrid(*places, indexing="ij")]
    terms = np.stack([grids[a] * grids[b] for a in range(4) for b in range(a, 4)], axis=-1)
    least = np.eye(terms.shape[-1])[1:]  # a penalty on whatever is not constant
    exponents = np.log(levels[known])
    fit = np.full(levels.shape, np.quantile(exponents, _FLATTEST))
    for _ in range(_FITS):
        above = exponents - fit[known]
        among = above < math.log(_EQUALS)
        weights = np.sqrt(np.where(above > 0, _FLATTEST, 1.0 - _FLATTEST))[among]
        equations = np.concatenate([weights[:, None] * terms[known][among], least])
        values = np.concatenate([weights * exponents[among], np.zeros(len(least))])
        fit = terms @ np.linalg.lstsq(equations, values)[0]
    return np.asarray(np.exp(fit))


def _around(levels: Array) -> Array:
    """Levels of the blocks around each, with a last axis for them; NaN where there are none."""
    padded = np.pad(levels, _AROUND, constant_values=np.nan)
    return np.asarray(sliding_window_view(padded, (2 * _AROUND + 1,) * 3).reshape(*levels.shape, -1))


def _quantile(values: Array, share: float) -> Array:
    """Quantile over the last axis of what is a number there, as NumPy's nanquantile, which goes row by row."""
    ordered = np.sort(values, axis=-1)  # NaN comes last
    place = share * np.maximum(np.isfinite(values).sum(axis=-1) - 1, 0)
    low, high = (np.take_along_axis(ordered, f(place).astype(int)[..., None], -1)[..., 0] for f in (np.floor, np.ceil))
    return np.asarray(low + (place - np.floor(place)) * (high - low))
