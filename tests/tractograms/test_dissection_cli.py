"""``napari-gpubio dissect``."""

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio import cli
from napari_gpubio.core.files import sample_path
from napari_gpubio.diffusion.regions import Sphere
from napari_gpubio.tractograms import Tractogram, maps
from napari_gpubio.tractograms.dissection import dissect, through
from napari_gpubio.tractograms.io import blocks, read_tractogram, write_tractogram

ATLAS = str(sample_path("brain_phantom/atlas.nii.gz"))
AFFINE = np.diag([2.0, 2.0, 2.0, 1.0])


@pytest.fixture
def files(tmp_path):
    """Three fibers along x, at y = 4, 8, 12 mm, and a mask where the second one passes."""
    points = [[(2, y, 6), (10, y, 6), (18, y, 6)] for y in (4, 8, 12)]
    fibers = Tractogram(
        points=np.concatenate(points), offsets=[0, 3, 6, 9], affine=AFFINE, shape=(12, 12, 6),
        per_fiber={"mean_fa": np.array([0.2, 0.4, 0.6], np.float32)},
    )  # fmt: skip
    write_tractogram(tmp_path / "in.trx", fibers)
    mask = np.zeros((12, 12, 6), np.uint8)
    mask[5, 4] = 1
    nib.save(nib.Nifti1Image(mask, AFFINE), tmp_path / "roi.nii.gz")
    return tmp_path


CASES = {
    "mask": (["--include", "{}/roi.nii.gz"], [8]),
    "no mask": (["--exclude", "{}/roi.nii.gz"], [4, 12]),
    "label": (["--include", "{}/roi.nii.gz:1"], [8]),
    "sphere": (["--include", "sphere:10,5,6,1.5"], [4]),
    "either sphere": (["--any", "sphere:10,5,6,1.5", "--any", "sphere:10,11,6,1.5"], [4, 12]),
    "box at an end": (["--ends", "box:20,0,0,16,9,9"], [4, 8]),
    "no end": (["--no-ends", "box:20,0,0,16,9,9"], [12]),
    "both ends": (["--both-ends", "box:20,0,0,16,9,9"], []),
    "number": (["--range", "mean_fa", "0.3", "1"], [8, 12]),
    "open range": (["--range", "mean_fa", "-", "0.5"], [4, 8]),
    "all": (
        ["--range", "length_mm", "10", "20", "--include", "sphere:10,8,6,5", "--exclude", "{}/roi.nii.gz"],
        [4, 12],
    ),
    "none": ([], [4, 8, 12]),
}


@pytest.mark.parametrize("case", CASES)
def test_the_fibers_that_fit_are_written(files, capsys, case):
    options, expected = CASES[case]
    out = files / "out.trx"
    given = [option.format(files) for option in options]
    assert cli.main(["dissect", str(files / "in.trx"), *given, "--out", str(out), "--device", "cpu"]) == 0
    assert f"{len(expected)} of 3 fibers" in capsys.readouterr().out
    found = read_tractogram(out)
    assert [fiber[0, 1] for fiber in found] == expected
    assert ("dissection" in found.parameters) == bool(options)


def test_maps_are_written_on_the_grid_of_the_fibers_or_another(files):
    out = [f"--{name}-out={files / name}.nii" for name in ("density", "lengths", "end-points", "mask")]
    arguments = ["dissect", str(files / "in.trx"), "--include", str(files / "roi.nii.gz"), "--device", "cpu"]
    assert cli.main([*arguments, *out]) == 0
    count, length, ends = (nib.load(files / f"{name}.nii") for name in ("density", "lengths", "end-points"))
    np.testing.assert_allclose(count.affine, AFFINE)
    assert np.asarray(count.dataobj).sum() == 9
    inside = nib.load(files / "mask.nii")
    assert inside.get_data_dtype() == np.uint8
    np.testing.assert_array_equal(np.asarray(inside.dataobj), np.asarray(count.dataobj) > 0)
    assert length.get_fdata().sum() == pytest.approx(16.0)
    assert np.argwhere(np.asarray(ends.dataobj)).tolist() == [[1, 4, 3], [9, 4, 3]]
    assert cli.main([*arguments, f"--density-out={files / 'other.nii'}", "--grid", ATLAS]) == 0
    assert nib.load(files / "other.nii").shape == nib.load(ATLAS).shape


