"""What is demanded of fibers, as an expression of regions and numbers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.diffusion.regions import AnyRegion

Mask = npt.NDArray[np.bool_]
ENDS = ("either", "both")


@dataclass(frozen=True, slots=True)
class Answer(ShortRepr):
    """Which fibers pass a region, and which have their first and last points in it; each (F,)."""

    passed: Mask
    first: Mask
    last: Mask


class Condition:
    """Something that a fiber does or does not; joined by ``&``, ``|`` and ``~``."""

    def __and__(self, other: "Condition") -> "Condition":
        return Joined("all", (self, other))

    def __or__(self, other: "Condition") -> "Condition":
        return Joined("any", (self, other))

    def __invert__(self) -> "Condition":
        return Inverted(self)

    def regions(self) -> Iterator[AnyRegion]:
        """Return the regions that are asked about."""
        return iter(())

    def holds(self, answer: Callable[[AnyRegion], Answer], numbers: Mapping[str, npt.NDArray[Any]]) -> Mask:
        """Return for which fibers it holds, shape (F,).

        Parameters
        ----------
        answer
            Gives what is known of a region.
        numbers
            Numbers of the fibers, each (F,), by name.
        """
        raise NotImplementedError

    def described(self) -> Any:
        """Return it as JSON can hold it, regions by their names."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False, slots=True)
class Joined(Condition):
    """All or any of some conditions."""

    how: str
    parts: tuple[Condition, ...]

    def regions(self) -> Iterator[AnyRegion]:
        """Return the regions of all parts."""
        return (region for part in self.parts for region in part.regions())

    def holds(self, answer: Callable[[AnyRegion], Answer], numbers: Mapping[str, npt.NDArray[Any]]) -> Mask:
        """Return for which fibers it holds."""
        found = [part.holds(answer, numbers) for part in self.parts]
        return np.asarray(np.logical_and.reduce(found) if self.how == "all" else np.logical_or.reduce(found))

    def described(self) -> Any:
        """Return it as JSON can hold it."""
        return {self.how: [part.described() for part in self.parts]}


@dataclass(frozen=True, eq=False, slots=True)
class Inverted(Condition):
    """The opposite of a condition."""

    part: Condition

    def regions(self) -> Iterator[AnyRegion]:
        """Return the regions of the condition."""
        return self.part.regions()

    def holds(self, answer: Callable[[AnyRegion], Answer], numbers: Mapping[str, npt.NDArray[Any]]) -> Mask:
        """Return for which fibers it holds."""
        return ~self.part.holds(answer, numbers)

    def described(self) -> Any:
        """Return it as JSON can hold it."""
        return {"not": self.part.described()}


@dataclass(frozen=True, eq=False, slots=True)
class InRegion(Condition):
    """A fiber passes a region (``ends`` is None), or has either end or both ends in it."""

    region: AnyRegion
    ends: str | None

    def regions(self) -> Iterator[AnyRegion]:
        """Return the region."""
        return iter((self.region,))

    def holds(self, answer: Callable[[AnyRegion], Answer], numbers: Mapping[str, npt.NDArray[Any]]) -> Mask:  # noqa: ARG002
        """Return for which fibers it holds."""
        found = answer(self.region)
        if self.ends is None:
            return found.passed
        return found.first & found.last if self.ends == "both" else found.first | found.last

    def described(self) -> Any:
        """Return it as JSON can hold it."""
        return {"through" if self.ends is None else f"{self.ends} end in": self.region.name}


@dataclass(frozen=True, eq=False, slots=True)
class Connects(Condition):
    """A fiber has one end in one region and the other end in another one."""

    one: AnyRegion
    other: AnyRegion

    def regions(self) -> Iterator[AnyRegion]:
        """Return both regions."""
        return iter((self.one, self.other))

    def holds(self, answer: Callable[[AnyRegion], Answer], numbers: Mapping[str, npt.NDArray[Any]]) -> Mask:  # noqa: ARG002
        """Return for which fibers it holds."""
        one, other = answer(self.one), answer(self.other)
        return (one.first & other.last) | (one.last & other.first)

    def described(self) -> Any:
        """Return it as JSON can hold it."""
        return {"connects": [self.one.name, self.other.name]}


@dataclass(frozen=True, slots=True)
class InRange(Condition):
    """A number of a fiber lies between two ends, which belong to the range."""

    name: str
    low: float
    high: float

    def holds(self, answer: Callable[[AnyRegion], Answer], numbers: Mapping[str, npt.NDArray[Any]]) -> Mask:  # noqa: ARG002
        """Return for which fibers it holds; InvalidInput if they do not have the number."""
        values = numbers.get(self.name)
        if values is None or np.ndim(values) != 1:
            raise InvalidInput(f"the fibers have no number {self.name!r}; they have {', '.join(numbers)}")
        return np.asarray((values >= self.low) & (values <= self.high))

    def described(self) -> Any:
        """Return it as JSON can hold it; an end that is infinite is None."""
        return {"number": self.name, "range": [end if np.isfinite(end) else None for end in (self.low, self.high)]}


def through(region: AnyRegion) -> Condition:
    """Fibers that pass a region."""
    return InRegion(region, None)


def ends_in(region: AnyRegion, *, ends: str = "either") -> Condition:
    """Fibers that have an end in a region; ``ends``: ``"either"`` or ``"both"``."""
    if ends not in ENDS:
        raise InvalidInput(f"ends is {ends!r}; give one of {', '.join(ENDS)}")
    return InRegion(region, ends)


def connects(one: AnyRegion, other: AnyRegion) -> Condition:
    """Fibers that have one end in one region and the other end in another."""
    return Connects(one, other)


def number(name: str, low: float | None = None, high: float | None = None) -> Condition:
    """Fibers whose number lies in a range, ends included; ``name``: ``"length_mm"``, or one that the fibers have."""
    ends = (-np.inf if low is None else float(low), np.inf if high is None else float(high))
    if not ends[0] <= ends[1]:
        raise InvalidInput(f"the range of {name!r} runs from {low} to {high}; no fiber lies in it")
    return InRange(name, *ends)
