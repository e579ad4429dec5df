"""Hours of live speckle, faster than the clock: whether all drops are counted, and the memory stays flat.

The loop, the process, and the time course of the panel work on frames of the simulated camera, and a timer takes the
newest map as a window does. Now and then the process is held up for longer than the ring lasts, as by a busy disk:
what is then dropped must be what is missing among the numbers of the results.
"""

import argparse
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, header, header_lines, line, publish, table

from robustness.process import Held, growth, held

CAMERA_HZ = 30.0
_DRAWN_HZ = 30.0
_ROWS = 12  # of the table, over the whole run
_HELD_UP_EVERY, _HELD_UP_S = 5000, 0.5  # frames; 150 frames at 300 frames/s


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    parser.add_argument("--hours", type=float, default=8.0, help="of a camera of 30 frames/s")
    parser.add_argument("--faster", type=float, default=10.0, help="than that camera")
    parser.add_argument("--size", type=int, nargs=2, default=(160, 128), metavar=("WIDTH", "HEIGHT"))


def run(arguments: argparse.Namespace) -> None:
    facts = header(quick=arguments.hours < 8) | {"size": list(arguments.size), "faster": arguments.faster}
    facts |= measure(arguments)
    path = arguments.json or RESULTS / f"robustness_live_{facts['date']}.json"
    publish(path, facts, report_text(facts))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run the live loop and return its counts, and what the process held over time."""
    from napari_gpubio.speckle.gui.live import LatestMap, LiveProcess, LiveRecipe, prepare_steps
    from napari_gpubio.speckle.live import LiveLoop, SimulatedCamera, TimeCourse
    from napari_gpubio.speckle.settings import ContrastSettings

    frames = round(arguments.hours * 3600 * CAMERA_HZ)
    width, height = arguments.size
    camera = SimulatedCamera((height, width), CAMERA_HZ * arguments.faster, n_frames=frames, tile=64)
    course, numbers = TimeCourse(), MissingNumbers()
    results = LatestMap(course)
    process = LiveProcess(LiveRecipe(settings=ContrastSettings(), device="cpu"), results.spare)
    process.set_regions({f"region {n}": _region((height, width), n) for n in range(3)})

    def held_up_at_times(pixels: Any) -> Any:
        if numbers.results % _HELD_UP_EVERY == _HELD_UP_EVERY - 1:
            time.sleep(_HELD_UP_S)
        return process(pixels)

    results.publish = numbers.before(results.publish)  # type: ignore[method-assign]
    loop = LiveLoop(camera, held_up_at_times, latest=results)
    for _ in prepare_steps(process.recipe, camera.dtype):
        pass
    begun, rows = time.perf_counter(), list[dict[str, Any]]()
    loop.start()
    while loop.is_running:
        if results.take() is not None:
            loop.count_drawn()
        time.sleep(1 / _DRAWN_HZ)
        status = loop.status()
        if status.received >= (len(rows) + 1) * frames / _ROWS:
            rows.append(_row(status, course, time.perf_counter() - begun))
            print(rows[-1], flush=True)
    status = loop.status()
    rows.append(_row(status, course, time.perf_counter() - begun))
    loop.close()
    process.close()
    early, late = (Held(rows[n]["megabytes"] - rows[n]["course_mb"], rows[n]["threads"]) for n in (0, len(rows) - 2))
    return {
        "rows": rows, "frames": frames, "status": asdict(status), "missing": numbers.missing,
        "out_of_order": numbers.out_of_order, "samples": len(course), **growth(early, late),
        "counted": status.received == status.processed + status.dropped + status.waiting,
    }  # fmt: skip


class MissingNumbers:
    """Counts numbers that are missing among results, and those that are not larger than the one before."""

    def __init__(self) -> None:
        self.results = self.missing = self.out_of_order = 0
        self.last = -1

    def before(self, publish: Any) -> Any:
        """Return a function that notes the number of a result before it is published."""

        def noting(result: Any) -> None:
            self.results += 1
            self.missing += result.number - self.last - 1
            self.out_of_order += result.number <= self.last
            self.last = result.number
            publish(result)

        return noting


def _region(shape: tuple[int, int], n: int) -> Any:
    mask = np.zeros(shape, bool)
    mask[10 + 30 * n : 30 + 30 * n, 20:60] = True
    return mask


def _row(status: Any, course: Any, elapsed_s: float) -> dict[str, Any]:
    names = ("received", "processed", "dropped", "drawn", "camera_hz", "latency_ms")
    course_mb = 8 * (1 + len(course.regions)) * len(course) / 2**20
    return {
        "minutes": elapsed_s / 60,
        **{name: getattr(status, name) for name in names},
        "course_mb": course_mb,
        **asdict(held()),
    }


def report_text(facts: dict[str, Any]) -> str:
    """The results to read."""
    hours = facts["frames"] / CAMERA_HZ / 3600
    columns = (
        "minutes",
        "received",
        "processed",
        "dropped",
        "drawn",
        "latency [ms]",
        "memory [MB]",
        "of it, course",
        "threads",
    )
    lines = [
        line(
            f"{r['minutes']:.1f}", r["received"], r["processed"], r["dropped"], r["drawn"], f"{r['latency_ms']:.1f}",
            f"{r['megabytes']:.1f}", f"{r['course_mb']:.1f}", r["threads"],
        )
        for r in facts["rows"]
    ]  # fmt: skip
    status = facts["status"]
    all_counted = facts["counted"] and facts["missing"] == status["dropped"] and not facts["out_of_order"]
    summary = (
        f"{facts['frames']:,} frames of {facts['size'][0]} x {facts['size'][1]}: {hours:.2f} h of a camera of "
        f"{CAMERA_HZ:g} frames/s, {facts['faster']:g} times as fast. Dropped {status['dropped']}, missing among the "
        f"results {facts['missing']}, out of order {facts['out_of_order']}: drops are "
        f"{'all counted' if all_counted else 'NOT counted rightly'}. The process was held up for {_HELD_UP_S:g} s "
        f"every {_HELD_UP_EVERY} results, which drops frames on purpose."
    )
    memory = (
        f"Memory without the time course (of {facts['samples']:,} samples: it is a result), from the first row to the "
        f"last but one, while frames came: {facts['growth_percent']:+.2f} %."
    )
    head = ["# Hours of live speckle", "", *header_lines(facts), "", summary, "", memory]
    return "\n".join([*head, "", *table(columns, lines), ""])
