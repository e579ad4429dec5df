"""Reading diffusion series: world directions come back from every affine; bad files give a clear sentence."""

import gzip
from argparse import ArgumentTypeError

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core import volumes
from napari_gpubio.core.command_line import whole_numbers
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations import read_record, run
from napari_gpubio.diffusion.io.dwi import find_gradient_files, read_dwi
from napari_gpubio.diffusion.operations.scans import OpenScan
from tests.diffusion.tensor_samples import AFFINES, TURN, axes_of
from tests.sentences import says
from tests.shell import run_verb

DIRECTIONS = np.random.default_rng(5).normal(size=(15, 3))
DIRECTIONS /= np.linalg.norm(DIRECTIONS, axis=1, keepdims=True)
DIRECTIONS[0] = 0
BVALS = np.array([0.0] + [1000.0] * 8 + [2000.0] * 6)


def write_scan(
    folder, affine=AFFINES["isotropic"], *, dtype=np.float64, name="dwi.nii.gz", bval="dwi.bval", bvec="dwi.bvec"
):
    """Write a scan of 3 x 2 x 4 voxels and its table; returns the path."""
    signals = np.random.default_rng(3).uniform(200, 3000, (3, 2, 4, len(BVALS)))
    nib.save(nib.Nifti1Image(signals.astype(dtype), affine), folder / name)
    np.savetxt(folder / bval, BVALS[None], fmt="%.17g")
    np.savetxt(folder / bvec, (DIRECTIONS @ axes_of(affine, "fsl")).T, fmt="%.17g")
    return folder / name


@pytest.mark.parametrize("affine", AFFINES.values(), ids=AFFINES)
def test_directions_in_world_axes_come_back(affine, tmp_path):
    path = write_scan(tmp_path, affine)
    scan = read_dwi(path)
    np.testing.assert_allclose(scan.directions, DIRECTIONS, atol=1e-12)
    np.testing.assert_array_equal(scan.bvals, BVALS)
    np.testing.assert_allclose(scan.affine, affine, atol=1e-5)
    assert scan.notes == ()
    assert scan.path == path
    assert scan.shells() == [0, 1000, 2000]


@pytest.mark.parametrize(
    ("name", "bval", "bvec"),
    [
        ("dwi.nii.gz", "dwi.nii.gz.bval", "dwi.nii.gz.bvec"),
        ("dwi.nii", "dwi.bvals", "dwi.bvecs"),
        ("dwi.nii.gz", "bvals", "bvecs"),
        ("dwi.nii.gz", "dwi.bval", "dwi.eddy_rotated_bvecs"),
        ("a.b.nii.gz", "a.b.bval", "a.b.bvec"),
        ("dwi.nii", "bvals.txt", "bvecs.txt"),
    ],
)
def test_gradient_files_are_found(name, bval, bvec, tmp_path):
    path = write_scan(tmp_path, name=name, bval=bval, bvec=bvec)
    notes = read_dwi(path).notes
    assert says(" ".join(notes), bval, bvec) == bval.startswith("bval") == bool(notes)
    assert find_gradient_files(path) == (tmp_path / bval, tmp_path / bvec)


def test_own_files_go_before_those_of_the_folder(tmp_path):
    path = write_scan(tmp_path)
    (tmp_path / "bvals").write_text("1 2 3")
    (tmp_path / "bvecs").write_text("1 2 3")
    assert read_dwi(path).notes == ()
    with pytest.raises(InvalidInput, match="bvals has 3 b-values and the image 15 volumes"):
        read_dwi(path, bval=tmp_path / "bvals")
    for name in ("dwi.bvec", "bvecs"):
        (tmp_path / name).unlink()
    with pytest.raises(InvalidInput, match=r"no bvec file was found beside dwi.nii.gz \(tried dwi.bvec.*give bvec="):
        read_dwi(path)
    assert find_gradient_files(path) == (tmp_path / "dwi.bval", None)


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.float32, ">i2", ">f4"])
def test_types(dtype, tmp_path):
    data = read_dwi(write_scan(tmp_path, dtype=np.dtype(dtype))).data
    assert data.dtype == np.dtype(dtype).newbyteorder("=")
    assert data.dtype.isnative


