"""Fibers of DSI Studio."""

import gzip
import struct

import numpy as np

from napari_gpubio.tractograms.bundles import by_group
from napari_gpubio.tractograms.io import read_tractogram
from tests.conformance import Did, Rows
from tests.conformance.lines import AFFINE, COUNTS, POINTS, SHAPE, check, check_lengths, cut, fibers
from tests.tractograms.odd_tractograms import write_tiny_track

ROWS = Rows("Tractograms of DSI Studio")
READ, ASSUMED, LEFT_OUT, REFUSED = Did.READ, Did.ASSUMED, Did.LEFT_OUT, Did.REFUSED


@ROWS.row("read_tractogram (tt.gz)", "with its matrix, to 1/32 voxel", READ)
def _(folder):
    write_tiny_track(folder / "a.tt.gz", fibers())
    read = check(read_tractogram(folder / "a.tt.gz"), tolerance=2 / 64)
    assert read.shape == SHAPE
    np.testing.assert_array_equal(read.affine, AFFINE)
    return read


@ROWS.row("read_tractogram (tt.gz)", "clusters become groups", READ)
def _(folder):
    write_tiny_track(folder / "a.tt.gz", fibers(), [0, 1, 1, 0])
    read = check(read_tractogram(folder / "a.tt.gz"), tolerance=2 / 64)
    assert by_group(read)["cluster 1"].counts.tolist() == [COUNTS[1], COUNTS[2]]
    return read


@ROWS.row("read_tractogram (tt.gz)", "no matrix", ASSUMED, "LPS", "not known", "lengths are right")
def _(folder):
    write_tiny_track(folder / "a.tt.gz", fibers(), trans=False)
    read = read_tractogram(folder / "a.tt.gz")
    expected = np.array([78, 78, 0]) + POINTS * [-1, -1, 1]
    np.testing.assert_allclose(read.points, expected, atol=2 / 64)
    return read


def odd_matrix(folder, name, values, code):
    """Replace a matrix of a file; ``code``: of MATLAB's types."""
    write_tiny_track(folder / "a.tt.gz", fibers(), [0, 1, 1, 0])
    data = gzip.decompress((folder / "a.tt.gz").read_bytes())
    start = data.index(name.encode() + b"\0") - 20
    rows, columns = struct.unpack_from("<2i", data, start + 4)
    end = start + 20 + len(name) + 1 + rows * columns * {b"\x28": 2, b"\x32": 1}.get(data[start : start + 1], 4)
    head = struct.pack("<5i", code, *values.shape, 0, len(name) + 1) + name.encode() + b"\0"
    (folder / "a.tt.gz").write_bytes(gzip.compress(data[:start] + head + values.tobytes(order="F") + data[end:]))
    return folder / "a.tt.gz"


@ROWS.row("read_tractogram (tt.gz)", "a matrix that is not finite", ASSUMED, "trans_to_mni", "not known", "lengths are")
def _(folder):
    return check_lengths(
        read_tractogram(odd_matrix(folder, "trans_to_mni", np.full((4, 4), np.nan, "f4"), 10)), tolerance=0.1
    )


@ROWS.row("read_tractogram (tt.gz)", "dimensions of 0", ASSUMED, "dimensions", "one voxel")
def _(folder):
    return check(read_tractogram(odd_matrix(folder, "dimension", np.zeros((1, 3), "i4"), 20)), tolerance=2 / 64)


@ROWS.row("read_tractogram (tt.gz)", "voxel sizes of 0 beside a matrix", READ)
def _(folder):
    return check(read_tractogram(odd_matrix(folder, "voxel_size", np.zeros((1, 3), "f4"), 10)), tolerance=2 / 64)


@ROWS.row("read_tractogram (tt.gz)", "clusters that are text", ASSUMED, "cluster", "left out")
def _(folder):
    read = check(read_tractogram(odd_matrix(folder, "cluster", np.zeros((1, 4), "u1"), 51)), tolerance=2 / 64)
    assert not read.per_fiber
    return read


@ROWS.row("read_tractogram (tt.gz)", "a matrix of an unknown type before the fibers", REFUSED, "no track")
def _(folder):
    return read_tractogram(odd_matrix(folder, "dimension", np.zeros((1, 3), "i4"), 77))


@ROWS.row("read_tractogram (tt.gz)", "the gzip stream is cut off", LEFT_OUT, "cut off", "3 whole fibers")
def _(folder):
    write_tiny_track(folder / "a.tt.gz", fibers())
    data = gzip.decompress((folder / "a.tt.gz").read_bytes())
    (folder / "a.tt.gz").write_bytes(gzip.compress(data, 0)[:-25])  # not packed, so that the place is known
    return check(read_tractogram(folder / "a.tt.gz"), (0, 1, 2), tolerance=2 / 64)


@ROWS.row("read_tractogram (tt.gz)", "cut off in its first fiber", REFUSED, "first fiber")
def _(folder):
    write_tiny_track(folder / "a.tt.gz", fibers())
    return read_tractogram(cut(folder / "a.tt.gz", -40))
