"""Fibers of TrackVis and MRtrix."""

import gzip
import struct
from pathlib import Path

import nibabel as nib
import numpy as np
from dipy.io.stateful_tractogram import Space, StatefulTractogram
from dipy.io.streamline import save_tractogram
from nibabel.streamlines import TckFile, TrkFile
from nibabel.streamlines import Tractogram as NibTractogram

from napari_gpubio.tractograms.io import read_track_scalars, read_tractogram, write_tractogram
from tests.conformance import Did, Rows
from tests.conformance.lines import (
    AFFINE,
    COUNTS,
    LINES,
    OFFSETS,
    SHAPE,
    check,
    check_blocks,
    check_lengths,
    cut,
    fibers,
    patched,
    tck_file,
    tck_rows,
)
from tests.tractograms.odd_tractograms import write_tsf

ROWS = Rows("Tractograms of TrackVis and MRtrix")
READ, ASSUMED, LEFT_OUT, REFUSED = Did.READ, Did.ASSUMED, Did.LEFT_OUT, Did.REFUSED
NAN = struct.pack("<f", np.nan)
FIRST_POINT, N_COUNT, MATRIX, VERSION = 1004, 988, 440, 992  # bytes of a trk file


def trk_file(folder: Path, *patches: tuple[int, bytes], order="RAS", sizes=(2, 2, 2), name="a.trk") -> Path:
    """Write the lines by nibabel, then replace bytes; returns the path."""
    header = {"voxel_to_rasmm": AFFINE, "voxel_sizes": sizes, "dimensions": SHAPE, "voxel_order": order}
    TrkFile(NibTractogram(LINES, affine_to_rasmm=np.eye(4)), header=header).save(folder / name)
    return patched(folder / name, *patches)


# -- TrackVis ---------------------------------------------------------------------------------------------------------


@ROWS.row("read_tractogram (trk)", "written by nibabel", READ)
def _(folder):
    return check(read_tractogram(trk_file(folder)))


@ROWS.row("read_tractogram (trk)", "written by DIPY", READ)
def _(folder):
    image = nib.Nifti1Image(np.zeros(SHAPE, np.uint8), AFFINE)
    save_tractogram(StatefulTractogram(LINES, image, Space.RASMM), str(folder / "a.trk"))
    return check(read_tractogram(folder / "a.trk"))


@ROWS.row("read_tractogram (trk)", "big-endian", READ)
def _(folder):
    data = trk_file(folder).read_bytes()
    dtype = nib.streamlines.trk.header_2_dtype
    header = np.frombuffer(data[:1000], dtype.newbyteorder("<")).astype(dtype.newbyteorder(">"))
    (folder / "b.trk").write_bytes(header.tobytes() + np.frombuffer(data[1000:], "<i4").astype(">i4").tobytes())
    return check(read_tractogram(folder / "b.trk"))


@ROWS.row("read_tractogram (trk)", "voxel order LPS beside a matrix in RAS", READ)
def _(folder):
    return check(read_tractogram(trk_file(folder, order="LPS")))


@ROWS.row(
    "read_tractogram (trk)", "no matrix (its last number is 0)", ASSUMED, "no matrix", "not known", "lengths are right"
)
def _(folder):
    return check_lengths(read_tractogram(trk_file(folder, (MATRIX, bytes(64)))))


@ROWS.row("read_tractogram (trk)", "no matrix, voxels that are not cubes", ASSUMED, "lengths are right")
def _(folder):
    path = trk_file(folder, (MATRIX, bytes(64)))
    sizes = np.array([1.25, 2, 2.5], "<f4")
    read = check_lengths(read_tractogram(patched(path, (12, sizes.tobytes()))))
    theirs = nib.streamlines.load(path)  # whose points are voxels
    np.testing.assert_allclose(read.points, theirs.streamlines.get_data() * sizes, atol=1e-4)
    return read


@ROWS.row("write_tractogram", "no matrix: the place stays unknown in trk, tck and trx", ASSUMED, "not known")
def _(folder):
    read = read_tractogram(trk_file(folder, (MATRIX, bytes(64))))
    for suffix in (".trk", ".tck", ".trx"):
        write_tractogram(folder / f"b{suffix}", read)
        again = check_lengths(read_tractogram(folder / f"b{suffix}"))
        assert any("not known" in note for note in again.notes)
        np.testing.assert_allclose(again.points, read.points, atol=1e-4)
    return again


@ROWS.row("read_tractogram (trk)", "version 1, which has no matrix, of any bytes there", ASSUMED, "no matrix")
def _(folder):
    return check_lengths(read_tractogram(trk_file(folder, (VERSION, struct.pack("<i", 1)))))


