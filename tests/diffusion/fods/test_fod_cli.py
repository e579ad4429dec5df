"""``napari-gpubio response``, ``fod``, ``peaks``, and ``track-fods``."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.report import Exit
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion import (
    CsdSettings,
    DiffusionScan,
    HighestFa,
    PeakSettings,
    Response,
    deconvolve,
    estimate_response,
    find_peaks,
    operations,
)
from napari_gpubio.diffusion.fods import read_response, write_response
from napari_gpubio.diffusion.fods.harmonics import from_mrtrix
from napari_gpubio.diffusion.io import read_dwi, read_fixels, read_fods, write_fods
from napari_gpubio.diffusion.io.dwi import read_volume
from napari_gpubio.diffusion.io.gradients import write_fsl_gradients
from napari_gpubio.fibers import IFOD2, FixelGeodesic, FromFod, track
from napari_gpubio.fibers.seeds import white_matter
from napari_gpubio.tractograms.io import read_tractogram
from tests.diffusion.brain_samples import coarse_brain
from tests.diffusion.fods.samples import straight_bundles
from tests.diffusion.fods.scan_samples import fiber_signals, noisy, one_shell
from tests.diffusion.fods.test_response import tissue_scan
from tests.shell import run_verb


def run(*words):
    return run_verb(*words, "--device", "cpu")


def write_scan(folder, scan, mask):
    write_volume(folder / "dwi.nii.gz", scan.data, scan.affine)
    write_fsl_gradients(folder / "dwi.bval", folder / "dwi.bvec", scan.bvals, scan.directions, scan.affine)
    write_volume(folder / "mask.nii.gz", mask.astype(np.uint8), scan.affine)


@pytest.fixture(scope="module")
def one_fiber(tmp_path_factory):
    """A folder with a scan of one shell, of fibers that go along x or y, and its mask."""
    folder, shape = tmp_path_factory.mktemp("one"), (14, 12, 6)
    bvals, table = one_shell(32, b=2000.0)
    axes = np.zeros((*shape, 1, 3))
    axes[:7, ..., 0], axes[7:, ..., 1] = 1.0, 1.0
    signals = noisy(fiber_signals(axes.reshape(-1, 1, 3), bvals, table), 40.0).reshape(*shape, -1)
    affine = np.diag([-2.0, 2.0, 2.0, 1.0])
    table = np.where(bvals[:, None] > 0, table, 0.0)
    scan = DiffusionScan(data=signals.astype(np.float32), bvals=bvals, directions=table, affine=affine)
    write_scan(folder, scan, np.ones(shape, bool))
    return folder


@pytest.fixture(scope="module")
def wm(one_fiber):
    """The file of the scan's response."""
    response = estimate_response(read_dwi(one_fiber / "dwi.nii.gz"), settings=HighestFa(voxels=50))
    write_response(one_fiber / "wm.txt", response)
    return one_fiber / "wm.txt"


@pytest.fixture(scope="module")
def tissues(tmp_path_factory):
    """A folder with a scan of tissues, and its mask."""
    folder = tmp_path_factory.mktemp("tissues")
    scan, places, _ = tissue_scan((0, 2800))
    write_scan(folder, scan, np.logical_or.reduce(places))
    return folder


def test_from_a_scan_to_fibers(one_fiber, tmp_path, capsys):
    dwi, mask = one_fiber / "dwi.nii.gz", one_fiber / "mask.nii.gz"
    wm, fod, peaks = tmp_path / "wm.txt", tmp_path / "fod.nii.gz", tmp_path / "peaks.nii.gz"
    assert run("response", dwi, "--mask", mask, "--voxels", 100, "--lmax", 6, "--out", wm) == 0
    response = read_response(wm)
    assert response.bvals == (2000,)
    assert response.lmax == 6
    assert "100 voxels" in capsys.readouterr().out

    assert run("fod", dwi, "--mask", mask, "--response", wm, "--lmax", 6, "--out", fod) == 0
    printed = capsys.readouterr()
    assert "agree with the tensors" in printed.err
    assert "1,008 FODs of order 6" in printed.out
    scan = read_dwi(dwi)
    expected = deconvolve(scan, response, np.ones(scan.shape, bool), CsdSettings(lmax=6), device="cpu")
    written = read_fods(fod)
    np.testing.assert_array_equal(written.coefficients, expected.coefficients)
    fixels = find_peaks(expected, PeakSettings(least_fraction=0.3), device="cpu")
    words = "--out", peaks, "--fixels-out", tmp_path / "fixels", "--least-fraction", 0.3
    assert run("peaks", fod, *words) == 0
    assert f"{len(fixels.directions):,} peaks" in capsys.readouterr().out
    for path in (peaks, tmp_path / "fixels"):
        np.testing.assert_array_equal(read_fixels(path).counts, fixels.counts)
        np.testing.assert_allclose(read_fixels(path).directions, fixels.directions, atol=1e-6)

    out = tmp_path / "fibers.trk"
    assert run("track-fods", fod, "--seeds", "white-matter", "--count", 1, "--method", "sd_stream", "--out", out) == 0
    assert len(read_tractogram(out)) > 100
    assert run("track-fods", fod, "--tensors", dwi, "--seed", -6, 10, 6, "--out", out, "--force") == 0


