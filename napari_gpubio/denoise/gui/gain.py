"""How much signal / noise a filter gains on an image, without the truth: its answer to a little more noise.

Noise of 0.3 of the standard deviation that was found is added to a block of the image, and the block is denoised with
and without it. What is left of the addition, relative to what was added, is what is left of the noise. On phantoms with
known truth this is right within about 1 dB; it does not see a change of bias.

In Monte Carlo fluence a photon passes many voxels, so that the noise of neighbors is correlated, and a filter removes
less of it. For logarithms, which fluence is shown as, the addition is therefore correlated alike: by 0.3 between next
neighbors, as measured in scattering tissue in voxels of 1 mm.
"""

import threading
from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.napari_io import Array, Box, Part

if TYPE_CHECKING:
    from napari_gpubio.denoise.gui.mode import Result
    from napari_gpubio.denoise.gui.request import Request

_SIDE = 56  # voxels of the block
_AMOUNT = 0.3  # of the noise's standard deviation
_CORRELATING = 0.53  # voxels: a Gaussian of this width correlates next neighbors by 0.3
_NEAR = 2.0  # voxels: over which powers are averaged


def block_of(request: "Request", result: "Result") -> "Request":
    """Return the same for a block in the middle of the signal, of the first volume of a series."""
    image, noise = _first(result.image), _first(result.noise)
    told = image > noise if request.mask is None else (image > noise) & request.mask
    first = request.volumes.start if request.volumes is not None else 0
    return request.cut(Part(_box_around(told), slice(first, first + 1)))


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
    before, after = gaussian_filter(np.square(noise), _NEAR), gaussian_filter(np.square(left), _NEAR)
    told = (noise > 0) & (image > noise) & (before > 0) & (after > 0)
    return float(np.median(10.0 * np.log10(before[told] / after[told]))) if told.any() else float("nan")


def _probe(shape: tuple[int, ...], *, correlated: bool) -> npt.NDArray[np.float32]:
    """Noise of variance 1, the same every time."""
    probe = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    if correlated:
        probe = gaussian_filter(probe, _CORRELATING)
    return np.asarray(probe / probe.std())


def _first(array: Array) -> Array:
    """The first volume of a series, or the volume."""
    return array if array.ndim == 3 else array[..., 0]


def _box_around(told: npt.NDArray[np.bool_]) -> Box:
    """A block around the middle of what is marked, or of the volume."""
    x, y, z = (_range_around(axis, told) for axis in range(3))
    return x, y, z


def _range_around(axis: int, told: npt.NDArray[np.bool_]) -> slice:
    length = told.shape[axis]
    counts = told.sum(axis=tuple(other for other in range(3) if other != axis)).cumsum()
    middle = int(np.searchsorted(counts, counts[-1] / 2)) if counts[-1] else length // 2
    start = int(np.clip(middle - _SIDE // 2, 0, max(0, length - _SIDE)))
    return slice(start, start + _SIDE)
