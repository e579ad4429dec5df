"""Indices of flow against the model's own integral and closed forms."""

import numpy as np
import pytest
from scipy import integrate

from napari_gpubio.core import jit
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import contrast
from napari_gpubio.speckle.indices import inverse_correlation_time, relative_flow, speckle_flow_index, visibility
from napari_gpubio.speckle.kernels.contrast.finishing import decay_of
from napari_gpubio.speckle.kernels.visibility import decay_table
from tests.speckle.choices import settings_with

# Published column of exact x for K at β = 1, and what approximations make of it.
PUBLISHED = {0.1: 99.497, 0.2: 24.490, 0.3: 10.586, 0.5: 3.415, 0.7: 1.325}


@pytest.mark.parametrize("x", [1e-4, 0.03, 1.0, 7.0, 300.0])
def test_visibility_is_the_integral_of_the_squared_correlation(x):
    integral, _ = integrate.quad(lambda u: 2 * (1 - u) * np.exp(-2 * x * u), 0, 1, epsabs=1e-14)
    assert visibility(x) == pytest.approx(integral, rel=1e-11)
    assert visibility(1e-7) == pytest.approx(0.99999993333333667, rel=1e-15)  # slow flow keeps its digits


def test_the_inverse_is_the_inverse():
    x = np.concatenate([np.geomspace(1e-6, 1e5, 3000), np.linspace(9, 10, 300)])
    found = inverse_correlation_time(visibility(x), 1000.0)
    np.testing.assert_allclose(found, x, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(("k", "x"), PUBLISHED.items())
def test_published_values(k, x):
    assert inverse_correlation_time(k**2, 1000.0) == pytest.approx(x, rel=4e-4)


def test_beta_scales_the_contrast_and_the_range_has_ends():
    k2 = np.array([0.01, 0.04])
    scaled = inverse_correlation_time(0.25 * k2, 5.0, beta=0.25)
    np.testing.assert_allclose(scaled, inverse_correlation_time(k2, 5.0), rtol=1e-12)
    ends = inverse_correlation_time([0.0, 1.0, 1.5, -0.1, np.nan], 10.0)
    np.testing.assert_array_equal(ends, [np.inf, 0.0, 0.0, np.nan, np.nan])


@jit.kernel
def _fill_decays(k2, table, out):
    for i in range(k2.size):
        out[i] = decay_of(k2[i], table)


def test_the_single_precision_table_follows_newton():
    k2 = np.linspace(0.001, 0.9995, 5000).astype(np.float32)
    found = np.empty_like(k2)
    _fill_decays(k2, decay_table().single, found)
    expected = inverse_correlation_time(k2.astype(float), 1000.0)
    np.testing.assert_allclose(found, expected, rtol=5e-7, atol=2e-7)


def test_sfi_and_relative_flow():
    assert speckle_flow_index(0.01, 10.0) == pytest.approx(5000.0)
    assert relative_flow([0.01, 0.02], 0.02).tolist() == [2.0, 1.0]
    for bad in (0.0, -1.0, float("nan")):
        with pytest.raises(InvalidInput, match="give the camera's exposure time"):
            speckle_flow_index(0.1, bad)


def test_maps_of_every_index(device):
    frame = np.random.default_rng(0).integers(500, 1500, (30, 30), np.uint16)
    k2 = contrast(frame, device=device).contrast.astype(float) ** 2
    expected = {
        "squared": k2,
        "inverse": 1 / k2,
        "sfi": speckle_flow_index(k2, 8.0),
        "ict": inverse_correlation_time(k2, 8.0, 0.5),
        "relative": relative_flow(k2, 0.03),
    }
    for index, values in expected.items():
        settings = settings_with(index=index, exposure_ms=8.0, beta=0.5)
        maps = contrast(frame, settings, baseline=0.03, device=device)
        np.testing.assert_allclose(maps.index, values, rtol=1e-6)
        assert maps.unit == ("1/s" if index in ("sfi", "ict") else "")
