"""A random walk of real events over all panels of a window: what a panel has made changes only when it is told to.

Run under a display of its own, where xdotool and openbox are installed::

    xvfb-run -a -s "-screen 0 1280x800x24" python benchmarks/walk --out FOLDER [--seeds 1 2 3 4] [--events 250]

Each seed is a process of its own. Samples are opened, all panels too, and those of the scene are run; then come clicks,
drags, wheel and keys on the canvas and on what is seen of the panels, other panels by the switcher, layers that are
selected, deleted, renamed and hidden in napari's list, undo and redo. After every event it is compared: data, metadata
and places of all layers, and the tables of all panels. A violation, an error, a notification or a warning of Qt's is
reported with the events before it; the same seed makes the same choices (``--seeds 3 --events 120``), as far as the
window is the same by then. At last everything is undone. Odd seeds walk in a brain, even ones over a head, a plan and
frames of a camera. The GUI thread is looked at when its event loop is late: what Qt itself drew just before is charged
to the function that it called next. On a busy machine what counts is how long the thread *computed*.
"""

import faulthandler
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, deque
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).resolve().parents[1]), str(Path(__file__).resolve().parents[1] / "story")]

from common import argument_parser, header, header_lines, line, publish, result_path, table  # noqa: E402

LAST_EVENTS = 20
IDLE_S, SETTLE_S = 1.5, 0.15  # at most, until panels are idle, after every event; and at least
BLOCKED_S = 0.05
IMPATIENT = 4  # one in so many events does not wait for panels


def main() -> int:
    parser = argument_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder for pictures and one file for each seed")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1, 9)))
    parser.add_argument("--events", type=int, default=250, help="of each seed")
    parser.add_argument("--one", action="store_true", help="walk here, with the only seed")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.one:
        return walk(options.seeds[0], options.events, options.out.resolve())
    manager = subprocess.Popen(["openbox"], stderr=subprocess.DEVNULL) if shutil.which("openbox") else None
    try:
        found = [_of_process(seed, options) for seed in options.seeds]
    finally:
        if manager is not None:
            manager.terminate()
    results = header(quick=False) | {"rows": found}
    publish(result_path(options.json, "walk", results["date"]), results, report_text(results, found))
    return int(any(row["violations"] or row["problems"] for row in found))


def _of_process(seed: int, options: Any) -> dict[str, Any]:
    """Walk in another process, which may crash."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NAPARI_CONFIG": str(Path(folder) / "settings.yaml"), "BROWSER": "true"}
        words = [sys.executable, str(Path(__file__).parent), "--one", "--seeds", str(seed)]
        words += ["--events", str(options.events), "--out", str(options.out)]
        path = options.out / f"seed {seed}.json"
        path.unlink(missing_ok=True)
        status = subprocess.run(words, env=environment, check=False).returncode
    if not path.exists():
        return {"seed": seed, "events": 0, "violations": [], "problems": [f"ended with status {status}"], "blocked": []}
    return dict(json.loads(path.read_text()))


def walk(seed: int, events: int, folder: Path) -> int:
    """Walk in a window of this process; returns the exit status."""
    import napari
    from person import Person
    from qtpy.QtCore import QTimer
    from rules import Ledger
    from watch import Watch

    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    viewer = napari.Viewer()
    window = viewer.window._qt_window
    screen = window.screen().geometry()
    window.setGeometry(0, 0, screen.width(), screen.height())
    window.showMaximized()
    person = Person(viewer, folder, f"seed {seed} ")
    ledger, watch, failed = Ledger(viewer), Watch(), []

    def act() -> None:
        try:
            found = _walked(person, ledger, watch, seed, events, folder)
            (folder / f"seed {seed}.json").write_text(json.dumps(found, indent=1))
        except Exception:  # noqa: BLE001 - printed, and the window is closed
            failed.append(seed)
            traceback.print_exc()
        watch.end()
        QTimer.singleShot(20_000, lambda: os._exit(1))
        person.ask(window.close)

    walker = threading.Thread(target=act, daemon=True)
    QTimer.singleShot(1500, walker.start)
    napari.run()
    return int(bool(failed))


def _walked(person: Any, ledger: Any, watch: Any, seed: int, events: int, folder: Path) -> dict[str, Any]:
    from rules import Allowed
    from scene import open_panels, open_samples, run_panels
    from steps import Walk

    open_samples(person, is_brain=seed % 2 == 1)
    open_panels(person)
    ledger.compare(person.ask(ledger.look), Allowed(everything=True))
    start = _state(ledger)
    run_panels(person, ledger, is_brain=seed % 2 == 1)
    ledger.compare(person.ask(ledger.look), Allowed(everything=True))
    person.picture("start")
    before = watch.take()
    watch.blocked.clear()
    steps, last = Walk(person, ledger, seed), deque(maxlen=LAST_EVENTS)
    violations, problems = [], [{"event": 0, "what": what} for what in before]
    under_way = set[str]()  # when it was looked at last, which may have ended before the next event
    begun, log = time.monotonic(), (folder / f"seed {seed}.log").open("w", encoding="utf-8")
    for number in range(1, events + 1):
        watch.units_differ = person.ask(lambda: len({str(layer.units[-1]) for layer in person.viewer.layers}) > 1)
        try:
            text, allowed = steps.step()
        except (subprocess.CalledProcessError, TimeoutError, RuntimeError) as error:  # a control that has gone since
            text, allowed = f"nothing, since {error}", Allowed(person.ask(ledger.busy))
        if opened := steps.close_dialogs():
            text += f" (closed {', '.join(opened)})"
        allowed.panels |= under_way
        last.append(f"{number}: {text}")
        print(last[-1], file=log, flush=True)
        _settle(person, ledger, allowed, is_patient=number % IMPATIENT != 0)
        looked, under_way = person.ask(lambda: (ledger.look(), ledger.busy()))
        wrong = ledger.compare(looked, allowed)
        new = watch.take()
        for what in wrong:
            violations.append({"seed": seed, "event": number, "what": what, "last": list(last)})
        problems += [{"event": number, "what": what, "last": list(last)} for what in new]
        if wrong or new:
            print(f"seed {seed}, event {last[-1]}: {[*wrong, *new]}", flush=True)
            person.picture(f"event {number}", settle_s=0.0)
        elif number % 50 == 0:
            person.picture(f"event {number}", settle_s=0.0)
    try:
        undone = _undo_everything(person, ledger, start)
    except Exception as error:  # noqa: BLE001 - of an undo; what was seen before is kept
        undone = f"ended by {error!r}"
        problems.append({"event": "undo of everything", "what": traceback.format_exc(), "last": []})
    slow = blocked_by(watch.blocked)
    return {
        "seed": seed, "events": events, "seconds": round(time.monotonic() - begun), "violations": violations,
        "problems": problems, "blocked": slow, "undone": undone,
    }  # fmt: skip


def blocked_by(stretches: Any) -> list[dict[str, Any]]:
    """Which functions took too long: how often by the clock, how often computing, and the worst of both."""
    found: dict[str, list[Any]] = {}
    for one in stretches:
        if one.ours > BLOCKED_S:
            found.setdefault(one.where, []).append(one)
    ordered = sorted(found.items(), key=lambda item: -len(item[1]))
    return [
        {
            "where": where, "times": len(every), "computing": sum(one.cpu_seconds > BLOCKED_S for one in every),
            "worst": [max(one.ours for one in every), max(one.cpu_seconds for one in every)],
        }
        for where, every in ordered
    ]  # fmt: skip


def _settle(person: Any, ledger: Any, allowed: Any, *, is_patient: bool) -> None:
    """Wait until the panels are idle, not for long; what ran meanwhile was told to."""
    time.sleep(SETTLE_S)
    end = time.monotonic() + (IDLE_S if is_patient else 0.0)
    while time.monotonic() < end and (busy := person.ask(ledger.busy)):
        allowed.panels |= busy
        time.sleep(0.05)


def _state(ledger: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Names and checksums of all layers, as they were looked at last."""
    return [(seen.name, seen.sums) for _, seen in ledger._layers]


