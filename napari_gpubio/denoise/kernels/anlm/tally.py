"""What bricks leave behind, and what is made of it when all are done."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.denoise import noise
from napari_gpubio.denoise.kernels.anlm import wavelet
from napari_gpubio.denoise.kernels.anlm.problem import NOTHING, Float, Problem
from napari_gpubio.denoise.kernels.anlm.windows import range_boxes

Array = npt.NDArray[Any]
Slices = tuple[slice, ...]
_UNKNOWN = np.float32(0.5 * NOTHING)
HALO = 16  # planes that `finish` reads beside a plane, an even number: 5 to smooth the noise, and 9 to mix patches


class Filtered(NamedTuple):
    """A denoised volume and the standard deviation of its noise, both scaled as the problem's values are."""

    values: Array
    noise: Array


@dataclass(frozen=True, eq=False, slots=True)
class Partial:
    """Bricks that are done.

    Parameters
    ----------
    sums
        Least sums of squared differences of residual patches, shape (patches, planes, Y, Z).
    estimates
        Weighted means of values, or of their squares, of the same shape; elsewhere the values themselves.
    done
        Ranges (start, count) of bricks.
    first_plane
        Where along x the arrays begin; they hold all planes, or those of the bricks that are done.
    """

    sums: Float
    estimates: Float
    done: list[tuple[int, int]] = field(default_factory=list)
    first_plane: int = 0

    @staticmethod
    def empty(problem: Problem) -> "Partial":
        """No brick done: known noise, or none; the values as they are."""
        sums = problem.known_sums()
        if sums is None:
            sums = np.full((len(problem.windows.patches), *problem.shape), NOTHING, np.float32)
        values = np.square(problem.values) if problem.settings.is_rician else problem.values
        return Partial(sums, np.stack([values] * len(sums)))

    def merge(self, other: "Partial", problem: Problem) -> None:
        """Take over the bricks that another has done."""
        for here, there in other.boxes(problem):
            self.sums[here], self.estimates[here] = other.sums[there], other.estimates[there]
        self.done.extend(other.done)

    def boxes(self, problem: Problem) -> Iterator[tuple[Slices, Slices]]:
        """Boxes of what is done: where they lie in whole arrays of shape (patches, X, Y, Z), and in these."""
        for start, count in self.done:
            for x, y, z in range_boxes(problem.shape, start, count):
                first, last, _ = x.indices(problem.shape[0])
                own = slice(first - self.first_plane, last - self.first_plane)
                yield (slice(None), x, y, z), (slice(None), own, y, z)


def reached(problem: Problem, done: Sequence[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """Voxels of some ranges (start, count) of bricks, shape (X, Y, Z)."""
    found = np.zeros(problem.shape, bool)
    for start, count in done:
        for box in range_boxes(problem.shape, start, count):
            found[box] = True
    return found


class Arrays(NamedTuple):
    """What the end is made of, on the host or a GPU.

    Values, usable voxels and known variance (or None) of a `Problem`, sums and estimates.
    They may be those of some planes only, from an even one on; what is nearer than `HALO` to their ends is not valid.
    """

    values: Any
    usable: Any
    sums: Any
    estimates: Any
    known: Any = None


def finish(problem: Problem, arrays: Arrays, filter_axis: wavelet.FilterAxis, xp: Any = np) -> Filtered:
    """Turn sums and estimates of all bricks into the denoised volume, on the host or a GPU.

    Parameters
    ----------
    problem
        What was filtered.
    arrays
        The problem's own and those of all bricks (see `Partial`).
    filter_axis
        Filters along lines of one axis, where the arrays are.
    xp
        NumPy or CuPy.
    """
    usable = arrays.usable != 0
    if problem.settings.is_rician:
        images, variance = _corrected(problem, arrays, usable, filter_axis, xp)
    else:
        images, variance = arrays.estimates, _variance(problem, arrays, usable, -1, xp)
    mixed = images[0] if len(images) == 1 else _mixed(problem, images, filter_axis, xp)
    return Filtered(xp.where(usable, mixed, arrays.values), xp.sqrt(xp.maximum(variance, np.float32(0.0))))


def _mixed(problem: Problem, images: Any, filter_axis: wavelet.FilterAxis, xp: Any) -> Any:
    small, large = images
    if problem.settings.mixing == "mean":
        return np.float32(0.5) * (small + large)
    return wavelet.mix(small, large, filter_axis, xp)


def _variance(problem: Problem, arrays: Arrays, usable: Any, patch: int, xp: Any) -> Any:
    """Variance of the noise as it is known, or by one of the patches, 0 where neither tells it."""
    if problem.variance is not None:
        return xp.where(usable, arrays.known, np.float32(0.0))
    least, factor = arrays.sums[patch], problem.windows.patch_sizes[patch] * problem.calibration[patch]
    return xp.where(usable & (least < _UNKNOWN), least * np.float32(1.0 / factor), np.float32(0.0))


def _corrected(
    problem: Problem, arrays: Arrays, usable: Any, filter_axis: wavelet.FilterAxis, xp: Any
) -> tuple[list[Any], Any]:
    """The image of each patch without Rician bias, and the variance of the noise by the last of them."""
    images, variance = [], None
    for patch, (estimate, factor) in enumerate(zip(arrays.estimates, problem.calibration, strict=True)):
        variance = _variance(problem, arrays, usable, patch, xp)
        bias = variance
        if problem.variance is None and problem.settings.noise_model == "rician-simple":
            bias = variance * np.float32(factor)  # the seed takes its measure of noise for the variance
        elif problem.variance is None:
            bias = variance = noise.rician_variance(estimate, noise.smooth(variance, filter_axis, xp), xp)
        images.append(noise.without_bias(estimate, bias, xp))
    return images, variance
