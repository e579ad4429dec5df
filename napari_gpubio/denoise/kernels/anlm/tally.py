"""Results of bricks, and the denoised volume made of them: Rician correction, and mixing by wavelets or by place."""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.denoise.kernels.anlm.problem import NOTHING, TINY, Float, Problem, range_boxes

Array = npt.NDArray[Any]
FilterAxis = Callable[[Any, int, Array], Any]  # (array, axis, taps of even and odd positions) -> array

_A, _B, _C = 0.08838834764832, 0.695879989034, 0.01122679215254
LOW_PASS = np.array([0.0, 0.0, -_A, _A, _B, _B, _A, -_A, _C, _C])
HIGH_PASS = np.array([-_C, _C, _A, _A, -_B, _B, -_A, -_A, 0.0, 0.0])
_LEAD = 5  # coefficient n of a line x is the sum over k of h[k] x[2 n + 5 - k]


def projection_taps(bank: Array = LOW_PASS) -> npt.NDArray[np.float32]:
    """Weights of x[i - 9 ... i + 9] in the projection of a line on half of the bank, for even and odd i: (2, 19)."""
    reach = len(bank) - 1
    taps = np.zeros((2, 2 * reach + 1))
    for parity in (0, 1):
        for n in range(-reach, reach + 1):  # every coefficient that position i = parity takes part in
            k = 2 * n + _LEAD - parity
            if 0 <= k <= reach:
                for other in range(reach + 1):  # x[2 n + 5 - other] is at the distance k - other from x[i]
                    taps[parity, k - other + reach] += bank[k] * bank[other]
    return taps.astype(np.float32)


_LOW_TAPS = projection_taps()


def mix(small: Any, large: Any, filter_axis: FilterAxis, xp: Any = np) -> Any:
    """Mix the estimates of both patches: fine detail of the large one, the rest of the small one (Coupe et al. 2008).

    One level of the separable, orthonormal, nearly symmetric bank of Abdelnour and Selesnick. The bands with at least
    two high-pass axes come from the estimate of the large patch, the other four from that of the small one. With L the
    projection on the low-pass space of one axis and d the difference of the estimates, the kept-out part of d is

        P_low d = C + L_z (A + B - 2 C),   A = L_x d,  B = L_y d,  C = L_y A,

    so four passes along lines do it all. Beyond the volume d is zero, as in a bank with zero padding. Where the mixed
    estimate would be negative and the small patch's is not, the latter is kept. Arrays are (X, Y, Z), float32, and
    ``filter_axis`` works where they are, on the host or a GPU. A plane has no detail across it.
    """

    def low_pass(array: Any, axis: int) -> Any:
        return array if array.shape[axis] == 1 else filter_axis(array, axis, _LOW_TAPS)

    difference = large - small
    a = low_pass(difference, 0)
    b = low_pass(difference, 1)
    c = low_pass(a, 1)
    low = c + low_pass(a + b - (c + c), 2)
    mixed = small + (difference - low)
    return xp.where((mixed < 0) & (small >= 0), small, mixed)


DOUBT = 4.0  # times what noise alone makes both estimates differ, before that counts as structure
_NEAR, _FAR = (np.ones((2, 2 * radius + 1), np.float32) for radius in (2, 5))  # boxes


def mix_by_place(small: Any, large: Any, variance: Any, disagreement: float, operations: "Operations") -> Any:
    """Mix the estimates of both patches where the noise is known: the large one, and of the small what is structure.

    The small patch keeps what the large one blurs, and more of the noise. Their difference d is that noise in smooth
    tissue, of mean square ``disagreement`` times the variance, and in fine structure what was blurred. Whatever it is
    more, in a box of radius 2 around each voxel, is signal, and is kept in proportion as Wiener's filter does it:

        large + max(0, 1 - DOUBT disagreement / <d^2 / variance>) (small - large).

    `DOUBT` is more than 1 since d^2 varies by chance; 3 instead of 4 gains or loses 0.3 dB, smooth fields 0.8 dB.
    """
    xp = operations.xp
    difference, zero = small - large, np.float32(0.0)
    excess = xp.where(variance > zero, xp.square(difference) / xp.maximum(variance, np.float32(TINY)), zero)
    around = mean_around(excess, _NEAR, operations.filter_axis, xp)
    kept = 1 - np.float32(DOUBT * disagreement) / xp.maximum(around, np.float32(TINY))
    return large + xp.maximum(kept, zero) * difference