@ROWS.row("read_tractogram (trk)", "no matrix, order PIR", ASSUMED, "PIR")
def _(folder):
    path = trk_file(folder, (MATRIX, bytes(64)), (948, b"PIR\0"))
    read = check_lengths(read_tractogram(path))
    np.testing.assert_allclose(read.points, nib.streamlines.load(path).streamlines.get_data() * 2, atol=1e-4)
    return read


@ROWS.row("read_tractogram (trk)", "a matrix that is not finite", ASSUMED, "not finite", "not known")
def _(folder):
    return check_lengths(read_tractogram(trk_file(folder, (MATRIX, NAN))))


@ROWS.row("read_tractogram (trk)", "voxel sizes 0, beside a matrix", ASSUMED, "[0.0, 0.0, 0.0]", "2.0")
def _(folder):
    return check(read_tractogram(trk_file(folder, (12, bytes(12)))))


@ROWS.row("read_tractogram (trk)", "voxel sizes that are not those of the matrix", ASSUMED, "[1.0, 1.0, 1.0]", "2.0")
def _(folder):
    path = trk_file(folder, (12, np.ones(3, "<f4").tobytes()))
    read = read_tractogram(path)
    np.testing.assert_allclose(read.points, nib.streamlines.load(path).streamlines.get_data(), atol=1e-4)
    return read


@ROWS.row("read_tractogram (trk)", "a voxel order that names no axes", ASSUMED, "'XYZ'", "LPS")
def _(folder):
    return check_lengths(read_tractogram(trk_file(folder, (948, b"XYZ\0"))))


@ROWS.row("read_tractogram (trk)", "a version that is unknown", ASSUMED, "version 7")
def _(folder):
    return check(read_tractogram(trk_file(folder, (VERSION, struct.pack("<i", 7)))))


@ROWS.row("read_tractogram (trk)", "n_count too low", ASSUMED, "counts 2 fibers", "holds 4")
def _(folder):
    return check(read_tractogram(trk_file(folder, (N_COUNT, struct.pack("<i", 2)))))


@ROWS.row("read_tractogram (trk)", "n_count too high", ASSUMED, "counts 9 fibers", "holds 4")
def _(folder):
    return check(read_tractogram(trk_file(folder, (N_COUNT, struct.pack("<i", 9)))))


@ROWS.row("read_tractogram (trk)", "n_count 0: not stored", ASSUMED, "does not count", "4")
def _(folder):
    return check(read_tractogram(trk_file(folder, (N_COUNT, bytes(4)))))


@ROWS.row("read_tractogram (trk)", "n_count below zero", ASSUMED, "does not count", "4")
def _(folder):
    return check(read_tractogram(trk_file(folder, (N_COUNT, struct.pack("<i", -3)))))


@ROWS.row("read_tractogram (trk)", "zeros behind the last fiber", ASSUMED, "no fiber", "4 whole fibers")
def _(folder):
    path = trk_file(folder)
    path.write_bytes(path.read_bytes() + bytes(400))
    return check(read_tractogram(path))


@ROWS.row("read_tractogram (trk)", "cut off inside a fiber", LEFT_OUT, "inside fiber 3", "3 whole fibers")
def _(folder):
    return check(read_tractogram(cut(trk_file(folder), -30)), (0, 1, 2))


@ROWS.row("read_tractogram (trk)", "cut off inside its first fiber", REFUSED, "inside fiber 0")
def _(folder):
    return read_tractogram(cut(trk_file(folder), 1040))


@ROWS.row("read_tractogram (trk)", "cut off inside the header", REFUSED, "1000 bytes", "400")
def _(folder):
    return read_tractogram(cut(trk_file(folder), 400))


@ROWS.row("read_tractogram (trk)", "a count of points below zero", LEFT_OUT, "fiber 2 claims -5", "2 whole fibers")
def _(folder):
    third = 1000 + 4 * (2 + 3 * (COUNTS[0] + COUNTS[1]))
    return check(read_tractogram(trk_file(folder, (third, struct.pack("<i", -5)))), (0, 1))


@ROWS.row("read_tractogram (trk)", "one NaN point", LEFT_OUT, "1 of 4 fibers", "not finite", "fiber 0")
def _(folder):
    return check(read_tractogram(trk_file(folder, (FIRST_POINT, NAN))), (1, 2, 3))


@ROWS.row("read_tractogram (trk)", "one point far outside of any head", LEFT_OUT, "1 of 4 fibers")
def _(folder):
    return check(read_tractogram(trk_file(folder, (FIRST_POINT, struct.pack("<f", 1e30)))), (1, 2, 3))


