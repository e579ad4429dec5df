"""Rows f to h: the paper's steps of optimization, peers in the same run, and Monte Carlo with the filter behind it."""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from common import Array, Row, Stopwatch, Timing, missing, row, skipped, timed_on
from light.plan import case, with_settings
from scipy import ndimage
from speed import Job, Plan

from denoise import figure6, peers
from denoise.domains import CROP, TRUTH_SEED, symmetrised
from denoise.speed_rows import SMALL, cube, scaled_problem, timed_call
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.denoise.run import denoise
from napari_gpubio.light.run import simulate

SIGMA = 25.0  # of the noisy head, about
END_TO_END_TARGET = "target < 0.030 s on one H200"
DARKEST_DB, BRIGHTEST_DB = 0.0, 30.0  # raw signal / noise of the voxels whose error counts
PHOTONS = {"cuda": (10**5, 10**6, 10**7, 10**8), "cpu": (10**4, 10**5)}
TRUTH_PHOTONS = 10**9
PAPER_SECONDS = {  # table 2: a 1080 Ti, B1; Monte Carlo and filter
    10**5: "0.67 + 1.19 s",
    10**6: "1.09 + 1.19 s",
    10**7: "3.82 + 1.20 s",
    10**8: "27.1 + 1.16 s",
}


# ----------------------------------------------------------------------------------------------------- rows f: figure 6
def optimization(plan: Plan) -> Iterator[Job]:
    """Every variant of the first GPU filter, and the engine's form, on 100^3."""
    for variant in figure6.VARIANTS:
        yield Job(f"f 100^3, {variant.name}", partial(_variant, variant, plan))
    yield Job(f"f 100^3, {figure6.DISPLACED}", partial(_variant, None, plan))


def _variant(variant: figure6.Variant | None, plan: Plan, name: str) -> Row:
    volume = scaled_problem(cube(SMALL)).values
    expected = denoise(volume, device=plan.device).image
    found = figure6.measured(volume, plan.device, variant, expected, 2 if plan.quick else 5)
    timing = Timing(found.pop("seconds"), found.pop("median_seconds"))
    paper = figure6.PAPER.get(variant.name, "") if variant else ""
    base = f"f 100^3, {figure6.VARIANTS[0].name}"
    return row(name, plan.device, timing, volume.size, "voxels", **found, paper=paper, compared_with=base)


# -------------------------------------------------------------------------------------------------------- rows g: peers
def beside(plan: Plan) -> Iterator[Job]:
    """Whole calls on 100^3, ours with two passes and mixing, peers as their names say; all but ours on the CPU."""
    yield Job("g 100^3, ours", partial(_ours, plan.device, plan))
    if plan.device.is_gpu:
        yield Job("g 100^3, ours on the CPU", partial(_ours, CPU, plan))
    theirs: dict[str, tuple[str, Callable[[Array], Array]]] = {
        "DIPY nlmeans, patch 1 alone": ("DIPY", lambda volume: peers.dipy_nlmeans(volume, SIGMA)),
        "DIPY ASCM, two passes": ("DIPY", lambda volume: peers.dipy_ascm(volume, SIGMA)),
        "ANTs DenoiseImage, patch 1 alone": ("ANTs", peers.ants_denoise),
    }
    for label, (package, apply) in theirs.items():
        yield Job(f"g 100^3, {label}", partial(_peer, package, apply))


def _ours(device: Device, plan: Plan, name: str) -> Row:
    volume = cube(SMALL)
    return row(name, device, timed_call(volume, device, plan), volume.size, "voxels", compared_with="g 100^3, ours")


def _peer(package: str, apply: Callable[[Array], Array], name: str) -> Row:
    if (why := missing(peers.PACKAGES, package)) is not None:
        return skipped(name, why)
    volume, watch = cube(SMALL), Stopwatch()
    with watch.running():  # once: they compile nothing, and ANTs takes minutes
        apply(volume)
    return row(name, CPU, watch.timing(), volume.size, "voxels", compared_with="g 100^3, ours")


# ------------------------------------------------------------------------------------------------- rows h: Monte Carlo
def end_to_end(plan: Plan) -> Iterator[Job]:
    """B1 and then the filter, by the number of photons; and the head, whose volume is larger."""
    for photons in PHOTONS[plan.device.kind]:
        yield Job(f"h B1, {photons:.0e} photons and filter", partial(_chain, "B1", photons, plan))
    if plan.device.is_gpu:
        yield Job("h head, 1e+08 photons and filter", partial(_chain, "head", 10**8, plan))


def _chain(domain: str, photons: int, plan: Plan, name: str) -> Row:
    made, device = with_settings(case(domain), photons=photons), plan.device

    def trace() -> Array:
        return simulate(made.domain, made.source, made.settings, device=device).fluence

    volume = trace()
    repeats = 3 if device.is_gpu else 1
    tracing, filtering, chain = (
        timed_on(device, work, repeats)
        for work in (trace, lambda: denoise(volume, device=device), lambda: denoise(trace(), device=device))
    )
    more: dict[str, Any] = {"tracing": tracing.seconds, "filtering": filtering.seconds, "photons": photons}
    if domain == "B1":
        more["paper"] = PAPER_SECONDS.get(photons, "")
        more["target"] = END_TO_END_TARGET if photons == 10**6 and device.is_gpu else ""
        more["equivalent_photons"] = photons * 10 ** (_error_gain(volume, device) / 10) if device.is_gpu else None
    return row(name, device, chain, volume.size, "voxels", **more)


def _error_gain(volume: Array, device: Device) -> float:
    """By how much the relative squared error falls (dB), where the raw signal / noise is 0 to 30 dB."""
    truth, found = _truth(device), denoise(volume, device=device).image
    known, safe = truth > 0, np.where(truth > 0, truth, 1.0)
    relative = [np.where(known, np.asarray(v, np.float64)[CROP] / safe - 1.0, 1.0) ** 2 for v in (volume, found)]
    smooth = ndimage.gaussian_filter(symmetrised(relative[0]), 2.0)  # or the choice of voxels would depend on luck
    ratio = -10 * np.log10(np.maximum(smooth, 1e-12))
    where = (ratio > DARKEST_DB) & (ratio < BRIGHTEST_DB)
    return float(10 * np.log10(relative[0][where].mean() / relative[1][where].mean()))


@cache
def _truth(device: Device) -> Array:
    made = case("B1")
    settings = dataclasses.replace(made.settings, photons=TRUTH_PHOTONS, seed=TRUTH_SEED)
    fluence = simulate(made.domain, made.source, settings, device=device).fluence
    return symmetrised(fluence.astype(np.float64)[CROP])
