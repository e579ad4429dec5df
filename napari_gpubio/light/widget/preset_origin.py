"""Recognise properties that came from presets, in a sample or in a file, so that they can follow the wavelength."""

from collections import Counter
from collections.abc import Iterable
from functools import cache

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.model import Medium
from napari_gpubio.light.tissue import Composition, Preset, preset_names, preset_recipe

_Numbers = tuple[float, float, float, float]
_Origin = tuple[Preset | Composition, float]  # and its wavelength, nm


def origins(media: Iterable[Medium], wavelength_nm: float) -> tuple[dict[int, Preset | Composition], float]:
    """Say which presets gave properties, and for which wavelength.

    They are a preset's if the numbers are, to the last digit, and the source begins with the preset's. Wavelengths
    that are looked at are those of the presets' tables and the given one.

    Returns
    -------
    recipes
        By label, those of the wavelength that most are for.
    wavelength_nm
        That wavelength; the given one where nothing is recognised.
    """
    known = _at(wavelength_nm)
    found = {medium.label: _origins_of(medium, known | _in_tables()) for medium in media}
    votes = Counter(nm for label in found for nm in {nm for _, nm in found[label]})
    best = max(votes, key=lambda nm: (votes[nm], nm == wavelength_nm), default=wavelength_nm)
    return {
        label: next(recipe for recipe, nm in ours if nm == best)
        for label, ours in found.items()
        if any(nm == best for _, nm in ours)
    }, best
