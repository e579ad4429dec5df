"""The command line's verb ``denoise``."""

import contextlib
import threading

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio import cli, denoise
from napari_gpubio.core.operations import command_runs
from napari_gpubio.core.operations.volumes import record_beside
from tests.denoise.samples import steps_and_noise

SHAPE, AFFINE = (20, 18, 16), np.diag([1.0, 1.0, 2.0, 1.0])
SMALL = denoise.DenoiseSettings(patches=denoise.Small())


@pytest.fixture(autouse=True)
def _one_engine(monkeypatch):
    """Without the other engines, whose verbs are not needed here."""
    monkeypatch.setattr(cli, "OF_ENGINES", {"denoise": ()})


@pytest.fixture
def noisy():
    return steps_and_noise(SHAPE).astype(np.float32)


def save(path, array):
    image = nib.Nifti1Image(array, AFFINE)
    image.set_sform(AFFINE, code="mni")
    nib.save(image, path)
    return str(path)


def load(path):
    return np.asarray(nib.load(path).dataobj)


def call(*arguments, verb="denoise"):
    return cli.main([verb, *map(str, arguments), "--device", "cpu"])


def call_fluence(*arguments):
    return call(*arguments, verb="denoise-fluence")


def test_from_file_to_file(tmp_path, noisy, capsys):
    out, sigma, residual = (tmp_path / f"{name}.nii.gz" for name in ("out", "sigma", "residual"))
    path = save(tmp_path / "in.nii", noisy)
    assert call(path, "--out", out, "--noise-out", sigma, "--residual-out", residual, "--patches", "small") == 0
    expected = denoise.denoise(noisy, SMALL, voxel_size_mm=(1, 1, 2), device="cpu")
    assert np.array_equal(load(out), expected.image)
    assert np.array_equal(load(sigma), expected.noise)
    assert np.array_equal(load(residual), noisy - expected.image)
    assert nib.load(out).header["sform_code"] == 4
    assert b"denoised in.nii, napari-gpubio" in bytes(nib.load(out).header["descrip"])
    assert capsys.readouterr().out.split() == [str(out), str(sigma), str(residual)]
    record = record_beside(out)
    assert [*record["operations"].values()][-1]["settings"]["patches"] == {"kind": "small"}
    assert nib.load(out).affine.tolist() == AFFINE.tolist()


def test_settings_mask_and_noise(tmp_path, noisy):
    mask, levels = np.zeros(SHAPE, np.uint8), np.full(SHAPE, 3.0, np.float32)
    mask[4:16, 3:15, 2:14], levels[10:] = 1, 5
    path, out = save(tmp_path / "in.nii", noisy), tmp_path / "out.nii"
    settings = ["--noise-model", "rician", "--search-radius", "2", "--center", "largest", "--cutoff", "3"]
    known = ["--mask", save(tmp_path / "mask.nii", mask), "--noise", save(tmp_path / "levels.nii", levels)]
    assert call(path, "-o", out, *settings, *known) == 0
    given = denoise.DenoiseSettings(noise_model="rician", search_radius=2, center="largest", cutoff=3.0)
    expected = denoise.denoise(noisy, given, mask=mask, noise=levels, voxel_size_mm=(1, 1, 2), device="cpu")
    assert np.array_equal(load(out), expected.image)
    assert call(path, "-o", out, "--sigma", "2", "--patches", "small", "--force") == 0
    expected = denoise.denoise(noisy, SMALL, noise=2.0, voxel_size_mm=(1, 1, 2), device="cpu")
    assert np.array_equal(load(out), expected.image)


@pytest.mark.parametrize("shape", [(50, 40, 1), (50, 40)])
def test_a_plane(tmp_path, shape):
    values = steps_and_noise((50, 40, 1)).astype(np.float32).reshape(shape)
    mask = np.ones(shape, np.uint8)
    mask[:9] = 0
    path, out, sigma = save(tmp_path / "in.nii", values), tmp_path / "out.nii", tmp_path / "sigma.nii"
    given = "--mask", save(tmp_path / "mask.nii", mask), "--noise-from", "patches", "--noise-out", sigma
    assert call(path, "--out", out, *given) == 0
    settings = denoise.DenoiseSettings(noise_from="patches")
    expected = denoise.denoise(values, settings, mask=mask, voxel_size_mm=(1, 1, 2), device="cpu")
    assert load(out).shape == load(sigma).shape == shape
    np.testing.assert_array_equal(load(out), expected.image)


