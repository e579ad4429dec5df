"""Rows a, e and f: both media with and without the map, on one to all GPUs, and on one to all threads of the CPU."""

from collections.abc import Callable, Iterator
from functools import partial

from common import Row, gpu_counts, limited_threads, skipped, thread_counts, threads_text
from speed import Job

from layered.plan import (
    CASES,
    CORE_TARGET,
    CPU_PHOTONS,
    GPU_MCML_SECONDS,
    LIKE_GPU_MCML,
    MAPS,
    MCML_IN_C,
    Case,
    Plan,
    skin_case,
)
from layered.tracing import Timed, photon_row, timed_call, timed_launch, timed_tracing
from napari_gpubio.core.device import CPU, Device

GPU_COUNT_PHOTONS = {"as in the paper": 1, "ten times as many photons": 10}
TWO_GPUS_TARGET = "target 2 GPUs >= 1.9 x one"


# -------------------------------------------------------------------------------------------------------- rows a: media
def media(plan: Plan) -> Iterator[Job]:
    """Both media with the map (its edges as GPU-MCML's and as MCML's) and without: tracing, and the whole call."""
    for name, make in CASES.items():
        for label, settings in MAPS.items():
            made = make(plan.count(name), **settings)
            theirs = GPU_MCML_SECONDS[name][0 if made.settings.has_map else 1]
            ways = {"one launch": timed_launch} if plan.device.is_gpu else {}
            for what, time_it in (ways | {"tracing": timed_tracing, "whole call": timed_call}).items():
                yield Job(f"a {name}, {label}: {what}", partial(_beside_gpu_mcml, time_it, made, plan, theirs))


def _beside_gpu_mcml(time_it: Callable[..., Timed], made: Case, plan: Plan, theirs: float, name: str) -> Row:
    timed, more = time_it(made, plan.device, plan.repeats), {}
    if plan.is_full_size:
        goal = f"GPU-MCML's source on an H200 {theirs:g} s, goal {theirs / 2:g} s"
        expected = theirs * timed.photons / made.settings.photons
        more = {"target": goal, "times_gpu_mcml": expected / timed.timing.seconds}
    return photon_row(name, plan.device, timed, **more)


# --------------------------------------------------------------------------------------------------------- rows e: GPUs
def by_gpus(plan: Plan) -> Iterator[Job]:
    """Skin on 1, 2, 4, ... and all GPUs."""
    most = len(plan.device.indices)
    if most == 1:
        why = "one GPU is here, or was asked for; --device cuda:all takes all of them"
        yield Job("e several GPUs", partial(skipped, why=why))
        return
    for label, times in GPU_COUNT_PHOTONS.items():
        made = skin_case(times * plan.count("skin"), **LIKE_GPU_MCML)
        alone = f"e skin, {label}, 1 GPU"
        for count in gpu_counts(plan.device):
            name = alone if count == 1 else f"e skin, {label}, {count} GPUs"
            yield Job(name, partial(_on_gpus, made, plan, count, alone))


def _on_gpus(made: Case, plan: Plan, count: int, alone: str, name: str) -> Row:
    device = Device("cuda", plan.device.indices[:count])
    timed = timed_tracing(made, device, plan.repeats)
    more = {"processors": count, "compared_with": alone, "target": TWO_GPUS_TARGET * (count == 2)}
    return photon_row(name, device, timed, **more)


# ------------------------------------------------------------------------------------------------------ rows f: threads
def by_threads(plan: Plan) -> Iterator[Job]:
    """Skin on one to all threads of the CPU, as many photons for each thread, whatever the device is."""
    each = plan.photons or CPU_PHOTONS["skin"] // plan.less
    for count in thread_counts():
        made = skin_case(each * count, **LIKE_GPU_MCML)
        yield Job(f"f skin, {threads_text(count)} of the CPU", partial(_on_threads, made, plan, count))


def _on_threads(made: Case, plan: Plan, count: int, name: str) -> Row:
    with limited_threads(count):
        timed = timed_tracing(made, CPU, plan.repeats)
        more = {"processors": count, "compared_with": f"f skin, {threads_text(1)} of the CPU"}
        target = f"target {CORE_TARGET:,} photons/s per core; MCML in C: {MCML_IN_C:,}"
        return photon_row(name, CPU, timed, target=target, **more)
