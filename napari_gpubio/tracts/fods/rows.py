"""Drive the backends whose items are voxels, and whose results are rows of arrays that several devices share."""

import threading
from collections.abc import Generator
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.chunks import advance_in_chunks, within_memory
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.steps import Step
from napari_gpubio.tracts.kernels.peaks.problem import PeakProblem

Array = npt.NDArray[Any]
_FIRST_CHUNK = 8192
_COUNTS = {"csd": np.uint8, "multitissue": np.uint16}  # of iterations, as the kernels write them


def fill_rows(
    kernels: str,
    problem: Any,
    device: Device,
    message: str,
    stop: threading.Event | None = None,
    **rows: Any,
) -> Generator[Step, None, int]:
    """Do every voxel of a problem, chunk by chunk.

    Parameters
    ----------
    kernels
        Folder of the backends in `napari_gpubio.tracts.kernels`, whose ``Run`` takes the problem, the device and the
        arrays.
    problem
        What is done.
    device
        Where.
    message
        The work, as the user knows it.
    stop
        Set it to stop early.
    **rows
        Arrays with a row for each voxel, which are filled. The first one tells their number.

    Returns
    -------
    Number of voxels that were done, from the first on.
    """
    total, done = len(next(iter(rows.values()))), 0
    runs = _make_runs(kernels, problem, device, message, rows)
    try:
        for done in advance_in_chunks(runs, total, stop=stop, first_chunk=_FIRST_CHUNK):
            yield Step(done, total, message)
    finally:
        for run in runs:
            run.close()
    return done


def deconvolved_rows(
    kernels: str, problem: Any, device: Device, stop: threading.Event | None = None, message: str = "deconvolving"
) -> Generator[Step, None, tuple[npt.NDArray[np.float32], Array, int]]:
    """Deconvolve every voxel of a problem; for the parameters see `fill_rows`.

    Returns
    -------
    tuple
        FODs (and densities of other tissues), shape (M, N), NaN where there is no solution; how many iterations each
        voxel took (several tissues: constraints taken up), shape (M,); and how many voxels were done.
    """
    count = len(problem.signals)
    fods, took = np.empty((count, problem.coefficients), np.float32), np.zeros(count, _COUNTS[kernels])
    done = yield from fill_rows(kernels, problem, device, message, stop, out=fods, took=took)
    fods[done:] = np.nan
    return fods, took, done


def search_steps(
    problem: PeakProblem, device: Device, stop: threading.Event | None = None
) -> Generator[Step, None, tuple[Array, Array]]:
    """Find peaks (x, y, z, amplitude), shape (M, most, 4), and their number, shape (M,); zero where it was stopped."""
    peaks = np.zeros((len(problem.coefficients), problem.settings.most, 4))
    counts = np.zeros(len(peaks), np.uint8)
    yield from fill_rows("peaks", problem, device, "searching for peaks", stop, out=peaks, counts=counts)
    return peaks, counts


def _make_runs(kernels: str, problem: Any, device: Device, message: str, rows: dict[str, Any]) -> list[Any]:
    backend = import_module(f"napari_gpubio.tracts.kernels.{kernels}.{'gpu' if device.is_gpu else 'cpu'}")
    if not device.is_gpu:
        return [backend.Run(problem, device=CPU, **rows)]
    each = [Device("cuda", (i,)) for i in device.indices]
    needed = 64 << 20  # tables that voxels share; their own rows come and go in chunks
    return [within_memory(partial(backend.Run, problem, device=one, **rows), one, needed, message) for one in each]
