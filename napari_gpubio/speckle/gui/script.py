"""Copy as Python: a script from the file of the frames to the files of the maps."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tifffile

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.reading import noted
from napari_gpubio.gui.script import call_text, file_name
from napari_gpubio.speckle.gui.layers import frames_of
from napari_gpubio.speckle.gui.request import Recipe, Request
from napari_gpubio.speckle.gui.results import fitted_maps
from napari_gpubio.speckle.io import read_frames, write_regions
from napari_gpubio.speckle.mesi import MesiRecipe
from napari_gpubio.speckle.pulsatility import PulsatilitySettings
from napari_gpubio.speckle.settings import ContrastSettings

MOST_COMPARED = 256 << 20  # bytes; of a longer recording only some frames are compared
_COMPARED_FRAMES = 64


def file_of(layer: Any) -> Path | None:
    """Return the file that holds the frames of a layer, or None.

    All frames are compared; of a recording that is too large to be read at a click, 64 from first to last.
    """
    known = carried(layer, "path") or layer.source.path
    if known is None or not Path(known).is_file():
        return None
    try:
        with noted():  # they were shown when the layer was read
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


def save_regions(regions: Mapping[str, Any], name: str, folder: Path) -> Path:
    """Write the pixels of regions as TIFF into a folder; returns the path."""
    path = folder / f"{file_name(name)}.tif"
    write_regions(path, regions)
    return path


def script_text(
    request: Request,
    paths: Mapping[str, Path],
    *,
    regions: Path | None = None,
    pulsatility: PulsatilitySettings | None = None,
) -> str:
    """Return a script that makes the same maps, and writes them.

    ``paths`` are those of the frames, and of dark frames and a static target if there are any, by the names of their
    layers; ``regions`` is the file of the regions whose curves and beat are written, too, as ``pulsatility`` says.
    """
    recipe, settings, more = request.recipe, request.recipe.settings, f", device={request.recipe.device!r}"
    lines = ["from napari_gpubio import speckle", "", f"frames = {_read(paths[request.name])}"]
    if request.registers:
        lines += ["registered = speckle.register(frames)", "frames = registered.frames"]
    if noise := _noise(recipe, paths):
        lines.append(f"noise = {noise}")
        more = ", noise=noise" + more
    lines.append(f"settings = {call_text('speckle', settings)}")
    if settings.index == "relative":
        part = f"[:{request.baseline_frames}]" if request.is_stack else ""
        lines.append(f"baseline = speckle.baseline_k2(frames{part}, settings{more})")
        more = ", baseline=baseline" + more
    lines.append(f"maps = speckle.contrast(frames, settings{more})")
    if request.registers:
        lines.append("registered.clear_outside(maps)")
    if recipe.mesi is None:
        lines += _map_lines(settings, file_name(request.name))
        if regions is not None:
            lines += _region_lines(request, regions, pulsatility or PulsatilitySettings())
    else:
        lines += _fit_lines(request, recipe.mesi, paths, more)
    return "\n".join(lines) + "\n"


def _map_lines(settings: ContrastSettings, name: str) -> list[str]:
    lines = [f"speckle.io.write_maps({f'contrast of {name}.tif'!r}, maps)"]
    if settings.index != "none":
        lines.append(f"speckle.io.write_maps({f'{settings.index} of {name}.tif'!r}, maps, 'index')")
    if settings.mask:
        lines.append(f"speckle.io.write_maps({f'mask of {name}.tif'!r}, maps, 'mask')")
    return lines


def _region_lines(request: Request, path: Path, pulsatility: PulsatilitySettings) -> list[str]:
    name, rate = file_name(request.name), float(request.rate_hz)
    return [
        "",
        f"regions = speckle.io.read_regions({str(path)!r}, maps.contrast.shape[-2:])",
        "curves = speckle.region_curves(maps, regions)",
        f"speckle.io.write_curves_csv({f'curves of {name}.csv'!r}, curves, curves[0].times_s({rate!r}))",
        f"settings = {call_text('speckle.pulsatility', pulsatility)}",
        f"pulses = [speckle.pulsatility.region_pulsatility(curve, {rate!r}, settings) for curve in curves]",
        f"speckle.io.write_pulsatility_csv({f'pulsatility of {name}.csv'!r}, pulses)",
        "for pulse in pulses:",
        "    print(pulse.summary)",
    ]


def _fit_lines(request: Request, mesi: MesiRecipe, paths: Mapping[str, Path], more: str) -> list[str]:
    name, several = file_name(request.name), mesi.repeats(int(request.frames.shape[0])) > 1
    order = f", order={mesi.order!r}" if several else ""
    lines, fit, target = [], call_text("speckle.mesi", mesi.settings), request.recipe.target
    if target is not None:
        region = "" if target.region is None else f", region={_read(paths[target.region_name])} > 0"
        lines.append(f"target = speckle.mesi.measure_beta({_read(paths[target.name])}, settings{more}{region})")
        fit = f"target.applied_to({fit})"
    return [
        *lines,
        f"mesi = speckle.mesi.MesiRecipe(exposures_ms={mesi.exposures_ms!r}{order}, settings={fit})",
        "contrast = speckle.mesi.exposure_contrast(maps, mesi)",
        "fitted = speckle.mesi.fit_mesi(contrast, mesi.exposures_ms, mesi.settings)",
        "print(*fitted.notes, sep='\\n')",
        *(
            f"speckle.mesi.write_fit({f'mesi {one.part} of {name}.tif'!r}, fitted, {one.part!r})"
            for one in fitted_maps(request.recipe)
        ),
    ]


def _noise(recipe: Recipe, paths: Mapping[str, Path]) -> str:
    noise = recipe.noise
    if recipe.dark:
        gain = f", gain={noise.gain!r}" if noise.gain else ""
        return f"speckle.measure_dark({_read(paths[recipe.dark])}{gain})"
    return call_text("speckle", noise) if noise.has_dark or noise.has_noise else ""


def _read(path: Path) -> str:
    return f"speckle.io.read_frames({str(path)!r})"