def test_the_response_may_be_left_out_and_tissues_need_several(one_fiber, tmp_path, capsys):
    dwi, mask = one_fiber / "dwi.nii.gz", one_fiber / "mask.nii.gz"
    assert run("fod", dwi, "--mask", mask, "--out", tmp_path / "fod.mif", "--lmax", 4) == 0
    assert "estimated" in capsys.readouterr().err
    assert read_fods(tmp_path / "fod.mif").lmax == 4
    write_response(tmp_path / "wm.txt", Response(coefficients=[[1000.0, 0.0], [500.0, -100.0]], bvals=(0, 2000)))
    for count in (1, 4):
        with pytest.raises(InvalidInput, match=f"there are {count} responses"):
            run("tissue-fods", dwi, "--responses", *count * [tmp_path / "wm.txt"], "--out", tmp_path / "other.mif")


def test_tissues_are_written_and_normalized(tissues, tmp_path, capsys):
    dwi, mask = tissues / "dwi.nii.gz", tissues / "mask.nii.gz"
    wm, csf = tmp_path / "wm.txt", tmp_path / "csf.txt"
    words = "--mask", mask, "--tissues", "two", "--shrink", 1, "--out", wm, "--csf-out", csf
    assert run("tissue-responses", dwi, *words) == 0
    assert [len(read_response(path).coefficients) for path in (wm, csf)] == [2, 2]
    maps = [word for name in ("wm", "csf") for word in (f"--{name}-out", tmp_path / f"{name}.nii.gz")]
    words = ["--responses", wm, csf, "--normalize", *maps, "--lmax", 6]
    assert run("tissue-fods", dwi, "--mask", mask, "--out", tmp_path / "fod.nii.gz", *words) == 0
    assert "smooth field" in capsys.readouterr().err
    total = sum(read_volume(tmp_path / f"{name}.nii.gz")[0] for name in ("wm", "csf"))
    assert np.median(total[total > 0]) == pytest.approx(1 / np.sqrt(4 * np.pi), rel=0.05)


def test_what_does_not_apply_is_refused_before_the_run(tissues, tmp_path):
    dwi, small = tissues / "dwi.nii.gz", tmp_path / "small.nii.gz"
    mask, affine = read_volume(tissues / "mask.nii.gz")
    write_volume(small, (np.cumsum(mask > 0).reshape(mask.shape) <= 200) & (mask > 0), affine)
    wm, csf = tmp_path / "wm.txt", tmp_path / "csf.txt"
    write_response(wm, Response(coefficients=[[1000.0, 0.0], [500.0, -100.0]], bvals=(0, 2800)))
    write_response(csf, Response(coefficients=[[1000.0], [50.0]], bvals=(0, 2800)))
    words = ["tissue-fods", dwi, "--mask", small, "--responses", wm, csf, "--out", tmp_path / "fod.nii.gz"]
    with pytest.raises(InvalidInput, match="200 voxels, and to normalize takes 500"):
        run(*words, "--normalize")
    for verb in (words, ["tissue-responses", dwi, "--out", tmp_path / "a.txt"]):  # which are of all shells
        with pytest.raises(SystemExit):
            run(*verb, "--shell", 2800)
    with pytest.raises(InvalidInput, match="--gray-percent is an option of three"):
        run("tissue-responses", dwi, "--tissues", "two", "--gray-percent", 3, "--out", tmp_path / "a.txt")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["csf.txt", "small.nii.gz", "wm.txt"]


