"""Images, scans and their gradient tables."""

from pathlib import Path

import nibabel as nib
import numpy as np

from napari_gpubio import tracts
from tests.conformance import Did, Rows

ROWS = Rows("Images and diffusion scans")
AFFINE = np.diag([-2.0, 2, 2, 1])
DIRECTIONS = np.random.default_rng(0).normal(size=(8, 3))
DIRECTIONS /= np.linalg.norm(DIRECTIONS, axis=1, keepdims=True)
DIRECTIONS[0] = 0
BVALS = np.array([0.0] + [1000.0] * 7)


def scan_file(folder: Path, bvals=BVALS, directions=DIRECTIONS, shape=(4, 4, 4, 8), name="dwi") -> Path:
    """Write a scan with its gradient table; returns the path."""
    signals = np.random.default_rng(1).integers(1, 900, shape).astype(np.int16)
    nib.save(nib.Nifti1Image(signals, AFFINE), folder / f"{name}.nii.gz")
    np.savetxt(folder / f"{name}.bval", [bvals], fmt="%g")
    np.savetxt(folder / f"{name}.bvec", np.asarray(directions).T)
    return folder / f"{name}.nii.gz"


@ROWS.row("read_dwi", "an ordinary scan", Did.READ)
def _(folder):
    scan = tracts.io.read_dwi(scan_file(folder))
    assert scan.is_b0.sum() == 1
    return scan
