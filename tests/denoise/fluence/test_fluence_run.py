"""The denoising of fluence as a whole: less noise, no bias, and what must hold whatever the fluence."""

import threading

import numpy as np
import pytest

from napari_gpubio.denoise import denoise
from napari_gpubio.denoise.fluence import FluenceSettings, denoise_fluence, denoise_fluence_steps
from napari_gpubio.denoise.fluence.inputs import measure_noise, split_in_two
from tests.denoise.fluence.samples import SHORT, diffuse, poisson_halves
from tests.runs import check_threads_change_nothing, finished, stopped
from tests.sentences import says

SHAPE = (40, 40, 40)
TRUTH = diffuse(SHAPE)
COUNTS = TRUTH * 400 / TRUTH.max()  # of the whole
LIT, BRIGHT = COUNTS > 1, COUNTS > 10  # raw signal / noise above 0 and above 10 dB
INNER = np.zeros(SHAPE, bool)
INNER[8:-8, 8:-8, 8:-8] = True


@pytest.fixture(scope="module")
def runs():
    """Eight runs of 200 counts in the brightest voxel of each half, denoised, and the raw whole."""
    pairs = [poisson_halves(TRUTH, 200, seed) for seed in range(8)]
    return [((a + b) / 2, denoise_fluence(a, b, device="cpu")) for a, b in pairs]


def bias_db(images, where):
    """Mean over truth."""
    return 20 * np.log10((images[..., where] / TRUTH[where]).mean())


def gain_db(raw, filtered):
    """How much the pooled relative variance has fallen."""
    before, after = (np.var(x, axis=0, ddof=1) / TRUTH**2 for x in (raw, filtered))
    return 10 * np.log10(before[LIT].mean() / after[LIT].mean())


def test_diffusion_with_shot_noise_gains_fifteen_db_without_bias(runs):
    """Independent noise is far easier than that of Monte Carlo; a Gaussian of 1 voxel gains 16.5 dB but has bias."""
    raw, found = (np.array(x) for x in ([u for u, _ in runs], [r.image for _, r in runs]))
    assert gain_db(raw, found) > 15
    for where, most in ((INNER & LIT, 0.1), (INNER & BRIGHT, 0.1), (LIT, 0.2), (BRIGHT, 0.2)):  # more at faces
        by_run = [bias_db(image, where) for image in found]
        assert np.std(by_run, ddof=1) / np.sqrt(len(by_run)) < 0.03  # so that the bounds mean something
        assert abs(np.mean(by_run)) < most


def test_the_error_of_the_result_is_the_error_there_is(runs):
    raw, found = (np.array(x) for x in ([u for u, _ in runs], [r.image for _, r in runs]))
    for found_noise, there, worst in (
        (np.mean([r.raw_noise**2 for _, r in runs], axis=0), raw.var(axis=0, ddof=1), 0.1),
        (np.mean([r.noise**2 for _, r in runs], axis=0), ((found - TRUTH) ** 2).mean(axis=0), 0.35),
    ):
        assert np.sqrt((found_noise / TRUTH)[LIT].mean() / (there / TRUTH)[LIT].mean()) == pytest.approx(1, abs=worst)
    result = runs[0][1]
    assert result.photon_multiplier == pytest.approx(10 ** (result.snr_gain_db / 10))
    raw_error, error = (np.sum(((x - TRUTH) ** 2 / TRUTH)[LIT]) for x in (raw[0], found[0]))
    assert result.photon_multiplier < 1.3 * raw_error / error
    assert result.snr_gain_db > 10


def test_far_better_than_non_local_means(runs):
    def error(image):
        return (np.square(image - TRUTH) / TRUTH**2)[LIT].mean()

    raw, result = runs[0]
    assert error(result.image) < 0.25 * error(denoise(raw, device="cpu").image)


def test_an_absorber_with_faces_is_never_worse_than_raw():
    """Along z the fluence falls by 1 / e a voxel beyond a face; only flat windows can help there."""
    x, _, z = np.indices((32, 32, 32))
    truth = np.exp(-0.1 * z - 0.9 * np.maximum(z - 15.5, 0) - 0.01 * (x - 16) ** 2)
    pairs = [poisson_halves(truth, 2000, seed) for seed in range(4)]
    found = np.array([denoise_fluence(*pair, device="cpu").image for pair in pairs])
    plain = np.array([denoise_fluence(*pair, FluenceSettings(flat=False), device="cpu").image for pair in pairs])
    raw = np.array([(a + b) / 2 for a, b in pairs])
    behind = (z >= 16) & (truth * 4000 > 10)
    errors = [(np.square(f - truth) / truth**2)[:, behind].mean() for f in (raw, plain, found)]
    assert errors[2] < 0.2 * errors[0]
    assert errors[2] < 0.5 * errors[1]
    assert abs(20 * np.log10((found / truth)[:, behind].mean())) < 0.1


