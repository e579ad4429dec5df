"""Profiles of an image along bundles."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.diffusion.io.dwi import read_volume
from napari_gpubio.diffusion.regions import Sphere
from napari_gpubio.tractograms.bundles import profile
from napari_gpubio.tractograms.io import read_tractogram
from napari_gpubio.tractograms.model import Tractogram
from tests.described import check_described
from tests.tractograms.bundles.test_clusters import packed

# Of CC_7 at nodes 0, 11, ... 99: DIPY 1.12's afq_profile, without weights, with its own, and with the right distance.
CALLOSUM = {
    "none": [0.21702, 0.30149, 0.34454, 0.37264, 0.41957, 0.42618, 0.38049, 0.34156, 0.29153, 0.18142],
    "dipy": [0.23565, 0.32051, 0.34726, 0.37364, 0.40213, 0.40332, 0.36577, 0.33913, 0.30059, 0.20394],
    "afq": [0.23667, 0.32045, 0.34502, 0.37238, 0.40464, 0.40715, 0.36676, 0.34024, 0.30025, 0.20522],
}
RAMP = np.broadcast_to(np.arange(40.0)[:, None, None], (40, 20, 20))


def bundle(fibers: int = 50, seed: int = 0) -> Tractogram:
    """Noisy lines of 5 to 30 points from x = 5 to 35, every third one reversed."""
    rng, lines = np.random.default_rng(seed), []
    for n in range(fibers):
        x = np.sort(np.concatenate([[5, 35], rng.uniform(5, 35, rng.integers(3, 28))]))
        line = np.stack([x, *np.broadcast_to(rng.normal(10, 1.5, (2, 1)), (2, len(x)))], 1)
        lines.append(line[:: -1 if n % 3 == 2 else 1])
    return packed(lines)


@pytest.mark.parametrize("weighting", CALLOSUM)
def test_a_real_callosum_has_the_profile_that_dipy_finds(shared_data, weighting):
    fibers = read_tractogram(shared_data.parent / "reference/code/hardi/CC_7.tck")
    image, affine = read_volume(shared_data / "dwi/whole_brain_b1000/FA.nii.gz")
    found = profile(fibers, image, affine, weighting=weighting, start=0)
    np.testing.assert_allclose(found.mean[::11], CALLOSUM[weighting], atol=1e-4)
    assert (found.counts == 130).all()


def test_fibers_run_from_left_to_right_and_those_that_do_not_are_reported():
    found = profile(bundle(), RAMP, np.eye(4), 31)
    np.testing.assert_allclose(found.mean, np.linspace(5, 35, 31), atol=1e-5)
    np.testing.assert_allclose(found.line_mm[:, 0], found.mean, atol=1e-5)
    assert found.turned.tolist() == [n % 3 == 2 for n in range(50)]
    assert found.notes == ("16 of 50 fibers were reversed",)


def test_another_profile_that_starts_from_its_line_is_the_same():
    first = profile(bundle(), RAMP, np.eye(4), 20)
    again = profile(bundle(), RAMP, np.eye(4), 20, start=first.line_mm)
    assert (again.turned == first.turned).all()
    other = profile(bundle(seed=1), RAMP, np.eye(4), 20, start=first.line_mm[::-1])
    np.testing.assert_allclose(other.mean, first.mean[::-1], atol=1e-5)


STARTS = {
    "a region": Sphere(name="right", center_mm=(35, 10, 10), radius_mm=4),
    "a fiber": 2,
    "a line": [(30, 10, 10), (20, 12, 10), (10, 10, 10)],
}


@pytest.mark.parametrize("start", STARTS)
def test_the_first_node_is_where_the_user_says(start):
    found = profile(bundle(), RAMP, np.eye(4), 7, start=STARTS[start])
    np.testing.assert_allclose(found.mean, np.linspace(35, 5, 7), atol=1e-5)


@pytest.mark.parametrize("weighting", ["afq", "none"])
def test_each_node_has_the_statistics_of_a_direct_computation(weighting):
    image = np.random.default_rng(3).random((40, 20, 20))
    found = profile(bundle(), image, np.eye(4), 12, weighting)
    lines = np.array([np.linspace(*(f[[0, -1]] if f[0, 0] < f[-1, 0] else f[[-1, 0]]), 12) for f in bundle()])
    lines[..., 0] += 0.3 * np.random.default_rng(4).normal(size=lines.shape[:2])  # no covariance may be singular
    offsets = np.arange(0, 50 * 12 + 1, 12)
    ragged = Tractogram(points=lines.reshape(-1, 3), offsets=offsets, affine=np.eye(4), shape=(40, 20, 20))
    found = profile(ragged, image, np.eye(4), 12, weighting, start=0)
    for node in range(12):
        values = found.values[:, node]
        weights = np.ones(50)
        if weighting == "afq":
            from napari_gpubio.tractograms.bundles import resample

            at = resample(ragged, 12)[:, node]
            away = at - at.mean(0)
            weights = 1 / np.sqrt(np.einsum("fi,ij,fj->f", away, np.linalg.inv(np.cov(at.T, ddof=0)), away))
        weights /= weights.sum()
        mean = weights @ values
        sd = np.sqrt(weights @ (values - mean) ** 2 / (1 - weights @ weights))
        expected = [mean, sd, sd * np.sqrt(weights @ weights)]
        np.testing.assert_allclose([found.mean[node], found.sd[node], found.se[node]], expected, rtol=1e-9)


def test_standard_errors_without_weights_are_those_of_a_mean():
    found = profile(bundle(), np.random.default_rng(3).random((40, 20, 20)), np.eye(4), 9, "none")
    np.testing.assert_allclose(found.sd, found.values.std(axis=0, ddof=1), rtol=1e-9)
    np.testing.assert_allclose(found.se, found.sd / np.sqrt(50), rtol=1e-9)


@pytest.mark.parametrize("fibers", [1, 2, 3])
def test_few_fibers_and_flat_bundles_have_equal_weights(fibers):
    found = profile(bundle(fibers), RAMP, np.eye(4), 5)
    np.testing.assert_allclose(found.weights, 1 / fibers)
    assert np.isnan(found.sd).all() == (fibers == 1)


def test_a_fiber_counts_only_where_the_image_has_a_value():
    image = np.array(RAMP)
    image[30:] = np.nan
    found = profile(bundle(), image, np.eye(4), 31)
    assert found.counts.tolist() == [50] * 25 + [0] * 6
    assert np.isnan(found.mean[25:]).all()
    np.testing.assert_allclose(found.line_mm[:, 0], np.linspace(5, 35, 31), atol=1e-5)
    assert "6 of 31 nodes" in found.notes[-1]


def test_no_fibers_have_an_empty_profile():
    found = profile(packed([]), RAMP, np.eye(4), 5)
    assert found.counts.tolist() == [0] * 5
    assert np.isnan(found.mean).all()


WRONG = {
    "a weighting that is not there": ({"weighting": "mean"}, "afq, none, dipy"),
    "one node": ({"nodes": 1}, "at least 2"),
    "a fiber that is not there": ({"start": 50}, "0 to 49"),
    "a line of one point": ({"start": [(1, 2, 3)]}, "two or more points"),
    "a series": ({"image": np.zeros((4, 4, 4, 2))}, "one volume"),
    "an image elsewhere": ({"affine": np.diag([1, 1, 1, 1]) + np.eye(4, k=3) * 500}, "same subject"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_done_is_reported(case):
    changed, sentence = WRONG[case]
    with pytest.raises(InvalidInput, match=sentence):
        profile(bundle(), **{"image": RAMP, "affine": np.eye(4), **changed})


def test_it_shows_itself():
    found = profile(bundle(), RAMP, np.eye(4), 31)
    check_described(found, "profile", "along the bundle")
    frame = found.to_dataframe()
    np.testing.assert_allclose(frame["x_mm"], frame["mean"], atol=1e-5)