def test_scaled_integers_and_signals_that_are_not_finite(tmp_path):
    path = write_scan(tmp_path)
    image = nib.Nifti1Image(np.full((2, 2, 2, 15), 7, np.int16), np.eye(4))
    image.header.set_slope_inter(0.5, 10)
    nib.save(image, path)
    data = read_dwi(path).data
    assert data.dtype == np.float32
    np.testing.assert_array_equal(data, 13.5)
    values = np.ones((2, 2, 2, 15), np.float32)
    values[0, 0, 0, :3] = [np.nan, np.inf, -np.inf]
    nib.save(nib.Nifti1Image(values, np.eye(4)), path)
    scan = read_dwi(path)
    np.testing.assert_array_equal(scan.data[0, 0, 0], 0)
    np.testing.assert_array_equal(scan.data[0, 0, 1], 1)
    assert "voxels with signals that are not finite were set to 0 in all volumes: 1" in scan.notes


def test_a_header_without_orientation_is_noted(tmp_path):
    path = write_scan(tmp_path)
    image = nib.load(path)
    image.header["sform_code"] = image.header["qform_code"] = 0
    nib.save(nib.Nifti1Image(np.asarray(image.dataobj), None, image.header.copy()), path)
    assert any("gives no orientation" in note for note in read_dwi(path).notes)


def test_damaged_files(tmp_path):
    path = write_scan(tmp_path, name="dwi.nii")
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(
        InvalidInput, match=r"dwi.nii has 3231 bytes, but its header declares 2880 bytes .* from byte 352"
    ):
        read_dwi(path)
    packed = tmp_path / "dwi.nii.gz"
    packed.write_bytes(gzip.compress(whole)[:-30])
    with pytest.raises(InvalidInput, match=r"dwi.nii.gz cannot be read .* copy or download it again"):
        read_dwi(packed)
    for content in (b"", b"hello\n" * 200, whole[:100]):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match=r"dwi.nii (cannot be read|is empty)"):
            read_dwi(path)


def test_a_header_that_promises_too_much(tmp_path, monkeypatch):
    path = write_scan(tmp_path, name="dwi.nii")
    whole = bytearray(path.read_bytes())
    whole[42:50] = np.array([30000, 30000, 30000, 15], "<i2").tobytes()
    for name, content in (("dwi.nii", whole), ("dwi.nii.gz", gzip.compress(whole))):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InvalidInput, match="declares 3240000000000000 bytes"):
            read_dwi(tmp_path / name)
    path = write_scan(tmp_path)
    monkeypatch.setattr(volumes, "free_memory_bytes", lambda _device: 2879)
    with pytest.raises(InvalidInput, match="of memory and"):
        read_dwi(path)


def test_images_of_another_kind(tmp_path):
    write_scan(tmp_path)
    nib.save(nib.Nifti1Image(np.ones((3, 3, 3), np.float32), np.eye(4)), tmp_path / "b0.nii")
    nib.save(nib.MGHImage(np.ones((3, 3, 3, 15), np.float32), np.eye(4)), tmp_path / "dwi.mgz")
    (tmp_path / "dwi.png").write_bytes(b"PNG")
    (tmp_path / "renamed.nii.gz").write_bytes((tmp_path / "dwi.mgz").read_bytes())
    for name, sentence in [
        ("b0.nii", r"shape \(3, 3, 3\); a diffusion series has four dimensions"),
        ("dwi.png", "not a file that can be read here"),
        ("renamed.nii.gz", "not a NIfTI file|cannot be read"),
        ("no.nii", "does not exist"),
    ]:
        with pytest.raises(InvalidInput, match=sentence):
            read_dwi(tmp_path / name)


def write_mif(path, scheme, volumes_=15):
    data = np.arange(8 * volumes_, dtype="<i2")
    lines = ["mrtrix image", f"dim: 2,2,2,{volumes_}", "vox: 2,2,2,nan", "layout: +0,+1,+2,+3", "datatype: Int16LE"]
    lines += ["transform: " + ",".join(map(repr, row)) for row in np.column_stack([TURN, [1, 2, 3]]).tolist()]
    lines += ["dw_scheme: " + ",".join(map(repr, row)) for row in scheme.tolist()] + ["file: . 4096", "END\n"]
    path.write_bytes("\n".join(lines).encode().ljust(4096, b"\0") + data.tobytes())