def test_labels_keep_a_step_of_the_refractive_index():
    labels = (np.indices((24, 24, 24))[2] > 11).astype(np.uint8)
    truth = diffuse((24, 24, 24)) * np.where(labels, 8.0, 1.0)
    pair = poisson_halves(truth, 300)
    face = np.zeros(truth.shape, bool)
    face[:, :, 10:14] = True
    with_labels, without = (
        denoise_fluence(*pair, labels=used, device="cpu").image for used in (labels, np.zeros_like(labels))
    )
    errors = [(np.square(f / truth - 1))[face].mean() for f in (with_labels, without)]
    assert errors[0] < 0.6 * errors[1]


def test_a_cap_keeps_windows_narrow():
    pair = poisson_halves(TRUTH, 200)
    capped = denoise_fluence(*pair, FluenceSettings(flat=False), mueff_per_mm=1.0, device="cpu")
    assert capped.scale_mm.max() == pytest.approx(0.8, rel=1e-6)  # 1.25 / mu_eff = 1.25 mm; the next scale is 1.26
    assert denoise_fluence(*pair, device="cpu").scale_mm.max() > 3
    free = denoise_fluence(*pair, FluenceSettings(flat=False, cap=0.0), mueff_per_mm=1.0, device="cpu")
    assert free.scale_mm.max() > 3


def test_a_single_buffer_is_split():
    raw = [sum(poisson_halves(TRUTH, 200, seed)) / 2 for seed in range(4)]
    results = [denoise_fluence(u, device="cpu") for u in raw]
    assert gain_db(raw, [r.image for r in results]) > 12
    assert "one buffer only: its noise was measured" in results[0].notes[0]
    known = [denoise_fluence(u, noise=np.sqrt(TRUTH.max() / 400 * TRUTH), device="cpu") for u in raw]
    assert abs(bias_db(np.array([r.image for r in known]), INNER & BRIGHT)) < 0.2  # not Monte Carlo noise
    assert "one buffer only: its noise was given" in known[0].notes[0]
    again = denoise_fluence(raw[0], device="cpu")
    np.testing.assert_array_equal(again.image, results[0].image)
    other = denoise_fluence(raw[0], settings=FluenceSettings(seed=2), device="cpu")
    assert (other.image != again.image).any()


def test_halves_of_one_buffer_have_independent_noise():
    rng = np.random.default_rng(3)
    noisy = 10 + rng.normal(size=(60, 60, 60))
    first, second = split_in_two(noisy, 1, np.ones(noisy.shape))
    np.testing.assert_allclose((first + second) / 2, noisy)
    correlation = np.corrcoef(first.ravel(), second.ravel())[0, 1]
    assert abs(correlation) < 4 / np.sqrt(noisy.size)
    assert np.var(first) == pytest.approx(2.0, rel=0.02)


def test_the_noise_of_a_single_volume_is_measured():
    """Noise as alike in neighbors as that of Monte Carlo, on fluence that falls by a third a voxel."""
    smooth = np.exp(-0.3 * np.indices((40, 40, 40))[2])
    first, second = split_in_two(np.zeros_like(smooth), 5, np.ones_like(smooth))
    noise = (first - second) / 2
    found = measure_noise(smooth * (1 + 0.1 * noise))
    inner = (slice(5, -5),) * 3
    assert np.median(found[inner] / (0.1 * smooth[inner])) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("factor", [1e-30, 1e-3, 1e6])
def test_the_unit_does_not_matter(factor):
    pair = poisson_halves(diffuse((16, 14, 18)), 100)
    plain, scaled = (denoise_fluence(*(f * half for half in pair), SHORT, device="cpu") for f in (1.0, factor))
    close = np.abs(scaled.image / factor - plain.image) <= 1e-5 * plain.image
    assert close.mean() > 0.98  # powers of two change nothing; other factors round, which may tip a choice
    exact = denoise_fluence(*(2.0**-60 * half for half in pair), SHORT, device="cpu")
    np.testing.assert_array_equal(exact.image, 2.0**-60 * plain.image)


def test_ten_decades_in_one_volume_stay_finite_and_positive():
    truth = np.exp(-0.6 * np.indices((8, 8, 40))[2])
    rng = np.random.default_rng(4)
    pair = [truth * (1 + 0.1 * rng.normal(size=truth.shape)) for _ in range(2)]
    result = denoise_fluence(*pair, device="cpu")
    assert np.isfinite(result.image).all()
    assert (np.abs(result.image / truth - 1) < 0.3).all()
    assert np.abs(result.image / truth - 1).mean() < 0.6 * np.abs((pair[0] + pair[1]) / 2 / truth - 1).mean()


