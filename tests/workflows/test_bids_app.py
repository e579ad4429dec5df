"""Analyses of BIDS datasets: each subject for itself, results as derivatives, and what is done already."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio.cli import main
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations.files import output_of_record
from napari_gpubio.core.report import Exit
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.fibers.settings import IFOD2, EuDX
from napari_gpubio.tractograms.io import read_tractogram
from napari_gpubio.verbs import app_of
from napari_gpubio.workflows.bids import analyses, derivatives, open_dataset
from tests.operation_samples import scan
from tests.workflows.bids_samples import BARE, BRAIN, HEAD, PLAN, study

FEW = ("--device", "cpu", "--photons", "1600", "--wavelengths-nm", "760")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The dataset; results go into its derivatives."""
    return study(tmp_path_factory.mktemp("bids") / "study")


def analyze(verb, folder, out, *subjects, more=("--device", "cpu")):
    return main([verb, str(folder), str(out), "participant", "--participant-label", *subjects, *more])


@pytest.fixture(scope="module")
def analyzed(written):
    """Folder of the results, and exit statuses by verb."""
    out = written / "derivatives" / "ours"
    runs = (("tracts", (BRAIN, BARE), ("--device", "cpu")), ("light", (HEAD,), FEW), ("dose", (f"sub-{PLAN}",), ()))
    return out, {verb: analyze(verb, written, out, *subjects, more=more) for verb, subjects, more in runs}


def said(path):
    return json.loads(derivatives.file_beside(path).read_text())


def test_a_subject_that_fails_keeps_no_other_from_being_done(analyzed, written, tmp_path, capsys):
    out, statuses = analyzed
    assert statuses == {"tracts": 1, "light": 0, "dose": 0}
    found = {one.relative_to(out).as_posix() for one in out.rglob("sub-*") if one.is_file() and one.suffix != ".json"}
    assert found == {
        f"sub-{BRAIN}/dwi/sub-{BRAIN}_run-1_model-tensor_param-FA_dwimap.nii.gz",
        f"sub-{BRAIN}/dwi/sub-{BRAIN}_run-1_model-tensor_param-MD_dwimap.nii.gz",
        f"sub-{BRAIN}/dwi/sub-{BRAIN}_run-1_tract-wholebrain_track-eudx_tractogram.trx",
        f"sub-{BRAIN}/dwi/sub-{BRAIN}_run-1_connectome.csv",
        f"sub-{BRAIN}/dwi/sub-{BRAIN}_run-1_connectome.npz",
        f"sub-{HEAD}/nirs/sub-{HEAD}_forward.npz",
        f"sub-{PLAN}/rt/sub-{PLAN}_desc-curves_dvh.csv",
        f"sub-{PLAN}/rt/sub-{PLAN}_desc-metrics_dvh.csv",
    }
    assert analyze("tracts", written, tmp_path / "out", BARE, PLAN) == 1
    assert analyze("dose", written, tmp_path / "out", PLAN, more=("--session-label", "x")) == 1
    printed = capsys.readouterr().out
    assert f"sub-{PLAN} failed: it lacks DICOM files" in printed
    assert f"sub-{BARE} failed: no bval file was found beside sub-{BARE}_run-1_dwi.nii.gz" in printed
    assert f"sub-{PLAN} failed: it lacks a diffusion scan" in printed
    assert "0 of 2 subjects are complete" in printed


def test_every_result_has_its_record_and_sources(analyzed):
    out, _ = analyzed
    for path in (one for one in out.rglob("sub-*") if one.is_file() and one.suffix != ".json"):
        says = said(path)
        assert output_of_record(says[KEY][RECORD]) is not None, path
        assert says["Description"]
        assert says["Sources"]
        assert all(one.startswith(("bids:raw:", "bids::sub-")) for one in says["Sources"])
    (fibers,) = out.rglob("*.trx")
    says = said(fibers)
    assert says["StreamlineCount"] == len(read_tractogram(fibers))
    assert says["StreamlinePropagation"]["Algorithm"] == "eudx"
    assert says["StreamlineSeeding"]["Sources"][0]["Source"].startswith("bids::sub-")
    assert (out / says["StreamlineSeeding"]["Sources"][0]["Source"].removeprefix("bids::")).is_file()
    assert f"bids:raw:sub-{BRAIN}/sub-{BRAIN}_dwi.bvec" in says["Sources"]
    about = json.loads((out / "dataset_description.json").read_text())
    assert about["DatasetLinks"] == {"raw": "../.."}


