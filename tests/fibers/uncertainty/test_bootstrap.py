"""The bootstrap of fibers: where they pass, what depends on what, and what is kept."""

import dataclasses
import threading

import numpy as np
import pytest

from napari_gpubio.core.device import CPU
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.tensor_components import fractional_anisotropy
from napari_gpubio.diffusion import DiffusionScan, FitSettings, TensorField, fit_tensors
from napari_gpubio.diffusion.kernels.tensors.problem import design_matrix
from napari_gpubio.diffusion.phantom.brain import rician, spread_directions
from napari_gpubio.fibers import BootstrapSettings, Cone, Hamiltonian, Principal, bootstrap, bootstrap_steps, track
from napari_gpubio.fibers.kernels.bootstrap import cpu
from napari_gpubio.fibers.kernels.rays.problem import continued
from napari_gpubio.fibers.uncertainty import profile_interval
from napari_gpubio.fibers.uncertainty.repeats import SECOND, Margin, Place, TensorRepeats
from napari_gpubio.fibers.uncertainty.residuals import draw_problem
from napari_gpubio.tractograms import maps
from napari_gpubio.tractograms.bundles.settings import ProfileSettings
from napari_gpubio.tractograms.io import read_tractogram

AFFINE = np.array([[-2.0, 0, 0, 40], [0, 2.0, 0, -30], [0, 0, 2.0, 10], [0, 0, 0, 1]])
SHAPE = (24, 14, 12)
SEEDS = [(18.0, -16.0, 20.0), (18.0, -15.0, 22.0)]
STRAIGHT = Principal()
TENSOR = [1.6, 0.3, 0.3, 0.2, 0.0, 0.0]  # um^2/ms, nearly along x


def slab(snr):
    """One tensor everywhere."""
    bvals = np.concatenate([[0, 0], np.full(16, 1000.0)])
    directions = np.concatenate([np.zeros((2, 3)), spread_directions(16)])
    clean = np.tile(1000 * np.exp(design_matrix(bvals, directions) @ [*TENSOR, 0]), (int(np.prod(SHAPE)), 1))
    data = clean if np.isinf(snr) else rician(clean, 1000 / snr, 3)
    return DiffusionScan(data=data.reshape(*SHAPE, -1), bvals=bvals, directions=directions, affine=AFFINE)


def run(scan, least_mm=10.0, **changes):
    resampling = BootstrapSettings(**{"repeats": 24, "kept_repeats": 5, **changes})
    field = fit_tensors(scan, np.ones(SHAPE, bool), device="cpu")
    settings = Hamiltonian(step_mm=1.0, min_length_mm=least_mm)
    return bootstrap(scan, SEEDS, STRAIGHT, settings, resampling, field=field, device="cpu")


@pytest.fixture(scope="module")
def noisy():
    return run(slab(20))


