"""Tractograms written piece by piece, and what is left when writing fails."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tracts.io import TractogramWriter, read_tractogram, write_tractogram
from tests.tracts.tractogram_samples import SHAPE, WRITTEN, assert_same_columns, assert_same_fibers, make


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

    monkeypatch.setattr("napari_gpubio.tracts.io.vtk._cells", fail)
    for kind in ("trk.TrkWriter", "tck.TckWriter", "trx.TrxWriter"):
        monkeypatch.setattr(f"napari_gpubio.tracts.io.{kind}.finish", fail)
    with pytest.raises(InvalidInput, match=r"could not be written \(disk full\)"):
        write_tractogram(path, make())
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
