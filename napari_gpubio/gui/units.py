"""One unit along each axis of a viewer's world, since napari warns at every draw where layers have none and others do.

napari draws a pixel as a unit either way. Whoever needs the units of a layer itself asks
`napari_gpubio.core.napari_io.own_units`.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from napari_gpubio.core.napari_io import is_length, lend_units, own_units
from napari_gpubio.gui.connections import Connections


class SharedUnits:
    """Shows layers without a unit along an axis in that of the others, for as long as these are there."""

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer
        self._is_lending = False
        self._units = Connections(lambda: [(layer.events.units, self._share) for layer in viewer.layers], self._share)
        changes, dims = viewer.layers.events, viewer.dims.events
        self._list = Connections(
            lambda: [
                (dims.units, self._on_list),  # which tells of a new layer before napari draws it, and would warn
                (changes.inserted, self._on_list),
                (changes.removed, self._on_removed),
            ]
        )
        self._list.attach()
        self._units.attach()

    def cancel(self) -> None:
        """Change nothing any more."""
        with suppress(ReferenceError):  # the viewer is gone
            self._list.detach()
            self._units.detach()

    def _on_list(self, *_: Any) -> None:
        if not self._is_lending:
            self._units.attach()

    def _on_removed(self, event: Any) -> None:
        self._units.attach()
        lend_units(event.value, own_units(event.value))

    def _share(self, *_: Any) -> None:
        if self._is_lending:
            return
        layers = list(self._viewer.layers)
        shared = _shared([own_units(layer) for layer in layers])
        self._is_lending = True
        try:
            for layer in layers:
                axes = zip(own_units(layer), shared[-layer.ndim :], strict=True)
                lend_units(layer, [one if _are_alike(one, other) else other for one, other in axes])
        finally:
            self._is_lending = False


def _shared(units: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return a unit for each axis of the world: a length where a layer has one there, millimeters before others."""
    shared = []
    for axis in range(max(map(len, units), default=0), 0, -1):
        there = [one[-axis] for one in units if len(one) >= axis]
        shared.append(min(there, key=_rank))
    return shared


def _rank(unit: Any) -> int:
    """The place of a unit among those of which an axis takes the first."""
    if is_length(unit):
        return 0 if str(unit) == "millimeter" else 1
    return 3 if str(unit) == "pixel" else 2


def _are_alike(one: Any, other: Any) -> bool:
    return bool(one.dimensionality == other.dimensionality)
