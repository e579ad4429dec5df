import logging
import zipfile
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
import trx.trx_file_memmap as trx_python
from nibabel.streamlines import TckFile, TrkFile
from nibabel.streamlines import Tractogram as NibTractogram

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine
from napari_gpubio.tracts.io import TractogramWriter, read_tractogram, write_tractogram
from napari_gpubio.tracts.io import napari_tractograms as for_napari
from napari_gpubio.tracts.io.vtk import read_vtk
from napari_gpubio.tracts.io.vtk_writer import write_vtk
from napari_gpubio.tracts.model import Tractogram

SHAPE = (40, 50, 30)
WRITTEN = [".trk", ".tck", ".trx", ".vtk"]
TURN = np.array([[0.96, -0.28, 0.0], [0.26880, 0.9216, -0.28], [0.0784, 0.2688, 0.96]])


def affine_of(matrix, origin=(-30.0, 20.0, 11.5)):
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = matrix, origin
    return affine


AFFINES = {
    "identity": np.eye(4),
    "anisotropic": affine_of(np.diag([0.7, 2.5, 3.1])),
    "LAS": affine_of(np.diag([-2.0, 2.0, 2.2]), (90, -126, -72)),
    "oblique": affine_of(TURN @ np.diag([1.25, 2.5, 2.0])),
    "oblique PIR": affine_of(TURN @ np.diag([1.25, 2.5, 2.0]) @ np.array([[0, 0, 1], [-1, 0, 0], [0, -1, 0]])),
    "sheared": affine_of(np.array([[2.0, 0.6, 0.0], [0.0, 1.5, -0.4], [0.3, 0.0, 2.5]])),
}


def make(counts=(5, 1, 12, 3), affine=AFFINES["sheared"], *, columns=True, **kwargs):
    rng = np.random.default_rng(7)
    points = apply_affine(affine, rng.uniform(0, np.array(SHAPE) - 1, (sum(counts), 3))).astype(np.float32)
    fibers = len(counts)
    per_point = {"fa": rng.random(len(points), np.float32), "dir": rng.random((len(points), 3)).astype(np.float32)}
    per_fiber = {"seed": np.arange(fibers, dtype=np.int32), "score": rng.random((fibers, 2))}
    return Tractogram(
        points=points,
        offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        affine=affine,
        shape=SHAPE,
        per_point=per_point if columns else {},
        per_fiber=per_fiber if columns else {},
        **kwargs,
    )


def assert_same_fibers(read, made, tolerance=1e-4):
    np.testing.assert_array_equal(read.offsets, made.offsets)
    np.testing.assert_allclose(read.points, made.points, rtol=0, atol=tolerance)
    assert read.points.dtype == np.float32
    assert read.points.flags.writeable


def assert_same_columns(read, made):
    for kind in ("per_point", "per_fiber"):
        ours, theirs = getattr(read, kind), getattr(made, kind)
        assert ours.keys() == theirs.keys()
        for name in theirs:
            assert ours[name].shape == theirs[name].shape
            np.testing.assert_allclose(ours[name], theirs[name], rtol=1e-6)


@pytest.fixture(scope="module")
def real() -> Path:
    folder = Path(__file__).resolve().parents[3] / "shared" / "data" / "tractograms"
    if not folder.is_dir():
        pytest.skip("../shared/data is absent")
    return folder


@pytest.mark.parametrize("name", AFFINES)
@pytest.mark.parametrize("suffix", WRITTEN)
def test_round_trip(tmp_path, suffix, name):
    made = make(affine=AFFINES[name])
    write_tractogram(tmp_path / f"a{suffix}", made)
    read = read_tractogram(tmp_path / f"a{suffix}")
    assert_same_fibers(read, made)
    if suffix != ".tck":
        assert_same_columns(read, made)
    if suffix == ".vtk":
        assert read.parameters["reference"] == "none"
        inside = apply_affine(np.linalg.inv(read.affine), read.points)
        assert inside.min() >= 0
        assert (inside <= np.array(read.shape) - 1).all()
    else:
        np.testing.assert_allclose(read.affine, made.affine, rtol=0, atol=1e-5)
        assert read.shape == SHAPE
    assert list(tmp_path.iterdir()) == [tmp_path / f"a{suffix}"]


