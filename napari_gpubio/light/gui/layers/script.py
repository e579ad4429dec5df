"""Copy as Python for the layered panel."""

import dataclasses
import math
from typing import Any

from napari_gpubio.gui.script import file_name
from napari_gpubio.light.gui.layers.request import Look, Request

_ALWAYS = ("photons", "thickness_mm", "n", "kind", "radius_mm")


def layered_script(request: Request, look: Look) -> str:
    """Return the script that does what a request says, for the beam that is shown.

    It writes the numbers, the curves in the unit that is shown, and an output file of MCML.
    """
    name = file_name(request.medium.name or "layers")
    endless = any(math.isinf(layer.thickness_mm) for layer in request.medium.layers)
    lines = [
        *(["import math", ""] if endless else []),
        "from napari_gpubio import light",
        "from napari_gpubio.light.layers.curves import every_curve, write_curves",
        "from napari_gpubio.light.layers.numbers import layered_rows",
        "from napari_gpubio.light.statistics import FluenceUnit",
        "from napari_gpubio.light.summary import write_csv",
        "",
        "layers = (",
        *[f"    {_call(layer)}," for layer in request.medium.layers],
        ")",
        f"medium = light.LayeredMedium({_ambient(request)})",
        f"settings = {_call(request.settings)}",
        f"traced = light.simulate_layers(medium, settings, device={request.device!r})",
        "result = traced" if look.beam is None else f"result = light.convolved(traced, {_call(look.beam)})",
        f"unit = FluenceUnit({look.unit.name!r}, {look.unit.factor!r})",
        f"write_csv({name + '.csv'!r}, layered_rows(result))",
        f"write_curves({name + ' curves.csv'!r}, every_curve(result, unit=unit))",
        f"light.write_mco({name + '.mco'!r}, traced)",
    ]
    return "\n".join(lines) + "\n"


def _ambient(request: Request) -> str:
    medium = request.medium
    return f"layers=layers, n_above={medium.n_above!r}, n_below={medium.n_below!r}, name={medium.name!r}"


def _call(value: Any) -> str:
    """The code that makes a dataclass instance: what differs from the defaults, with every digit."""
    given = [(field.name, getattr(value, field.name), field.default) for field in dataclasses.fields(value)]
    told = [f"{name}={_text(own)}" for name, own, default in given if name in _ALWAYS or own != default]
    return f"light.{type(value).__name__}({', '.join(told)})"


def _text(value: Any) -> str:
    return "math.inf" if isinstance(value, float) and math.isinf(value) else repr(value)
