"""Fibers of TRX and VTK, and tractograms in the window."""

import dataclasses
import gzip
import warnings
import zipfile

import numpy as np
import trx.trx_file_memmap as trx_python

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.reading import ReadingNote
from napari_gpubio.tractograms.bundles import by_group
from napari_gpubio.tractograms.io import read_tractogram, write_tractogram
from tests.conformance import Did, Rows
from tests.conformance.lines import (
    COUNTS,
    LINES_TEXT,
    OFFSETS,
    POINTS,
    check,
    check_blocks,
    cut,
    fibers,
    trx_file,
    trx_members,
    vtk_file,
)
from tests.tractograms.odd_tractograms import VTP_CODINGS, write_vtp

ROWS = Rows("Tractograms of TRX and VTK")
READ, ASSUMED, LEFT_OUT, REFUSED = Did.READ, Did.ASSUMED, Did.LEFT_OUT, Did.REFUSED


GROUPS = {"groups/AF.uint32": np.array([1, 3], "<u4").tobytes(), "groups/CST.ubyte": np.array([0, 1], "u1").tobytes()}
DPG = {
    "dpg/AF/mean_fa.float32": np.array([0.4], "<f4").tobytes(),
    "dpg/AF/color.3.uint8": bytes([9, 8, 7]),
    "dpg/CST/n.ushort": np.array([300], "<u2").tobytes(),
}

# -- names that tell another format -----------------------------------------------------------------------------------


def _add_misnamed(kind, name):
    @ROWS.row(f"read_tractogram ({kind.lstrip('.')})", f"named {name}", ASSUMED, "the content of", kind)
    def _(folder):
        if kind == ".vtp":
            write_vtp(folder / name, fibers())
        else:
            write_tractogram(folder / f"a{kind.removesuffix('.gz')}", fibers())
            data = (folder / f"a{kind.removesuffix('.gz')}").read_bytes()
            (folder / name).write_bytes(gzip.compress(data) if kind.endswith(".gz") else data)
        return check_blocks(folder / name, check(read_tractogram(folder / name)))


_add_misnamed(".trk", "b.tck")
_add_misnamed(".tck", "b.trk")
_add_misnamed(".tck", "b.tck.gz")
_add_misnamed(".trk.gz", "b.trk")
_add_misnamed(".tck.gz", "b.tck")
_add_misnamed(".trx", "b.tt.gz")
_add_misnamed(".vtk", "b.trx")
_add_misnamed(".vtp", "b.vtk")


# -- TRX --------------------------------------------------------------------------------------------------------------


@ROWS.row("read_tractogram (trx)", "as its specification has it", READ)
def _(folder):
    path = trx_file(folder, trx_members())
    return check_blocks(path, check(read_tractogram(path)))


@ROWS.row("read_tractogram (trx)", "packed (deflate)", READ)
def _(folder):
    path = trx_file(folder, trx_members(), packing=zipfile.ZIP_DEFLATED)
    return check_blocks(path, check(read_tractogram(path)))


@ROWS.row("read_tractogram (trx)", "a folder of its members", READ)
def _(folder):
    zipfile.ZipFile(trx_file(folder, trx_members() | GROUPS | DPG)).extractall(folder / "b.trx")
    read = check(read_tractogram(folder / "b.trx"))
    assert read.per_group["AF"]["color"].tolist() == [9, 8, 7]
    return check_blocks(folder / "b.trx", read)


@ROWS.row("read_tractogram (trx)", "a folder of another name", READ)
def _(folder):
    zipfile.ZipFile(trx_file(folder, trx_members())).extractall(folder / "fibers")
    return check(read_tractogram(folder / "fibers"))


@ROWS.row("read_tractogram (trx)", "a folder that has its name alone", REFUSED, "header.json")
def _(folder):
    (folder / "a.trx").mkdir()
    return read_tractogram(folder / "a.trx")


@ROWS.row("read_tractogram (trx)", "numbers of groups (dpg), read as trx-python reads them", READ)
def _(folder):
    path = trx_file(folder, trx_members() | GROUPS | DPG)
    read, theirs = check(read_tractogram(path)), trx_python.load(str(path))
    assert read.per_fiber["group/AF"].tolist() == [False, True, False, True]
    for group, numbers in theirs.data_per_group.items():
        for name, values in numbers.items():
            np.testing.assert_array_equal(read.per_group[group][name], np.ravel(values))
            assert read.per_group[group][name].dtype == values.dtype
    assert sorted(read.per_group) == ["AF", "CST"]
    return read


