"""What happens when files, disks, processes and memory fail, one command for each question.

Run from anywhere::

    python benchmarks/robustness.py mutants                   # damaged files for every reader
    python benchmarks/robustness.py mutants --help
"""

import argparse
import importlib

import common  # noqa: F401 - makes this working tree importable

# a command's module in `robustness/`, which has ``add_arguments(parser)`` and ``run(arguments)``
COMMANDS: dict[str, str] = {
    "cycles": "runs started and stopped a thousand times: do memory and threads grow",
    "dask": "a Dask worker killed in the middle of a run or a task: are the bits the same",
    "gpu_memory": "GPU memory that runs out at every allocation: does a run complete or say so, and the next one work",
    "kills": "verbs killed at random moments and run again: do they go on to the same bits",
    "live": "hours of live speckle: are drops counted, is the memory flat",
    "mutants": "every reader on damaged files: each is read, or refused in a sentence that names the file",
    "panels": "dock widgets opened and closed a hundred times: do memory, threads, and objects grow",
    "places": "full disks, read-only and vanished folders: is one sentence said and the old file whole",
    "saving": "processes killed while they save: is the old or the new file whole",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, question in COMMANDS.items():
        commands.add_parser(name, help=question, add_help=False)
    chosen, rest = parser.parse_known_args()
    module = importlib.import_module(f"robustness.{chosen.command}")  # the others may need libraries that are not here
    own = argparse.ArgumentParser(prog=f"{parser.prog} {chosen.command}", description=module.__doc__)
    module.add_arguments(own)
    module.run(own.parse_args(rest))


if __name__ == "__main__":
    main()
