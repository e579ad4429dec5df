"""Peaks and fixels of other programs, and in which axes their directions are taken."""

import json
import warnings
from pathlib import Path

import h5py
import nibabel as nib
import numpy as np

from napari_gpubio.core.mif_writer import write_mif
from napari_gpubio.core.reading import ReadingNote
from napari_gpubio.diffusion import io
from napari_gpubio.diffusion.fods.model import FixelField
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.napari_io import read_layers
from tests.conformance import Did, Rows
from tests.diffusion.fods import fixel_samples as samples
from tests.diffusion.fods.fixel_samples import AMPLITUDES, COUNTS, MOST, SHAPE, THERE, WORLD
from tests.diffusion.tensor_samples import AFFINES, TURNS, axes_of, six, turned

ROWS = Rows("Peaks and fixels")
AFFINE = AFFINES["rotated"]  # whose world, bvec and voxel axes are three different ones
PATTERN = "(X, Y, Z, 3 n)"
GRID = (5, 6, 4)


# -- peaks and fixels -------------------------------------------------------------------------------------------------


def save(path: Path, values, affine=AFFINE, description="", intent=0) -> Path:
    image = nib.Nifti1Image(np.asarray(values), affine)
    image.header["descrip"] = description.encode()
    image.header["intent_code"] = intent
    nib.save(image, path)
    return path


def check_fixels(fixels, there=THERE):
    """Each fixel lies along one of the phantom, and voxels have as many as there should be."""
    np.testing.assert_array_equal(fixels.counts, there.sum(axis=3))
    given = fixels.dense(MOST)[0]
    best = np.abs(np.einsum("...nc,...mc->...nm", given, WORLD)).max(axis=-1)
    assert best[np.arange(MOST) < fixels.counts[..., None]].min() > 0.9999
    return fixels


def flat(frame, lengths=1.0, missing=0.0):
    """Peaks (X, Y, Z, 3 n) in the axes of a frame."""
    values = samples.own(AFFINE, frame) * np.asarray(lengths)[..., None]
    return np.where(THERE[..., None], values, missing).reshape(*SHAPE, -1).astype(np.float32)


WORLD_TEXT = "peaks, world axes, length = amplitude, 01234567"


def _tensors_of_turns():
    tensors = six(turned((1.7e-3, 0.3e-3, 0.2e-3), TURNS[:120])).reshape(*GRID, 6)
    return TensorField(tensors=tensors, mask=np.ones(GRID, bool), affine=AFFINE)


RELATIVE = AMPLITUDES / np.where(COUNTS > 0, AMPLITUDES[..., 0], 1)[..., None]
PEAKS = [  # trait, facts of the note, file, header, JSON file
    (f"peaks {PATTERN} of DIPY's workflows: length 1, zeros", ("bvec", "DIPY", "length 1"), flat("fsl"), "", None),
    (f"peaks {PATTERN} of scilpy: the longest is 1", ("bvec", "scilpy"), flat("fsl", RELATIVE), "", None),
    (f"peaks {PATTERN} of MRtrix: NaN where none is", ("world", "NaN"), flat("world", AMPLITUDES, np.nan), "", None),
    (f"peaks {PATTERN} of length 1 with NaN (fixel2peaks -nan)", ("world", "NaN"), flat("world", 1, np.nan), "", None),
    (f"peaks {PATTERN} of TractSeg: zeros, lengths differ", ("world", "'fsl'"), flat("world", AMPLITUDES), "", None),
    ("peaks whose header names MRtrix", ("MRtrix", "wrote"), flat("world", AMPLITUDES), "MRtrix version: 3.0.4", None),
    ("peaks with NaN and FSL's header", ("world", "NaN"), flat("world", AMPLITUDES, np.nan), "6.0.5:9e026117", None),
    ("peaks with this package's header, of other numbers", ("bvec", "length 1"), flat("fsl"), WORLD_TEXT, None),
    (
        "peaks of length 1 with a JSON file of MRtrix's commands",
        ("MRtrix", "fixel2peaks"),
        flat("world"),
        "",
        {"command_history": ["mrconvert a b", "/opt/bin/fixel2peaks fixels out.nii  (version=3.0.4)"]},
    ),
    ("peaks with a JSON file that names the frame", ("voxels", "a.json"), flat("voxel"), "", {"frame": "voxel"}),
    ("peaks of BIDS, axes xyz", ("world", "a.json"), flat("world"), "", {"OrientationEncoding": {"Reference": "xyz"}}),
    ("peaks of BIDS, axes ijk", ("voxels", "a.json"), flat("voxel"), "", {"OrientationEncoding": {"Reference": "ijk"}}),
]


