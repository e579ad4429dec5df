"""The command line's verb ``mesi``."""

import json

import numpy as np
import pytest
import tifffile

from napari_gpubio import cli
from napari_gpubio.speckle import ContrastSettings, NoiseModel, contrast
from napari_gpubio.speckle.mesi import GivenBeta, MesiSettings, fit_mesi
from napari_gpubio.speckle.samples import Camera, SpeckleField, flow_frames, window_share
from napari_gpubio.speckle.settings import Squared

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
    out = () if "--out" in more else ("--out", str(stack.with_name("fit.tif")))
    exposures = () if "--exposures-ms" in more else ("--exposures-ms", *map(str, EXPOSURES))
    return cli.main(["mesi", str(stack), *exposures, *out, "--force", "--device", "cpu", DARK, *more])


def test_maps_errors_and_notes_are_written(stack, capsys):
    beta = round(window_share(ContrastSettings().width, CUTOFF), 3)
    assert run(stack, "--beta", "given", f"--static-k2={beta}", "--no-fit-rho") == 0
    noise, settings = NoiseModel(dark_adu=Camera().dark_adu), ContrastSettings(index=Squared())
    maps = contrast(tifffile.imread(stack), settings, noise=noise, device="cpu")
    fit = MesiSettings(beta=GivenBeta(static_k2=beta), fit_rho=False)
    want = fit_mesi(np.sqrt(np.maximum(maps.squared, 0)), EXPOSURES, fit)
    np.testing.assert_allclose(tifffile.imread(stack.with_name("fit.tif")), want.ict, rtol=1e-4)
    for part in ("tau_ms", "tau_error_ms", "mask"):
        np.testing.assert_allclose(tifffile.imread(stack.with_name(f"fit_{part}.tif")), getattr(want, part), rtol=1e-4)
    with tifffile.TiffFile(stack.with_name("fit_tau_ms.tif")) as file:
        about = json.loads(file.pages[0].description)
    assert about["mesi"]["beta"] == {"kind": "given", "static_k2": beta, "static_k2_error": 0.0}
    assert about["exposures_ms"] == list(EXPOSURES)
    assert about["unit"] == "ms"
    assert [*about["record"]["operations"].values()][-1]["verb"] == "mesi"
    printed = capsys.readouterr()
    assert [line for line in printed.out.splitlines() if line.endswith("fit_tau_ms.tif")]
    assert about["notes"]
    for note in about["notes"]:
        assert note in printed.err


def test_beta_is_measured_on_a_static_target(stack, tmp_path, capsys):
    light = np.abs(SpeckleField((128, 160), CUTOFF, np.random.default_rng(3)).draw()) ** 2
    paper = tmp_path / "paper.tif"
    tifffile.imwrite(paper, Camera().expose(light, np.random.default_rng(4)), photometric="minisblack")
    assert run(stack, "--static-target", str(paper), "--no-fit-rho", "--json") == 0
    printed = json.loads(capsys.readouterr().out)["beta"]
    beta, error = (tifffile.imread(stack.with_name(f"fit_{part}.tif")) for part in ("beta", "beta_error"))
    assert printed == {"value": pytest.approx(np.nanmax(beta)), "error": pytest.approx(np.nanmax(error))}
    assert np.nanmin(beta) == np.nanmax(beta)
    assert np.nanmax(beta) == pytest.approx(window_share(ContrastSettings().width, CUTOFF), rel=0.15)
    labels = np.zeros(light.shape, np.uint8)
    labels[:, :80] = 3
    tifffile.imwrite(tmp_path / "within.tif", labels)
    assert run(stack, "--static-target", str(paper), "--within", str(tmp_path / "within.tif"), "--no-fit-rho") == 0
    within = np.nanmax(tifffile.imread(stack.with_name("fit_beta.tif")))
    assert 0 < abs(within / np.nanmax(beta) - 1) < 0.2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--static-target", "FRAMES", "--beta", "given"], "β is given and there is a static target to measure it on"),
        (["--within", "FRAMES"], "regions of a static target and no target"),
        (["--exposures-ms", "1", "2", "4"], "3 different exposures cannot determine 3 parameters"),
        (["--exposures-ms", "1", "2", "4", "8"], "there are 4 exposures and 6 frames"),
        (["--out", "nowhere/fit.tif"], "the folder nowhere does not exist"),
        (["--static-k2-error=0.1"], "--static-k2-error is an option of given"),
    ],
)
def test_what_cannot_be_run(stack, more, words, capsys):
    assert run(stack, *(str(stack) if one == "FRAMES" else one for one in more)) == 2
    assert words in capsys.readouterr().err
