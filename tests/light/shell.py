"""The verb ``light`` as a shell would run it."""

import argparse

from napari_gpubio.cli import make_parser
from tests.shell import run_verb


def parsed(*arguments: str) -> argparse.Namespace:
    """Options of the verb."""
    return make_parser().parse_args(["light", *arguments])


def light(*arguments: str) -> int:
    """Run the verb; return its exit status."""
    return run_verb("light", *arguments)
