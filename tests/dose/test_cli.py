"""The verb ``dose``."""

import csv
import json

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import write_image
from napari_gpubio.core.napari_io import volume_layer
from napari_gpubio.core.quantity import Quantity
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.dose import dvh, whole_dose
from napari_gpubio.dose.io import read_dvh_sequence, read_rtdose, read_rtstruct
from napari_gpubio.dose.io.nifti import read_dose as read_nifti_dose
from tests.dose.dicom_files import save_dose, save_plan, save_structures
from tests.dose.samples import at, circle
from tests.shell import run_verb

PIXELS = np.arange(10 * 12 * 14, dtype=np.uint16).reshape(10, 12, 14)


@pytest.fixture
def files(tmp_path, monkeypatch):
    save_dose(tmp_path / "dose.dcm", PIXELS, spacing=(2.0, 2.0, 2.0), first=(0.0, 0.0, 0.0), scale=0.02)
    circles = [("CLOSED_PLANAR", at(circle(6.0, 64, (13, 11)), z)) for z in (6.0, 8.0, 10.0)]
    save_structures(tmp_path / "rs.dcm", [("PTV", circles), ("Empty", [])])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments):
    return run_verb("dose", *arguments, "--device", "cpu")


def test_it_does_what_the_api_does(files, capsys):
    """Indices of conformity need the volume that has the prescription, wherever it lies: the whole dose is counted."""
    conformity = "Paddick CI(target=PTV, prescription=10)"
    (files / "list.txt").write_text("PTV: gEUD(a=8)[Gy] > 1\n", encoding="utf-8")
    texts = ("--metric", "D95%[Gy]", "--metric", conformity, "--constraints", "list.txt")
    outputs = ("--curves", "c.csv", "--table", "t.csv", "--json", "all.json", "--dicom", "with.dcm")
    assert run("dose.dcm", "rs.dcm", "--structure", "PTV", *texts, *outputs) == 0
    dose = read_rtdose("dose.dcm")
    expected = dvh(dose, read_rtstruct("rs.dcm").structures, device="cpu")["PTV"]
    covered, everything = expected.volume_at(10), whole_dose(dose, device="cpu").volume_at(10)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:2] == ["structure", "D95%[Gy]"]
    assert float(printed[1].split()[1]) == pytest.approx(expected.dose_at_percent(95), rel=1e-4)
    assert any(line.startswith("pass           PTV: gEUD(a=8)[Gy] > 1") for line in printed)
    with (files / "t.csv").open(newline="", encoding="utf-8") as file:
        row = next(csv.DictReader(file))
    assert float(row["D95%[Gy]"]) == expected.dose_at_percent(95)
    assert float(row[conformity]) == pytest.approx(covered**2 / (expected.volume_cc * everything), rel=1e-9)
    written = json.loads((files / "all.json").read_text(encoding="utf-8"))
    assert written["structures"][0]["doses"] == expected.doses.tolist()
    assert read_dvh_sequence("with.dcm")[0].volume_cc == pytest.approx(expected.volume_cc)
    assert (files / "c.csv").is_file()


def test_constraints_decide_the_exit_status(files, capsys):
    (files / "list.txt").write_text("PTV: Min[Gy] > 1\nEmpty: Max[Gy] < 45\n", encoding="utf-8")
    assert run("dose.dcm", "rs.dcm", "--constraints", "list.txt") == 1
    lines = capsys.readouterr().out.splitlines()[-2:]
    assert lines[0].startswith("pass           PTV: Min[Gy] > 1")
    assert lines[1].startswith("not evaluated  Empty: Max[Gy] < 45  ('Empty' is empty)")
    (files / "list.txt").write_text("PTV: Min[Gy] > 1\n", encoding="utf-8")
    assert run("dose.dcm", "rs.dcm", "--constraints", "list.txt") == 0


