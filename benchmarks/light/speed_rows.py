"""Rows a to e: photons per second of every case, what each extra costs, and what a large head takes of memory."""

import dataclasses
from collections.abc import Iterator

import numba
import numpy as np
from common import (
    PoolBytes,
    Row,
    Stopwatch,
    Timing,
    gpu_counts,
    limited_threads,
    row,
    skipped,
    thread_counts,
    threads_text,
)

from light.plan import CPU_PHOTONS, ROULETTE, Plan, case, roulette_text, with_settings
from light.tracing import resident, timed_call, timed_tracing, trace_once, warm_up
from napari_gpubio.core.device import Device
from napari_gpubio.light.benchmarks import Case
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import needed_memory_mb
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Domain

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
            label, target = f"a {name}, {roulette_text(threshold)}", ""
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
        more = {"threads": count, "processors": count, "compared_with": f"b {name}, 1 thread: tracing"}
        yield photon_row(f"b {name}, {threads_text(count)}: tracing", made, plan.device, timing, **more)


def _by_gpus(plan: Plan, name: str, made: Case) -> Iterator[Row]:
    if len(plan.device.indices) == 1:
        yield skipped(f"b {name}, several GPUs", "one GPU was chosen; --device cuda:all takes all of them")
        return
    for count in gpu_counts(plan.device):
        device = Device("cuda", plan.device.indices[:count])
        timing, _ = timed_tracing(made, device, plan.repeats)
        more = {"processors": count, "compared_with": f"b {name}, 1 GPU: tracing"}
        more["target"] = "target 2 GPUs >= 1.9 x one" * (count == 2)
        yield photon_row(f"b {name}, {count} GPU{'s' * (count > 1)}: tracing", made, device, timing, **more)


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


TEN_GATES = {"time_gates_ns": tuple(0.5 * edge for edge in range(11))}
LARGE = 256  # voxels along each axis
MEMORY = {
    "one gate": ({}, "< 1 GB"),
    "one gate, half buffers and exit map": ({"halves": True, "exit_map": True}, ""),
    "10 gates": (TEN_GATES, "an 8 GB card"),
}
MEMORY_PHOTONS = 1_000_000


# ----------------------------------------------------------------------------------------------------- time of extras
def variants(made: Case) -> dict[str, Case]:
    """The case, plain and with one extra each."""
    domain = made.domain
    absorption, scattering = domain.absorption(), np.zeros(65536, np.float32)
    for medium in domain.media:
        scattering[medium.label] = medium.mus_per_mm
    continuous = dataclasses.replace(domain, mua_per_mm=absorption, mus_per_mm=scattering[domain.labels])
    return {
        "plain": made,
        "4 detectors": dataclasses.replace(made, detectors=ring(made)),
        "continuous media": dataclasses.replace(made, domain=continuous),
        "10 time gates": with_settings(made, **TEN_GATES),
        "half buffers": with_settings(made, halves=True),
        "exit map": with_settings(made, exit_map=True),
        "everything": dataclasses.replace(
            with_settings(made, halves=True, exit_map=True, **TEN_GATES), domain=continuous, detectors=ring(made)
        ),
    }


def ring(made: Case) -> tuple[Detector, ...]:
    """Four detectors 10 mm from the source, around it on the face that it emits through."""
    x, y, z = made.source.position_mm
    places = ((x - 10, y, z), (x + 10, y, z), (x, y - 10, z), (x, y + 10, z))
    return tuple(Detector(position_mm=place, radius_mm=1.0) for place in places)


def extras(plan: Plan) -> Iterator[Row]:
    """Rows d: each extra beside plain, in turn, so that a machine that slows down slows all of them."""
    for name in ("cube60b", "B1"):
        photons = plan.count(name) // (3 if plan.device.is_gpu else 1)
        made = variants(with_settings(case(name), photons=photons))
        watches = {label: Stopwatch() for label in made}
        for variant in made.values():
            warm_up(variant, plan.device)
        for _ in range(plan.repeats + 1):
            for label, variant in made.items():
                trace_once(variant, plan.device, watches[label])
        for label, variant in made.items():
            more = {"compared_with": f"d {name}, plain: tracing"}
            yield photon_row(f"d {name}, {label}: tracing", variant, plan.device, watches[label].timing(), **more)


# -------------------------------------------------------------------------------------------------------------- memory
def large_head() -> Case:
    """The head in a grid of 256^3 voxels of 1 mm."""
    made = case("head")
    domain = made.domain
    before = (LARGE - np.array(domain.shape)) // 2
    after = LARGE - np.array(domain.shape) - before
    affine = domain.affine.copy()
    affine[:3, 3] -= affine[:3, :3] @ before
    labels = np.pad(domain.labels, list(zip(before, after, strict=True)))
    return dataclasses.replace(made, domain=Domain(labels=labels, affine=affine, media=domain.media))


def memory(plan: Plan) -> Iterator[Row]:
    """Rows e: bytes that a head of 256^3 voxels takes: declared, and on a GPU used and at most."""
    head = large_head()
    for label, (settings, target) in MEMORY.items():
        made = with_settings(head, photons=MEMORY_PHOTONS, **settings)
        found = {"declared": needed_memory_mb(made.domain, made.settings, plan.device) * 2**20}
        if plan.device.is_gpu:
            found |= measured_bytes(made, plan)
        parts = [f"{amount / 1e6:.0f} MB {what}" for what, amount in found.items()]
        parts += [f"target {target}"] if target else []
        name = f"e memory, head {LARGE}^3 {made.domain.labels.dtype}, {label}"
        yield {"name": name, "device": plan.device.describe(), "bytes": found, "text": "; ".join(parts)}
    if not plan.device.is_gpu:
        yield skipped("e memory in use", "needs a GPU; the figures above are what the engine declares")


def measured_bytes(made: Case, plan: Plan) -> dict[str, float]:
    """Bytes of the GPU's pool while a run is resident, and the most that it had to take meanwhile."""
    pool = PoolBytes(plan.device)
    with resident(made, plan.device) as photons:
        used, _ = pool.used_and_grown()
        photons.trace()
        return {"resident": used, "at most": pool.used_and_grown()[1]}