@ROWS.row("read_tractogram (trk)", "only NaN points", REFUSED, "all 4 fibers")
def _(folder):
    path = trk_file(folder)
    starts = 1004 + 4 * (np.arange(4) + 3 * OFFSETS[:-1])
    return read_tractogram(patched(path, *((int(at), NAN) for at in starts)))


@ROWS.row("read_tractogram (trk)", "columns beside a NaN point: numbers stay with fibers", LEFT_OUT, "1 of 4")
def _(folder):
    columns = {"per_point": {"n": np.arange(28.0)}, "per_fiber": {"id": np.array([5.0, 6, 7, 8])}}
    write_tractogram(folder / "a.trk", fibers(**columns))
    read = check(read_tractogram(patched(folder / "a.trk", (FIRST_POINT, NAN))), (1, 2, 3))
    assert read.per_fiber["id"].tolist() == [6, 7, 8]
    assert read.per_point["n"].tolist() == list(range(11, 28))
    return read


@ROWS.row("read_tractogram (trk)", "a name of scalars with bytes behind its end", READ)
def _(folder):
    write_tractogram(folder / "a.trk", fibers(per_point={"fa": np.arange(28.0)}))
    read = check(read_tractogram(patched(folder / "a.trk", (38, b"fa\0gar\0b\0age"))))
    assert read.per_point["fa"].tolist() == list(range(28))
    return read


@ROWS.row("read_tractogram (trk.gz)", "packed", READ)
def _(folder):
    (folder / "a.trk.gz").write_bytes(gzip.compress(trk_file(folder).read_bytes()))
    return check(read_tractogram(folder / "a.trk.gz"))


@ROWS.row("read_tractogram (trk.gz)", "the gzip stream is cut off", LEFT_OUT, "cut off", "whole fibers")
def _(folder):
    data = trk_file(folder).read_bytes()
    (folder / "a.trk.gz").write_bytes(gzip.compress(data, 0)[:-60])  # not packed, so that the place is known
    return check(read_tractogram(folder / "a.trk.gz"), (0, 1, 2))


@ROWS.row("read_tractogram (trk.gz)", "a zip bomb", REFUSED, "no tractogram")
def _(folder):
    (folder / "a.trk.gz").write_bytes(gzip.compress(trk_file(folder).read_bytes() + bytes(70 << 20), 1))
    return read_tractogram(folder / "a.trk.gz")


# -- MRtrix -----------------------------------------------------------------------------------------------------------


@ROWS.row("read_tractogram (tck)", "written by nibabel", READ)
def _(folder):
    TckFile(NibTractogram(LINES, affine_to_rasmm=np.eye(4))).save(folder / "a.tck")
    return check(read_tractogram(folder / "a.tck"))


@ROWS.row("read_tractogram (tck)", "big-endian (datatype)", READ)
def _(folder):
    return check(read_tractogram(tck_file(folder, datatype="Float32BE")))


@ROWS.row("read_tractogram (tck)", "datatype in small letters, as MRtrix takes it", READ)
def _(folder):
    return check(read_tractogram(tck_file(folder, datatype="float32le")))


@ROWS.row("read_tractogram (tck)", "no datatype", ASSUMED, "no datatype", "Float32LE")
def _(folder):
    return check(read_tractogram(tck_file(folder, datatype="")))


@ROWS.row("read_tractogram (tck)", "a datatype that tck does not have", REFUSED, "Int16LE")
def _(folder):
    return read_tractogram(tck_file(folder, datatype="Int16LE"))


@ROWS.row("read_tractogram (tck)", "no end (inf, inf, inf)", ASSUMED, "(inf, inf, inf) is missing", "4 whole fibers")
def _(folder):
    path = tck_file(folder, rows=tck_rows()[:-1])
    return check_blocks(path, check(read_tractogram(path)))


@ROWS.row("read_tractogram (tck)", "cut off inside a fiber", LEFT_OUT, "inside fiber 3", "3 whole fibers")
def _(folder):
    path = cut(tck_file(folder), -50)
    return check_blocks(path, check(read_tractogram(path), (0, 1, 2)))


@ROWS.row("read_tractogram (tck)", "cut off inside its first fiber", REFUSED, "inside its first fiber")
def _(folder):
    return read_tractogram(cut(tck_file(folder), 250))


@ROWS.row("read_tractogram (tck)", "count too low", ASSUMED, "counts 2 fibers", "holds 4")
def _(folder):
    path = tck_file(folder, count=2)
    return check_blocks(path, check(read_tractogram(path)))


@ROWS.row("read_tractogram (tck)", "count too high", ASSUMED, "counts 77 fibers", "holds 4")
def _(folder):
    return check(read_tractogram(tck_file(folder, count=77)))


