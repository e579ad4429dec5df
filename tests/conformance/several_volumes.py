"""Tensors and FODs of other programs, and what File > Open takes images of several volumes for."""

import json
import warnings

import nibabel as nib
import numpy as np
from nibabel.affines import apply_affine

from napari_gpubio.core.mif_writer import write_mif
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations import read_record, run
from napari_gpubio.core.reading import ReadingNote
from napari_gpubio.diffusion import io
from napari_gpubio.diffusion.fods.harmonics import harmonics
from napari_gpubio.diffusion.napari_io import read_layers
from tests.conformance import Did, Rows
from tests.conformance.orientations import AFFINE, GRID, check_fixels, flat, save
from tests.diffusion.fods import fixel_samples as samples
from tests.diffusion.fods.fixel_samples import AMPLITUDES, MOST, SHAPE
from tests.diffusion.tensor_samples import TURNS, axes_of, six, turned
from tests.shell import run_verb

ROWS = Rows("Tensors, FODs and other images of several volumes")


# -- tensors ----------------------------------------------------------------------------------------------------------

TENSORS = turned((1.7e-3, 0.4e-3, 0.2e-3), TURNS[:120]).reshape(*GRID, 3, 3)
ORDERS = {
    "mrtrix": ("world", (0, 1, 2, 0, 0, 1), (0, 1, 2, 1, 2, 2)),
    "fsl": ("fsl", (0, 0, 0, 1, 1, 2), (0, 1, 2, 1, 2, 2)),
    "dipy": ("fsl", (0, 0, 1, 0, 1, 2), (0, 1, 1, 2, 2, 2)),
}


def tensor_values(order, frame=""):
    """Components of the tensors as a program writes them."""
    usual, rows, columns = ORDERS[order]
    axes = axes_of(AFFINE, frame or usual)
    return (axes.T @ TENSORS @ axes)[..., rows, columns].astype(np.float32)


def check_tensors(field):
    np.testing.assert_allclose(field.tensors, six(TENSORS), atol=1e-8)
    return field


def _add_order(order):
    @ROWS.row("read_tensors", f"6 volumes in the order of {order}", Did.ASSUMED, order, ORDERS[order][0])
    def _(folder):
        return check_tensors(io.read_tensors(save(folder / "t.nii.gz", tensor_values(order))))

    @ROWS.row("File > Open", f"tensors, 6 volumes in the order of {order}", Did.ASSUMED, "diffusion tensors", order)
    def _(folder):
        layers = opened(save(folder / "t.nii.gz", tensor_values(order)))
        check_tensors(layers[0][1]["metadata"][KEY]["field"])
        return layers


