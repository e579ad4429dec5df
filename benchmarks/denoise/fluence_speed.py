"""Rows i: the filter for fluence on the two halves of B2, with what may be known of the run, and the guide."""

import dataclasses
import importlib
import time
from collections.abc import Iterator
from functools import cache, partial
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from common import Array, Row, Timing, row, skipped, timed_on
from light.plan import case, with_settings
from speed import Job, Plan

from denoise.speed_rows import LARGE, SMALL, repeats_of
from napari_gpubio.core.device import Device
from napari_gpubio.denoise.fluence import denoise_fluence
from napari_gpubio.light.guide import diffusion_guide
from napari_gpubio.light.run import simulate
from napari_gpubio.optics.model import Domain

KERNELS = "napari_gpubio.denoise.kernels.fluence"
PHOTONS = {"cuda": 10**6, "cpu": 10**5}
KNOWN = {"": (), ", guide": ("guide",), ", guide and tissues": ("guide", "labels")}  # given beside the halves
SWEEPS = {("cuda", 100): 2e-3, ("cuda", 256): 20e-3}  # seconds, targets
WHOLE = {("cuda", 256): 0.1, ("cpu", 100): 0.6}
GUIDE = {("cuda", 100): 50e-3, ("cuda", 256): 0.3, ("cpu", 100): 2.0}


class Scene(NamedTuple):
    """A domain, and the two halves of a run in it."""

    domain: Domain
    halves: tuple[Array, Array]


def fluence(plan: Plan) -> Iterator[Job]:
    """Both cubes; a CPU does the small one."""
    for n in (SMALL, LARGE) if plan.device.is_gpu else (SMALL,):
        yield Job(f"i {n}^3, guide", partial(_guide, n, plan))
        for words, names in KNOWN.items():
            yield Job(f"i {n}^3{words}, sweeps alone", partial(_sweeps, n, plan, names))
            yield Job(f"i {n}^3{words}, whole call", partial(_whole, n, plan, names))


def _guide(n: int, plan: Plan, name: str) -> Row:
    device, domain, source = plan.device, _scene(n, plan.device).domain, case("B2").source
    repeats = repeats_of(domain.labels, device, plan)
    timing = timed_on(device, lambda: diffusion_guide(domain, source, device=device), repeats)
    return row(name, device, timing, domain.labels.size, "voxels", target=_target(GUIDE, n, device))


def _whole(n: int, plan: Plan, names: tuple[str, ...], name: str) -> Row:
    filtered, device = _filtered(n, plan.device, names), plan.device
    voxels = _scene(n, device).domain.labels
    timing = timed_on(device, filtered, repeats_of(voxels, device, plan))
    return row(name, device, timing, voxels.size, "voxels", target=_target(WHOLE, n, device))


def _sweeps(n: int, plan: Plan, names: tuple[str, ...], name: str) -> Row:
    """The part of a whole call that is spent in ``Run.advance``, on data that are there."""
    filtered, device, seconds = _filtered(n, plan.device, names), plan.device, []
    voxels = _scene(n, device).domain.labels
    run = importlib.import_module(f"{KERNELS}.{'gpu' if device.is_gpu else 'cpu'}").Run
    for _ in range(1 + repeats_of(voxels, device, plan)):
        clock = _Clock(run.advance)
        with mock.patch.object(run, "advance", lambda *how, clock=clock: clock(*how)):
            filtered()
        seconds.append(clock.seconds)
    if not any(seconds):
        return skipped(name, "Run.advance was not called")
    timing = Timing(min(seconds[1:]), sorted(seconds[1:])[len(seconds[1:]) // 2])
    return row(name, device, timing, voxels.size, "voxels", target=_target(SWEEPS, n, device))


class _Clock:
    """Adds up the time of all calls of a function."""

    def __init__(self, function: Any) -> None:
        self._function, self.seconds = function, 0.0

    def __call__(self, *how: Any) -> Any:
        begun = time.perf_counter()
        found = self._function(*how)
        self.seconds += time.perf_counter() - begun
        return found


def _target(targets: dict[tuple[str, int], float], n: int, device: Device) -> str:
    seconds = targets.get((device.kind, n))
    return f"target {seconds:g} s" if seconds else ""


def _filtered(n: int, device: Device, names: tuple[str, ...]) -> Any:
    """A whole call, to be timed, with what is known beside the halves."""
    domain, halves = _scene(n, device)
    known = {"labels": domain.labels}
    if "guide" in names:
        known["guide"] = diffusion_guide(domain, case("B2").source, device=device).copy()
    given = {name: known[name] for name in names}
    return lambda: denoise_fluence(*halves, **given, device=device)


@cache
def _scene(n: int, device: Device) -> Scene:
    """B2 and the fluence of even and of odd photons in it, mirrored beyond its borders where it is too small."""
    made = with_settings(case("B2"), photons=PHOTONS[device.kind], halves=True)
    halves = simulate(made.domain, made.source, made.settings, device=device).half_fluences
    assert halves is not None
    first, second = (_mirrored(volume, n) for volume in halves.sum(axis=-1))
    return Scene(dataclasses.replace(made.domain, labels=_mirrored(made.domain.labels, n)), (first, second))


def _mirrored(volume: Array, n: int) -> Array:
    behind = [(0, max(0, n - size)) for size in volume.shape]
    return np.ascontiguousarray(np.pad(volume, behind, mode="symmetric")[:n, :n, :n])