def test_a_constant_stays_constant():
    pair = np.full((9, 8, 7), 3.0), np.full((9, 8, 7), 3.0)
    pair[1][0, 0, 0] = 3.0000001
    np.testing.assert_allclose(denoise_fluence(*pair, device="cpu").image, 3.0, rtol=2e-6)


def test_flips_and_swapped_halves_commute():
    first, second = poisson_halves(diffuse((14, 15, 16)), 100)
    expected = denoise_fluence(first, second, SHORT, device="cpu").image
    np.testing.assert_array_equal(denoise_fluence(second, first, SHORT, device="cpu").image, expected)
    turned = denoise_fluence(first[::-1, :, ::-1], second[::-1, :, ::-1], SHORT, device="cpu").image[::-1, :, ::-1]
    assert (np.abs(turned - expected) <= 1e-5 * expected).mean() > 0.98  # sums of other order may tip a choice


def test_threads_change_no_bit(request):
    pair = poisson_halves(diffuse((48, 40, 40)), 100)

    def run():
        result = denoise_fluence(*pair, SHORT, device="cpu")
        return np.stack([result.image, result.noise])

    check_threads_change_nothing(request, run, np.testing.assert_array_equal)


def test_gates_are_denoised_one_by_one():
    pairs = [poisson_halves(diffuse((12, 13, 14), k), 100 * k) for k in (0.1, 0.5)]
    first, second = (np.stack([*halves, np.zeros((12, 13, 14))], axis=-1) for halves in zip(*pairs, strict=True))
    result = denoise_fluence(first, second, SHORT, device="cpu")
    for n, pair in enumerate(pairs):
        alone = denoise_fluence(*pair, SHORT, device="cpu")
        np.testing.assert_array_equal(result.image[..., n], alone.image)
        np.testing.assert_array_equal(result.noise[..., n], alone.noise)
    assert not result.image[..., 2].any()
    assert says(result.notes[-1], "gate 2", "first", "zero")


def test_a_mask_leaves_the_rest_as_it_was_and_unread():
    first, second = poisson_halves(diffuse((14, 15, 16)), 100)
    mask = np.zeros(first.shape, bool)
    mask[2:10, 3:12, 1:15] = True
    result = denoise_fluence(first, second, SHORT, mask=mask, device="cpu")
    np.testing.assert_array_equal(result.image[~mask], ((first + second) / 2)[~mask])
    assert not result.noise[~mask].any()
    assert (result.image != (first + second) / 2)[mask].mean() > 0.9
    first[~mask] = 5.0
    again = denoise_fluence(first, second, SHORT, mask=mask, device="cpu")
    np.testing.assert_allclose(again.image[mask], result.image[mask], rtol=1e-5)


def test_stopping_keeps_what_narrow_windows_did():
    pair, stop = poisson_halves(diffuse((14, 15, 16)), 100), threading.Event()
    result = stopped(denoise_fluence_steps(*pair, SHORT, device="cpu", stop=stop), stop, after=1)
    assert not result.complete
    assert result.scale_mm.max() == pytest.approx(0.8, rel=1e-6)
    assert (result.image != (pair[0] + pair[1]) / 2).mean() > 0.5


def test_steps_result_and_input():
    """Steps count up and show the image so far, the result says how it was made, and the input is not touched."""
    pair = np.array(poisson_halves(diffuse((8, 9, 10)), 100), np.float32)
    before, known = pair.copy(), {"voxel_size_mm": (1, 1, 0.5), "labels": np.ones((8, 9, 10))}
    steps, result = finished(denoise_fluence_steps(*pair, SHORT, **known, device="cpu"))
    np.testing.assert_array_equal(pair, before)
    done = [step.done for step in steps]
    assert done == sorted(set(done))
    assert (done[0], done[-1]) == (1, 6)
    assert steps[-1].fraction == 1.0
    assert result.complete
    np.testing.assert_array_equal(steps[-1].preview, result.image)
    assert (steps[0].preview != result.image).any()
    assert result.image.dtype == np.float32
    assert result.parameters["denoising"]["largest_scale"] == 2.1
    assert result.parameters["voxel_size_mm"] == [1, 1, 0.5]
    assert result.parameters["buffers"] == 2
    assert result.parameters["labeled"] is True
    assert result.scale_mm.max() <= 1.06  # 2.1 voxels of 0.5 mm


# -- with a guide ------------------------------------------------------------------------------------------------------


def absorber():
    """Fluence around and in a black rod, where it falls by 1 / e^1.5 a voxel; shape (36, 36, 36)."""
    x, _, z = np.indices((36, 36, 36)) - 17.5
    inside = np.maximum(3.5 - np.hypot(x, z), 0)
    return diffuse((36, 36, 36), k=0.2) * np.exp(-1.5 * inside), (inside > 0).astype(np.int64)


