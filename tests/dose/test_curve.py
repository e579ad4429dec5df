"""What is read off a curve: laws that hold for every histogram, and exact ends."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose import BySpacing, Dose, Dvh, DvhSettings, dvh
from napari_gpubio.dose.structures import inside, whole_grid
from tests.dose.samples import PLANES, affine_of, circle, linear_dose, random_case, stack, uniform_dose
from tests.fuzzing import fuzzed

# 10 cc: 2 cc at 1 to 2 Gy, nothing at 2 to 5 Gy, 8 cc at 5 to 10 Gy.
STEPS = Dvh(
    name="steps",
    unit="Gy",
    doses=np.array([1.0, 2.0, 5.0, 10.0]),
    volumes_cc=np.array([10.0, 8.0, 8.0, 0.0]),
    mean=(2 * 1.5 + 8 * 7.5) / 10,
)


def test_reading_a_curve():
    np.testing.assert_allclose(STEPS.volume_at([0, 1, 1.5, 2, 3, 5, 7.5, 10, 11]), [10, 10, 9, 8, 8, 8, 4, 0, 0])
    np.testing.assert_allclose(STEPS.dose_at([10, 9, 8, 4, 0]), [1, 1.5, 5, 7.5, 10])
    assert np.isnan(STEPS.dose_at(11.0))
    assert STEPS.dose_at_percent(40) == pytest.approx(7.5)
    assert STEPS.percent_at(7.5) == pytest.approx(40.0)
    assert STEPS.band_volume(1.5, 7.5) == pytest.approx(5.0)
    assert (STEPS.volume_cc, STEPS.least, STEPS.largest) == (10.0, 1.0, 10.0)


def test_both_axes_are_absolute_or_relative_and_doses_scale():
    doses, volumes = STEPS.curve(relative_volume=False)
    np.testing.assert_allclose(doses, [0, 1, 2, 5, 10])
    np.testing.assert_allclose(volumes, [10, 10, 8, 8, 0])
    doses, volumes = STEPS.curve(reference_dose=5.0)
    np.testing.assert_allclose(doses, [0, 20, 40, 100, 200])
    np.testing.assert_allclose(volumes, [100, 100, 80, 80, 0])
    with pytest.raises(InvalidInput, match="the reference dose is 0"):
        STEPS.curve(reference_dose=0.0)
    twice = STEPS.scaled(2.0)
    assert (twice.volume_at(15.0), twice.mean) == (STEPS.volume_at(7.5), 2 * STEPS.mean)
    with pytest.raises(InvalidInput, match="give a positive number"):
        STEPS.scaled(-1.0)


def test_the_differential_adds_up_to_the_volume():
    parts = STEPS.differential([0, 1, 2, 5, 7.5, 10], relative_volume=False)
    np.testing.assert_allclose(parts.volumes, [0, 2, 0, 4, 4])
    default = STEPS.differential(reference_dose=10.0)
    assert default.volumes.sum() == pytest.approx(100.0)
    assert (default.edges[0], default.edges[-1], len(default.volumes)) == (0.0, 100.0, 100)


@pytest.mark.parametrize("value", [2.0, 0.0, 61.3, 1e-6])
def test_a_uniform_dose_is_a_step(value):
    organ = stack([circle(9.0, center=(19.0, 19.0))], np.arange(12.0, 25.0, 2.0))
    found = dvh(uniform_dose(value), organ, device="cpu")["organ"]
    exact = float(np.float32(value))
    assert set(map(float, found.dose_at_percent([100, 99, 95, 50, 2, 0]))) == {exact}
    assert (found.mean, found.least, found.largest) == (exact, exact, exact)
    assert found.percent_at(exact) == 100.0
    assert found.percent_at(exact * 1.000001 + 1e-30) == 0.0


def test_a_bed_of_noise_is_an_error_function():
    """Uniform dose and Gaussian noise: V(D) = erfc((D - mean) / (s sqrt 2)) / 2; z-scores of 20 points."""
    from scipy.special import erfc

    shape, sigma = (60, 60, 60), 1.5
    values = 30 + sigma * np.random.default_rng(3).normal(size=shape)
    dose = Dose(values=values, affine=np.eye(4), unit="Gy")
    found = dvh(dose, whole_grid(shape, np.eye(4)), DvhSettings(sampling=BySpacing(spacing_mm=1.0)), device="cpu")[
        "everything"
    ]
    levels = np.linspace(27, 33, 20)
    share = 0.5 * erfc((levels - 30) / (sigma * np.sqrt(2)))
    z = (found.percent_at(levels) / 100 - share) / np.sqrt(share * (1 - share) / values.size)
    assert np.abs(z).max() < 4


@fuzzed(8)
@given(st.integers(0, 10_000), st.sampled_from([1.2, 3.0]), st.sampled_from(["linear", "logarithmic"]))
def test_laws_of_all_histograms(seed, spacing, bin_scale):
    dose, structures = random_case(seed)
    settings = DvhSettings(sampling=BySpacing(spacing_mm=spacing), bin_scale=bin_scale)
    for found in dvh(dose, structures, settings, device="cpu"):
        assert (np.diff(found.doses) >= 0).all()
        assert (np.diff(found.volumes_cc) <= 0).all()
        assert found.volumes_cc[-1] == 0.0
        assert found.percent_at(found.least) == 100.0
        assert found.least <= found.mean <= found.largest
        assert found.differential(relative_volume=False).volumes.sum() == pytest.approx(found.volume_cc)
        volumes = np.linspace(0.0, 1.0, 7) * found.volume_cc
        assert (found.volume_at(found.dose_at(volumes)) >= volumes - 1e-9).all()
        assert (np.diff(found.dose_at(volumes)) <= 0).all()


def test_100_bins_and_4096_bins_agree_within_a_bin():
    organ = stack([circle(14.0)], PLANES)
    fine, coarse = (
        dvh(linear_dose((0.3, 0.5, 0.7)), organ, DvhSettings(bins=bins), device="cpu")["organ"] for bins in (4096, 100)
    )
    percents = np.arange(0, 101, 5)
    assert np.abs(fine.dose_at_percent(percents) - coarse.dose_at_percent(percents)).max() < 0.1
    assert (fine.least, fine.largest, fine.mean) == (coarse.least, coarse.largest, coarse.mean)


def test_ratio_bins_are_fine_where_doses_are_small():
    values = np.geomspace(1e-5, 10.0, 1000).reshape(10, 10, 10)
    dose = Dose(values=values, affine=affine_of(1.0), unit="mW/mm2")
    settings = DvhSettings(bin_scale="logarithmic", sampling=BySpacing(spacing_mm=1.0))
    found = dvh(dose, whole_grid((10, 10, 10), np.eye(4)), settings, device="cpu")["everything"]
    for percent in (99, 90, 50, 10, 1):
        assert found.dose_at_percent(percent) == pytest.approx(np.quantile(values, 1 - percent / 100), rel=0.02)


def test_extremes_reach_beyond_those_of_voxel_centers():
    """Samples lie up to the border of a structure, half a slice beyond its last contour."""
    dose, organ = linear_dose((0, 0, 1.0)), stack([circle(9.0)], PLANES)
    voxels = dose.values[inside(organ, dose.affine, dose.values.shape)]
    found = dvh(dose, organ, device="cpu")["organ"]
    assert (found.least, found.largest) == pytest.approx((40.0 - 7.0, 40.0 + 7.0), abs=0.05)
    assert (voxels.min(), voxels.max()) == (35.0, 45.0)
