"""The bootstrap of fibers in FODs: what is drawn, how far it spreads, what depends on what."""

import dataclasses
import json
import threading

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio import cli
from napari_gpubio.core.device import CPU, Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.space import apply_affine
from napari_gpubio.core.steps import drive
from napari_gpubio.diffusion import DiffusionScan, Response, deconvolve
from napari_gpubio.diffusion.fods.estimate import fit_zonal
from napari_gpubio.diffusion.fods.harmonics import harmonics
from napari_gpubio.diffusion.fods.rows import search_steps
from napari_gpubio.diffusion.fods.settings import PeakSettings
from napari_gpubio.diffusion.io import read_fods, write_fods
from napari_gpubio.diffusion.kernels.peaks.problem import PeakProblem
from napari_gpubio.diffusion.phantom import load_brain_phantom
from napari_gpubio.diffusion.phantom.brain import spread_directions
from napari_gpubio.fibers import FodBootstrapSettings, FromFod, Principal, SDStream, bootstrap, bootstrap_steps, track
from napari_gpubio.fibers.kernels.bootstrap.signals import draw_signals
from napari_gpubio.fibers.settings import METHODS
from napari_gpubio.fibers.uncertainty import fod_repeats, profile_interval, repeats
from napari_gpubio.fibers.uncertainty.fod_repeats import fod_repeats_steps
from napari_gpubio.fibers.uncertainty.fod_residuals import residual_order, signal_draws, signal_fit
from napari_gpubio.tractograms import maps
from tests.diffusion.fods.scan_samples import everywhere, fiber_signals, noisy, scan_of

AFFINE = np.array([[-2.0, 0, 0, 12], [0, 2.0, 0, -10], [0, 0, 2.0, 4], [0, 0, 0, 1]])
SHAPE = (12, 7, 6)
SEEDS = [(1.0, -4.0, 9.0), (1.0, -3.0, 10.0)]
AXES = np.array([[0.98, 0.1, 0.17], [0.2, 0.95, -0.24]])  # 72 degrees apart
MAIN = AXES[0] / np.linalg.norm(AXES[0])
SHARES = np.array([[0.6, 0.4]])
REPEATS = 4
STEPS = {"sd_stream": 0.5, "ifod2": 1.0}


def table(directions):
    return np.r_[0, np.full(directions, 3000.0)], np.concatenate([np.zeros((1, 3)), spread_directions(directions)])


def response_of(bvals, directions):
    shell, fiber = bvals > 0, np.array([[0.0, 0.0, 1.0]])
    signals = fiber_signals(fiber[None], bvals[shell], directions[shell])
    return Response(coefficients=fit_zonal(signals, directions[shell], fiber, 8)[None], bvals=(3000,))


def voxels_of_crossing(count, directions, snr):
    """A scan of voxels that differ by their noise alone, and its FODs."""
    bvals, gradients = table(directions)
    signals = np.tile(fiber_signals(AXES[None], bvals, gradients, SHARES), (count, 1))
    scan = scan_of(noisy(signals, snr, 3), bvals, gradients)
    return scan, deconvolve(scan, response_of(bvals, gradients), everywhere(scan), device="cpu")


def block(snr, directions=45):
    """The crossing in every voxel of a block; without noise its signals are harmonics of order 6."""
    bvals, gradients = table(directions)
    signals = np.tile(fiber_signals(AXES[None], bvals, gradients, SHARES), (int(np.prod(SHAPE)), 1))
    if np.isinf(snr):
        signals[:, 1:] = signals[:, 1:] @ signal_fit(gradients[1:]).hat.T
    else:
        signals = noisy(signals, snr, 5)
    data = signals.reshape(*SHAPE, -1).astype(np.float32)
    return DiffusionScan(data=data, bvals=bvals, directions=gradients, affine=AFFINE)


def fods_in(scan, response=None, mask=None):
    response = response or response_of(scan.bvals, scan.directions)
    return deconvolve(scan, response, everywhere(scan) if mask is None else mask, device="cpu")