def test_volumes_and_labels_from_nifti(files, capsys):
    dose = read_rtdose("dose.dcm")
    write_volume("dose.nii.gz", dose.values.astype(np.float32), dose.affine)
    write_volume("labels.nii.gz", (dose.values > 20).astype(np.uint8), dose.affine)
    metrics = ("--metric", "Min[J/cm2]", "--metric", "Volume[cc]")
    options = ("--unit", "J/cm2", "--label", "1=hot", *metrics, "--sampling", "spacing", "--spacing-mm", "2")
    assert run("dose.nii.gz", "labels.nii.gz", *options) == 0
    name, least, volume = capsys.readouterr().out.splitlines()[1].split()
    assert name == "hot"
    assert float(least) == pytest.approx(20.02, abs=1e-3)
    with pytest.raises(InvalidInput, match=r"dose\.nii\.gz does not state the unit of its dose; give it with unit="):
        run("dose.nii.gz", "labels.nii.gz")
    with pytest.raises(InvalidInput, match="write for instance --label 3=Heart"):
        run("dose.nii.gz", "labels.nii.gz", "--unit", "J/cm2", "--label", "hot")
    assert float(volume) == pytest.approx((dose.values > 20).sum() * 0.008, rel=1e-4)
    write_volume("two.nii.gz", 1 + (dose.values > 20).astype(np.uint8), dose.affine)
    named = ("two.nii.gz", "--unit", "J/cm2", "--label", "1=cold", "--label", "2=hot")
    assert run("dose.nii.gz", *named, "--structure", "cold", "--metric", "D900cc[J/cm2]") == 0
    printed = capsys.readouterr()
    assert [line.split() for line in printed.out.splitlines()[1:]] == [["cold", "-"]]
    assert "not evaluated: 'cold' has" in printed.err
    with pytest.raises(InvalidInput, match="there is no structure 'heart'; there are cold, hot"):
        run("dose.nii.gz", *named, "--structure", "heart")


