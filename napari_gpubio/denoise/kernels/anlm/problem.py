"""One volume to be denoised: its windows, the bricks it is divided into, and what the local measure of noise means."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import Device
from napari_gpubio.denoise.settings import DenoiseSettings

Triple = tuple[int, int, int]
Box = tuple[slice, slice, slice]
BRICK: Triple = (8, 24, 56)  # voxels of one work item: whole blocks of the kernel, and small enough for a core's cache


@dataclass(frozen=True, slots=True)
class Windows:
    """Radii of the windows along the three axes, in voxels."""

    patches: tuple[Triple, ...]  # one triple for each patch radius, the small one first; no entry above 2
    search: Triple  # where candidates are looked for
    box: Triple  # where local mean, variance and residual are taken

    @property
    def largest_patch(self) -> Triple:
        """The radii of the last, largest patch."""
        return self.patches[-1]

    @property
    def patch_sizes(self) -> tuple[int, ...]:
        """Voxels in each patch."""
        return tuple(window_size(radii) for radii in self.patches)


def make_windows(
    settings: DenoiseSettings, voxel_size_mm: Sequence[float] = (1.0, 1.0, 1.0), shape: Sequence[int] = ()
) -> Windows:
    """Radii for a grid: the settings' along the finest axis, the same length in mm (rounded) along the others.

    A plane, whose ``shape`` has an axis of length 1, has windows within the plane.
    """
    sizes = [math.inf if length == 1 else size for size, length in zip(voxel_size_mm, shape or (0, 0, 0), strict=True)]
    return Windows(
        patches=tuple(_same_length(radius, sizes) for radius in settings.radii),
        search=_same_length(settings.search_radius, sizes),
        box=_same_length(1, sizes),
    )


def _same_length(radius: int, voxel_size_mm: Sequence[float]) -> Triple:
    finest = min(voxel_size_mm)
    x, y, z = (math.floor(radius * finest / size + 0.5) for size in voxel_size_mm)
    return x, y, z


def window_size(radii: Triple) -> int:
    """Voxels in a window of such radii."""
    return math.prod(2 * radius + 1 for radius in radii)


def brick_counts(shape: Triple) -> Triple:
    """Number of bricks along each axis of a volume."""
    x, y, z = (-(-n // size) for n, size in zip(shape, BRICK, strict=True))
    return x, y, z


def range_boxes(shape: Triple, start: int, count: int) -> Iterator[Box]:
    """Boxes of voxels that the bricks ``start`` to ``start + count - 1`` fill: five at most, however many bricks."""
    _, *across = brick_counts(shape)
    rows = math.prod(across), across[1], 1  # bricks of a whole step along each axis
    here, end = start, start + count
    while here < end:
        axis = next(a for a in range(3) if here % rows[a] == 0 and here + rows[a] <= end)
        steps = (end - here) // rows[axis]
        if axis:  # no further than to the end of the row or the layer
            steps = min(steps, (rows[axis - 1] - here % rows[axis - 1]) // rows[axis])
        yield _box(here, axis, steps, rows)
        here += steps * rows[axis]


def _box(brick: int, axis: int, steps: int, rows: Triple) -> Box:
    """So many steps of bricks along an axis, whole along the axes behind it."""
    place = brick // rows[0], brick % rows[0] // rows[1], brick % rows[1]
    lengths = [1 if a < axis else steps if a == axis else None for a in range(3)]
    x, y, z = (
        slice(None) if length is None else slice(at * size, (at + length) * size)
        for at, length, size in zip(place, lengths, BRICK, strict=True)
    )
    return x, y, z


def planes_of(shape: Triple, start: int, count: int) -> tuple[int, int]:
    """First plane along x that the bricks ``start`` to ``start + count - 1`` touch, and the one behind the last."""
    layer = math.prod(brick_counts(shape)[1:])
    return start // layer * BRICK[0], min(-(-(start + count) // layer) * BRICK[0], shape[0])


Float = npt.NDArray[np.float32]
TINY = 1e-30  # least sum of squares, of volumes that are near 1: where noise is zero, only equal patches count
NOTHING = 3e38  # sum of squares where there is no candidate
# Where the noise is known, of variance s: weights are exp(-max(D - SAME s, 0) / (strength s)), and D is the mean
# squared difference of patches that fade out as a Gaussian of so many voxels. By patch radius.
SAME = 2.0
FADING = {1: 0.5, 2: 1.0}
STRENGTH = {1: 4.0, 2: 2.0}
_SAMPLE = 20_000  # voxels that are enough to know what is typical
_LARGEST = 1e15  # scaled numbers stay below, so that sums of their squares stay finite
# Pre-selection as (A and (C or first)) or (B and C and second) or third, see `flags`.
_RULES = {"seed": (1, 1, 0), "coupe": (0, 0, 0), "itk": (0, 1, 0), "none": (0, 0, 1)}


class NoiseGrid(NamedTuple):
    """Standard deviation of the noise at the places of a grid; between them it changes along straight lines.

    It is laid out on the device that needs it: there is little to send.
    """

    levels: Float  # shape (A, B, C)
    places: tuple[Any, Any, Any]  # along each axis, voxels, increasing
    shape: Triple  # of the volume

    def sigma(self, planes: slice = slice(None), xp: Any = np) -> Any:
        """Standard deviation at the voxels of some planes, single precision."""
        found = xp.asarray(self.levels, np.float32)
        for axis, (places, n) in enumerate(zip(self.places, self.shape, strict=True)):
            at = np.arange(n)[planes if axis == 0 else slice(None)]
            place = np.interp(at, places, np.arange(len(places)))
            low = place.astype(np.int64)
            share = xp.asarray((place - low).astype(np.float32)).reshape([-1 if a == axis else 1 for a in range(3)])
            below = found.take(xp.asarray(low), axis)
            above = found.take(xp.asarray(np.minimum(low + 1, len(places) - 1)), axis)
            found = below + share * (above - below)
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem(drivers.Problem):
    """A scaled volume and everything that a backend needs to know to filter it; items are bricks."""

    work = "denoising this volume"

    values: Float  # shape (X, Y, Z), float32, divided by a power of two so that typical values are near 1
    # Voxels that are filtered and averaged, shape (X, Y, Z), uint8; patches read the others too
    usable: npt.NDArray[np.uint8]
    windows: Windows
    settings: DenoiseSettings
    # Known variance of the noise, scaled, shape (X, Y, Z), or a grid that gives it; None: measured by differences
    variance: Float | NoiseGrid | None = None
    # In white noise of variance 1: where it is measured, least mean squared difference of residual patches, for each
    # patch; where it is known, mean square of the difference of both patches' estimates
    calibration: tuple[float, ...] = ()
    disagreement: float = 0.0

    @property
    def shape(self) -> Triple:
        """Dimensions of the volume."""
        x, y, z = self.values.shape
        return x, y, z

    @property
    def items(self) -> int:
        """Number of bricks."""
        return math.prod(brick_counts(self.shape))

    def first_chunk(self, device: Device) -> int:
        """All bricks on GPUs."""
        return -(-self.items // len(device.indices)) if device.is_gpu else 8

    @property
    def flags(self) -> tuple[int, int, int]:
        """Pre-selection: whether A alone suffices, whether B with C does, whether anything does."""
        return _RULES[self.settings.preselection]

    @cached_property
    def maximum(self) -> np.float32:
        """Largest value, which inverted means are measured from."""
        return np.float32(self.values.max())

    @property
    def floor(self) -> np.float32:
        """Voxels with this value or less are left out of averages."""
        return np.float32(0.0 if self.settings.skip_zeros else -NOTHING)

    @property
    def cutoff(self) -> np.float32:
        """Distance beyond which a weight is zero."""
        return np.float32(self.settings.cutoff or NOTHING)

    @property
    def offsets(self) -> npt.NDArray[np.float32]:
        """Distance that patches of the same content have where the noise is known; nothing below it counts."""
        same = 0.0 if self.variance is None else SAME
        return np.array([same / STRENGTH[radius] for radius in self.settings.radii], np.float32)

    @cached_property
    def patch_weights(self) -> npt.NDArray[np.float32]:
        """Weights of the neighbors at distance 1 and 2 in each patch, shape (patches, axes, 2)."""
        distances = np.array([1, 2])
        fading = np.array([FADING[radius] for radius in self.settings.radii])[:, None, None]
        known = np.exp(-0.5 * np.square(distances / fading))
        weights = (np.array(self.windows.patches)[:, :, None] >= distances) * (1.0 if self.variance is None else known)
        return np.ascontiguousarray(weights, np.float32)

    def known(self, planes: slice = slice(None), xp: Any = np) -> Any:
        """Known variance of the noise in some planes, or None."""
        if isinstance(self.variance, NoiseGrid):
            return xp.square(self.variance.sigma(planes, xp))
        return None if self.variance is None else xp.asarray(self.variance[planes])

    def known_sums(self, planes: slice = slice(None), xp: Any = np) -> Any:
        """Sums of squares that stand for a known variance in some planes, shape (patches, X, Y, Z), or None.

        The least of many differences, which measures noise that is not known, is too small wherever it is small by
        chance and holds whatever no candidate has in common with the voxel: fine anatomy counts as noise. A known
        noise takes its place. Patches of the same content then differ by `SAME` s, and with that taken off all of
        them count alike.

        The small patch fades out at once, and compares hardly more than a point: it keeps fine folds, in which larger
        patches find no like and lose 2 to 3 dB. The large one tells smooth tissue apart at less than the noise, where
        a point loses 1 to 4 dB. See `tally.mix_by_place` for which of them counts where. `STRENGTH` and `FADING` were
        chosen on simulated folds of 4 to 10 voxels, smooth fields, steps, the sample head, and a T1 template, at
        signal / noise 10 to 40; strengths of 3.5 and of 2.5 are within 0.5 dB of these.
        """
        variance = self.known(planes, xp)
        if variance is None:
            return None
        sizes = np.prod(1.0 + 2.0 * self.patch_weights.sum(axis=2, dtype=np.float64), axis=1)
        strengths = np.array([STRENGTH[radius] for radius in self.settings.radii])
        return xp.asarray(strengths * sizes, np.float32)[:, None, None, None] * variance


def scale_of(values: npt.NDArray[np.floating]) -> float:
    """Power of two that a volume is divided by: near the median of its absolute values that are not zero.

    A power of two, so that scaling costs no precision, and lower for volumes of more than 15 decades above it.
    """
    largest = max(float(values.max()), -float(values.min()))
    some = values.ravel()[:: values.size // _SAMPLE | 1]
    sizes = np.abs(some[some != 0]).astype(np.float64)
    typical = float(np.median(sizes)) if sizes.size else largest
    return float(2.0 ** np.round(np.log2(max(typical, largest / _LARGEST))))
