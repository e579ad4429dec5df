"""What each format of tractograms prescribes, as nibabel, trx-python and MRtrix see it."""

import itertools
import subprocess
import sys
import zipfile
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import trx.trx_file_memmap as trx_python
from nibabel.streamlines import TckFile, TrkFile
from nibabel.streamlines import Tractogram as NibTractogram

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tractograms.io import read_tractogram, write_tractogram
from napari_gpubio.tractograms.io.validation import in_order
from napari_gpubio.tractograms.io.vtk import read_vtk, write_vtk
from napari_gpubio.tractograms.model import Tractogram
from tests.tractograms.tractogram_samples import AFFINES, SHAPE, assert_same_columns, assert_same_fibers, make


@pytest.mark.parametrize("name", AFFINES)
@pytest.mark.parametrize("suffix", [".trk", ".tck"])
def test_nibabel_sees_the_same(tmp_path, suffix, name):
    made = make(affine=AFFINES[name])
    write_tractogram(tmp_path / f"a{suffix}", made)
    theirs = nib.streamlines.load(tmp_path / f"a{suffix}")
    assert [len(s) for s in theirs.streamlines] == made.counts.tolist()
    np.testing.assert_allclose(theirs.streamlines.get_data(), made.points, rtol=0, atol=1e-4)
    if suffix == ".trk":
        assert theirs.header["voxel_order"] == "".join(nib.aff2axcodes(made.affine)).encode()
        np.testing.assert_allclose(theirs.header["voxel_sizes"], nib.affines.voxel_sizes(made.affine), rtol=1e-6)
        assert theirs.header["dimensions"].tolist() == list(SHAPE)
        per_point, per_fiber = theirs.tractogram.data_per_point, theirs.tractogram.data_per_streamline
        np.testing.assert_array_equal(per_point["dir"].get_data(), made.per_point["dir"])
        np.testing.assert_array_equal(per_fiber["seed"][:, 0], made.per_fiber["seed"])
    theirs.save(tmp_path / f"again{suffix}")  # with our header entries
    assert_same_fibers(read_tractogram(tmp_path / f"again{suffix}"), made)


@pytest.mark.parametrize("order", ["RAS", "LPS", "PIR"])
def test_nibabel_trk_whose_voxel_order_is_not_the_affines(tmp_path, order):
    made = make(affine=AFFINES["LAS"])
    header = {"voxel_order": order.encode(), "dimensions": SHAPE, "voxel_sizes": (2, 2, 2.2)}
    header["voxel_to_rasmm"] = made.affine.astype("f4")
    TrkFile(NibTractogram(list(made), affine_to_rasmm=np.eye(4)), header).save(tmp_path / "a.trk")
    read = read_tractogram(tmp_path / "a.trk")
    assert_same_fibers(read, made)
    assert read.shape == ((30, 40, 50) if order == "PIR" else SHAPE)


def test_trk_names_and_columns_that_do_not_fit(tmp_path, caplog):
    made = make((4, 4), columns=False)
    table = {f"a_rather_long_name_{n}": np.full((8, 2), n, np.float32) for n in range(12)}
    table["text"] = np.array(["x"] * 8)
    made = Tractogram(points=made.points, offsets=made.offsets, affine=made.affine, shape=SHAPE, per_point=table)
    write_tractogram(tmp_path / "a.trk", made)
    theirs = nib.streamlines.load(tmp_path / "a.trk").tractogram.data_per_point
    assert len(theirs) == 10
    assert sorted(float(v.get_data()[0, 0]) for v in theirs.values()) == list(range(10))
    read = read_tractogram(tmp_path / "a.trk")
    assert read.per_point.keys() == theirs.keys()
    assert all(len(name) <= 18 for name in read.per_point)
    assert "left out: a_rather_long_name_10, a_rather_long_name_11" in caplog.text
    assert "text" in caplog.text


def write_tck(path, rows):
    """Write rows of points as they are behind the least header; returns the path."""
    order = {"<": "LE", ">": "BE", "=": "LE"}[rows.dtype.byteorder]
    path.write_bytes(f"mrtrix tracks\ndatatype: Float32{order}\nfile: . 60\nEND\n".encode().ljust(60) + rows.tobytes())
    return path


