"""The verbs of light beside its operations."""

from typing import Any

from napari_gpubio.core.operations.commands import add_verb as add_operation
from napari_gpubio.light.forward import cli as forward
from napari_gpubio.light.operations import Replay, RunMci, Trace


def add_verb(verbs: Any) -> None:
    """Add them to the command line."""
    for operation in (Replay, Trace, RunMci):
        add_operation(verbs, operation)
    forward.add_verb(verbs)
