"""Rows i: the filter for fluence on the two halves of B1, as a whole call and its sweeps alone."""

import importlib
import time
from collections.abc import Iterator
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np
from common import Array, Row, Timing, row, skipped, timed_on
from light.plan import case, with_settings
from speed import Job, Plan

from denoise.speed_rows import LARGE, SMALL, repeats_of
from napari_gpubio.core.device import Device
from napari_gpubio.denoise.fluence import denoise_fluence
from napari_gpubio.light.run import simulate

KERNELS = "napari_gpubio.denoise.kernels.fluence"
PHOTONS = {"cuda": 10**6, "cpu": 10**5}
TARGETS = {("cuda", 100): 2e-3, ("cuda", 256): 20e-3, ("cpu", 100): 0.6}  # seconds, resident; a CPU: whole call


def fluence(plan: Plan) -> Iterator[Job]:
    """Both cubes; a CPU does the small one."""
    for n in (SMALL, LARGE) if plan.device.is_gpu else (SMALL,):
        yield Job(f"i {n}^3, sweeps alone", partial(_sweeps, n, plan))
        yield Job(f"i {n}^3, whole call", partial(_whole, n, plan))


def _whole(n: int, plan: Plan, name: str) -> Row:
    pair, device = _halves(n, plan.device), plan.device
    timing = timed_on(device, lambda: denoise_fluence(*pair, device=device), repeats_of(pair[0], device, plan))
    return row(name, device, timing, pair[0].size, "voxels", target=_target(n, device) if not device.is_gpu else "")


def _sweeps(n: int, plan: Plan, name: str) -> Row:
    """The part of a whole call that is spent in ``Run.advance``, on data that are there."""
    pair, device, seconds = _halves(n, plan.device), plan.device, []
    run = importlib.import_module(f"{KERNELS}.{'gpu' if device.is_gpu else 'cpu'}").Run
    for _ in range(1 + repeats_of(pair[0], device, plan)):
        clock = _Clock(run.advance)
        with mock.patch.object(run, "advance", lambda *how, clock=clock: clock(*how)):
            denoise_fluence(*pair, device=device)
        seconds.append(clock.seconds)
    if not any(seconds):
        return skipped(name, "Run.advance was not called")
    timing = Timing(min(seconds[1:]), sorted(seconds[1:])[len(seconds[1:]) // 2])
    return row(name, device, timing, pair[0].size, "voxels", target=_target(n, device) if device.is_gpu else "")


class _Clock:
    """Adds up the time of all calls of a function."""

    def __init__(self, function: Any) -> None:
        self._function, self.seconds = function, 0.0

    def __call__(self, *how: Any) -> Any:
        begun = time.perf_counter()
        found = self._function(*how)
        self.seconds += time.perf_counter() - begun
        return found


def _target(n: int, device: Device) -> str:
    seconds = TARGETS.get((device.kind, n))
    return f"target {seconds:g} s" if seconds else ""


@cache
def _halves(n: int, device: Device) -> tuple[Array, Array]:
    """Fluence of even and of odd photons in B1, mirrored beyond its borders where it is too small."""
    made = with_settings(case("B1"), photons=PHOTONS[device.kind], halves=True)
    halves = simulate(made.domain, made.source, made.settings, device=device).half_fluences
    assert halves is not None
    volumes = halves.sum(axis=-1)
    behind = [(0, max(0, n - size)) for size in volumes.shape[1:]]
    first, second = (np.pad(volume, behind, mode="symmetric")[:n, :n, :n] for volume in volumes)
    return np.ascontiguousarray(first), np.ascontiguousarray(second)