def test_some_volumes_of_a_series(tmp_path, noisy):
    series = np.stack([noisy, noisy[::-1], noisy[:, ::-1]], -1)
    out = tmp_path / "out.nii"
    assert call(save(tmp_path / "in.nii", series), "-o", out, "--volumes", 1, 1, "--patches", "small") == 0
    expected = denoise.denoise(series[..., 1], SMALL, voxel_size_mm=(1, 1, 2), device="cpu")
    assert np.array_equal(load(out)[..., 1], expected.image)
    assert np.array_equal(load(out)[..., ::2], series[..., ::2])


def test_a_series_of_many_volumes_has_the_noise_of_all_whichever_are_denoised(tmp_path, noisy, capsys):
    rng = np.random.default_rng(5)
    series = np.abs(noisy[..., None] + 2 * rng.normal(size=(*noisy.shape, 12)))
    out = tmp_path / "out.nii"
    path, options = save(tmp_path / "in.nii", series), ("--noise-model", "rician", "--patches", "small")
    assert call(path, "-o", out, "--volumes", 1, 1, *options) == 0
    found = denoise.noise.estimate(series)
    assert found.sigma == pytest.approx(2, rel=0.1)
    settings = denoise.DenoiseSettings(noise_model="rician", patches=denoise.Small())
    expected = denoise.denoise(series[..., 1], settings, noise=found, voxel_size_mm=(1, 1, 2), device="cpu")
    assert np.array_equal(load(out)[..., 1], expected.image)
    assert "across 12 volumes" in capsys.readouterr().err


def test_logarithms(tmp_path, noisy):
    shown = np.log10(1e-9 * noisy)
    shown[0] = np.nan
    out = tmp_path / "out.nii"
    assert call(save(tmp_path / "in.nii", shown), "-o", out, "--log10", "--patches", "small") == 0
    linear = denoise.denoise(denoise.values.from_log10(shown), SMALL, voxel_size_mm=(1, 1, 2), device="cpu").image
    assert np.array_equal(load(out), denoise.values.to_log10(linear), equal_nan=True)


def test_gaps(tmp_path, noisy, capsys):
    noisy[3, 4, 5] = np.nan
    path, out = save(tmp_path / "in.nii", noisy), tmp_path / "out.nii"
    assert call(path, "-o", out) == 2
    assert "1 of the image's 5760 voxels are not finite" in capsys.readouterr().err
    assert call(path, "-o", out, "--skip-gaps") == 0
    clean = load(out)
    assert np.isnan(clean[3, 4, 5])
    assert np.isfinite(clean).sum() == clean.size - 1


# -- fluence ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def halves():
    """Counts of two halves of the photons, falling along z, and labels with a border across it."""
    truth = np.exp(-0.15 * np.indices(SHAPE)[2])
    labels = (np.indices(SHAPE)[2] > 8).astype(np.uint8)
    rng = np.random.default_rng(0)
    return [(rng.poisson(20 * truth) / 20).astype(np.float32) for _ in range(2)], labels


def test_two_halves_of_a_run(tmp_path, halves, capsys):
    (even, odd), labels = halves
    path, second = save(tmp_path / "even.nii", even), save(tmp_path / "odd.nii", odd)
    out, sigma, residual = (tmp_path / f"{name}.nii.gz" for name in ("out", "sigma", "residual"))
    assert call_fluence(path, "--second", second, "-o", out, "--noise-out", sigma, "--residual-out", residual) == 0
    expected = denoise.denoise_fluence(even, odd, voxel_size_mm=(1, 1, 2), device="cpu")
    assert np.array_equal(load(out), expected.image)
    assert np.array_equal(load(sigma), expected.noise)
    assert np.array_equal(load(residual), (even + odd) / 2 - expected.image)
    assert f"gain of signal / noise: at most {expected.snr_gain_db:.1f} dB" in capsys.readouterr().out
    border = save(tmp_path / "labels.nii", labels)
    options = ["--labels", border, "--mueff-per-mm", "0.1", "--largest-scale", "3", "--no-flat", "--force"]
    assert call_fluence(path, "--second", second, "-o", out, *options) == 0
    settings = denoise.FluenceSettings(largest_scale=3.0, flat=False)
    known = {"labels": labels, "mueff_per_mm": 0.1, "voxel_size_mm": (1, 1, 2), "device": "cpu"}
    assert np.array_equal(load(out), denoise.denoise_fluence(even, odd, settings, **known).image)


