"""Volumes of MCX: raw files, NIfTI, JNIfTI, shapes in another file, coefficients voxel by voxel."""

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.mcx.io.jdata import encode_array
from tests.mcx.samples import case, without, written

LABELS = np.random.default_rng(4).integers(0, 3, (4, 5, 6)).astype(np.uint8)
RAW = {"Dim": [4, 5, 6], "VolumeFile": "v.bin"}


def volume_case(**domain) -> dict:
    return without(case(Domain=domain), "Shapes")


def test_raw_labels_first_axis_fastest(tmp_path, read):
    for form, dtype in (("byte", "<u1"), ("short", "<u2"), ("integer", "<u4")):
        (tmp_path / "v.bin").write_bytes(LABELS.astype(dtype).tobytes(order="F"))
        np.testing.assert_array_equal(read(volume_case(**RAW, MediaFormat=form)).domain.labels, LABELS)
    (tmp_path / "v.bin").write_bytes(LABELS.tobytes(order="F"))
    np.testing.assert_array_equal(read(volume_case(**RAW)).domain.labels, LABELS)


@pytest.mark.parametrize("name", ["v.nii", "v.nii.gz", "v.jnii"])
def test_nifti_labels(tmp_path, read, name):
    if name == "v.jnii":
        written(tmp_path, {"NIFTIHeader": {}, "NIFTIData": encode_array(LABELS)}, name)
    else:
        nib.save(nib.Nifti1Image(LABELS[..., None], np.diag([2, 3, 4, 1])), tmp_path / name)
    found = read(volume_case(Dim=[4, 5, 6], VolumeFile=name))
    np.testing.assert_array_equal(found.domain.labels, LABELS)
    np.testing.assert_allclose(found.domain.voxel_sizes_mm, 1)
    assert any(f"affine of {name}" in note for note in found.notes) == (name != "v.jnii")


def test_shapes_in_another_file(tmp_path, read):
    (tmp_path / "sub").mkdir()
    box = {"Box": {"Tag": 1, "O": [1, 1, 1], "Size": [1, 1, 1]}}
    written(tmp_path / "sub", {"Shapes": [box]}, "shapes.json")
    labels = read(volume_case(Dim=[3, 3, 3], VolumeFile="sub/shapes.json")).domain.labels
    assert np.argwhere(labels).tolist() == [[1, 1, 1]]


@pytest.mark.parametrize("form", ["muamus_short", "muamus_float", "svmc"])
def test_shapes_draw_labels_only(tmp_path, read, form):
    grid = [{"Grid": {"Tag": 1, "Size": [3, 3, 3]}}]
    written(tmp_path, {"Shapes": grid}, "shapes.json")
    for root in (
        case(Domain={"MediaFormat": form}, Shapes=grid),
        volume_case(Dim=[3, 3, 3], VolumeFile="shapes.json", MediaFormat=form),
    ):
        with pytest.raises(InvalidInput, match=f"MediaFormat is '{form}'"):
            read(root)


def test_an_empty_volume_file_is_none(read):
    assert read(case(Domain={"VolumeFile": ""})).domain.shape == (60, 60, 60)


COEFFICIENTS = np.random.default_rng(5).uniform(0.1, 1, (4, 5, 6, 2)).astype(np.float32)
COEFFICIENTS[0, :, 2] = np.nan


@pytest.mark.parametrize("form", ["mua_float", "muamus_float"])
@pytest.mark.parametrize("where", ["file", "array"])
def test_coefficients_voxel_by_voxel(tmp_path, read, form, where):
    values = COEFFICIENTS if form == "muamus_float" else COEFFICIENTS[..., :1]
    if where == "file":
        (tmp_path / "v.bin").write_bytes(np.moveaxis(values, -1, 0).tobytes(order="F"))
        domain = read(volume_case(**RAW, MediaFormat=form)).domain
    else:
        array = values if form == "muamus_float" else values[..., 0]
        domain = read(case(Domain={"MediaFormat": form}, Shapes=encode_array(array))).domain
    inside = np.isfinite(COEFFICIENTS[..., 0])
    np.testing.assert_array_equal(domain.labels, inside)
    np.testing.assert_array_equal(domain.mua_per_mm[inside], COEFFICIENTS[..., 0][inside])
    assert (domain.mus_per_mm is None) == (form == "mua_float")
    if domain.mus_per_mm is not None:
        np.testing.assert_array_equal(domain.mus_per_mm[inside], COEFFICIENTS[..., 1][inside])
    assert domain.medium(1).g == 0.01