def _undo_everything(person: Any, ledger: Any, start: Any) -> str:
    """Undo all that was done, and compare the layers that panels made with those at the start."""
    from rules import NOBODY, Allowed

    from napari_gpubio.gui.history import history_of

    history, times = person.ask(lambda: history_of(person.viewer)), 0
    while person.ask(lambda: history.can_undo) and times < 5_000:
        person.ask(history.undo)
        while person.ask(lambda: history.is_undoing):  # which takes long on a busy machine
            time.sleep(0.05)
        _settle(person, ledger, Allowed(), is_patient=True)
        times += 1
    looked = person.ask(ledger.look)
    ledger.compare(looked, Allowed(everything=True))
    names = {name for name, _ in start}
    more = [seen.name for _, seen in looked[0] if seen.owner != NOBODY and seen.name not in names]
    return f"{times} times; " + (f"left: {', '.join(more)}" if more else "as at the start")


def report_text(results: dict[str, Any], found: list[dict[str, Any]]) -> str:
    """The results to read."""
    rows = [
        line(
            row["seed"], "brain" if row["seed"] % 2 else "head, plan, camera", row["events"], len(row["violations"]),
            len(row["problems"]), *(sum(one[what] for one in row["blocked"]) for what in ("times", "computing")),
            row.get("undone", ""),
        )
        for row in found
    ]  # fmt: skip
    titles = (
        "seed",
        "scene",
        "events",
        "violations",
        "errors and warnings",
        "> 50 ms by us",
        "of them computing",
        "undone",
    )
    parts = ["# A random walk of real events", "", *header_lines(results), "", *table(titles, rows), ""]
    wrong = Counter(one["what"].strip().splitlines()[-1] for row in found for one in row["violations"])
    wrong += Counter(
        (one if isinstance(one, str) else one["what"]).strip().splitlines()[-1]
        for row in found
        for one in row["problems"]
    )
    if wrong:
        parts += [*table(("what", "times"), [line(what[:200], count) for what, count in wrong.most_common()]), ""]
    slow: dict[str, list[Any]] = {}
    for row in found:
        for one in row["blocked"]:
            known = slow.setdefault(one["where"], [0, 0, 0.0, 0.0])
            counts = known[0] + one["times"], known[1] + one["computing"]
            slow[one["where"]] = [*counts, *map(max, known[2:], one["worst"])]
    ordered = sorted(slow.items(), key=lambda item: (-item[1][3], -item[1][2]))
    lines = [line(where, n, m, f"{1000 * ours:.0f}", f"{1000 * cpu:.0f}") for where, (n, m, ours, cpu) in ordered]
    parts += table(("GUI thread in", "times", "computing", "worst [ms]", "computing [ms]"), lines)
    return "\n".join([*parts, ""])


if __name__ == "__main__":
    raise SystemExit(main())
