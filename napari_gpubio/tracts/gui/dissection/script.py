"""Copy as Python of a dissection: the fibers, their regions and the condition, as they are on screen."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Labels, Shapes

from napari_gpubio.core.napari_io import carried, save_layer, saved_path
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.gui.script import file_name
from napari_gpubio.tracts.gui.dissection.rules import AND, NUMBER, Rule
from napari_gpubio.tracts.gui.script import checked, fiber_lines, script_text
from napari_gpubio.tracts.io.dwi import read_volume
from napari_gpubio.tracts.regions import AnyRegion, Region, Sphere

_CALLS = {
    "through": "through({})",
    "not_through": "~through({})",
    "ends": "ends_in({})",
    "not_ends": "~ends_in({})",
    "both_ends": 'ends_in({}, ends="both")',
}


def unsaved_regions(rules: Sequence[Rule]) -> list[Any]:
    """Return the layers of regions that no file holds: labels that were painted, and shapes."""
    layers = {rule.layer.name: rule.layer for rule in rules if rule.layer is not None}
    return [
        layer
        for layer in layers.values()
        if isinstance(layer, Shapes) or (isinstance(layer, Labels) and saved_path(layer, read_volume) is None)
    ]


def save_regions(layer: Any, regions: Mapping[Rule, AnyRegion], folder: Path) -> Path:
    """Write a layer of regions into a folder as NIfTI, shapes one file for each; return the path of one of them."""
    if isinstance(layer, Labels):
        return save_layer(layer, folder)
    paths = []
    for rule, region in regions.items():
        if rule.layer == layer and isinstance(region, Region):
            paths.append(folder / _shape_file(rule))
            write_volume(paths[-1], region.voxels.astype(np.uint8), region.affine)
    return paths[0]


def dissection_script(
    layer: Any, layers: Sequence[Any], regions: Mapping[Rule, AnyRegion | None], saved: Mapping[str, Path], device: str
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
        body += [f"region_{n} = {_region_code(rule, region, saved)}"
                 for n, (rule, region) in enumerate(regions.items(), 1) if region is not None]  # fmt: skip
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


def _region_code(rule: Rule, region: AnyRegion, saved: Mapping[str, Path]) -> str:
    if isinstance(region, Sphere):
        center = tuple(float(part) for part in region.center_mm)
        return f"tracts.regions.Sphere(name={region.name!r}, center_mm={center!r}, radius_mm={region.radius_mm!r})"
    layer = rule.layer
    if isinstance(layer, Shapes):
        return f"tracts.io.read_atlas({str(saved[layer.name].parent / _shape_file(rule))!r}).region(1)"
    path = saved_path(layer, read_volume) or saved[getattr(layer, "name", "")]
    return f"tracts.io.read_atlas({str(path)!r}).region({rule.key!r})"


def _shape_file(rule: Rule) -> str:
    """Name of a file for the shapes of a rule."""
    return f"{file_name(f'{rule.layer.name} {rule.key}' if rule.layer is not None else str(rule.key))}.nii.gz"
