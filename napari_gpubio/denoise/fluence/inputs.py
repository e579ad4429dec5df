"""Inputs of fluence denoising: checked, and one buffer split in two."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.by_planes import extremes, in_slabs
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.denoise.inputs import AXES, SKIP_GAPS, checked_reals
from napari_gpubio.denoise.kernels.fluence.problem import Guide

Array = npt.NDArray[Any]
Float = npt.NDArray[np.floating]
Double = npt.NDArray[np.float64]
_FEWEST_VOXELS = 5


def checked_fluence(values: npt.ArrayLike, name: str) -> tuple[Float, tuple[str, ...]]:
    """Fluence as float32 or float64, and what was changed, in sentences.

    InvalidInput if it is not a volume, or a series of gates, of finite numbers that are not negative.
    """
    _check_dimensions(np.shape(values), name)
    array, notes = checked_reals(values, name)
    least, most = extremes(array)
    if not (np.isfinite(least) and np.isfinite(most)):
        bad = int(array.size - np.count_nonzero(np.isfinite(array)))
        raise InvalidInput(f"{bad} of the {name}'s {array.size} voxels are not finite; {SKIP_GAPS}")
    if least < 0:
        raise InvalidInput(
            f"the {name} has negative values (the least is {least:g}), which fluence cannot have; "
            "use anlm for other images"
        )
    if most == 0:
        raise InvalidInput(f"the {name} is zero everywhere; give one that light has reached")
    return array, notes


def _check_dimensions(shape: tuple[int, ...], name: str) -> None:
    if len(shape) not in (3, 4):
        raise InvalidInput(f"the {name} has shape {shape}; give a volume (x, y, z) or gates (x, y, z, n)")
    for axis, length in zip(AXES, shape, strict=False):
        if length < _FEWEST_VOXELS:
            raise InvalidInput(
                f"the {name} has {length} voxels along {axis} and at least {_FEWEST_VOXELS} are needed; give a larger "
                "volume"
            )
    if 0 in shape:
        raise InvalidInput(f"the {name} has shape {shape} and no gates; give at least one")


def checked_second(values: npt.ArrayLike, first: Float) -> tuple[Float, tuple[str, ...]]:
    """The other half-buffer, or InvalidInput."""
    second, notes = checked_fluence(values, "second buffer")
    if second.shape != first.shape:
        raise InvalidInput(
            f"the second buffer has shape {second.shape} and the first {first.shape}; give both halves of one run"
        )
    if all(map(np.array_equal, first, second)):  # the first plane that differs ends it
        raise InvalidInput("both buffers are the same; give the fluence of even and of odd photons, or only one buffer")
    ratio = _sum(second) / _sum(first)
    if not 0.67 < ratio < 1.5:
        held = f"the second buffer holds {ratio:.3g} times as much as the first"
        notes += (f"{held}; each should be per photon of its own half",)
    return second, notes


def _sum(values: Float) -> float:
    return float(sum(in_slabs(lambda slab: slab.sum(dtype=np.float64), values)))


def checked_labels(labels: npt.ArrayLike | None, shape: tuple[int, ...], what: str = "labels") -> Array | None:
    """Labels, shape (X, Y, Z), None if there are none, or InvalidInput."""
    if labels is None:
        return None
    array = np.asarray(labels)
    if array.shape != shape:
        raise InvalidInput(f"the {what} have shape {array.shape} and the fluence {shape}; use the {what} of this run")
    if array.dtype.kind not in "biuf" or (array.dtype.kind == "f" and not np.isfinite(array).all()):
        raise InvalidInput(f"the {what} hold {array.dtype} values that are not all finite numbers; give integers")
    return array


def checked_guide(
    guide: npt.ArrayLike | None, shape: tuple[int, ...], inside: npt.NDArray[np.bool_] | None
) -> Guide | None:
    """A guide and its largest value inside (None: everywhere), None if there is none; or InvalidInput."""
    if guide is None:
        return None
    array = np.asarray(guide)
    if array.shape != shape:
        raise InvalidInput(f"the guide has shape {array.shape} and the fluence {shape}; use the guide of this run")
    least, most = extremes(array) if array.dtype.kind in "iuf" else (np.nan, np.nan)
    if not (least >= 0 and np.isfinite(most)):
        raise InvalidInput("the guide has values that are negative, not finite or no numbers; use that of this run")
    peak = most if inside is None else array[inside].max()
    if peak == 0:
        raise InvalidInput("the guide is zero everywhere; use that of this run")
    return Guide(array, float(peak))


def checked_mueff(mueff_per_mm: npt.ArrayLike | None, shape: tuple[int, ...]) -> Float | None:
    """Effective attenuation, one number or a map (X, Y, Z), None if not known, or InvalidInput."""
    if mueff_per_mm is None:
        return None
    array = np.asarray(mueff_per_mm)
    if array.dtype.kind not in "iuf":
        raise InvalidInput(f"mueff_per_mm holds {array.dtype} values; give numbers in 1/mm")
    if array.shape not in ((), shape):
        raise InvalidInput(f"mueff_per_mm has shape {array.shape} and the fluence {shape}; give one number or a map")
    if not np.isfinite(array).all() or (array <= 0).any():
        raise InvalidInput(
            f"mueff_per_mm must be greater than 0 everywhere (the least is {np.nanmin(array):g} 1/mm); "
            "leave out what does not absorb with a mask, or give a small number there"
        )
    return array.astype(np.float64)


_DIFFERENCE = np.array([1.0, -4.0, 6.0, -4.0, 1.0])  # of fourth order: fluence that falls 30 % a voxel leaves 0.2 %
_NEIGHBOR = np.array([0.13, 1.0, 0.13])  # makes white noise as alike in neighbors as that of Monte Carlo
_FAR, _FAR_SHARE = 2.0, 0.08  # voxels, share of the variance: what is alike farther away, as photons pass many voxels
_ALIKE = (1.0, 0.31, 0.11, 0.06, 0.03)  # measured correlation of its noise at 0 to 4 mm in tissue of mu_s' 1 / mm
_WINDOW = 3.0  # voxels over which the relative noise is taken to be the same
_SMOOTH = 1.5  # voxels: scale of what the noise is relative to


def split_in_two(whole: npt.NDArray[np.floating], seed: int, noise: Double | None = None) -> tuple[Double, Double]:
    """Make two halves with independent noise of one buffer.

    With u = m + n and a random w of the covariance of n, the halves u + w and u - w have the mean m and independent
    noise, if that is Gaussian (the coupled bootstrap of Oliveira, Lei and Tibshirani 2021). Their mean is u. Two real
    half-buffers are better, since they need no measure of the noise: its standard error, measured where it is None.
    """
    sigma = measure_noise(whole) if noise is None else noise
    random = _alike_noise(np.random.default_rng(seed), whole.shape)
    return whole + sigma * random, whole - sigma * random


def _alike_noise(rng: np.random.Generator, shape: tuple[int, ...]) -> Double:
    """Noise of variance 1, as alike near and far as that of Monte Carlo."""
    from scipy.ndimage import correlate1d, gaussian_filter

    near, far = rng.standard_normal((2, *shape))
    for axis in range(3):
        near = correlate1d(near, _NEIGHBOR / np.linalg.norm(_NEIGHBOR), axis=axis, mode="wrap")
    far = (2.0 * np.sqrt(np.pi) * _FAR) ** 1.5 * gaussian_filter(far, _FAR, mode="wrap")
    return np.asarray(np.sqrt(1.0 - _FAR_SHARE) * near + np.sqrt(_FAR_SHARE) * far)


def measure_noise(whole: npt.NDArray[np.floating]) -> Double:
    """Standard error of one volume, from its fourth differences along the axis where they are least."""
    from scipy.ndimage import correlate1d, gaussian_filter

    values = np.asarray(whole, np.float64)
    level = np.maximum(gaussian_filter(values, _SMOOTH), 1e-30 * values.max())
    taps = np.correlate(_DIFFERENCE, _DIFFERENCE, "full")[4:]
    share = taps[0] + 2.0 * float(np.dot(taps[1:], _ALIKE[1:]))
    found = [
        gaussian_filter(np.square(correlate1d(values, _DIFFERENCE, axis=axis) / level), _WINDOW) for axis in range(3)
    ]
    return np.asarray(np.sqrt(np.minimum.reduce(found) / share) * level)
