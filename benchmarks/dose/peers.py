"""dicompyler-core beside ours, in this interpreter or in another one that has it."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

_SCRIPT = Path(__file__).with_name("dicompyler_run.py")
Task = tuple[Path, Path, int]  # RTSTRUCT, RTDOSE, number of the structure


class Answers(NamedTuple):
    """What dicompyler-core found."""

    version: str  # of it, or why there is none
    found: list[dict[str, Any]]  # one for each task; empty where it is not there


def missing(python: str | None) -> str | None:
    """Why dicompyler-core is not there, or None if it may be."""
    if python is None and importlib.util.find_spec("dicompylercore") is None:
        return "dicompyler-core is not installed here; give --dicompyler PYTHON of where it is"
    return None


def ask_dicompyler(tasks: list[Task], python: str | None = None) -> Answers:
    """Let dicompyler-core make histograms, in an interpreter that has it; None: this one."""
    if (why := missing(python)) is not None:
        return Answers(why, [])
    jobs = json.dumps([[str(rtss), str(rtdose), number] for rtss, rtdose, number in tasks])
    done = subprocess.run([python or sys.executable, str(_SCRIPT)], input=jobs, capture_output=True, text=True)
    if done.returncode:
        return Answers(f"dicompyler-core failed: {(done.stderr.strip().splitlines() or ['?'])[-1]}", [])
    answers = json.loads(done.stdout[done.stdout.index('{"version"') :])
    return Answers(f"dicompyler-core {answers['version']}", answers["found"])