def test_the_guide_of_a_run(tmp_path, halves):
    (even, odd), labels = halves
    guide = np.exp(-0.2 * np.indices(even.shape)[2]).astype(np.float32)
    first, second, given, border = (
        save(tmp_path / f"{name}.nii", values)
        for name, values in (("even", even), ("odd", odd), ("guide", guide), ("labels", labels))
    )
    out = tmp_path / "out.nii"
    assert call_fluence(first, "--second", second, "--guide", given, "--labels", border, "-o", out) == 0
    known = {"labels": labels, "guide": guide, "voxel_size_mm": (1, 1, 2), "device": "cpu"}
    assert np.array_equal(load(out), denoise.denoise_fluence(even, odd, **known).image)


def test_a_single_buffer_and_its_noise(tmp_path, halves, capsys):
    (even, _), _ = halves
    path, out = save(tmp_path / "all.nii", even), tmp_path / "out.nii"
    assert call_fluence(path, "--seed", "5", "-o", out) == 0
    known = {"voxel_size_mm": (1, 1, 2), "device": "cpu"}
    expected = denoise.denoise_fluence(even, None, denoise.FluenceSettings(seed=5), **known)
    assert np.array_equal(load(out), expected.image)
    printed = capsys.readouterr()
    assert "there is one buffer only: its noise was measured" in printed.err
    assert f"at most {expected.snr_gain_db:.1f} dB" in printed.out
    assert call_fluence(path, "--sigma", "0.1", "-o", out, "--force") == 0
    assert np.array_equal(load(out), denoise.denoise_fluence(even, noise=0.1, **known).image)


def test_halves_as_logarithms_and_some_gates(tmp_path, halves):
    (even, odd), _ = halves
    first, second = (
        np.stack([denoise.values.to_log10(half), denoise.values.to_log10(half[::-1])], -1) for half in (even, odd)
    )
    out, residual = tmp_path / "out.nii", tmp_path / "residual.nii"
    paths = save(tmp_path / "a.nii", first), "--second", save(tmp_path / "b.nii", second)
    assert call_fluence(*paths, "--log10", "--volumes", 1, 1, "-o", out, "--residual-out", residual) == 0
    linear = [denoise.values.from_log10(half[..., 1]) for half in (first, second)]
    clean = denoise.denoise_fluence(*linear, voxel_size_mm=(1, 1, 2), device="cpu").image
    assert np.array_equal(load(out)[..., 1], denoise.values.to_log10(clean), equal_nan=True)
    assert np.array_equal(load(out)[..., 0], first[..., 0], equal_nan=True)
    both = denoise.values.to_log10(sum(linear) / 2)
    assert np.array_equal(load(residual)[..., 1], both - denoise.values.to_log10(clean), equal_nan=True)


def test_counts_of_large_whole_numbers(tmp_path, halves):
    first, second = ((80 * half).astype(np.uint8) + 60 for half in halves[0])
    assert first.max() > 140
    out, residual = tmp_path / "out.nii", tmp_path / "residual.nii"
    paths = save(tmp_path / "a.nii", first), "--second", save(tmp_path / "b.nii", second)
    assert call_fluence(*paths, "-o", out, "--residual-out", residual) == 0
    np.testing.assert_allclose(load(residual) + load(out), (first.astype(float) + second) / 2, rtol=1e-5)


