"""Rows f and g: MCX beside ours in the same process, in turn, so that both meet the machine in the same state."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from common import Row, Stopwatch, compact, line, skipped

from light.peers import Peer, PeerRun, find_peer
from light.plan import CPU_PHOTONS, ROULETTE, Plan, case, roulette_told, with_settings
from light.tracing import call, trace_once, warm_up
from napari_gpubio.light.phantom.benchmarks import Case
from napari_gpubio.light.result import LightResult

TARGETS = {"B1": 2.5, "B2": 2.5, "cube60b": 1.5, "cube60": 1.1}
FEW_PHOTONS = 1_000_000  # an interactive run
COLUMNS = (
    "case", "photons", "ours", "ours, no roulette", "MCX", "MCX, roulette", "ours / MCX", "both roulette",
    "both without", "whole calls", "absorbed: ours", "MCX", "z", "target",
)  # fmt: skip


def beside(package: str, plan: Plan) -> Iterator[Row]:
    """Every case beside MCX, and B1 with few photons."""
    letter = "f" if package == "pmcx" else "g"
    peer = find_peer(package)
    if isinstance(peer, str):
        yield skipped(f"{letter} beside {package}", peer)
        return
    if package == "pmcx" and not plan.device.is_gpu:
        yield skipped(f"{letter} beside {package}", "pmcx needs a GPU; so does the comparison (--device cuda:0)")
        return
    jobs = [(name, plan.count(name)) for name in CPU_PHOTONS] + [("B1", FEW_PHOTONS)]
    for name, photons in jobs:
        label = f"{letter} {name}, {photons:.0e} photons, beside {peer.name}"
        try:
            yield compared(label, name, photons, peer, plan)
        except Exception as error:  # noqa: BLE001 - whatever MCX dislikes, the other cases go on
            yield skipped(label, f"{type(error).__name__}: {error}")


def compared(label: str, name: str, photons: int, peer: Peer, plan: Plan) -> Row:
    """Ours and MCX, each with and without roulette, one after the other, several times round."""
    ours = {t: with_settings(case(name), photons=photons, roulette_threshold=t) for t in (ROULETTE, 0.0)}
    watches, calls = {t: Stopwatch() for t in ours}, {t: Stopwatch() for t in ours}
    theirs: dict[float, list[PeerRun]] = {t: [] for t in ours}
    for threshold, made in ours.items():
        warm_up(made, plan.device)
        peer.run(made, min(photons, FEW_PHOTONS), threshold)
    for _ in range(plan.repeats):
        for threshold, made in ours.items():
            result = traced(made, plan, watches[threshold], calls[threshold])
            if threshold:
                with_roulette = result
            theirs[threshold].append(peer.run(made, photons, threshold))
    times = {
        "ours": {t: {"tracing": min(watches[t].wall), "call": min(calls[t].wall)} for t in ours},
        "peer": {t: best(runs) for t, runs in theirs.items()},
    }
    return {
        "name": label,
        "case": name,
        "photons": photons,
        "device": plan.device.describe(),
        "peer": peer.name,
        "best_seconds": {who: {roulette_told(t): v for t, v in found.items()} for who, found in times.items()},
        "all_seconds": {
            roulette_told(t): {"ours": watches[t].wall, "peer": [vars_of(r) for r in theirs[t]]} for t in ours
        },
        "ratios": ratios(times),
        "absorbed": absorbed(with_roulette, [run.absorbed for run in theirs[0.0]], photons),
        "target": f">= {TARGETS[name]}" if name in TARGETS and photons > FEW_PHOTONS else "",
    }


def traced(made: Case, plan: Plan, tracing: Stopwatch, whole: Stopwatch) -> LightResult:
    """Trace ours once on resident buffers and once as a whole call."""
    trace_once(made, plan.device, tracing)
    with whole.running():
        return call(made, plan.device)()


def best(runs: list[PeerRun]) -> dict[str, float]:
    """The shortest of each time."""
    return {
        "kernel": min(run.kernel_seconds for run in runs),
        "runtime": min(run.runtime_seconds for run in runs),
        "call": min(run.call_seconds for run in runs),
    }


def vars_of(run: PeerRun) -> dict[str, float]:
    return {"kernel": run.kernel_seconds, "runtime": run.runtime_seconds, "call": run.call_seconds}


def ratios(times: dict[str, dict[float, dict[str, float]]]) -> dict[str, float]:
    """How many times faster ours is; MCX has no roulette unless told, ours has."""
    ours, peer = times["ours"], times["peer"]
    return {
        "as each is by default": peer[0.0]["kernel"] / ours[ROULETTE]["tracing"],
        "both with roulette": peer[ROULETTE]["kernel"] / ours[ROULETTE]["tracing"],
        "both without": peer[0.0]["kernel"] / ours[0.0]["tracing"],
        "whole calls, by default": peer[0.0]["call"] / ours[ROULETTE]["call"],
    }


def absorbed(ours: LightResult, theirs: list[float], photons: int) -> dict[str, float]:
    """Absorbed fractions of what entered, and their distance in standard errors; MCX's error is taken from ours."""
    value, error = (part / ours.energy.entered for part in ours.energy.absorbed)
    their_error = error * np.sqrt(ours.launched / (photons * len(theirs)))
    mean = float(np.mean(theirs))
    return {
        "ours": value,
        "ours_error": error,
        "peer": mean,
        "peer_runs": len(theirs),
        "z": (value - mean) / float(np.hypot(error, their_error)),
    }


def peer_line(r: Row) -> str:

    def speed(who: str, roulette: str, what: str) -> str:
        return compact(r["photons"] / r["best_seconds"][who][roulette][what]) + "/s"

    found: dict[str, Any] = r["absorbed"]
    return line(
        r["case"], f"{r['photons']:.0e}", speed("ours", "roulette", "tracing"), speed("ours", "no roulette", "tracing"),
        speed("peer", "no roulette", "kernel"), speed("peer", "roulette", "kernel"),
        *(f"{ratio:.2f}" for ratio in r["ratios"].values()),
        f"{found['ours']:.5f} ± {found['ours_error']:.5f}", f"{found['peer']:.5f}", f"{found['z']:+.1f}", r["target"],
    )  # fmt: skip
