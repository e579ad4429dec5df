"""Optical properties of tissues, with the source of each number.

A preset gives the properties of a tissue at a wavelength; chromophores and a power law make them from a composition::

    preset("gray matter (Cassano 2019)", 810)
    head_media(690)  # scalp, skull, CSF, gray and white matter as labels 1 to 5
    Chromophores(blood_fraction=0.03, oxygen_saturation=0.7, water_fraction=0.75).mua_per_mm(800)
"""

from napari_gpubio.optics.tissue.optics import (
    Chromophores,
    Composition,
    PowerLaw,
    absorption_per_mm,
    power_law,
    power_law_names,
)
from napari_gpubio.optics.tissue.presets import (
    HEAD_LAYERS,
    HEAD_TABLES,
    Preset,
    head_media,
    head_recipes,
    media_at_wavelengths,
    preset,
    preset_names,
    preset_recipe,
)

__all__ = [
    "HEAD_LAYERS",
    "HEAD_TABLES",
    "Chromophores",
    "Composition",
    "PowerLaw",
    "Preset",
    "absorption_per_mm",
    "head_media",
    "head_recipes",
    "media_at_wavelengths",
    "power_law",
    "power_law_names",
    "preset",
    "preset_names",
    "preset_recipe",
]
