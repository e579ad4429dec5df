"""Copy as Python of denoised scans: the lines that denoise, and those that show the layers of it."""

from collections.abc import Iterable, Sequence
from typing import Any

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.gui.script import call_text
from napari_gpubio.tracts.gui.source import display_lines
from napari_gpubio.tracts.noise.settings import NoiseSettings


def denoising_recipe(scan: tuple[str, ...] | str, settings: NoiseSettings, device: str) -> tuple[str, ...] | str:
    """Return the lines that make ``scan`` without its noise, after those that make it, or their sentence."""
    if isinstance(scan, str):
        return scan
    options = f"settings={call_text('tracts.noise', settings)}, device={device!r}"
    return (*scan, "raw = scan", f"denoised = tracts.noise.denoise_scan(raw, {options})", "scan = denoised.scan")


def shown_recipe(recipe: Sequence[str], rest: list[Any]) -> list[str]:
    """Return the lines of a recipe, and where it denoises, those that show the layers of that.

    ``rest``: the layers that are not shown yet, from which those are removed.
    """
    lines = list[str]()
    for end, line in enumerate(recipe, 1):
        lines.append(line)
        made = [layer for layer in rest if _recipe_of(layer) == tuple(recipe[:end])]
        lines += _denoised_lines(made)
        rest[:] = [layer for layer in rest if layer not in made]
    return lines


def rest_lines(rest: list[Any]) -> list[str]:
    """Return the lines that make and show the layers of denoising that no recipe has shown."""
    lines = list[str]()
    while left := [layer for layer in rest if _recipe_of(layer)]:
        recipe = max(map(_recipe_of, left), key=len)  # a scan that was denoised twice is denoised once on the way
        if isinstance(recipe, str):
            raise InvalidInput(recipe)
        lines += [*shown_recipe(recipe, rest), ""]
    return lines


def _recipe_of(layer: Any) -> Any:
    """The lines that make the layer of a denoised scan, or a sentence; empty for others."""
    return carried(layer, "scan_recipe") or ()


def _denoised_lines(layers: Iterable[Any]) -> list[str]:
    lines = list[str]()
    for layer in layers:
        part, study, usual = (carried(layer, what) for what in ("part", "study", "shown_at_first"))
        lines.append(f"data, keywords, _ = denoised_layer(denoised, raw, {part!r}, {study!r})")
        lines += ["layer = viewer.add_image(data, **keywords)", *display_lines(layer, usual)]
    return lines
