"""What standard errors of bins in the dark are worth, against a run of 8e8 photons."""

import numpy as np
import pytest

from napari_gpubio.layered.presets import SKIN
from napari_gpubio.layered.run import _pooled, simulate
from napari_gpubio.layered.settings import LayeredSettings, ring_area_mm2
from napari_gpubio.optics.estimates import Estimates
from tests.light.voxel_samples import check_z

FACTOR = (5, 10)  # bins of the reference in one of ours
SETTINGS = {"dr_mm": 0.5, "dz_mm": 0.2, "radial_bins": 40, "depth_bins": 50, "absorption": "drop"}


def published(shared_data):
    """A(r, z) of skin and its error in our bins, from the published finer ones, 1/mm^3."""
    with np.load(shared_data / "light" / "skin7_600nm_MTref_8e8.npz") as file:
        fine, error = (file[name].astype(np.float64) * 1e-3 for name in ("A_rz", "A_rz_sem"))  # from 1/cm^3
    areas = (2 * np.pi * (np.arange(200) + 0.5) * 0.1**2)[:, None]

    def joined(values):
        return (values * 0.02).reshape(40, FACTOR[0], 50, FACTOR[1]).sum(axis=(1, 3))

    unit = ring_area_mm2(LayeredSettings(**SETTINGS))[:, None] * 0.2
    return joined(fine * areas) / unit, np.sqrt(joined((error * areas) ** 2 * 0.02)) / unit


def test_bins_in_the_dark_do_not_claim_more_than_they_know(shared_data):
    """Batches alone would leave 1 of 10 bins that claim 35 to 50 % beyond 4 of their errors, some by 80."""
    expected, its_error = published(shared_data)
    z, trusted = [], []
    for seed in range(1, 5):
        found = simulate(SKIN, LayeredSettings(photons=6000, seed=seed, **SETTINGS), device="cpu").A_rz
        known = expected > 0
        both = known & found.trusted
        z.append((found.value - expected)[both] / np.hypot(found.error, its_error)[both])
        trusted.append(found.trusted[known].mean())
    z = np.concatenate(z)
    assert np.mean(trusted) > 0.2
    assert (np.abs(z) > 4).mean() < 0.005
    assert np.abs(z).max() < 30
    assert 0.9 < np.sqrt(np.mean(z**2)) < 1.15


@pytest.mark.parametrize("slope", [0.0, 0.3])
def test_neighbors_leave_the_mean_variance_alone(slope):
    """Counts of photons in batches, flat or falling from bin to bin: their variances agree on average."""
    random, shape = np.random.default_rng(1), (12, 21)
    mean = 2.0 * np.exp(-slope * np.arange(21)) * np.ones(shape)
    batches = random.poisson(mean, (400, 16, *shape))
    value, error = batches.mean(axis=1), batches.std(axis=1, ddof=1) / 4.0
    found = np.array([_pooled(Estimates(v, e), np.ones(shape)).error for v, e in zip(value, error, strict=True)])
    inner = (slice(None), slice(None, -1), slice(4, -5))
    ratio = np.square(found[inner]).mean() / np.square(error[inner]).mean()
    assert 0.97 < ratio < (1.03 if slope == 0 else 1.1)


def test_values_stay_as_they_were(shared_data):
    result = simulate(SKIN, LayeredSettings(photons=400, **SETTINGS), device="cpu")
    check_z((result.A_rz.value * ring_area_mm2(result.settings)[:, None] * 0.2).sum() - 0.39, 0.02)