def test_big_endian_files(tmp_path):
    made = make(columns=False)
    write_tractogram(tmp_path / "a.trk", made)
    data = (tmp_path / "a.trk").read_bytes()
    dtype = nib.streamlines.trk.header_2_dtype
    header = np.frombuffer(data[:1000], dtype.newbyteorder("<")).astype(dtype.newbyteorder(">"))
    (tmp_path / "b.trk").write_bytes(header.tobytes() + np.frombuffer(data[1000:], "<i4").astype(">i4").tobytes())
    assert_same_fibers(read_tractogram(tmp_path / "b.trk"), made)
    rows = np.concatenate([np.vstack([fiber, np.full(3, np.nan)]) for fiber in made] + [np.full((1, 3), np.inf)])
    assert_same_fibers(read_tractogram(write_tck(tmp_path / "b.tck", rows.astype(">f4"))), made)


def test_tck_keeps_fibers_without_points_as_mrtrix_does(tmp_path):
    nan, inf = [np.nan] * 3, [np.inf] * 3
    rows = np.array([nan, [1, 2, 3], nan, nan, [4, 5, 6], [7, 8, 9], inf], "<f4")
    assert read_tractogram(write_tck(tmp_path / "a.tck", rows)).counts.tolist() == [0, 1, 0, 2]


def test_tck_header_obeys_mrtrix(tmp_path):
    write_tractogram(tmp_path / "a.tck", make(columns=False, parameters={"#": "a: b"}))
    data = (tmp_path / "a.tck").read_bytes()
    lines = data.split(b"\nEND\n")[0].decode().split("\n")
    assert lines[0] == "mrtrix tracks"
    assert not any("#" in line for line in lines)
    entries = dict(line.split(": ", 1) for line in lines[1:])
    assert int(entries["count"]) == 4
    assert data[: int(entries["file"].removeprefix(". "))].endswith(b"\nEND\n")
    assert "napari_gpubio" in TckFile.load(tmp_path / "a.tck", lazy_load=True).header


def test_trx_python_sees_the_same(tmp_path):
    made = make()
    groups = {"group/left": np.array([True, False, True, False]), "group/none": np.zeros(4, bool)}
    per_fiber = dict(made.per_fiber) | groups | {"flag.x": np.array([1, 0, 1, 1], np.uint8)}
    made = Tractogram(**{**vars(made), "per_fiber": per_fiber})
    write_tractogram(tmp_path / "a.trx", made)
    theirs = trx_python.load(str(tmp_path / "a.trx"))
    np.testing.assert_array_equal(np.concatenate(list(theirs.streamlines)), made.points)
    assert [len(s) for s in theirs.streamlines] == made.counts.tolist()
    np.testing.assert_allclose(theirs.header["VOXEL_TO_RASMM"], made.affine, rtol=1e-6)
    assert theirs.header["DIMENSIONS"].tolist() == list(SHAPE)
    assert theirs.data_per_streamline["seed"].dtype == np.int32
    assert theirs.data_per_streamline["score"].dtype == np.float64
    np.testing.assert_array_equal(theirs.data_per_streamline["flag_x"][:, 0], [1, 0, 1, 1])
    np.testing.assert_array_equal(np.concatenate(list(theirs.data_per_vertex["dir"])), made.per_point["dir"])
    assert theirs.groups["left"].tolist() == [0, 2]
    read = read_tractogram(tmp_path / "a.trx")
    assert read.per_fiber["seed"].dtype == np.int32
    for name, mask in groups.items():
        np.testing.assert_array_equal(read.per_fiber[name], mask)
    np.testing.assert_array_equal(read.affine, made.affine)
    trx_python.save(theirs, str(tmp_path / "b.trx"), zipfile.ZIP_DEFLATED)
    assert_same_fibers(read_tractogram(tmp_path / "b.trx"), made)
    assert_same_columns(read_tractogram(tmp_path / "b.trx"), read)


def test_names_that_become_alike_in_trx_are_numbered(tmp_path):
    """Windows drops blanks at the end of a file's name; dots and slashes have a meaning in trx."""
    made = make()
    numbers = {"score ": np.arange(4), " score": np.arange(4) + 4}
    groups = {"group/left ": np.array([True, False, True, False]), "group/left": np.array([False, True, False, False])}
    write_tractogram(tmp_path / "a.trx", Tractogram(**{**vars(made), "per_fiber": numbers | groups}))
    with zipfile.ZipFile(tmp_path / "a.trx") as archive:
        assert not any(" ." in name for name in archive.namelist())
    read = read_tractogram(tmp_path / "a.trx").per_fiber
    for (_, values), name in zip(
        (numbers | groups).items(), ("score", "score_2", "group/left", "group/left_2"), strict=True
    ):
        np.testing.assert_array_equal(read[name], values)