def _add_peaks(trait, facts, values, header, sidecar):
    @ROWS.row("read_fixels", trait, Did.ASSUMED, *facts)
    def _(folder):
        path = save(folder / "a.nii.gz", values, description=header)
        if sidecar:
            (folder / "a.json").write_text(json.dumps(sidecar))
        return check_fixels(io.read_fixels(path))


for each in PEAKS:
    _add_peaks(*each)


def _add_own(name):
    @ROWS.row("read_fixels", f"peaks that this package wrote, {name}", Did.ASSUMED, "world", "header says")
    def _(folder):
        io.write_peaks(folder / name, FixelField.from_dense(WORLD, THERE.astype(float), AFFINE), missing=0)
        return check_fixels(io.read_fixels(folder / name))


_add_own("a.nii.gz")
_add_own("a.mif")


def _add_unclear(trait, facts, name, save_as, **keywords):
    @ROWS.row("read_fixels", trait, Did.REFUSED, "frame='world'", "tensors=", *facts)
    def _(folder):
        return io.read_fixels(save_as(folder / name, flat("fsl"), **keywords))

    @ROWS.row("File > Open", trait, Did.ASSUMED, "as an image, not as peaks", "frame='world'")
    def _(folder):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReadingNote)
            ((data, _, kind),) = read_layers(str(save_as(folder / name, flat("fsl"), **keywords)))
        assert (kind, data.shape[0]) == ("image", 3 * MOST)


def _mif(path, values):
    write_mif(path, values, AFFINE)
    return path


_add_unclear("peaks of length 1, with MRtrix's header", ("MRtrix wrote", "copied", "DIPY"), "a.nii.gz", save,
             description="MRtrix version: 3.0.4")  # fmt: skip
_add_unclear("peaks whose lengths differ, with FSL's header", ("FSL wrote", "copied", "TractSeg"), "a.nii.gz",
             lambda path, _: save(path, flat("world", AMPLITUDES), description="6.0.5:9e026117"))  # fmt: skip
_add_unclear("peaks of length 1 in a .mif without its commands", ("MRtrix wrote", "DIPY"), "a.mif", _mif)


def _vectors(frame):
    """First eigenvectors as ITK writes vectors, (X, Y, Z, 1, 3)."""
    return (TURNS[:120, :, 0] @ axes_of(AFFINE, frame)).reshape(*GRID, 1, 3).astype(np.float32)


@ROWS.row("read_fixels", "vectors (X, Y, Z, 1, 3) of length 1 with the intent VECTOR", Did.REFUSED, "VECTOR", "frame=")
def _(folder):
    return io.read_fixels(save(folder / "a.nii", _vectors("world"), intent=1007))


def _add_vectors(frame):
    @ROWS.row("read_fixels", f"vectors with the intent VECTOR in {frame} axes, given tensors", Did.ASSUMED, "VECTOR")
    def _(folder):
        fixels = io.read_fixels(save(folder / "a.nii", _vectors(frame), intent=1007), tensors=_tensors_of_turns())
        assert np.abs((fixels.dense(1)[0][..., 0, :] * TURNS[:120, :, 0].reshape(*GRID, 3)).sum(axis=-1)).min() > 0.9999
        return fixels


_add_vectors("world")
_add_vectors("fsl")


@ROWS.row("File > Open", "displacements (X, Y, Z, 1, 3) of ANTs, 0 outside of a mask", Did.READ)
def _(folder):
    values = np.random.default_rng(0).normal(0, 2, (*GRID, 1, 3)).astype(np.float32)
    values[:2] = 0
    ((data, keywords, _),) = read_layers(
        str(save(folder / "warp.nii.gz", values, np.diag([2.0, 2, 2, 1]), intent=1007))
    )
    np.testing.assert_array_equal(data, values[:, :, :, 0].T)
    return keywords


@ROWS.row("read_fixels", "peaks (X, Y, Z, n, 3) of DIPY", Did.ASSUMED, "bvec", "DIPY", "five dimensions")
def _(folder):
    return check_fixels(io.read_fixels(samples.dipy(folder, AFFINE)))


