"""Rows b, c and d, the paper's tables and figures of what makes A(r, z) fast: optimization steps, cache, grid.

Times of the paper are those of a GTX 480 and the same photons.
"""

from collections.abc import Iterator
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from common import Array, Row, skipped
from speed import Job

from layered.plan import LIKE_GPU_MCML, Case, Plan, intralipid_case, skin_case
from layered.tracing import photon_row, resident, timed_tracing
from napari_gpubio.core.device import Device
from napari_gpubio.layered.kernels.layers.gpu import PILOT_PHOTONS, Variant, hot_corner

KIB = 1024
CACHE_KIB = (0, 4, 8, 16, 32, 64, 96, 160, 200)
OWN_BYTES = 18 * KIB  # that the kernel uses itself
SHAPE_KIB = 32  # of the caches whose shapes are compared
SHAPE_RADIAL = (9, 16, 32, 48, 64, 96, 128, 192)  # bins in r; as many in z as fit
CACHE_SHARE = 5  # of the photons of other rows
GRID_SHARE = 10  # of them too, for the simple kernel takes 20 s for 1e7 in intralipid
NO_CACHE, CHOSEN = "c 0 KiB", f"c {SHAPE_KIB} KiB, the pilot's shape"


class Step(NamedTuple):
    """A row of the paper's comparison: how A(r, z) is tallied, if at all, and the seconds of a GTX 480."""

    name: str
    variant: Variant | None
    settings: dict[str, Any]
    paper: str


HISTORY, CPU_MAP = "register history", "with the map"
STEPS = (
    Step("the simple kernel", Variant(simple=True, history=False), LIKE_GPU_MCML, "about 149 s"),
    Step("no cache, no register history", Variant(cache=False, history=False), LIKE_GPU_MCML, ""),
    Step(HISTORY, Variant(cache=False), LIKE_GPU_MCML, "about 55 s"),
    Step("cache", Variant(cache=True, history=False), LIKE_GPU_MCML, ""),
    Step("cache and register history (the default)", Variant(cache=True), LIKE_GPU_MCML, "23.0 s"),
    Step("without the map", Variant(), {"absorption": "off"}, "about 16 s"),
)
CPU_STEPS = (Step(CPU_MAP, None, LIKE_GPU_MCML, ""), Step("without the map", None, {"absorption": "off"}, ""))
GRIDS = {1: "22.95 s", 10: "23.20 s", 100: "26.06 s", 1000: "about 30.8 s"}  # bins in r and in z


# ---------------------------------------------------------------------------------------- rows b: steps of optimization
def steps(plan: Plan) -> Iterator[Job]:
    """Skin: what the cache and the register history are worth, and what the map costs."""
    for step in STEPS:
        made = skin_case(plan.count("skin"), **step.settings)
        more = {"compared_with": f"b skin, {HISTORY}", "paper": step.paper}
        yield Job(f"b skin, {step.name}", partial(_traced, made, plan, step.variant, more))


def _traced(made: Case, plan: Plan, variant: Variant | None, more: dict[str, Any], name: str) -> Row:
    return photon_row(name, plan.device, timed_tracing(made, plan.device, plan.repeats, variant), **more)


# -------------------------------------------------------------------------------------------------------- rows c: cache
def caches(plan: Plan) -> Iterator[Job]:
    """Skin: time against the size of the cache, its shape chosen by the pilot, and against its shape at one size."""
    for kib in CACHE_KIB:
        yield Job(f"c {kib} KiB", partial(_of_size, kib * KIB, plan, NO_CACHE))
    cells = SHAPE_KIB * KIB // 8
    for radial in SHAPE_RADIAL:
        yield Job(f"c {SHAPE_KIB} KiB, {radial} bins in r", partial(_of_shape, (radial, cells // radial), plan, CHOSEN))
    yield Job(CHOSEN, partial(_of_size, SHAPE_KIB * KIB, plan, CHOSEN))


def _of_size(size: int, plan: Plan, compared_with: str, name: str) -> Row:
    if size > (most := most_cache_bytes(plan.device)):
        return skipped(name, f"a block of this GPU has at most {most // KIB} KiB of shared memory")
    if size > 0:
        return _of_shape(hot_corner(_pilot(plan.device), size // 8), plan, compared_with, name)
    return _traced(_cached_case(plan), plan, Variant(cache=False), {"compared_with": compared_with}, name)


def _of_shape(shape: tuple[int, int], plan: Plan, compared_with: str, name: str) -> Row:
    share = _share(_pilot(plan.device), shape)
    more = {"compared_with": compared_with, "cache_shape": shape, "cached_share": share}
    return _traced(_cached_case(plan), plan, Variant(cache=True, shape=shape), more, name)


def _cached_case(plan: Plan) -> Case:
    return skin_case(max(1, plan.count("skin") // CACHE_SHARE), **LIKE_GPU_MCML)


def _share(absorbed: Array, shape: tuple[int, int]) -> float:
    """What part of the absorbed weight lies in a corner."""
    return float(absorbed[: shape[0], : shape[1]].sum() / absorbed.sum())


@cache
def _pilot(device: Device) -> Array:
    """A(r, z) of skin as the engine's own pilot sees it, in quanta, shape (radial, depth)."""
    made = skin_case(PILOT_PHOTONS, **LIKE_GPU_MCML)
    with resident(made, device, Variant()) as photons:
        photons.trace()
        numbers = np.sum([batch.numbers for batch in photons.tallies().batches.values()], axis=0, dtype=np.float64)
    s = made.settings
    return numbers[: photons.problem.absorption_cells].reshape(s.radial_bins, s.depth_bins)


def most_cache_bytes(device: Device) -> int:
    """Shared memory that a block may have for the cache."""
    import cupy

    facts = cupy.cuda.runtime.getDeviceProperties(device.indices[0])
    return int(facts.get("sharedMemPerBlockOptin", 48 * KIB)) - OWN_BYTES


# -------------------------------------------------------------------------------------------------------- rows d: grids
def grids(plan: Plan) -> Iterator[Job]:
    """Intralipid: four grids over the same cylinder, by variant."""
    chosen, base = (STEPS, HISTORY) if plan.device.is_gpu else (CPU_STEPS, CPU_MAP)
    photons = max(1, plan.count("intralipid") // (GRID_SHARE if plan.device.is_gpu else 1))
    for bins, paper in GRIDS.items():
        for step in chosen:
            made = intralipid_case(photons, bins=bins, **step.settings)
            bins_text = f"d intralipid, {bins} x {bins} bins"
            more = {"compared_with": f"{bins_text}, {base}", "paper": paper * (step.name == HISTORY)}
            yield Job(f"{bins_text}, {step.name}", partial(_traced, made, plan, step.variant, more))
