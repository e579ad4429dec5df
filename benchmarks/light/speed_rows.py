"""Rows a to c: photons per second of every case, by threads or GPUs, and by the number of photons."""

from collections.abc import Iterator

import numba
from common import Row, Timing, gpu_counts, limited_threads, row, skipped, thread_counts, threads_told

from light.plan import CPU_PHOTONS, ROULETTE, Plan, case, roulette_told, with_settings
from light.tracing import timed_call, timed_tracing
from napari_gpubio.core.device import Device
from napari_gpubio.light.phantom.benchmarks import Case
from napari_gpubio.light.result import LightResult

CORE_TARGETS = {"cube60": "target 1e5 photons/s per core", "B1": "target 1e4 photons/s per core"}
CLICK_TARGET = {("B1", 1_000_000): "target <= 25 ms on one H200"}
SCALING = ("cube60", "B1")
GPU_COUNTS = (10**5, 10**6, 10**7, 10**8, 10**9)
CPU_COUNTS = (10**3, 10**4, 10**5)


def photon_row(name: str, made: Case, device: Device, timing: Timing, **more: object) -> Row:
    if not device.is_gpu:
        more = {"threads": numba.get_num_threads(), **more}
    settings = {"roulette_threshold": made.settings.roulette_threshold, "time_gates_ns": made.settings.time_gates_ns}
    return row(name, device, timing, made.settings.photons, "photons", settings=settings, **more)


def fate(result: LightResult) -> dict[str, float]:
    """Where the energy went, for the record."""
    energy = result.energy
    return {
        "absorbed": energy.absorbed.value / energy.entered,
        "absorbed_error": energy.absorbed.error / energy.entered,
        "truncated": energy.truncated.value,
    }


def every_case(plan: Plan) -> Iterator[Row]:
    """Rows a: every case, with and without roulette: the tracing on resident buffers, and the whole call."""
    for name in CPU_PHOTONS:
        for threshold in (ROULETTE, 0.0):
            made = with_settings(case(name), photons=plan.count(name), roulette_threshold=threshold)
            label, target = f"a {name}, {roulette_told(threshold)}", ""
            if not plan.device.is_gpu and threshold:
                target = CORE_TARGETS.get(name, "")
            timing, result = timed_tracing(made, plan.device, plan.repeats)
            yield photon_row(f"{label}: tracing", made, plan.device, timing, target=target, **fate(result))
            if threshold:
                timing = timed_call(made, plan.device, plan.repeats)
                yield photon_row(f"{label}: whole call", made, plan.device, timing)


def by_processors(plan: Plan) -> Iterator[Row]:
    """Rows b: one to all threads, or one to all GPUs."""
    for name in SCALING:
        made = with_settings(case(name), photons=plan.count(name))
        yield from _by_gpus(plan, name, made) if plan.device.is_gpu else _by_threads(plan, name, made)


def _by_threads(plan: Plan, name: str, made: Case) -> Iterator[Row]:
    for count in thread_counts():
        with limited_threads(count):
            timing, _ = timed_tracing(made, plan.device, plan.repeats)
        told = {"threads": count, "processors": count, "compared_with": f"b {name}, 1 thread: tracing"}
        yield photon_row(f"b {name}, {threads_told(count)}: tracing", made, plan.device, timing, **told)


def _by_gpus(plan: Plan, name: str, made: Case) -> Iterator[Row]:
    if len(plan.device.indices) == 1:
        yield skipped(f"b {name}, several GPUs", "one GPU was asked for; --device cuda:all takes all of them")
        return
    for count in gpu_counts(plan.device):
        device = Device("cuda", plan.device.indices[:count])
        timing, _ = timed_tracing(made, device, plan.repeats)
        told = {"processors": count, "compared_with": f"b {name}, 1 GPU: tracing"}
        told["target"] = "target 2 GPUs >= 1.9 x one" * (count == 2)
        yield photon_row(f"b {name}, {count} GPU{'s' * (count > 1)}: tracing", made, device, timing, **told)


def by_photons(plan: Plan) -> Iterator[Row]:
    """Rows c: the whole call, by the number of photons."""
    counts = GPU_COUNTS if plan.device.is_gpu else CPU_COUNTS
    for name in SCALING:
        for count in counts[: -1 if plan.quick else None]:
            made = with_settings(case(name), photons=count)
            repeats = 10 if count <= 10**6 else 3 if count <= 10**8 else 1
            timing = timed_call(made, plan.device, repeats if plan.device.is_gpu else plan.repeats)
            target = CLICK_TARGET.get((name, count), "") if plan.device.is_gpu else ""
            yield photon_row(f"c {name}, {count:.0e} photons: whole call", made, plan.device, timing, target=target)
