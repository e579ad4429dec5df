"""Rows d and e: what each extra costs in time, and what a large head takes of a GPU's memory."""

import dataclasses
from collections.abc import Iterator

import numpy as np
from common import PoolBytes, Row, Stopwatch, skipped

from light.plan import Plan, case, with_settings
from light.speed_rows import photon_row
from light.tracing import resident, trace_once, warm_up
from napari_gpubio.light.detectors import Detector
from napari_gpubio.light.model import Domain
from napari_gpubio.light.phantom.benchmarks import Case
from napari_gpubio.light.run import needed_memory_mb

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
    """Four detectors 10 mm from the source, around it on the face that it shines through."""
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
        told = [f"{amount / 1e6:.0f} MB {what}" for what, amount in found.items()] + [f"target {target}"] * bool(target)
        name = f"e memory, head {LARGE}^3 {made.domain.labels.dtype}, {label}"
        yield {"name": name, "device": plan.device.describe(), "bytes": found, "told": "; ".join(told)}
    if not plan.device.is_gpu:
        yield skipped("e memory in use", "needs a GPU; the figures above are what the engine says that it needs")


def measured_bytes(made: Case, plan: Plan) -> dict[str, float]:
    """Bytes of the GPU's pool while a run is resident, and the most that it had to take meanwhile."""
    pool = PoolBytes(plan.device)
    with resident(made, plan.device) as photons:
        used, _ = pool.used_and_grown()
        photons.trace()
        return {"resident": used, "at most": pool.used_and_grown()[1]}
