"""What bricks leave behind, and what is made of it when all are done."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.denoise import noise, wavelet
from napari_gpubio.denoise.problem import NOTHING, Float, Problem
from napari_gpubio.denoise.windows import BRICK, brick_counts

Array = npt.NDArray[Any]
_UNKNOWN = np.float32(0.5 * NOTHING)


class Filtered(NamedTuple):
    """A denoised volume and the variance of its noise, both scaled as the problem's values are."""

    values: Array
    variance: Array


@dataclass(frozen=True, eq=False, slots=True)
class Partial:
    """Bricks that are done.

    Parameters
    ----------
    sums
        Least sums of squared differences of residual patches, shape (patches, X, Y, Z).
    estimates
        Weighted means of values, or of their squares, shape (patches, X, Y, Z); elsewhere the values themselves.
    done
        Ranges (start, count) of bricks.
    """

    sums: Float
    estimates: Float
    done: list[tuple[int, int]] = field(default_factory=list)

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
        for start, count in other.done:
            for where in (brick_slices(problem, item) for item in range(start, start + count)):
                self.sums[where], self.estimates[where] = other.sums[where], other.estimates[where]
        self.done.extend(other.done)

    def reached(self, problem: Problem) -> npt.NDArray[np.bool_]:
        """Voxels of the bricks that are done."""
        reached = np.zeros((1, *problem.shape), bool)
        for start, count in self.done:
            for item in range(start, start + count):
                reached[brick_slices(problem, item)] = True
        return reached[0]


def brick_slices(problem: Problem, item: int) -> tuple[slice, ...]:
    """Where a brick lies in arrays of shape (patches, X, Y, Z)."""
    place = np.unravel_index(item, brick_counts(problem.shape))
    return slice(None), *(slice(int(i) * size, (int(i) + 1) * size) for i, size in zip(place, BRICK, strict=True))


class Arrays(NamedTuple):
    """What the end is made of, on the host or a GPU: values and usable voxels of a `Problem`, sums and estimates."""

    values: Any
    usable: Any
    sums: Any
    estimates: Any


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
    mixed = images[0] if len(images) == 1 else wavelet.mix(images[0], images[1], filter_axis, xp)
    return Filtered(xp.where(usable, mixed, arrays.values), variance)


def _variance(problem: Problem, arrays: Arrays, usable: Any, patch: int, xp: Any) -> Any:
    """Variance of the noise by one of the patches, 0 where it is not known."""
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