def test_wrong_axes_are_printed(one_fiber, wm, tmp_path, capsys):
    dwi = one_fiber / "dwi.nii.gz"
    fods = read_dwi(dwi)
    field = deconvolve(fods, read_response(wm), np.ones(fods.shape, bool), device="cpu")
    other = dataclasses.replace(field, coefficients=from_mrtrix(field.coefficients, "descoteaux_legacy"))
    write_fods(tmp_path / "turned.nii.gz", other)
    words = "--tensors", dwi, "--seeds", "white-matter", "--count", 1, "--out", tmp_path / "fibers.trx"
    run("track-fods", tmp_path / "turned.nii.gz", *words)
    printed = capsys.readouterr().err
    assert "warning: The FODs disagree" in printed
    assert "basis='descoteaux_legacy'" in printed


def test_fods_have_their_own_usual_settings(tmp_path):
    field = straight_bundles([(1, 0, 0)], shape=(20, 12, 12), affine=np.diag([2.0, 2.0, 2.0, 1.0]))
    write_fods(tmp_path / "fod.nii.gz", field)
    middle, out = (19.0, 11.0, 11.0), tmp_path / "fibers.trx"
    assert run("track-fods", tmp_path / "fod.nii.gz", "--seed", *middle, "--out", out) == 0
    usual = track(field, [middle], FromFod(count=100), IFOD2())
    np.testing.assert_array_equal(read_tractogram(out).points, usual.points)
    words = (tmp_path / "fod.nii.gz", "--seed", *middle, "--out", out, "--force")
    assert run("track-fods", *words, "--step-mm", 0.5) == 0
    spacing = np.linalg.norm(np.diff(read_tractogram(out)[0], axis=0), axis=1)
    assert np.median(spacing) == pytest.approx(0.5, rel=0.05)
    with pytest.raises(InvalidInput, match="'eudx'; choose one of ifod2"):
        run("track-fods", *words, "--method", "eudx")
    words = (tmp_path / "fod.nii.gz", "--count", 1, "--out", out, "--force")
    assert run("track-fods", *words, "--seeds", "white-matter") == 0
    assert len(read_tractogram(out)) > 0.9 * np.count_nonzero(white_matter(field))
    labels = np.zeros(field.shape, np.uint8)
    labels[8:12, 5:7, 5:7] = 3
    write_volume(tmp_path / "labels.nii.gz", labels, field.affine)
    assert run("track-fods", *words, "--seeds", "region", "--region", f"{tmp_path / 'labels.nii.gz'}:3") == 0
    assert 1 <= len(read_tractogram(out)) <= 16


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["response", "dwi.nii.gz", "--out", "dwi.bval"], "same file"),
        (["fod", "dwi.nii.gz", "--out", "fod.trk"], "does not end in"),
        (["track", "dwi.nii.gz", "--seed", "0", "0", "0", "--out", "fibers.xyz"], "does not end in"),
        (["track", "dwi.nii.gz", "--seed", "0", "0", "0", "--out", "nowhere/fibers.tck"], "does not exist"),
        (["bootstrap", "dwi.nii.gz", "--seed", "0", "0", "0", "--out", "dwi.bval"], "does not end in"),
        (["fod", "dwi.nii.gz", "--out", "dwi.nii.gz"], "same file"),
        (["peaks", "dwi.nii.gz", "--fixels-out", "."], "is a folder"),
        (["peaks", "dwi.nii.gz"], "nothing is to be written"),
    ],
)
def test_what_cannot_be_done_is_printed_before_the_run(one_fiber, words, problem, monkeypatch):
    monkeypatch.setattr(operations.scans, "read_dwi", None)
    files = (".txt", ".gz", ".nii", ".trk", ".bval", ".tck", ".xyz", ".")
    with pytest.raises(InvalidInput, match=problem):
        run(words[0], *(one_fiber / word if word.endswith(files) else word for word in words[1:]))


def test_ctrl_c_keeps_what_was_done(one_fiber, wm, tmp_path, monkeypatch, capsys, in_chunks_of):
    in_chunks_of(100)
    real = operations.deconvolution.deconvolve_steps

    def interrupted(*given, stop, **words):
        result = None
        steps = real(*given, stop=stop, **words)
        while True:
            try:
                step = next(steps)
            except StopIteration as end:
                result = end.value
                break
            if step.message == "deconvolving":
                stop.set()
            yield step
        return result

    monkeypatch.setattr(operations.deconvolution, "deconvolve_steps", interrupted)
    dwi, out = one_fiber / "dwi.nii.gz", tmp_path / "fod.nii.gz"
    words = ["--mask", one_fiber / "mask.nii.gz", "--response", wm, "--out", out]
    assert run("fod", dwi, *words) == Exit.STOPPED
    assert 0 < read_fods(out).mask.sum() < 1008
    assert f"only {read_fods(out).mask.sum():,} of 1,008 voxels have FODs" in capsys.readouterr().err


