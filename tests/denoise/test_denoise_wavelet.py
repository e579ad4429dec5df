"""The wavelet bank: perfect reconstruction, projections, and mixing against the eight bands themselves."""

import numpy as np
import pytest

from napari_gpubio.denoise.kernels.anlm import cpu, tally
from tests.denoise.reference import analysis, bands, mixed, synthesis

SHAPE = (9, 12, 7)


def volume(seed):
    return np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)


@pytest.mark.parametrize("n", [20, 32])
def test_the_bank_is_orthonormal(n):
    low, high = analysis(n, "L"), analysis(n, "H")
    both = np.concatenate([low, high])
    np.testing.assert_allclose(both @ both.T, np.eye(n), atol=1e-12)


def test_reconstruction_is_perfect():
    parts, sizes = bands(volume(1).astype(float))
    assert set(parts) == {"LLL", "LLH", "LHL", "LHH", "HLL", "HLH", "HHL", "HHH"}
    np.testing.assert_allclose(synthesis(parts, sizes, SHAPE), volume(1), atol=1e-12)


def test_the_taps_are_the_projection_on_each_half():
    for name, bank in (("L", tally.LOW_PASS), ("H", tally.HIGH_PASS)):
        half = analysis(40, name)
        projection = half.T @ half
        taps = tally.projection_taps(bank)
        for i in (18, 19):
            np.testing.assert_allclose(taps[i % 2], projection[i, i - 9 : i + 10], atol=1e-7)
    whole = tally.projection_taps(tally.LOW_PASS) + tally.projection_taps(tally.HIGH_PASS)
    np.testing.assert_allclose(whole, np.tile(np.arange(19) == 9, (2, 1)), atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_lines_are_filtered_along_any_axis(axis):
    taps = tally.projection_taps()
    moved = np.moveaxis(volume(2), axis, 0).astype(float)
    n = moved.shape[0]
    expected = np.zeros_like(moved)
    for i in range(n):
        for d in range(-9, 10):
            if 0 <= i + d < n:
                expected[i] += taps[i % 2, d + 9] * moved[i + d]
    found = cpu.filter_axis(volume(2), axis, taps)
    np.testing.assert_allclose(np.moveaxis(found, axis, 0), expected, atol=1e-6)


def test_mixing_takes_each_band_from_its_patch():
    small, large = volume(3) + 10, volume(4) + 10
    np.testing.assert_allclose(tally.mix(small, large, cpu.filter_axis), mixed(small, large), atol=1e-5)
    detail = large - small
    assert np.abs(tally.mix(small, large, cpu.filter_axis) - small).mean() > 0.2 * np.abs(detail).mean()


def test_equal_estimates_stay():
    np.testing.assert_array_equal(tally.mix(volume(5), volume(5), cpu.filter_axis), volume(5))


def test_a_mix_below_zero_gives_way_to_the_small_patch():
    small, large = np.abs(volume(6)) * 0.1, np.abs(volume(7))
    found = tally.mix(small, large, cpu.filter_axis)
    plain = tally.mix(small + 50, large + 50, cpu.filter_axis) - 50
    assert (plain < 0).any()
    assert (found >= 0).all()
    np.testing.assert_array_equal(found[plain < -1e-4], small[plain < -1e-4])
