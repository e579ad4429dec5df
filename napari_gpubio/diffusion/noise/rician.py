"""Magnitudes: the mean and the spread that Gaussian noise of both channels leaves in them, and how to undo that.

A magnitude is sqrt((A + x)^2 + y^2) of a signal A and noise x and y of standard deviation sigma each. With theta =
A / sigma its mean is sigma mu and its variance sigma^2 xi ::

    mu(theta) = sqrt(pi / 2) exp(-z) [(1 + 2 z) I0(z) + 2 z I1(z)],  z = theta^2 / 4,   xi = 2 + theta^2 - mu^2

(Rice 1944; Koay and Basser 2006, J Magn Reson 179:317). Where there is no signal, the mean is 1.25 sigma and the
standard deviation 0.66 sigma: noise that is measured in dark magnitudes is too low, and so is what it takes off.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.model import DiffusionScan

Array = npt.NDArray[Any]
LOW_SNR, _FEW = 2.0, 0.01
_FAR, _STEP = 15.0, 2e-4  # mean / sigma where the tables end, and their steps
_MAX_ROUNDS, _SETTLED = 100, 1e-4  # of the noise, relative
_NEAR = 5  # voxels, an edge of the neighborhood whose noise is one


def mean_of_magnitudes(theta: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the mean of magnitudes over sigma, by signal over sigma."""
    from scipy.special import ive

    z = np.square(np.asarray(theta, np.float64)) / 4
    found: npt.NDArray[np.float64] = np.sqrt(np.pi / 2) * ((1 + 2 * z) * ive(0, z) + 2 * z * ive(1, z))
    return found


def gaussian_noise(scan: DiffusionScan, noise: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return the noise of both channels of which magnitudes show another spread: noise / sqrt(mean of xi).

    The mean is over all volumes of the voxels around, 5 along each axis, whose noise is taken as one; the ratio of
    their magnitudes to it decides their xi, so that it is found as Koay and Basser's fixed point.

    Parameters
    ----------
    scan
        A denoised series of magnitudes.
    noise
        Standard deviation of the magnitudes' noise, in units of the signal, shape (X, Y, Z).

    Returns
    -------
    ndarray of float32
        sigma, shape (X, Y, Z); where the noise is 0 or not finite, it stays so.

    Raises
    ------
    InvalidInput
        If the noise does not fit the scan.
    """
    from scipy.ndimage import uniform_filter

    level = _checked(scan, noise)
    known = np.isfinite(level) & (level > 0)
    near = np.maximum(uniform_filter(known.astype(np.float32), _NEAR), np.float32(1e-6))

    def around(values: Array) -> Array:
        return uniform_filter(np.where(known, values, 0), _NEAR) / near

    square = around(np.square(level))
    sigma = np.where(known, np.sqrt(square), level)
    for _ in range(_MAX_ROUNDS if known.any() else 0):
        shares = np.ones_like(sigma)
        for share, own, (inside, magnitudes) in zip(shares, sigma, _planes(scan, known), strict=True):
            share[inside] = _tables().xi_at(magnitudes / own[inside][:, None]).mean(axis=1)
        before, sigma = sigma, np.where(known, np.sqrt(square / around(shares)), level)
        if (np.abs(sigma - before)[known] <= _SETTLED * sigma[known]).all():
            break
    return sigma


def rician_corrected(scan: DiffusionScan, noise: npt.ArrayLike) -> DiffusionScan:
    """Take the mean of the noise out of magnitudes: the signal of which the magnitude is the mean; 0 below the least.

    Denoising leaves the mean, so that this is done afterwards: before, the noise itself would be changed, and its
    eigenvalues would not be those of noise any more.

    Parameters
    ----------
    scan
        A denoised series of magnitudes.
    noise
        Standard deviation sigma of the noise of both channels, in units of the signal, shape (X, Y, Z), see
        `gaussian_noise`; where it is 0 or not finite, signals stay as they are.

    Returns
    -------
    DiffusionScan
        float32.

    Raises
    ------
    InvalidInput
        If the noise does not fit the scan.
    """
    data = np.array(scan.data, np.float32)
    level = _checked(scan, noise)
    for plane, own, (inside, magnitudes) in zip(
        data, level, _planes(scan, np.isfinite(level) & (level > 0)), strict=True
    ):
        sigma = own[inside][:, None]
        plane[inside] = sigma * _tables().theta_at(magnitudes / sigma)
    return replace(scan, data=data)


def dark_notes(scan: DiffusionScan, noise: npt.NDArray[np.float32]) -> tuple[str, ...]:
    """Say how many magnitudes are too dark for their correction to be exact; arguments as of `rician_corrected`."""
    known = np.isfinite(noise) & (noise > 0)
    least, dark, count = float(mean_of_magnitudes(LOW_SNR)), 0, 0
    for own, (inside, magnitudes) in zip(noise, _planes(scan, known), strict=True):
        dark += int(np.count_nonzero(magnitudes < least * own[inside][:, None]))
        count += magnitudes.size
    if dark <= _FEW * count:
        return ()
    share = f"{100 * dark / count:.0f} % of the magnitudes have a signal-to-noise ratio below {LOW_SNR:g}"
    return (f"{share}; below 1 their correction is not exact",)


def _checked(scan: DiffusionScan, noise: npt.ArrayLike) -> npt.NDArray[np.float32]:
    sigma = np.asarray(noise, np.float32)
    if sigma.shape != scan.shape:
        raise InvalidInput(
            f"the noise has shape {sigma.shape} and the scan {scan.shape}; give the noise of this scan, a voxel each"
        )
    return sigma


def _planes(scan: DiffusionScan, known: Array) -> Iterator[tuple[Array, Array]]:
    """Of each plane which voxels are known, and the magnitudes there, shape (K, N)."""
    for inside, plane in zip(known, scan.data, strict=True):
        # interpolation and denoising leave some below 0
        yield inside, np.maximum(plane[inside].astype(np.float32), 0)


class _Tables(NamedTuple):
    """theta^2 and xi at even steps of the mean of magnitudes / sigma, from the least mean on."""

    least: float
    square: npt.NDArray[np.float32]
    xi: npt.NDArray[np.float32]

    def theta_at(self, ratios: Array) -> Array:
        """Signal / sigma of a magnitude / sigma; far from 0 the magnitude is sqrt(theta^2 + 1)."""
        square = np.where(ratios < _FAR, self.square[self._rows(ratios)], np.square(ratios) - 1)
        return np.sqrt(square)

    def xi_at(self, ratios: Array) -> Array:
        """Variance of a magnitude of that mean, over sigma^2."""
        return self.xi[self._rows(ratios)]

    def _rows(self, ratios: Array) -> Array:
        return np.clip((ratios - self.least) * (1 / _STEP), 0, len(self.xi) - 1).astype(np.int32)


@cache
def _tables() -> _Tables:
    theta = np.linspace(0.0, _FAR, 20_001)
    means = mean_of_magnitudes(theta)
    at = np.arange(means[0], means[-1], _STEP)
    square = np.interp(at, means, theta**2)
    return _Tables(float(means[0]), square.astype(np.float32), (2 + square - at**2).astype(np.float32))
