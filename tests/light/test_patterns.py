"""Patterns that share photons: each has the result of a run of its own, per weight launched, within errors."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.core import memory
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.io.results import load_result, save_result
from napari_gpubio.light.kernels.voxels.patterns import sharing, start_density
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.patterns import simulate_patterns, simulate_patterns_steps
from napari_gpubio.light.run import simulate
from napari_gpubio.light.settings import LightSettings
from napari_gpubio.optics.detectors import Detector
from napari_gpubio.optics.model import Medium
from napari_gpubio.optics.sources import MAX_PATTERNS, Disk, Pattern, Planar
from tests.light.test_photon_backends import DETECTORS, EVERYTHING, scene, settings
from tests.light.voxel_samples import check_z, make_domain
from tests.runs import check_threads_change_nothing

RECTANGLE = Planar(position_mm=(8.0, 8.0, -1.0), width_mm=8.0, height_mm=6.0)
IMAGES = np.random.default_rng(3).random((3, 4, 6)) ** 2
IMAGES[0, :, :3] = 0.0  # dark where others emit
IMAGES[2] = 0.0
IMAGES[2, 1, 4] = 5.0  # a single bright pixel
NEAR = (Detector(position_mm=(12.0, 8.0, 0.0), radius_mm=2.0),)
OTHER = Medium(label=2, mua_per_mm=0.1, mus_per_mm=1.0, g=0.3, n=1.37)


def tissue():
    labels = np.ones((16, 16, 8), np.uint8)
    labels[:, :, 3:] = 2
    return make_domain(labels, Medium(label=1, mua_per_mm=0.02, mus_per_mm=2.0, g=0.6, n=1.37), OTHER)


def alone(k, **changes):
    chosen = LightSettings(**{"photons": 8000, "seed": 9, "exit_map": True, **changes})
    source = RECTANGLE.changed_to(Pattern, pattern=IMAGES[k])
    return simulate(tissue(), source, chosen, detectors=NEAR, device="cpu")


def shared(images=IMAGES, photons=16_000, **changes):
    chosen = LightSettings(**{"photons": photons, "exit_map": True, **changes})
    return simulate_patterns(tissue(), RECTANGLE, images, chosen, detectors=NEAR, device="cpu")


def check_same(found, expected):
    """The tallies of all patterns, and what they make of each."""
    mine, theirs = found.state.to_arrays(), expected.state.to_arrays()
    assert set(mine) == set(theirs)
    for name in set(theirs) - {"detected_photons", "detected_numbers"}:
        np.testing.assert_array_equal(mine[name], theirs[name], err_msg=name)
    for one, other in zip(found, expected, strict=True):
        for name in ("gates", "gates_error", "fluence_error", "half_fluences", "escaped_weight"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
        np.testing.assert_array_equal(one.detected.weight, other.detected.weight)
        np.testing.assert_array_equal(one.detected.photon, other.detected.photon)
        assert repr((one.energy, one.absorbed)) == repr((other.energy, other.absorbed))


# -- what comes out ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results():
    return shared(halves=True, time_gates_ns=(0.0, 0.05, 1.0))


@pytest.mark.parametrize("k", range(3))
def test_each_pattern_has_the_fluence_of_a_run_of_its_own(results, k):
    found, expected = results.of(k), alone(k)
    seen = (found.fluence_error < 0.2 * found.fluence) & (expected.fluence_error < 0.2 * expected.fluence)
    z = ((found.fluence - expected.fluence) / np.hypot(found.fluence_error, expected.fluence_error))[seen]
    assert seen.sum() > 300
    assert 0.85 < np.sqrt(np.mean(z**2)) < 1.3  # errors from 16 batches: 1.07 is expected
    assert found.source.kind == "pattern"
    np.testing.assert_array_equal(found.source.pattern, IMAGES[k])


@pytest.mark.parametrize("k", range(3))
def test_each_pattern_has_the_energies_of_a_run_of_its_own(results, k):
    found, expected = results.of(k), alone(k)
    assert found.energy.specular.value == pytest.approx(expected.energy.specular.value, rel=1e-5)
    for name in ("absorbed", "escaped", "truncated"):
        assert abs(getattr(found.energy, name).z_score(*getattr(expected.energy, name))) < 4, name
    for label in (1, 2):
        assert abs(found.absorbed[label].z_score(*expected.absorbed[label])) < 4
    assert found.detected.detected_weight == pytest.approx(expected.detected.detected_weight, rel=0.4)
    assert 0 < len(found.detected) < len(results.state.detected.photons) + 1
    assert (found.detected.weight > 0).all()


@pytest.mark.parametrize("k", range(3))
def test_everything_is_per_weight_launched(results, k):
    found = results.of(k)
    assert abs(found.energy.total - 1.0) < 1e-6
    assert found.escaped_weight.sum() == pytest.approx(found.energy.escaped.value, rel=1e-5)
    assert (found.absorbed_density.sum() * found.domain.voxel_volume_mm3) == pytest.approx(
        found.energy.absorbed.value, rel=1e-4
    )
    np.testing.assert_allclose(found.half_fluences.mean(axis=0), found.gates, rtol=1e-4, atol=1e-12)
    weight = found.parameters["photon_sharing"]["launched_weight"]
    assert 0.9 < weight / results.launched < 1.1
    assert weight != results.launched


@pytest.mark.long
def test_errors_of_energies_are_those_that_runs_show():
    """Over runs with different seeds; a ratio of weights varies less than its numerator."""
    seeds = 25
    runs = [shared(photons=800, seed=seed).of(0).energy.absorbed for seed in range(seeds)]
    seen = np.std([run.value for run in runs], ddof=1)
    reported = np.sqrt(np.mean([run.error**2 for run in runs]))
    check_z(np.log(seen / reported), np.sqrt(1 / (2 * (seeds - 1)) + 1 / (2 * seeds * 15)), 3.0)


def test_the_scale_of_a_pattern_does_not_matter():
    check_same(shared(IMAGES * np.array([3.0, 1e-3, 7.0])[:, None, None], photons=400), shared(photons=400))


def test_patterns_that_are_alike_have_the_same_result():
    twice = shared(np.stack([IMAGES[1], IMAGES[1]]), photons=800)
    np.testing.assert_allclose(twice.of(0).fluence, twice.of(1).fluence, rtol=0.01, atol=1e-9)
    assert twice.of(0).energy.escaped.value == pytest.approx(twice.of(1).energy.escaped.value, rel=1e-6)


def test_photons_start_where_they_weigh():
    """The density is that of least variance; no weight exceeds the number of patterns."""
    density = start_density(IMAGES)
    problem = VoxelProblem(tissue(), RECTANGLE.changed_to(Pattern, pattern=density), LightSettings())
    problem = sharing(problem, IMAGES)
    assert 1.0 < problem.heaviest <= len(IMAGES) * (1 + 1e-6)
    chances = np.diff(problem.packed_sources[0].pattern.astype(float), prepend=0.0)
    np.testing.assert_allclose(chances @ problem.shares, 1.0, rtol=1e-6)  # the mean weight of every pattern

    def variance(density):
        shares = (IMAGES / IMAGES.sum(axis=(1, 2), keepdims=True)).reshape(3, -1)
        return np.sum(np.square(shares) / (density / density.sum()).ravel())

    assert variance(density) < variance(IMAGES.sum(axis=0) + 1e-9)
    assert variance(density) < variance(np.ones_like(density))


# -- the same bits ----------------------------------------------------------------------------------------------------


def test_patterns_have_the_bits_of_their_backend(fake_gpu):
    fake_gpu()
    source = dataclasses.replace(RECTANGLE, position_mm=(4.5, 3.5, -1.0), width_mm=4.0, height_mm=4.0)
    chosen = settings(700, **EVERYTHING)
    on_cpu, on_gpu = (
        simulate_patterns(scene(), source, IMAGES, chosen, detectors=DETECTORS, device=device)
        for device in ("cpu", "cuda")
    )
    check_same(on_gpu, on_cpu)
    assert all(abs(result.energy.total - 1.0) < 1e-6 for result in on_gpu)
    assert all(len(result.detected) > 5 for result in on_gpu)


def test_threads_change_nothing(request):
    check_threads_change_nothing(request, lambda: shared(photons=2000), check_same)


def test_a_run_goes_on_where_it_was():
    begun = shared(photons=1000, batches=4)
    found = simulate_patterns(
        tissue(), RECTANGLE, IMAGES, LightSettings(photons=1700, exit_map=True, batches=4), detectors=NEAR,
        device="cpu", resume=begun,
    )  # fmt: skip
    # batches of the same length, the last one open
    whole = simulate_patterns(
        tissue(), RECTANGLE, IMAGES, LightSettings(photons=1700, exit_map=True, batches=6), detectors=NEAR, device="cpu"
    )
    assert found.launched == whole.launched == 1700
    for one, other in zip(found, whole, strict=True):
        np.testing.assert_allclose(one.fluence, other.fluence, rtol=1e-5, atol=1e-12)
        assert one.energy.absorbed.value == pytest.approx(other.energy.absorbed.value, rel=1e-6)
    with pytest.raises(InvalidInput, match="another simulation"):
        simulate_patterns(
            tissue(), RECTANGLE, IMAGES[::-1], LightSettings(photons=1700, exit_map=True), detectors=NEAR, device="cpu",
            resume=begun,
        )  # fmt: skip


def test_previews_and_files(tmp_path):
    steps = simulate_patterns_steps(tissue(), RECTANGLE, IMAGES, LightSettings(photons=3000), device="cpu")
    for _ in steps:
        pass
    results = shared(photons=400)
    save_result(tmp_path / "second.npz", results.of(1))
    loaded = load_result(tmp_path / "second.npz")
    np.testing.assert_array_equal(loaded.fluence, results.of(1).fluence)
    assert loaded.parameters["photon_sharing"]["pattern"] == 1
    assert loaded.state is None
    assert len(results) == len(list(results)) == 3


# -- bad input --------------------------------------------------------------------------------------------------------


def broken(value):
    images = IMAGES.copy()
    images[1, 0, 0] = value
    return images


@pytest.mark.parametrize(
    ("images", "words"),
    [
        (IMAGES[0], "have shape .4, 6.; give a stack"),
        (np.zeros((0, 3, 3)), "give a stack"),
        (broken(-1.0), "pattern 2 of 3 must be finite, nowhere negative"),
        (broken(np.nan), "pattern 2 of 3"),
        (np.stack([IMAGES[0], 0 * IMAGES[0]]), "pattern 2 of 2 .* somewhere positive"),
        (np.ones((5000, 1, 1)), "there are 5,000 patterns; at most"),
    ],
)
def test_patterns_that_are_none(images, words):
    with pytest.raises(InvalidInput, match=words):
        shared(images, photons=10)


def test_other_bad_input():
    with pytest.raises(InvalidInput, match="of kind 'disk', and patterns lie on a rectangle"):
        simulate_patterns(tissue(), Disk(position_mm=(8, 8, -1)), IMAGES, device="cpu")
    away = dataclasses.replace(RECTANGLE, direction=(0, 0, -1))
    with pytest.raises(InvalidInput, match="points away"):
        simulate_patterns(tissue(), away, IMAGES, device="cpu")
    with pytest.raises(InvalidInput, match="no pattern 3; give one from 0 to 2"):
        shared(photons=50).of(3)


def test_too_many_patterns_for_the_memory_are_refused(monkeypatch):
    many = np.random.default_rng(1).random((300, 2, 2))
    monkeypatch.setattr(memory, "free_memory_bytes", lambda device: 20 * 2**20)
    with pytest.raises(InvalidInput, match=r"needs about .* take fewer patterns"):
        shared(many, photons=10)
    assert len(many) <= MAX_PATTERNS