def run(scan, field, method="sd_stream", count=None, device="cpu", **changes):
    resampling = FodBootstrapSettings(**{"repeats": REPEATS, "kept_repeats": 3, **changes})
    directions = Principal() if count is None else FromFod(count=count)
    settings = METHODS[method](step_mm=STEPS[method], min_length_mm=4.0, max_length_mm=250.0)
    return bootstrap(scan, SEEDS, directions, settings, resampling, field=field, device=device)


@pytest.fixture(scope="module")
def scan():
    return block(25.0)


@pytest.fixture(scope="module")
def field(scan):
    return fods_in(scan)


@pytest.fixture(scope="module")
def found(scan, field):
    return run(scan, field)


def whole(shape):
    x, y, z = (slice(0, n) for n in shape)
    return x, y, z


def repeats_in(scan, field, box=None, seed=1):
    return drive(fod_repeats_steps(scan, field, box or whole(field.shape), seed, CPU, None))


def test_fods_of_a_file_of_this_package_are_drawn_again(scan, field, found, tmp_path):
    """The JSON file beside them has their response and settings."""
    write_fods(tmp_path / "fod.nii.gz", field)
    again = run(scan, read_fods(tmp_path / "fod.nii.gz"))
    np.testing.assert_allclose(again.probability, found.probability, atol=1e-6)
    facts = json.loads((tmp_path / "fod.json").read_text())
    for change in ({"deconvolution": {"lmax": 8, "warp": 1}}, {"responses": [{"bvals": [3000]}]}, {"responses": [3]}):
        (tmp_path / "fod.json").write_text(json.dumps(facts | change))
        with pytest.raises(InvalidInput, match="JSON file tells of their deconvolution cannot be used"):
            run(scan, read_fods(tmp_path / "fod.nii.gz"))
    (tmp_path / "fod.json").write_text(json.dumps(facts | {"responses": 3, "deconvolution": None}))
    with pytest.raises(InvalidInput, match="as those of other programs"):
        run(scan, read_fods(tmp_path / "fod.nii.gz"))
    (tmp_path / "fod.json").unlink()
    with pytest.raises(InvalidInput, match="as those of other programs"):
        run(scan, read_fods(tmp_path / "fod.nii.gz"))


# -- what is drawn -----------------------------------------------------------------------------------------------------


def main_peaks(rows):
    """The peak of each row that is nearest to the main fiber, shape (M, 3)."""
    peaks, _ = drive(search_steps(PeakProblem(coefficients=rows, settings=PeakSettings()), CPU))
    cosines = peaks[..., :3] @ MAIN
    best = np.abs(cosines).argmax(axis=1)[:, None]
    return np.take_along_axis(peaks[..., :3] * np.sign(cosines)[..., None], best[..., None], axis=1)[:, 0]


def spread_deg(peaks):
    """Root mean square of the angles to the mean axis, for peaks (..., R, 3)."""
    axes = np.linalg.eigh(np.einsum("...ri,...rj->...ij", peaks, peaks))[1][..., -1]
    cosines = np.abs(np.einsum("...ri,...i->...r", peaks, axes)).clip(0, 1)
    return np.rad2deg(np.sqrt((np.arccos(cosines) ** 2).mean(axis=-1)))


@pytest.mark.parametrize("directions", [45, 60])
def test_the_spread_of_repeats_is_that_of_the_noise(directions):
    """The main peak of a crossing, signal-to-noise ratio 25.

    The standard error of the ratio is about 5 %: 3 % of the spread of 300 realizations of noise, which is a root mean
    square of two components each, and 4 % of the mean of 60 voxels, which differ by a third.
    """
    scan, fods = voxels_of_crossing(300, directions, snr=25.0)
    realizations = main_peaks(fods.coefficients[:, 0, 0])
    drawn, few = repeats_in(scan, fods, (slice(0, 60), slice(0, 1), slice(0, 1))), 24
    peaks = np.stack([main_peaks(drawn.draw(n, CPU)) for n in range(few)], axis=1)
    spread = np.sqrt((spread_deg(peaks) ** 2).mean())
    assert spread / spread_deg(realizations) == pytest.approx(1.0, abs=0.25)


