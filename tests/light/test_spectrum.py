"""Detected light at other wavelengths: against runs of their own, against plain sums, and what is refused or noted."""

import dataclasses
import functools

import numpy as np
import pytest

from napari_gpubio import light, optics
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.statistics import detector_numbers, time_spread
from napari_gpubio.optics import tissue
from tests.described import check_described
from tests.light.voxel_samples import check_z, make_domain

LABELS = np.ones((20, 20, 12), np.uint8)
LABELS[:, :, 2:] = 2
DETECTORS = tuple(optics.Detector(position_mm=(10 + d, 10, 0), radius_mm=2.0, name=f"{d} mm") for d in (3, 6))
SOURCE = optics.Pencil(position_mm=(10, 10, 0))


def media(absorption=1.0, scattering=1.0, **changes):
    one = {"g": 0.5, "n": 1.37} | changes
    return (
        optics.Medium(label=1, mua_per_mm=0.01 * absorption, mus_per_mm=2.0 * scattering, **one),
        optics.Medium(label=2, mua_per_mm=0.03 * absorption, mus_per_mm=4.0 * scattering, **one),
    )


@functools.cache
def run(absorption=1.0, scattering=1.0, seed=1, photons=20_000, **more):
    domain = make_domain(LABELS, *media(absorption, scattering))
    settings = light.LightSettings(photons=photons, seed=seed, **more)
    return light.simulate(domain, SOURCE, settings, detectors=DETECTORS, device="cpu")


@pytest.mark.parametrize(("absorption", "scattering"), [(1.0, 1.0), (4.0, 1.0), (0.5, 1.0), (1.5, 1.03), (1.0, 0.97)])
def test_other_wavelengths_are_those_of_runs_of_their_own(absorption, scattering):
    """Weight, paths, and times, with less and with much more absorption, and with other scattering."""
    own = light.spectrum(run(absorption, scattering, seed=2), {1.0: media(absorption, scattering)})
    found = light.spectrum(run(), {1.0: media(absorption, scattering)})
    for name in ("weight", "path_mm", "total_path_mm", "dpf", "time_ns", "time_sd_ns"):
        a, b = getattr(found, name), getattr(own, name)
        assert (a.error > 0).all()
        check_z(a.value - b.value, np.hypot(a.error, b.error))


def test_the_run_itself_is_one_of_the_wavelengths():
    found = light.spectrum(run(), {700.0: media()})
    for d, expected in enumerate(detector_numbers(run())):
        paths = [expected.path_mm[label] for label in (1, 2)]
        for estimates, numbers in (
            (found.weight, [expected.weight]), (found.total_path_mm, [expected.total_path_mm]), (found.path_mm, paths),
            (found.dpf, [expected.dpf]), (found.time_ns, [expected.time_ns]),
        ):  # fmt: skip
            np.testing.assert_allclose(estimates.value[d, 0], np.squeeze([n.value for n in numbers]), rtol=1e-6)
            np.testing.assert_allclose(estimates.error[d, 0], np.squeeze([n.error for n in numbers]), rtol=1e-5)
    assert found.warnings == ()


def test_sums_are_those_of_the_weights_written_out():
    """Also the spread of the times of flight and its error, photon by photon."""
    other = media(2.0, 1.02)
    result, photons = run(), light.reweighted(run(), other).of(1)
    old = result.detected.of(1)
    exponent = -old.path_mm @ np.array([0.01 + 2.0 * 0.02, 0.03 + 4.0 * 0.02])
    np.testing.assert_allclose(photons.weight, old.weight * np.exp(exponent) * 1.02**old.scatterings, rtol=1e-4)
    found = light.spectrum(result, {1.0: other})
    w, t = photons.weight.astype(np.float64), photons.time_ns
    assert found.effective_photons[1, 0] == pytest.approx(w.sum() ** 2 / (w @ w), rel=1e-5)
    assert found.largest_share[1, 0] == pytest.approx(w.max() / w.sum(), rel=1e-5)
    mean = w @ t / w.sum()
    variance = w @ (t - mean) ** 2 / w.sum()
    assert found.time_sd_ns.value[1, 0] == pytest.approx(np.sqrt(variance), rel=1e-5)
    error = np.sqrt(w**2 @ ((t - mean) ** 2 - variance) ** 2) / w.sum() / (2 * np.sqrt(variance))
    assert found.time_sd_ns.error[1, 0] == pytest.approx(error, rel=1e-4)
    assert photons.time_point_spread([0, 10]).sum() * 10 == pytest.approx(found.weight.value[1, 0], rel=1e-5)


def test_weights_that_single_precision_cannot_square_have_errors():
    """Absorption that leaves 1e-40 of the light: each photon's weight is known, not only the largest."""
    other = tuple(dataclasses.replace(medium, mua_per_mm=medium.mua_per_mm + 16.0) for medium in media())
    found, old = light.spectrum(run(), {1.0: other}), run().detected.of(1)
    w = old.weight * np.exp(-16.0 * old.path_mm.sum(axis=1, dtype=np.float64))
    assert w.max() < 1e-30
    assert found.weight.value[1, 0] == pytest.approx(w.sum() / old.launched, rel=1e-3)
    assert found.weight.error[1, 0] == pytest.approx(np.sqrt(w @ w) / old.launched, rel=1e-3)
    assert found.effective_photons[1, 0] == pytest.approx(w.sum() ** 2 / (w @ w), rel=1e-3)


