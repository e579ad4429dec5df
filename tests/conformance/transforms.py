"""Transforms from one image to another: ITK's, FLIRT's, and plain matrices."""

import numpy as np

from napari_gpubio.core.space import apply_affine
from napari_gpubio.registration.io import read_transform
from tests.conformance import Did, Rows

ROWS = Rows("Transforms")
ITK = "#Insight Transform File V1.0\n#Transform 0\nTransform: {}\nParameters: {}\nFixedParameters: {}\n"
SHIFT = "1 0 0 0 1 0 0 0 1 -5 0 0"  # LPS: 5 mm to the right


def shifts(folder, name, text):
    """Write a file, and check that its transform goes 5 mm to the right."""
    (folder / name).write_text(text, encoding="utf-8")
    np.testing.assert_allclose(
        apply_affine(read_transform(folder / name).matrix, [1.0, 2.0, 3.0]), [6, 2, 3], atol=1e-9
    )


@ROWS.row("read_transform", "ITK's affine transform as text", Did.READ)
def _(folder):
    shifts(folder, "a.tfm", ITK.format("AffineTransform_double_3_3", SHIFT, "0 0 0"))


@ROWS.row("read_transform", "ITK's rigid transform in single precision", Did.READ)
def _(folder):
    shifts(folder, "a.txt", ITK.format("Euler3DTransform_float_3_3", "0 0 0 -5 0 0", "7 8 9 0"))


@ROWS.row("read_transform", "4 rows of 4 numbers, which do not say between what", Did.ASSUMED)
def _(folder):
    shifts(folder, "a.txt", "1 0 0 5\n0 1 0 0\n0 0 1 0\n0 0 0 1\n")


@ROWS.row("read_transform", "FLIRT's matrix without its images", Did.REFUSED)
def _(folder):
    shifts(folder, "a.mat", "1 0 0 5\n0 1 0 0\n0 0 1 0\n0 0 0 1\n")


@ROWS.row("read_transform", "a transform of two dimensions", Did.REFUSED)
def _(folder):
    shifts(folder, "a.tfm", ITK.format("AffineTransform_double_2_2", "1 0 0 1 5 0", "0 0"))
