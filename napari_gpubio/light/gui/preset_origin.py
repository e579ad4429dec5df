"""Recognize properties that came from presets, in a sample or in a file, so that they can follow the wavelength."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache

from napari_gpubio.light.model import Medium
from napari_gpubio.light.tissue import Composition, Preset, preset_names, preset_recipe

_Numbers = tuple[float, float, float, float]


def origins(media: Iterable[Medium], wavelength_nm: float) -> tuple[dict[int, Preset | Composition], float]:
    """Say which presets gave properties, and for which wavelength.

    They are a preset's if the numbers are, to the last digit, and the source begins with the preset's. Wavelengths
    that are looked at are those of the presets' tables and the given one.

    Returns
    -------
    recipes
        By label; only those for the wavelength.
    wavelength_nm
        What most of the recognized properties are for; the given one where none is.
    """
    found = {medium.label: dict(_origins_of(medium, wavelength_nm)) for medium in media}
    votes = Counter(nm for by_wavelength in found.values() for nm in by_wavelength)
    best = max(votes, key=lambda nm: (votes[nm], nm == wavelength_nm), default=wavelength_nm)
    return {label: by_wavelength[best] for label, by_wavelength in found.items() if best in by_wavelength}, best


def _origins_of(medium: Medium, wavelength_nm: float) -> Iterator[tuple[float, Preset | Composition]]:
    """Wavelengths and presets that give a medium; of those that give the same, its namesake comes last."""
    alike = [*_in_tables().get(_numbers(medium), ()), *_at(wavelength_nm).get(_numbers(medium), ())]
    for name, nm in sorted(alike, key=lambda one: one[0].startswith(medium.name)):
        recipe = preset_recipe(name)
        source = recipe.citation if isinstance(recipe, Preset) else recipe.source
        if source and medium.source.startswith(source):
            yield nm, recipe


@cache
def _in_tables() -> dict[_Numbers, list[tuple[str, float]]]:
    """Names and wavelengths of the rows of all tables, by their numbers."""
    found: dict[_Numbers, list[tuple[str, float]]] = {}
    for name in preset_names():
        recipe = preset_recipe(name)
        for row in recipe.rows if isinstance(recipe, Preset) else ():
            found.setdefault(row[1:5], []).append((name, row.wavelength_nm))
    return found


@cache
def _at(wavelength_nm: float) -> dict[_Numbers, list[tuple[str, float]]]:
    """Names of the presets that are known at a wavelength, by their numbers."""
    found: dict[_Numbers, list[tuple[str, float]]] = {}
    for name in preset_names(wavelength_nm):
        found.setdefault(_numbers(preset_recipe(name).medium(wavelength_nm)), []).append((name, wavelength_nm))
    return found


def _numbers(medium: Medium) -> _Numbers:
    return medium.mua_per_mm, medium.mus_per_mm, medium.g, medium.n
