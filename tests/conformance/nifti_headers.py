"""Headers of NIfTI and FreeSurfer: units, where voxels lie, and what is damaged or missing there."""

import nibabel as nib
import numpy as np

from napari_gpubio.core.volumes import has_orientation
from napari_gpubio.diffusion.io import read_mask, read_volume
from tests.conformance import Did, Rows
from tests.conformance.volumes import AFFINE, GRAY, INSIDE, OPEN, SIZES, TURNED, opened, write

ROWS = Rows("Headers of images")


def length_unit(unit, factor, did, *facts):
    """Add a row: a header's unit of length."""

    @ROWS.row("read_volume", f"lengths in {unit} (xyzt_units)", did, *facts)
    def _(folder):
        image = nib.Nifti1Image(GRAY, np.diag([-2.0, 2, 2, 1]))
        image.header.set_xyzt_units(unit)
        nib.save(image, folder / "a.nii")
        np.testing.assert_allclose(read_volume(folder / "a.nii")[1], np.diag([-2, 2, 2, 1 / factor]) * factor)


length_unit("micron", 1e-3, Did.ASSUMED, "micron", "mm")
length_unit("meter", 1e3, Did.ASSUMED, "meter", "mm")
length_unit("mm", 1.0, Did.READ)
length_unit("unknown", 1.0, Did.READ)


@ROWS.row("read_volume", "voxels of 2 m", Did.ASSUMED, "2000 mm", "unit of length")
def _(folder):
    np.testing.assert_allclose(read_volume(write(folder, GRAY, affine=np.diag([2e3, 2e3, 2, 1])))[1][0, 0], 2e3)


@ROWS.row("read_volume", "no orientation (both codes 0)", Did.ASSUMED, "no orientation", "left")
def _(folder):
    read_volume(write(folder, GRAY, affine=None))


@ROWS.row("read_mask", "a mask without orientation on an image that has one", Did.ASSUMED, "voxel by voxel")
def _(folder):
    np.testing.assert_array_equal(
        read_mask(write(folder, INSIDE, affine=None, pixdim=SIZES), GRAY.shape, TURNED), INSIDE
    )


@ROWS.row("read_mask", "a mask on an image without orientation", Did.ASSUMED, "voxel by voxel")
def _(folder):
    _, assumed = read_volume(write(folder, INSIDE, affine=None, pixdim=SIZES))
    mask = read_mask(write(folder, INSIDE, "mask.nii.gz", affine=TURNED), GRAY.shape, assumed)
    np.testing.assert_array_equal(mask, INSIDE)


@ROWS.row("read_mask", "a mask of another place", Did.REFUSED, "elsewhere")
def _(folder):
    return read_mask(write(folder, GRAY), GRAY.shape, TURNED)


@ROWS.row("read_mask", "a mask without orientation and of other voxel sizes", Did.REFUSED, "elsewhere")
def _(folder):
    return read_mask(write(folder, GRAY, affine=None), GRAY.shape, TURNED)


@ROWS.row("read_mask", "a mask without orientation and of another shape", Did.REFUSED, "shape")
def _(folder):
    return read_mask(write(folder, GRAY, affine=None), (5, 6, 4), TURNED)


@ROWS.row("read_volume", "mgh without orientation (goodRASFlag 0)", Did.ASSUMED, "no orientation", "left")
def _(folder):
    path = write(folder, GRAY, "a.mgh", nib.MGHImage)
    raw = bytearray(path.read_bytes())
    raw[28:30] = b"\0\0"
    path.write_bytes(raw)
    assert not has_orientation(path)
    read_volume(path)


@ROWS.row("read_volume", "a qform alone", Did.READ)
def _(folder):
    image = nib.Nifti1Image(GRAY, AFFINE)
    image.set_sform(None, 0)
    image.set_qform(AFFINE, 1)
    nib.save(image, folder / "a.nii")
    np.testing.assert_allclose(read_volume(folder / "a.nii")[1], AFFINE)


@ROWS.row("read_volume", "sform and qform that differ in left and right", Did.ASSUMED, "which side is left", "sform")
def _(folder):
    image = nib.Nifti1Image(GRAY, AFFINE)
    image.set_sform(AFFINE, 1)
    image.set_qform(np.diag([2.0, 2, 2, 1]), 1)
    nib.save(image, folder / "a.nii")
    np.testing.assert_allclose(read_volume(folder / "a.nii")[1], AFFINE)


@ROWS.row("read_volume", "a sform that cannot be used, and a qform that can", Did.ASSUMED, "qform was taken")
def _(folder):
    image = nib.Nifti1Image(GRAY, AFFINE)
    image.set_qform(AFFINE, 1)
    nib.save(image, folder / "a.nii")
    raw = bytearray((folder / "a.nii").read_bytes())
    raw[280:296] = np.array([np.nan, 0, 0, 0], "<f4").tobytes()
    (folder / "a.nii").write_bytes(raw)
    np.testing.assert_allclose(read_volume(folder / "a.nii")[1], AFFINE)


@ROWS.row("read_volume", "voxels of a confocal microscope, in micrometers", Did.ASSUMED, "microns", "mm")
def _(folder):
    image = nib.Nifti1Image(GRAY, np.diag([0.065, 0.065, 0.2, 1]))
    image.header.set_xyzt_units("micron")
    nib.save(image, folder / "a.nii")
    np.testing.assert_allclose(np.diag(read_volume(folder / "a.nii")[1])[:3], [6.5e-5, 6.5e-5, 2e-4], rtol=1e-6)


