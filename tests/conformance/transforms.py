"""Transforms from one image to another: ITK's, FLIRT's, and plain matrices."""

import nibabel as nib
import numpy as np

from napari_gpubio.registration.io import read_transform
from tests.conformance import Did, Rows
from tests.registration.samples import needs_sitk

ROWS = Rows("Transforms")
ITK = "#Insight Transform File V1.0\n#Transform 0\nTransform: {}\nParameters: {}\nFixedParameters: {}\n"
SHIFT = "1 0 0 0 1 0 0 0 1 -5 0 0"  # LPS: 5 mm to the right


def shifts(folder, name, text):
    """Write a file, and check that its transform goes 5 mm to the right."""
    if text:
        (folder / name).write_text(text, encoding="utf-8")
    np.testing.assert_allclose(read_transform(folder / name).moved(np.array([1.0, 2.0, 3.0])), [6, 2, 3], atol=1e-6)


def save_field(folder, name, shape):
    """Displacements of 5 mm to the right, as ITK has them, around the world's origin."""
    affine = np.diag([4.0, 4.0, 4.0, 1.0])
    affine[:3, 3] = -8
    nib.save(nib.Nifti1Image(np.full(shape, [-5.0, 0, 0], np.float32), affine), folder / name)


@ROWS.row("read_transform", "ITK's affine transform as text", Did.READ)
def _(folder):
    shifts(folder, "a.tfm", ITK.format("AffineTransform_double_3_3", SHIFT, "0 0 0"))


@ROWS.row("read_transform", "ITK's rigid transform in single precision", Did.READ)
def _(folder):
    shifts(folder, "a.txt", ITK.format("Euler3DTransform_float_3_3", "0 0 0 -5 0 0", "7 8 9 0"))


@ROWS.row("read_transform", "displacements of ITK and ANTs (1Warp.nii.gz)", Did.READ)
def _(folder):
    save_field(folder, "1Warp.nii.gz", (6, 6, 6, 1, 3))
    shifts(folder, "1Warp.nii.gz", "")


@ROWS.row("read_transform", "ITK's composite of an affine transform and displacements", Did.READ)
def _(folder):
    library = needs_sitk()
    field = np.zeros((6, 6, 6, 3))
    field[..., 0] = -2
    image = library.GetImageFromArray(field, isVector=True)
    shift = library.TranslationTransform(3, (-3.0, 0, 0))
    both = library.CompositeTransform([shift, library.DisplacementFieldTransform(image)])
    library.WriteTransform(both, str(folder / "a.h5"))
    found = read_transform(folder / "a.h5").moved(np.array([-1.0, -2.0, 3.0]))  # inside, to the left and back
    np.testing.assert_allclose(found, [4, -2, 3], atol=1e-6)


@ROWS.row("read_transform", "displacements of FNIRT, in another convention", Did.REFUSED)
def _(folder):
    save_field(folder, "warp.nii.gz", (6, 6, 6, 3))
    read_transform(folder / "warp.nii.gz")


@ROWS.row("read_transform", "4 rows of 4 numbers, which do not say between what", Did.ASSUMED)
def _(folder):
    shifts(folder, "a.txt", "1 0 0 5\n0 1 0 0\n0 0 1 0\n0 0 0 1\n")


@ROWS.row("read_transform", "FLIRT's matrix without its images", Did.REFUSED)
def _(folder):
    shifts(folder, "a.mat", "1 0 0 5\n0 1 0 0\n0 0 1 0\n0 0 0 1\n")


@ROWS.row("read_transform", "a transform of two dimensions", Did.REFUSED)
def _(folder):
    shifts(folder, "a.tfm", ITK.format("AffineTransform_double_2_2", "1 0 0 1 5 0", "0 0"))
