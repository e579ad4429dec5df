"""Command ``napari-gpubio mesi``."""

import json

import numpy as np
import pytest
import tifffile

from napari_gpubio import cli
from napari_gpubio.speckle import ContrastSettings, NoiseModel, contrast
from napari_gpubio.speckle.mesi import MesiSettings, fit_mesi
from napari_gpubio.speckle.samples import Camera, SpeckleField, flow_frames, window_share

EXPOSURES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
TAU_MS, CUTOFF, SHAPE = 2.0, 0.25, (40, 48)
DARK = f"--dark-adu={Camera().dark_adu}"


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    decays = [np.full(SHAPE, exposure / TAU_MS) for exposure in EXPOSURES]
    frames = [flow_frames(x, cutoff=CUTOFF, camera=Camera(), seed=n)[0] for n, x in enumerate(decays)]
    path = tmp_path_factory.mktemp("mesi") / "frames.tif"
    tifffile.imwrite(path, np.array(frames), photometric="minisblack")
    return path


def run(stack, *more):
    text = ",".join(map(str, EXPOSURES))
    out = () if "--out" in more else ("--out", str(stack.with_name("fit")))
    usual = [*out, "--force", "--device", "cpu", DARK]
    return cli.main(["mesi", str(stack), "--exposures-ms", text, *usual, *more])


def test_maps_errors_and_notes_are_written(stack, capsys):
    beta = round(window_share(ContrastSettings().window, CUTOFF), 3)
    assert run(stack, f"--beta={beta}", "--no-fit-rho") == 0
    noise, settings = NoiseModel(dark_adu=Camera().dark_adu), ContrastSettings(index="squared")
    maps = contrast(tifffile.imread(stack), settings, noise=noise, device="cpu")
    want = fit_mesi(np.sqrt(np.maximum(maps.squared, 0)), EXPOSURES, MesiSettings(beta=beta, fit_rho=False))
    for part in ("tau_ms", "tau_error_ms", "ict", "mask"):
        np.testing.assert_allclose(tifffile.imread(stack.with_name(f"fit_{part}.tif")), getattr(want, part), rtol=1e-4)
    with tifffile.TiffFile(stack.with_name("fit_tau_ms.tif")) as file:
        about = json.loads(file.pages[0].description)
    assert about["mesi"]["beta"] == beta
    assert about["exposures_ms"] == list(EXPOSURES)
    assert about["unit"] == "ms"
    printed = capsys.readouterr()
    assert [line for line in printed.out.splitlines() if line.endswith("fit_tau_ms.tif")]
    assert about["notes"]
    for note in about["notes"]:
        assert note in printed.err


def test_beta_is_measured_on_a_static_target(stack, tmp_path, capsys):
    light = np.abs(SpeckleField((128, 160), CUTOFF, np.random.default_rng(3)).draw()) ** 2
    paper = tmp_path / "paper.tif"
    tifffile.imwrite(paper, Camera().expose(light, np.random.default_rng(4)), photometric="minisblack")
    assert run(stack, "--static-target", str(paper), "--no-fit-rho", "--parts", "beta", "beta_error") == 0
    beta, error = (tifffile.imread(stack.with_name(f"fit_{part}.tif")) for part in ("beta", "beta_error"))
    told = capsys.readouterr().err
    assert f"β = {np.nanmax(beta):.4g} ± {np.nanmax(error):.2g}, measured on paper.tif" in told
    assert np.nanmin(beta) == np.nanmax(beta)
    assert np.nanmax(beta) == pytest.approx(window_share(ContrastSettings().window, CUTOFF), rel=0.15)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--static-target", "frames.tif", "--beta=0.5"], "--static-target measures β; leave --beta out"),
        (["--exposures-ms", "1,2,4"], "3 different exposures cannot determine 3 parameters"),
        (["--exposures-ms", "1,2,4,8"], "there are 4 exposures and 6 frames"),
        (["--out", "nowhere/fit"], "the folder nowhere does not exist"),
        (["--beta-error=0.1"], "give the measured beta, too"),
    ],
)
def test_what_cannot_be_run(stack, more, words, capsys):
    assert run(stack, *more) == 2
    assert words in capsys.readouterr().err
