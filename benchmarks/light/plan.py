"""What to simulate, where, and for how long."""

import dataclasses
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

from napari_gpubio.core.device import Device
from napari_gpubio.light.phantom import benchmarks
from napari_gpubio.light.phantom.benchmarks import Case

CPU_PHOTONS = {  # about a second of two cores
    "cube60": 200_000,
    "cube60b": 150_000,
    "cubesph60b": 100_000,
    "B1": 30_000,
    "B2": 30_000,
    "B3": 40_000,
    "skin7": 30_000,
    "head": 15_000,
}
GPU_PHOTONS = 100_000_000
ROULETTE = 1e-4  # the engine's default threshold


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run, and where.

    Parameters
    ----------
    device
        Where the photons are traced.
    quick
        A tenth of the photons, and fewer repeats.
    photons
        The same number of photons for every case, instead of the tables above.
    ends
        When to begin no further row, by `time.monotonic`.
    """

    device: Device
    quick: bool = False
    photons: int | None = None
    ends: float = float("inf")

    @property
    def repeats(self) -> int:
        """How often each thing is timed."""
        return 2 if self.quick or self.device.is_gpu else 3

    @property
    def time_is_up(self) -> bool:
        """Whether to begin no further row."""
        return time.monotonic() > self.ends

    @property
    def on_one(self) -> "Plan":
        """The same on the first of several GPUs."""
        return dataclasses.replace(self, device=dataclasses.replace(self.device, indices=self.device.indices[:1]))

    def count(self, name: str) -> int:
        """Photons of a case."""
        if self.photons is not None:
            return self.photons
        return (GPU_PHOTONS if self.device.is_gpu else CPU_PHOTONS[name]) // (10 if self.quick else 1)


@cache
def case(name: str) -> Case:
    """A benchmark case; made once, because the head takes its time. Its detectors are left out."""
    return dataclasses.replace(benchmarks.benchmark(name), detectors=())


def with_settings(made: Case, **settings: Any) -> Case:
    """The same case with other settings."""
    return dataclasses.replace(made, settings=dataclasses.replace(made.settings, **settings))


def roulette_told(threshold: float) -> str:
    """``"roulette"`` or ``"no roulette"``."""
    return "roulette" if threshold else "no roulette"
