"""The nonlinear part of a registration, after the affine one: SyN of DIPY, which bends both images to each other."""

import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.core.steps import Step
from napari_gpubio.core.submodules import extra
from napari_gpubio.registration.model import Warp

Array = npt.NDArray[Any]
_ITERATIONS, _COARSEST_MM = (30, 20, 15), 6.0  # most of each level, from coarse to fine; voxels of the first
_RADIUS, _SMOOTH, _BINS = 4, 3.0, 32  # voxels of the correlation, and of each update; of brightness

_THINNEST = 2 * _RADIUS + 2
_ITERATION, _END = "iteration", "end"


class Bent(NamedTuple):
    """Where the points of an image lie in another one on its grid, and the way back."""

    there: Warp
    back: Warp


class _Stopped(Exception):
    """The user wants no more."""


def dipy_syn() -> tuple[Any, Any]:
    """Return DIPY's modules of registration and of its metrics; InvalidInput if it is not installed."""
    imwarp, metrics = (
        extra(f"dipy.align.{name}", "registration", "a nonlinear registration") for name in ("imwarp", "metrics")
    )
    return imwarp, metrics


def recolored(moving: Array, fixed: Array) -> npt.NDArray[np.float32]:
    """Return an image in the contrast of another one on its grid: the other's mean where this one is as bright."""
    inside = (moving > 0) & (fixed > 0)
    if np.count_nonzero(inside) < _BINS:
        raise InvalidInput("the images do not overlap after the affine part; look at both headers")
    edges = np.unique(np.quantile(moving[inside], np.linspace(0, 1, _BINS + 1)))
    which = np.clip(np.searchsorted(edges, moving[inside], side="right") - 1, 0, len(edges) - 2)
    values = np.clip(fixed[inside], *np.quantile(fixed[inside], (0.01, 0.99)))
    counts = np.bincount(which, minlength=len(edges) - 1)
    means = np.bincount(which, values, len(edges) - 1)[counts > 0] / counts[counts > 0]
    found = np.interp(moving, ((edges[1:] + edges[:-1]) / 2)[counts > 0], means)
    return np.where(moving > 0, found, 0.0).astype(np.float32)


def warp_steps(
    fixed: Array, moving: Array, affine: Array, iterations: int, stop: threading.Event | None
) -> Generator[Step, None, Bent | None]:
    """Find where the points of an image lie in another one on the same grid, and the way back; None if stopped.

    Local correlation is maximized by SyN [1]_ from coarse to fine; each iteration is a step.

    References
    ----------
    .. [1] B. B. Avants, C. L. Epstein, M. Grossman, J. C. Gee, Medical Image Analysis 12, 26-41 (2008)
    """
    imwarp, metrics = dipy_syn()
    if min(fixed.shape) < _THINNEST:
        raise InvalidInput(
            f"the fixed image is {min(fixed.shape)} voxels thin, and a nonlinear registration needs {_THINNEST}; use "
            "affine"
        )
    finer = int(np.clip(np.log2(_COARSEST_MM / voxel_sizes_mm(affine).max()), 0, len(_ITERATIONS) - 1))
    while finer and min(fixed.shape) >> finer < _THINNEST:
        finer -= 1
    levels = [min(iterations, n) for n in _ITERATIONS[-1 - finer :]]
    metric = metrics.CCMetric(3, sigma_diff=_SMOOTH, radius=_RADIUS)
    ended, abandoned = SimpleQueue[str](), threading.Event()

    def tell(_: Any, stage: int) -> None:
        if abandoned.is_set() or (stop is not None and stop.is_set()):
            raise _Stopped
        if stage == imwarp.RegistrationStages.ITER_END:
            ended.put(_ITERATION)

    way = imwarp.SymmetricDiffeomorphicRegistration(metric, level_iters=levels, callback=tell)
    way.verbosity = 0
    places = {"static_grid2world": affine, "moving_grid2world": affine}
    with ThreadPoolExecutor(1) as pool:
        work = pool.submit(way.optimize, fixed, recolored(moving, fixed), **places)
        work.add_done_callback(lambda _: ended.put(_END))
        try:
            done = 0
            while ended.get() == _ITERATION:
                done += 1
                yield Step(done, sum(levels) + 1, "bending both images")
        finally:
            abandoned.set()
    try:
        found = work.result()
    except _Stopped:
        return None
    there, back = found.get_forward_field(), found.get_backward_field()
    return Bent(Warp(displacements=there, affine=affine), Warp(displacements=back, affine=affine))
