"""The verb ``light`` as a shell would run it."""

import argparse

from napari_gpubio.light import cli


def parsed(*arguments: str) -> argparse.Namespace:
    """Options of the verb."""
    parser = argparse.ArgumentParser()
    cli.add_verb(parser.add_subparsers())
    return parser.parse_args(["light", *arguments])


def light(*arguments: str) -> int:
    """Run the verb; return its exit status."""
    options = parsed(*arguments)
    return options.run(options)
