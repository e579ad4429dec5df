"""Images of MRtrix, as File > Open and the engines' readers take them."""

import gzip

import numpy as np

from napari_gpubio.diffusion.io import read_volume
from tests.conformance import Did, Rows
from tests.conformance.volumes import BLOCK, GRAY, OPEN, SERIES, opened

ROWS = Rows("Images of MRtrix")
MIF = "mrtrix image\ndim: {dim}\nvox: {vox}\nlayout: {layout}\ndatatype: {datatype}\n{more}"


def mif(folder, array, datatype="Float32LE", more="", name="a.mif", file=None, end="END\n"):
    """Write an MRtrix image whose axes are stored in their order; returns the path."""
    numbers = {"dim": array.shape, "vox": [2.0] * array.ndim, "layout": [f"+{n}" for n in range(array.ndim)]}
    head = MIF.format(**{k: ",".join(map(str, v)) for k, v in numbers.items()}, datatype=datatype, more=more)
    values = array.tobytes(order="F")
    if file is None:
        (folder / name).write_bytes(f"{head}file: . 4096\n{end}".encode().ljust(4096, b"\0") + values)
    else:
        (folder / name).write_bytes(f"{head}file: {file}\n{end}".encode())
        (folder / file).write_bytes(values)
    return folder / name


def mif_shows(trait, array, datatype, did=Did.READ, facts=(), kind="image", **written):
    """Add a row: an MRtrix image is opened as one layer."""

    @ROWS.row(OPEN, trait, did, *facts)
    def _(folder):
        ((data, _, found),) = opened(mif(folder, array, datatype, **written))
        assert found == kind
        np.testing.assert_array_equal(data, array.reshape(*array.shape, *[1] * (3 - array.ndim)).T)


mif_shows("mif of float32", GRAY.astype("<f4") / 3, "Float32LE")
mif_shows("mif of big-endian values", GRAY.astype(">i2"), "Int16BE")
mif_shows("mif of two dimensions", GRAY[..., 0].astype("<f4") / 3, "Float32LE")
mif_shows("mif of a series", SERIES.astype("<i2"), "Int16LE")
mif_shows("mif of five dimensions", SERIES.reshape(6, 5, 4, 2, 3).astype("<i2"), "Int16LE")
mif_shows("mif of five dimensions with dw_scheme", SERIES.reshape(6, 5, 4, 2, 3).astype("<i2"), "Int16LE", Did.ASSUMED,
          ("dw_scheme", "left out", "(2, 3)"), more="dw_scheme: 0,0,1,0\n" * 6)  # fmt: skip
mif_shows(".mih with its .dat", GRAY.astype("<f4") / 3, "Float32LE", name="a.mih", file="a.dat")
mif_shows(".mih that ends with its file", GRAY.astype("<f4") / 3, "Float32LE", name="a.mih", file="a.dat", end="")
mif_shows("dw_scheme of another number of rows (an SH image)", SERIES.astype("<i2"), "Int16LE", Did.ASSUMED,
          ("31 rows", "6 volumes", "left out"), more="dw_scheme: 0,0,1,0\n" + "dw_scheme: 0,0,1,9\n" * 30)  # fmt: skip
mif_shows("dw_scheme with short rows", SERIES.astype("<i2"), "Int16LE", Did.ASSUMED, ("6 rows", "left out"),
          more="dw_scheme: 0,0,1\n" * 6)  # fmt: skip
mif_shows("dw_scheme on a single volume", GRAY.astype("<f4") / 3, "Float32LE", more="dw_scheme: 0,0,1,1000\n")
mif_shows("mif of labels", BLOCK.astype("<i2"), "Int16LE", Did.ASSUMED, ("labels",), "labels")


