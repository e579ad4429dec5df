"""Numbers of a result: its noise, and how much signal / noise it has gained."""

import dataclasses
import threading
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.napari_io import Array, Box, Part

if TYPE_CHECKING:
    from napari_gpubio.denoise.gui.recipes import Result
    from napari_gpubio.denoise.gui.request import Request
    from napari_gpubio.denoise.napari_io import LayerVolume

UNKNOWN = "not known"
_SIDE = 56  # voxels of the block
_AMOUNT = 0.3  # of the noise's standard deviation
_CORRELATING = 0.53  # voxels: a Gaussian of this width correlates next neighbors by 0.3
_NEAR = 2.0  # voxels: over which powers are averaged


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Medians over the voxels with more signal than noise; NaN where there are none.

    Parameters
    ----------
    noise, relative_noise
        Standard deviation of the noise before denoising: in the unit of the image, and divided by the signal.
    left, relative_left
        The same of the noise after it, where that is known.
    before_db, gain_db
        Signal / noise before denoising and its estimated gain.
    """

    noise: float
    relative_noise: float
    before_db: float
    gain_db: float
    left: float = float("nan")
    relative_left: float = float("nan")

    @property
    def times(self) -> float:
        """How many times the photons (or repetitions) would give the same signal / noise without a filter."""
        return float(10.0 ** (self.gain_db / 10.0))


def numbers_of(
    image: npt.NDArray[Any], noise: npt.NDArray[Any], gain_db: float, left: npt.NDArray[Any] | None = None
) -> Numbers:
    """Return the numbers of a result; takes a moment for large volumes.

    Parameters
    ----------
    image
        The denoised image.
    noise, left
        Standard deviation of the noise before and, where that is known, after; of the image's shape.
    gain_db
        Of signal / noise.
    """
    there = (noise > 0) & (image > noise)
    signal, sigma = image[there], noise[there].astype(np.float64)
    rest = np.array([]) if left is None else left[there].astype(np.float64)
    relative = _median(sigma / signal)
    return Numbers(
        noise=_median(sigma),
        relative_noise=relative,
        before_db=float(-20.0 * np.log10(relative)),
        gain_db=gain_db,
        left=_median(rest),
        relative_left=float("nan") if left is None else _median(rest / signal),
    )


def _median(values: npt.NDArray[Any]) -> float:
    return float(np.median(values)) if values.size else float("nan")


def number_texts(
    numbers: Numbers, image: "LayerVolume", times: str = "photons or averages", about: str = "≈"
) -> dict[str, str]:
    """Return the numbers as they are shown; of logarithms the noise relative to the signal.

    Parameters
    ----------
    numbers, image
        Of a result, and what was denoised.
    times
        What more of would do the same without a filter.
    about
        Sign before the gain.
    """
    return {
        "noise": _noise_text(numbers, image) if np.isfinite(numbers.noise) else UNKNOWN,
        "before": f"{numbers.before_db:.1f} dB" if np.isfinite(numbers.before_db) else UNKNOWN,
        "gain": f"{about} {numbers.gain_db:.1f} dB" if np.isfinite(numbers.gain_db) else UNKNOWN,
        "times": f"{about} {numbers.times:.2g} × the {times}" if np.isfinite(numbers.gain_db) else UNKNOWN,
    }


def _noise_text(numbers: Numbers, image: "LayerVolume") -> str:
    """The noise, and an arrow to what is left of it where that is known."""
    if image.values.is_log:
        amounts, unit = (100 * numbers.relative_noise, 100 * numbers.relative_left), "%"
    else:
        amounts, unit = (numbers.noise, numbers.left), image.unit
    return f"{' → '.join(f'{amount:.3g}' for amount in amounts if np.isfinite(amount))} {unit}".rstrip()


# -- the gain, without the truth --------------------------------------------------------------------------------------
# Noise of 0.3 of the standard deviation that was found is added to a block of the image, and the block is denoised with
# and without it. What is left of the addition, relative to what was added, is what is left of the noise. On phantoms
# with known truth this is right within about 1 dB; a change of bias is not seen. In Monte Carlo fluence a photon passes
# many voxels, so that the noise of neighbors is correlated, and a filter removes less of it. For logarithms, which
# fluence is shown as, the addition is therefore correlated alike: by 0.3 between next neighbors, as measured in
# scattering tissue in voxels of 1 mm.


def block_of(request: "Request", result: "Result") -> "Request":
    """Return the same for a block in the middle of the signal, of the first volume of a series."""
    image, noise = _first(result.image), _first(result.noise)
    is_clear = image > noise if request.mask is None else (image > noise) & request.mask
    first = request.volumes.start if request.volumes is not None else 0
    return request.cut(Part(_box_around(is_clear), slice(first, first + 1)))


def answer_gain_steps(
    block: "Request", stop: threading.Event, *, magnitudes: bool = False
) -> Generator[Step, None, float]:
    """Estimate the gain in dB on a block; NaN where nothing can be said.

    Parameters
    ----------
    block
        A small part of an image.
    stop
        Set it to end early.
    magnitudes
        Whether the filter takes no negative values.
    """
    values, mask = block.linear()
    try:
        plain = yield from block.filter_steps(values, mask, stop)
        noise, image = _first(plain.noise), _first(plain.image)
        added = _AMOUNT * noise * _probe(noise.shape, correlated=block.image.values.is_log)
        noisier = (values + added.reshape(values.shape)).astype(plain.image.dtype)
        shaken = yield from block.filter_steps(np.abs(noisier) if magnitudes else noisier, mask, stop)
    except GpuBioError:  # the block is too small for the windows, for instance
        return float("nan")
    left = (_first(shaken.image).astype(np.float64) - image) / _AMOUNT
    return _gain_db(noise.astype(np.float64), left, image) if shaken.complete else float("nan")


def _gain_db(noise: Array, left: Array, image: Array) -> float:
    """Median over voxels with more signal than noise, of what is left of the noise nearby."""
    from scipy.ndimage import gaussian_filter

    before, after = gaussian_filter(np.square(noise), _NEAR), gaussian_filter(np.square(left), _NEAR)
    is_clear = (noise > 0) & (image > noise) & (before > 0) & (after > 0)
    return float(np.median(10.0 * np.log10(before[is_clear] / after[is_clear]))) if is_clear.any() else float("nan")


def _probe(shape: tuple[int, ...], *, correlated: bool) -> npt.NDArray[np.float32]:
    """Noise of variance 1, the same every time."""
    probe = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    if correlated:
        from scipy.ndimage import gaussian_filter

        probe = gaussian_filter(probe, _CORRELATING)
    return np.asarray(probe / probe.std())


def _first(array: Array) -> Array:
    """The first volume of a series, or the volume."""
    return array if array.ndim == 3 else array[..., 0]


def _box_around(marked: npt.NDArray[np.bool_]) -> Box:
    """A block around the middle of what is marked, or of the volume."""
    x, y, z = (_range_around(axis, marked) for axis in range(3))
    return x, y, z


def _range_around(axis: int, marked: npt.NDArray[np.bool_]) -> slice:
    length = marked.shape[axis]
    counts = marked.sum(axis=tuple(other for other in range(3) if other != axis)).cumsum()
    middle = int(np.searchsorted(counts, counts[-1] / 2)) if counts[-1] else length // 2
    start = int(np.clip(middle - _SIDE // 2, 0, max(0, length - _SIDE)))
    return slice(start, start + _SIDE)
