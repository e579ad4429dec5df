"""Presets of layered media: the numbers of the publications, in their units."""

import dataclasses

import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered.presets import preset as layered_preset
from napari_gpubio.layered.presets import preset_names
from napari_gpubio.optics.model import THICKEST_MM
from tests.layered.samples import SKIN_IN_CM, VAN_DE_HULST


def in_cm(layer):
    return layer.n, 10 * layer.mua_per_mm, 10 * layer.mus_per_mm, layer.g, layer.thickness_mm / 10


def test_the_skin_is_that_of_the_paper():
    skin = layered_preset("seven-layer skin at 600 nm")
    for layer, numbers in zip(skin.medium.layers, SKIN_IN_CM, strict=True):
        assert in_cm(layer) == pytest.approx(numbers, rel=1e-12)
    assert (skin.medium.n_above, skin.medium.n_below) == (1.0, 1.0)
    s = skin.settings  # MCML's grid: dz 0.002 cm, dr 0.01 cm, 500 x 200, 30 angles
    assert (s.dz_mm, s.dr_mm, s.depth_bins, s.radial_bins, s.angle_bins) == (0.02, 0.1, 500, 200, 30)
    assert "Meglinski" in skin.citation


@pytest.mark.parametrize(("shape", "thickness_mm"), [("semi-infinite", THICKEST_MM), ("1 cm slab", 10.0)])
def test_the_intralipid_is_that_of_the_paper(shape, thickness_mm):
    preset = layered_preset(f"10 % intralipid at 460 nm, {shape}")
    (layer,) = preset.medium.layers
    assert in_cm(layer)[:4] == pytest.approx((1.33, 0.015, 707.7, 0.87), rel=1e-12)
    assert layer.thickness_mm == thickness_mm
    assert preset.medium.specular_reflectance() == pytest.approx(0.0200593, abs=1e-7)
    assert "Alerstam" in preset.citation


def test_the_head_has_five_layers_with_cited_numbers():
    preset = layered_preset("brain under scalp and skull at 810 nm")
    names = [layer.name for layer in preset.medium.layers]
    assert names == ["scalp", "skull", "CSF", "gray matter", "white matter"]
    assert [layer.thickness_mm for layer in preset.medium.layers] == [6.9, 6.0, 2.0, 2.5, THICKEST_MM]
    # Cassano et al. 2019, Table 1: mu_s' of the skin 2.18 and of the skull 1.92 per mm, mu_a .045 and .011
    for layer, mua, reduced in zip(preset.medium.layers, (0.045, 0.011), (2.18, 1.92), strict=False):
        assert layer.mua_per_mm == mua
        assert layer.mus_per_mm * (1 - layer.g) == pytest.approx(reduced, rel=1e-3)
    for source in ("Cassano", "Strangman", "Custo", "Fischl"):
        assert source in preset.citation


def test_van_de_hulsts_slab_is_the_one_that_is_compared_with_his_numbers():
    (slab,) = layered_preset("van de Hulst's slab").medium.layers
    assert dataclasses.replace(slab, name="") == VAN_DE_HULST.layers[0]


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_is_ready(name):
    preset = layered_preset(name)
    assert preset.medium.name == preset.name == name
    assert preset.citation
    borders = preset.medium.tops_mm[1:]
    inside = borders[borders < preset.settings.depth_bins * preset.settings.dz_mm] / preset.settings.dz_mm
    assert inside == pytest.approx(inside.round(), abs=1e-9)  # no border inside a depth bin
    assert preset.settings.depth_bins * preset.settings.dz_mm > borders[:-1].max(initial=0.0)


def test_an_unknown_preset_is_a_sentence():
    with pytest.raises(InvalidInput, match=r"no preset 'mouse'; choose one of seven-layer skin at 600 nm"):
        layered_preset("mouse")