@ROWS.row("read_fixels", "peaks with DIPY's peaks_values beside them", Did.ASSUMED, "amplitudes", "peaks_values.nii")
def _(folder):
    save(folder / "peaks_values.nii.gz", AMPLITUDES.astype(np.float32))
    fixels = check_fixels(io.read_fixels(save(folder / "peaks_dirs.nii.gz", flat("fsl"))))
    np.testing.assert_allclose(fixels.amplitudes, AMPLITUDES[THERE], rtol=1e-6)
    return fixels


@ROWS.row("read_fixels", "peaks with peaks_values of another shape", Did.ASSUMED, "length 1")
def _(folder):
    save(folder / "peaks_values.nii.gz", np.ones((2, 2, 2, 5), np.float32))
    return check_fixels(io.read_fixels(save(folder / "peaks_dirs.nii.gz", flat("fsl"))))


@ROWS.row(
    "read_fixels", "one axis of scilpy with lengths, given tensors", Did.ASSUMED, "'fsl'", "agree with the tensors"
)
def _(folder):
    v1 = TURNS[:120, :, 0].reshape(*GRID, 3)
    lengths = np.linspace(0.2, 0.9, 120).reshape(*GRID, 1)
    path = save(folder / "abs.nii.gz", (v1 @ axes_of(AFFINE, "fsl") * lengths).astype(np.float32))
    fixels = io.read_fixels(path, tensors=_tensors_of_turns())
    assert np.abs((fixels.dense(1)[0][..., 0, :] * v1).sum(axis=-1)).min() > 0.9999
    return fixels


@ROWS.row("read_fixels", "amplitudes of 1e6", Did.ASSUMED, "exceed 1000", "1e+06")
def _(folder):
    return io.read_fixels(save(folder / "a.nii", flat("world", AMPLITUDES * 1e6 / AMPLITUDES.max())))


@ROWS.row("read_fixels", "axes that the user gives", Did.ASSUMED, "voxels", "as requested")
def _(folder):
    return check_fixels(io.read_fixels(save(folder / "a.nii", flat("voxel")), frame="voxel"))


@ROWS.row("read_fixels", "DIPY's eigenvectors (X, Y, Z, 3, 3), in columns", Did.ASSUMED, "columns")
def _(folder):
    own = axes_of(AFFINE, "fsl").T @ TURNS[:120].reshape(*GRID, 3, 3)
    fixels = io.read_fixels(save(folder / "evecs.nii.gz", own.astype(np.float32)))
    first = fixels.dense(1)[0][..., 0, :]
    assert np.abs((first * TURNS[:120, :, 0].reshape(*GRID, 3)).sum(axis=-1)).min() > 0.9999
    return fixels


@ROWS.row("read_fixels", "dti_V1 of FSL", Did.ASSUMED, "bvec", "FSL")
def _(folder):
    values = (TURNS[:120, :, 0] @ axes_of(AFFINE, "fsl")).reshape(*GRID, 3).astype(np.float32)
    fixels = io.read_fixels(save(folder / "dti_V1.nii.gz", values, description="FSL5.0"))
    assert np.abs((fixels.directions * TURNS[:120, :, 0]).sum(axis=1)).min() > 0.9999
    return fixels


@ROWS.row("read_fixels", "dti_V1 of FSL times the FA", Did.ASSUMED, "bvec", "FSL", "wrote")
def _(folder):
    values = (TURNS[:120, :, 0] @ axes_of(AFFINE, "fsl") * np.linspace(0.1, 0.9, 120)[:, None]).reshape(*GRID, 3)
    fixels = io.read_fixels(save(folder / "v.nii", values.astype(np.float32), description="6.0.5:9e026117"))
    assert np.abs((fixels.directions * TURNS[:120, :, 0]).sum(axis=1)).min() > 0.9999
    return fixels


@ROWS.row("read_fixels", "peaks with some values NaN or infinite", Did.LEFT_OUT, "2 peaks")
def _(folder):
    values = flat("world", AMPLITUDES, np.nan)
    values[0, 0, 1, 4], values[0, 0, 1, 8] = np.nan, np.inf
    fixels = io.read_fixels(save(folder / "a.nii", values))
    assert fixels.counts[0, 0, 1] == 1
    return fixels