def opened(path):
    """The layers of a file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReadingNote)
        return read_layers(str(path))


for each in ORDERS:
    _add_order(each)


def _add_covariances(unit, factor):
    @ROWS.row("File > Open", f"symmetric matrices that may be covariances, as large as in {unit}", Did.ASSUMED, unit,
              "diffusion tensors", "covariances")  # fmt: skip
    def _(folder):
        return opened(save(folder / "c.nii.gz", TENSORS.astype(np.float32) * np.float32(factor)))


_add_covariances("mm^2/s", 1)
_add_covariances("um^2/ms", 1000)


def fitted(path, values):
    """Write real numbers with nibabel as all integers of 16 bits, of which none is 0."""
    image = nib.Nifti1Image(np.concatenate([values, np.zeros_like(values)]).astype(np.float32), AFFINE)
    image.set_data_dtype(np.int16)
    nib.save(image, path)
    assert np.asarray(nib.load(path).dataobj).all()
    return path


def _add_fitted(what, values, key, *facts):
    @ROWS.row("File > Open", f"{what} that were fitted to integers (scl_slope, scl_inter)", Did.ASSUMED, *facts)
    def _(folder):
        layers = opened(fitted(folder / "a.nii.gz", values()))
        held = layers[0][1]["metadata"][KEY][key]
        assert not held.mask[held.mask.shape[0] // 2 :].any()
        assert held.mask[: held.mask.shape[0] // 2].any()
        return layers


_add_fitted("tensors", lambda: tensor_values("fsl"), "field", "order fsl 100 %")
_add_fitted("peaks of DIPY", lambda: flat("fsl"), "fixels", "length 1")
_add_fitted("peaks of TractSeg", lambda: flat("world", AMPLITUDES), "fixels", "last ones are empty")
_add_fitted("FODs", lambda: fod_values("mrtrix", "world"), "fods", "lmax 8", "mrtrix")


def _add_input(trait, name):
    @ROWS.row("napari-gpubio track", f"tensors, {trait}", Did.ASSUMED, "mrtrix order")
    def _(folder):
        write = write_mif if name.endswith(".mif") else lambda path, values, affine: save(path, values, affine)
        write(folder / name, tensor_values("mrtrix"), AFFINE)
        (folder / "bvals").write_text(" ".join(["0", *["1000"] * 24]))
        (folder / "bvecs").write_text("\n".join([" ".join(["0", *["0.5"] * 24])] * 3))
        seed = apply_affine(AFFINE, np.array(GRID) // 2)
        words = "--out", folder / "a.trk", "--record", folder / "a.json", "--device", "cpu"
        run_verb("track", folder / name, "--seed", *seed, *words)
        md = run(read_record(folder / "a.json").field.of.output("md"), device="cpu")
        np.testing.assert_allclose(md.array, 2.3e-3 / 3, rtol=1e-5)


_add_input("in a folder that shares a gradient table", "dti_tensor.nii.gz")
_add_input("as MRtrix has them", "t.mif")


@ROWS.row("read_tensors", "5 dimensions with the intent SYMMATRIX (DIPY)", Did.ASSUMED, "dipy", "kind of the file")
def _(folder):
    values = tensor_values("dipy")[:, :, :, None]
    return check_tensors(io.read_tensors(save(folder / "t.nii", values, intent=1005)))


@ROWS.row("read_tensors", "DIPY's order in a file with MRtrix's ending", Did.ASSUMED, "dipy", "100", "mrtrix")
def _(folder):
    values = tensor_values("dipy")
    write_mif(folder / "t.mif", values, AFFINE)
    return check_tensors(io.read_tensors(folder / "t.mif"))


@ROWS.row("read_tensors", "tensors of BIDS, axes ijk", Did.ASSUMED, "fsl", "voxel axes")
def _(folder):
    path = save(folder / "t.nii", tensor_values("fsl", "voxel"))
    (folder / "t.json").write_text(json.dumps({"OrientationEncoding": {"Type": "tensor", "Reference": "ijk"}}))
    return check_tensors(io.read_tensors(path))


@ROWS.row("read_tensors", "full 3 x 3 matrices", Did.ASSUMED, "3 x 3", "world")
def _(folder):
    return check_tensors(io.read_tensors(save(folder / "t.nii", TENSORS.astype(np.float32))))


def _add_unit(unit, factor):
    @ROWS.row("read_tensors", unit, Did.ASSUMED, unit, "mm^2/s")
    def _(folder):
        field = io.read_tensors(save(folder / "t.nii", tensor_values("mrtrix") * np.float32(factor)))
        np.testing.assert_allclose(field.tensors, six(TENSORS), atol=1e-8)
        return field


_add_unit("um^2/ms", 1e3)
_add_unit("um^2/s", 1e6)


@ROWS.row("read_tensors", "traces of 1e6", Did.ASSUMED, "far from that of tissue", "check the unit")
def _(folder):
    return io.read_tensors(save(folder / "t.nii", tensor_values("mrtrix") * np.float32(1e9)))


@ROWS.row("read_tensors", "tensors that are NaN", Did.LEFT_OUT, "1 tensors", "not finite")
def _(folder):
    values = tensor_values("mrtrix")
    values[0, 0, 0, 3] = np.nan
    field = io.read_tensors(save(folder / "t.nii", values))
    assert field.mask.sum() == 119
    return field


@ROWS.row("read_tensors", "an order that the numbers do not show", Did.REFUSED, "cannot be determined", "order=")
def _(folder):
    values = np.tile(np.float32([3e-3, 1e-4, 2e-3, 1e-3, 1e-4, 3e-3]), (*GRID, 1))
    return io.read_tensors(save(folder / "t.nii", values))


@ROWS.row("read_tensors", "9 volumes that are no symmetric matrices", Did.REFUSED, "not symmetric")
def _(folder):
    return io.read_tensors(save(folder / "t.nii", np.random.default_rng(0).normal(size=(*GRID, 9))))


# -- FODs -------------------------------------------------------------------------------------------------------------

LMAX = 8
_SHARP = np.exp(-0.02 * np.arange(0, LMAX + 1, 2) * (np.arange(0, LMAX + 1, 2) + 1))  # smooth enough to stay above 0


def fod_values(basis, frame):
    """Smoothed deltas along the first eigenvectors."""
    directions = TURNS[:120, :, 0] @ axes_of(AFFINE, frame)
    degree = np.repeat(np.arange(0, LMAX + 1, 2), 2 * np.arange(0, LMAX + 1, 2) + 1)
    return (harmonics(directions, LMAX, basis) * _SHARP[degree // 2]).reshape(*GRID, -1).astype(np.float32)


def check_fods(fods):
    np.testing.assert_allclose(fods.coefficients, fod_values("mrtrix", "world"), atol=1e-5)
    return fods


for basis, frame in (("mrtrix", "world"), ("descoteaux_legacy", "fsl"), ("descoteaux", "fsl")):

    @ROWS.row("read_fods", f"FODs of the basis {basis}, which the file does not say", Did.ASSUMED, basis, "negative")
    def _(folder, basis=basis, frame=frame):
        return check_fods(io.read_fods(save(folder / "f.nii.gz", fod_values(basis, frame))))

    @ROWS.row("File > Open", f"FODs, 45 volumes, of the basis {basis}", Did.ASSUMED, "distributions of lmax 8", basis)
    def _(folder, basis=basis, frame=frame):
        layers = opened(save(folder / "f.nii.gz", fod_values(basis, frame)))
        check_fods(layers[0][1]["metadata"][KEY]["fods"])
        return layers


@ROWS.row("read_fods", "FODs of BIDS", Did.ASSUMED, "mrtrix", "world")
def _(folder):
    said = {"Reference": "xyz", "SphericalHarmonicBasis": "MRtrix3", "Type": "sh"}
    (folder / "f.json").write_text(json.dumps({"OrientationEncoding": said}))
    return check_fods(io.read_fods(save(folder / "f.nii.gz", fod_values("mrtrix", "world"))))


@ROWS.row("read_fods", "a JSON file with a basis that is not known", Did.ASSUMED, "'tournier07'")
def _(folder):
    (folder / "f.json").write_text('{"basis": "tournier07"}')
    return check_fods(io.read_fods(save(folder / "f.nii.gz", fod_values("mrtrix", "world"))))


@ROWS.row("read_fods", "FODs that are NaN", Did.LEFT_OUT, "1 FODs", "not finite")
def _(folder):
    values = fod_values("mrtrix", "world")
    values[0, 0, 0, 3] = np.nan
    fods = io.read_fods(save(folder / "f.nii", values))
    assert fods.mask.sum() == 119
    return fods


@ROWS.row("read_fods", "46 volumes", Did.REFUSED, "46 volumes")
def _(folder):
    return io.read_fods(save(folder / "f.nii", np.ones((*GRID, 46), np.float32)))


# -- other images of several volumes ----------------------------------------------------------------------------------


def series(count, seed=0):
    """Volumes of a scan that moves in time: a contrast, and noise that is small against it."""
    rng = np.random.default_rng(seed)
    return (rng.gamma(4, 100, (*GRID, 1)) + rng.normal(0, 5, (*GRID, count))).astype(np.float32)


def _add_series(count):
    @ROWS.row("File > Open", f"a time series of {count} volumes", Did.READ)
    def _(folder):
        values = series(count)
        ((data, keywords, kind),) = opened(save(folder / "bold.nii.gz", values, np.diag([2.0, 2, 2, 1])))
        assert kind == "image"
        np.testing.assert_array_equal(np.asarray(data), values.T)
        return keywords


for each in (3, 6, 9, 15, 45):
    _add_series(each)


@ROWS.row("File > Open", "45 echoes, the first one the largest", Did.READ)
def _(folder):
    values = series(1) * np.exp(-0.3 * np.arange(45)).astype(np.float32)
    ((_, keywords, kind),) = opened(save(folder / "echoes.nii.gz", values))
    assert kind == "image"
    assert "fods" not in keywords["metadata"][KEY]


@ROWS.row("File > Open", "6 volumes of a series without its mean, in a mask", Did.READ)
def _(folder):
    values = series(6) - series(6).mean(axis=3, keepdims=True)
    values[:2] = 0
    ((_, keywords, _),) = opened(save(folder / "z.nii.gz", values))
    assert not {"field", "fixels", "fods"} & keywords["metadata"][KEY].keys()


@ROWS.row("File > Open", "probabilities of three tissues", Did.READ)
def _(folder):
    values = np.random.default_rng(0).dirichlet(np.ones(3), GRID).astype(np.float32)
    ((_, keywords, kind),) = opened(save(folder / "pve.nii.gz", values))
    assert kind == "image"
    assert not keywords.get("rgb")


@ROWS.row("File > Open", "a displacement field of three volumes", Did.READ)
def _(folder):
    values = np.random.default_rng(0).normal(0, 2, (*GRID, 3)).astype(np.float32)
    ((_, keywords, _),) = opened(save(folder / "warp.nii.gz", values))
    assert "fixels" not in keywords["metadata"][KEY]


@ROWS.row("File > Open", "colors in three volumes of bytes (DIPY's rgb)", Did.ASSUMED, "red, green and blue")
def _(folder):
    values = np.random.default_rng(0).integers(0, 255, (*GRID, 3)).astype(np.uint8)
    layers = opened(save(folder / "rgb.nii.gz", values))
    assert layers[0][1]["rgb"]
    return layers


def _add_opened_peaks(trait, values, *facts):
    @ROWS.row("File > Open", trait, Did.ASSUMED, *facts)
    def _(folder):
        layers = opened(save(folder / "a.nii.gz", values))
        check_fixels(layers[0][1]["metadata"][KEY]["fixels"])
        return layers


_add_opened_peaks("peaks of MRtrix", flat("world", AMPLITUDES, np.nan), "peaks", "NaN")
_add_opened_peaks("peaks of TractSeg", flat("world", AMPLITUDES), "peaks", "lengths differ")
_add_opened_peaks("peaks of DIPY, 9 volumes", flat("fsl"), "length 1", "DIPY")
_add_opened_peaks("peaks of DIPY, five dimensions", flat("fsl").reshape(*SHAPE, MOST, 3), "length 1", "DIPY")


@ROWS.row("read_fods", "a .mif with dw_scheme rows of its scan", Did.LEFT_OUT, "dw_scheme", "3 rows")
def _(folder):
    values = fod_values("mrtrix", "world")
    rows = "".join(f"transform: {','.join(map(str, row))}\n" for row in AFFINE[:3] / [1.5, 2, 3, 1])
    shape = ",".join(map(str, values.shape))
    header = f"mrtrix image\ndim: {shape}\nvox: 1.5,2,3,1\nlayout: -0,-1,-2,-3\ndatatype: Float32LE\n{rows}"
    header = header.replace("layout: -0,-1,-2,-3", "layout: +0,+1,+2,+3") + "dw_scheme: 0,0,1,1000\n" * 3
    data = values.tobytes(order="F")
    (folder / "f.mif").write_bytes((header + "file: . 2000\nEND\n").encode().ljust(2000, b"\0") + data)
    return check_fods(io.read_fods(folder / "f.mif"))


@ROWS.row("File > Open", "the index of a folder of fixels (MRtrix)", Did.ASSUMED, "amplitudes are afd", "world")
def _(folder):
    ((_, keywords, _),) = opened(samples.folder_of(folder, AFFINE) / "index.mif")
    return check_fixels(keywords["metadata"][KEY]["fixels"])


@ROWS.row("File > Open", "the index of fixels without their directions", Did.READ)
def _(folder):
    path = samples.folder_of(folder, AFFINE) / "index.mif"
    (path.parent / "directions.mif").unlink()
    ((data, *_),) = read_layers(str(path))
    assert len(data) == 2
