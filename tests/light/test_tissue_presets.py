"""Presets of optical properties: numbers of publications, interpolation that says so, and refusals."""

import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.model import Medium
from napari_gpubio.light.tissue import (
    HEAD_LAYERS,
    HEAD_TABLES,
    Preset,
    absorption_per_mm,
    head_media,
    head_recipes,
    preset,
    preset_names,
    preset_recipe,
)


def test_every_preset_makes_media_that_say_where_they_come_from():
    for name in preset_names():
        recipe = preset_recipe(name)
        wavelengths = [row.wavelength_nm for row in recipe.rows] if isinstance(recipe, Preset) else [700.0]
        for wavelength in wavelengths:
            medium = recipe.medium(wavelength)
            assert isinstance(medium, Medium)
            assert f"{wavelength:g} nm" in medium.source
            assert 0 < medium.musp_per_mm < 10
            assert "interpolated between" not in medium.source.split("; ")[1]


@pytest.mark.parametrize(
    ("tissue", "mua", "musp"), [("scalp", 0.0191, 0.66), ("skull", 0.0136, 0.86), ("brain", 0.0186, 1.11)]
)
def test_the_head_at_830_nm_is_that_of_another_tool(tissue, mua, musp):
    """The properties that Digimouse's users took from the same publication, as reduced scattering."""
    medium = preset(f"{tissue} (Strangman 2003)", 830)
    assert medium.mua_per_mm == mua
    assert medium.musp_per_mm == pytest.approx(musp)


def test_publications_of_the_same_tissue_agree_where_they_should():
    muscle = preset("muscle (Bashkatov 2011)", 670), preset("muscle (Cassano 2019)", 670)
    assert muscle[0].mua_per_mm == pytest.approx(muscle[1].mua_per_mm, rel=0.02)
    assert muscle[0].mus_per_mm == pytest.approx(muscle[1].mus_per_mm, rel=0.02)
    gray = preset("gray matter (Fang 2009)", 630), preset("gray matter (Yaroslavsky 2002)", 630)
    assert gray[0].mua_per_mm == gray[1].mua_per_mm
    assert gray[0].mus_per_mm == gray[1].mus_per_mm


@pytest.mark.parametrize("wavelength", [850, 980])
def test_the_absorption_of_csf_is_that_of_water(wavelength):
    medium = preset("CSF (Cassano 2019)", wavelength)
    assert medium.mua_per_mm == pytest.approx(float(absorption_per_mm("water", wavelength)), rel=0.02)


def test_the_scattering_length_of_mouse_cortex_is_47_micrometers():
    assert 1 / preset("mouse cortex (Yona 2016)", 473).mus_per_mm == pytest.approx(0.047, abs=0.0005)


def test_seven_layers_of_skin_scatter_as_published():
    names = [name for name in preset_names() if "Meglinski" in name]
    media = [preset(name, 600) for name in names]
    assert [m.mus_per_mm for m in media] == [100, 40, 30, 35, 20, 35, 15]
    assert [m.mua_per_mm for m in media] == [0.02, 0.015, 0.07, 0.1, 0.07, 0.1, 0.03]
    assert [m.n for m in media] == [1.53, 1.34, 1.4, 1.39, 1.4, 1.39, 1.44]


# -- between the rows -------------------------------------------------------------------------------------------------


def test_between_two_wavelengths_the_properties_are_linear_and_the_source_says_so():
    medium = preset("scalp (Strangman 2003)", 760, label=7)
    assert (medium.label, medium.name) == (7, "scalp")
    assert medium.mua_per_mm == pytest.approx((0.0159 + 0.0191) / 2)
    assert medium.mus_per_mm == pytest.approx((10 + 8.25) / 2)
    assert medium.g == 0.92
    assert "interpolated between 690 and 830 nm" in medium.source
    assert "Strangman" in medium.source


@pytest.mark.parametrize("wavelength", [600, 689.9, 831, float("nan")])
def test_nothing_is_known_outside_the_rows(wavelength):
    with pytest.raises(InvalidInput, match=r"scalp \(Strangman 2003\) is known at 690, 830 nm, not at .* nm; choose"):
        preset("scalp (Strangman 2003)", wavelength)


def test_a_wide_gap_is_not_bridged():
    with pytest.raises(InvalidInput, match=r"337, 633 nm, too far apart to interpolate at 532 nm"):
        preset("dermis (Tuchin 1997)", 532)
    with pytest.raises(InvalidInput, match="too far apart"):
        preset("gray matter (Yaroslavsky 2002)", 850)


def test_a_correction_of_the_printed_value_is_told():
    assert "printed as 0.0420" in preset("CSF (Cassano 2019)", 850).source
    assert "printed as 0.0420" in preset("CSF (Cassano 2019)", 830).source


def test_names_can_be_asked_for_by_wavelength():
    known = preset_names(690)
    assert "scalp (Strangman 2003)" in known
    assert "scalp (Strangman 2003)" not in preset_names(500)
    assert all(preset(name, 690) for name in known)
    assert set(known) < set(preset_names())


def test_an_unknown_preset_names_those_like_it():
    with pytest.raises(
        InvalidInput, match=r"'gray matter'; choose one of gray matter \(Fang 2009\); gray matter \(Cass"
    ):
        preset("gray matter", 690)


# -- the head ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "wavelength"), [("Strangman 2003", 690), ("Cassano 2019", 850), ("Fang 2009", 630)])
def test_the_head_has_five_labels_from_the_outside_in(table, wavelength):
    media = head_media(wavelength, table)
    assert [m.label for m in media] == [1, 2, 3, 4, 5]
    assert tuple(m.name for m in media) == HEAD_LAYERS
    assert media[2].mus_per_mm < 0.2  # CSF is clear
    assert all(f"{wavelength} nm" in m.source for m in media)


def test_a_layer_that_borrows_its_numbers_says_from_what():
    white = head_media(690)[4]
    assert white.mus_per_mm == 15.625
    assert white.source.endswith("; as brain")
    assert "; as " not in head_media(690)[0].source


def test_every_table_of_the_head_has_its_presets():
    for table in HEAD_TABLES:
        assert [recipe.key for recipe in head_recipes(table)] == [table] * 5


def test_the_head_is_refused_where_it_is_not_known():
    with pytest.raises(InvalidInput, match="not at 532 nm"):
        head_media(532)
    with pytest.raises(InvalidInput, match=r"'Okada'.*choose one of Strangman 2003"):
        head_media(690, "Okada")
