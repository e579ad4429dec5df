"""Denoise a diffusion scan by Marchenko-Pastur PCA, on any device."""

import dataclasses
import math
import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.drivers import Runs, how_made
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory, fuller
from napari_gpubio.core.rows import copy_rows
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.diffusion.kernels.mppca.problem import Denoised, PcaProblem, pca_problem
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.noise.correlation import correlation_bytes, neighbor_correlations
from napari_gpubio.diffusion.noise.model import DenoisedScan
from napari_gpubio.diffusion.noise.rician import dark_notes, gaussian_noise
from napari_gpubio.diffusion.noise.settings import NoiseSettings
from napari_gpubio.diffusion.tensors.run import checked_mask

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
_ALIKE = 0.1  # a correlation of neighbors above it is a warning; of white noise it is within 0.01 of 0
_CORRECTING = 32  # bytes of a voxel, measured, while the noise of both channels is found
_EVEN = 2.0  # a noise level that varies by more over the mask, between its 5th and 95th percentiles, is a warning


def denoise_scan_steps(
    scan: DiffusionScan,
    mask: Array | None = None,
    settings: NoiseSettings | None = None,
    *,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, DenoisedScan]:
    """Take the noise out of a diffusion scan by Marchenko-Pastur PCA, step by step.

    The signals of the voxels of a window, volume by volume, are a matrix. Noise alone gives it eigenvalues of a known
    distribution (Marchenko and Pastur 1967), whose upper end tells how many components hold signal; the others are
    taken out of the voxel in the middle (Veraart et al. 2016, NeuroImage 142:394; exp2: Cordero-Grande et al. 2019,
    NeuroImage 200:391). No mean is taken out first. A window that would leave the scan is moved inside.

    It is for raw scans: before motion correction, distortion correction and any interpolation, which make noise of
    neighbors alike. MPPCA may be covered by patents (US 10,698,065); check before commercial use.

    Parameters
    ----------
    scan
        The diffusion-weighted series, at least 10 volumes. Voxels with a signal that is not finite stay as they are,
        and count as 0 in the windows of others.
    mask
        Which voxels are denoised, shape (X, Y, Z); the others are used all the same. None: all that have a signal.
    settings
        Window, estimator, Rician correction, precision; see `NoiseSettings`.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early; voxels not reached then stay as they are, and are left out of the result's mask.

    Raises
    ------
    InvalidInput
        If the mask does not fit, nothing is in it, or there are too few volumes or voxels.

    Examples
    --------
    >>> from napari_gpubio import diffusion
    >>> scan = diffusion.phantom.load_brain_phantom()
    >>> result = diffusion.noise.denoise_scan(scan)
    >>> result.scan.data.shape == scan.data.shape
    True
    """
    settings = settings or NoiseSettings()
    chosen, clock = choose_device(device), RunClock()
    window = settings.edges(scan.shape, scan.data.shape[3])
    needed = needed_memory(scan, mask, settings, device=CPU)  # a run on a GPU takes as much of the host's
    needed.check("denoising this scan", "denoise a part of it, or close other programs")
    signals, usable, nonzero = _signals_by_voxel(scan.data)
    data = signals if usable.all() else np.where(np.isfinite(signals), signals, np.float32(0))
    inside = nonzero if mask is None else checked_mask(scan, mask)
    skipped = int((inside & ~usable).sum())
    inside &= usable
    if not inside.any():
        raise InvalidInput("there is nothing to denoise: no voxel has signals that are finite and not 0")
    double = settings.precision == "double"
    problem = pca_problem(data, inside, window, exact=settings.estimator == "exp2", double=double)
    output = _Output(scan, problem)
    if not usable.all():
        output.data[~usable] = signals[~usable]
    done = 0
    with Runs(problem, chosen) as runs:
        for done in runs.chunks(stop):
            output.gather(runs.take())
            yield Step(done, problem.items, "denoising")
    notes = (
        *_window_notes(settings, window, scan),
        *_skipped_notes(skipped, output.failed),
        *_noise_notes(output),
        *_correlation_notes(data, inside),
    )
    clean, noise = dataclasses.replace(scan, data=output.data, path=None), output.noise
    if settings.rician:
        left = 1 - output.rank / max(scan.data.shape[3], math.prod(window))
        noise = gaussian_noise(clean, noise / np.sqrt(left, dtype=np.float32))
        notes += dark_notes(clean, noise)
    return DenoisedScan(
        denoised=dataclasses.replace(clean, notes=(*scan.notes, *notes)),
        noise=noise,
        rank=output.rank,
        mask=output.mask,
        rician=settings.rician,
        notes=notes,
        parameters=how_made(chosen, clock.seconds, noise=dataclasses.asdict(settings), window=list(window)),
        complete=done == problem.items,
    )