@pytest.mark.parametrize("suffix", WRITTEN)
@pytest.mark.parametrize("counts", [(), (4,), (1,), (1, 1, 1)], ids=str)
def test_few_points(tmp_path, suffix, counts):
    made = make(counts)
    write_tractogram(tmp_path / f"a{suffix}", made)
    read = read_tractogram(tmp_path / f"a{suffix}")
    assert_same_fibers(read, made)
    assert len(read) == len(counts)


@pytest.mark.parametrize("suffix", WRITTEN)
def test_coordinates_of_a_metre(tmp_path, suffix):
    made = make(affine=affine_of(TURN @ np.diag([1.25, 2.5, 2.0]), (-990.0, 940.0, 960.0)))
    assert np.abs(made.points).max() > 1000
    write_tractogram(tmp_path / f"a{suffix}", made)
    assert_same_fibers(read_tractogram(tmp_path / f"a{suffix}"), made)


@pytest.mark.parametrize("suffix", WRITTEN)
def test_fibers_without_points_are_left_out_with_their_numbers(tmp_path, suffix, caplog):
    made = make((0, 3, 0, 2, 0))
    write_tractogram(tmp_path / f"a{suffix}", made)
    read = read_tractogram(tmp_path / f"a{suffix}")
    assert read.counts.tolist() == [3, 2]
    assert "3 fibers without points" in caplog.text
    if suffix != ".tck":
        assert read.per_fiber["seed"].tolist() == [1, 3]


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


def test_big_endian_files(tmp_path):
    made = make(columns=False)
    write_tractogram(tmp_path / "a.trk", made)
    data = (tmp_path / "a.trk").read_bytes()
    dtype = nib.streamlines.trk.header_2_dtype
    header = np.frombuffer(data[:1000], dtype.newbyteorder("<")).astype(dtype.newbyteorder(">"))
    (tmp_path / "b.trk").write_bytes(header.tobytes() + np.frombuffer(data[1000:], "<i4").astype(">i4").tobytes())
    assert_same_fibers(read_tractogram(tmp_path / "b.trk"), made)
    rows = np.concatenate([np.vstack([fiber, np.full(3, np.nan)]) for fiber in made] + [np.full((1, 3), np.inf)])
    (tmp_path / "b.tck").write_bytes(
        b"mrtrix tracks\ndatatype: Float32BE\nfile: . 60\nEND\n".ljust(60) + rows.astype(">f4").tobytes()
    )
    assert_same_fibers(read_tractogram(tmp_path / "b.tck"), made)


def test_tck_keeps_fibers_without_points_as_mrtrix_does(tmp_path):
    nan, inf = [np.nan] * 3, [np.inf] * 3
    rows = np.array([nan, [1, 2, 3], nan, nan, [4, 5, 6], [7, 8, 9], inf], "<f4")
    (tmp_path / "a.tck").write_bytes(
        b"mrtrix tracks\ndatatype: Float32LE\nfile: . 60\nEND\n".ljust(60) + rows.tobytes()
    )
    assert read_tractogram(tmp_path / "a.tck").counts.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("suffix", [".tck", ".trx"])
