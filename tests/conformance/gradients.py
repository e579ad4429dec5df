"""Diffusion scans and their gradient tables: FSL's, MRtrix's, and what programs have made of them."""

from pathlib import Path

import nibabel as nib
import numpy as np

from napari_gpubio.diffusion.io import read_dwi
from tests.conformance import Did, Rows

ROWS = Rows("Diffusion scans and gradient tables")
DWI = "read_dwi"
AFFINE = np.diag([-2.0, 2, 2, 1])  # the axes of FSL's vectors are those of the voxels, of which x runs to the left
RANDOM = np.random.default_rng(0)
DIRECTIONS = RANDOM.normal(size=(8, 3))
DIRECTIONS /= np.linalg.norm(DIRECTIONS, axis=1, keepdims=True)
DIRECTIONS[0] = 0
WORLD = DIRECTIONS * [-1, 1, 1]
BVALS = np.array([0.0] + [1000.0] * 7)
SIGNALS = RANDOM.integers(1, 900, (4, 3, 5, 8)).astype(np.int16)


def image(folder, name="dwi.nii.gz", signals=SIGNALS):
    """Write the signals alone; returns the path."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(signals, AFFINE), folder / name)
    return folder / name


def table(folder, bvals=BVALS, directions=DIRECTIONS, bval="dwi.bval", bvec="dwi.bvec"):
    """Write FSL's files."""
    np.savetxt(folder / bval, [bvals], fmt="%g")
    np.savetxt(folder / bvec, np.asarray(directions).T)


def scan_of(folder, bvals=BVALS, directions=DIRECTIONS, **keywords):
    """Write a scan with a table and read it."""
    table(folder, bvals, directions)
    return read_dwi(image(folder), **keywords)


def changed(values, index, value):
    """A copy with one entry changed."""
    copy = np.array(values)
    copy[index] = value
    return copy


def check(scan, kept=slice(None), bvals=BVALS, directions=WORLD):
    """Fail unless a scan has these volumes with this table; returns it."""
    np.testing.assert_array_equal(scan.data, SIGNALS[..., kept])
    np.testing.assert_allclose(scan.bvals, np.asarray(bvals)[kept])
    np.testing.assert_allclose(scan.directions, np.asarray(directions)[kept], atol=1e-6)
    return scan


@ROWS.row(DWI, "an ordinary pair of files", Did.READ)
def _(folder):
    return check(scan_of(folder))


def names(trait, bval, bvec, name="dwi.nii.gz", did=Did.READ, facts=()):
    """Add a row: the table is found under these names."""

    @ROWS.row(DWI, f"tables found as {trait}", did, *facts)
    def _(folder):
        (folder / bval).parent.mkdir(parents=True, exist_ok=True)
        path = image(folder, name)
        table(folder, bval=bval, bvec=bvec)
        return check(read_dwi(path))


names("`bvals`, `bvecs` of the folder (FSL)", "bvals", "bvecs", did=Did.ASSUMED, facts=("folder", "bvals and bvecs"))
names("`dwi.bvals.txt`-like names", "dwi_bvals.txt", "dwi_bvecs.txt")
names("`dwi.BVAL`, `dwi.BVEC`", "dwi.BVAL", "dwi.BVEC")
names("`dwi.eddy_rotated_bvecs`", "dwi.bval", "dwi.eddy_rotated_bvecs")
names("BIDS inheritance: `sub-01_dwi.bval` for `sub-01_run-1_dwi`", "sub-01_dwi.bval", "sub-01_dwi.bvec",
      "sub-01_run-1_dwi.nii.gz", Did.ASSUMED, ("sub-01_dwi.bval",))  # fmt: skip
names("BIDS inheritance: `dwi.bval` of the dataset", "dwi.bval", "dwi.bvec", "sub-01/dwi/sub-01_dwi.nii.gz",
      Did.ASSUMED, ("dwi.bval",))  # fmt: skip


@ROWS.row(DWI, "a table of another BIDS run beside it", Did.REFUSED, "no bval file", "sub-01_run-1_dwi.nii.gz")
def _(folder):
    table(folder, bval="sub-01_run-2_dwi.bval", bvec="sub-01_run-2_dwi.bvec")
    return read_dwi(image(folder, "sub-01_run-1_dwi.nii.gz"))


