"""Batches of photons, the integer tallies that add up over them, and standard errors from their spread.

Let B whole batches of n photons have the sums S_i, and r photons that are left over the sum R. Photons are independent,
so a sum over k of them varies by k times the variance v of one photon, and ::

    v (B - 1 + c r (1 + r / (B n)))  =  < sum_i (S_i - S)^2 / n  +  c (R - S r / n)^2 >,    S = sum_i S_i / B

for any c. With c = 1 / max(n, r) the photons left over weigh as they do in the mean. Without them, a place that only
they have reached would have a value and no error; as a batch of their own (c = 1 / r), a single one that came by would
pass for a large deviation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

Floats = npt.NDArray[np.float64]
Words = npt.NDArray[np.uint64]
Ranges = list[tuple[int, int]]
FEWEST_BATCHES = 2


def joined(ranges: Sequence[tuple[int, int]], span: int = 1 << 62) -> Ranges:
    """Return ranges in order, neighbors joined as far as they lie in the same span."""
    found: Ranges = []
    for start, stop in sorted(ranges):
        if found and found[-1][1] == start and found[-1][0] // span == (stop - 1) // span:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found


class BatchedProblem:
    """Photons in batches: what the problems of both engines share."""

    settings: Any
    batch_size: int

    def __post_init__(self) -> None:
        if not self.batch_size:
            object.__setattr__(self, "batch_size", max(1, self.settings.photons // self.settings.batches))

    @cached_property
    def key(self) -> str:
        """Fingerprint of everything but the number of photons: runs with the same key trace the same photons."""
        raise NotImplementedError

    @property
    def batch_count(self) -> int:
        """Number of batches; the last may lack photons, and then stays open."""
        return -(-self.settings.photons // self.batch_size)

    def batch_range(self, batch: int) -> tuple[int, int]:
        """First photon of a batch, and the one behind its last."""
        return batch * self.batch_size, min((batch + 1) * self.batch_size, self.settings.photons)

    def missing(self, done: Mapping[int, Ranges]) -> Ranges:
        """Ranges of photons that are not done, each within one batch, in order.

        Parameters
        ----------
        done
            For each batch that has been begun, the ranges that are done.
        """
        ranges: Ranges = []
        for batch in range(self.batch_count):
            start, end = self.batch_range(batch)
            for done_start, done_stop in done.get(batch, []):
                if start < done_start:
                    ranges.append((start, done_start))
                start = done_stop
            if start < end:
                ranges.append((start, end))
        return ranges


@dataclass(eq=False)
class BatchPart:
    """Photons of one batch.

    Parameters
    ----------
    done
        Ranges (start, stop) of the photons that are done.
    """

    done: Ranges

    @property
    def photons(self) -> int:
        """Number of photons done."""
        return sum(stop - start for start, stop in self.done)


@dataclass(eq=False, kw_only=True)
class Tally:
    """Integer tallies of some photons of a problem; what a run returns, and what is merged, saved and resumed.

    Everything is integers (but for a list of detected photons), so sums do not depend on their order.

    Parameters
    ----------
    batch_size
        Photons of a batch.
    key
        See `BatchedProblem.key`.
    """

    batch_size: int
    key: str

    def done(self) -> dict[int, Ranges]:
        """Ranges of photons that are done, for each batch that has been begun."""
        raise NotImplementedError

    @property
    def photons(self) -> int:
        """Number of photons done."""
        return sum(stop - start for ranges in self.done().values() for start, stop in ranges)

    @property
    def photons_up_to(self) -> int:
        """One more than the largest index of a photon that is done."""
        return max((ranges[-1][1] for ranges in self.done().values()), default=0)

    def missing(self, problem: BatchedProblem) -> Ranges:
        """Ranges (start, stop) of photons that are not done, each within one batch, in order."""
        return problem.missing(self.done())

    def copy(self) -> Self:
        """Return a copy that further photons do not change."""
        raise NotImplementedError

    def add(self, other: Self, problem: Any) -> None:
        """Add the tallies of other photons of the same problem."""
        raise NotImplementedError

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as named arrays, for a file."""
        return {"batch_size": np.array(self.batch_size), "key": np.array(self.key)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """Undo `to_arrays`.

        Raises
        ------
        InvalidInput
            If an array is missing.
        """
        try:
            return cls(batch_size=int(arrays["batch_size"]), key=str(arrays["key"]), **cls._fields_of(arrays))
        except KeyError as error:
            raise InvalidInput(f"the saved state lacks {error}; it was not written by this version") from error

    @classmethod
    def _fields_of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
        raise NotImplementedError


def mean_error(whole: Floats, rest: Floats, batch_size: int, rest_photons: int) -> Floats:
    """Return the standard error of a mean per photon; NaN of fewer than two whole batches.

    Parameters
    ----------
    whole
        Sums over each whole batch, shape (B, ...).
    rest
        Sums over the photons that are left over, shape (...).
    batch_size, rest_photons
        Photons of a whole batch, and those left over.
    """
    if len(whole) < FEWEST_BATCHES:
        return np.full(np.shape(rest), np.nan)
    mean = whole.mean(axis=0)
    spread = np.square(whole - mean).sum(axis=0) / batch_size
    spread += np.square(rest - mean * (rest_photons / batch_size)) / max(batch_size, rest_photons)
    photons = len(whole) * batch_size + rest_photons
    return np.asarray(np.sqrt(spread / (freedom(len(whole), batch_size, rest_photons) * photons)))


def freedom(batches: int, batch_size: int, rest_photons: int) -> float:
    """Return how many times the variance of one photon the spread of all of them is: B - 1 + c r (1 + r / (B n))."""
    share = rest_photons / max(batch_size, rest_photons)
    return batches - 1 + share * (1.0 + rest_photons / (batches * batch_size))
