"""Dock widgets that are opened and closed a hundred times in a napari window: memory, threads, and live objects.

Needs a display (``xvfb-run``). Each is opened as from the menu, with layers of all kinds in the viewer, laid out and
drawn, and closed with the button of its dock. Compared are the tenth time and the last.
"""

import argparse
import gc
import time
from collections import Counter
from pathlib import Path
from typing import Any

from common import RESULTS, header, header_lines, line, publish, table

from robustness.process import growth, held, return_arrays_at_once

MAX_PERCENT = 2.0
_PLUGIN = "napari-gpubio"
_DRAWN_S, _EVERY = 0.1, 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    parser.add_argument("--times", type=int, default=100, help="that each is opened and closed")
    parser.add_argument("--panels", nargs="+", metavar="NAME", help="as in the menu; default: all of them")


def run(arguments: argparse.Namespace) -> None:
    import napari

    from tests import panel_walk

    return_arrays_at_once()
    facts, rows = header(quick=arguments.times < 100) | {"napari": napari.__version__}, []
    viewer = napari.Viewer()
    viewer.window.resize(1400, 900)
    panel_walk.add_layers(viewer)
    for name in arguments.panels or panel_walk.dock_widgets():
        rows.append({"panel": name, **campaign(viewer, name, arguments.times)})
        print(rows[-1], flush=True)
    viewer.close()
    path = arguments.json or RESULTS / f"robustness_panels_{facts['date']}.json"
    publish(path, {**facts, "rows": rows}, report_text(facts, rows, arguments.times))


def campaign(viewer: Any, name: str, times: int) -> dict[str, Any]:
    """Open and close a panel; returns what the process held and which objects lived, early and late."""
    states, course = [], []
    for number in range(1, times + 1):
        _open_and_close(viewer, name)
        if number in (min(10, times), times):
            states.append((held(), _objects()))
        if number % _EVERY == 0:
            course.append(held().megabytes)
    (early, objects_early), (late, objects_late) = states[0], states[-1]
    more = {kind: count - objects_early[kind] for kind, count in objects_late.items() if count > objects_early[kind]}
    return {
        "times": times, "objects": [sum(objects_early.values()), sum(objects_late.values())], "more": more,
        "course": course, **growth(early, late),
    }  # fmt: skip


def _open_and_close(viewer: Any, name: str) -> None:
    dock, _ = viewer.window.add_plugin_dock_widget(_PLUGIN, name)
    _let_live(_DRAWN_S)
    dock.destroyOnClose()
    _let_live(0.02)


def _let_live(seconds: float) -> None:
    from qtpy.QtCore import QCoreApplication, QEvent
    from qtpy.QtWidgets import QApplication

    end = time.monotonic() + seconds
    while True:
        QApplication.processEvents()
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        if time.monotonic() >= end:
            return
        time.sleep(0.002)


def _objects() -> Counter[str]:
    """Live Qt objects that Python knows, and all widgets that Qt has, by their kinds."""
    from qtpy.QtCore import QObject
    from qtpy.QtWidgets import QApplication

    gc.collect()
    found = Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, QObject))
    return found + Counter(f"{type(one).__name__} (Qt)" for one in QApplication.allWidgets())


def report_text(facts: dict[str, Any], rows: list[dict[str, Any]], times: int) -> str:
    """The results to read."""
    columns = ("panel", "memory after 10 [MB]", "after the last", "growth [%]", "threads", "Qt objects", "more of")
    lines = [
        line(
            r["panel"], f"{r['early']['megabytes']:.1f}", f"{r['late']['megabytes']:.1f}",
            f"{r['growth_percent']:+.2f}", f"{r['early']['threads']}, {r['late']['threads']}",
            f"{r['objects'][0]}, {r['objects'][1]}",
            ", ".join(f"{count} {kind}" for kind, count in r["more"].items()) or "nothing",
        )
        for r in rows
    ]  # fmt: skip
    kept = all(r["growth_percent"] <= MAX_PERCENT and not r["more"] for r in rows)
    bar = f"At most {MAX_PERCENT:g} % of growth, and no object more: {'kept' if kept else 'MISSED'}."
    head = ["# Opened and closed", "", *header_lines(facts), f"napari {facts['napari']}. {times} times each. {bar}"]
    return "\n".join([*head, "", *table(columns, lines), ""])