def test_a_response_is_written_with_its_shells(tmp_path):
    write_response(tmp_path / "a.txt", Response(coefficients=np.array([[3.0, -1.0]]), bvals=(1000,)))
    assert (tmp_path / "a.txt").read_text().startswith("# Shells: 1000\n")


def test_fixels_are_tracked_and_checked_with_tensors(one_fiber, wm, tmp_path):
    dwi, fod, fixels = one_fiber / "dwi.nii.gz", tmp_path / "fod.nii.gz", tmp_path / "fixels"
    assert run("fod", dwi, "--response", wm, "--lmax", 4, "--out", fod) == 0
    assert run("peaks", fod, "--out", fixels) == 0
    out = tmp_path / "fibers.tck"
    assert run("track-fixels", fixels, "--tensors", dwi, "--seed", -6, 10, 6, "--out", out) == 0
    expected = track(read_fixels(fixels), [(-6, 10, 6)], None, FixelGeodesic(), device="cpu")
    np.testing.assert_allclose(read_tractogram(out, reference=fixels_grid(fixels)).points, expected.points, atol=1e-4)


def fixels_grid(folder):
    fixels = read_fixels(folder)
    return fixels.affine, fixels.shape


def test_a_wrong_gradient_table_is_called_out(one_fiber, tmp_path, monkeypatch, capsys):
    wrong = SimpleNamespace(ok=False, message="The gradient table looks wrong.")
    for module in (operations.deconvolution, operations.tensors):
        monkeypatch.setattr(module, "check_gradients", lambda _: wrong)
    dwi, wm, out = one_fiber / "dwi.nii.gz", tmp_path / "wm.txt", tmp_path / "fod.nii.gz"
    assert run("response", dwi, "--voxels", 50, "--out", wm) == 0
    assert wrong.message in capsys.readouterr().err
    assert run("fod", dwi, "--response", wm, "--lmax", 4, "--out", out) == 0
    assert wrong.message in capsys.readouterr().err
    words = ["--response", wm, "--deconvolution-lmax", 4, "--repeats", 2, "--out", tmp_path / "spread.nii.gz"]
    assert run("bootstrap-fods", dwi, *words, "--seed", -6, 10, 6) == 0
    assert wrong.message in capsys.readouterr().err


def test_a_scan_without_b0_volumes_has_fods_that_are_not_checked(one_fiber, wm, tmp_path, capsys):
    scan = read_dwi(one_fiber / "dwi.nii.gz")
    weighted = ~scan.is_b0
    without = dataclasses.replace(
        scan, data=scan.data[..., weighted], bvals=scan.bvals[weighted], directions=scan.directions[weighted]
    )
    write_scan(tmp_path, without, np.ones(scan.shape, bool))
    words = ["--mask", tmp_path / "mask.nii.gz", "--response", wm, "--lmax", 4]
    assert run("fod", tmp_path / "dwi.nii.gz", *words, "--out", tmp_path / "fod.nii.gz") == 0
    assert "not checked, since the scan has no b0 volume" in capsys.readouterr().err
    words[-2] = "--deconvolution-lmax"
    words += ["--repeats", 2, "--seed", -6, 10, 6, "--out", tmp_path / "spread.nii.gz"]
    assert run("bootstrap-fods", tmp_path / "dwi.nii.gz", *words) == 0


def test_a_response_of_few_directions(tmp_path):
    scan, settings = coarse_brain(), HighestFa(voxels=100, lmax=4)
    few = np.r_[np.flatnonzero(scan.is_b0)[:1], np.flatnonzero(~scan.is_b0)[:12]]
    small = dataclasses.replace(scan, data=scan.data[..., few], bvals=scan.bvals[few], directions=scan.directions[few])
    first, second = estimate_response(small, settings=settings, device="cpu").coefficients[0, :2]
    expected = estimate_response(scan, settings=settings, device="cpu").coefficients[0, :2]
    np.testing.assert_allclose([first, second], expected, rtol=0.2)


def test_shells_that_are_no_numbers(tmp_path):
    (tmp_path / "wm.txt").write_text("# Shells: a,b\n1 -1\n")
    with pytest.raises(InvalidInput, match=r"line 1 of wm\.txt has 'a', which is no finite number"):
        read_response(tmp_path / "wm.txt")