def test_mif(tmp_path):
    scheme = np.column_stack([DIRECTIONS * 0.5, BVALS * 4])
    write_mif(tmp_path / "a.mif", scheme)
    scan = read_dwi(tmp_path / "a.mif")
    np.testing.assert_allclose(scan.directions, DIRECTIONS, atol=1e-15)  # world axes, whatever the transform
    np.testing.assert_allclose(scan.bvals, BVALS, rtol=1e-14)
    assert scan.data.shape == (2, 2, 2, 15)
    assert "multiplied by the squared lengths" in scan.notes[0]
    with pytest.raises(InvalidInput, match="leave bval and bvec out"):
        read_dwi(tmp_path / "a.mif", bval="x.bval")
    write_mif(tmp_path / "b.mif", np.zeros((0, 4)))
    with pytest.raises(InvalidInput, match=r"no bval file was found beside b.mif"):
        read_dwi(tmp_path / "b.mif")


def test_real_brain(shared_data):
    scan = read_dwi(shared_data / "dwi" / "whole_brain_b1000" / "dwi.nii.gz")
    assert scan.data.shape == (73, 87, 73, 33)
    assert scan.data.dtype == np.int16
    assert scan.shells() == [0, 1000]
    np.testing.assert_allclose(np.linalg.norm(scan.directions, axis=1), [0] + [1] * 32, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "numbers"), [("3", [3]), ("0-2,7", [0, 1, 2, 7]), ("7, 0-1,1", [0, 1, 7]), ("4-4", [4])]
)
def test_volumes_are_listed_as_numbers_and_ranges(text, numbers):
    assert whole_numbers(text) == numbers


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "1;2", "0-99999999", "1.5"])
def test_what_lists_no_volumes_is_refused(text):
    with pytest.raises(ArgumentTypeError, match="as in 0-5,8"):
        whole_numbers(text)


def test_the_shell_reads_a_scan_as_the_api_does(tmp_path):
    path, record = write_scan(tmp_path), tmp_path / "fit.json"
    words = "--volumes", "0,3-8", "--b0-limit", 100, "--bval", tmp_path / "dwi.bval", "--bvec", tmp_path / "dwi.bvec"
    run_verb("tensors", path, *words, "--device", "cpu", "--record", record)
    scan = run(read_record(record).scan.of)
    np.testing.assert_array_equal(scan.bvals, BVALS[[0, *range(3, 9)]])
    assert scan.b0_limit == 100
    again = read_dwi(path, **scan.read_with)
    np.testing.assert_array_equal(again.data, scan.data)
    assert again.b0_limit == 100


def test_a_folder_stands_for_the_only_scan_in_it(tmp_path, capsys):
    path = write_scan(tmp_path, name="data.nii.gz", bval="bvals", bvec="bvecs")  # as FSL has it
    nib.save(nib.Nifti1Image(np.ones((3, 2, 4), np.uint8), np.eye(4)), tmp_path / "nodif_brain_mask.nii.gz")
    assert run_verb("tensors", tmp_path, "--out", tmp_path / "tensors.nii.gz") == 0
    assert f"of {tmp_path.name}, data.nii.gz is taken" in capsys.readouterr().err
    again = tmp_path / "sub-01" / "dwi"
    again.mkdir(parents=True)
    other = write_scan(again)
    assert OpenScan.found_in(again.parent) == OpenScan.found_in(other) == other
    assert OpenScan.found_in(path) == path
    with pytest.raises(InvalidInput, match=r"holds 2 diffusion scans; give one of data\.nii\.gz, sub-01.dwi.dwi\.nii"):
        OpenScan.found_in(tmp_path)


def test_a_folder_of_dicom_files_is_to_be_converted(tmp_path):
    (tmp_path / "IM0001").write_bytes(bytes(128) + b"DICM")
    with pytest.raises(InvalidInput, match="holds DICOM files; convert them with dcm2niix"):
        OpenScan.found_in(tmp_path)
    (tmp_path / "IM0001").write_bytes(b"")
    with pytest.raises(InvalidInput, match="holds no image of several volumes"):
        OpenScan.found_in(tmp_path)