@pytest.mark.parametrize("complete", [True, False])
def test_parameters(tmp_path, suffix, complete):
    told = {"text": "a: b # 50%\nc", "inf": np.inf, "number": np.float32(0.5), "list": [1, {"path": Path("x")}]}
    write_tractogram(tmp_path / f"a{suffix}", make(columns=False, parameters=told, complete=complete))
    read = read_tractogram(tmp_path / f"a{suffix}")
    assert read.parameters == told | {"list": [1, {"path": "x"}]}
    assert read.complete is complete
    with pytest.raises(InvalidInput, match="the parameters cannot be written as JSON"):
        write_tractogram(tmp_path / f"b{suffix}", make(parameters={"x": object()}))


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
    np.testing.assert_array_equal(theirs.streamlines._data, made.points)
    assert [len(s) for s in theirs.streamlines] == made.counts.tolist()
    np.testing.assert_allclose(theirs.header["VOXEL_TO_RASMM"], made.affine, rtol=1e-6)
    assert theirs.header["DIMENSIONS"].tolist() == list(SHAPE)
    assert theirs.data_per_streamline["seed"].dtype == np.int32
    assert theirs.data_per_streamline["score"].dtype == np.float64
    np.testing.assert_array_equal(theirs.data_per_streamline["flag_x"][:, 0], [1, 0, 1, 1])
    np.testing.assert_array_equal(theirs.data_per_vertex["dir"]._data, made.per_point["dir"])
    assert theirs.groups["left"].tolist() == [0, 2]
    read = read_tractogram(tmp_path / "a.trx")
    assert read.per_fiber["seed"].dtype == np.int32
    for name, mask in groups.items():
        np.testing.assert_array_equal(read.per_fiber[name], mask)
    np.testing.assert_array_equal(read.affine, made.affine)
    trx_python.save(theirs, str(tmp_path / "b.trx"), zipfile.ZIP_DEFLATED)
    assert_same_fibers(read_tractogram(tmp_path / "b.trx"), made)
    assert_same_columns(read_tractogram(tmp_path / "b.trx"), read)


@pytest.mark.parametrize("space", ["RAS", "LPS"])
@pytest.mark.parametrize("binary", [True, False])
def test_vtk_codings_and_spaces(tmp_path, space, binary):
    made = make()
    write_vtk(tmp_path / "a.vtk", made, space=space, binary=binary)
    assert_same_fibers(read_tractogram(tmp_path / "a.vtk"), made)
    assert_same_columns(read_tractogram(tmp_path / "a.vtk"), made)
    told = read_vtk(tmp_path / "a.vtk", "RAS").points
    np.testing.assert_allclose(told * ([-1, -1, 1] if space == "LPS" else 1), made.points, atol=1e-4)
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


def test_reference(tmp_path, caplog):
    made, other = make(columns=False), np.diag([2.0, 2, 2, 1])
    nib.save(nib.Nifti1Image(np.zeros((9, 8, 7), np.uint8), other), tmp_path / "b0.nii")
    for suffix in (".tck", ".vtk"):
        write_tractogram(tmp_path / f"a{suffix}", made)
        read = read_tractogram(tmp_path / f"a{suffix}", reference=tmp_path / "b0.nii")
        assert read.shape == (9, 8, 7)
        np.testing.assert_array_equal(read.affine, other)
        assert read_tractogram(tmp_path / f"a{suffix}", reference=(other, (3, 4, 5))).shape == (3, 4, 5)
    write_tractogram(tmp_path / "a.trk", made)
    assert read_tractogram(tmp_path / "a.trk", reference=(other, (3, 4, 5))).shape == SHAPE
    assert "the file is believed" in caplog.text
    for wrong in ((other, (0, 1, 1)), (np.zeros((4, 4)), (1, 1, 1)), tmp_path / "a.trk"):
        with pytest.raises(InvalidInput):
            read_tractogram(tmp_path / "a.tck", reference=wrong)


@pytest.mark.parametrize("suffix", [".trk", ".tck", ".trx"])
def test_streaming_gives_the_same_fibers(tmp_path, suffix, monkeypatch):
    whole = make((5, 1, 12, 3, 7, 7))
    with TractogramWriter(tmp_path / f"a{suffix}", whole.affine, whole.shape, {"x": 1}) as writer:
        for part in ([0], [], [1, 2, 3], [4, 5]):
            writer.append(whole.select(np.array(part, int)))
        assert not (tmp_path / f"a{suffix}").exists()
    assert writer.fibers == 6
    read = read_tractogram(tmp_path / f"a{suffix}")
    assert_same_fibers(read, whole)
    if suffix != ".tck":
        assert_same_columns(read, whole)
    monkeypatch.setattr("napari_gpubio.tracts.io.tractograms.PART_POINTS", 8)
    write_tractogram(tmp_path / f"b{suffix}", whole)
    assert_same_fibers(read_tractogram(tmp_path / f"b{suffix}"), whole)


