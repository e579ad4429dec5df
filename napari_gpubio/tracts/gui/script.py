"""Copy as Python for the tracking panel."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.script import call_text, file_name, points_text
from napari_gpubio.tracts.model import DiffusionScan

if TYPE_CHECKING:
    from napari_gpubio.tracts.gui.request import Request


def tracking_script(request: "Request", layer: Any, labels_path: Path | None) -> str:
    """Return a script that repeats a request.

    Parameters
    ----------
    request
        What to do.
    layer
        The layer that the tensors or the scan came with.
    labels_path
        File of the label region, if there is one.

    Raises
    ------
    InvalidInput
        If the tensors do not come from a file.
    """
    lines = ["from napari_gpubio import tracts", ""]
    lines += source_lines(request.source, layer)
    if request.region is not None:
        lines += [
            f"labels, affine = tracts.io.read_volume({str(labels_path)!r})",
            f"seeds = tracts.seeds.label_points(labels, affine, {request.region.label})",
        ]
    elif request.seeds.points > 1 and request.seeds.radius_mm > 0:
        center = points_text(request.center_mm)[1:-1]
        lines.append(f"seeds = tracts.seeds.ball({center}, {request.seeds.radius_mm!r}, {request.seeds.points})")
    else:
        lines.append(f"seeds = {points_text(request.center_mm)}")
    lines += [
        f"directions = {call_text('tracts', request.directions)}",
        f"settings = {call_text('tracts', request.settings)}",
        f"fibers = tracts.track(field, seeds, directions, settings, device={request.device!r})",
        f"fibers.save({file_name(request.name) + '.trk'!r})",
    ]
    return "\n".join(lines) + "\n"


def source_lines(source: Any, layer: Any) -> list[str]:
    """Lines that make ``field`` from the file the layer came from."""
    path = source.path
    if path is None:
        raise InvalidInput(
            f"the tensors of layer {layer.name!r} do not come from a file, so a script cannot find them; "
            "save the scan or the tensors and open the file"
        )
    recipe = layer.metadata.get("napari_gpubio", {}).get("recipe")
    if isinstance(recipe, str):
        raise InvalidInput(recipe)
    if recipe:
        return list(recipe)
    if isinstance(source, DiffusionScan):
        return [f"scan = tracts.io.read_dwi({str(path)!r})", "field = tracts.fit_tensors(scan)"]
    return [f"field = tracts.io.read_tensors({str(path)!r})"]