def test_the_validator_of_bids_accepts_the_results(analyzed):
    """With the drafts' suffixes in .bidsignore nothing is wrong; without, nothing but that it does not know them."""
    out, _ = analyzed
    ignored = (out / ".bidsignore").read_text()
    assert issues(out) == set()
    try:
        (out / ".bidsignore").unlink()
        found = issues(out)
    finally:
        (out / ".bidsignore").write_text(ignored)
    assert {code for code, _ in found} == {"NOT_INCLUDED"}
    suffixes = {Path(place).name.partition(".")[0].rpartition("_")[2] for _, place in found if not place.endswith("/")}
    assert suffixes == {"dwimap", "tractogram", "connectome", "forward", "dvh"}


def issues(folder):
    """Code and place of all errors that the validator finds."""
    program = Path(sys.executable).with_name("bids-validator-deno")
    if not program.exists():
        pytest.skip("bids-validator-deno is not installed")
    done = subprocess.run([program, folder, "--json"], capture_output=True, check=False, timeout=60)
    found = json.loads(done.stdout)["issues"]["issues"]
    return {(one["code"], one.get("location", "")) for one in found if one["severity"] == "error"}


def test_what_is_complete_is_not_made_again_and_what_differs_not_replaced(analyzed, written, capsys):
    out, _ = analyzed
    results = {one: one.stat().st_mtime_ns for one in out.rglob("sub-*") if one.is_file() and one.suffix != ".json"}
    assert analyze("tracts", written, out, BRAIN) == 0
    assert analyze("dose", written, out, PLAN) == 0
    assert {one: one.stat().st_mtime_ns for one in results} == results
    assert "complete, and not made again" in capsys.readouterr().err
    assert analyze("dose", written, out, PLAN, more=("--metrics", "D50")) == 1
    assert "was made in another way" in capsys.readouterr().out
    table = out / f"sub-{PLAN}" / "rt" / f"sub-{PLAN}_desc-metrics_dvh.csv"
    before = table.read_bytes()
    assert analyze("dose", written, out, PLAN, more=("--metrics", "D50", "--force")) == 0
    assert table.read_bytes() != before


