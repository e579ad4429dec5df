"""The verbs of the flow: matrices, densities and routes as files, and what they refuse."""

import nibabel as nib
import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion import FodField
from napari_gpubio.diffusion.fods.harmonics import harmonics
from napari_gpubio.diffusion.io import read_fixels, write_fods, write_peaks
from napari_gpubio.fibers.flow import FlowMatrices
from napari_gpubio.tractograms.io import read_tractogram
from tests.fibers.flow.flow_samples import cross, ends_of_cross
from tests.shell import run_verb

WEST_OF_MIDDLE = "box:-14,-8,-20,-12,8,20"
WEST, EAST = "sphere:-26,0,0,5", "sphere:26,0,0,5"


@pytest.fixture
def files(tmp_path):
    """Peaks of a crossing, and an atlas of the ends of its bundles."""
    field = cross(60)
    write_peaks(tmp_path / "peaks.nii.gz", field)
    centers = np.stack(np.indices(field.shape), -1) @ field.affine[:3, :3].T + field.affine[:3, 3]
    labels = np.zeros(field.shape, np.int16)
    for label, region in zip((5, 7, 11, 12), ends_of_cross(60), strict=True):
        labels[region.contains(centers.reshape(-1, 3)).reshape(field.shape)] = label
    write_volume(tmp_path / "atlas.nii.gz", labels, field.affine)
    (tmp_path / "atlas.txt").write_text("5 west\n7 east\n11 south\n12 north\n", encoding="utf-8")
    return tmp_path


def test_the_flow_of_an_atlas_is_written(files, capsys):
    words = "--atlas", str(files / "atlas.nii.gz"), "--between", "5,7", "--device", "cpu"
    outs = (
        "--out",
        str(files / "x.csv"),
        "--density-out",
        str(files / "d.nii.gz"),
        "--matrices-out",
        str(files / "f.npz"),
    )
    assert run_verb("flow", files / "peaks.nii.gz", *words, *outs) == 0
    assert "Flow of 4 regions in steps of 8 mm" in capsys.readouterr().out
    rows = (files / "x.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 5
    values = np.array([row.split(",")[1:] for row in rows[1:]], float)
    assert values[0].argmax() == 1
    assert values[2].argmax() == 3
    density = np.asarray(nib.load(files / "d.nii.gz").dataobj)
    assert density.max() == pytest.approx(1.0)
    np.testing.assert_allclose(FlowMatrices.load(files / "f.npz").matrix(), values, rtol=1e-6)


@pytest.mark.parametrize(
    ("between", "words"), [("5", "two labels"), ("5,6", "has label '6'"), ("5,nowhere", "has label 'nowhere'")]
)
def test_a_pair_that_is_none_is_refused(files, between, words):
    given = "--atlas", str(files / "atlas.nii.gz"), "--between", between, "--device", "cpu"
    with pytest.raises(InvalidInput, match=words):
        run_verb("flow", files / "peaks.nii.gz", *given, "--density-out", files / "d.nii.gz")


def test_gates_walls_and_fods_are_taken(files, capsys):
    words = "--atlas", files / "atlas.nii.gz", "--device", "cpu", "--of", "one_way", "--out", files / "x.csv", "--force"
    for gates in (("--include", "sphere:0,0,0,8"), ("--exclude", WEST_OF_MIDDLE), ("--include", WEST_OF_MIDDLE)):
        assert run_verb("flow", files / "peaks.nii.gz", *gates, *words) == 0
        rows = (files / "x.csv").read_text(encoding="utf-8").splitlines()[1:]
        west_east, south_north = (float(rows[n].split(",")[n + 2]) for n in (0, 2))
        assert (west_east > 0.3) == (gates[0] == "--include")
        assert (south_north > 0.3) == (gates[1] != WEST_OF_MIDDLE or gates[0] == "--exclude")
    fixels = read_fixels(files / "peaks.nii.gz")
    fods = FodField(coefficients=np.zeros((*fixels.shape, 45), np.float32), mask=fixels.mask, affine=fixels.affine)
    directions, amplitudes = fixels.dense()
    values = (harmonics(directions.reshape(-1, 3), 8) * amplitudes.reshape(-1, 1)).reshape(*amplitudes.shape, 45)
    fods.coefficients[...] = np.nan_to_num(values).sum(axis=3)
    write_fods(files / "fods.nii.gz", fods)
    capsys.readouterr()
    assert run_verb("flow", files / "fods.nii.gz", "--exclude", WEST_OF_MIDDLE, *words) == 0
    assert "of which peaks makes the fixel" in capsys.readouterr().err
    row = (files / "x.csv").read_text(encoding="utf-8").splitlines()[1].split(",")
    assert float(row[2]) < 0.01


def test_routes_are_written(files, capsys):
    words = "--source", WEST, "--target", EAST, "--device", "cpu"
    outs = "--out", str(files / "r.trx"), "--table-out", str(files / "r.csv"), "--density-out", str(files / "d.nii.gz")
    assert run_verb("flow-routes", files / "peaks.nii.gz", *words, *outs) == 0
    assert "1 route from" in capsys.readouterr().out
    fibers = read_tractogram(files / "r.trx")
    assert len(fibers) == 1
    assert np.abs(fibers[0][:, 1:]).max() < 0.5
    assert (files / "r.csv").read_text(encoding="utf-8").startswith("route,share,")