def test_gaps_of_either_half(tmp_path, halves):
    (even, odd), _ = halves
    even[3, 4, 5], odd[6, 7, 8] = np.nan, np.nan
    path, second = save(tmp_path / "even.nii", even), save(tmp_path / "odd.nii", odd)
    out = tmp_path / "out.nii"
    assert call_fluence(path, "--second", second, "--skip-gaps", "-o", out) == 0
    clean = load(out)
    assert np.isnan(clean[3, 4, 5])
    assert clean[6, 7, 8] == even[6, 7, 8]
    assert np.isfinite(clean).sum() == clean.size - 1


# -- notes, stopping, errors ------------------------------------------------------------------------------------------


def test_changes_of_the_input_are_reported(tmp_path, noisy, capsys):
    path = save(tmp_path / "in.nii", noisy.astype(np.int16))
    assert call(path, "-o", tmp_path / "out.nii", "--patches", "small") == 0
    assert "int16 values were converted to float32" in capsys.readouterr().err


def test_an_interrupted_run_keeps_what_was_done(tmp_path, noisy, monkeypatch):
    @contextlib.contextmanager
    def stopped():
        stop = threading.Event()
        stop.set()
        yield stop

    monkeypatch.setattr(command_runs, "stop_at_interrupt", stopped)
    out = tmp_path / "out.nii"
    assert call(save(tmp_path / "in.nii", noisy), "-o", out) == 130
    assert np.array_equal(load(out), noisy)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["-o", "out.png"], "out.png, which does not end in .ome.zarr, .nii or .nii.gz"),
        (["-o", "no/out.nii"], "the folder no does not exist"),
        (["--mask", "nowhere.nii"], "nowhere.nii does not exist"),
        (["--mask", "small.nii"], "small.nii has shape (5, 6, 7)"),
        (["--volumes", "0", "1"], "is no series"),
        (["--sigma", "-1"], "sigma is -1; it must be greater than 0"),
        (["--search-radius", "0"], "search_radius is 0"),
        (["--noise-out", "x.mgz"], "x.mgz, which does not end"),
        (["--sigma", "1", "--noise", "odd.nii"], "sigma is 1 and there is a noise map, too"),
        (
            ["--sigma", "1", "--noise-from", "patches"],
            "noise_from is 'patches', which has no effect: the noise is given",
        ),
        (["--patches", "small", "--mixing", "mean"], "--mixing is an option of mixed, which is not chosen"),
        (["FLUENCE", "--second", "small.nii"], "small.nii has shape (5, 6, 7)"),
        (["FLUENCE", "--second", "series.nii"], "the second buffer has shape (20, 18, 16, 2)"),
        (["FLUENCE", "--second", "odd.nii", "--labels", "small.nii"], "small.nii has shape (5, 6, 7)"),
        (["FLUENCE", "--second", "odd.nii", "--guide", "small.nii"], "small.nii has shape (5, 6, 7)"),
        (["FLUENCE", "--mueff-per-mm", "-1"], "mueff_per_mm is -1 1/mm; it must be greater than 0"),
    ],
)
def test_bad_input_gives_status_two_and_a_sentence(tmp_path, noisy, capsys, monkeypatch, options, sentence):
    monkeypatch.chdir(tmp_path)
    save("in.nii", noisy)
    save("odd.nii", noisy + 1)
    save("series.nii", np.stack([noisy, noisy], -1))
    save("small.nii", np.ones((5, 6, 7), np.uint8))
    before = sorted(tmp_path.iterdir())
    out = () if "-o" in options else ("-o", "out.nii")
    run = call_fluence if options[0] == "FLUENCE" else call
    assert run("in.nii", *out, *(one for one in options if one != "FLUENCE")) == 2
    assert_sentence(capsys, sentence)
    assert sorted(tmp_path.iterdir()) == before


def test_a_missing_image_and_a_volume_that_is_not_there(tmp_path, noisy, capsys):
    assert call(tmp_path / "nowhere.nii", "-o", tmp_path / "out.nii") == 2
    assert_sentence(capsys, "nowhere.nii does not exist")
    path = save(tmp_path / "in.nii", np.stack([noisy, noisy], -1))
    assert call(path, "-o", tmp_path / "out.nii", "--volumes", 0, 2) == 2
    assert_sentence(capsys, "has the volumes 0 to 1")


def assert_sentence(capsys, sentence):
    message = capsys.readouterr().err
    assert message.startswith("napari-gpubio: ")
    assert sentence in message