@ROWS.row("write_tractogram (trx)", "numbers of groups (dpg) are kept", READ)
def _(folder):
    write_tractogram(folder / "b.trx", read_tractogram(trx_file(folder, trx_members() | GROUPS | DPG)))
    theirs = trx_python.load(str(folder / "b.trx"))
    assert np.ravel(theirs.data_per_group["AF"]["color"]).tolist() == [9, 8, 7]
    assert np.ravel(theirs.data_per_group["CST"]["n"]).tolist() == [300]
    return check(read_tractogram(folder / "b.trx"))


@ROWS.row("write_tractogram (trk)", "numbers of groups, which trk cannot hold", ASSUMED, ".trk", "AF", "write trx")
def _(folder):
    write_tractogram(folder / "b.trk", fibers(per_group={"AF": {"mean_fa": np.array([0.4])}}))
    return check(read_tractogram(folder / "b.trk"))


@ROWS.row("by_group", "groups become bundles by their names", READ)
def _(folder):
    bundles = by_group(read_tractogram(trx_file(folder, trx_members() | GROUPS)))
    assert {name: part.counts.tolist() for name, part in bundles.items()} == {
        "AF": [COUNTS[1], COUNTS[3]], "CST": [COUNTS[0], COUNTS[1]], "": [COUNTS[2]],
    }  # fmt: skip
    return bundles


@ROWS.row("read_tractogram (trx)", "types by other names of NumPy: half, ushort, double, bool", READ)
def _(folder):
    kinds = {"half": "<f2", "ushort": "<u2", "double": "<f8", "bool": "?", "longlong": "<i8", "single": "<f4"}
    more = {f"dps/{kind}.{kind}": np.array([1, 0, 1, 1], code).tobytes() for kind, code in kinds.items()}
    read = check(read_tractogram(trx_file(folder, trx_members() | more)))
    assert {name: values.tolist() for name, values in read.per_fiber.items()} == {kind: [1, 0, 1, 1] for kind in kinds}
    return read


@ROWS.row("read_tractogram (trx)", "type float of 8 bytes, as in NumPy", READ)
def _(folder):
    read = check(read_tractogram(trx_file(folder, trx_members() | {"dps/x.float": np.arange(4.0).tobytes()})))
    assert read.per_fiber["x"].tolist() == [0, 1, 2, 3]
    return read


@ROWS.row("read_tractogram (trx)", "type float of 4 bytes, as in C", ASSUMED, "dps/x.float", "4 bytes")
def _(folder):
    read = check(
        read_tractogram(trx_file(folder, trx_members() | {"dps/x.float": np.arange(4, dtype="<f4").tobytes()}))
    )
    assert read.per_fiber["x"].tolist() == [0, 1, 2, 3]
    return read


@ROWS.row("read_tractogram (trx)", "a name with a second dot", READ)
def _(folder):
    read = check(read_tractogram(trx_file(folder, trx_members() | {"dps/fa.mean.2.uint8": bytes(range(8))})))
    assert read.per_fiber["fa.mean"].tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    return read


@ROWS.row("read_tractogram (trx)", "members of others", LEFT_OUT, "2 members", "notes.txt", "dps/x.complex64")
def _(folder):
    return check(read_tractogram(trx_file(folder, trx_members() | {"notes.txt": b"x", "dps/x.complex64": bytes(32)})))


@ROWS.row("read_tractogram (trx)", "an array of other rows than fibers", LEFT_OUT, "dps/x.uint8", "3 bytes")
def _(folder):
    return check(read_tractogram(trx_file(folder, trx_members() | {"dps/x.uint8": bytes(3)})))


@ROWS.row("read_tractogram (trx)", "a group that names fibers that are not there", LEFT_OUT, "'AF'", "1 fibers")
def _(folder):
    more = {"groups/AF.uint32": np.array([2, 99], "<u4").tobytes()}
    read = check(read_tractogram(trx_file(folder, trx_members() | more)))
    assert read.per_fiber["group/AF"].tolist() == [False, False, True, False]
    return read


@ROWS.row("read_tractogram (trx)", "the header counts other points and fibers", ASSUMED, "99", "28", "7", "4")
def _(folder):
    return check(read_tractogram(trx_file(folder, trx_members(NB_VERTICES=99, NB_STREAMLINES=7))))


@ROWS.row("read_tractogram (trx)", "the header counts nothing", ASSUMED, "NB_VERTICES", "arrays")
def _(folder):
    return check(read_tractogram(trx_file(folder, trx_members(NB_VERTICES="-", NB_STREAMLINES="-"))))


@ROWS.row("read_tractogram (trx)", "a matrix that is not finite", ASSUMED, "no volume", "world mm")
def _(folder):
    return check(read_tractogram(trx_file(folder, trx_members(VOXEL_TO_RASMM=[[float("nan")] * 4] * 4))))


@ROWS.row("read_tractogram (trx)", "offsets without the closing one, as in the first version", READ)
def _(folder):
    more = {"offsets.uint64": OFFSETS[:-1].astype("<u8").tobytes()}
    return check(read_tractogram(trx_file(folder, trx_members() | more)))