def test_two_tables_of_a_result_agree_where_the_list_was_full():
    full = run(max_detected=400)
    found = light.spectrum(full, {1.0: media()})
    for d, numbers in enumerate(detector_numbers(full)):
        assert numbers.weight.value == pytest.approx(found.weight.value[d, 0], rel=1e-5)
        spread = time_spread(full.detected.of(d))
        width = np.diff(spread.time_ns)[0]
        assert spread.weight.sum() * width == pytest.approx(numbers.weight.value, rel=1e-5)


def test_g_and_n_of_the_run_count_where_they_are_not_those_of_labels():
    table = optics.TabulatedPhaseFunction(cosines=np.linspace(-0.6, 1.0, 101))
    domain = make_domain(LABELS, *media(), phase_function=table)
    result = light.simulate(domain, SOURCE, light.LightSettings(photons=500), detectors=DETECTORS, device="cpu")
    assert light.spectrum(result, {1.0: domain.media}).weight.value[1, 0] > 0


def test_the_least_absorption_is_what_to_run_with():
    by_wavelength = {
        800.0: (media(2.0)[0], media(1.0)[1]),
        700.0: (media(1.0, 1.1)[0], media(3.0, 1.2)[1]),
        900.0: media(4.0, 3.0),
    }
    chosen = light.spectrum_media(by_wavelength)
    assert [m.mua_per_mm for m in chosen] == [0.01, 0.03]
    assert [m.mus_per_mm for m in chosen] == [2.0, 4.0]  # of 800 nm
    assert "least absorption of 700 to 900 nm" in chosen[0].source


def test_a_run_that_absorbs_too_much_and_few_photons_are_reported():
    weak = light.spectrum(run(photons=1000), {650.0: media(), 700.0: media(0.3)})
    assert any("absorbs more than some wavelengths do (label 1: 0.01 /mm, 0.003 at 700 nm)" in w for w in weak.warnings)
    assert any("6 mm detects at" in sentence and "photons, less than 100" in sentence for sentence in weak.warnings)
    assert not weak.trusted[1].any()


def test_scattering_of_the_run_can_be_kept():
    found = light.spectrum(run(), {1.0: media(2.0, 1.4)}, keep_scattering=True)
    np.testing.assert_array_equal(found.weight.value, light.spectrum(run(), {1.0: media(2.0)}).weight.value)
    assert any("mu_s' differs from it by up to 40%" in sentence for sentence in found.warnings)


def test_a_list_that_was_full_counts_its_photons():
    full = light.spectrum(run(max_detected=400), {1.0: media()})
    whole = light.spectrum(run(), {1.0: media()})
    assert run(max_detected=400).detected.dropped > 0
    check_z(full.weight.value - whole.weight.value, np.hypot(full.weight.error, whole.weight.error))


def test_presets_at_wavelengths_and_rows_for_a_table():
    names = {1: "skin (Cassano 2019)", 2: "gray matter (Cassano 2019)"}
    by_wavelength = tissue.media_at_wavelengths(names, (700, 750, 800))
    assert list(by_wavelength) == [700.0, 750.0, 800.0]
    assert by_wavelength[750.0][1] == tissue.preset(names[2], 750, 2)
    found = light.spectrum(run(), by_wavelength, keep_scattering=True)
    rows = list(found.rows())
    assert [(row["detector"], row["wavelength_nm"]) for row in rows[:4]] == [
        ("3 mm", 700.0), ("3 mm", 750.0), ("3 mm", 800.0), ("6 mm", 700.0),
    ]  # fmt: skip
    assert rows[4]["path_2_mm_error"] == found.path_mm.error[1, 1, 1]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (media()[:1], "there is no medium for label 2 at 650 nm; give one"),
        (media(g=0.6), "label 1 has g = 0.6 at 650 nm and 0.5 in the run"),
        (media(n=1.4), "label 1 has n = 1.4 at 650 nm and 1.37 in the run"),
        ((media()[0], media(1, 1.1)[1]), r"by one common factor \(mu_s of label 1: 2 to 2, 2: 4 to 4.4 /mm\)"),
        (media(1, 0), "by one common factor"),
    ],
)
def test_what_path_lengths_cannot_tell_is_refused(changed, words):
    with pytest.raises(InvalidInput, match=words):
        light.spectrum(run(photons=1000), {650.0: changed})


def test_runs_that_lack_what_is_needed_are_refused():
    result = run(photons=1000)
    with pytest.raises(InvalidInput, match="no wavelength is given"):
        light.spectrum(result, {})
    with pytest.raises(InvalidInput, match="the run has no detectors"):
        light.spectrum(dataclasses.replace(result, detectors=()), {1.0: media()})
    by_voxel = result.domain.with_optics(media(), mua_per_mm=np.full(LABELS.shape, 0.01))
    with pytest.raises(InvalidInput, match="absorption is given voxel by voxel"):
        light.reweighted(dataclasses.replace(result, domain=by_voxel), media())
    full = dataclasses.replace(run(max_detected=400), complete=False)
    with pytest.raises(InvalidInput, match="were not listed, and the run was stopped; raise max_detected"):
        light.spectrum(full, {1.0: media()})


def test_it_shows_itself():
    found = light.spectrum(run(), {700.0: media(), 800.0: media(1.5)})
    check_described(found, "spectrum", "detected light")
    assert found.to_dataframe()["wavelength_nm"].tolist() == [700, 800, 700, 800]