def test_repeats_of_an_exact_fit_are_its_fibers():
    result = run(slab(np.inf), repeats=3)
    expected = maps.mask(result.fibers)
    assert len(result.fibers) == 2
    np.testing.assert_array_equal(result.probability, expected)
    for name, values in result.numbers.items():
        assert len(values) == 3
        np.testing.assert_allclose(values, result.of_fit(name), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(result.interval(name), result.of_fit(name), rtol=1e-3, atol=1e-5)
    assert result.notes == ()


def test_the_fibers_of_the_fit_are_those_of_tracking():
    scan = slab(20)
    field = fit_tensors(scan, np.ones(SHAPE, bool), device="cpu")
    settings = Hamiltonian(step_mm=1.0, min_length_mm=46.0)
    expected = track(field, SEEDS, STRAIGHT, settings, device="cpu")
    found = run(scan, least_mm=46.0, repeats=1).fibers
    assert 0 < len(expected) < 3
    np.testing.assert_array_equal(found.points, expected.points)
    assert found.parameters["tracking"] == expected.parameters["tracking"]


def test_visits_count_repeats_and_not_fibers(noisy):
    kept = run(slab(20), kept_repeats=100).kept
    visits = np.zeros(SHAPE, int)
    for repeat in range(24):
        visits += maps.mask(kept.select(kept.per_fiber["repeat"] == repeat))
    np.testing.assert_array_equal(noisy.visits, visits)
    assert noisy.probability.max() == 1
    assert 0 < noisy.probability[noisy.visits > 0].min() < 0.5


def test_fibers_of_the_first_repeats_are_kept_in_their_order(noisy):
    repeats = noisy.kept.per_fiber["repeat"]
    np.testing.assert_array_equal(repeats, np.repeat(np.arange(5), 2))
    first = noisy.kept.select(repeats == 3)
    assert noisy.numbers["length_mm"][3] == pytest.approx(first.per_fiber["length_mm"].mean(), rel=1e-6)
    assert noisy.kept.shape == SHAPE


def test_the_seed_alone_makes_the_difference(noisy):
    np.testing.assert_array_equal(run(slab(20)).visits, noisy.visits)
    assert (run(slab(20), random_seed=2).visits != noisy.visits).any()


def test_more_repeats_begin_with_the_same(noisy):
    more = run(slab(20), repeats=30)
    for name, values in noisy.numbers.items():
        np.testing.assert_array_equal(more.numbers[name][:24], values)


def test_a_box_that_cuts_fibers_off_is_noted(noisy):
    """The fiber runs from side to side of the volume in x; in y a margin of 0 mm leaves no room."""
    narrow = run(slab(5), margin_mm=0.0)
    assert any("margin" in note for note in narrow.notes)
    assert not any("margin" in note for note in noisy.notes)


def test_a_wider_box_draws_the_same_tensors(noisy):
    wide = run(slab(20), margin_mm=1000.0)
    for name in ("length_mm", "mean_fa"):
        np.testing.assert_allclose(wide.numbers[name], noisy.numbers[name], rtol=2e-3)


def test_repeats_without_fibers_are_noted():
    """The fibers of this slab are 46 mm long, give or take."""
    result = run(slab(12), least_mm=46.02)
    empty = np.count_nonzero(result.numbers["fibers"] == 0)
    assert 0 < empty < 24
    assert any(f"{empty} of 24" in note for note in result.notes)
    assert np.isfinite(result.interval("mean_fa").low)


def test_a_stop_keeps_the_repeats_that_were_done():
    scan, stop, previews = slab(20), threading.Event(), []
    steps = bootstrap_steps(scan, SEEDS, STRAIGHT, resampling=BootstrapSettings(repeats=1000), device="cpu", stop=stop)
    try:
        while True:
            step = next(steps)
            if step.message == "bootstrap":
                previews.append(step.preview)
                stop.set()
    except StopIteration as end:
        result = end.value
    assert 1 <= result.repeats < 20
    assert not result.complete
    assert len(result.numbers["mean_fa"]) == result.repeats == len(previews)
    assert previews[0].repeats == 1


def test_numbers_with_noise_added_twice_belong_to_the_repeats(noisy):
    """The draws are shared: twice is nearer to its own repeat than to another, and farther from the fit."""
    assert len(noisy.kept_twice) == len(noisy.kept)
    once, twice = noisy.numbers["mean_fa"], noisy.numbers_twice["mean_fa"]
    assert len(once) == len(twice) == 24
    assert np.abs(twice - once).mean() < np.abs(twice - once[::-1]).mean()
    assert (twice - noisy.of_fit("mean_fa")).std() > 1.1 * (once - noisy.of_fit("mean_fa")).std()


def test_a_second_draw_is_added_to_the_first():
    scan = slab(20)
    problem, inside = draw_problem(
        scan, np.ones(SHAPE, bool), (slice(0, 24), slice(0, 14), slice(0, 12)), FitSettings(), leverage="hc2", seed=1
    )
    draws, drawn = cpu.Run(problem), []
    repeats = TensorRepeats(problem, Place(inside, AFFINE), 1e-6, CPU)
    repeats._field = lambda tensors: (
        drawn.append(tensors.copy()) or TensorField(tensors=tensors.reshape(*SHAPE, 6), mask=inside, affine=AFFINE)
    )
    repeats.trace(3, np.array(SEEDS), STRAIGHT, Hamiltonian(), twice=True)
    (added,) = drawn
    np.testing.assert_allclose(added - draws.draw(3), draws.draw(SECOND + 3) - problem.tensors, atol=1e-15)
    assert np.var(added - problem.tensors) == pytest.approx(2 * np.var(draws.draw(3) - problem.tensors), rel=0.05)


def test_a_higher_level_is_a_wider_interval(noisy):
    narrow, wide = noisy.interval("length_mm", 0.5), noisy.interval("length_mm", 0.9)
    assert wide.low < narrow.low < narrow.estimate < narrow.high < wide.high


def test_results_are_saved(noisy, tmp_path):
    import nibabel as nib

    noisy.save(tmp_path / "new")
    image = nib.load(tmp_path / "new/probability.nii.gz")
    np.testing.assert_allclose(image.get_fdata(), noisy.probability, atol=1e-6)
    np.testing.assert_allclose(image.affine, AFFINE)
    kept = read_tractogram(tmp_path / "new/repeats.trx")
    np.testing.assert_array_equal(kept.per_fiber["repeat"].ravel(), noisy.kept.per_fiber["repeat"])
    assert len(read_tractogram(tmp_path / "new/fibers.trx")) == 2
    rows = (tmp_path / "new/intervals.csv").read_text().splitlines()
    assert len(rows) == 1 + len(noisy.numbers)
    with pytest.raises(InvalidInput, match="probability"):
        noisy.save(tmp_path / "new/probability.nii.gz")


def test_a_field_of_another_grid_is_refused(noisy):
    scan = slab(20)
    field = fit_tensors(scan, np.ones(SHAPE, bool), device="cpu")
    with pytest.raises(InvalidInput, match="grid"):
        bootstrap(scan, SEEDS, field=dataclasses.replace(field, affine=np.eye(4)), device="cpu")


def test_tensors_go_on_beyond_a_mask_as_in_tracking():
    rng = np.random.default_rng(5)
    mask = rng.random((14, 12, 10)) < 0.02
    tensors = np.where(mask[..., None], rng.normal(size=(14, 12, 10, 6)), 0)
    np.testing.assert_allclose(Margin(mask).continued(tensors), continued(tensors, mask), atol=1e-10)
    whole = np.ones_like(mask)
    np.testing.assert_array_equal(Margin(whole).continued(tensors), tensors)


def check_gpu(repeats):
    scan, directions = slab(12), Cone(count=6)
    mask = np.ones(SHAPE, bool)
    mask[:, :3] = False
    field, resampling = fit_tensors(scan, mask, device="cpu"), BootstrapSettings(repeats=repeats)
    cpu, gpu = (
        bootstrap(scan, SEEDS, directions, Hamiltonian(), resampling, field=field, device=device)
        for device in ("cpu", "cuda:0")
    )
    np.testing.assert_allclose(gpu.kept.points, cpu.kept.points, atol=1e-3)
    for name, values in cpu.numbers.items():
        np.testing.assert_allclose(gpu.numbers[name], values, rtol=1e-4, atol=1e-5)
    assert (gpu.visits != cpu.visits).mean() < 1e-3


def test_the_host_code_of_a_gpu_finds_what_the_cpu_finds(fake_gpu):
    fake_gpu()
    check_gpu(repeats=3)


@pytest.mark.gpu
def test_a_gpu_finds_what_the_cpu_finds():
    check_gpu(repeats=40)


# -- profiles ---------------------------------------------------------------------------------------------------------


def test_profiles_have_intervals_that_hold_the_truth_of_a_slab(noisy):
    found = profile_interval(noisy, settings=ProfileSettings(nodes=20))
    assert len(found) == 20
    assert found.repeats == 5
    assert ((found.low <= found.estimate) & (found.estimate <= found.high)).all()
    xx, yy, zz, xy, xz, yz = TENSOR
    truth = fractional_anisotropy(np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])[::-1])
    inner = slice(4, 16)
    assert (np.abs(found.estimate[inner] - truth) < 0.1).all()
    assert ((found.high - found.low)[inner] > 0.001).all()


