"""The noise of a series of magnitude volumes, found across its volumes, and whether one volume's noise is plausible.

A scanner's noise is the same in each volume of a series. Anatomy is not noise there: it repeats itself from volume to
volume, so that a few principal components of a small block hold it, while the eigenvalues of pure noise follow the law
of Marchenko and Pastur. Where the spectrum begins to depart from that law noise ends (Veraart et al. 2016, doi
10.1016/j.neuroimage.2016.08.016, with the number of samples of Cordero-Grande et al. 2019).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.denoise.inputs import SKIP_GAPS, checked_mask, checked_reals
from napari_gpubio.denoise.kernels.anlm.tally import koay
from napari_gpubio.denoise.settings import DenoiseSettings

Array = npt.NDArray[Any]
FEWEST_VOLUMES = 10  # signal leaks into noise where they are few: sigma is up to 8 % too large with 10, 23 % with 6
MIN_SIDE = 5  # of a block, voxels
_MAX_BLOCKS, _MIN_BLOCKS = 2000, 300
_OPERATIONS = 1.5e10  # that eigenvalues may take, in cubes of the smaller side of a matrix: about 3 s on two cores
_BATCH_NUMBERS = 1 << 22
_ROUNDING = 1e-6  # of the signal; what is less is no noise
_UNEVEN = 2.0  # ratio of the 95th and the 5th percentile of the noise, beyond which one number says too little
_KOAY_STEPS = 12
_CLEAR = 1e3  # signal / noise, beyond which magnitudes have the variance of the noise
_SEED = 1
_IMPLAUSIBLE = 1.25  # times the finest detail of an image; white noise gives 1
_LOOKED_AT = 96  # voxels along each axis, in the middle of a volume, that tell whether its noise is plausible


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesNoise(ShortRepr):
    """The noise of a series.

    Parameters
    ----------
    sigma
        Standard deviation of the noise of the real and imaginary parts, in the unit of the image: the median over
        blocks.
    percentiles
        5th and 95th percentile of the blocks' own.
    components
        Principal components that hold signal, median over blocks.
    volumes, blocks
        How many there were.
    map
        Standard deviation at each voxel, shape (X, Y, Z), if it was asked for: the mean of the blocks that hold the
        voxel; ``sigma`` where there is none.
    notes
        What limits the estimate, in sentences for the user.
    """

    sigma: float
    percentiles: tuple[float, float]
    components: float
    volumes: int
    blocks: int
    map: Array | None = None
    notes: tuple[str, ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """What was found, and its limits, for the user."""
        found = (
            f"the noise, σ = {short_number(self.sigma, 3)} in the unit of the image, was found across {self.volumes} "
            "volumes and used for each of them"
        )
        return found, *self.notes


def is_across_volumes(settings: DenoiseSettings, shape: tuple[int, ...]) -> bool:
    """Whether the noise of an image is estimated across volumes: Rician noise, and a series of enough volumes.

    Other noise (of Monte Carlo gates, for instance) need not be the same everywhere, and ``rician-simple`` does as
    the code of Yuan et al. 2018 does.
    """
    return settings.noise_model == "rician" and len(shape) == 4 and shape[3] >= FEWEST_VOLUMES


def estimate(series: npt.ArrayLike, *, mask: npt.ArrayLike | None = None, wants_map: bool = False) -> SeriesNoise:
    """Estimate the noise of a series of magnitude volumes across the volumes.

    Blocks have 5 voxels along each axis, or more so that they hold at least as many voxels as there are volumes. A
    random sample of 2000 of them is taken (fewer of many volumes; always the same sample), for a map every third
    voxel's block. The variance of low magnitudes is smaller than that of the noise; it is corrected by the signal of
    the block in each volume (Koay and Basser 2006).

    Parameters
    ----------
    series
        Shape (X, Y, Z, N), magnitudes, at least `FEWEST_VOLUMES` volumes. Not interpolated: resampling makes noise
        smaller and correlated.
    mask
        Voxels that show tissue, shape (X, Y, Z). None: those brighter than half of the mean of what is not zero.
    wants_map
        Whether the noise is to be mapped, too; this takes about five times as long.

    Raises
    ------
    InvalidInput
        If the series has too few volumes, the mask shows no tissue, or there is no noise.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.denoise import noise
    >>> rng = np.random.default_rng(0)
    >>> real, imaginary = rng.normal(size=(2, 16, 16, 16, 30))
    >>> series = np.hypot(100 * np.exp(-np.linspace(0, 2, 30)) + 3 * real, 3 * imaginary)
    >>> bool(abs(noise.estimate(series).sigma - 3) < 0.1)
    True
    """
    array, _ = checked_reals(series, "series")
    check_volumes(array.shape)
    mean = array.mean(axis=3, dtype=np.float64)
    tissue, sides = _tissue(mean, mask), block_sides(array.shape)
    corners = _corners(mean > 0, tissue, sides)
    chosen = _on_lattice(corners, sides) if wants_map else _sample(corners, min(array.shape[3], math.prod(sides)))
    found, components = _of_blocks(array, chosen, sides)
    sigma = float(np.median(found))
    if not sigma > _ROUNDING * float(np.sqrt(np.mean(np.square(array[tissue], dtype=np.float64)))):
        raise InvalidInput("the volumes of the series show no noise; choose noise_model='gaussian', or give sigma")
    low, high = map(float, np.percentile(found, (5, 95)))
    return SeriesNoise(
        sigma=sigma,
        percentiles=(low, high),
        components=float(np.median(components)),
        volumes=array.shape[3],
        blocks=len(found),
        map=_mapped(array.shape[:3], chosen, sides, found, sigma) if wants_map else None,
        notes=_notes(low, high, components, array.shape[3]),
    )


def check_volumes(shape: tuple[int, ...]) -> None:
    """Raise InvalidInput unless an image is a series of enough volumes."""
    if len(shape) != 4 or shape[3] < FEWEST_VOLUMES:
        raise InvalidInput(
            f"the image has shape {shape}; to find the noise across volumes takes a series (x, y, z, n) of at least "
            f"{FEWEST_VOLUMES} volumes: give its standard deviation instead"
        )


def block_sides(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Voxels of a block along each axis: odd, so many that they are not fewer than the volumes, if the image has them.

    Examples
    --------
    >>> block_sides((96, 96, 60, 33)), block_sides((96, 96, 3, 60)), block_sides((5, 5, 5, 280))
    ((5, 5, 5), (5, 5, 3), (5, 5, 5))
    """
    side = MIN_SIDE
    while math.prod(min(side, n) for n in shape[:3]) < shape[3] and side < max(shape[:3]):
        side += 2
    x, y, z = (min(side, n) for n in shape[:3])
    return x, y, z