@ROWS.row(DWI, "the nearest table of several that fit (BIDS)", Did.ASSUMED, "sub-01_dwi.bval")
def _(folder):
    path = image(folder, "sub-01/sub-01_run-1_dwi.nii.gz")
    table(folder, BVALS * 2, bval="dwi.bval", bvec="dwi.bvec")
    table(folder / "sub-01", bval="sub-01_dwi.bval", bvec="sub-01_dwi.bvec")
    return check(read_dwi(path))


def mrtrix(trait, header="", **keywords):
    """Add a row: MRtrix's table beside a NIfTI file."""

    @ROWS.row(DWI, trait, Did.READ)
    def _(folder):
        np.savetxt(folder / "dwi.b", np.c_[WORLD, BVALS], header=header)
        given = {name: folder / value for name, value in keywords.items()}
        return check(read_dwi(image(folder), **given))


mrtrix("MRtrix's table (.b) beside it")
mrtrix("MRtrix's table with its comment line", "command_history: mrinfo -export_grad_mrtrix")
mrtrix("MRtrix's table, given", bval="dwi.b")
mrtrix("MRtrix's table, given twice", bval="dwi.b", bvec="dwi.b")


@ROWS.row(DWI, "MRtrix's table of another length", Did.REFUSED, "dwi.b", "7 rows", "8 volumes")
def _(folder):
    np.savetxt(folder / "dwi.b", np.c_[WORLD, BVALS][:7])
    return read_dwi(image(folder))


@ROWS.row(DWI, "MRtrix's table, equal to FSL's beside it", Did.READ)
def _(folder):
    np.savetxt(folder / "dwi.b", np.c_[WORLD, BVALS])
    return check(scan_of(folder))


def others(trait, bvec, other, *facts):
    """Add a row: two tables fit, the second one with other directions."""

    @ROWS.row(DWI, trait, Did.ASSUMED, *facts, f"{other} differs")
    def _(folder):
        table(folder, bval=bvec.replace("bvec", "bval"), bvec=bvec)
        if other.endswith(".b"):
            np.savetxt(folder / other, np.c_[WORLD[::-1], BVALS])
        else:
            np.savetxt(folder / other, DIRECTIONS[::-1].T)
        return check(read_dwi(image(folder)))


others("FSL's tables and MRtrix's with the image's name, which differ", "dwi.bvec", "dwi.b", "that of dwi.bval")
others("directions before and after eddy, which differ", "dwi.bvec", "dwi.eddy_rotated_bvecs", "that of dwi.bval")
others("two tables of the folder, which differ", "bvecs", "bvec.txt", "that of the folder", "bvals and bvecs")


@ROWS.row(DWI, "b-values with the image's name, directions of the folder", Did.REFUSED, "no bvec", "dwi.nii.gz")
def _(folder):
    table(folder, bvec="bvecs")
    return read_dwi(image(folder))


@ROWS.row(
    DWI, "b-values of the run, directions of the subject (BIDS)", Did.ASSUMED, "run-1_dwi.bval", "sub-01_dwi.bvec"
)
def _(folder):
    table(folder, bval="sub-01_run-1_dwi.bval", bvec="sub-01_dwi.bvec")
    return check(read_dwi(image(folder, "sub-01_run-1_dwi.nii.gz")))


@ROWS.row(DWI, "half a table with the image's name, a whole one of the folder", Did.REFUSED, "no bvec", "dwi.nii.gz")
def _(folder):
    table(folder, BVALS * 2, bval="bvals", bvec="bvecs")
    np.savetxt(folder / "dwi.bval", [BVALS], fmt="%g")
    return read_dwi(image(folder))


def layout(trait, bval, bvec, did=Did.READ, *facts, encoding="utf-8"):
    """Add a row: the text of the files."""

    @ROWS.row(DWI, trait, did, *facts)
    def _(folder):
        (folder / "dwi.bval").write_bytes(bval.encode(encoding))
        (folder / "dwi.bvec").write_bytes(bvec.encode(encoding))
        return check(read_dwi(image(folder)))


_BVAL, _BVEC = " ".join(map(str, BVALS)), "\n".join(" ".join(map(str, row)) for row in DIRECTIONS.T)
layout("commas, CRLF and a BOM", "\ufeff" + _BVAL.replace(" ", ","), _BVEC.replace(" ", ", ").replace("\n", "\r\n"))
layout("tabs, blank lines, blanks at the ends", _BVAL.replace(" ", "\t") + " \n\n", _BVEC + "\n \n")
layout("b-values as a column", _BVAL.replace(" ", "\n"), _BVEC, Did.ASSUMED, "dwi.bval", "column")
layout("a row of bvec for each volume", _BVAL, "\n".join(" ".join(map(str, row)) for row in DIRECTIONS), Did.ASSUMED,
       "dwi.bvec", "row for each volume")  # fmt: skip
