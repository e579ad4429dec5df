"""Tractograms that other programs wrote."""

from pathlib import Path

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.tracts.io import read_tractogram


@pytest.fixture
def real(shared_data: Path) -> Path:
    return shared_data / "tractograms"


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