def test_residuals_are_those_of_a_fit_over_their_leverages():
    directions = spread_directions(45)
    signals = np.random.default_rng(0).normal(300.0, 30.0, (9, 45)).astype(np.float32)
    fit, basis = signal_fit(directions), harmonics(directions, 6)
    draws = signal_draws(signals, fit, np.arange(9, dtype=np.uint32), 1)
    q, _ = np.linalg.qr(basis)
    fitted = basis @ np.linalg.lstsq(basis, signals.T.astype(float))[0]
    scaled = ((signals.T - fitted) / np.sqrt(1 - (q**2).sum(axis=1))[:, None]).T
    np.testing.assert_allclose(draws.fitted, fitted.T, rtol=1e-6)
    np.testing.assert_allclose(draws.residuals, scaled - scaled.mean(axis=1, keepdims=True), atol=1e-3)


def test_draws_are_fair_and_belong_to_seed_repeat_and_voxel():
    """A mean residual of one voxel over 300 repeats has a standard error of 1 / sqrt(300) of the residuals' size."""
    signals = np.random.default_rng(0).normal(300.0, 30.0, (40, 45)).astype(np.float32)
    draws = signal_draws(signals, signal_fit(spread_directions(45)), np.arange(40, dtype=np.uint32), 1)
    size = draws.residuals.std(axis=1)[:, None]
    added = np.stack([draw_signals(draws, n) - draws.fitted for n in range(300)]) / size
    assert np.abs(added.mean(axis=0)).max() * np.sqrt(300) < 5  # of 1800 z-scores
    assert added.var() == pytest.approx(1.0, abs=0.02)
    some = draw_signals(draws, 3)
    np.testing.assert_array_equal(draw_signals(draws, 3), some)
    for n in (0, 39):
        own = np.float32(draws.fitted[n][:, None] + draws.residuals[n])
        assert (own == some[n][:, None]).any(axis=1).all()
    others = (draws._replace(seed=np.uint64(2)), draws)
    for other, repeat in zip(others, (3, 4), strict=True):
        different = (draw_signals(other, repeat) - draws.fitted) / size
        assert abs((different * added[3]).mean()) * np.sqrt(added[3].size) < 4
    assert abs((added[3][::-1] * added[3]).mean()) * np.sqrt(added[3].size) < 5


def test_a_second_draw_of_signals_is_added_to_the_first(scan, field, monkeypatch):
    drawn, deconvolved = repeats_in(scan, field, (slice(3, 5), slice(2, 4), slice(1, 3))), []

    def rows(problem, *__):
        deconvolved.append(problem.signals)
        yield from ()
        return np.ones((8, 45), np.float32), None, 8

    monkeypatch.setattr(fod_repeats, "deconvolved_rows", rows)
    drawn.draw(2, CPU, twice=True)
    draws = drawn._draws
    expected = draw_signals(draws, 2) + draw_signals(draws, repeats.SECOND + 2) - draws.fitted
    np.testing.assert_allclose(deconvolved, [np.maximum(expected, 0)], rtol=1e-6)


def test_signals_are_not_negative():
    signals = np.random.default_rng(0).exponential(1.0, (20, 45)).astype(np.float32)
    draws = signal_draws(signals, signal_fit(spread_directions(45)), np.arange(20, dtype=np.uint32), 1)
    assert (draws.fitted.min() + draws.residuals.min()) < 0
    assert draw_signals(draws, 0).min() == 0


def test_the_order_leaves_residuals():
    assert [residual_order(n) for n in (19, 31, 32, 60, 74, 75, 300)] == [4, 4, 6, 6, 6, 8, 8]
    with pytest.raises(InvalidInput, match="18 directions"):
        residual_order(18)


