"""Spectra, powers of scattering and presets of tissues against the publications, and what is refused."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.tissue import (
    HEAD_LAYERS,
    HEAD_TABLES,
    Chromophores,
    Composition,
    Preset,
    absorption_per_mm,
    head_media,
    head_recipes,
    power_law,
    power_law_names,
    preset,
    preset_names,
    preset_recipe,
)
from napari_gpubio.optics.tissue.optics import SOURCES

LN10 = np.log(10.0)
NM = np.arange(450.0, 1000.5, 0.5)

# Takatani and Graham 1979, another compilation: wavelength, HbO2, Hb in 1/(cm M)
TAKATANI = np.array([
    (480, 27360, 13360), (520, 23520, 25080), (540, 57080, 41120), (560, 33880, 50160), (577, 61480, 36800),
    (600, 3200, 14600), (625, 732, 4400), (655, 340, 3244), (675, 288, 3028), (705, 300, 1988), (735, 412, 1464),
    (755, 556, 1756), (785, 736, 1040), (805, 880, 896), (845, 1048, 820), (885, 1168, 832), (925, 1228, 860),
])  # fmt: skip
# Hale and Querry 1973, the part of the spectrum that is taken from Kou et al. 1993: wavelength, 1/cm
HALE = np.array(
    [(700, 0.0060), (750, 0.0260), (800, 0.0200), (850, 0.0430), (900, 0.0680), (975, 0.450), (1000, 0.360)]
)


def molar_per_cm(chromophore, wavelength_nm):
    """Decadic molar extinction, as it is published."""
    return absorption_per_mm(chromophore, wavelength_nm) * 10.0 / LN10


# -- spectra ----------------------------------------------------------------------------------------------------------


def test_hemoglobin_at_800_nm_is_as_published():
    assert molar_per_cm("oxyhemoglobin", 800) == pytest.approx(816)
    assert molar_per_cm("deoxyhemoglobin", 800) == pytest.approx(761.72)


def test_hemoglobin_agrees_with_another_compilation():
    oxy = molar_per_cm("oxyhemoglobin", TAKATANI[:, 0]) / TAKATANI[:, 1]
    deoxy = molar_per_cm("deoxyhemoglobin", TAKATANI[:, 0]) / TAKATANI[:, 2]
    assert np.abs(oxy - 1).max() < 0.11
    assert np.abs(deoxy - 1).max() < 0.32  # compilations of Hb differ by that much, here at 520, 625 and 735 nm
    assert np.abs(np.log(deoxy).mean()) < 0.05


def test_oxy_and_deoxyhemoglobin_are_equal_at_the_isosbestic_points():
    difference = absorption_per_mm("oxyhemoglobin", NM) - absorption_per_mm("deoxyhemoglobin", NM)
    crossings = NM[:-1][np.diff(np.sign(difference)) != 0]
    for known in (500, 530, 545, 570, 584, 797):
        assert np.abs(crossings - known).min() < 3


def test_water_agrees_with_another_measurement():
    ratio = absorption_per_mm("water", HALE[:, 0]) * 10 / HALE[:, 1]
    assert np.abs(ratio - 1).max() < 0.14
    assert absorption_per_mm("water", 970) * 10 == pytest.approx(0.45, rel=0.1)
    assert 965 <= NM[np.argmax(absorption_per_mm("water", NM))] <= 985


def test_fat_agrees_with_a_finer_table_of_the_same_measurement():
    for wavelength, per_mm in ((460.0, 0.005523), (500.21, 0.001904), (650.448, 0.000472), (756.209, 0.001163)):
        assert absorption_per_mm("fat", wavelength) == pytest.approx(per_mm, rel=0.01)
    assert 928 <= NM[np.argmax(absorption_per_mm("fat", NM) * (NM > 600))] <= 932  # the band of CH2


def test_every_chromophore_has_a_source():
    assert set(SOURCES) == set(Chromophores(blood_fraction=0.1).contributions_per_mm(600))
    assert all(any(digit.isdigit() for digit in source) or "Prahl" in source for source in SOURCES.values())


# -- mixtures ---------------------------------------------------------------------------------------------------------


def test_blood_and_dermis_are_those_of_mcxyz():
    """Jacques' mcxyz, whose numbers at 532 nm were computed by another code from the same definition."""
    blood = Chromophores(blood_fraction=1.0, oxygen_saturation=0.75, water_fraction=0.95)
    dermis = Chromophores(blood_fraction=0.002, oxygen_saturation=0.67, water_fraction=0.65)
    assert blood.mua_per_mm(532) == pytest.approx(23.0543, abs=5e-5)
    assert dermis.mua_per_mm(532) == pytest.approx(0.04585, abs=5e-6)


def test_melanosomes_make_the_epidermis_of_mcxyz():
    epidermis = Chromophores(melanosome_fraction=0.03, water_fraction=0.75)
    assert epidermis.mua_per_mm(532) == pytest.approx(1.6572, rel=0.01)  # it has another fit of the same data


