"""The verbs of light beside its operations."""

from typing import Any

from napari_gpubio.light import mcx_cli


def add_verb(verbs: Any) -> None:
    """Add them to the command line."""
    mcx_cli.add_verb(verbs)
