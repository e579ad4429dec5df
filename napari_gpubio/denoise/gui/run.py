"""A run of the panel, in a worker: the denoised image as layers show it, its noise, and how much it has gained."""

import dataclasses
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import operations
from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.fluence import FluenceResult
from napari_gpubio.denoise.gui.request import Request, without_previews
from napari_gpubio.denoise.model import DenoiseResult
from napari_gpubio.denoise.napari_io import Array, Box, LayerVolume, Part
from napari_gpubio.denoise.values import in_place
from napari_gpubio.denoise.volumes import DenoisedVolume

UNKNOWN = "not known"
_NAN = float("nan")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Medians over the voxels with more signal than noise; NaN where there are none, or where they are not known."""

    noise: float  # standard deviation before denoising, in the unit of the image
    relative_noise: float  # the same divided by the signal
    before_db: float  # signal / noise before denoising
    gain_db: float  # of signal / noise, estimated
    left: float = _NAN  # standard deviation after denoising
    relative_left: float = _NAN

    @property
    def times(self) -> float:
        """How many times the photons (or repetitions) would give the same signal / noise without a filter."""
        return float(10.0 ** (self.gain_db / 10.0))


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Denoised:
    """Result of a run, ready to be shown: arrays with the axes of the input's layer and its logarithm."""

    request: Request
    operation: Operation
    result: DenoiseResult | FluenceResult
    clean: Array
    residual: Array  # what was denoised minus the denoised image
    noise: Array
    before: Array | None  # what was denoised, if that is not the image itself
    scale: Array | None  # how far voxels were smoothed, mm, if the mode chooses that
    stored: Array  # the denoised image in the order of the file
    standard_error: Array | None  # that is left in it, on the linear scale, if the mode knows it
    residual_limit: float  # largest absolute residual that the colors resolve
    numbers: Numbers


def run_steps(request: Request, stop: threading.Event) -> Generator[Step, None, Denoised]:
    """Denoise what is requested, and make the layers of it."""
    yield Step(0, 1, "reading the image")
    operation = request.operation()
    found: DenoisedVolume = yield from without_previews(
        operations.run_steps(operation, device=request.device, stop=stop)
    )
    numbers = yield from _numbers_steps(request, found, stop)
    image, before = request.image, found.before
    is_known = isinstance(found.result, FluenceResult) and found.has_halves
    return Denoised(
        request=request,
        operation=operation,
        result=found.result,
        clean=image.shown(found.denoised.array),
        residual=image.shown(found.residual.array),
        noise=image.shown(found.noise.array),
        before=None if before is None else image.shown(before.array),
        scale=None if found.scale is None else image.shown(found.scale.array),
        stored=found.denoised.array,
        standard_error=_error_left(request, found) if is_known else None,
        residual_limit=_limit(found.residual.array),
        numbers=numbers,
    )


def _error_left(request: Request, found: DenoisedVolume) -> Array:
    """Standard error of the denoised image on the linear scale, of the whole image's shape."""
    nowhere = np.full(request.image.shape, np.nan, np.float32)
    return in_place(nowhere, found.result.noise, _volumes(request), keeps_gaps=False)