layout("comment lines", "# s/mm^2\n" + _BVAL, "# x y z\n" + _BVEC)
layout("UTF-16", _BVAL, _BVEC, encoding="utf-16")
_COUNTED = "\n".join(f"{n} {' '.join(map(str, row))}" for n, row in enumerate(DIRECTIONS))
layout("decimal commas", _BVAL.replace(".", ","), _BVEC.replace(".", ","), Did.ASSUMED, "decimal", "'0,0'")
layout("decimal commas, semicolons between", _BVAL.replace(" ", ";").replace(".", ","), _BVEC, Did.ASSUMED, "decimal")
layout("commas that are decimal ones or not", "0 " + "1,000 " * 7, _BVEC, Did.REFUSED, "dwi.bval", "'1,000'")
layout("a first column that counts volumes (bval)", "\n".join(f"{n + 1},{b}" for n, b in enumerate(BVALS)), _BVEC,
       Did.ASSUMED, "first column of dwi.bval")  # fmt: skip
layout("a first column that counts volumes (bvec)", _BVAL, _COUNTED, Did.ASSUMED, "first column of dwi.bvec")
layout("a first column that counts rows", _BVAL, "\n".join(f"{n} {row}" for n, row in enumerate(_BVEC.split("\n"), 1)),
       Did.ASSUMED, "first column of dwi.bvec")  # fmt: skip
layout("words where numbers should be", "b: " + _BVAL, _BVEC, Did.REFUSED, "dwi.bval", "'b:'")
layout("another number of b-values", _BVAL + " 1000", _BVEC, Did.REFUSED, "9 b-values", "8 volumes")
layout("the files exchanged", _BVEC, _BVAL, Did.REFUSED, "dwi.bval", "bvec file")
layout("an empty file", "", _BVEC, Did.REFUSED, "dwi.bval", "empty")


@ROWS.row(DWI, "NaN as the direction of a b = 0 volume (eddy)", Did.ASSUMED, "not needed: 1")
def _(folder):
    return check(scan_of(folder, directions=changed(DIRECTIONS, 0, np.nan)))


@ROWS.row(DWI, "a direction of a b = 0 volume, which it does not need", Did.READ)
def _(folder):
    return check(scan_of(folder, directions=changed(DIRECTIONS, 0, [1, 0, 0])))


@ROWS.row(DWI, "b = 50 with direction 0 as the lowest", Did.READ)
def _(folder):
    scan = check(scan_of(folder, changed(BVALS, 0, 50)), bvals=changed(BVALS, 0, 50))
    assert scan.is_b0.sum() == 1
    return scan


@ROWS.row(DWI, "a trace volume (b = 1000, direction 0)", Did.LEFT_OUT, "volume 7", "b = 1000", "left out")
def _(folder):
    return check(scan_of(folder, directions=changed(DIRECTIONS, 7, 0)), kept=slice(7))


@ROWS.row(DWI, "NaN as the direction of two weighted volumes", Did.LEFT_OUT, "2 volumes", "left out")
def _(folder):
    kept = [0, 1, 3, 4, 6, 7]
    return check(scan_of(folder, directions=changed(DIRECTIONS, [2, 5], np.nan)), kept)


@ROWS.row(DWI, "a b-value that is no number", Did.LEFT_OUT, "volume 3", "b-value", "left out")
def _(folder):
    return check(scan_of(folder, changed(BVALS, 3, np.nan)), [0, 1, 2, 4, 5, 6, 7])


@ROWS.row(DWI, "no weighted volume with a direction", Did.REFUSED, "7 volumes", "direction (0, 0, 0)")
def _(folder):
    return scan_of(folder, directions=np.zeros((8, 3)))


@ROWS.row(DWI, "a negative b-value", Did.REFUSED, "b-value -5")
def _(folder):
    return scan_of(folder, changed(BVALS, 2, -5))


@ROWS.row(DWI, "b-values of 1e9", Did.REFUSED, "1e+09", "s/mm^2")
def _(folder):
    return scan_of(folder, BVALS * 1e6)


@ROWS.row(DWI, "b-values in ms/um^2", Did.ASSUMED, "largest b-value is 1", "multiply it by 1000")
def _(folder):
    return scan_of(folder, BVALS / 1000)


