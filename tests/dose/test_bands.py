"""Bands of curves: from halves of the photons, and from errors of voxels that err together."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import BySpacing, Dose, DvhSettings, dvh, dvh_bands
from napari_gpubio.dose.bands import band_of_halves
from napari_gpubio.dose.structures import whole_grid
from tests.dose.samples import affine_of

SHAPE = (20, 20, 20)
ORGAN = whole_grid(SHAPE, np.eye(4))


def truth():
    """Light that falls over four decades."""
    depth = np.arange(SHAPE[0])[:, None, None] + np.zeros(SHAPE)
    return np.exp(-0.5 * depth)


def halves_of(rng, common, noise=0.0):
    """Two halves: an error that all voxels share, and one of their own; sd of the mean of both is sd / sqrt(2)."""
    errors = common * rng.normal(size=2)[:, None, None, None] + noise * rng.normal(size=(2, *SHAPE))
    return truth() * np.maximum(1 + errors, 0.0)


def light(values):
    return Dose(values=values, affine=affine_of(1.0), unit="1/mm2", quantity="fluence")


def test_halves_show_the_error_of_a_curve():
    """The root mean square of many bands is the true standard error of D50% and of the mean: 0.1 / sqrt(2)."""
    rng, widths, means = np.random.default_rng(0), [], []
    for _ in range(60):
        halves = halves_of(rng, 0.1)
        (band,) = dvh_bands(dataclasses.replace(light(halves.mean(axis=0)), halves=tuple(halves)), ORGAN, device="cpu")
        low, middle, high = (one.dose_at_percent(50) for one in (band.low, band.middle, band.high))
        assert low < middle < high
        widths.append(np.log(high / low) / 2)
        means.append((band.high.mean - band.low.mean) / 2 / band.middle.mean)
    expected, tolerance = 0.1 / np.sqrt(2), 3 / np.sqrt(2 * 60)  # relative error of a root mean square, times 3
    assert np.sqrt(np.mean(np.square(widths))) == pytest.approx(expected, rel=tolerance)
    assert np.sqrt(np.mean(np.square(means))) == pytest.approx(expected, rel=tolerance)


def test_halves_show_how_noise_widens_a_curve():
    """Flat light with noise of its own in each voxel: D98% is too low by about 2 standard errors of a voxel."""
    rng = np.random.default_rng(1)
    halves = np.maximum(1 + 0.1 * rng.normal(size=(2, *SHAPE)), 0.0)
    (band,) = dvh_bands(dataclasses.replace(light(halves.mean(axis=0)), halves=tuple(halves)), ORGAN, device="cpu")
    bias = band.middle.dose_at_percent(98) - 1
    assert bias < -0.1
    assert band.high.dose_at_percent(98) - band.middle.dose_at_percent(98) == pytest.approx(-0.41 * bias, rel=0.2)
    assert band.high.mean - band.low.mean < 0.02


def test_voxels_that_err_together_make_the_widest_band():
    rng = np.random.default_rng(2)
    halves = halves_of(rng, 0.0, 0.2)
    dose = light(halves.mean(axis=0))
    (narrow,) = dvh_bands(dataclasses.replace(dose, halves=tuple(halves)), ORGAN, device="cpu")
    (wide,) = dvh_bands(dataclasses.replace(dose, standard_error=0.2 / np.sqrt(2) * truth()), ORGAN, device="cpu")
    assert (narrow.basis, wide.basis) == ("halves", "together")
    for percent in (30, 50, 70):
        inner, outer = (
            np.log(band.high.dose_at_percent(percent) / band.low.dose_at_percent(percent)) for band in (narrow, wide)
        )
        assert inner < 0.5 * outer


def test_a_dose_less_its_error_is_not_negative():
    values = truth()
    (band,) = dvh_bands(dataclasses.replace(light(values), standard_error=1.5 * values), ORGAN, device="cpu")
    assert band.low.largest == 0.0
    assert band.low.zero_percent == 100.0
    assert band.high.largest == pytest.approx(2.5)


def test_bands_keep_volumes_without_light_and_are_scaled():
    values = truth()
    values[15:] = 0.0
    (band,) = dvh_bands(
        dataclasses.replace(light(values), halves=(0.9 * values, 1.1 * values)), ORGAN, errors=2.0, device="cpu"
    )
    for one in (band.low, band.high):
        assert one.dose_at_percent(90) == 0.0
        assert (np.diff(one.doses) >= 0).all()
    assert band.scaled(3.0).high.mean == pytest.approx(3 * 1.2 * values.mean())
    assert band.high.dose_at_percent(30) / band.middle.dose_at_percent(30) == pytest.approx(np.exp(0.2), rel=1e-3)


def test_what_does_not_belong_to_the_dose_is_refused():
    dose = light(truth())
    for halves, words in (
        ((truth()[:3], truth()), "a half of the photons has shape"),
        ((truth(), truth() * np.nan), ""),
    ):
        with pytest.raises(InvalidInput, match=words or "not finite"):
            dvh_bands(dataclasses.replace(dose, halves=halves), ORGAN, device="cpu")
    with pytest.raises(InvalidInput, match="how many standard errors"):
        dvh_bands(dataclasses.replace(dose, halves=(truth(), truth())), ORGAN, errors=0.0, device="cpu")


def test_the_middle_is_the_histogram_of_all_photons():
    dose, settings = light(truth()), DvhSettings(sampling=BySpacing(spacing_mm=0.5))
    (band,) = dvh_bands(dataclasses.replace(dose, halves=(truth(), truth())), ORGAN, settings, device="cpu")
    (expected,) = dvh(dose, ORGAN, settings, device="cpu")
    np.testing.assert_array_equal(band.middle.doses, expected.doses)
    np.testing.assert_allclose(band.high.doses, expected.doses, rtol=1e-12)
    empty = dataclasses.replace(expected, doses=np.empty(0), volumes_cc=np.empty(0))
    assert band_of_halves(empty, empty, empty).low.is_empty