denoise_scan = driven(denoise_scan_steps)


def needed_memory(
    scan: DiffusionScan,
    mask: Array | None = None,
    settings: NoiseSettings | None = None,
    *,
    device: str | Device = "auto",
) -> Memory:
    """Memory that `denoise_scan` takes besides the scan: of the CPU's, or on each of some GPUs.

    Arguments are those of `denoise_scan_steps`; without a mask it is that of all voxels, and with signals that are not
    finite another copy of the scan is taken. On a GPU it is the most, see `PcaProblem.memory`.

    Examples
    --------
    >>> from napari_gpubio import diffusion
    >>> scan = diffusion.phantom.load_brain_phantom()
    >>> memory = diffusion.noise.needed_memory(scan, device="cpu")
    >>> memory.results == scan.data.size * 4 + scan.data[..., 0].size * 7  # the series, noise, ranks and the mask
    True
    """
    settings, chosen, voxels = settings or NoiseSettings(), choose_device(device), math.prod(scan.shape)
    inside = np.broadcast_to(np.bool_(1), scan.shape) if mask is None else checked_mask(scan, mask)
    count = int(np.count_nonzero(inside))
    problem = PcaProblem(
        data=np.broadcast_to(np.float32(0), scan.data.shape),
        voxels=np.broadcast_to(np.int32(0), (count, 3)),
        window=settings.edges(scan.shape, scan.data.shape[3]),
        exact=settings.estimator == "exp2",
        scale=1.0,
        real=np.float64 if settings.precision == "double" else np.float32,
    )
    memory = problem.memory(chosen)
    if chosen.is_gpu:
        return memory
    given = _is_by_voxel(scan.data) * problem.data.nbytes  # used as they are
    kept = dataclasses.replace(
        memory,
        inputs=memory.inputs - given + 2 * voxels + 8 * count,
        tallies=0,
        results=problem.data.nbytes + 7 * voxels,
        scratch=0,
    )
    after = max(correlation_bytes(inside, problem.volumes), settings.rician * _CORRECTING * voxels)
    denoising = dataclasses.replace(kept, tallies=memory.tallies, scratch=memory.scratch)
    return fuller(denoising, dataclasses.replace(kept, scratch=after))


class _Output:
    """The volumes of the result, which are filled as voxels become ready."""

    def __init__(self, scan: DiffusionScan, problem: PcaProblem) -> None:
        self._voxels = np.ravel_multi_index(tuple(problem.voxels.T), scan.shape)
        self.data = np.empty_like(problem.data)
        copy_rows(_rows_of(problem.data), _rows_of(self.data))
        self.noise = np.zeros(scan.shape, np.float32)
        self.rank = np.zeros(scan.shape, np.uint16)
        self.mask = np.zeros(scan.shape, bool)
        self.failed = 0

    def gather(self, parts: list[Denoised]) -> None:
        """Take over voxels that are done."""
        for part in parts:
            voxels, good = self._voxels[part.start : part.start + len(part.sigma)], np.isfinite(part.sigma)
            signals, sigma, rank = part.signals, part.sigma, part.rank
            if not good.all():
                voxels, signals, sigma, rank = voxels[good], signals[good], sigma[good], rank[good]
                self.failed += int((~good).sum())
            copy_rows(signals, _rows_of(self.data), voxels)
            for volume, values in ((self.noise, sigma), (self.rank, rank), (self.mask, True)):
                volume.reshape(-1)[voxels] = values