@pytest.mark.parametrize("space", ["RAS", "LPS"])
@pytest.mark.parametrize("binary", [True, False])
def test_vtk_codings_and_spaces(tmp_path, space, binary):
    made = make()
    write_vtk(tmp_path / "a.vtk", made, space=space, binary=binary)
    assert_same_fibers(read_tractogram(tmp_path / "a.vtk"), made)
    assert_same_columns(read_tractogram(tmp_path / "a.vtk"), made)
    stored = read_vtk(tmp_path / "a.vtk", "RAS").points
    np.testing.assert_allclose(stored * ([-1, -1, 1] if space == "LPS" else 1), made.points, atol=1e-4)
    with pytest.raises(InvalidInput, match="choose 'RAS' or 'LPS'"):
        read_tractogram(tmp_path / "a.vtk", vtk_space="ras")


def test_vtk_5_with_everything(tmp_path):
    (tmp_path / "a.vtk").write_text(
        "# vtk DataFile Version 5.1\nby hand\nASCII\nDATASET POLYDATA\nFIELD FieldData 1\nSPACE 1 1 string\nLPS\n"
        "POINTS 4 double\n0 0 0 1 1 1\n2 2 2 3 3 3\nMETADATA\nINFORMATION 0\n\n"
        "VERTICES 2 1\nOFFSETS vtktypeint64\n0 1\nCONNECTIVITY vtktypeint64\n0\n"
        "LINES 3 5\nOFFSETS vtktypeint64\n0 3 5\nCONNECTIVITY vtktypeint64\n3 2 1 1 0\n"
        "CELL_DATA 3\nSCALARS id int 1\nLOOKUP_TABLE default\n7 8 9\nPOINT_DATA 4\nSCALARS fa float\n"
        "LOOKUP_TABLE default\n0 .1 .2 .3\nTENSORS t float\n" + "1 2 3 4 5 6 7 8 9\n" * 4 + "VECTORS a%20b float\n"
        "0 0 1 0 1 0 1 0 0 nan 0 0\nFIELD more 1\nother 2 4 int\n1 2 3 4 5 6 7 8\n"
    )
    read = read_tractogram(tmp_path / "a.vtk")
    assert read.counts.tolist() == [3, 2]
    np.testing.assert_array_equal(read.points[:, 0], [-3, -2, -1, -1, 0])
    np.testing.assert_array_equal(read.points[:, 2], [3, 2, 1, 1, 0])
    assert read.per_fiber["id"].tolist() == [8, 9]
    np.testing.assert_allclose(read.per_point["fa"], [0.3, 0.2, 0.1, 0.1, 0])
    assert {name: v.shape for name, v in read.per_point.items()} == {
        "fa": (5,),
        "t": (5, 9),
        "a b": (5, 3),
        "other": (5, 2),
    }


FULL_DISK = """
import resource, signal, sys
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tractograms.io import write_tractogram
from tests.tractograms.tractogram_samples import make
made = make()
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))
for suffix in (".trk", ".tck", ".trx", ".vtk"):
    try:
        write_tractogram(sys.argv[1] + "/a" + suffix, made)
    except InvalidInput as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit on the size of a file")
def test_a_full_disk_is_reported_in_one_sentence_each(tmp_path):
    (tmp_path / "a.trx").write_text("old")
    ran = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Traceback" not in ran.stderr
    assert ran.stdout.count("could not be written") == 4
    assert [path.name for path in tmp_path.iterdir()] == ["a.trx"]
    assert (tmp_path / "a.trx").read_text() == "old"


def test_offsets_whose_differences_overflow_are_not_in_order():
    np.testing.assert_array_equal(in_order(np.array([0, 2**63 - 1, -2, 5]), 10), [False, False, False])


def test_as_many_offsets_as_possible_stay_in_order():
    """Compared with all subsets of offsets that never decrease."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        offsets, most = rng.integers(-2, 9, rng.integers(1, 8)), 6
        subsets = [rows for k in range(len(offsets) + 1) for rows in itertools.combinations(range(len(offsets)), k)]
        rises = [rows for rows in subsets if list(offsets[list(rows)]) == sorted(offsets[list(rows)].clip(0, most))]
        longest = [rows for rows in rises if len(rows) == max(map(len, rises))]
        kept = np.flatnonzero(in_order(offsets, most)).tolist()
        assert kept in [[n for n in range(len(offsets) - 1) if {n, n + 1} <= set(rows)] for rows in longest]
