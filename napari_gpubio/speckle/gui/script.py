"""Copy as Python: a script from the file of the frames to the files of the maps."""

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.gui.script import call_text, file_name
from napari_gpubio.speckle.gui.layers import frames_of
from napari_gpubio.speckle.gui.request import Request
from napari_gpubio.speckle.gui.results import fitted_maps
from napari_gpubio.speckle.io import read_frames
from napari_gpubio.speckle.mesi import MesiRecipe

Paths = Mapping[str, Path]
MOST_COMPARED = 256 << 20  # bytes; of a longer recording only some frames are compared
_COMPARED_FRAMES = 64


def file_of(layer: Any) -> Path | None:
    """Return the file that holds the frames of a layer, or None.

    All frames are compared; of a recording that is too large to be read at a click, 64 from first to last.
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
    same = all(np.array_equal(stored[place], np.asarray(frames[place])) for place in _compared(stored))
    return Path(known) if same else None


def _compared(stored: Any) -> Iterator[Any]:
    """The frames that are compared."""
    count = len(stored)
    if stored.ndim == 2:
        yield slice(None)
    elif stored.nbytes <= MOST_COMPARED or count <= _COMPARED_FRAMES:
        yield from range(count)
    else:
        yield from (int(place) for place in np.linspace(0, count - 1, _COMPARED_FRAMES).round())


def save(layer: Any, folder: Path) -> Path:
    """Write the frames of a layer as TIFF into a folder; returns the path."""
    path = folder / f"{file_name(layer.name)}.tif"
    with atomic_write(path) as part:
        tifffile.imwrite(part, np.asarray(frames_of(layer)), photometric="minisblack")
    return path


def script_text(request: Request, paths: Paths) -> str:
    """Return a script that makes the same maps, and writes them.

    Parameters
    ----------
    request
        The run.
    paths
        Of the frames, and of the dark frames if there are any, by the names of their layers.
    """
    recipe = request.recipe
    lines = [f"frames = speckle.io.read_frames({str(paths[request.name])!r})"]
    if recipe.registers and len(request.frames.shape) == 3:
        lines += ["registered = speckle.register(frames)", "frames = registered.frames"]
    more = ""
    if noise := _noise(request, paths):
        lines.append(f"noise = {noise}")
        more = ", noise=noise"
    if recipe.mesi is None:
        lines += _contrast_lines(request, more)
    else:
        lines += _mesi_lines(request, recipe.mesi, more)
    heads = ["from napari_gpubio import speckle", ""]
    if third := [f"import {name}" for name, short in _IMPORTS.items() if any(short in line for line in lines)]:
        heads = [*third, "", *heads]
    return "\n".join(heads + lines) + "\n"


_IMPORTS = {"numpy as np": "np.", "tifffile": "tifffile."}


def _contrast_lines(request: Request, more: str) -> list[str]:
    settings, name, device = request.recipe.settings, file_name(request.name), _device(request)
    lines = [f"settings = {call_text('speckle', settings)}"]
    if settings.index == "relative":
        squared = call_text("speckle", dataclasses.replace(settings, index="squared"))
        part = "" if len(request.frames.shape) == 2 else f"[:{request.baseline_frames}]"
        lines.append(f"first = speckle.contrast(frames{part}, {squared}{more}, {device})")
        lines.append("k2 = first.squared.reshape(-1, *first.squared.shape[-2:])")
        lines.append("baseline = np.ma.masked_invalid(k2.astype(float)).mean(axis=0).filled(np.nan)")
        more += ", baseline=baseline"
    lines.append(f"maps = speckle.contrast(frames, settings{more}, {device})")
    lines += _clear_lines(request)
    lines.append(f"speckle.io.write_maps({f'contrast of {name}.tif'!r}, maps)")
    if settings.index != "none":
        lines.append(f"speckle.io.write_maps({f'{settings.index} of {name}.tif'!r}, maps, 'index')")
    if settings.mask:
        lines.append(f"speckle.io.write_maps({f'mask of {name}.tif'!r}, maps, 'mask')")
    return lines


def _mesi_lines(request: Request, mesi: MesiRecipe, more: str) -> list[str]:
    settings, name = request.recipe.settings, file_name(request.name)
    several = f", order={mesi.order!r}" if mesi.repeats(int(request.frames.shape[0])) > 1 else ""
    fit = call_text("speckle.mesi", mesi.settings)
    lines = [
        f"settings = {call_text('speckle', settings)}",
        f"maps = speckle.contrast(frames, settings{more}, {_device(request)})",
        *_clear_lines(request),
        f"mesi = speckle.mesi.MesiRecipe(exposures_ms={mesi.exposures_ms!r}{several}, settings={fit})",
        "contrast = speckle.mesi.exposure_contrast(maps, mesi)",
        "fitted = speckle.mesi.fit_mesi(contrast, mesi.exposures_ms, mesi.settings)",
    ]
    lines += [
        f"tifffile.imwrite({f'mesi {one.part} of {name}.tif'!r}, fitted.{one.part}, photometric='minisblack')"
        for one in fitted_maps(mesi)
    ]
    return lines


def _clear_lines(request: Request) -> list[str]:
    is_moved = request.recipe.registers and len(request.frames.shape) == 3
    return ["registered.clear_outside(maps)"] if is_moved else []


def _device(request: Request) -> str:
    return f"device={request.recipe.device!r}"


def _noise(request: Request, paths: Paths) -> str:
    noise, dark = request.recipe.noise, request.recipe.dark
    if dark:
        gain = f", gain={noise.gain!r}" if noise.gain else ""
        return f"speckle.measure_dark(speckle.io.read_frames({str(paths[dark])!r}){gain})"
    return call_text("speckle", noise) if noise.has_dark or noise.has_noise else ""