def test_lists_without_paths_are_noted(read):
    array = encode_array(COEFFICIENTS)
    assert any("no ppath" in note for note in read(case(Domain={"MediaFormat": "muamus_float"}, Shapes=array)).notes)


@pytest.mark.parametrize(
    ("domain", "words"),
    [
        ({"VolumeFile": "v.bin", "Dim": [4, 5, 7]}, "120 bytes, but its header declares 140|needs 140"),
        ({"VolumeFile": "v.bin", "Dim": [4, 5, 5]}, "120 bytes; .* needs 100"),
        ({"VolumeFile": "v.bin", "Dim": [4, 5, 6], "MediaFormat": "short"}, "240"),
        ({"VolumeFile": "v.bin", "Dim": [4, 5, 6], "MediaFormat": "svmc"}, "a plane splits in two.*give the label"),
        ({"VolumeFile": "v.bin", "Dim": [4, 5, 6], "MediaFormat": "mixlabel"}, "two labels in a voxel.*asgn_float"),
        ({"VolumeFile": "v.bin", "Dim": [4, 5, 6], "MediaFormat": "bite"}, "MediaFormat is 'bite'"),
        ({"VolumeFile": "none.bin", "Dim": [4, 5, 6]}, "none.bin does not exist"),
        ({"VolumeFile": "v.nii", "Dim": [4, 5, 7]}, r"shape \(4, 5, 6\) and Domain.Dim"),
        ({"VolumeFile": "v.nii", "Dim": [4, 5, 6], "MediaFormat": "mua_float"}, "needs float32"),
        ({"VolumeFile": "v.bnii", "Dim": [4, 5, 6]}, "not binary JSON that can be read"),
        ({"VolumeFile": "bad.jnii", "Dim": [4, 5, 6]}, "NIFTIData is absent"),
        ({"VolumeFile": "bad.json", "Dim": [4, 5, 6]}, "Shapes is absent"),
    ],
)
def test_wrong_volume_files(tmp_path, read, domain, words):
    (tmp_path / "v.bin").write_bytes(LABELS.tobytes(order="F"))
    (tmp_path / "v.bnii").write_bytes(b"x")
    nib.save(nib.Nifti1Image(LABELS, np.eye(4)), tmp_path / "v.nii")
    for name in ("bad.jnii", "bad.json"):
        written(tmp_path, {"Other": 1}, name)
    with pytest.raises(InvalidInput, match=words):
        read(volume_case(**domain))


@pytest.mark.parametrize("place", ["../v.bin", "sub/../../v.bin", "{folder}/v.bin", "/etc/hostname", "a\0b"])
def test_volumes_outside_the_folder_of_the_file_are_not_touched(tmp_path, read, place):
    outside = tmp_path.parent / "outside"
    outside.mkdir(exist_ok=True)
    for folder in (outside, tmp_path.parent):
        (folder / "v.bin").write_bytes(b"1234567")
    with pytest.raises(InvalidInput, match=r"VolumeFile is .* outside the folder of the JSON file") as refused:
        read(volume_case(Dim=[4, 5, 6], VolumeFile=place.replace("{folder}", str(outside))))
    assert "7" not in str(refused.value).replace(str(tmp_path.parent), "")


def test_a_volume_may_be_named_by_its_whole_path_in_the_folder(tmp_path, read):
    (tmp_path / "v.bin").write_bytes(LABELS.tobytes(order="F"))
    found = read(volume_case(Dim=[4, 5, 6], VolumeFile=str(tmp_path / "v.bin")))
    np.testing.assert_array_equal(found.domain.labels, LABELS)
