"""Verbs of the command line as a shell runs them."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from napari_gpubio.cli import make_parser
from napari_gpubio.core.report import reporting


def run_verb(*words: object) -> int:
    """Run a verb in this process; returns its exit status, and raises what the program would tell as an error."""
    options = make_parser().parse_args([str(word) for word in words])
    with reporting(options):
        return int(options.run(options) or 0)


def program(folder: Path, *words: object, **environment: str) -> "subprocess.CompletedProcess[bytes]":
    """Run the program in a folder, in a process of its own, with variables of its environment."""
    return subprocess.run(command(*words), **at(folder, **environment), capture_output=True, check=False, timeout=120)


def command(*words: object) -> list[str]:
    """Return the command line of the program."""
    return [sys.executable, "-m", "napari_gpubio.cli", *map(str, words)]


def at(folder: Path, **environment: str) -> dict[str, Any]:
    """Return keywords of `subprocess.run` for a folder and an environment."""
    return {"cwd": folder, "env": {**os.environ, **environment}}