Interpolate = Callable[[Any, Any, Any], Any]  # (places, table of places, table of values) -> values, float32


def koay(theta: Array) -> Array:
    """Variance of a Rician magnitude over that of its noise, at signal / noise = theta (Koay and Basser 2006, eq. 17).

    From 2 - pi/2 without signal to 1.
    """
    from scipy.special import i0e, i1e

    x = np.square(theta) / 4.0
    bracket = (2.0 + 4.0 * x) * i0e(x) + 4.0 * x * i1e(x)
    return np.asarray(2.0 + 4.0 * x - np.pi / 8.0 * np.square(bracket))


@functools.cache
def koay_table() -> tuple[Array, Array]:
    """Mean square of a magnitude over its variance, and the variance of the noise over that of the magnitude.

    A magnitude's mean square is theta^2 + 2 in units of the noise's variance, and its variance is `koay`.
    """
    theta = np.linspace(0.0, 30.0, 3001)
    ratio = koay(theta)
    return (np.square(theta) + 2.0) / ratio, 1.0 / ratio


def rician_variance(mean_square: Any, variance: Any, interpolate: Interpolate, xp: Any = np) -> Any:
    """Variance of the noise from the mean square and the variance of magnitudes, on the host or a GPU; 0 stays 0."""
    is_known = variance > 0
    ratio = mean_square / xp.where(is_known, variance, np.float32(1.0))
    ratios, factors = (xp.asarray(column) for column in koay_table())
    factor = interpolate(ratio.ravel(), ratios, factors).reshape(variance.shape)
    return xp.where(is_known, variance * factor, np.float32(0.0))


def without_bias(mean_square: Any, variance: Any, xp: Any = np) -> Any:
    """Signal from the mean square of Rician magnitudes, sqrt(M2 - 2 sigma^2), 0 where that is not real."""
    return xp.sqrt(xp.maximum(mean_square - (variance + variance), np.float32(0.0)))


