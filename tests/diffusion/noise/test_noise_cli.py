"""``napari-gpubio mppca``."""

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import Store, read_record
from napari_gpubio.core.operations import run as run_operation
from napari_gpubio.core.report import Exit
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion import operations
from napari_gpubio.diffusion.io.dwi import read_dwi
from napari_gpubio.diffusion.io.gradients import write_fsl_gradients
from napari_gpubio.diffusion.noise import NoiseSettings, denoise_scan
from tests.diffusion.noise.samples import noisy, scan_of
from tests.shell import run_verb


def run(*words):
    return run_verb("mppca", *words, "--device", "cpu")


@pytest.fixture
def given(tmp_path):
    """A scan as files, and as it is read."""
    scan = scan_of(noisy((7, 6, 5), 20, 3)[1].round().astype(np.int16))
    write_volume(tmp_path / "dwi.nii.gz", scan.data, scan.affine)
    write_fsl_gradients(tmp_path / "dwi.bval", tmp_path / "dwi.bvec", scan.bvals, scan.directions, scan.affine)
    return tmp_path, read_dwi(tmp_path / "dwi.nii.gz")


def test_everything_is_written(given, capsys):
    folder, scan = given
    mask = np.zeros(scan.shape, np.uint8)
    mask[1:6, 1:5] = 1
    write_volume(folder / "mask.nii.gz", mask, scan.affine)
    files = {name: folder / f"{name}.nii.gz" for name in ("noise", "residual", "rank")}
    options = [word for name, path in files.items() for word in (f"--{name}-out", path)]
    out = folder / "clean.nii.gz"
    assert run(folder / "dwi.nii.gz", "--mask", folder / "mask.nii.gz", "--out", out, "--rician", *options) == 0
    expected = denoise_scan(scan, mask > 0, NoiseSettings(rician=True), device="cpu")
    written = read_dwi(out)
    np.testing.assert_array_equal(written.data, expected.scan.data)
    np.testing.assert_array_equal(written.bvals, scan.bvals)
    np.testing.assert_allclose(written.directions, scan.directions, atol=1e-12)
    np.testing.assert_allclose(written.affine, scan.affine)
    found = {name: np.asarray(nib.load(path).dataobj) for name, path in files.items()}
    np.testing.assert_array_equal(found["noise"], expected.noise)
    np.testing.assert_array_equal(found["residual"], expected.residual(scan))
    np.testing.assert_array_equal(found["rank"], expected.rank)
    printed = capsys.readouterr().out
    assert f"{np.median(expected.noise[mask > 0]):.5g}" in printed
    assert f"{expected.residual_ratio_histogram(scan).standard_deviation:.3f}" in printed


def test_notes_are_reported(given, capsys):
    folder, _ = given
    assert run(folder / "dwi.nii.gz", "--out", folder / "clean.nii", "--window", 7) == 0
    assert "7 x 6 x 5" in capsys.readouterr().err
    assert (folder / "clean.bval").is_file()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--out", "dwi.nii"], "bval file"),  # whose tables would replace those of the scan
        (["--out", "dwi.nii.gz"], "same file"),
        (["--out", "clean.nii.gz", "--noise-out", "clean.nii.gz"], "same file"),
        (["--out", "clean.mif"], r"\.nii"),
        (["--out", "clean.nii.gz", "--rank-out", "rank.txt"], r"--rank-out is rank\.txt"),
    ],
)
def test_files_that_cannot_be_written_are_reported_before_the_run(given, words, problem, monkeypatch):
    folder, _ = given
    monkeypatch.setattr(operations.noise, "denoise_scan_steps", None)
    with pytest.raises(InvalidInput, match=problem):
        run(folder / "dwi.nii.gz", *(word if word.startswith("--") else folder / word for word in words))


def test_nothing_is_written_of_a_stopped_run(given, monkeypatch, capsys):
    folder, _ = given
    whole = operations.noise.denoise_scan_steps

    def stopping(*arguments, stop, **options):
        stop.set()
        return whole(*arguments, stop=stop, **options)

    monkeypatch.setattr(operations.noise, "denoise_scan_steps", stopping)
    assert run(folder / "dwi.nii.gz", "--out", folder / "clean.nii.gz") == Exit.STOPPED
    assert not (folder / "clean.nii.gz").exists()
    assert "nothing was written" in capsys.readouterr().err


def test_how_the_scan_is_read_is_part_of_the_record(given, tmp_path):
    folder, _ = given
    read = "--volumes", "0-10,15", "--b0-limit", "20"
    words = folder / "dwi.nii.gz", "--out", folder / "clean.nii.gz", "--record", tmp_path / "r.json", "--window", 3
    assert run(*words, *read) == 0
    record = read_record(tmp_path / "r.json")
    scan = operations.OpenScan.at(folder / "dwi.nii.gz", volumes=(*range(11), 15), b0_limit=20)
    assert record == operations.Mppca(scan=scan, settings=NoiseSettings(window=3))
    assert scan.bval.path == str(folder / "dwi.bval")
    assert read_dwi(folder / "clean.nii.gz").data.shape[3] == 12
    again = operations.OpenScan.at(folder / "clean.nii.gz")
    made = run_operation(again, device="cpu", store=Store())
    np.testing.assert_array_equal(made.data, run_operation(record.output("scan"), device="cpu", store=Store()).data)
    (folder / "dwi.bvec").write_text((folder / "dwi.bvec").read_text().replace("0.", "0.1", 1))
    with pytest.raises(InvalidInput, match=r"dwi\.bvec has changed"):
        run_operation(record, device="cpu", store=Store())