def test_a_repeat_is_the_same_in_every_box(scan, field):
    box = (slice(2, 9), slice(1, 5), slice(3, 6))
    everything = repeats_in(scan, field).draw(5, CPU).reshape(*SHAPE, -1)
    part = repeats_in(scan, field, box).draw(5, CPU)
    np.testing.assert_array_equal(part, everything[box].reshape(len(part), -1))


def test_a_voxel_without_a_draw_keeps_its_fod(scan, field):
    drawn = repeats_in(scan, field)
    drawn._draws.fitted[7], drawn._draws.residuals[7] = -1000.0, 0.0  # all signals become zero
    np.testing.assert_array_equal(drawn.draw(0, CPU)[7], field.coefficients.reshape(-1, 45)[7])


# -- fibers ------------------------------------------------------------------------------------------------------------


def test_the_fibers_of_the_fit_are_those_of_tracking(scan, field, found):
    settings = SDStream(step_mm=0.5, min_length_mm=4.0, max_length_mm=250.0)
    expected = track(field, SEEDS, Principal(), settings, device="cpu")
    assert len(expected) == 2
    np.testing.assert_array_equal(found.fibers.points, expected.points)


def test_without_noise_only_the_tracking_has_a_spread():
    exact = block(np.inf)
    fods = fods_in(exact)
    still, moving = run(exact, fods), run(exact, fods, "ifod2", count=4)
    assert np.ptp(still.numbers["length_mm"]) < 1e-3
    np.testing.assert_array_equal(still.visits, REPEATS * maps.mask(still.fibers))
    assert len(np.unique(moving.numbers["length_mm"])) == REPEATS
    assert any("ifod2" in note for note in moving.notes)
    assert not any("sd_stream" in note for note in still.notes)


def test_visits_count_repeats_and_not_fibers(scan, field):
    result = run(scan, field, "ifod2", count=3, kept_repeats=100)
    visits = np.zeros(SHAPE, int)
    for repeat in range(REPEATS):
        visits += maps.mask(result.kept.select(result.kept.per_fiber["repeat"] == repeat))
    np.testing.assert_array_equal(result.visits, visits)
    assert result.visits.max() == REPEATS
    assert 0 < result.probability[result.visits > 0].min() < 0.5


def test_numbers_and_profiles_have_intervals(found):
    assert found.complete
    assert found.repeats == REPEATS
    interval = found.interval("mean_fod")
    assert interval.low < interval.estimate < interval.high
    assert found.parameters["deconvolution"]["lmax"] == 8
    assert "order 6" in found.notes[0]
    assert (profile_interval(found, "fod").high > profile_interval(found, "fod").low).any()


def test_threads_and_more_repeats_change_no_bit(scan, field, found, monkeypatch):
    monkeypatch.setattr(repeats, "_THREADS_ON_CPU", 1)
    more = run(scan, field, repeats=REPEATS + 1)
    np.testing.assert_array_equal(more.kept.points, found.kept.points)
    for name, values in found.numbers.items():
        np.testing.assert_array_equal(more.numbers[name][:REPEATS], values)
    assert (run(scan, field, random_seed=2).visits != found.visits).any()


def test_a_wider_box_has_the_same_fibers(scan, field):
    """Positions are in voxels of the box, whose single precision rounds them."""
    narrow, wide = run(scan, field, margin_mm=4.0), run(scan, field, margin_mm=1000.0)
    assert np.isfinite(narrow.numbers["length_mm"]).all()
    for name in ("length_mm", "mean_fod"):
        np.testing.assert_allclose(wide.numbers[name], narrow.numbers[name], rtol=0.02)


def test_by_default_one_deterministic_fiber_leaves_a_seed(scan, field):
    result = bootstrap(scan, SEEDS, resampling=FodBootstrapSettings(repeats=2), field=field, device="cpu")
    assert len(result.fibers) == 2
    assert result.fibers.parameters["tracking"]["kind"] == "sd_stream"


