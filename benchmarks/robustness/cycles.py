"""Runs that are started and stopped a thousand times, in the worker that the panels use: what stays of them.

A run of an engine is stopped at once, or at a random moment from its first to beyond its last. Memory and threads after
the tenth cycle and the last are compared, and a run to its end must give the bits that it gave at the beginning.
"""

import argparse
import random
import time
from pathlib import Path
from typing import Any

from common import RESULTS, header, header_lines, line, publish, table

from robustness.engines import ENGINES, Engine
from robustness.process import growth, held, return_arrays_at_once

_PATIENCE_S = 120.0
MAX_PERCENT = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    parser.add_argument("--cycles", type=int, default=1000, help="of each engine")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES), metavar="ENGINE")
    parser.add_argument("--device", default="cpu")


def run(arguments: argparse.Namespace) -> None:
    return_arrays_at_once()
    facts = header(quick=arguments.cycles < 1000) | {"device": arguments.device}
    rows = []
    for name in arguments.engines:
        rows.append({"engine": name, **campaign(ENGINES[name], arguments.cycles, arguments.device)})
        print(rows[-1], flush=True)
    path = arguments.json or RESULTS / f"robustness_cycles_{facts['date']}.json"
    publish(path, {**facts, "rows": rows}, report_text(facts, rows))


def campaign(engine: Engine, cycles: int, device: str) -> dict[str, Any]:
    """Start and stop an engine; returns what the process held early and late, and how the runs ended."""
    first = engine.fingerprint(engine.result(device))
    begun = time.perf_counter()
    engine.result(device)
    seconds = time.perf_counter() - begun
    ended: dict[str, int] = {}
    early, course = held(), list[float]()
    for cycle in range(cycles):
        at_once = cycle % 3 == 0
        how = _one_cycle(engine, device, 0.0 if at_once else random.uniform(0.0, 1.2 * seconds))
        ended[how] = ended.get(how, 0) + 1
        if cycle == 9:
            early = held()
        elif cycle % 100 == 99:
            course.append(held().megabytes)
    late = held()
    same = engine.fingerprint(engine.result(device)) == first
    return {"cycles": cycles, "milliseconds": 1e3 * seconds, "ended": ended, "same": same, "course": course} | growth(
        early, late
    )


def _one_cycle(engine: Engine, device: str, seconds: float) -> str:
    """Start a run, stop it after some seconds, and return how it ended."""
    from napari_gpubio.gui.jobs import Job

    job = Job(lambda stop: engine.steps(device, stop))
    job.start()
    time.sleep(seconds)
    job.stop()
    outcome = job.wait(_PATIENCE_S)
    if outcome is None:
        return "did not end"
    if outcome.error:
        return outcome.error
    return "complete" if getattr(outcome.result, "complete", True) else "stopped"


def report_text(facts: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The results to read."""
    columns = ("engine", "run [ms]", "ended", "memory after 10 [MB]", "after the last", "growth [%]", "threads", "bits")
    lines = [
        line(
            r["engine"], f"{r['milliseconds']:.0f}", ", ".join(f"{count} {how}" for how, count in r["ended"].items()),
            f"{r['early']['megabytes']:.1f}", f"{r['late']['megabytes']:.1f}", f"{r['growth_percent']:+.2f}",
            f"{r['early']['threads']}, {r['late']['threads']}", "same" if r["same"] else "OTHER",
        )
        for r in rows
    ]  # fmt: skip
    kept = all(r["growth_percent"] <= MAX_PERCENT and r["early"]["threads"] == r["late"]["threads"] for r in rows)
    bar = f"At most {MAX_PERCENT:g} % of growth and no thread more: {'kept' if kept else 'MISSED'}."
    head = ["# Started and stopped", "", *header_lines(facts), f"{rows[0]['cycles']} cycles of each engine. {bar}"]
    return "\n".join([*head, "", *table(columns, lines), ""])
