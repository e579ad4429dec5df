"""Tractograms through files of every format: what comes back, references, streaming, and what a failure leaves."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import apply_affine
from napari_gpubio.tractograms.io import TractogramWriter, read_tractogram, write_tractogram
from tests.sentences import says
from tests.tractograms.tractogram_samples import (
    AFFINES,
    FAR,
    SHAPE,
    WRITTEN,
    assert_same_columns,
    assert_same_fibers,
    make,
)


def through_a_file(path, made, **options):
    """A tractogram written to a file and read again."""
    write_tractogram(path, made)
    return read_tractogram(path, **options)


@pytest.mark.parametrize("affine", [*AFFINES.values(), FAR], ids=[*AFFINES, "far"])
@pytest.mark.parametrize("suffix", WRITTEN)
def test_round_trip(tmp_path, suffix, affine):
    made = make(affine=affine)
    read = through_a_file(tmp_path / f"a{suffix}", made)
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
    read = through_a_file(tmp_path / f"a{suffix}", make(counts))
    assert_same_fibers(read, make(counts))
    assert len(read) == len(counts)


@pytest.mark.parametrize("suffix", WRITTEN)
def test_fibers_without_points_are_left_out_with_their_numbers(tmp_path, suffix, caplog):
    read = through_a_file(tmp_path / f"a{suffix}", make((0, 3, 0, 2, 0)))
    assert read.counts.tolist() == [3, 2]
    assert "3 fibers without points" in caplog.text
    if suffix != ".tck":
        assert read.per_fiber["seed"].tolist() == [1, 3]


@pytest.mark.parametrize("suffix", [".tck", ".trx"])
@pytest.mark.parametrize("complete", [True, False])
def test_parameters(tmp_path, suffix, complete):
    given = {"text": "a: b # 50%\nc", "inf": np.inf, "number": np.float32(0.5), "list": [1, {"path": Path("x")}]}
    made = make(columns=False, parameters=given, complete=complete)
    read = through_a_file(tmp_path / f"a{suffix}", made)
    assert read.parameters == given | {"list": [1, {"path": "x"}]}
    assert read.complete is complete
    with pytest.raises(InvalidInput, match="the parameters cannot be written as JSON"):
        write_tractogram(tmp_path / f"b{suffix}", make(parameters={"x": object()}))


def test_reference(tmp_path):
    made, other = make(columns=False), np.diag([2.0, 2, 2, 1])
    nib.save(nib.Nifti1Image(np.zeros((9, 8, 7), np.uint8), other), tmp_path / "b0.nii")
    for suffix in (".tck", ".vtk"):
        read = through_a_file(tmp_path / f"a{suffix}", made, reference=tmp_path / "b0.nii")
        assert read.shape == (9, 8, 7)
        np.testing.assert_array_equal(read.affine, other)
        assert read_tractogram(tmp_path / f"a{suffix}", reference=(other, (3, 4, 5))).shape == (3, 4, 5)
    read = through_a_file(tmp_path / "a.trk", made, reference=(other, (3, 4, 5)))
    assert read.shape == SHAPE
    assert says(" ".join(read.notes), "a.trk", "reference", "another grid")
    for wrong in ((other, (0, 1, 1)), (np.zeros((4, 4)), (1, 1, 1)), tmp_path / "a.trk"):
        with pytest.raises(InvalidInput):
            read_tractogram(tmp_path / "a.tck", reference=wrong)


@pytest.fixture
def real(shared_data: Path) -> Path:
    return shared_data / "tractograms"


@pytest.mark.daily
@pytest.mark.parametrize("name", ["colby.trk", "stroke.trk.gz", "tract.IFOF_R.trk", "tract.SLF1_R.tck"])
@pytest.mark.filterwarnings("ignore::nibabel.streamlines.tractogram_file.HeaderWarning")
def test_real_files_as_nibabel_reads_them(real, name):
    read, theirs = read_tractogram(real / name), nib.streamlines.load(real / name)
    assert read.counts.tolist() == [len(s) for s in theirs.streamlines]
    scale = theirs.header["voxel_sizes"] if name == "colby.trk" else 1  # it has no matrix: nibabel's points are voxels
    np.testing.assert_allclose(read.points, theirs.streamlines.get_data() * scale, rtol=0, atol=1e-4)
    assert bool(read.notes) == (name == "colby.trk")
    for (ours, values), (name_there, column) in zip(
        sorted(read.per_point.items()), sorted(theirs.tractogram.data_per_point.items()), strict=True
    ):
        assert ours == name_there.strip()
        np.testing.assert_array_equal(values, column.get_data()[:, 0])
    if name == "colby.trk":
        assert list(read.per_point) == ["effect", "pval", "pval_corr"]
    if name == "stroke.trk.gz":
        assert len(read) == 36763


def test_real_vtk_and_trx(real):
    read = read_tractogram(real / "tract.FAT_R.vtk")
    assert read.counts.tolist() == [12] * 5
    # header.json counts 459 fibers, but the offsets have no closing one and there are 460 numbers of fibers
    read = read_tractogram(real / "dpsv.trx")
    assert says(" ".join(read.notes), "459 fibers", "460")
    assert len(read) == len(read.per_fiber["DataSetID"]) == 460
    assert len(read.per_point["z"]) == len(read.points) == 95865
    steps = np.linalg.norm(np.diff(read.points, axis=0), axis=1)
    inside = np.ones(len(steps), bool)
    inside[read.offsets[1:-1] - 1] = False
    assert steps[inside].max() < 1.1 < 50 < steps[~inside].min()


@pytest.mark.parametrize("suffix", [".trk", ".tck", ".trx"])
def test_streaming_gives_the_same_fibers(tmp_path, suffix, monkeypatch):
    whole, path = make((5, 1, 12, 3, 7, 7)), tmp_path / f"a{suffix}"
    whole.per_fiber["group/ends"] = np.isin(np.arange(6), [0, 5])
    with TractogramWriter(path, whole.affine, whole.shape, {"x": 1}) as writer:
        for part in ([0], [], [1, 2, 3], [4, 5]):
            writer.append(whole.select(np.array(part, int)))
        assert not path.exists()
    assert writer.fibers == 6
    read = read_tractogram(path)
    assert_same_fibers(read, whole)
    if suffix != ".tck":
        assert_same_columns(read, whole)
    monkeypatch.setattr("napari_gpubio.tractograms.io.tractograms.PART_POINTS", 8)
    assert_same_fibers(through_a_file(tmp_path / f"b{suffix}", whole), whole)


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


@pytest.mark.parametrize("suffix", WRITTEN)
def test_a_failure_leaves_the_old_file(tmp_path, suffix, monkeypatch):
    path, bad = tmp_path / f"a{suffix}", make(columns=False)
    path.write_bytes(b"old")
    bad.points[3] = np.nan
    with pytest.raises(InvalidInput, match="1 points are not finite"):
        write_tractogram(path, bad)

    def interrupted():
        with TractogramWriter(path, bad.affine, bad.shape) as writer:
            writer.append(make())
            raise KeyboardInterrupt

    def fail(*_):
        raise OSError("disk full")

    if suffix != ".vtk":  # which is not streamed
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    monkeypatch.setattr("napari_gpubio.core.files.os.replace", fail)
    with pytest.raises(InvalidInput, match=r"could not be written \(disk full\)"):
        write_tractogram(path, make())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
