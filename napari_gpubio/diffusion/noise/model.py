"""What denoising leaves: the scan without its noise, how much noise there was, and what was taken away."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Described
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.noise.rician import rician_corrected

Array = npt.NDArray[Any]
_FARTHEST = 5.0  # of a ratio in a histogram, in standard deviations of the noise


class ResidualRatios(NamedTuple):
    """A histogram of residuals divided by the noise level.

    Attributes
    ----------
    counts
        Numbers of ratios, shape (bins,); those beyond 5 count in the first and the last bin.
    edges
        Of the bins, shape (bins + 1,), from -5 to 5.
    mean
        Of all ratios; it should be near 0.
    standard_deviation
        Of all ratios; it should be near sqrt(1 - k / r) for k signal components and r, the smaller one of the numbers
        of volumes and of voxels of a window.
    """

    counts: npt.NDArray[np.int64]
    edges: npt.NDArray[np.float64]
    mean: float
    standard_deviation: float


@dataclass(frozen=True, eq=False, kw_only=True)
class DenoisedScan(Described):
    """A diffusion scan without its noise.

    Parameters
    ----------
    denoised
        The scan that PCA leaves, float32, before any Rician correction; outside `mask` as it was.
    noise
        Standard deviation of the noise, in units of the signal, shape (X, Y, Z), float32; 0 outside the mask. As the
        estimators define it; it is low by the factor sqrt(1 - k / q) for k signal components and q, the larger one of
        the numbers of volumes and of voxels of a window. With `rician` it is without that factor, and that of
        both channels, see `napari_gpubio.diffusion.noise.gaussian_noise`: up to 1.5 times that of dark magnitudes.
    rank
        Number of signal components of the window around each voxel, shape (X, Y, Z), uint16; 0 outside the mask.
    mask
        Voxels that were denoised, shape (X, Y, Z).
    rician
        Whether `scan` is corrected for the mean of the noise in magnitudes.
    notes
        What denoising found, in sentences for the user; the scan has them, too, behind its own.
    parameters
        How it was made; only what JSON can hold.
    complete
        False if the run was stopped before its end.
    """

    denoised: DiffusionScan
    noise: npt.NDArray[np.float32]
    rank: npt.NDArray[np.uint16]
    mask: npt.NDArray[np.bool_]
    rician: bool = False
    notes: tuple[str, ...] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True

    @cached_property
    def scan(self) -> DiffusionScan:
        """The result: `denoised`, or, where that was asked for, its Rician correction (made when first used)."""
        return rician_corrected(self.denoised, self.noise) if self.rician else self.denoised

    def residual(self, original: DiffusionScan) -> npt.NDArray[np.float32]:
        """Return what PCA took away, ``original - denoised``, before any Rician correction.

        It should look like noise: anatomy in it is signal that was lost.

        Parameters
        ----------
        original
            The scan that was denoised. It is not kept here, nor is the residual, each of which is as large again.

        Returns
        -------
        ndarray of float32
            Shape (X, Y, Z, N), in units of the signal; 0 outside the mask.

        Raises
        ------
        InvalidInput
            If the scan has another shape.
        """
        self._check_original(original)
        residual = np.zeros(self.denoised.data.shape, np.float32)
        for x, part in self._residuals(original):
            residual[x][self.mask[x]] = part
        return residual

    def residual_ratio_histogram(self, original: DiffusionScan, bins: int = 100) -> ResidualRatios:
        """Return the histogram of residual / noise over the mask, where there was noise.

        Parameters
        ----------
        original
            The scan that was denoised.
        bins
            From -5 to 5.

        Raises
        ------
        InvalidInput
            If the scan has another shape, or there is not one bin.
        """
        self._check_original(original)
        if bins < 1:
            raise InvalidInput(f"the histogram has {bins} bins; give at least 1")
        edges = np.linspace(-_FARTHEST, _FARTHEST, bins + 1)
        counts, total = np.zeros(bins, np.int64), 0
        first = second = 0.0
        for x, part in self._residuals(original):
            noise = self.noise[x][self.mask[x]]
            ratios = (part[noise > 0] / noise[noise > 0][:, None]).astype(np.float64).ravel()
            counts += np.histogram(ratios.clip(-_FARTHEST, _FARTHEST), edges)[0]
            total, first, second = total + ratios.size, first + ratios.sum(), second + np.square(ratios).sum()
        mean = first / total if total else np.nan
        deviation = float(np.sqrt(max(0.0, second / total - mean**2))) if total else np.nan
        return ResidualRatios(counts, edges, float(mean), deviation)

    def _residuals(self, original: DiffusionScan) -> Iterator[tuple[int, npt.NDArray[np.float32]]]:
        """Planes x, and the residuals of the voxels of the mask in them, shape (K, N)."""
        for x in range(len(self.mask)):
            if (inside := self.mask[x]).any():
                taken = original.data[x][inside].astype(np.float32)
                taken -= self.denoised.data[x][inside]
                yield x, taken

    def _check_original(self, original: DiffusionScan) -> None:
        if original.data.shape != self.denoised.data.shape:
            raise InvalidInput(
                f"the scan has shape {original.data.shape} and the denoised one {self.denoised.data.shape}; "
                "give the scan that was denoised"
            )
