"""Verbs killed at random moments, and run again: do they go on to the bits of a run that was left in peace.

Each run is a process of its own (a fork of one that has imported and compiled everything), killed by SIGKILL, or sent
SIGINT as by Ctrl-C, at a random moment of it; then the same command is run again. For this, what is done is saved every
0.1 s, not every 8 s, so that most kills fall between two savings, or into one. Some more runs are killed with the
program's own times, to see how many seconds are lost.
"""

import argparse
import io
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from common import RESULTS, header, header_lines, limited_threads, line, publish, table

from robustness.resumable import LONGEST, VERBS, Verb, is_part

OUTCOMES = ("went on", "begun anew", "was done", "wrong")
_SIGNALS = {"kill -9": signal.SIGKILL, "Ctrl-C": signal.SIGINT}
_SAVED_EVERY, _BLOCK = 0.1, 2_000  # seconds, and fibers of a connectome's block
_OVER = 1.1  # moments are spread over the duration of a run and somewhat more
_REFUSED = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    parser.add_argument("--kills", type=int, default=100, help="of each verb with each signal")
    parser.add_argument("--own-times", type=int, default=3, help="kills of each verb that saves every 8 s")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="of each verb and signal; fewer kills then")
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=list(VERBS), metavar="VERB")


def run(arguments: argparse.Namespace) -> None:
    facts = header(quick=arguments.kills < 100)
    rows, lost = [], []
    with limited_threads(1):  # a fork has no other threads
        for name in arguments.verbs:
            for how, number in _SIGNALS.items():
                found = campaign(VERBS[name], number, arguments.kills, 60 * arguments.minutes)
                rows.append({"verb": name, "signal": how, **found})
                print(rows[-1], flush=True)
        for name in [name for name in arguments.verbs if VERBS[name].goes_on]:
            lost.append({"verb": name, "seconds": [lost_seconds(VERBS[name]) for _ in range(arguments.own_times)]})
            print(lost[-1], flush=True)
    path = arguments.json or RESULTS / f"robustness_kills_{facts['date']}.json"
    publish(path, {**facts, "rows": rows, "lost": lost}, report_text(facts, rows, lost))


def campaign(verb: Verb, number: int, kills: int, seconds: float) -> dict[str, Any]:
    """Kill a verb at random moments and run it again; returns how often each came out."""
    outcomes: Counter[str] = Counter()
    leftovers, begun = 0, time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-") as name, chdir(name):
        folder = Path(name)
        words = verb.prepare(folder, 1.0)
        _warm(words)
        lasts = _process([*words, "--force"])
        expected, names = verb.read(Path(verb.out)), {*_names(), "printed"}
        whole = folder / f"whole{Path(verb.out).suffix}"
        if not verb.goes_on:
            shutil.copy(verb.out, whole)
            names |= {whole.name}
        for _ in range(kills):
            if time.monotonic() - begun > seconds:
                break
            for path in Path().glob(verb.out):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            _process(words, number, random.uniform(0.0, _OVER * lasts))
            outcome = _again(verb, words, whole, expected)
            outcomes[outcome] += 1
            leftovers += _names() != names
            if outcome == "wrong":
                print(Path("printed").read_text(encoding="utf-8"), flush=True)
    return {
        "seconds": lasts, "kills": outcomes.total(), **{o: outcomes[o] for o in OUTCOMES}, "leftovers": leftovers,
    }  # fmt: skip


def _warm(words: list[str]) -> None:
    """Run the program here, so that its forks have the compiled functions, and no results."""
    from napari_gpubio.cli import main
    from napari_gpubio.core.operations import STORE

    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        main(words)
    STORE.clear()


def _names() -> set[str]:
    return {path.name for path in Path().iterdir()}