def test_a_mixture_is_the_sum_of_its_parts_and_follows_its_fractions():
    tissue = Chromophores(blood_fraction=0.03, oxygen_saturation=0.6, water_fraction=0.7, fat_fraction=0.1)
    parts = tissue.contributions_per_mm(NM)
    np.testing.assert_allclose(tissue.mua_per_mm(NM), sum(parts.values()))
    np.testing.assert_allclose(parts["water"], 0.7 * absorption_per_mm("water", NM))
    molar = 0.03 * 150 / 64500
    np.testing.assert_allclose(parts["oxyhemoglobin"], molar * 0.6 * absorption_per_mm("oxyhemoglobin", NM))
    np.testing.assert_allclose(parts["deoxyhemoglobin"], molar * 0.4 * absorption_per_mm("deoxyhemoglobin", NM))


def test_saturation_does_not_matter_at_an_isosbestic_point():
    low, high = (Chromophores(blood_fraction=0.05, oxygen_saturation=s).mua_per_mm(798) for s in (0.2, 0.9))
    assert low == pytest.approx(high, rel=0.03)


def test_shapes_are_kept():
    assert Chromophores(blood_fraction=0.1).mua_per_mm(700).shape == ()
    assert Chromophores(blood_fraction=0.1).mua_per_mm(np.full((2, 3), 700.0)).shape == (2, 3)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"blood_fraction": -0.1}, "blood_fraction is -0.1"),
        ({"oxygen_saturation": 1.2}, "oxygen_saturation is 1.2"),
        ({"water_fraction": float("nan")}, "water_fraction is nan"),
        ({"water_fraction": 0.8, "fat_fraction": 0.4}, "fill 1.2 of the volume"),
    ],
)
def test_fractions_that_cannot_be_are_refused(wrong, message):
    with pytest.raises(InvalidInput, match=message):
        Chromophores(**wrong)


@pytest.mark.parametrize("wavelength", [449.0, 1064.0, float("nan")])
def test_no_spectrum_is_stretched_beyond_its_table(wavelength):
    for name in SOURCES:
        with pytest.raises(InvalidInput, match=r"from 450 to 1000 nm.*choose"):
            absorption_per_mm(name, [600.0, wavelength])


def test_an_unknown_chromophore_is_refused():
    with pytest.raises(InvalidInput, match="'haem'; choose one of oxyhemoglobin"):
        absorption_per_mm("haem", 600)


# -- scattering -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "a_per_cm", "b"),
    [("skin (mean)", 46.0, 1.421), ("brain (mean)", 24.2, 1.611), ("soft tissue (mean)", 18.9, 1.286)],
)
def test_means_of_the_reports_are_those_of_jacques_table_2(name, a_per_cm, b):
    law = power_law(name)
    assert law.a_per_mm * 10 == pytest.approx(a_per_cm, abs=0.05)
    assert law.b == pytest.approx(b, abs=0.0011)


# Alexandrakis et al. 2005 give the same tissues as A (wavelength / nm)^-B, in 1/mm
@pytest.mark.parametrize(
    ("name", "a", "b"),
    [
        ("adipose", 38.0, 0.53),
        ("bone", 35600.0, 1.47),
        ("heart wall", 10600.0, 1.43),
        ("kidney", 41700.0, 1.51),
        ("liver and spleen", 629.0, 1.05),
        ("lung 1", 68.4, 0.53),
        ("muscle 2", 4e7, 2.82),
        ("stomach wall", 792.0, 0.97),
    ],
)
def test_scattering_is_that_of_the_publication_behind_the_review(name, a, b):
    wavelengths = np.array([500.0, 700.0, 900.0])
    np.testing.assert_allclose(power_law(name).musp_per_mm(wavelengths), a * wavelengths**-b, rtol=0.01)


def test_scattering_knows_its_source_and_refuses_what_it_has_not():
    assert len(power_law_names()) == 48 + 6  # reports and means of groups
    assert all("Jacques" in power_law(name).source for name in power_law_names())
    with pytest.raises(InvalidInput, match="no scattering of 'spleen'; choose one of skin"):
        power_law("spleen")
    with pytest.raises(InvalidInput, match="greater than 0"):
        power_law("bone").musp_per_mm(0.0)


# -- compositions -----------------------------------------------------------------------------------------------------


def test_a_composition_gives_a_medium_at_any_wavelength():
    tissue = Composition(
        name="cortex",
        chromophores=Chromophores(blood_fraction=0.04, oxygen_saturation=0.7, water_fraction=0.75),
        scattering=power_law("brain (mean)"),
        g=0.9,
    )
    medium = tissue.medium(760, label=4)
    assert (medium.label, medium.name, medium.n) == (4, "cortex", 1.37)
    assert medium.mua_per_mm == pytest.approx(float(tissue.chromophores.mua_per_mm(760)))
    assert medium.musp_per_mm == pytest.approx(2.42375 * (760 / 500) ** -1.6115)
    assert "760 nm" in medium.source
    with pytest.raises(InvalidInput, match="1100 nm"):
        tissue.medium(1100)
    with pytest.raises(InvalidInput, match="g is 1"):
        Composition(name="x", chromophores=Chromophores(), scattering=power_law("bone"), g=1.0)


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


def test_a_correction_of_the_printed_value_is_noted():
    assert "printed as 0.0420" in preset("CSF (Cassano 2019)", 850).source
    assert "printed as 0.0420" in preset("CSF (Cassano 2019)", 830).source


def test_names_by_wavelength():
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


def test_a_layer_that_borrows_its_numbers_names_the_original():
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