def noise_share(block: Array) -> tuple[Array, npt.NDArray[np.intp]]:
    """Variance of the noise of matrices, and how many of their principal components are signal.

    Parameters
    ----------
    block
        Shape (B, voxels, volumes).

    Returns
    -------
    tuple
        Both of shape (B,).
    """
    transposed = block.swapaxes(1, 2)
    least, most = sorted(block.shape[1:])
    gram = transposed @ block if block.shape[2] == least else block @ transposed
    eigenvalues = np.maximum(np.linalg.eigvalsh(gram), 0.0) / most
    count = np.arange(1, least + 1)
    mean = np.cumsum(eigenvalues, axis=1) / count
    # samples left when the signal's components are gone (Cordero-Grande et al. 2019)
    width = 4.0 * np.sqrt(count / (most - (least - count)))
    is_noise = eigenvalues - eigenvalues[:, :1] < width * mean
    last = np.where(is_noise.any(axis=1), least - np.argmax(is_noise[:, ::-1], axis=1), 1)
    return np.take_along_axis(mean, last[:, None] - 1, axis=1)[:, 0], least - last


# -- one volume -------------------------------------------------------------------------------------------------------


def doubts(
    volumes: Array,
    denoised: Array,
    found: Array,
    inside: npt.NDArray[np.bool_],
    which: Sequence[int],
    *,
    is_rician: bool,
) -> tuple[str, ...]:
    """Say in which of some volumes the noise that was measured by patches is not plausible.

    Parameters
    ----------
    volumes, denoised, found
        Volumes, the same denoised, and the standard deviation of the noise as it was found in each volume alone,
        shape (X, Y, Z, N).
    inside
        Voxels that count, shape (X, Y, Z).
    which
        Indices of the volumes that are looked at.
    is_rician
        Whether they are magnitudes.
    """
    x, y, z = (slice(max(0, (n - _LOOKED_AT) // 2), (n + _LOOKED_AT) // 2) for n in inside.shape)
    volume, clean, sigma = (array[x, y, z] for array in (volumes, denoised, found))
    each = {n: _doubt(volume[..., n], clean[..., n], sigma[..., n], inside[x, y, z], is_rician) for n in which}
    return of_volumes(each, volumes.shape[3])


def few_volumes(count: int) -> tuple[str, ...]:
    """Say that a series has too few volumes for their noise to be found across them."""
    if count == 1:
        return ()
    note = (
        f"{count} volumes are too few to find their noise across volumes, which takes {FEWEST_VOLUMES}; each was "
        "looked at alone, which is less exact: give σ if you know it"
    )
    return (note,)


def of_volumes(sentences: Mapping[int, str], count: int) -> tuple[str, ...]:
    """The first of the sentences about some of ``count`` volumes that says anything, and how many there are."""
    said = [n for n, sentence in sentences.items() if sentence]
    where = f" (volume {said[0]}, one of {len(said)})" if said and count > 1 else ""
    return (f"{sentences[said[0]]}{where}",) if said else ()


def _doubt(volume: Array, denoised: Array, found: Array, inside: npt.NDArray[np.bool_], is_rician: bool) -> str:  # noqa: FBT001 - one place
    """Say that a noise found in one volume is more than its finest detail allows, or nothing."""
    tissue = _bright(denoised, inside)
    known = found[tissue & (found > 0)]
    if not known.size:
        return ""
    sigma, values = float(np.median(known)), volume[tissue].astype(np.float64)
    detail = np.array([finest_detail(volume, tissue) ** 2])
    if is_rician:
        detail = without_floor(detail, np.array([[np.mean(np.square(values))]]))
    most = math.sqrt(detail[0])
    if not sigma > _IMPLAUSIBLE * most:
        return ""
    shift = 100.0 * (float(np.mean(denoised[tissue], dtype=np.float64)) / float(values.mean()) - 1.0)
    return (
        f"similar patches differ by σ = {short_number(sigma, 3)}, but the finest detail of the image shows "
        f"{short_number(most, 3)} at most: anatomy was counted as noise, or the image is interpolated, and the mean "
        f"changed by {shift:+.1f} %; give σ if you know it"
    )


def finest_detail(volume: Array, inside: npt.NDArray[np.bool_]) -> float:
    """Standard deviation that the finest detail of a volume would have as white noise, NaN without any.

    The difference of neighbors along all axes at once (the finest band of a Haar wavelet) holds little anatomy;
    its median absolute value over 0.6745 is robust against that little (Donoho and Johnstone 1994). Uncorrelated noise
    is not above it.
    """
    even = tuple(slice(0, max(n // 2 * 2, 1)) for n in volume.shape)
    detail, within = volume[even].astype(np.float64), inside[even]
    for axis in (axis for axis in range(volume.ndim) if volume.shape[axis] > 1):
        first, second = ([slice(None)] * axis + [slice(start, None, 2)] for start in (0, 1))
        detail = (detail[*first] - detail[*second]) / math.sqrt(2.0)
        within = within[*first] & within[*second]
    values = np.abs(detail[within])
    return float(np.median(values)) / 0.6745 if values.size else math.nan


# -- which blocks -----------------------------------------------------------------------------------------------------


def _tissue(mean: Array, mask: npt.ArrayLike | None) -> npt.NDArray[np.bool_]:
    """Voxels with signal, of those of the mask, if there is one; ``mean`` is that of all volumes."""
    if not np.isfinite(mean).all():
        raise InvalidInput(f"the series has voxels that are not finite; {SKIP_GAPS}")
    everywhere = np.ones(mean.shape, bool)
    tissue = _bright(mean, everywhere) if mask is None else (checked_mask(mask, mean.shape) != 0) & (mean > 0)
    if not tissue.any():
        where = "" if mask is None else " in the mask"
        raise InvalidInput(f"the series shows no tissue{where}: its values are zero there; give another")
    return tissue


def _bright(volume: Array, inside: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Voxels brighter than half of the mean of those that are not zero."""
    positive = inside & (volume > 0)
    level = 0.5 * float(np.mean(volume[positive], dtype=np.float64)) if positive.any() else 0.0
    return np.asarray(positive & (volume > level))


def _corners(signal: npt.NDArray[np.bool_], tissue: npt.NDArray[np.bool_], sides: tuple[int, int, int]) -> Array:
    """First voxels of the blocks with signal everywhere, of which at least half is tissue; shape (B, 3).

    Where there are none, those with as much tissue as there is in any block.
    """
    size, shown = math.prod(sides), _counts(tissue, sides)
    good = (_counts(signal, sides) == size) & (2 * shown >= size)
    return np.argwhere(good if good.any() else shown == shown.max())


def _counts(marked: npt.NDArray[np.bool_], sides: tuple[int, int, int]) -> Array:
    """How many voxels of each block are marked, by its first voxel."""
    sums = np.pad(marked.astype(np.int64), [(1, 0)] * 3).cumsum(0).cumsum(1).cumsum(2)
    for axis, side in enumerate(sides):
        length = sums.shape[axis]
        sums = np.take(sums, range(side, length), axis) - np.take(sums, range(length - side), axis)
    return np.asarray(sums)


def _sample(corners: Array, side: int) -> Array:
    """As many blocks as take a few seconds, at random but always the same."""
    count = int(np.clip(_OPERATIONS / side**3, _MIN_BLOCKS, _MAX_BLOCKS))
    if len(corners) <= count:
        return corners
    return corners[np.random.default_rng(_SEED).choice(len(corners), count, replace=False)]


def _on_lattice(corners: Array, sides: tuple[int, int, int]) -> Array:
    """Blocks that overlap by half."""
    steps = np.array([side // 2 + 1 for side in sides])
    chosen = corners[(corners % steps == 0).all(axis=1)]
    return chosen if len(chosen) else corners


# -- their noise ------------------------------------------------------------------------------------------------------


def _of_blocks(series: Array, corners: Array, sides: tuple[int, int, int]) -> tuple[Array, Array]:
    """Standard deviation of the noise of each block, and its components of signal."""
    shape, volumes = series.shape[:3], series.shape[3]
    strides = np.array([shape[1] * shape[2], shape[2], 1])
    offsets, starts = strides @ np.indices(sides).reshape(3, -1), corners @ strides
    flat = series.reshape(-1, volumes)
    batch = max(1, _BATCH_NUMBERS // (len(offsets) * volumes))
    found, components = [], []
    for first in range(0, len(starts), batch):
        block = flat[starts[first : first + batch, None] + offsets].astype(np.float64)
        variance, signals = noise_share(block)
        found.append(np.sqrt(without_floor(variance, np.mean(np.square(block), axis=1))))
        components.append(signals)
    return np.concatenate(found), np.concatenate(components)


def without_floor(variance: Array, mean_squares: Array) -> Array:
    """Variance of the noise from that of magnitudes, shape (B,), and their mean squares, shape (B, volumes).

    The mean square of a magnitude is that of the signal and twice the variance of the noise.
    """
    noise = variance
    for _ in range(_KOAY_STEPS):
        size = noise[:, None]
        ratio = np.divide(
            mean_squares, size, out=np.full_like(mean_squares, _CLEAR**2), where=mean_squares < size * _CLEAR**2
        )
        theta = np.sqrt(np.maximum(ratio - 2.0, 0.0))
        noise = variance / koay(theta).mean(axis=1)
    return noise


def _mapped(shape: tuple[int, ...], corners: Array, sides: tuple[int, int, int], found: Array, sigma: float) -> Array:
    """Mean of the blocks that hold a voxel."""
    total, count = np.zeros(shape), np.zeros(shape)
    for offset in np.ndindex(*sides):
        place = tuple((corners + offset).T)  # of different blocks, so none is there twice
        total[place] += found
        count[place] += 1
    return np.where(count > 0, total / np.maximum(count, 1), sigma).astype(np.float32)


def _notes(low: float, high: float, components: Array, volumes: int) -> tuple[str, ...]:
    """What limits an estimate."""
    notes = []
    if high > _UNEVEN * low:
        notes.append(
            f"the noise is not the same everywhere (σ {short_number(low, 3)} to {short_number(high, 3)} in 90 % of "
            "blocks), as after interpolation or with several coils; one σ was used: where that matters, give a map"
        )
    if np.median(components) > volumes / 2:
        notes.append(
            f"more than half of the {volumes} volumes' components are signal, so that the noise may be underestimated"
        )
    return tuple(notes)