def test_without_a_probe_there_is_the_fluence_of_a_source(written, tmp_path, capsys):
    optodes = written / f"sub-{HEAD}" / "nirs" / f"sub-{HEAD}_optodes.tsv"
    held = optodes.read_text()
    optodes.unlink()
    try:
        assert analyze("light", written, tmp_path / "none", HEAD, more=FEW) == 1
        assert "it lacks a probe" in capsys.readouterr().out
        assert analyze("light", written, tmp_path / "out", HEAD, more=(*FEW, "--position-mm", "14", "15", "0")) == 0
    finally:
        optodes.write_text(held)
    (fluence,) = (tmp_path / "out").rglob("*_fluence.nii.gz")
    assert fluence.name == f"sub-{HEAD}_desc-760nm_fluence.nii.gz"
    assert said(fluence)["Sources"][0].startswith("bids:raw:derivatives/seg/")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda out: (out / "x").touch(), "is not empty"),
        (
            lambda out: (out / "dataset_description.json").write_text('{"GeneratedBy": [{"Name": "y"}]}'),
            "another program",
        ),
        (lambda out: (out / "dataset_description.json").write_text('{"GeneratedBy": '), "is not valid JSON"),
    ],
)
def test_a_folder_of_something_else_is_left_alone(written, tmp_path, capsys, make, message):
    make(tmp_path)
    assert analyze("dose", written, tmp_path, PLAN) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("group",), "nothing to do for a group"),
        (("participant", "--participant-label", "9"), "no subject '9'"),
        (("participant", "--device", "cuda:77"), "cuda"),
    ],
)
def test_what_cannot_begin_writes_nothing(written, tmp_path, capsys, words, message):
    assert main(["dose", str(written), str(tmp_path / "out"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main(["dose", str(written), str(written), "participant"]) == 2
    assert "is the dataset itself" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main(["dose", str(written), str(tmp_path / "file"), "participant"]) == 2
    assert "cannot be made" in capsys.readouterr().err


def test_a_run_that_is_stopped_leaves_no_part_of_a_result(written, tmp_path, monkeypatch):
    def stopped(_, outputs, __):
        for _, path in outputs.values():
            path.write_text("half")
        return Exit.STOPPED

    monkeypatch.setattr(derivatives, "run_verb", stopped)
    assert analyze("dose", written, tmp_path / "out", PLAN) == Exit.STOPPED
    assert not [*(tmp_path / "out").rglob("*.csv")]


def test_light_is_of_a_dataset_where_a_level_follows():
    assert app_of(["light", "head.nii.gz", "--media", "x.csv"]) is None
    assert app_of(["light", "study", "out", "participant"]) == "light"
    assert [app_of([verb, "--help"]) for verb in ("tracts", "dose", "track")] == ["tracts", "dose", None]


# -- which fibers -----------------------------------------------------------------------------------------------------


class Refusing:
    """Results of which some cannot be made."""

    options = argparse.Namespace(per_voxel=2)

    def __init__(self, folder, *refused):
        self.folder, self.refused = folder, refused

    def make(self, operation, _):
        if operation.verb in self.refused:
            raise InvalidInput("too few voxels")


def signals(bvals):
    directions = np.random.default_rng(0).normal(size=(len(bvals), 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    directions[np.array(bvals) == 0] = 0
    b = np.array(bvals, float)
    return DiffusionScan(data=np.ones((1, 1, 1, len(b))), bvals=b, directions=directions, affine=np.eye(4))


@pytest.mark.parametrize(
    ("bvals", "refused", "method", "field"),
    [
        ([0] + [1000] * 20, (), EuDX, "tensors"),
        ([0] + [1000] * 30, (), IFOD2, "fod"),
        ([0] + [1000] * 30, ("fod",), EuDX, "tensors"),
        ([0] + [1000] * 30 + [2000] * 30, (), IFOD2, "tissue-fods"),
        ([0] + [1000] * 30 + [2000] * 30, ("tissue-fods",), IFOD2, "fod"),
    ],
)
def test_fibers_are_tracked_in_the_fods_that_a_scan_supports(written, tmp_path, bvals, refused, method, field):
    from napari_gpubio.diffusion.operations import FitTensors

    (file,) = open_dataset(written).files(subject=BRAIN, suffix="dwi", extension=".nii.gz")
    of_scan = {"scan": scan(), "mask": None}
    out = Refusing(tmp_path, *refused)
    tracking = analyses._tracking(out, file, signals(bvals), of_scan, FitTensors(**of_scan))
    assert isinstance(tracking.method, method)
    assert tracking.field.of.verb == field
    assert tracking.seeds.per_voxel == 2


@pytest.mark.parametrize(
    ("names", "message"), [({1: "GM", 2: "Left-Hippocampus"}, "label 2"), ({1: "Scalp", 2: "wm"}, "")]
)
def test_tissues_follow_from_the_names_of_labels(written, tmp_path, names, message):
    (source,) = open_dataset(written).files(subject=HEAD, suffix="dseg")
    path = tmp_path / "sub-01_dseg.nii.gz"
    path.write_bytes(source.path.read_bytes())
    (tmp_path / "dseg.tsv").write_text("index\tname\n" + "".join(f"{label}\t{name}\n" for label, name in names.items()))
    if message:
        with pytest.raises(InvalidInput, match=message):
            analyses._presets(path, "Cassano 2019")
    else:
        assert analyses._presets(path, "Cassano 2019") == (
            (1, "skin (Cassano 2019)"),
            (2, "white matter (Cassano 2019)"),
        )


def test_landmarks_of_the_t1_place_a_probe(written, tmp_path):
    (t1,) = open_dataset(written).files(suffix="T1w")
    path = tmp_path / "sub-01_T1w.nii.gz"
    path.write_bytes(t1.path.read_bytes())
    (tmp_path / "sub-01_optodes.tsv").write_text("name\ttype\tx\ty\tz\nS1\tsource\t0\t0\t0\nD1\tdetector\t1\t0\t0\n")
    marks = {"Nasion": [0, 9, 0], "LPA": [-7, 0, 0], "RPA": [7, 0, 0]}
    system = {"NIRSCoordinateUnits": "mm", "FiducialsCoordinates": marks}
    (tmp_path / "sub-01_coordsystem.json").write_text(json.dumps(system))
    assert analyses._landmarks(tmp_path / "sub-01_optodes.tsv", path) == ()
    (tmp_path / "sub-01_T1w.json").write_text('{"AnatomicalLandmarkCoordinates": {"NAS": [1, 2, 3], "LPA": [0, 0, 0]}}')
    (nasion, x, y, z), _ = analyses._landmarks(tmp_path / "sub-01_optodes.tsv", path)
    from napari_gpubio.core.volumes import read_array

    assert nasion == "Nasion"
    assert np.allclose([x, y, z, 1], read_array(path)[1] @ [1, 2, 3, 1])