def errors_in(where, truth, images):
    relative = np.array([image[where] / truth[where] - 1 for image in images])
    return np.square(relative).mean(), 10 * np.log10(1 + relative.mean())


def test_inside_an_absorber_a_guide_makes_it_right():
    """Without it, the bright surroundings leak in. The guide is wrong by a factor of 1 to 3."""
    truth, labels = absorber()
    guide = truth * (2 + np.sin(np.indices(truth.shape)[0] / 8))
    pairs = [poisson_halves(truth, 2000, seed) for seed in range(4)]
    raw = [(a + b) / 2 for a, b in pairs]
    plain = [denoise_fluence(*pair, labels=labels, device="cpu").image for pair in pairs]
    guided = [denoise_fluence(*pair, labels=labels, guide=guide, device="cpu").image for pair in pairs]
    where = (labels > 0) & (truth > 3e-4 * truth.max())
    (before, _), (without, _), (found, bias) = (errors_in(where, truth, images) for images in (raw, plain, guided))
    assert found < 0.15 * before
    assert found < 0.5 * without
    assert abs(bias) < 0.15
    assert errors_in(labels == 0, truth, guided)[0] < 0.2 * errors_in(labels == 0, truth, raw)[0]


def test_what_is_best_around_a_wire_is_not_done_in_it():
    """The guide is right around it and wrong by bands of 30 % in it, which there are photons enough to see."""
    x, y, z = np.indices((30, 30, 30))
    wire = (abs(x - 15) <= 1) & (abs(y - 15) <= 1)
    guide = np.exp(-0.15 * z) * np.where(wire, 0.1, 1.0)
    truth = guide * np.where(wire, np.where(z % 6 < 3, 1.3, 0.7), 1.0)
    pair = poisson_halves(truth, 20_000)
    found = denoise_fluence(*pair, labels=wire.astype(np.int64), guide=guide, device="cpu").image
    (raw, _), (left, _) = (errors_in(wire, truth, [image]) for image in ((pair[0] + pair[1]) / 2, found))
    assert left < 2 * raw
    assert errors_in(~wire, truth, [found])[0] < 0.1 * errors_in(~wire, truth, [(pair[0] + pair[1]) / 2])[0]


def test_a_tissue_keeps_its_light_though_the_guide_is_wrong_by_a_step():
    """There are too few photons to see in a voxel what leaks across the border."""
    x, y, z = np.indices((30, 30, 30))
    ball = (x - 15) ** 2 + (y - 15) ** 2 + (z - 8) ** 2 <= 9
    guide = np.exp(-0.15 * z) * np.where(ball, 0.1, 1.0)
    truth = guide * np.where(ball, 1.8, 1.0)
    known = {"labels": ball.astype(np.int64), "guide": guide, "device": "cpu"}
    pairs = [poisson_halves(truth, 60, seed) for seed in range(6)]
    found = np.mean([denoise_fluence(*pair, **known).image[ball].sum() for pair in pairs])
    assert found == pytest.approx(np.mean([(a + b)[ball].sum() / 2 for a, b in pairs]), rel=0.01)


def test_a_ratio_that_is_the_same_everywhere_is_kept_exactly():
    truth, labels = absorber()
    result = denoise_fluence(truth, truth * (1 + 1e-6), labels=labels, guide=0.3 * truth, device="cpu")
    np.testing.assert_allclose(result.image, truth, rtol=1e-4)
    assert result.parameters["guided"]


def test_nothing_is_averaged_across_a_step_of_the_index_though_the_guide_has_none():
    truth = diffuse((24, 24, 24)) * np.where(np.indices((24, 24, 24))[0] < 12, 1.0, 5.0)
    index = np.where(np.indices(truth.shape)[0] < 12, 1.37, 3.0)
    pair = poisson_halves(truth, 500)
    cut = denoise_fluence(*pair, guide=diffuse(truth.shape), refractive_index=index, device="cpu").image
    across = denoise_fluence(*pair, guide=diffuse(truth.shape), device="cpu").image
    beside = (abs(np.indices(truth.shape)[0] - 11.5) < 2) & (truth > 0.02 * truth.max())
    assert errors_in(beside, truth, [cut])[0] < 0.5 * errors_in(beside, truth, [across])[0]


def test_a_fluence_without_its_run_comes_with_a_note_on_thin_absorbers():
    truth = diffuse((12, 13, 14))
    pair = poisson_halves(truth, 100)
    assert "thin, strong absorbers" in " ".join(denoise_fluence(*pair, SHORT, device="cpu").notes)
    assert not denoise_fluence(*pair, SHORT, guide=truth, device="cpu").notes