def _limit(residual: Array) -> float:
    """Nearly the largest absolute residual, of those that are not 0."""
    sizes = np.abs(residual[np.isfinite(residual) & (residual != 0)])
    return float(np.percentile(sizes[:: max(1, sizes.size // 1_000_000)], 99)) if sizes.size else 1.0


# -- numbers ----------------------------------------------------------------------------------------------------------


def _numbers_steps(request: Request, found: DenoisedVolume, stop: threading.Event) -> Generator[Step, None, Numbers]:
    """Compute the numbers of a result: from two halves, or from the answer of the filter to added noise."""
    result = found.result
    if isinstance(result, FluenceResult):
        yield Step(1, 1, "the numbers")
        left = result.noise if found.has_halves else None
        return _numbers_of(result.image, result.raw_noise, result.snr_gain_db, left)
    gain_db = _NAN
    if result.complete:
        yield Step(1, 1, "estimating the gain")
        if request.is_across_volumes:
            request = request.with_noise(result.parameters["sigma"])
        block = _block_of(request, result)
        gain_db = yield from _gain_steps(block, stop, magnitudes=request.settings.is_rician)
    return _numbers_of(result.image, result.noise, gain_db)


def _numbers_of(image: Array, noise: Array, gain_db: float, left: Array | None = None) -> Numbers:
    """Numbers of a denoised image, its noise before denoising, and that which is left where it is known."""
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
        relative_left=_NAN if left is None else _median(rest / signal),
    )


def _median(values: npt.NDArray[Any]) -> float:
    return float(np.median(values)) if values.size else _NAN


def number_texts(
    numbers: Numbers, image: LayerVolume, times: str = "photons or averages", about: str = "≈"
) -> dict[str, str]:
    """Return the numbers of an image as they are shown; of logarithms the noise relative to the signal.

    ``times`` names what more of would do the same without a filter; ``about`` stands before the gain.
    """
    if image.is_log:
        amounts, unit = (100 * numbers.relative_noise, 100 * numbers.relative_left), "%"
    else:
        amounts, unit = (numbers.noise, numbers.left), image.unit
    noise = f"{' → '.join(short_number(amount, 3) for amount in amounts if np.isfinite(amount))} {unit}".rstrip()
    has_gain = np.isfinite(numbers.gain_db)
    return {
        "noise": noise if np.isfinite(numbers.noise) else UNKNOWN,
        "before": f"{numbers.before_db:.1f} dB" if np.isfinite(numbers.before_db) else UNKNOWN,
        "gain": f"{about} {numbers.gain_db:.0f} dB" if has_gain else UNKNOWN,  # known to a decibel at best
        "times": f"{about} {short_number(float(f'{numbers.times:.2g}'))} × the {times}" if has_gain else UNKNOWN,
    }


# -- the gain, without the truth --------------------------------------------------------------------------------------
# Noise of 0.3 of the standard deviation that was found is added to a block of the image, and the block is denoised with
# and without it. What is left of the addition, relative to what was added, is what is left of the noise. On phantoms
# with known truth this is right within about 1 dB; a change of bias is not seen. In Monte Carlo fluence a photon passes
# many voxels, so that the noise of neighbors is correlated, and a filter removes less of it. For logarithms, which
# fluence is shown as, the addition is therefore correlated alike: by 0.3 between next neighbors, as measured in
# scattering tissue in voxels of 1 mm.
_SIDE = 56  # voxels of the block
_AMOUNT = 0.3  # of the noise's standard deviation
_CORRELATING = 0.53  # voxels: a Gaussian of this width correlates next neighbors by 0.3
_NEAR = 2.0  # voxels: over which powers are averaged


def _block_of(request: Request, result: DenoiseResult) -> Request:
    """The same for a block in the middle of the signal, of the first volume of a series."""
    image, noise = _first(result.image), _first(result.noise)
    mask, volumes = request.linear()[1], _volumes(request)
    is_clear = image > noise if mask is None else (image > noise) & mask
    first = 0 if volumes is None else volumes.start
    return request.cut(Part(_box_around(is_clear), slice(first, first + 1)))


def _volumes(request: Request) -> slice | None:
    """The volumes of a series that are denoised, None if that is all."""
    volumes = request.fields.get("volumes")
    return None if volumes is None else slice(volumes[0], volumes[1] + 1)


def _gain_steps(block: Request, stop: threading.Event, *, magnitudes: bool) -> Generator[Step, None, float]:
    """Estimate the gain in dB on a block; NaN where it is not known; magnitudes stay positive."""
    values, mask = block.linear()
    try:
        plain = (yield from block.with_values(values, mask).steps(stop)).result
        noise, image = _first(plain.noise), _first(plain.image)
        added = _AMOUNT * noise * _probe(noise.shape, correlated=block.image.is_log)
        noisier = (values + added.reshape(values.shape)).astype(plain.image.dtype)
        shaken = block.with_values(np.abs(noisier) if magnitudes else noisier, mask)
        after = (yield from shaken.steps(stop)).result
    except GpuBioError:  # the block is too small for the windows, for instance
        return _NAN
    left = (_first(after.image).astype(np.float64) - image) / _AMOUNT
    return _gain_db(noise.astype(np.float64), left, image) if after.complete else _NAN


def _gain_db(noise: Array, left: Array, image: Array) -> float:
    """Median over voxels with more signal than noise, of what is left of the noise nearby."""
    from scipy.ndimage import gaussian_filter

    before, after = gaussian_filter(np.square(noise), _NEAR), gaussian_filter(np.square(left), _NEAR)
    is_clear = (noise > 0) & (image > noise) & (before > 0) & (after > 0)
    return _median(10.0 * np.log10(before[is_clear] / after[is_clear]))


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
    ranges = []
    for axis, length in enumerate(marked.shape):
        counts = marked.sum(axis=tuple({0, 1, 2} - {axis})).cumsum()
        middle = int(np.searchsorted(counts, counts[-1] / 2)) if counts[-1] else length // 2
        start = int(np.clip(middle - _SIDE // 2, 0, max(0, length - _SIDE)))
        ranges.append(slice(start, start + _SIDE))
    x, y, z = ranges
    return x, y, z