@ROWS.row("read_fixels", "peaks beside a JSON file that is damaged", Did.ASSUMED, "a.json", "length 1")
def _(folder):
    (folder / "a.json").write_text("{")
    return check_fixels(io.read_fixels(save(folder / "a.nii", flat("fsl"))))


@ROWS.row("read_fixels", "7 volumes", Did.REFUSED, "3 n")
def _(folder):
    return io.read_fixels(save(folder / "a.nii", np.ones((*SHAPE, 7), np.float32)))


@ROWS.row("read_fixels", "no peak at all", Did.REFUSED, "no fixel")
def _(folder):
    return io.read_fixels(save(folder / "a.nii", np.zeros((*SHAPE, 9), np.float32)))


def _changed_folder(folder, name, change):
    fixels = samples.folder_of(folder, AFFINE, ending=".nii")
    path = fixels / f"{name}.nii"
    data, affine = np.array(nib.load(path).dataobj), nib.load(path).affine
    change(data)
    nib.save(nib.Nifti1Image(data, affine), path)
    return fixels


@ROWS.row("read_fixels", "a fixel folder with directions that are NaN or zero", Did.LEFT_OUT, "2 of")
def _(folder):
    def change(data):
        data[2], data[5] = np.nan, 0

    fixels = io.read_fixels(_changed_folder(folder, "directions", change))
    assert fixels.counts.sum() == COUNTS.sum() - 2
    return fixels


@ROWS.row("read_fixels", "a fixel folder with amplitudes that are NaN", Did.ASSUMED, "afd", "1 of them", "0")
def _(folder):
    fixels = io.read_fixels(_changed_folder(folder, "afd", lambda data: data.__setitem__(3, np.nan)))
    assert np.isfinite(fixels.amplitudes).all()
    return fixels


@ROWS.row("read_fixels", "a fixel folder without amplitudes", Did.ASSUMED, "all are 1")
def _(folder):
    fixels = samples.folder_of(folder, AFFINE)
    (fixels / "afd.mif").unlink()
    return check_fixels(io.read_fixels(fixels))


@ROWS.row("read_fixels", "a fixel folder with a damaged file of numbers", Did.LEFT_OUT, "disp.mif")
def _(folder):
    fixels = samples.folder_of(folder, AFFINE)
    (fixels / "disp.mif").write_bytes(b"mrtrix image\n")
    return check_fixels(io.read_fixels(fixels))


@ROWS.row("read_fixels", "a fixel folder with a mask in it", Did.LEFT_OUT, "mask.nii", "(4, 5, 6)")
def _(folder):
    fixels = samples.folder_of(folder, AFFINE)
    save(fixels / "mask.nii", np.ones(SHAPE, np.uint8))
    return check_fixels(io.read_fixels(fixels))


@ROWS.row("read_fixels", "a fixel folder whose index counts other directions", Did.REFUSED, "different fixels")
def _(folder):
    return io.read_fixels(_changed_folder(folder, "index", lambda data: data.__setitem__((0, 0, 1, 0), 2)))


@ROWS.row("read_fixels", "a fixel folder whose index gives a fixel to two voxels", Did.REFUSED, "two voxels")
def _(folder):
    return io.read_fixels(_changed_folder(folder, "index", lambda data: data.__setitem__((0, 0, 1, 1), 5)))


@ROWS.row("read_fixels", "an index of fixels with dw_scheme rows of its scan", Did.LEFT_OUT, "dw_scheme", "3 rows")
def _(folder):
    fixels = samples.folder_of(folder, AFFINE)
    index = (fixels / "index.mif").read_bytes()
    header, values = index[: index.index(b"\nEND")], index[-int(np.prod((*SHAPE, 2))) * 4 :]
    lines = [line for line in header.split(b"\n") if not line.startswith(b"file:")] + [b"dw_scheme: 0,0,1,1000"] * 3
    header = b"\n".join([*lines, b"file: . 1000", b"END\n"]).ljust(1000, b"\0")
    (fixels / "index.mif").write_bytes(header + values)
    return check_fixels(io.read_fixels(fixels))


@ROWS.row("read_fixels", "a bedpostX folder", Did.ASSUMED, "bvec", "FSL")
def _(folder):
    return check_fixels(io.read_fixels(samples.bedpostx(folder, AFFINE)))


