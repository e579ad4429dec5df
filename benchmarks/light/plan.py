"""What to simulate, where, and for how long."""

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import Any

import speed

from napari_gpubio.light import benchmarks
from napari_gpubio.light.benchmarks import Case

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
class Plan(speed.Plan):
    """What to run, and where."""

    photons: int | None = None  # the same number for every case, instead of the tables above

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
    return dataclasses.replace(made, settings=dataclasses.replace(made.settings, **settings))


def roulette_text(threshold: float) -> str:
    """``"roulette"`` or ``"no roulette"``."""
    return "roulette" if threshold else "no roulette"
