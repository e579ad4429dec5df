"""What is shown and drafted at a time, with what made it; what is stale."""

from dataclasses import dataclass
from typing import Any

from napari_gpubio import __version__
from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.operations.differences import difference_in_words
from napari_gpubio.core.operations.kinds import digest
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.operations.runs import run
from napari_gpubio.core.operations.stores import STORE, Store


@dataclass(frozen=True)
class Shown:
    """What a layer carries: what it shows, what came out, and how it looks.

    Parameters
    ----------
    output
        The operation, and which of its results.
    name
        Of the layer.
    device
        What it was made on; empty before it is made.
    digest
        Checksum of all that makes the result what it is; see `napari_gpubio.core.operations.digest`.
    complete
        Whether all of it was done.
    software
        The version of the program that made it.
    display
        How it is drawn: names and plain values. It is no part of what was computed.
    """

    output: Output[Any]
    name: str
    device: str = ""
    digest: str = ""
    complete: bool = True
    software: str = __version__
    display: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class State:
    """All that a session holds.

    Parameters
    ----------
    shown
        Layers, in their order.
    drafts
        Of panels: their names, and the operations that they hold.
    view
        Names and plain values.
    """

    shown: tuple[Shown, ...] = ()
    drafts: tuple[tuple[str, Operation], ...] = ()
    view: tuple[tuple[str, Any], ...] = ()


def show(output: Operation | Output[Any], name: str, *, device: str | Device = "auto", store: Store = STORE) -> Shown:
    """Make a result, and return what a layer of it carries."""
    wanted, chosen = output if isinstance(output, Output) else output.output(), choose_device(device)
    value = run(wanted, device=chosen, store=store)
    return Shown(wanted, name, chosen.kind, digest(value), complete=getattr(value, "complete", True))


def stale(shown: Output[Any], draft: Operation) -> list[str]:
    """Why a result is not what the draft of its panel would make now: ``Step 0.5 instead of 0.25 mm``; [] if it is."""
    return difference_in_words(shown.of, draft) if type(shown.of) is type(draft) else []
