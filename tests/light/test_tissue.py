"""Spectra of chromophores and powers of scattering against other publications than those that the tables hold."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.tissue import Chromophores, Composition, absorption_per_mm, power_law, power_law_names
from napari_gpubio.light.tissue.optics import SOURCES

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


def test_every_chromophore_says_where_its_numbers_come_from():
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
    ("wrong", "says"),
    [
        ({"blood_fraction": -0.1}, "blood_fraction is -0.1"),
        ({"oxygen_saturation": 1.2}, "oxygen_saturation is 1.2"),
        ({"water_fraction": float("nan")}, "water_fraction is nan"),
        ({"water_fraction": 0.8, "fat_fraction": 0.4}, "fill 1.2 of the volume"),
    ],
)
def test_fractions_that_cannot_be_are_refused(wrong, says):
    with pytest.raises(InvalidInput, match=says):
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
