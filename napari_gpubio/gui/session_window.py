"""A viewer as the state of a session, and back: its layers with what made them and how they look, and its view."""

from collections.abc import Callable, Generator, Iterable
from functools import partial
from typing import Any, NamedTuple

from napari_gpubio.core.operations.held_layers import parts_of
from napari_gpubio.core.operations.kinds import digest
from napari_gpubio.core.operations.layer_sources import LayerSource, finder_of, record_of
from napari_gpubio.core.operations.records import Output, Reading
from napari_gpubio.core.operations.runs import run_steps
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.looks import display_of, plain_values, set_each
from napari_gpubio.gui.operation_form import Source, is_edited, offers, source_shown
from napari_gpubio.gui.views import camera_of

_OURS = "napari_gpubio."
_VIEW = {"dims": ("order", "point", "ndisplay"), "camera": ("center", "zoom", "angles")}


class Taken(NamedTuple):
    """A layer as it is now: where it comes from, or what finds that out in a worker, its name, and how it looks."""

    source: Source | Callable[[], Output[Any]]
    name: str
    display: tuple[tuple[str, Any], ...]


# -- from a viewer ----------------------------------------------------------------------------------------------------


def take_layers(layers: Iterable[Any]) -> tuple[list[Taken], list[Any]]:
    """Return the layers that a session can hold, and the others but for those of panels' own classes.

    What a panel shows in such a layer comes back with its draft. What neither a file nor an operation made is held as
    it is. In the GUI thread.
    """
    taken, others = list[Taken](), list[Any]()
    for layer in layers:
        record = record_of(layer)
        source: Source | Callable[[], Output[Any]] | None = finder_of(layer) if record is None else None
        shows_record = record is not None and not is_edited(layer, record)
        if source is None and (shows_record or offers(layer, Volume)):
            source = source_shown(layer)
        if source is None and layer.__class__.__module__.startswith(_OURS):
            continue
        if source is None and (parts := parts_of(layer)) is not None:
            source = parts.output
        if source is None:
            others.append(layer)
        else:
            taken.append(Taken(source, layer.name, display_of(layer)))
    return taken, others


def view_of(viewer: Any) -> tuple[tuple[str, Any], ...]:
    """Return what a viewer looks at as names and plain values."""
    parts = {part: plain_values(target, _VIEW[part]) for part, target in _parts_of(viewer).items()}
    return tuple((f"{part}.{name}", value) for part, values in parts.items() for name, value in values.items())


def _parts_of(viewer: Any) -> dict[str, Any]:
    return {"dims": viewer.dims, "camera": camera_of(viewer)}


def shown_steps(taken: Iterable[Taken], store: Store = STORE) -> Generator[Step, None, list[Shown]]:
    """Find out what layers show, for a session; files are read and arrays looked through, which a worker does."""
    found, every = list[Shown](), [*taken]
    for number, (source, name, display) in enumerate(every):
        yield Step(number, len(every), f"looking through {name}")
        find = partial(source.output, store) if isinstance(source, LayerSource) else source
        output = find if isinstance(find, Output) else find()
        kept = store.last_result(output.of)
        if kept is None and isinstance(output.of, Reading):
            kept = "cpu", (yield from run_steps(output.of, device="cpu", store=store))
        device, checksum = ("", "") if kept is None else (kept[0] or "cpu", digest(output.value_in(kept[1])))
        found.append(Shown(output, name, device, checksum, display=display))
    return found


# -- back into a viewer -----------------------------------------------------------------------------------------------


def show_view(viewer: Any, view: Iterable[tuple[str, Any]]) -> None:
    """Let a viewer look at what it looked at when its view was saved."""
    known = dict(view)
    for part in _VIEW:
        names = {name: known[f"{part}.{name}"] for name in _VIEW[part] if f"{part}.{name}" in known}
        set_each(_parts_of(viewer)[part], names)