def test_the_prescription_of_a_plan(files, capsys):
    target = {"DoseReferenceType": "TARGET", "DoseReferenceStructureType": "SITE", "TargetPrescriptionDose": "20"}
    save_plan(files / "plan.dcm", [target], [])
    metrics = ("--metric", "Mean[Gy]", "--metric", "Mean[%]")
    assert run("dose.dcm", "rs.dcm", "--structure", "PTV", *metrics, "--plan", "plan.dcm") == 0
    printed = capsys.readouterr()
    gray, percent = map(float, printed.out.splitlines()[1].split()[1:])
    assert percent == pytest.approx(gray / 20 * 100, rel=1e-4)
    assert "reference dose: 20 Gy (prescribed to 'site')" in printed.err
    save_plan(files / "plan.dcm", [], [])
    with pytest.raises(InvalidInput, match="has no prescription; give it with --reference-dose"):
        run("dose.dcm", "rs.dcm", "--plan", "plan.dcm")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("dose.dcm", "rs.dcm", "--structure", "GTV"), "there is no structure 'GTV'"),
        (("dose.dcm", "rs.dcm", "--constraints", "gone.txt"), r"gone\.txt does not exist"),
        (("dose.nii", "rs.dcm"), r"dose\.nii does not exist"),
        (("dose.dcm", "labels.nii"), r"labels\.nii does not exist"),
        (("dose.dcm", "rs.dcm", "--accuracy-percent", "0"), "accuracy_percent is 0 %; it must be at least"),
    ],
)
def test_bad_input_is_a_sentence(files, arguments, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        run(*arguments)


def test_a_saved_fluence_is_counted_as_what_it_means(tmp_path, capsys):
    """Logarithms in a NIfTI file with what lies beside it, labels with their names."""
    values = np.linspace(-8.0, 0.0, 4 * 5 * 6, dtype=np.float32).reshape(4, 5, 6)
    values[0, 0, 0] = np.nan  # no photon came
    affine = np.diag([1.0, 1.0, 1.0, 1.0])
    data, keywords, _ = volume_layer(values, affine, "f", metadata={"quantity": Quantity("fluence", "1/mm2", "log10")})
    write_image(str(tmp_path / "f.nii.gz"), data, keywords)
    labels = np.ones((4, 5, 6), np.uint8)
    data, keywords, _ = volume_layer(labels, affine, "l", kind="labels", metadata={"structures": {1: "skull"}})
    write_image(str(tmp_path / "l.nii.gz"), data, keywords)
    assert run(str(tmp_path / "f.nii.gz"), str(tmp_path / "l.nii.gz"), "--device", "cpu") == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == [
        "structure",
        "Volume[cc]",
        "Mean[1/mm²]",
        "D95%[1/mm²]",
        "D50%[1/mm²]",
        "D2%[1/mm²]",
        "Zero[%]",
    ]
    linear = np.where(np.isnan(values), 0.0, 10.0**values)
    name, _, mean, *_, zero = row.split()
    assert name == "skull"
    assert float(mean) == pytest.approx(linear.mean(), rel=1e-3)
    assert float(zero) == pytest.approx(100 / 120, rel=1e-3)
    for unit, words in (("Gy", "cannot be given in"), ("foo", "is not a known unit"), ("-3", "is not a known unit")):
        with pytest.raises(InvalidInput, match=words):
            run(str(tmp_path / "f.nii.gz"), str(tmp_path / "l.nii.gz"), f"--unit={unit}")


def test_metrics_in_short_say_their_unit(files, capsys):
    assert run("dose.dcm", "rs.dcm", "--structure", "PTV", "--metric", "D95", "--metric", "max") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["structure", "D95%[Gy]", "Max[Gy]"]
    with pytest.raises(InvalidInput, match="'V20' lacks the unit of its dose"):
        run("dose.dcm", "rs.dcm", "--metric", "V20")


def test_the_thickness_of_a_single_plane_is_an_option(files, capsys):
    save_structures(files / "one.dcm", [("PTV", [("CLOSED_PLANAR", at(circle(6.0, 64, (13, 11)), 8.0))])])
    with pytest.raises(InvalidInput, match="single plane, whose thickness is not known; give thickness_mm"):
        run("dose.dcm", "one.dcm")
    assert run("dose.dcm", "one.dcm", "--thickness-mm", "4", "--metric", "volume") == 0
    assert float(capsys.readouterr().out.split()[-1]) == pytest.approx(np.pi * 36 * 4 / 1000, rel=1e-3)
    write_volume(files / "labels.nii", np.ones((3, 3, 3), np.uint8), np.eye(4))
    with pytest.raises(InvalidInput, match=r"labels\.nii holds labels, which need no --thickness-mm"):
        run("dose.dcm", "labels.nii", "--thickness-mm", "4")


def test_doses_are_added_and_subtracted(files, capsys):
    save_dose(files / "other.dcm", PIXELS[::-1].copy(), spacing=(2.0, 2.0, 2.0), first=(0.0, 0.0, 0.0), scale=0.02)
    means = []
    for more in ((), ("--add", "other.dcm"), ("--subtract", "other.dcm", "--save-dose", "d.nii")):
        assert run("dose.dcm", "rs.dcm", "--structure", "PTV", "--metric", "mean", *more) == 0
        means.append(float(capsys.readouterr().out.splitlines()[1].split()[-1]))
    other = dvh(read_rtdose("other.dcm"), read_rtstruct("rs.dcm")["PTV"], device="cpu").dvhs[0].mean
    assert means[1:] == pytest.approx([means[0] + other, means[0] - other], rel=1e-3)
    saved = read_nifti_dose("d.nii")
    np.testing.assert_allclose(saved.values, read_rtdose("dose.dcm").values - read_rtdose("other.dcm").values)
    assert saved.unit == "Gy"
    with pytest.raises(InvalidInput, match="histograms of them all; leave out --dicom"):
        run("dose.dcm", "rs.dcm", "--add", "other.dcm", "--dicom", "with.dcm")


def test_surfaces_are_written(files):
    assert run("dose.dcm", "rs.dcm", "--structure", "PTV", "--surfaces", "s.csv") == 0
    with (files / "s.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert float(rows[0]["area_cm2"]) == pytest.approx((2 * np.pi * 6 * 6 + 2 * np.pi * 36) / 100, rel=0.03)
