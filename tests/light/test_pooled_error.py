"""Errors of dark voxels that their neighbors help to know: what they are worth, and what stays as it is."""

import dataclasses
import functools

import numpy as np

from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.light.statistics import pooled_error
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.pooled_variance import pooled_variance
from napari_gpubio.optics.sources import Pencil
from tests.light.voxel_samples import make_domain

SHAPE = (12, 12, 16)


@functools.cache
def runs(photons=600, seeds=12):
    labels = np.ones(SHAPE, np.uint8)
    labels[:, :, 8:] = 2
    labels[:, :2] = 0
    media = (Medium(label=label, mua_per_mm=0.2 * label, mus_per_mm=4.0, g=0.8, n=1.0) for label in (1, 2))
    domain, source = make_domain(labels, *media), Pencil(position_mm=(6.0, 6.0, 0.0))
    return [
        simulate(domain, source, LightSettings(photons=photons, seed=seed), device="cpu")
        for seed in range(1, seeds + 1)
    ]


def beyond(errors, values):
    """Share of voxels, of those that claim an error of 20 to 50 %, beyond 4 errors of the mean of the other seeds."""
    count = len(values)
    others = (values.sum(axis=0) - values) / (count - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        claim, z = errors / values, (values - others) / (errors * np.sqrt(count / (count - 1)))
    chosen = (values > 0) & (claim > 0.2) & (claim < 0.5)
    return float((np.abs(z[chosen]) > 4).mean()), float(np.square(errors[chosen]).mean())


def test_dark_voxels_do_not_claim_more_than_they_know():
    values = np.array([result.fluence for result in runs()], np.float64)
    own, helped = (np.array(part, np.float64) for part in zip(*map(_both, runs()), strict=True))
    assert beyond(own, values)[0] > 0.02
    assert beyond(helped, values)[0] < 0.002
    seen = values.mean(axis=0) > 1e-3 * values.mean(axis=0).max()
    scale = values.mean(axis=0)[seen]
    ratio = np.square(helped[:, seen] / scale).mean() / np.square(own[:, seen] / scale).mean()
    assert 0.9 < ratio < 1.8  # light falls by a factor of three from voxel to voxel here, and is rather overstated


def _both(result):
    return result.fluence_error, pooled_error(result)


def test_bright_voxels_and_the_outside_keep_what_they_have():
    result = runs()[0]
    found = pooled_error(result)
    bright = result.relative_error < 0.06
    assert bright.any()
    np.testing.assert_allclose(found[bright], result.fluence_error[bright], rtol=0.2)
    assert not found[result.domain.labels == 0].any()
    assert found.dtype == np.float32


def test_an_unknown_error_stays_unknown():
    result = runs()[0]
    unknown = dataclasses.replace(result, fluence_error=np.full(SHAPE, np.nan, np.float32))
    assert np.isnan(pooled_error(unknown)).all()


def test_light_that_falls_by_half_from_bin_to_bin_is_not_overstated():
    """Photons of one weight: their variance is in proportion to the value, and stays what it is."""
    value = 0.5 ** np.arange(20.0) * np.ones((9, 20))
    found = pooled_variance(value, 2.0 * value, (5, 9))
    np.testing.assert_allclose(found[:, 4:-4], 2.0 * value[:, 4:-4], rtol=0.03)


def test_a_heavy_photon_two_bins_away_takes_nothing_away():
    value, variance = np.ones(21), np.ones(21)
    value[10], variance[10] = 1e3, 1e6
    found = pooled_variance(value, variance, (9,))
    assert (found[[8, 12]] > 20.0 * variance[8]).all()
    assert found[10] < variance[10]