def test_writer_refuses_what_does_not_belong(tmp_path):
    made = make()
    writer = TractogramWriter(tmp_path / "a.trx", made.affine, made.shape)
    with pytest.raises(InvalidInput, match="not open"):
        writer.append(made)
    with writer:
        writer.append(made)
        with pytest.raises(InvalidInput, match="another volume"):
            writer.append(make(affine=np.eye(4)))
        with pytest.raises(InvalidInput, match="fa of a point"):
            writer.append(make(columns=False))
    assert len(read_tractogram(tmp_path / "a.trx")) == 4
    with pytest.raises(InvalidInput, match="not open"):
        writer.append(made)
    for path, shape in (("a.vtk", SHAPE), ("a.txt", SHAPE), ("a.trk.gz", SHAPE), ("no/a.trk", SHAPE)):
        with pytest.raises(InvalidInput), TractogramWriter(tmp_path / path, made.affine, shape):
            pass
    for path, shape in (("b.trk", (40000, 1, 1)), ("b.trx", (70000, 1, 1))):
        with pytest.raises(InvalidInput, match="cannot hold a volume"):
            TractogramWriter(tmp_path / path, made.affine, shape).__enter__()
    assert [p.name for p in tmp_path.iterdir()] == ["a.trx"]


@pytest.mark.parametrize("suffix", [".trk", ".tck", ".trx"])
def test_an_interrupted_stream_leaves_the_old_file(tmp_path, suffix):
    def interrupted(made):
        with TractogramWriter(tmp_path / f"a{suffix}", made.affine, made.shape) as writer:
            writer.append(made)
            raise KeyboardInterrupt

    (tmp_path / f"a{suffix}").write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt):
        interrupted(make())
    assert (tmp_path / f"a{suffix}").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("suffix", WRITTEN)
def test_a_failure_leaves_the_old_file(tmp_path, suffix, monkeypatch):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"old")
    bad = make(columns=False)
    bad.points[3] = np.nan
    with pytest.raises(InvalidInput, match="1 points are not finite"):
        write_tractogram(path, bad)

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr("napari_gpubio.tracts.io.vtk_writer._cells", fail)
    for kind in ("trk.TrkSink", "tck.TckSink", "trx_sink.TrxSink"):
        monkeypatch.setattr(f"napari_gpubio.tracts.io.{kind}.finish", fail)
    with pytest.raises(InvalidInput, match=r"could not be written \(disk full\)"):
        write_tractogram(path, make())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["colby.trk", "stroke.trk.gz", "tract.IFOF_R.trk", "tract.SLF1_R.tck"])
@pytest.mark.filterwarnings("ignore::nibabel.streamlines.tractogram_file.HeaderWarning")
def test_real_files_as_nibabel_reads_them(real, name):
    read, theirs = read_tractogram(real / name), nib.streamlines.load(real / name)
    assert read.counts.tolist() == [len(s) for s in theirs.streamlines]
    np.testing.assert_allclose(read.points, theirs.streamlines.get_data(), rtol=0, atol=1e-4)
    for (ours, values), (name_there, column) in zip(
        sorted(read.per_point.items()), sorted(theirs.tractogram.data_per_point.items()), strict=True
    ):
        assert ours == name_there.strip()
        np.testing.assert_array_equal(values, column.get_data()[:, 0])
    if name == "colby.trk":
        assert list(read.per_point) == ["effect", "pval", "pval_corr"]
    if name == "stroke.trk.gz":
        assert len(read) == 36763


