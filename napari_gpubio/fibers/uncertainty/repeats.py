"""One repeat of a bootstrap: what it gives, and that in tensors: they are drawn and repaired, and fibers tracked."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.drivers import Runs
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.tensors.repair import repair_rows
from napari_gpubio.fibers.directions import Directions
from napari_gpubio.fibers.kernels.bootstrap.problem import DrawProblem
from napari_gpubio.fibers.kernels.rays.problem import MARGIN_VOXELS, RayProblem
from napari_gpubio.fibers.run import trace_problem
from napari_gpubio.fibers.seeds import make_launch
from napari_gpubio.fibers.settings import Method, TensorMethod
from napari_gpubio.tractograms import maps
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
Done = TypeVar("Done")
_THREADS_ON_CPU, _THREADS_PER_GPU = 2, 4  # repeats at once: what one does on the host hides what others do elsewhere
SECOND = 1 << 30  # number of the draw that is added to draw 0; repeats are a million at most
_FEW_POINTS = 200_000  # of fibers that the CPU has counted before a GPU has them


class Place(NamedTuple):
    """Which voxels of a box are drawn again, and where it lies (voxel to world, mm)."""

    inside: npt.NDArray[np.bool_]
    affine: npt.NDArray[np.float64]


class Repeat(NamedTuple):
    """Fibers of a repeat, on the grid of the box, and which of its voxels they pass."""

    fibers: Tractogram
    visited: npt.NDArray[np.bool_]


class Repeats(Protocol):
    """What draws a field again and tracks in it; ``threads`` may do so at once."""

    threads: int

    def trace(
        self, number: int, seeds: Array, directions: Directions, method: Method, *, twice: bool = False
    ) -> Repeat | None:
        """Track from seeds (S, 3), world mm, in the draw with a number; None if it was stopped on the way.

        ``twice``: noise is drawn and added twice, once as without it.
        """

    def close(self) -> None:
        """Free what is kept on GPUs."""


def threads_of(device: Device) -> int:
    """Repeats that are done at once."""
    return len(device.indices) * _THREADS_PER_GPU if device.is_gpu else _THREADS_ON_CPU


def in_order(do: Callable[[int], Done], count: int, threads: int, stop: threading.Event | None) -> Iterator[Done]:
    """Yield ``do(0)``, ``do(1)``, ..., some of them being done at once; no new one is begun after a stop."""
    with ThreadPoolExecutor(threads, thread_name_prefix="napari-gpubio") as pool:
        waiting = deque[Future[Done]]()
        try:
            for number in range(count):
                if stop is not None and stop.is_set():
                    break
                waiting.append(pool.submit(do, number))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def repeat_of(fibers: Tractogram, device: Device) -> Repeat:
    """Fibers with the voxels that they pass; few of them are counted on the CPU."""
    return Repeat(fibers, maps.mask(fibers, device=CPU if len(fibers.points) < _FEW_POINTS else device))


class TensorRepeats:
    """Draws tensors and tracks in them; several threads may do so at once.

    Parameters
    ----------
    problem
        What is drawn from.
    place
        Where.
    floor_mm2_per_s
        Smaller eigenvalues are raised to it.
    device
        One or more GPUs, which take turns, or the CPU.
    """

    def __init__(self, problem: DrawProblem, place: Place, floor_mm2_per_s: float, device: Device) -> None:
        self._place, self._floor, self._margin = place, floor_mm2_per_s, Margin(place.inside)
        self._tensors = problem.tensors
        self._draws, self.threads = Runs(problem, device), threads_of(device)

    def trace(
        self, number: int, seeds: Array, directions: Directions, method: Method, *, twice: bool = False
    ) -> Repeat:
        """Track in one draw of the tensors."""
        draws = self._draws.each[number % len(self._draws.each)]
        device, tensors = draws.device, draws.draw(number)
        if twice:
            tensors += draws.draw(SECOND + number) - self._tensors
        field = self._field(tensors)
        assert isinstance(method, TensorMethod), "tensors were drawn"
        problem = RayProblem(field, make_launch(field, seeds, directions), method)
        if problem.volume is field:
            problem.prepared("tensors", lambda: self._margin.continued(field.tensors) * 1e3, metric=False)
            if device.is_gpu:
                from napari_gpubio.fibers.kernels.bootstrap.gpu import prepare

                prepare(problem, device)
        return repeat_of(trace_problem(problem, device), device)

    def _field(self, tensors: Array) -> TensorField:
        repair_rows(tensors, self._floor)
        volume = np.zeros((*self._place.inside.shape, 6))
        volume[self._place.inside] = tensors
        return TensorField(tensors=volume, mask=self._place.inside, affine=self._place.affine)

    def close(self) -> None:
        """Free what is kept on GPUs."""
        self._draws.close()


class Margin:
    """The voxels just beyond a mask, each with the nearest voxels inside.

    It continues tensors as `napari_gpubio.fibers.kernels.rays.problem.continued` does, up to rounding, but looks for
    neighbors only once.
    """

    def __init__(self, mask: npt.NDArray[np.bool_]) -> None:
        from scipy import ndimage, sparse, spatial

        self._near = ndimage.binary_dilation(mask, np.ones((3, 3, 3)), iterations=MARGIN_VOXELS) & ~mask
        self._mask, self._means = mask, None
        if not self._near.any():
            return
        tree, beyond = spatial.KDTree(np.argwhere(mask)), np.argwhere(self._near)
        distances = tree.query(beyond)[0]
        nearest = tree.query_ball_point(beyond, distances + 1e-6)  # all that are as near; squares are whole numbers
        counts = np.array([len(some) for some in nearest])
        starts, columns = np.concatenate([[0], np.cumsum(counts)]), np.concatenate(nearest).astype(np.int64)
        shape = (len(beyond), np.count_nonzero(mask))
        self._means = sparse.csr_array((np.repeat(1.0 / counts, counts), columns, starts), shape=shape)

    def continued(self, tensors: Array) -> Array:
        """Return a copy of tensors (X, Y, Z, 6) that has the mean of the nearest ones beyond the mask."""
        filled = tensors.copy()
        if self._means is not None:
            filled[self._near] = self._means @ tensors[self._mask]
        return filled