@ROWS.row("read_tractogram (trx)", "offsets that end before the points do, as trx-python", LEFT_OUT, "11 points")
def _(folder):
    more = {"offsets.uint64": OFFSETS[:3].astype("<u8").tobytes()}
    path = trx_file(folder, trx_members(NB_STREAMLINES=2) | more)
    assert [len(line) for line in trx_python.load(str(path)).streamlines] == list(COUNTS[:2])
    return check_blocks(path, check(read_tractogram(path), (0, 1)))


@ROWS.row("read_tractogram (trx)", "a count too low by one, no closing offset", ASSUMED, "counts 3 fibers", "have 4")
def _(folder):
    more = {"offsets.uint64": OFFSETS[:-1].astype("<u8").tobytes(), "dps/id.uint8": bytes([5, 6, 7, 8])}
    read = check(read_tractogram(trx_file(folder, trx_members(NB_STREAMLINES=3) | more)))
    assert read.per_fiber["id"].tolist() == [5, 6, 7, 8]
    return read


@ROWS.row("read_tractogram (trx)", "one offset beyond the points", LEFT_OUT, "2 of 4 fibers", "offsets")
def _(folder):
    offsets = OFFSETS.copy()
    offsets[2] = 10**6
    path = trx_file(folder, trx_members() | {"offsets.uint64": offsets.astype("<u8").tobytes()})
    return check_blocks(path, check(read_tractogram(path), (0, 3)))


@ROWS.row("read_tractogram (trx)", "one NaN point", LEFT_OUT, "1 of 4 fibers", "not finite", "fiber 1")
def _(folder):
    points = POINTS.copy()
    points[12, 2] = np.nan
    numbers = {"dps/id.uint8": bytes([5, 6, 7, 8]), "positions.3.float32": points.tobytes()}
    path = trx_file(folder, trx_members() | GROUPS | numbers)
    read = check(read_tractogram(path), (0, 2, 3))
    assert read.per_fiber["id"].tolist() == [5, 7, 8]
    assert read.per_fiber["group/AF"].tolist() == [False, False, True]
    return check_blocks(path, read)


@ROWS.row("read_tractogram (trx)", "points in float64 beyond float32", LEFT_OUT, "1 of 4 fibers")
def _(folder):
    members = trx_members()
    del members["positions.3.float32"]
    points = POINTS.astype(np.float64)
    points[0] = 1e300
    path = trx_file(folder, members | {"positions.3.float64": points.tobytes()})
    return check_blocks(path, check(read_tractogram(path), (1, 2, 3)))


@ROWS.row("read_tractogram (trx)", "cut off: a zip file has its list at the end", REFUSED, "cannot be read")
def _(folder):
    return read_tractogram(cut(trx_file(folder, trx_members()), -30))


@ROWS.row("read_tractogram (trx)", "a zip bomb", REFUSED, "no tractogram")
def _(folder):
    members = trx_members(NB_VERTICES=6 << 20) | {"positions.3.float32": bytes(72 << 20)}
    return read_tractogram(trx_file(folder, members, packing=zipfile.ZIP_DEFLATED))


# -- VTK --------------------------------------------------------------------------------------------------------------


@ROWS.row("read_tractogram (vtk)", "text, its axes in the title", READ)
def _(folder):
    return check(read_tractogram(vtk_file(folder, LINES_TEXT)))


@ROWS.row("read_tractogram (vtk)", "LPS in the title", READ)
def _(folder):
    return check(read_tractogram(vtk_file(folder, LINES_TEXT, title="SPACE=LPS", points=POINTS * [-1, -1, 1])))


@ROWS.row("read_tractogram (vtk)", "no axes", ASSUMED, "does not state its axes", "RAS")
def _(folder):
    return check(read_tractogram(vtk_file(folder, LINES_TEXT, title="by hand")))


@ROWS.row("read_tractogram (vtk)", "one NaN point", LEFT_OUT, "1 of 4 fibers", "not finite")
def _(folder):
    points = POINTS.copy()
    points[0, 0] = np.nan
    more = "CELL_DATA 4\nSCALARS id int\nLOOKUP_TABLE default\n5 6 7 8\n"
    read = check(read_tractogram(vtk_file(folder, LINES_TEXT, more, points=points)), (1, 2, 3))
    assert read.per_fiber["id"].tolist() == [6, 7, 8]
    return read


@ROWS.row("read_tractogram (vtk)", "NaN as Windows writes it, -1.#IND", LEFT_OUT, "1 of 4 fibers", "fiber 0")
def _(folder):
    path = vtk_file(folder, LINES_TEXT)
    path.write_text(path.read_text().replace("10.0 20.0", "-1.#IND 20.0", 1))
    return check(read_tractogram(path), (1, 2, 3))


