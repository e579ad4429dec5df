"""Media in layers from the literature, each with the grid that suits it and its citation.

>>> skin = preset("seven-layer skin at 600 nm")
>>> len(skin.medium.layers), skin.settings.dz_mm
(7, 0.02)
"""

import dataclasses
import math
from dataclasses import dataclass
from functools import cache

from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.optics.model import Layer
from napari_gpubio.optics.tissue import HEAD_LAYERS, Preset, head_media, preset_recipe
from napari_gpubio.optics.tissue.optics import entry_named

ENDLESS_MM = math.inf
HEAD_TABLE, HEAD_NM = "Cassano 2019", 810.0
HEAD_THICKNESSES_MM = (6.9, 6.0, 2.0, 2.5, math.inf)  # in the order of HEAD_LAYERS
_HEAD_ANATOMY = (
    "thickness of scalp and skull: means of the Colin27 template, G. E. Strangman et al., NeuroImage 85:136 (2014); "
    "of the CSF: the slab in MCX's example after A. Custo et al., Appl. Opt. 45:4747 (2006); of the gray matter: mean "
    "of B. Fischl and A. M. Dale, PNAS 97:11050 (2000)"
)


def slab(mua_per_mm: float, mus_per_mm: float, g: float, n: float, thickness_mm: float) -> LayeredMedium:
    """Make a medium of one layer in air."""
    layer = Layer(n=n, mua_per_mm=mua_per_mm, mus_per_mm=mus_per_mm, g=g, thickness_mm=thickness_mm)
    return LayeredMedium(layers=(layer,))


VAN_DE_HULST = slab(1.0, 9.0, 0.75, 1.0, 0.2)
INTRALIPID = slab(0.0015, 70.77, 0.87, 1.33, ENDLESS_MM)  # 10 % at 460 nm
SKIN = LayeredMedium(  # Meglinski & Matcher 2001, 600 nm
    name="seven-layer skin",
    layers=tuple(
        Layer(name=name, n=n, mua_per_mm=mua, mus_per_mm=mus, g=g, thickness_mm=thickness)
        for name, n, mua, mus, g, thickness in (
            ("stratum corneum", 1.53, 0.02, 100.0, 0.9, 0.02),
            ("living epidermis", 1.34, 0.015, 40.0, 0.85, 0.08),
            ("papillary dermis", 1.4, 0.07, 30.0, 0.8, 0.1),
            ("upper blood net dermis", 1.39, 0.1, 35.0, 0.9, 0.08),
            ("dermis", 1.4, 0.07, 20.0, 0.76, 1.62),
            ("deep blood net dermis", 1.39, 0.1, 35.0, 0.95, 0.2),
            ("subcutaneous fat", 1.44, 0.03, 15.0, 0.8, 5.9),
        )
    ),
)


@dataclass(frozen=True, kw_only=True)
class LayeredPreset:
    """Layers, ready to be simulated.

    Parameters
    ----------
    name
        What they are.
    medium
        The layers.
    settings
        A grid that suits them, and a number of photons.
    citation
        Where the numbers come from.
    """

    name: str
    medium: LayeredMedium
    settings: LayeredSettings
    citation: str


def preset_names() -> tuple[str, ...]:
    """Names of all presets."""
    return tuple(_presets())


def preset(name: str) -> LayeredPreset:
    """Return a preset.

    Raises
    ------
    InvalidInput
        If there is none of that name.
    """
    return entry_named(_presets(), name, "preset")


@cache
def _presets() -> dict[str, LayeredPreset]:
    presets = (
        _skin(),
        _intralipid("semi-infinite", math.inf),
        _intralipid("1 cm slab", 10.0),
        _head(),
        _van_de_hulst(),
    )
    return {preset.name: preset for preset in presets}


def _skin() -> LayeredPreset:
    settings = LayeredSettings(dr_mm=0.1, dz_mm=0.02, radial_bins=200, depth_bins=500, angle_bins=30)
    return _preset("seven-layer skin at 600 nm", SKIN, settings, _citation("dermis (Meglinski 2001)"))


def _intralipid(shape: str, thickness_mm: float) -> LayeredPreset:
    layer = dataclasses.replace(INTRALIPID.layers[0], name="intralipid 10 %", thickness_mm=thickness_mm)
    depth_bins = 150 if math.isinf(thickness_mm) else round(thickness_mm / 0.2)
    # ten thousand scatterings a photon: fewer photons
    settings = LayeredSettings(photons=100_000, dr_mm=0.2, dz_mm=0.2, radial_bins=150, depth_bins=depth_bins)
    citation = _citation("intralipid 10 % (Alerstam 2010)")
    return _preset(f"10 % intralipid at 460 nm, {shape}", LayeredMedium(layers=(layer,)), settings, citation)


def _head() -> LayeredPreset:
    layers = tuple(
        Layer(name=name, n=m.n, mua_per_mm=m.mua_per_mm, mus_per_mm=m.mus_per_mm, g=m.g, thickness_mm=thickness)
        for name, m, thickness in zip(
            HEAD_LAYERS, head_media(HEAD_NM, HEAD_TABLE), HEAD_THICKNESSES_MM, strict=True
        )
    )  # fmt: skip
    settings = LayeredSettings(dr_mm=0.5, dz_mm=0.1, radial_bins=100, depth_bins=400)
    citation = f"{_citation(f'gray matter ({HEAD_TABLE})')}; {_HEAD_ANATOMY}"
    return _preset(f"brain under scalp and skull at {HEAD_NM:g} nm", LayeredMedium(layers=layers), settings, citation)


def _van_de_hulst() -> LayeredPreset:
    layer = dataclasses.replace(VAN_DE_HULST.layers[0], name="slab")
    settings = LayeredSettings(dr_mm=0.005, dz_mm=0.002, radial_bins=200, depth_bins=100)
    citation = (
        "H. C. van de Hulst, Multiple Light Scattering, Academic Press (1980): Rd 0.09739, T 0.66096; a test of MCML, "
        "L. Wang et al., Comput. Methods Programs Biomed. 47:131 (1995)"
    )
    return _preset("van de Hulst's slab", LayeredMedium(layers=(layer,)), settings, citation)


def _preset(name: str, medium: LayeredMedium, settings: LayeredSettings, citation: str) -> LayeredPreset:
    return LayeredPreset(name=name, medium=dataclasses.replace(medium, name=name), settings=settings, citation=citation)


def _citation(tissue: str) -> str:
    """Where a tissue's optical properties come from."""
    recipe = preset_recipe(tissue)
    assert isinstance(recipe, Preset)
    return recipe.citation