def _rows_of(series: Array) -> Array:
    """The voxels of a series in C order one behind the other, not copied."""
    return series.reshape(-1, series.shape[-1])


def _signals_by_voxel(data: Array) -> tuple[npt.NDArray[np.float32], Mask, Mask]:
    """Signals in single precision, those of a voxel side by side; in a file a volume is in one place.

    Returns
    -------
    tuple
        The signals; which voxels have finite ones only, and which have one that is not 0, shape (X, Y, Z) each.
    """
    from napari_gpubio.core.jit import run_blocks

    as_it_is = _is_by_voxel(data)
    signals = data if as_it_is else np.empty(data.shape, np.float32)
    usable, nonzero = np.empty(data.shape[:3], bool), np.empty(data.shape[:3], bool)

    def read(start: int, stop: int) -> None:
        for z in range(start, stop):  # twice as fast as all at once, since less memory is walked through
            if not as_it_is:
                signals[:, :, z] = data[:, :, z]
            usable[:, :, z] = np.isfinite(np.einsum("xyn->xy", signals[:, :, z]))  # so all of them are finite
            nonzero[:, :, z] = signals[:, :, z].any(axis=-1)

    run_blocks(read, data.shape[2])
    if not usable.all():  # or their sum is too large
        usable[~usable] = np.isfinite(signals[~usable]).all(axis=-1)
    return signals, usable, nonzero


def _is_by_voxel(data: Array) -> bool:
    """Whether signals are in single precision, and those of a voxel side by side."""
    return bool(data.dtype == np.float32 and data.flags.c_contiguous)


def _window_notes(settings: NoiseSettings, window: tuple[int, int, int], scan: DiffusionScan) -> list[str]:
    edge = settings.edge(scan.data.shape[3])
    if window == (edge, edge, edge):
        return []
    sizes = " x ".join(map(str, scan.shape))
    return [f"the window is {' x '.join(map(str, window))} voxels, since the scan has only {sizes} of them"]


def _skipped_notes(skipped: int, failed: int) -> list[str]:
    notes = []
    if skipped:
        notes.append(f"voxels with signals that are not finite were left as they are: {skipped:,}")
    if failed:
        notes.append(f"voxels whose eigenvalues were not found were left as they are: {failed:,}")
    return notes


def _noise_notes(output: _Output) -> list[str]:
    levels = output.noise[output.mask & (output.noise > 0)]
    if not len(levels):
        return ["no noise was found in the mask; was the scan denoised before?"]
    low, high = np.percentile(levels, (5, 95))
    if high <= _EVEN * low:
        return []
    note = (
        f"the noise level varies from {low:.4g} to {high:.4g} (5 to 95 % of the voxels); the scan was probably "
        "interpolated, resampled or denoised before, so that more noise is left than it says: denoise the raw scan"
    )
    return [note]


def _correlation_notes(data: npt.NDArray[np.float32], inside: Mask) -> list[str]:
    correlations = neighbor_correlations(data, inside)
    if not (correlations > _ALIKE).any():
        return []
    axis = int(np.nanargmax(correlations))
    note = (
        f"the noise of neighboring voxels is correlated ({correlations[axis]:.2f} along {'xyz'[axis]} of the array); "
        "the scan was probably interpolated, resampled or smoothed before (zero filling of k-space does it, too), so "
        "that more noise is left than the noise level says: denoise the raw scan"
    )
    return [note]
