"""Copy as Python of a dissection: the fibers, their regions and the condition, as they are on screen."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.napari_io import carried
from napari_gpubio.tracts.gui.dissection.rules import AND, NUMBER, Rule
from napari_gpubio.tracts.gui.region_script import ChosenRegion, region_code
from napari_gpubio.tracts.gui.script import checked, fiber_lines, script_text

_CALLS = {
    "through": "through({})",
    "not_through": "~through({})",
    "ends": "ends_in({})",
    "not_ends": "~ends_in({})",
    "both_ends": 'ends_in({}, ends="both")',
}


def dissection_script(
    layer: Any,
    layers: Sequence[Any],
    regions: Mapping[Rule, ChosenRegion | None],
    saved: Mapping[str, Path],
    device: str,
) -> str:
    """Return a script that shows the fibers of a layer as the rules leave them.

    Parameters
    ----------
    layer, layers
        The layer of fibers, and all layers of its viewer.
    regions
        The rules, each with its region.
    saved
        Files of layers that `save_regions` wrote, by their names.
    device
        The device, as the API takes it.
    """
    recipe = carried(layer, "recipe") or ()
    body = [*checked(recipe), *([""] if recipe else []), *fiber_lines(layer, layers, filtered=not regions)]
    if regions:
        body += ["from napari_gpubio.tracts.dissection import dissect, ends_in, number, through", ""]
        body += [f"region_{n} = {region_code(chosen, saved)}"
                 for n, chosen in enumerate(regions.values(), 1) if chosen is not None]  # fmt: skip
        body += [f"condition = {_condition_code(list(regions))}"]
        body += [f"layer.shown = dissect(fibers, condition, device={device!r})"]
    return script_text(body, {})


def _condition_code(rules: Sequence[Rule]) -> str:
    """The expression of all rules; "&" binds closer than "|" in Python, too."""
    text = ""
    for n, rule in enumerate(rules, 1):
        if rule.role == NUMBER:
            part = f"number({rule.measure!r}, {rule.low!r}, {rule.high!r})"
        else:
            part = _CALLS[rule.role].format(f"region_{n}")
        text += part if n == 1 else f"{' & ' if rule.joiner == AND else ' | '}{part}"
    return text
