"""What a bootstrap draws from: tensors (wild), the same for both backends, or signals (residual)."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Problem
from napari_gpubio.core.memory import Memory

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class DrawProblem(Problem):
    """Tensors, and how much each residual of each voxel shifts its tensor.

    With fixed weights least squares is linear in the data, so repeat r of voxel n is
    ``tensors[n] + sum_v s[r, n, v] shifts[n, v]``, where the sign s is +1 or -1 with equal probability (Rademacher).
    Bit ``v % 32`` of the word ``v // 32`` of the Philox item ``r 2^32 + voxels[n]`` tells the sign.

    Parameters
    ----------
    tensors
        The fit, shape (M, 6), float64, mm^2/s.
    shifts
        Shape (M, N, 6), float32, mm^2/s.
    voxels
        Numbers of the voxels, shape (M,), uint32, which their signs depend on.
    seed
        Seed of the random numbers.
    """

    work = "the bootstrap"
    tensors: npt.NDArray[np.float64]
    shifts: npt.NDArray[np.float32]
    voxels: npt.NDArray[np.uint32]
    seed: int

    def memory(self, device: Device) -> Memory:
        """Shifts, and those that a GPU turns round."""
        return Memory(inputs=self.shifts.nbytes, scratch=self.shifts.nbytes)


class SignalDraws(NamedTuple):
    """What repeats are drawn from.

    ``fitted``: signals of the fit, shape (M, V), float32; ``residuals``: those of each voxel, of equal variance and
    mean zero, shape (M, V), float32; ``voxels``: numbers of the voxels, shape (M,), uint32, which the draws depend on;
    ``seed``: of the random numbers.
    """

    fitted: Array
    residuals: Array
    voxels: Array
    seed: Any
