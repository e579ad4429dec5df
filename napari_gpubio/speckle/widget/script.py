"""Copy as Python: from the file of the frames to the files of the maps."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.speckle.io import read_frames
from napari_gpubio.speckle.noise import NoiseModel
from napari_gpubio.speckle.widget.offline import Request
from napari_gpubio.speckle.widget.source_pages import frames_of
from napari_gpubio.viewer.script import call_text, file_name


def file_of(layer: Any) -> Path | None:
    """Return the file that holds the frames of a layer, or None.

    Its size, type and first and last frame are compared: a recording may be too large to be read twice.
    """
    known = layer.source.path
    if known is None or not Path(known).is_file():
        return None
    try:
        stored = read_frames(Path(known))
    except InvalidInput:
        return None
    frames = frames_of(layer)
    if stored.shape != tuple(frames.shape) or stored.dtype != frames.dtype:
        return None
    same = all(np.array_equal(stored[place], np.asarray(frames[place])) for place in (0, -1))
    return Path(known) if same else None


def save(layer: Any, folder: Path) -> Path:
    """Write the frames of a layer as TIFF into a folder; returns the path."""
    path = folder / f"{file_name(layer.name)}.tif"
    with atomic_write(path) as part:
        tifffile.imwrite(part, np.asarray(frames_of(layer)), photometric="minisblack")
    return path


def script_text(request: Request, path: Path) -> str:
    """Return a script that makes the same maps, and writes them.

    Parameters
    ----------
    request
        What is run.
    path
        Of the frames.
    """
    recipe, name = request.recipe, file_name(request.name)
    lines = ["from napari_gpubio import speckle", "", f"frames = speckle.read_frames({str(path)!r})"]
    if recipe.registers:
        lines += ["registered = speckle.register(frames)", "frames = registered.frames"]
    settings = recipe.settings
    lines.append(f"settings = {call_text('speckle', settings)}")
    more = _noise(recipe.noise)
    if settings.index == "relative":
        squared = call_text("speckle", dataclasses.replace(settings, index="squared"))
        part = "" if len(request.frames.shape) == 2 else f"[:{request.baseline_frames}]"
        lines.append(f"first = speckle.contrast(frames{part}, {squared}{more}, {_device(request)})")
        lines.append("k2 = first.squared.reshape(-1, *first.squared.shape[-2:])")
        lines.append("baseline = np.ma.masked_invalid(k2.astype(float)).mean(axis=0).filled(np.nan)")
        lines.insert(0, "import numpy as np\n")
        more += ", baseline=baseline"
    lines.append(f"maps = speckle.contrast(frames, settings{more}, {_device(request)})")
    if recipe.registers:
        lines.append("registered.clear_outside(maps)")
    lines.append(f"speckle.write_maps({f'contrast of {name}.tif'!r}, maps)")
    if settings.index != "none":
        lines.append(f"speckle.write_maps({f'{settings.index} of {name}.tif'!r}, maps, 'index')")
    return "\n".join(lines) + "\n"


def _device(request: Request) -> str:
    return f"device={request.recipe.device!r}"


def _noise(noise: NoiseModel) -> str:
    return f", noise={call_text('speckle', noise)}" if noise.has_dark or noise.has_noise else ""