def test_real_vtk_and_trx(real, caplog):
    read = read_tractogram(real / "tract.FAT_R.vtk")
    assert read.counts.tolist() == [12] * 5
    # header.json counts 459 fibers, but the offsets have no closing one and there are 460 numbers of fibers
    read = read_tractogram(real / "dpsv.trx")
    assert "counts 459 fibers and the arrays 460" in caplog.text
    assert len(read) == len(read.per_fiber["DataSetID"]) == 460
    assert len(read.per_point["z"]) == len(read.points) == 95865
    steps = np.linalg.norm(np.diff(read.points, axis=0), axis=1)
    inside = np.ones(len(steps), bool)
    inside[read.offsets[1:-1] - 1] = False
    assert steps[inside].max() < 1.1 < 50 < steps[~inside].min()


def test_napari_reader(tmp_path):
    from napari.layers import Layer

    made = make(affine=AFFINES["oblique"])
    write_tractogram(tmp_path / "a.b.trx", made)
    assert for_napari.get_tractogram_reader(str(tmp_path / "a.txt")) is None
    assert for_napari.get_tractogram_reader([]) is None
    reader = for_napari.get_tractogram_reader([str(tmp_path / "a.b.trx")])
    ((data, keywords, kind),) = reader([str(tmp_path / "a.b.trx")])
    layer = Layer.create(data, keywords, kind)
    assert layer.name == "a.b"
    assert_same_fibers(layer.metadata["napari_gpubio"]["tractogram"], made)
    np.testing.assert_array_equal(layer.data[:, 0], made.fiber_of_point())
    centre = layer.data_to_world(np.append(0, apply_affine(made.affine, [20, 25, 15])[::-1]))
    np.testing.assert_allclose(centre[1:], apply_affine(made.affine, [20, 25, 15])[::-1], atol=2.0)
    assert len(np.unique(for_napari.tracks_data(make((2,) * 50), 10)[:, 0])) == 10
    write_tractogram(tmp_path / "none.trk", make(()))
    with pytest.raises(InvalidInput, match="holds no fibers"):
        for_napari.read_layers(tmp_path / "none.trk")


@pytest.mark.parametrize("d", [3, 4])
def test_napari_writer(tmp_path, d, caplog):
    from napari.layers import Tracks

    caplog.set_level(logging.INFO)
    rng = np.random.default_rng(0)
    data = np.column_stack([[4, 2, 2, 4, 2, 9], [1, 2, 1, 0, 0, 0], rng.uniform(0, 9, (6, d - 1))])
    affine = np.eye(d + 1)
    affine[-3:-1, -3:] = [[0.5, 2, -3], [2, 0.1, 7]]
    turn = np.eye(d)
    turn[-2:, -2:] = [[0.8, -0.6], [0.6, 0.8]]
    shear = np.arange(d * (d - 1) // 2) / 10
    layer = Tracks(data, affine=affine, scale=range(1, d + 1), translate=range(d), rotate=turn, shear=shear)
    world = np.array([layer.data_to_world(row) for row in layer.data[:, 1:]])
    assert for_napari.write_tracks(str(tmp_path / "a.trk"), *layer.as_layer_data_tuple()[:2]) == [
        str(tmp_path / "a.trk")
    ]
    read = read_tractogram(tmp_path / "a.trk")
    assert read.counts.tolist() == [3, 2, 1]
    np.testing.assert_allclose(read.points[:, : d - 1], world[:, :0:-1], atol=1e-4)
    if d == 3:
        assert not read.points[:, 2].any()
    made = make()
    for_napari.write_tracks(
        str(tmp_path / "b.trx"), data, {"metadata": {"napari_gpubio": {"tractogram": made}}, "affine": affine}
    )
    assert_same_fibers(read_tractogram(tmp_path / "b.trx"), made)
    with pytest.raises(InvalidInput, match="tracks have shape"):
        for_napari.write_tracks(str(tmp_path / "c.trx"), np.zeros((3, 2)), {})
