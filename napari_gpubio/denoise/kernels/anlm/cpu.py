"""Adaptive non-local means on all CPU cores (Numba), the counterpart of ``gpu.py``."""

import numpy as np

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.parallel import cpu_threads
from napari_gpubio.denoise.kernels.anlm import filtering as anlm
from napari_gpubio.denoise.kernels.anlm.bricks import Radii
from napari_gpubio.denoise.kernels.anlm.problem import Float, Problem
from napari_gpubio.denoise.kernels.anlm.tally import Arrays, Filtered, Partial, finish


class Run:
    """The filtering of one volume on the CPU; items are bricks."""

    def __init__(self, problem: Problem, *, device: Device = CPU) -> None:
        self.device = device
        self._problem = problem
        mean, variance = np.empty_like(problem.values), np.empty_like(problem.values)
        padded = np.pad(problem.values, [(radius, radius) for radius in problem.windows.box], mode="symmetric")
        with cpu_threads():
            anlm.local_moments(padded, problem.usable, (mean, variance))
        self._volume = anlm.Volume(problem.values, mean, variance)
        self._partial = Partial.empty(problem)

    def bytes_per_item(self) -> int:
        """Nothing beyond what is resident."""
        return 1

    def advance(self, start: int, count: int) -> None:
        """Filter the bricks ``start`` to ``start + count - 1``."""
        p, partial = self._problem, self._partial
        radii = Radii(np.array(p.windows.patches), np.array(p.windows.search))
        work = start, count, int(p.variance is not None)
        keeps_largest = True if p.settings.center == "largest" else None
        with cpu_threads():
            anlm.filter_bricks(
                self._volume, radii, make_rule(p), work, (partial.sums, partial.estimates), keeps_largest
            )
        partial.done.append((start, count))

    @property
    def done(self) -> list[tuple[int, int]]:
        """Ranges (start, count) of bricks that are done."""
        return self._partial.done

    def snapshot(self) -> Partial:
        """Sums and estimates of the bricks that are done."""
        return self._partial

    def merge(self, other: Partial) -> None:
        """Take over bricks that another run has done."""
        self._partial.merge(other, self._problem)

    def finish(self) -> Filtered:
        """Correct for Rician bias and mix the patches, in all of the volume."""
        p, partial = self._problem, self._partial
        return finish(p, Arrays(p.values, p.usable, partial.sums, partial.estimates, p.variance), filter_axis)

    def close(self) -> None:
        """Nothing to free on the CPU."""


def make_rule(problem: Problem) -> anlm.Rule:
    """Pre-selection and weights as the Numba functions take them."""
    s, (a, b_with_c, anything) = problem.settings, map(bool, problem.flags)
    limits = problem.maximum, problem.floor, problem.cutoff
    return anlm.Rule(a, b_with_c, anything, *limits, s.is_rician)


def filter_axis(array: Float, axis: int, taps: Float) -> Float:
    """Filter along lines of an axis; ``taps`` has a row for even and one for odd positions, beyond the ends is 0."""
    out = np.empty_like(array)
    lines = (int(np.prod(array.shape[:axis])), array.shape[axis], -1)
    with cpu_threads():
        anlm.filter_lines(array.reshape(lines), taps, out.reshape(lines))
    return out