@ROWS.row("read_fixels", "a bedpostX folder with one fiber on another grid", Did.LEFT_OUT, "fiber 2")
def _(folder):
    path = samples.bedpostx(folder, AFFINE)
    save(path / "dyads2.nii.gz", nib.load(path / "dyads2.nii.gz").get_fdata(dtype=np.float32)[1:])
    fixels = io.read_fixels(path)
    np.testing.assert_array_equal(fixels.counts, (COUNTS > 0).astype(int) + (COUNTS > 2))
    return fixels


@ROWS.row("read_fixels", "a bedpostX folder that lacks the second of three fibers", Did.ASSUMED, "bvec")
def _(folder):
    path = samples.bedpostx(folder, AFFINE)
    for name in ("dyads2.nii.gz", "mean_f2samples.nii.gz"):
        (path / name).unlink()
    fixels = io.read_fixels(path)
    np.testing.assert_array_equal(fixels.counts, (COUNTS > 0).astype(int) + (COUNTS > 2))
    return fixels


@ROWS.row("read_fixels", "dyads without fractions", Did.ASSUMED, "not known", "1 was assumed")
def _(folder):
    path = samples.bedpostx(folder, AFFINE)
    for each in path.glob("mean_f*"):
        each.unlink()
    fixels = check_fixels(io.read_fixels(path))
    assert (fixels.amplitudes == 1).all()
    return fixels


@ROWS.row("read_fixels", "samples of bedpostX without means", Did.ASSUMED, "dyads1", "from the samples")
def _(folder):
    fixels = io.read_fixels(samples.bedpostx_samples(folder, AFFINE))
    np.testing.assert_array_equal(fixels.counts, COUNTS)
    return fixels


@ROWS.row("read_fixels", "a .pam5 without its affine", Did.ASSUMED, "no affine", "1 mm")
def _(folder):
    path = samples.pam5(folder, AFFINE)
    with h5py.File(path, "a") as file:
        del file["pam/affine"]
    fixels = io.read_fixels(path)
    np.testing.assert_array_equal(fixels.counts, COUNTS)
    return fixels


@ROWS.row("read_fixels", "a .pam5 without values of its peaks", Did.ASSUMED, "no peak_values", "lengths")
def _(folder):
    path = samples.pam5(folder, AFFINE)
    with h5py.File(path, "a") as file:
        del file["pam/peak_values"]
    return check_fixels(io.read_fixels(path))


@ROWS.row("read_fixels", "a .pam5 without peaks", Did.REFUSED, "no peak_dirs")
def _(folder):
    path = samples.pam5(folder, AFFINE)
    with h5py.File(path, "a") as file:
        del file["pam/peak_dirs"]
    return io.read_fixels(path)


@ROWS.row("read_fixels", "a .fib.gz", Did.ASSUMED, "voxels", "DSI Studio")
def _(folder):
    return check_fixels(io.read_fixels(samples.dsi_studio(folder, AFFINE)))


@ROWS.row("read_fixels", "a .fib.gz without trans", Did.ASSUMED, "no trans", "LPS")
def _(folder):
    content = samples.dsi_content(AFFINE)
    del content["trans"]
    fixels = io.read_fixels(samples.save_dsi(folder / "a.fib.gz", content))
    np.testing.assert_array_equal(fixels.counts, COUNTS)
    return fixels


@ROWS.row("read_fixels", "a .fib.gz with one fiber cut off", Did.LEFT_OUT, "fiber 1")
def _(folder):
    content = samples.dsi_content(AFFINE) | {"index1": np.zeros((20, 5), np.int16)}
    fixels = io.read_fixels(samples.save_dsi(folder / "a.fib.gz", content))
    np.testing.assert_array_equal(fixels.counts, (COUNTS > 0).astype(int) + (COUNTS > 2))
    return fixels


@ROWS.row("read_fixels", "a .fib.gz with an index beyond its directions", Did.LEFT_OUT, "1 directions of fiber 1")
def _(folder):
    content = samples.dsi_content(AFFINE)
    content["index1"][tuple(np.argwhere(content["fa1"] > 0)[0])] = 30_000
    fixels = io.read_fixels(samples.save_dsi(folder / "a.fib.gz", content))
    assert fixels.counts.sum() == COUNTS.sum() - 1
    return fixels