@pytest.mark.parametrize("suffix", [".trx", ".tck", ".trk", ".vtk"])
def test_files_of_any_size_go_through_in_blocks(files, monkeypatch, suffix):
    many = files / f"many{suffix}"
    fibers = read_tractogram(sample_path("brain_phantom/bundles.trk"))
    write_tractogram(many, fibers)
    region = Sphere(name="middle", center_mm=(0.0, -5.0, 22.0), radius_mm=6.0)
    expected = dissect(fibers, through(region), device="cpu")
    assert 0 < np.count_nonzero(expected) < len(fibers)
    monkeypatch.setattr(blocks, "BLOCK", 7)
    np.testing.assert_array_equal(dissect(many, through(region), device="cpu"), expected)
    arguments = ["dissect", str(many), "--include", "sphere:0,-5,22,6", "--device", "cpu", "--grid", ATLAS]
    out, count = files / f"out{suffix}", files / "count.nii"
    assert cli.main([*arguments, "--out", str(out), "--density-out", str(count)]) == 0
    kept, grid = read_tractogram(out), nib.load(ATLAS)
    np.testing.assert_allclose(kept.points, fibers.select(expected).points, atol=1e-4)
    there = maps.density(kept, shape=grid.shape, affine=grid.affine, device="cpu")
    np.testing.assert_array_equal(np.asarray(nib.load(count).dataobj), there)


def test_blocks_of_a_foreign_tck_share_the_grid_of_the_whole_file(files, monkeypatch):
    path, points = files / "foreign.tck", np.float32([[1, 2, 3], [4, 5, 6], [30, 40, 50], [31, 41, 51]])
    nib.streamlines.save(nib.streamlines.Tractogram([points[:2], points[2:]], affine_to_rasmm=np.eye(4)), path)
    monkeypatch.setattr(blocks, "BLOCK", 1)
    found = [block for _, block in blocks.blocks_of(path)]
    assert [len(block) for block in found] == [1, 1]
    for block in found:
        assert block.shape == read_tractogram(path).shape == (31, 40, 49)
        np.testing.assert_array_equal(block.affine, read_tractogram(path).affine)


def test_regions_of_an_atlas_are_named(tmp_path, capsys):
    bundles = str(sample_path("brain_phantom/bundles.trk"))
    arguments = ["--include", f"{ATLAS}:brain stem", "--include", f"{ATLAS}:motor cortex, left"]
    assert cli.main(["dissect", bundles, *arguments, "--out", str(tmp_path / "cst.trk"), "--device", "cpu"]) == 0
    labels = read_tractogram(tmp_path / "cst.trk").per_fiber["bundle"]
    assert len(labels) > 0
    assert (labels == 2).all()  # the left corticospinal tract


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "nothing is to be written"),
        (["--include", "sphere:1,2,3", "--out", "x.trx"], "4 numbers"),
        (["--include", "sphere:1,2,3,a", "--out", "x.trx"], "1,2,3,a"),
        (["--range", "length_mm", "a", "3", "--out", "x.trx"], "'a'"),
        (["--range", "length_mm", "4", "3", "--out", "x.trx"], "no fiber lies in it"),
        (["--include", f"{ATLAS}:nowhere", "--out", "x.trx"], "'nowhere'"),
        (["--include", "absent.nii.gz", "--out", "x.trx"], "absent.nii.gz"),
        (["--range", "mean_md", "0", "1", "--out", "x.trx"], "mean_md"),
    ],
)
def test_nonsense_is_refused_in_a_sentence(files, capsys, monkeypatch, options, says):
    monkeypatch.chdir(files)
    assert cli.main(["dissect", "in.trx", *options]) != 0
    assert says in capsys.readouterr().err
