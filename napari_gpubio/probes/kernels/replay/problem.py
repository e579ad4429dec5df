"""A replay made ready for a backend: the list of photons, their factors, the scales of the tallies, the derivatives."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Problem
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory
from napari_gpubio.light.kernels.voxels.problem import DETECTED_NUMBERS, FIRST_MEDIUM, LIGHT_MM_PER_NS, VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import DetectedList
from napari_gpubio.optics.batches import FIRST_CHUNK
from napari_gpubio.optics.detectors import DetectedPhotons
from napari_gpubio.probes.kernels.replay.measurements import GROUPS, Arrivals, Measurement

Doubles = npt.NDArray[np.float64]
_TALLY_BYTES = 256 << 20  # for the tallies of groups that are traced together
_BITS = 61  # of the largest sum that a tally may hold


class Span(NamedTuple):
    """Photons of some groups of one detector that are traced together: lines, detector, first group, groups."""

    start: int
    stop: int
    detector: int
    first_group: int
    groups: int


class DetectorPart(NamedTuple):
    """What comes out for one detector.

    Parameters
    ----------
    values, errors
        Shape (V, X, Y, Z), in mm times the unit of the measurement.
    label_groups
        Sums over the media rows of each group, shape (GROUPS, V, rows).
    """

    values: npt.NDArray[np.float32]
    errors: npt.NDArray[np.float32]
    label_groups: Doubles


@dataclass(frozen=True, eq=False, kw_only=True)
class ReplayProblem(Problem):
    """Which photons are traced again, and what they add up.

    A derivative (V of them) is that of a measurement by mu_a or mu_s, in this order: measurement by measurement.

    Parameters
    ----------
    voxels
        The simulation.
    photons, arrivals
        Detected photons as the result lists them, and those to be traced in their order.
    detectors
        Indices of the detectors.
    measurements
        See there.
    by_mua, by_mus
        By which coefficients.
    """

    work = "the replay of photons"
    voxels: VoxelProblem
    photons: DetectedPhotons
    arrivals: Arrivals
    detectors: Sequence[int]
    measurements: Sequence[Measurement]
    by_mua: bool
    by_mus: bool

    @property
    def items(self) -> int:
        """Number of photons."""
        return len(self.arrivals)

    def first_chunk(self, device: Device) -> int:
        """As of the photons of a run."""
        return FIRST_CHUNK[device.kind]

    @property
    def coefficients(self) -> int:
        """Coefficients by which measurements are derived."""
        return int(self.by_mua) + int(self.by_mus)

    @property
    def volumes(self) -> int:
        """Number of derivatives."""
        return len(self.measurements) * self.coefficients

    @cached_property
    def scales(self) -> Doubles:
        """Quanta per mm (times the unit) of each measurement at each detector, powers of two, shape (D, M).

        No sum over the photons of a detector, and over all voxels, has more than 62 bits.
        """
        mus = self.voxels.mus if self.voxels.domain.is_continuous else self.voxels.media[FIRST_MEDIUM:, 1]
        least = float(mus[mus > 0].min(initial=np.inf))
        most = 1.01 * self.arrivals.path_mm + (self.arrivals.scatterings / least if self.by_mus else 0.0)
        scales = np.ones((self.arrivals.detectors, len(self.measurements)))
        for d in range(self.arrivals.detectors):
            lines = self.arrivals.of(d)
            for m, measurement in enumerate(self.measurements):
                largest = float(np.abs(measurement.factors[lines]) @ most[lines])
                if largest > 0:
                    scales[d, m] = 2.0 ** (_BITS - math.ceil(math.log2(largest)))
        return scales

    @cached_property
    def factors(self) -> Doubles:
        """Factor of each photon for each measurement in quanta per mm, shape (N, M)."""
        factors = np.stack([measurement.factors for measurement in self.measurements], axis=1)
        lengths = np.diff(self.arrivals.starts)
        return np.ascontiguousarray(factors * np.repeat(self.scales, lengths, axis=0))

    def units(self, detector: int) -> Doubles:
        """Size of a quantum of each derivative at a detector, shape (V,)."""
        return np.repeat(1.0 / self.scales[detector], self.coefficients)

    def shares(self, detector: int) -> Doubles:
        """Shares of the groups for each derivative, its own and its partner's, shape (V, 2, GROUPS).

        Those of a derivative without a partner are zero there.
        """
        each = np.stack([measurement.shares[detector] for measurement in self.measurements])
        return np.repeat(np.nan_to_num(each), self.coefficients, axis=0)

    @cached_property
    def partners(self) -> npt.NDArray[np.int64]:
        """Number of each derivative's partner, shape (V,)."""
        own = np.array([measurement.partner for measurement in self.measurements]) * self.coefficients
        return np.asarray((own[:, None] + np.arange(self.coefficients)).ravel(), np.int64)

    def products(self, detector: int) -> Doubles:
        """Sums over groups of own share squared, own times partner's, and partner's squared, shape (V, 3)."""
        shares = self.shares(detector)
        own, partner = shares[:, 0], shares[:, 1]
        return np.stack([(own * own).sum(1), (own * partner).sum(1), (partner * partner).sum(1)], axis=1)

    # -- tallies --------------------------------------------------------------------------------------------------

    @property
    def tally_size(self) -> int:
        """Numbers of the tally of a group."""
        return self.volumes * self.voxels.cells

    @property
    def slots(self) -> int:
        """Groups that are traced together, each with a tally of its own."""
        return max(1, min(_TALLY_BYTES // (8 * self.tally_size), GROUPS))

    @property
    def resident_bytes(self) -> int:
        """Bytes that a run keeps: tallies of groups, sums over them, their derivatives, and the grid."""
        per_cell = 8 * (self.volumes * (self.slots + 4) + 1) + 8 * self.volumes
        return self.voxels.cells * per_cell + self.voxels.grid_bytes

    def memory(self, device: Device) -> Memory:
        """What a run takes, besides the list of photons; on the CPU when the last detector is done."""
        grid = self.voxels.grid_bytes
        return Memory(
            inputs=grid, tallies=self.resident_bytes - grid, results=0 if device.is_gpu else self._found_bytes
        )

    def memory_of_jacobians(self, coefficients: int) -> Memory:
        """What the host takes where Jacobians by so many coefficients are made of all detectors."""
        voxels = math.prod(self.voxels.size) * self.arrivals.detectors
        results = 8 * len(self.measurements) * coefficients * voxels
        return Memory(inputs=self.voxels.grid_bytes, results=results, scratch=self._found_bytes)

    @property
    def _found_bytes(self) -> int:
        return 8 * self.volumes * math.prod(self.voxels.size) * self.arrivals.detectors

    @property
    def bytes_per_item(self) -> int:
        """Bytes that a photon takes."""
        return 16 + 8 * len(self.measurements) + self.voxels.detected_bytes

    def spans(self, start: int, count: int) -> Iterator[Span]:
        """Lines ``start`` to ``start + count - 1``, cut where the tallies are folded."""
        stop, slots = start + count, self.slots
        while start < stop:
            detector = int(np.searchsorted(self.arrivals.starts, start, side="right")) - 1
            first = int(self.arrivals.group[start]) // slots * slots
            lines = self.arrivals.of(detector)
            last = first + min(slots, GROUPS - first)
            end = lines.start + int(np.searchsorted(self.arrivals.group[lines], last))
            end = min(stop, end)
            yield Span(start, end, detector, first, last - first)
            start = end

    def is_last(self, span: Span) -> bool:
        """Whether a span ends the photons of these groups of its detector."""
        lines, end = self.arrivals.of(span.detector), span.stop
        return end == lines.stop or int(self.arrivals.group[end]) >= span.first_group + span.groups

    # -- what comes out -------------------------------------------------------------------------------------------

    def cropped(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Volumes without the rim, shape (V, X, Y, Z)."""
        return np.ascontiguousarray(values.reshape(self.volumes, *self.voxels.padded)[:, 1:-1, 1:-1, 1:-1])

    def check_arrivals(self, span: Span, found: DetectedList) -> None:
        """Raise InvalidInput unless each photon of a span has arrived as the result lists it, to the last bit."""
        lines = self.arrivals.order[span.start : span.stop]
        expected, order = self.photons, np.argsort(found.photons)
        lines = lines[np.argsort(expected.photon[lines])]
        numbers = found.numbers[order]
        same = np.zeros(len(lines), bool)
        if np.array_equal(found.photons[order], expected.photon[lines]):
            same = (numbers[:, 0] == expected.detector[lines]) & (numbers[:, 1] == expected.weight[lines])
            same &= numbers[:, 9].astype(np.float64) / LIGHT_MM_PER_NS == expected.time_ns[lines]
            same &= (numbers[:, DETECTED_NUMBERS + FIRST_MEDIUM :] == expected.path_mm[lines]).all(axis=1)
        else:
            same = np.isin(expected.photon[lines], found.photons)
        if not same.all():
            raise different_photon(int(expected.photon[lines][~same][0]), int((~same).sum()), len(lines))


def different_photon(photon: int, count: int, total: int) -> InvalidInput:
    """The error that photons took other paths than in the run that detected them."""
    return InvalidInput(
        f"photon {photon} (and {count - 1:,} more of {total:,}) did not arrive at its detector again with the same "
        "weight; photons take the same path only on the kind of processor and with the version of napari-gpubio that "
        "made the result: replay it there, or simulate again"
    )


def empty_list(problem: VoxelProblem, capacity: int) -> tuple[npt.NDArray[Any], ...]:
    """Room for detected photons: their number, their indices, and what is noted of each."""
    numbers = np.empty((capacity, DETECTED_NUMBERS + problem.media_rows), np.float32)
    return np.zeros(1, np.int64), np.empty(capacity, np.uint64), numbers