@ROWS.row("read_tractogram (vtk)", "a line that names a point that is not there", LEFT_OUT, "1 of 4 fibers", "28")
def _(folder):
    return check(read_tractogram(vtk_file(folder, LINES_TEXT.replace(" 13 ", " 99 "))), (0, 2, 3))


@ROWS.row("read_tractogram (vtk)", "cut off in its lines", LEFT_OUT, "3 whole fibers")
def _(folder):
    return check(read_tractogram(vtk_file(folder, LINES_TEXT.rpartition(" ")[0])), (0, 1, 2))


@ROWS.row("read_tractogram (vtk)", "cut off in numbers behind the lines", LEFT_OUT, "SCALARS id", "4 numbers")
def _(folder):
    return check(
        read_tractogram(vtk_file(folder, LINES_TEXT, "CELL_DATA 4\nSCALARS id int\nLOOKUP_TABLE default\n5 6"))
    )


@ROWS.row("read_tractogram (vtk)", "cut off in its points", REFUSED, "cut off")
def _(folder):
    return read_tractogram(cut(vtk_file(folder, ""), 300))


def _vtp_row(coding):
    columns = {"per_point": {"fa": np.arange(28.0)}, "per_fiber": {"id": np.arange(4)}}

    @ROWS.row("read_tractogram (vtp)", f"arrays as {coding}", READ)
    def _(folder):
        write_vtp(folder / "a.vtp", fibers(**columns), coding)
        read = check(read_tractogram(folder / "a.vtp"))
        np.testing.assert_array_equal(read.per_point["fa"], columns["per_point"]["fa"])
        np.testing.assert_array_equal(read.per_fiber["id"], columns["per_fiber"]["id"])
        return read


for _coding in VTP_CODINGS:
    _vtp_row(_coding)


@ROWS.row("read_tractogram (vtp)", "several pieces, in LPS", READ)
def _(folder):
    write_vtp(folder / "a.vtp", fibers(per_point={"fa": np.arange(28.0)}), "zlib", space="LPS", pieces=3)
    read = check(read_tractogram(folder / "a.vtp"))
    assert read.per_point["fa"].tolist() == list(range(28))
    return read


@ROWS.row("read_tractogram (vtp)", "no axes", ASSUMED, "does not state its axes")
def _(folder):
    write_vtp(folder / "a.vtp", fibers(), space=None)
    return check(read_tractogram(folder / "a.vtp"))


@ROWS.row("read_tractogram (vtp)", "one NaN point", LEFT_OUT, "1 of 4 fibers", "fiber 0")
def _(folder):
    points = POINTS.copy()
    points[0, 0] = np.nan
    write_vtp(folder / "a.vtp", dataclasses.replace(fibers(), points=points), "raw")
    return check(read_tractogram(folder / "a.vtp"), (1, 2, 3))


@ROWS.row("read_tractogram (vtp)", "an array that is damaged", LEFT_OUT, "'fa'", "28")
def _(folder):
    write_vtp(folder / "a.vtp", fibers(per_point={"fa": np.arange(28.0)}))
    data = (folder / "a.vtp").read_bytes()
    (folder / "a.vtp").write_bytes(data.replace(b"26.0 27.0<", b"26.0 x28<"))
    return check(read_tractogram(folder / "a.vtp"))


@ROWS.row("read_tractogram (vtp)", "a document type, with which XML can grow without end", REFUSED, "document type")
def _(folder):
    write_vtp(folder / "a.vtp", fibers())
    data = (folder / "a.vtp").read_bytes()
    (folder / "a.vtp").write_bytes(data.replace(b"<VTKFile", b'<!DOCTYPE x [<!ENTITY a "aaaa">]><VTKFile', 1))
    return read_tractogram(folder / "a.vtp")


# -- the window -------------------------------------------------------------------------------------------------------


@ROWS.row("File > Open", "a trk file without a matrix: the layer has the note, it is shown", ASSUMED, "not known")
def _(folder):
    from napari_gpubio.tractograms.gui.fibers import read_tractogram_layers
    from tests.conformance.tractograms import MATRIX, trk_file

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        (layer,) = read_tractogram_layers(trk_file(folder, (MATRIX, bytes(64))))
    assert [one.category for one in shown].count(ReadingNote) == 1
    assert any("not known" in note for note in layer.metadata[KEY]["notes"])
    return layer.metadata[KEY]["tractogram"]


@ROWS.row("File > Open", "a trx file with groups: a layer for each bundle", READ)
def _(folder):
    from napari_gpubio.tractograms.gui.fibers import read_tractogram_layers

    layers = read_tractogram_layers(trx_file(folder, trx_members() | GROUPS))
    assert {layer.name: len(layer.lines) for layer in layers} == {"AF": 2, "CST": 2, "a": 1}
    return layers
