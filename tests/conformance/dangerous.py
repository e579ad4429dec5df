"""Inputs whose numbers look right and are not: each is refused, or a note says what is wrong with it.

The rows of this module are gradient tables that only the tensors show to be wrong. `ELSEWHERE` names rows of the other
modules, by their readers.
"""

import numpy as np

from napari_gpubio.core.volumes import write_volume
from tests.conformance import Did, Rows
from tests.diffusion.tensor_samples import sticks
from tests.shell import run_verb

ROWS = Rows("Dangerous inputs")
ELSEWHERE = {
    "File > Open": (
        "a series of another length beside shared bvals",
        "tensors beside a table of as many rows, which the folder shares",
        "peaks of length 1, with MRtrix's header", "peaks whose lengths differ, with FSL's header",
        "symmetric matrices that may be covariances, as large as in um^2/ms",
        "a dose in another frame of reference than the CT", "relative doses", "the dose of a beam, and the plan",
        "errors of a dose, and the plan", "a dose of another plan than the one beside it",
        "doses of some beams of a plan", "a dose of a beam twice", "a dose and structures of two patients",
    ),
    "read_volume": (
        "lengths in micron (xyzt_units)", "lengths in meter (xyzt_units)", "no orientation (both codes 0)",
        "sform and qform that differ in left and right", "a quaternion that is no rotation",
    ),
    "read_mask": ("a mask of another place", "a mask without orientation and of another shape", "a probability map"),
    "read_dwi": (
        "the files exchanged", "another number of b-values", "b-values of 1e9", "b-values of 100,000",
        "b-values in ms/um^2", "directions of length 1e4", "b-values with the image's name, directions of the folder",
        "directions before and after eddy, which differ", "a table of another BIDS run beside it",
        "signals that are negative, as of a phase", "signals that are all 0",
        "directions in one plane", "commas that are decimal ones or not", "no orientation: directions rest on it",
    ),
    "read_tensors": ("an order that the numbers do not show", "um^2/ms"),
    "read_fixels": (
        "peaks (X, Y, Z, 3 n) of DIPY's workflows: length 1, zeros", "peaks of length 1, with MRtrix's header",
        "vectors (X, Y, Z, 1, 3) of length 1 with the intent VECTOR",
        "a fixel folder whose index counts other directions",
    ),
    "read_atlas": (
        "a table that counts the labels from 0", "a table beside it that names other numbers", "probabilities",
    ),
    "read_tractogram (trk)": ("no matrix (its last number is 0)", "one point far outside of any head"),
    "connectome": ("a tck file of unknown place, read in blocks",),
    "dvh": (
        "all structures in another frame of reference", "structures of another patient than the dose",
        "NIfTI labels without orientation, of another size",
    ),
    "Plan.prescription_of": ("the sum of two of three beams", "a sum with one beam twice", "the dose of another plan"),
    "read_ct": ("values that are no Hounsfield units", "a slice that is in other units"),
    "read_mcx": ("a domain of one slice, which MCX traces in two dimensions", "edges of voxels that differ"),
    "read_snirf": ("no unit", "a unit that is not known"),
    "contrast": ("frames that another reader made black",),
}  # fmt: skip


def bundles(folder):
    """Write a scan of straight bundles and its mask; returns directions, shape (3, N), and a point in a bundle (mm)."""
    v1 = sticks(2.0 * np.moveaxis(np.indices((40, 40, 40)), 0, -1) - 39.0)
    directions = np.random.default_rng(1).normal(size=(3, 16))
    directions /= np.linalg.norm(directions, axis=0)
    bvals = np.where(np.arange(16) > 0, 1000, 0)
    signals = 1000 * np.exp(-bvals * (0.3e-3 + 1.4e-3 * (v1 @ (directions * [[-1], [1], [1]])) ** 2))
    affine = np.diag([2.0, 2.0, 2.0, 1.0])  # of a positive determinant: bvec has its first axis reversed
    write_volume(folder / "dwi.nii.gz", signals.astype(np.float32), affine)
    write_volume(folder / "mask.nii.gz", v1.any(axis=-1).astype(np.uint8), affine)
    np.savetxt(folder / "dwi.bval", bvals[None], fmt="%d")
    return directions, 2 * np.argwhere(v1.any(axis=-1))[1000]


def _add_wrong_table(trait, change):
    @ROWS.row("napari-gpubio track", f"a gradient table in which {trait}", Did.ASSUMED, "gradient table looks wrong")
    def _(folder):
        directions, seed = bundles(folder)
        np.savetxt(folder / "dwi.bvec", change(directions))
        words = "--seed", *seed, "--count", 3, "--out", folder / "a.trk", "--device", "cpu"
        run_verb("track", folder / "dwi.nii.gz", "--mask", folder / "mask.nii.gz", *words)


for _trait, _change in {
    "the x axis is reversed": lambda bvec: bvec * [[-1], [1], [1]],
    "the z axis is reversed": lambda bvec: bvec * [[1], [1], [-1]],
    "y and z are exchanged": lambda bvec: bvec[[0, 2, 1]],
    "x and y are exchanged": lambda bvec: bvec[[1, 0, 2]],
}.items():
    _add_wrong_table(_trait, _change)


@ROWS.row("napari-gpubio tensors", "a scan that does not show whether an axis is flipped", Did.ASSUMED, "does not show")
def _(folder):
    directions, _ = bundles(folder)
    np.savetxt(folder / "dwi.bvec", directions)
    noise = np.random.default_rng(0).normal(500, 60, (12, 12, 12, 16)).astype(np.float32)
    write_volume(folder / "dwi.nii.gz", noise, np.diag([2.0, 2.0, 2.0, 1.0]))
    run_verb("tensors", folder / "dwi.nii.gz", "--out", folder / "tensors.nii.gz", "--device", "cpu")
