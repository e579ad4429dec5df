"""Drive the backends whose items are voxels, and whose results are rows of arrays that several devices share."""

import threading
from collections.abc import Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Runs
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.kernels.csd.problem import CsdProblem
from napari_gpubio.diffusion.kernels.multitissue.problem import ConstrainedProblem
from napari_gpubio.diffusion.kernels.peaks.problem import PeakProblem

Array = npt.NDArray[Any]


def deconvolved_rows(
    problem: CsdProblem | ConstrainedProblem,
    device: Device,
    stop: threading.Event | None = None,
    message: str = "deconvolving",
) -> Generator[Step, None, tuple[npt.NDArray[np.float32], Array, int]]:
    """Deconvolve every voxel of a problem.

    Returns
    -------
    tuple
        FODs (and densities of other tissues), shape (M, N), NaN where there is no solution; how many iterations each
        voxel took (several tissues: constraints taken up), shape (M,); and how many voxels were done.
    """
    count = len(problem.signals)
    fods, took = np.empty((count, problem.coefficients), np.float32), np.zeros(count, problem.counts)
    with Runs(problem, device, out=fods, took=took) as runs:
        done = yield from runs.steps(message, stop)
    fods[done:] = np.nan
    return fods, took, done


def search_steps(
    problem: PeakProblem, device: Device, stop: threading.Event | None = None
) -> Generator[Step, None, tuple[Array, Array]]:
    """Find peaks (x, y, z, amplitude), shape (M, most, 4), and their number, shape (M,); zero where it was stopped."""
    peaks = np.zeros((len(problem.coefficients), problem.settings.most, 4))
    counts = np.zeros(len(peaks), np.uint8)
    with Runs(problem, device, out=peaks, counts=counts) as runs:
        yield from runs.steps("searching for peaks", stop)
    return peaks, counts