@ROWS.row("read_tractogram (tck)", "numbers behind its end", ASSUMED, "2 points behind")
def _(folder):
    return check(read_tractogram(tck_file(folder, rows=np.vstack([tck_rows(), np.ones((2, 3))]))))


@ROWS.row("read_tractogram (tck)", "a NaN in one coordinate", LEFT_OUT, "1 of 4 fibers", "fiber 1")
def _(folder):
    rows = tck_rows()
    rows[14, 1] = np.nan
    path = tck_file(folder, rows=rows)
    return check_blocks(path, check(read_tractogram(path), (0, 2, 3)))


@ROWS.row("read_tractogram (tck)", "an infinite coordinate", LEFT_OUT, "1 of 4 fibers", "fiber 3")
def _(folder):
    rows = tck_rows()
    rows[-3, 0] = np.inf
    path = tck_file(folder, rows=rows)
    return check_blocks(path, check(read_tractogram(path), (0, 1, 2)))


@ROWS.row("read_tractogram (tck)", "a point all NaN, which ends a fiber", ASSUMED, "counts 4 fibers", "holds 5")
def _(folder):
    rows = tck_rows()
    rows[4] = np.nan
    read = read_tractogram(tck_file(folder, rows=rows))
    assert read.counts.tolist() == [4, 6, *COUNTS[1:]]
    return read


@ROWS.row("read_tractogram (tck)", "its header puts the points behind the file", REFUSED, "9999")
def _(folder):
    path = tck_file(folder)
    path.write_bytes(path.read_bytes().replace(b"file: . 200", b"file: . 9999"))
    return read_tractogram(path)


@ROWS.row("read_track_scalars (tsf)", "beside the tck file of its name", READ)
def _(folder):
    tck_file(folder)
    write_tsf(folder / "a.tsf", fibers(), np.arange(28.0))
    read = check(read_track_scalars(folder / "a.tsf"))
    assert read.per_point["a"].tolist() == list(range(28))
    return read


@ROWS.row("read_tractogram (tsf)", "another name, the timestamp of a tck file beside it", ASSUMED, "same timestamp")
def _(folder):
    tck_file(folder, head="timestamp: 1234.5\n")
    tck_file(folder, head="timestamp: 99.5\n", name="0.tck", rows=tck_rows(LINES[:1]), count=1)
    write_tsf(folder / "fa.tsf", fibers(), np.arange(28.0), "1234.5")
    read = check(read_tractogram(folder / "fa.tsf"))
    assert read.per_point["fa"].tolist() == list(range(28))
    return read


@ROWS.row("read_track_scalars (tsf)", "a NaN number", ASSUMED, "1 of 28 points")
def _(folder):
    values = np.arange(28.0)
    values[3] = np.nan
    write_tsf(folder / "a.tsf", fibers(), values)
    read = check(read_track_scalars(folder / "a.tsf", tck_file(folder)))
    np.testing.assert_array_equal(read.per_point["a"], values)
    return read


@ROWS.row("read_track_scalars (tsf)", "beside a tck file with a NaN point", LEFT_OUT, "1 of 4 fibers")
def _(folder):
    rows = tck_rows()
    rows[14, 1] = np.nan
    tck_file(folder, rows=rows)
    write_tsf(folder / "a.tsf", fibers(), np.arange(28.0))
    read = check(read_track_scalars(folder / "a.tsf"), (0, 2, 3))
    assert read.per_point["a"].tolist() == [*range(11), *range(17, 28)]
    return read


@ROWS.row("read_track_scalars (tsf)", "other fibers than the tck file", REFUSED, "of 28 numbers", "tck")
def _(folder):
    tck_file(folder, rows=tck_rows(LINES[::-1]))
    write_tsf(folder / "a.tsf", fibers(), np.arange(28.0))
    return read_track_scalars(folder / "a.tsf")


@ROWS.row("read_track_scalars (tsf)", "no tck file beside it", REFUSED, "tck")
def _(folder):
    write_tsf(folder / "a.tsf", fibers(), np.arange(28.0))
    return read_track_scalars(folder / "a.tsf")


def _add_unit(unit, factor):
    @ROWS.row("read_tractogram (tck)", f"points in {unit}", Did.ASSUMED, f"as if they were in {unit}")
    def _(folder):
        lines = [(line * factor).astype(np.float32) for line in LINES]
        found = read_tractogram(tck_file(folder, rows=tck_rows(lines)))
        np.testing.assert_array_equal(found.points, np.concatenate(lines))
        return found


_add_unit("micrometers", 1e3 * 200)
_add_unit("meters", 1e-3)