def test_a_stop_keeps_the_repeats_that_were_done(scan, field):
    stop, resampling = threading.Event(), FodBootstrapSettings(repeats=1000)
    steps = bootstrap_steps(scan, SEEDS, resampling=resampling, field=field, device="cpu", stop=stop)
    try:
        while True:
            if next(steps).message == "bootstrap":
                stop.set()
    except StopIteration as end:
        result = end.value
    assert 1 <= result.repeats < 20
    assert not result.complete
    assert len(result.numbers["length_mm"]) == result.repeats


def test_a_repeat_that_is_stopped_on_its_way_does_not_count(scan, field):
    stop = threading.Event()
    drawn = drive(fod_repeats_steps(scan, field, whole(SHAPE), 1, CPU, stop))
    stop.set()
    assert drawn.draw(0, CPU) is None


def test_the_verb_draws_fods(tmp_path, capsys):
    scan = load_brain_phantom()
    places = apply_affine(scan.affine, np.moveaxis(np.indices(scan.shape), 0, -1))
    near = (np.linalg.norm(places - (0.0, -5.0, 22.0), axis=-1) < 14).astype(np.uint8)
    nib.save(nib.Nifti1Image(near, scan.affine), tmp_path / "mask.nii.gz")
    options = ["--deconvolution-lmax", "4", "--seed", "0", "-5", "22", "--repeats", "2", "--device", "cpu"]
    places = ["--mask", str(tmp_path / "mask.nii.gz"), "--out", str(tmp_path / "probability.nii.gz")]
    dwi = str(sample_path("brain_phantom/dwi.nii.gz"))
    assert cli.main(["bootstrap-fods", dwi, *options, *places]) == 0
    assert "mean_fod," in capsys.readouterr().out
    assert nib.load(tmp_path / "probability.nii.gz").get_fdata().max() == 1
    assert cli.main(["bootstrap-fods", dwi, *options, *places, "--force", "--method", "eudx"]) != 0
    assert "choose one of ifod2" in capsys.readouterr().err


# -- what is refused ---------------------------------------------------------------------------------------------------


def refused(scan, field, match, method="sd_stream"):
    with pytest.raises(InvalidInput, match=match):
        bootstrap(scan, SEEDS, method=METHODS[method](), field=field, device="cpu")


def test_fods_that_cannot_be_drawn_again_are_refused(scan, field):
    two = {**field.parameters, "responses": 2 * field.parameters["responses"]}
    refused(scan, dataclasses.replace(field, parameters=two), "2 tissues")
    refused(scan, dataclasses.replace(field, parameters={}), "do not tell")
    refused(scan, field, "hamiltonian", method="hamiltonian")
    refused(scan, dataclasses.replace(field, affine=np.eye(4)), "grid")
    refused(block(25.0, directions=18), field, "18 directions")
    refused(dataclasses.replace(scan, data=scan.data[::-1].copy()), field, "not those of this scan")


# -- GPU ---------------------------------------------------------------------------------------------------------------


def check_draws(scan, field, box):
    drawn = repeats_in(scan, field, box)
    np.testing.assert_allclose(drawn.draw(3, Device("cuda", (0,))), drawn.draw(3, CPU), atol=1e-5)


def check_gpu(scan, field, repeats):
    cpu, gpu = (run(scan, field, repeats=repeats, device=device) for device in ("cpu", "cuda:0"))
    for name, values in cpu.numbers.items():
        np.testing.assert_allclose(gpu.numbers[name], values, rtol=1e-3, atol=1e-4)
    assert (gpu.visits != cpu.visits).mean() < 1e-2


def test_the_host_code_of_a_gpu_finds_what_the_cpu_finds(fake_gpu, scan, field):
    fake_gpu()
    check_draws(scan, field, (slice(3, 5), slice(2, 4), slice(1, 3)))


@pytest.mark.gpu
def test_a_gpu_finds_what_the_cpu_finds(scan, field):
    check_draws(scan, field, whole(SHAPE))
    check_gpu(scan, field, repeats=20)