@ROWS.row("read_mask", "a probability map", Did.ASSUMED, "values from", "count as inside")
def _(folder):
    read_mask(write(folder, GRAY / np.float32(200)), GRAY.shape, AFFINE)


@ROWS.row("read_volume", "sform and qform that differ otherwise (the sform holds)", Did.READ)
def _(folder):
    image = nib.Nifti1Image(GRAY, AFFINE)
    image.set_qform(np.diag([-3.0, 3, 3, 1]), 1)
    image.set_sform(AFFINE, 2)
    nib.save(image, folder / "a.nii")
    np.testing.assert_allclose(read_volume(folder / "a.nii")[1], AFFINE)


def bad_sform(trait, row, *facts):
    """Add a row: an affine that cannot be used."""

    @ROWS.row(OPEN, trait, Did.ASSUMED, *facts, "2 x 2 x 2 mm")
    def _(folder):
        path = write(folder, GRAY, "a.nii")
        raw = bytearray(path.read_bytes())
        raw[280:296] = np.array(row, "<f4").tobytes()
        path.write_bytes(raw)
        ((data, _, _),) = opened(path)
        assert data.size == GRAY.size


bad_sform("an affine with NaN", [np.nan, 0, 0, 0], "not finite", "assumed")
bad_sform("an affine that has no volume", [0, 0, 0, 0], "cannot be inverted", "assumed")
bad_sform("an affine of absurd size", [1e20, 0, 0, 0], "mm", "assumed")


def quaternion(trait, vector, *facts):
    """Add a row: a qform alone, whose quaternion is none."""

    @ROWS.row("read_volume", trait, Did.ASSUMED, *facts)
    def _(folder):
        image = nib.Nifti1Image(GRAY, np.diag([2.0, 2, 2, 1]))
        image.set_sform(None, 0)
        image.set_qform(np.diag([-2.0, -2, 2, 1]), 1)
        nib.save(image, folder / "a.nii")
        raw = bytearray((folder / "a.nii").read_bytes())
        raw[256:268] = np.array(vector, "<f4").tobytes()
        (folder / "a.nii").write_bytes(raw)
        values, affine = read_volume(folder / "a.nii")
        np.testing.assert_array_equal(values, GRAY)
        np.testing.assert_allclose(affine, np.diag([-2.0, -2, 2, 1] if vector[2] == 1.001 else [2.0, 2, 2, 1]))


quaternion("a quaternion slightly longer than 1", [0, 0, 1.001], "quaternion", "1.001", "length 1")
quaternion("a quaternion that is no rotation", [0, 3, 4], "not finite", "2 x 2 x 2 mm", "assumed")


@ROWS.row("read_volume", "a file (.nii) with a damaged extension", Did.ASSUMED, "extensions", "left out")
def _(folder):
    path = write(folder, GRAY, "a.nii")
    raw = path.read_bytes()
    extension = b"\1\0\0\0" + np.array([2**31 - 16, 4], "<i4").tobytes() + bytes(24)
    path.write_bytes(raw[:108] + np.array([384], "<f4").tobytes() + raw[112:348] + extension + raw[352:])
    np.testing.assert_array_equal(read_volume(path)[0], GRAY)


@ROWS.row("read_volume", "a pair whose header has a damaged extension", Did.ASSUMED, "extensions", "left out")
def _(folder):
    path = write(folder, GRAY, "a.img", nib.Nifti1Pair)
    raw = (folder / "a.hdr").read_bytes()[:348]
    (folder / "a.hdr").write_bytes(raw + b"\1\0\0\0" + np.array([2**31 - 16, 4], "<i4").tobytes() + b"text")
    np.testing.assert_array_equal(read_volume(path)[0], GRAY)


@ROWS.row("read_volume", "an intercept that is NaN beside a slope", Did.ASSUMED, "scl_inter", "taken for 0")
def _(folder):
    image = nib.Nifti1Image(GRAY, AFFINE)
    raw = bytearray(image.to_bytes())
    raw[112:120] = np.array([2, np.nan], "<f4").tobytes()
    (folder / "a.nii").write_bytes(raw)
    np.testing.assert_allclose(read_volume(folder / "a.nii")[0], 2.0 * GRAY)


def _add_offset(offset):
    @ROWS.row("read_volume", f"numbers inside of the header (vox_offset {offset})", Did.ASSUMED, f"vox_offset {offset}")
    def _(folder):
        raw = bytearray(nib.Nifti1Image(GRAY, AFFINE).to_bytes())
        raw[108:112] = np.array([offset], "<f4").tobytes()
        (folder / "a.nii").write_bytes(raw)
        np.testing.assert_array_equal(read_volume(folder / "a.nii")[0], GRAY)


_add_offset(0)
_add_offset(348)


@ROWS.row("read_volume", "axes after the third of length 0", Did.ASSUMED, "axis 4, 5", "taken for 1")
def _(folder):
    raw = bytearray(nib.Nifti1Image(GRAY, AFFINE).to_bytes())
    raw[40:56] = np.array([5, *GRAY.shape, 0, 0, 0, 0], "<i2").tobytes()
    (folder / "a.nii").write_bytes(raw)
    np.testing.assert_array_equal(read_volume(folder / "a.nii")[0], GRAY)
