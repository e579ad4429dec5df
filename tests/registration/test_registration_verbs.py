"""The verbs: figures are printed, and labels come through several transforms with their names."""

import json

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import sample_path
from napari_gpubio.core.operations import STORE, HeldVolume, Store, Volume, from_graph, graph, run
from napari_gpubio.core.volumes import read_array, read_volume, write_volume
from napari_gpubio.diffusion.io import read_atlas
from napari_gpubio.diffusion.operations import HeldAtlas
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.registration import RegistrationSettings, Transform
from napari_gpubio.registration.io import write_transform
from napari_gpubio.registration.operations import OpenTransform, Register, TransformImage, TransformLabels
from tests.registration.samples import moved, needs_dipy, needs_sitk, scan, turned
from tests.shell import run_verb

QUICK = ("--iterations", 2)


def held(array, affine, name="image"):
    return HeldVolume.of(Volume(array=np.asarray(array), affine=affine, name=name), STORE)


@pytest.fixture
def files(tmp_path):
    """A T1 with its labels, and the scan, as files."""
    write_volume(tmp_path / "t1.nii.gz", moved().t1.astype(np.float32), moved().affine)
    write_volume(tmp_path / "b0.nii.gz", scan().b0, scan().affine)
    write_volume(tmp_path / "labels.nii.gz", moved().labels, moved().affine)
    (tmp_path / "labels.tsv").write_text("index\tname\n17\tgray matter\n12000\twhite matter\n", encoding="utf-8")
    return tmp_path


def test_from_a_t1_to_labels_on_the_scan_in_two_commands(files, capsys):
    needs_sitk()
    moving, fixed, found = files / "t1.nii.gz", files / "b0.nii.gz", files / "t1_to_scan.tfm"
    outputs = ("--out", files / "on.nii.gz", "--transform-out", found, "--checkerboard-out", files / "board.nii.gz")
    assert run_verb("register", moving, "--onto", fixed, *outputs, *QUICK) == 0
    assert "overlap of the brains" in capsys.readouterr().out
    assert "overlap of the brains" in json.loads((files / "on.json").read_text())["napari_gpubio"]["quantity"]["source"]
    assert read_volume(files / "board.nii.gz")[0].shape == scan().b0.shape
    out = files / "labels_on.nii.gz"
    assert run_verb("transform-labels", files / "labels.nii.gz", "--through", found, "--onto", fixed, "--out", out) == 0
    atlas = read_atlas(out)
    assert atlas.names == {17: "gray matter", 12_000: "white matter"}
    assert atlas.labels.shape == scan().b0.shape


def test_a_warp_from_image_to_labels_and_back(files, capsys):
    needs_sitk(), needs_dipy()
    moving, fixed, there, back = (files / name for name in ("t1.nii.gz", "b0.nii.gz", "there.h5", "back.h5"))
    outputs = ("--transform-out", there, "--inverse-out", back, "--method", "nonlinear")
    assert run_verb("register", moving, "--onto", fixed, *outputs, *QUICK) == 0
    assert "Jacobian" in capsys.readouterr().out
    out = files / "labels_on.nii.gz"
    assert run_verb("transform-labels", files / "labels.nii.gz", "--through", there, "--onto", fixed, "--out", out) == 0
    assert read_atlas(out).labels.shape == scan().b0.shape
    assert run_verb("transform-image", fixed, "--through", back, "--onto", moving, "--out", out, "--force") == 0
    assert read_volume(out)[0].shape == moved().t1.shape


def test_a_scan_stands_for_its_mean(tmp_path, capsys):
    dwi, out = sample_path("brain_phantom/dwi.nii.gz"), tmp_path / "a.nii.gz"
    series, affine = read_array(dwi)
    write_volume(tmp_path / "map.nii.gz", series[..., 0].astype(np.float32), affine)
    assert run_verb("transform-image", tmp_path / "map.nii.gz", "--scan", dwi, "--out", out) == 0
    capsys.readouterr()
    np.testing.assert_array_equal(read_volume(out)[0], series[..., 0])  # each voxel where it was


def test_transforms_are_done_in_their_order_with_one_resampling(tmp_path):
    """Each shifts by less than half a voxel: two resamplings by the nearest voxel would leave it where it was."""
    labels = np.zeros((8, 8, 8), np.int32)
    labels[4, 4, 4] = 12_000
    grid = np.eye(4)
    atlas = HeldAtlas.of(Atlas(labels=labels, affine=grid, names={12_000: "one"}), "one")
    image = held(labels.astype(np.float32), grid)
    shifts = [shift(tmp_path, mm) for mm in (0.45, 0.46)]
    found = run(TransformLabels(moving=atlas, through=shifts, onto=image), device="cpu")
    assert np.argwhere(found.labels == 12_000).tolist() == [[3, 4, 4]]
    assert found.names == {12_000: "one"}
    with pytest.raises(InvalidInput, match="no label lies in"):
        run(TransformLabels(moving=atlas, through=[shift(tmp_path, 50.0)], onto=image), device="cpu")


def shift(folder, mm):
    """A file of a transform along x."""
    write_transform(Transform(matrix=turned((0, 0, 0), (mm, 0, 0))), folder / f"{mm}.txt")
    return OpenTransform.at(folder / f"{mm}.txt")


def test_what_cannot_be_is_refused():
    image = held(scan().b0, scan().affine)
    with pytest.raises(InvalidInput, match="one of both"):
        TransformImage(moving=image)
    log = HeldVolume.of(Volume(array=scan().b0, affine=scan().affine), STORE)
    log = type(log)(array=log.array, affine=log.affine, quantity=("fluence", "1/mm²", "log10"))
    with pytest.raises(InvalidInput, match="logarithms"):
        run(TransformImage(moving=log, onto=image), device="cpu")


def test_a_record_comes_back_and_gives_the_same_bits():
    needs_sitk()
    image = held(moved().t1[::2, ::2, ::2], moved().affine @ np.diag([2.0, 2, 2, 1]), "t1")
    made = Register(moving=image, onto=held(scan().b0, scan().affine), settings=RegistrationSettings(iterations=2))
    assert made in from_graph(graph(made)).values()
    others = Store()
    others.adopt_arrays(STORE)
    first, again = (run(made, device="cpu", store=store) for store in (STORE, others))
    np.testing.assert_array_equal(first.transform.matrix, again.transform.matrix)
    np.testing.assert_array_equal(first.image.array, again.image.array)
