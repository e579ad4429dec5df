"""Copy as Python of regions: the lines that make the regions that a panel uses, and files of those that have none."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from napari.layers import Image, Labels, Shapes

from napari_gpubio.core.napari_io import carried, save_layer, saved_path
from napari_gpubio.core.operations.records import Output
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.gui.script import file_name
from napari_gpubio.tracts.io.dwi import read_volume
from napari_gpubio.tracts.operations.sources import region_source
from napari_gpubio.tracts.regions import AnyRegion, Region, Sphere


@dataclass(frozen=True, slots=True, eq=False)
class ChosenRegion:
    """A region that a panel uses, and where it is from: a layer, and which of its regions."""

    layer: Any
    key: int | str
    region: AnyRegion

    def output(self) -> Output[Any]:
        """Return the operation that makes it: of its numbers, a label of a file, or its voxels, which are copied."""
        path = carried(self.layer, "path") or self.layer.source.path
        return region_source(self.region, Path(path) if path else None, self.key)

    @property
    def file_name(self) -> str:
        """Name of a file for a shape, which is written as a volume of its own."""
        return f"{file_name(f'{self.layer.name} {self.key}')}.nii.gz"


def unsaved_regions(layers: Iterable[Any]) -> list[Any]:
    """Return the layers of regions that no file holds: labels that were painted, and shapes."""
    return [
        layer
        for layer in {layer.name: layer for layer in layers}.values()
        if isinstance(layer, Shapes) or (isinstance(layer, Labels | Image) and saved_path(layer, read_volume) is None)
    ]


def save_regions(layer: Any, chosen: Iterable[ChosenRegion], folder: Path) -> Path:
    """Write a layer of regions into a folder as NIfTI, shapes one file for each; return the path of one of them."""
    if isinstance(layer, Labels | Image):
        return save_layer(layer, folder)
    paths = []
    for one in chosen:
        if one.layer == layer and isinstance(one.region, Region):
            paths.append(folder / one.file_name)
            write_volume(paths[-1], one.region.voxels.astype(np.uint8), one.region.affine)
    return paths[0]


def region_code(chosen: ChosenRegion, saved: Mapping[str, Path]) -> str:
    """Return the expression that makes a region; ``saved``: files that `save_regions` wrote, by names of layers."""
    layer, region = chosen.layer, chosen.region
    if isinstance(region, Sphere):
        center = tuple(float(part) for part in region.center_mm)
        return f"tracts.regions.Sphere(name={region.name!r}, center_mm={center!r}, radius_mm={region.radius_mm!r})"
    if isinstance(layer, Shapes):
        return f"tracts.io.read_atlas({str(saved[layer.name].parent / chosen.file_name)!r}).region(1)"
    path = saved_path(layer, read_volume) or saved[layer.name]
    return f"tracts.io.read_atlas({str(path)!r}).region({chosen.key!r})"