@ROWS.row(DWI, "b-values that lengths of vectors scale beyond reason", Did.REFUSED, "1.6e+06", "s/mm^2")
def _(folder):
    return scan_of(folder, directions=DIRECTIONS * 40)


@ROWS.row(DWI, "b-values of 100,000", Did.ASSUMED, "100000", "check the table")
def _(folder):
    return scan_of(folder, BVALS * 100)


@ROWS.row(DWI, "FSL's b-values beside MRtrix's whole table", Did.READ)
def _(folder):
    np.savetxt(folder / "dwi.b", np.c_[WORLD, BVALS])
    np.savetxt(folder / "dwi.bval", [BVALS], fmt="%g")
    return check(read_dwi(image(folder)))


@ROWS.row(DWI, "a volume without a finite signal", Did.LEFT_OUT, "left out: 3")
def _(folder):
    table(folder)
    signals = SIGNALS.astype(np.float32)
    signals[..., 3] = np.nan
    return check(read_dwi(image(folder, signals=signals), volumes=range(1, 8)), [1, 2, 4, 5, 6, 7])


@ROWS.row(DWI, "signals that are negative, as of a phase", Did.ASSUMED, "negative", "phase")
def _(folder):
    table(folder)
    return read_dwi(image(folder, signals=SIGNALS - np.int16(300)))


@ROWS.row(f"{DWI}(b0_limit=...)", "a limit that is no number", Did.REFUSED, "nan", "s/mm^2")
def _(folder):
    return scan_of(folder, b0_limit=float("nan"))


@ROWS.row(f"{DWI}(volumes=...)", "numbers that are not whole", Did.REFUSED, "1.5", "whole numbers")
def _(folder):
    return scan_of(folder, volumes=[1.5, 2])


@ROWS.row(DWI, "directions of length 1e4", Did.ASSUMED, "length 1e+04", "only their directions")
def _(folder):
    return check(scan_of(folder, directions=DIRECTIONS * 1e4))


@ROWS.row(DWI, "directions of several lengths, up to 1e4", Did.REFUSED, "longer than")
def _(folder):
    return scan_of(folder, directions=DIRECTIONS * np.geomspace(1, 1e4, 8)[:, None])


def flat(trait, *facts, **axes):
    """Add a row: directions that determine no tensor."""

    @ROWS.row(DWI, trait, Did.ASSUMED, "7 weighted volumes", "no tensor", *facts)
    def _(folder):
        directions = DIRECTIONS * [axes.get(axis, 0) for axis in "xyz"]
        directions[1:] /= np.linalg.norm(directions[1:], axis=1, keepdims=True)
        return scan_of(folder, directions=directions)


flat("directions in one plane", "in one plane", x=1, z=1)
flat("directions on one line", "on one line", y=1)


def empty(trait, chosen, *facts):
    """Add a row: volumes of zeros."""

    @ROWS.row(DWI, trait, Did.ASSUMED, *facts)
    def _(folder):
        table(folder)
        return read_dwi(image(folder, signals=changed(SIGNALS, (..., chosen), 0)))


empty("signals that are all 0", slice(None), "all of its signals are 0")
empty("volumes whose signals are all 0", [2, 5], "2 volumes", "first: 2", "no signal")


@ROWS.row(DWI, "lengths of vectors that scale b (several shells)", Did.ASSUMED, "0.707", "squared lengths", "MRtrix")
def _(folder):
    half = changed(DIRECTIONS, slice(4, None), DIRECTIONS[4:] * np.sqrt(0.5))
    return check(scan_of(folder, directions=half), bvals=changed(BVALS, slice(4, None), 500))


@ROWS.row(DWI, "lengths of vectors within 1 % (b is not scaled)", Did.READ)
def _(folder):
    return check(scan_of(folder, directions=DIRECTIONS * 1.008))


@ROWS.row(DWI, "no b-value up to 50 (Bruker: 90)", Did.ASSUMED, "at most 50", "b0_limit=90")
def _(folder):
    scan = scan_of(folder, changed(BVALS, 0, 90), changed(DIRECTIONS, 0, [1, 0, 0]))
    assert not scan.is_b0.any()
    return scan


