"""Operations of no engine, to try records on: what is read, filtered, traced with one of several methods, and added."""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import Operation, Ref, Settings, Summary, Volume, given, part, register_kind
from napari_gpubio.core.parameters import param
from napari_gpubio.core.steps import Step


@dataclass(frozen=True)
class Path3:
    """Points of a path, shape (N, 3)."""

    points: np.ndarray
    notes: tuple[str, ...] = ()
    complete: bool = True


register_kind(Path3, counts=lambda one: (one.points,))


@dataclass(frozen=True)
class Smoothed:
    """A volume, and what was taken off it."""

    smooth: Volume
    rest: Volume
    complete: bool = True


@dataclass(frozen=True, kw_only=True)
class Step1(Settings):
    """What all methods have."""

    step_mm: float = param(0.5, "Step", "Length of a step.", unit="mm", above=0.0, maximum=10.0)


@dataclass(frozen=True)
class Plain(Settings):
    """Every neighbor counts as much."""


@dataclass(frozen=True)
class Weighted(Settings):
    """Near ones count more."""

    power: float = param(1.0, "Power", "Of the distance.", minimum=0.0, maximum=4.0)


@dataclass(frozen=True, kw_only=True)
class Straight(Step1):
    """Always the same way."""

    direction: tuple[float, float, float] = part("Direction", "Unit vector.", default=(0.0, 0.0, 1.0))


@dataclass(frozen=True, kw_only=True)
class Uphill(Step1):
    """Along the gradient."""

    neighbors: Plain | Weighted = part("Neighbors", "Which neighbors count.", default=Plain())
    limit: float | None = param(None, "Limit", "Ends there; None is the largest value.", minimum=0.0, advanced=True)


@dataclass(frozen=True)
class Smooth(Operation, verb="toy-smooth", makes={"smooth": Volume, "rest": Volume}, version=2):
    """Average a volume."""

    image: Ref[Volume] = given("Image", "What is averaged.")
    mask: Ref[Volume] | None = given("Mask", "Where.", optional=True)
    radius: int = param(1, "Radius", "Of the average.", unit="voxels", minimum=0, maximum=9)
    wraps: bool = param(False, "Wraps", "Whether faces meet.")

    upgrades: ClassVar[Any] = {
        1: lambda old: {("radius" if name == "width" else name): value for name, value in old.items()}
    }

    def steps(self, data: Any, *, device: Any, stop: Any) -> Generator[Step, None, Smoothed]:
        """Average."""
        yield Step(0, 1, "averaging")
        array = data.image.array.astype(float)
        for axis in range(array.ndim):
            shifts = range(-self.radius, self.radius + 1)
            array = sum(np.roll(array, n, axis) for n in shifts) / (2 * self.radius + 1)
        if data.mask is not None:
            array = np.where(data.mask.array != 0, array, data.image.array)
        return Smoothed(data.image.like(array), data.image.like(data.image.array - array))

    def summary(self, result: Smoothed) -> Summary:
        """The mean."""
        mean = float(result.smooth.array.mean())
        return Summary((f"mean {mean:.3g}",), {"mean": mean})


@dataclass(frozen=True)
class Trace(Operation, verb="toy-trace", makes={"path": Path3}):
    """Follow a path through a volume."""

    field: Ref[Volume] = given("Field", "What is followed.")
    start_mm: tuple[float, float, float] = part("Start", "World mm.", unit="mm", default=(0.0, 0.0, 0.0))
    count: int = param(5, "Steps", "How many.", minimum=1, maximum=1000)
    seed: int = param(1, "Seed", "Of the random numbers.", minimum=0, maximum=2**64 - 1)
    method: Straight | Uphill = part("Method", "How it is followed.", default=Straight())

    def steps(self, data: Any, *, device: Any, stop: Any) -> Generator[Step, None, Path3]:
        """Step by step."""
        random, points = np.random.default_rng(self.seed), [np.array(self.start_mm)]
        nothing = 0 * data.field.array.sum()
        for n in range(self.count):
            if stop is not None and stop.is_set():
                return Path3(np.array(points), complete=False)
            yield Step(n, self.count, "tracing")
            way = self.method.direction if isinstance(self.method, Straight) else random.normal(size=3)
            points.append(points[-1] + self.method.step_mm * np.array(way) + nothing)
        return Path3(np.array(points), notes=("a note",))


@dataclass(frozen=True)
class Join(Operation, verb="toy-join", makes={"path": Path3}):
    """Join paths."""

    paths: tuple[Ref[Path3], ...] = given("Paths", "What is joined.")
    first: int = param(0, "First", "Point.", minimum=0)
    last: int = param(9, "Last", "Point.", minimum=0)

    def check(self) -> None:
        """The first is before the last."""
        if self.first > self.last:
            raise InvalidInput(f"first is {self.first} and last {self.last}; give them in order")

    def steps(self, data: Any, *, device: Any, stop: Any) -> Generator[Step, None, Path3]:
        """Join."""
        yield Step(0, 1, "joining")
        return Path3(np.concatenate([one.points[self.first : self.last + 1] for one in data.paths]))
