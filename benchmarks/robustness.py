"""What happens when files, disks, processes and memory fail, one command for each question.

Run from anywhere::

    python benchmarks/robustness.py --help
"""

import argparse
import importlib

import common  # noqa: F401 - makes this working tree importable

# a command's module in `robustness/`, which has ``add_arguments(parser)`` and ``run(arguments)``
COMMANDS: dict[str, str] = {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, question in COMMANDS.items():
        module = importlib.import_module(f"robustness.{name}")
        command = commands.add_parser(name, help=question, description=module.__doc__)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