def mean_around(values: Any, box: Array, filter_axis: FilterAxis, xp: Any = np) -> Any:
    """Mean over a box of what is known (above 0), inside the volume; 0 where nothing is near."""
    is_known = values > 0
    total, known = values, is_known.astype(np.float32)
    is_whole = bool(is_known.all())
    for axis in range(3):
        total = filter_axis(total, axis, box)
        if not is_whole:
            known = filter_axis(known, axis, box)
    if is_whole:
        known = _voxels_in_box(values.shape, box.shape[1] // 2, xp)
    return total / xp.maximum(known, np.float32(1.0))


def _voxels_in_box(shape: tuple[int, ...], reach: int, xp: Any) -> Any:
    """Voxels of a volume that a box of such a radius around each of them holds, float32."""
    lines = (np.minimum(np.arange(n), reach) + np.minimum(np.arange(n)[::-1], reach) + 1 for n in shape)
    x, y, z = (xp.asarray(line, np.float32) for line in np.ix_(*lines))
    return x * y * z


Slices = tuple[slice, ...]
_UNKNOWN = np.float32(0.5 * NOTHING)
HALO = 16  # planes that `finish` reads beside a plane, an even number: 5 to smooth the noise, and 9 to mix patches


class Filtered(NamedTuple):
    """A denoised volume and the standard deviation of its noise, both scaled as the problem's values are."""

    values: Array
    noise: Array


@dataclass(frozen=True, eq=False, slots=True)
class Partial(ShortRepr):
    """Bricks that are done."""

    sums: Float  # least sums of squared differences of residual patches, shape (patches, planes, Y, Z)
    # Weighted means of values, or of their squares, of the same shape; elsewhere the values themselves
    estimates: Float
    done: list[tuple[int, int]] = field(default_factory=list)  # ranges (start, count) of bricks
    first_plane: int = 0  # where along x the arrays begin; they hold all planes, or those of the bricks that are done

    @staticmethod
    def empty(problem: Problem) -> "Partial":
        """Memory for all planes, each of which is to be begun."""
        shape = len(problem.windows.patches), *problem.shape
        return Partial(np.empty(shape, np.float32), np.empty(shape, np.float32))

    def begin(self, problem: Problem, plane: int) -> None:
        """Write what a plane holds before a brick is done: known noise, or none; the values as they are."""
        planes = slice(plane, plane + 1)
        sums, values = problem.known_sums(planes), problem.values[planes]
        self.sums[:, planes] = NOTHING if sums is None else sums
        self.estimates[:, planes] = np.square(values) if problem.settings.is_rician else values

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
    """Arrays that `finish` works on, on the host or a GPU.

    Values, usable voxels and known variance (or None) of a `Problem`, sums and estimates.
    They may be those of some planes only, from an even one on; what is nearer than `HALO` to their ends is not valid.
    """

    values: Any
    usable: Any
    sums: Any
    estimates: Any
    known: Any = None


class Operations(NamedTuple):
    """Operations that `finish` needs on the device of its arrays."""

    filter_axis: FilterAxis  # filters along lines of one axis
    interpolate: Interpolate  # looks places up in a table, between its entries along straight lines
    xp: Any = np  # NumPy or CuPy


MIXED_VOXELS = 4 << 20  # that are mixed together


def mixed_slabs(shape: tuple[int, ...]) -> Iterator[slice]:
    """Planes that are mixed together, from an even one on, since even and odd ones have taps of their own."""
    planes = max(2 * HALO, MIXED_VOXELS // (shape[1] * shape[2]) // 2 * 2)
    for begin in range(0, shape[0], planes):
        yield slice(begin, min(begin + planes, shape[0]))


def finish_slab(problem: Problem, arrays: Arrays, slab: slice, operations: Operations) -> Filtered:
    """Some planes of what `finish` makes of a volume, made with as many beside them as reach into them."""
    first = max(slab.start - HALO, 0)
    read, inner = slice(first, slab.stop + HALO), slice(slab.start - first, slab.stop - first)
    values, usable, sums, estimates, _ = arrays
    known = problem.known(read, operations.xp)
    part = Arrays(values[read], usable[read], sums[:, read], estimates[:, read], known)
    return Filtered(*(array[inner] for array in finish(problem, part, operations)))


def finish(problem: Problem, arrays: Arrays, operations: Operations) -> Filtered:
    """Turn sums and estimates of all bricks into the denoised volume, on the host or a GPU where the arrays are."""
    xp = operations.xp
    usable = arrays.usable != 0
    if problem.settings.is_rician:
        images, variance = _corrected(problem, arrays, usable, operations)
    else:
        images, variance = arrays.estimates, _variance(problem, arrays, usable, -1, xp)
    mixed = images[0] if len(images) == 1 else _mixed(problem, images, variance, operations)
    return Filtered(xp.where(usable, mixed, arrays.values), xp.sqrt(xp.maximum(variance, np.float32(0.0))))


def _mixed(problem: Problem, images: Any, variance: Any, operations: Operations) -> Any:
    small, large = images
    if problem.settings.mixing == "auto" and problem.variance is not None:
        return mix_by_place(small, large, variance, problem.disagreement, operations)
    if problem.settings.mixing == "mean":
        return np.float32(0.5) * (small + large)
    return mix(small, large, operations.filter_axis, operations.xp)


def _variance(problem: Problem, arrays: Arrays, usable: Any, patch: int, xp: Any) -> Any:
    """Variance of the noise as it is known, or by one of the patches, 0 where neither gives it."""
    if problem.variance is not None:
        return xp.where(usable, arrays.known, np.float32(0.0))
    least, factor = arrays.sums[patch], problem.windows.patch_sizes[patch] * problem.calibration[patch]
    return xp.where(usable & (least < _UNKNOWN), least * np.float32(1.0 / factor), np.float32(0.0))


def _corrected(problem: Problem, arrays: Arrays, usable: Any, operations: Operations) -> tuple[list[Any], Any]:
    """The image of each patch without Rician bias, and the variance of the noise by the last of them."""
    filter_axis, interpolate, xp = operations
    images, variance = [], None
    for patch, estimate in enumerate(arrays.estimates):
        bias = variance = _variance(problem, arrays, usable, patch, xp)
        if problem.variance is None and problem.settings.noise_model == "rician-simple":
            # Yuan et al. take their measure of noise for the variance
            bias = variance * np.float32(problem.calibration[patch])
        elif problem.variance is None:
            smooth = mean_around(variance, _FAR, filter_axis, xp)
            bias = variance = rician_variance(estimate, smooth, interpolate, xp)
        images.append(without_bias(estimate, bias, xp))
    return images, variance
