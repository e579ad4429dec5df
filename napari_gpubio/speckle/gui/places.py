"""Where live maps lie, in units that go with those of the other layers.

napari draws layers with and without a unit of length pixel for unit, and warns of it at every change. Live maps whose
pixel size nobody knows therefore take the unit of the layers that are there, and say nothing else by it.
"""

from collections.abc import Mapping
from typing import Any

Place = Mapping[str, Any]
PIXELS = ("pixel", "pixel")


def place_of(layer: Any) -> dict[str, Any]:
    """Return scale, translation and units of a layer's last two axes."""
    return {name: tuple(getattr(layer, name))[-2:] for name in ("scale", "translate", "units")}


def fitting(told: Place, others: list[Any]) -> dict[str, Any]:
    """Return a place for live maps beside other layers.

    Parameters
    ----------
    told
        What the source tells: scale, translation, units of (y, x), as far as it knows them.
    others
        Layers that are not live.

    Returns
    -------
    Scale, translation and units.
    """
    units = tuple(told.get("units", PIXELS))
    known = [_units(layer) for layer in others if layer.ndim >= 2]
    lengths = [_is_length(one) for one in known]
    if all(lengths) and known and not _is_length(units):
        units = known[0]
    elif not any(lengths) and known:
        units = PIXELS
    return {"scale": (1.0, 1.0), "translate": (0.0, 0.0), **told, "units": units}


def move_to(layer: Any, place: Place) -> bool:
    """Move a layer, if it is not there already; returns whether it lies elsewhere now."""
    now = place_of(layer)
    other = [name for name in ("scale", "translate") if tuple(map(float, now[name])) != tuple(map(float, place[name]))]
    for name in other:
        setattr(layer, name, place[name])
    if tuple(map(str, now["units"])) != _names(place["units"]):
        layer.units = place["units"]
    return bool(other)


def lie_alike(one: Any, other: Any) -> bool:
    """Whether two layers have the same scale and translation."""
    first, second = place_of(one), place_of(other)
    return all(tuple(map(float, first[name])) == tuple(map(float, second[name])) for name in ("scale", "translate"))


def _units(layer: Any) -> tuple[Any, ...]:
    return tuple(layer.units)[-2:]


def _is_length(units: tuple[Any, ...]) -> bool:
    return all(name != "pixel" for name in _names(units))


def _names(units: Any) -> tuple[str, ...]:
    return tuple({"um": "micrometer"}.get(str(unit), str(unit)) for unit in units)