def test_an_image_tells_of_the_places_alone(noisy):
    x = np.broadcast_to(np.arange(SHAPE[0])[:, None, None], SHAPE).astype(float)
    found = profile_interval(noisy, x, AFFINE, ProfileSettings(nodes=9))
    at_line = (found.line_mm[:, 0] - AFFINE[0, 3]) / AFFINE[0, 0]
    np.testing.assert_allclose(found.estimate + found.bias, at_line, atol=0.05)


def test_profiles_that_cannot_have_an_interval_are_refused(noisy):
    one = dataclasses.replace(noisy, kept=noisy.kept.select(noisy.kept.per_fiber["repeat"] == 0), kept_twice=None)
    with pytest.raises(InvalidInput, match="keep those of more repeats"):
        profile_interval(one)
    with pytest.raises(InvalidInput, match="0 of the kept repeats have fibers"):
        profile_interval(dataclasses.replace(noisy, kept=noisy.kept.select(np.zeros(0, np.int64))))
    none = dataclasses.replace(noisy, fibers=noisy.fibers.select(np.zeros(0, np.int64)))
    with pytest.raises(InvalidInput, match="no fibers, so it has no profile"):
        profile_interval(none)
    with pytest.raises(InvalidInput, match="the points have no number 'md'; they have fa"):
        profile_interval(noisy, "md")
    with pytest.raises(InvalidInput, match="no affine"):
        profile_interval(noisy, np.zeros(SHAPE))