def _again(verb: Verb, words: list[str], whole: Path, expected: str) -> str:
    """Run the same command again, and return which of `OUTCOMES` it is."""
    out, part_is_right = Path(verb.out), True
    if not verb.goes_on and out.exists():  # fibers so far, or all
        part_is_right = is_part(out, whole)
        if verb.read(out) == expected:
            return "was done"
        words = [*words, "--force"]
    _process(words)
    printed = Path("printed").read_text(encoding="utf-8")
    try:
        is_same = verb.read(out) == expected
    except Exception as error:  # noqa: BLE001 - whatever is raised is an answer
        print(repr(error))
        is_same = False
    if "Traceback" in printed or not (is_same and part_is_right):
        return "wrong"
    return "was done" if "there is already" in printed else "went on" if "goes on with" in printed else "begun anew"


def lost_seconds(verb: Verb) -> float:
    """Seconds of work that a kill loses where a verb saves at its own times; not known if the run ends before it."""
    with tempfile.TemporaryDirectory(prefix="kills-") as name, chdir(name):
        words = verb.prepare(Path(name), LONGEST)
        moment = random.uniform(12.0, 30.0)
        if _process(words, signal.SIGKILL, moment, own_times=True) < moment:
            return float("nan")
        killed = time.time()
        return killed - max((path.stat().st_mtime for path in Path().glob(verb.out)), default=float("nan"))


def _process(words: list[str], number: int = 0, moment: float | None = None, *, own_times: bool = False) -> float:
    """Run the program in a process of its own, sent a signal some seconds after it began; returns how long it lived."""
    child = os.fork()
    if child == 0:
        _run_and_leave(words, own_times=own_times)
    begun = time.perf_counter()
    if moment is not None:
        while (left := moment - (time.perf_counter() - begun)) > 0:
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                break
            time.sleep(min(0.002, left))
        os.kill(child, number)
    os.waitpid(child, 0)
    return time.perf_counter() - begun


def _run_and_leave(words: list[str], *, own_times: bool) -> None:
    """Run the program, with its text in the file ``printed``, and end the process."""
    status = 1
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with Path("printed").open("w", encoding="utf-8") as printed:
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
        if not own_times:
            _save_often()
        from napari_gpubio.cli import main

        status = main(words)
    except BaseException as error:  # noqa: BLE001 - the parent reads it
        sys.stderr.write(f"Traceback: {error!r}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _save_often() -> None:
    from napari_gpubio.core import keeping
    from napari_gpubio.probes.forward import work
    from napari_gpubio.tractograms.io import blocks

    keeping.EVERY_SECONDS, keeping._REST = _SAVED_EVERY, 0.0
    work._NOTE_SECONDS = work._POLL_SECONDS = _SAVED_EVERY / 4
    blocks.BLOCK = _BLOCK


def report_text(facts: dict[str, Any], rows: list[dict[str, Any]], lost: list[dict[str, Any]]) -> str:
    """The results to read."""
    columns = ("verb", "signal", "run [s]", "kills", *OUTCOMES, "leftovers")
    lines = [
        line(r["verb"], r["signal"], f"{r['seconds']:.1f}", r["kills"], *(r[o] for o in OUTCOMES), r["leftovers"])
        for r in rows
    ]
    meaning = (
        "Kills at random moments of a run; then the same command again. *Went on*: with what was kept. *Begun anew*: "
        "nothing was kept yet (`track` keeps its fibers so far at Ctrl-C, which are compared with the first of the "
        "whole run, and is run again with --force). *Was done*: the run had come to its end, and the command says that "
        "its file is there. The file has the bits of a run that was not killed in all of them. *Wrong*: anything else. "
        "*Leftovers*: other files that are there after that."
    )
    seconds = [line(one["verb"], ", ".join(f"{s:.1f}" for s in one["seconds"])) for one in lost]
    head = ["# Killed and run again", "", *header_lines(facts), "", meaning, "", *table(columns, lines), ""]
    after = "With the program's own times: seconds from the last saving to a kill 12 to 30 s after the start."
    return "\n".join([*head, after, "", *table(("verb", "seconds lost"), seconds), ""])