@ROWS.row(f"{DWI}(b0_limit=90)", "no b-value up to 50 (Bruker: 90)", Did.READ)
def _(folder):
    scan = scan_of(folder, changed(BVALS, 0, 90), changed(DIRECTIONS, 0, [1, 0, 0]), b0_limit=90)
    np.testing.assert_array_equal(scan.is_b0, BVALS == 0)
    assert scan.shells() == [0, 1000]
    return scan


@ROWS.row(f"{DWI}(volumes=...)", "a choice of volumes", Did.READ)
def _(folder):
    return check(scan_of(folder, volumes=[0, 2, 3, 7]), [0, 2, 3, 7])


@ROWS.row(f"{DWI}(volumes=...)", "a volume that is not there", Did.REFUSED, "8 volumes", "no volume 8")
def _(folder):
    return scan_of(folder, volumes=[0, 8])


def shape(trait, signals, did=Did.READ, *facts):
    """Add a row: the shape of the image."""

    @ROWS.row(DWI, trait, did, *facts)
    def _(folder):
        table(folder)
        return check(read_dwi(image(folder, signals=signals)))


shape("a fifth axis of length 1", SIGNALS[..., None])
shape("a fourth axis of length 1", SIGNALS[:, :, :, None])
shape("two axes of volumes", SIGNALS.reshape(4, 3, 5, 2, 4), Did.REFUSED, "(4, 3, 5, 2, 4)", "four dimensions")
shape("a single volume", SIGNALS[..., 0], Did.REFUSED, "(4, 3, 5)", "four dimensions")


@ROWS.row(DWI, "voxels whose signal is not finite", Did.LEFT_OUT, "not finite", "0 in all volumes", "1")
def _(folder):
    table(folder)
    signals = SIGNALS.astype(np.float32)
    signals[1, 2, 3, 4] = np.nan
    scan = read_dwi(image(folder, signals=signals))
    assert not scan.data[1, 2, 3].any()
    np.testing.assert_array_equal(scan.data[2], SIGNALS[2])
    return scan


@ROWS.row(DWI, "no orientation: directions rest on it", Did.ASSUMED, "no orientation", "left")
def _(folder):
    table(folder)
    nib.save(nib.Nifti1Image(SIGNALS, None), folder / "dwi.nii.gz")
    return read_dwi(folder / "dwi.nii.gz")


def mif_scan(trait, rows, did, *facts, kept=slice(None)):
    """Add a row: the dw_scheme of an MRtrix image."""

    @ROWS.row(DWI, trait, did, *facts)
    def _(folder):
        lines = "".join("dw_scheme: " + ",".join(map(str, row)) + "\n" for row in rows)
        head = f"mrtrix image\ndim: 4,3,5,8\nvox: 2,2,2,1\nlayout: +0,+1,+2,+3\ndatatype: Int16LE\n{lines}"
        Path(folder / "a.mif").write_bytes(
            f"{head}file: . 4096\nEND\n".encode().ljust(4096, b"\0") + SIGNALS.tobytes(order="F")
        )
        return check(read_dwi(folder / "a.mif"), kept)


_SCHEME = np.c_[WORLD, BVALS]
mif_scan("dw_scheme", _SCHEME, Did.READ)
mif_scan("dw_scheme with NaN at b = 0", changed(_SCHEME, (0, slice(3)), np.nan), Did.ASSUMED, "not needed: 1")
mif_scan("dw_scheme with a trace volume", changed(_SCHEME, (7, slice(3)), 0), Did.LEFT_OUT, "volume 7", kept=slice(7))
mif_scan("dw_scheme with a word", [*_SCHEME[:7], [0, "x", 1, 1000]], Did.LEFT_OUT, "volume 7", kept=slice(7))
mif_scan("dw_scheme of another number of rows", _SCHEME[:7], Did.REFUSED, "no bval file")


@ROWS.row(DWI, "complex values (mif)", Did.REFUSED, "complex", "magnitude")
def _(folder):
    head = "mrtrix image\ndim: 2,2,2,3\nvox: 2,2,2,1\nlayout: +0,+1,+2,+3\ndatatype: CFloat32LE\n"
    head += "dw_scheme: 0,0,1,1000\n" * 3
    (folder / "a.mif").write_bytes(f"{head}file: . 4096\nEND\n".encode().ljust(4096, b"\0") + bytes(192))
    return read_dwi(folder / "a.mif")


@ROWS.row(DWI, "complex values (NIfTI)", Did.REFUSED, "complex64", "real numbers")
def _(folder):
    table(folder)
    return read_dwi(image(folder, signals=SIGNALS.astype(np.complex64)))