def several_files(trait, lines, names):
    """Add a row: the values lie in several files, one after another."""

    @ROWS.row(OPEN, trait, Did.READ)
    def _(folder):
        values = SERIES.astype("<i2")
        path = mif(folder, values, "Int16LE", name="a.mih", file="all.dat")
        raw = (folder / "all.dat").read_bytes()
        for n, name in enumerate(names):
            (folder / name).write_bytes(b"12" + raw[n * len(raw) // len(names) : (n + 1) * len(raw) // len(names)])
        text = path.read_text().replace("file: all.dat\n", "".join(f"file: {line} 2\n" for line in lines))
        path.write_text(text)
        ((data, _, _),) = opened(path)
        np.testing.assert_array_equal(data, values.T)


several_files(".mih with several files", ["b.dat", "a.dat"], ["b.dat", "a.dat"])
several_files(".mih with numbered files, [] in their name", ["v[].dat"], ["v2.dat", "v10.dat", "v11.dat"])


@ROWS.row(OPEN, ".mih with files that cannot hold equal parts", Did.REFUSED, "600 values", "7 equal parts")
def _(folder):
    opened(mif(folder, np.zeros((6, 5, 4, 5), "<i2"), "Int16LE", name="a.mih", file="a.dat", more="file: a.dat\n" * 6))


@ROWS.row(OPEN, ".mih that names a file twice", Did.REFUSED, "file", "of its own")
def _(folder):
    opened(mif(folder, np.zeros((6, 5, 4, 2), "<i2"), "Int16LE", name="a.mih", file="a.dat", more="file: a.dat\n"))


def _compressed(name, data):
    """Add a row: a name that does not say whether the file is compressed."""

    @ROWS.row(OPEN, f"{'a compressed' if name == 'b.mif' else 'an uncompressed'} file named {name[1:]}", Did.ASSUMED,
              name, "compressed")  # fmt: skip
    def _(folder):
        (folder / name).write_bytes(data(mif(folder, GRAY.astype("<f4") / 3).read_bytes()))
        ((data_, _, _),) = opened(folder / name)
        np.testing.assert_array_equal(data_, (GRAY.astype("<f4") / 3).T)


_compressed("b.mif", gzip.compress)
_compressed("b.mif.gz", bytes)


@ROWS.row(OPEN, "mif of complex values", Did.ASSUMED, "complex", "magnitude", "phase")
def _(folder):
    layers = opened(mif(folder, np.full((4, 3, 2), 3 + 4j, "<c8"), "CFloat32LE"))
    np.testing.assert_allclose(layers[0][0], 5)


@ROWS.row(OPEN, "mif.gz", Did.READ)
def _(folder):
    path = mif(folder, GRAY.astype("<f4") / 3)
    (folder / "b.mif.gz").write_bytes(gzip.compress(path.read_bytes()))
    ((data, _, _),) = opened(folder / "b.mif.gz")
    np.testing.assert_array_equal(data, (GRAY.astype("<f4") / 3).T)


@ROWS.row(OPEN, "mif whose transform has no volume", Did.ASSUMED, "cannot be inverted", "assumed")
def _(folder):
    opened(mif(folder, GRAY.astype("<f4") / 3, more="transform: 1,0,0,0\n" * 3))


def bad_vox(trait, vox, sizes):
    """Add a row: voxel sizes that are none."""

    @ROWS.row("read_volume", f"mif whose voxel sizes are {trait}", Did.ASSUMED, "vox", "1 mm is assumed")
    def _(folder):
        path = mif(folder, GRAY.astype("<f4"))
        path.write_bytes(path.read_bytes().replace(b"vox: 2.0,2.0,2.0\n", f"{vox}\n".encode().ljust(17)[:17]))
        np.testing.assert_allclose(np.diag(read_volume(path)[1])[:3], sizes)


bad_vox("not finite", "vox: 2,nan,3", (2, 1, 3))
bad_vox("not positive", "vox: 0,-2,3", (1, 1, 3))
bad_vox("missing", "", (1, 1, 1))


@ROWS.row(OPEN, "mif whose transform lacks a row", Did.ASSUMED, "not finite", "assumed")
def _(folder):
    opened(mif(folder, GRAY.astype("<f4") / 3, more="transform: 1,0,0,0\n" * 2))


@ROWS.row(OPEN, "mif that ends too early", Did.REFUSED, "a.mif", "incomplete")
def _(folder):
    path = mif(folder, GRAY.astype("<f4"))
    path.write_bytes(path.read_bytes()[:-4])
    opened(path)


@ROWS.row(OPEN, "mif without END", Did.REFUSED, "a.mif", "END")
def _(folder):
    opened(mif(folder, GRAY.astype("<f4"), end=""))
