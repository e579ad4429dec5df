"""The verbs of doses, and what they record."""

import csv
import dataclasses
import json

import numpy as np
import pytest

from napari_gpubio import cli
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import write_image
from napari_gpubio.core.napari_io import volume_layer
from napari_gpubio.core.operations import digest, read_record
from napari_gpubio.core.operations import run as run_operation
from napari_gpubio.core.quantity import Quantity
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.dose import Dose, dvh, dvh_bands, sum_of_doses, surface_histograms, whole_dose
from napari_gpubio.dose.io import read_curves_csv, read_dvh_sequence, read_rtdose, read_rtstruct
from napari_gpubio.dose.io.nifti import read_dose as read_nifti_dose
from napari_gpubio.dose.structures.labels import LabelStructures
from tests.dose.dicom_files import save_dose, save_plan, save_structures
from tests.dose.samples import at, circle
from tests.shell import run_verb

PIXELS = np.arange(10 * 12 * 14, dtype=np.uint16).reshape(10, 12, 14)
CASE = ("dose.dcm", "--structures", "rs.dcm")
PTV = (*CASE, "--only", "PTV")


@pytest.fixture
def files(tmp_path, monkeypatch):
    save_dose(tmp_path / "dose.dcm", PIXELS, spacing=(2.0, 2.0, 2.0), first=(0.0, 0.0, 0.0), scale=0.02)
    circles = [("CLOSED_PLANAR", at(circle(6.0, 64, (13, 11)), z)) for z in (6.0, 8.0, 10.0)]
    save_structures(tmp_path / "rs.dcm", [("PTV", circles), ("Empty", [])])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments, verb="dvh"):
    return run_verb(verb, *arguments, "--device", "cpu")


def test_it_does_what_the_api_does(files, capsys):
    """Indices of conformity need the volume that has the prescription, wherever it lies: the whole dose is counted."""
    conformity = "Paddick CI(target=PTV, prescription=10)"
    (files / "list.txt").write_text("PTV: gEUD(a=8)[Gy] > 1\n", encoding="utf-8")
    texts = ("--metrics", "D95%[Gy]", conformity, "--constraint-file", "list.txt")
    outputs = ("--out", "all.json", "--metrics-out", "t.csv", "--sequence-out", "with.dcm", "--record", "r.json")
    assert run(*PTV, *texts, *outputs) == 0
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
    record = read_record("r.json")
    assert [*written["parameters"]["record"]["operations"]][-1] == record.id
    again = run_operation(record, device="cpu")
    np.testing.assert_array_equal(again.curves["PTV"].doses, expected.doses)


def test_constraints_decide_the_exit_status(files, capsys):
    assert run(*CASE, "--constraints", "PTV: Min[Gy] > 1", "Empty: Max[Gy]<45") == 1
    lines = capsys.readouterr().out.splitlines()[-2:]
    assert lines[0].startswith("pass           PTV: Min[Gy] > 1")
    assert lines[1].startswith("not evaluated  Empty: Max[Gy] < 45  ('Empty' is empty)")
    (files / "list.txt").write_text("PTV: Min[Gy] > 1\n", encoding="utf-8")
    assert run(*CASE, "--constraint-file", "list.txt") == 0
    assert cli.main(["dvh", *CASE, "--constraints", "PTV: Min[Gy] > 100", "--device", "cpu"]) == 1


def test_volumes_and_labels_from_nifti(files, capsys):
    dose = read_rtdose("dose.dcm")
    write_volume("dose.nii.gz", dose.values.astype(np.float32), dose.affine)
    write_volume("labels.nii.gz", (dose.values > 20).astype(np.uint8), dose.affine)
    case = ("dose.nii.gz", "--structures", "labels.nii.gz")
    metrics = ("--metrics", "Min[J/cm2]", "Volume[cc]", "--sampling", "spacing", "--spacing-mm", "2")
    assert run(*case, "--unit", "J/cm2", "--names", "1=hot", *metrics) == 0
    name, least, volume = capsys.readouterr().out.splitlines()[1].split()
    assert name == "hot"
    assert float(least) == pytest.approx(20.02, abs=1e-3)
    with pytest.raises(InvalidInput, match=r"dose\.nii\.gz does not state the unit of its dose; give it with unit="):
        run(*case)
    with pytest.raises(InvalidInput, match="for instance 3=Heart"):
        run(*case, "--unit", "J/cm2", "--names", "hot")
    assert float(volume) == pytest.approx((dose.values > 20).sum() * 0.008, rel=1e-4)
    write_volume("two.nii.gz", 1 + (dose.values > 20).astype(np.uint8), dose.affine)
    named = ("dose.nii.gz", "--structures", "two.nii.gz", "--unit", "J/cm2", "--names", "1=cold", "2=hot")
    assert run(*named, "--only", "cold", "--metrics", "D900cc[J/cm2]") == 0
    printed = capsys.readouterr()
    assert [line.split() for line in printed.out.splitlines()[1:]] == [["cold", "-"]]
    assert "not evaluated: 'cold' has" in printed.err
    with pytest.raises(InvalidInput, match="there is no structure 'heart'; there are cold, hot"):
        run(*named, "--only", "heart")
    with pytest.raises(InvalidInput, match="caps is 'none', which has no effect: the structures are labels"):
        run(*named, "--caps", "none")


def test_the_prescription_of_a_plan(files, capsys):
    target = {"DoseReferenceType": "TARGET", "DoseReferenceStructureType": "SITE", "TargetPrescriptionDose": "20"}
    save_plan(files / "plan.dcm", [target], [])
    metrics = ("--metrics", "Mean[Gy]", "Mean[%]")
    assert run(*PTV, *metrics, "--plan", "plan.dcm") == 0
    printed = capsys.readouterr()
    gray, percent = map(float, printed.out.splitlines()[1].split()[1:])
    assert percent == pytest.approx(gray / 20 * 100, rel=1e-4)
    assert "reference dose: 20 Gy (prescribed to 'site')" in printed.err
    with pytest.raises(InvalidInput, match="given as 20 and by a plan, too"):
        run(*PTV, "--plan", "plan.dcm", "--reference-dose", 20)
    save_plan(files / "plan.dcm", [], [])
    with pytest.raises(InvalidInput, match="has no prescription; give the dose that % are of"):
        run(*CASE, "--plan", "plan.dcm")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((*CASE, "--only", "GTV"), "there is no structure 'GTV'"),
        ((*CASE, "--constraint-file", "gone.txt"), r"gone\.txt does not exist"),
        ((*CASE, "--metrics", "V20"), "'V20' lacks the unit of its dose"),
        ((*CASE, "--constraints", "PTV 5"), "is no constraint"),
        (("dose.nii", "--structures", "rs.dcm"), r"dose\.nii does not exist"),
        (("dose.dcm", "--structures", "labels.nii"), r"labels\.nii does not exist"),
        ((*CASE, "--accuracy-percent", "0"), "accuracy_percent is 0 %; it must be at least"),
        ((*CASE, "--spacing-mm", "1"), "--spacing-mm is an option of spacing, which is not chosen"),
        ((*CASE, "--names", "1=a"), "no file is read so; leave --names out"),
        ((*CASE, "--bands-out", "b.csv"), "no errors of the doses are known"),
        (
            ("dose.dcm", "dose.dcm", "--structures", "rs.dcm", "--sequence-out", "d.dcm"),
            "no sequence with these settings",
        ),
        ((*CASE, "--scale", "2", "--sequence-out", "d.dcm"), "no sequence with these settings"),
        ((*CASE, "--unit", "furlong"), "is not a known unit"),
        ((*CASE, "--unit", "cGy"), "dose.dcm states its doses in Gy, not in cGy"),
    ],
)
def test_bad_input_is_a_sentence(files, arguments, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        run(*arguments)
    assert sorted(path.name for path in files.iterdir()) == ["dose.dcm", "rs.dcm"]


def test_structures_of_one_name_are_told_apart(files, capsys):
    """Each row has its own numbers, and curves get names of their own, of files of one name, too."""
    (files / "other").mkdir()
    small = [("CLOSED_PLANAR", at(circle(3.0, 64, (13, 11)), z)) for z in (6.0, 8.0, 10.0)]
    save_structures(files / "b.dcm", [("Cord", small), ("PTV", small)])
    save_structures(files / "other" / "b.dcm", [("PTV", small[:2])])
    both = ("--structures", "rs.dcm", "b.dcm", "other/b.dcm")
    assert run("dose.dcm", *both, "--only", "PTV (rs)", "--json", "--out", "c.csv") == 0
    assert [one["structure"] for one in json.loads(capsys.readouterr().out)["structures"]] == ["PTV (rs)"]
    assert run("dose.dcm", *both, "--json", "--out", "c.csv", "--force") == 0
    rows = json.loads(capsys.readouterr().out)["structures"]
    volumes = {one["structure"]: one["volume_cc"] for one in rows}
    assert [*volumes] == ["PTV (rs)", "Empty", "Cord", "PTV (b)", "PTV (b, 2)"]
    assert all(one["metrics"][0]["value"] == one["volume_cc"] for one in rows)
    assert volumes["PTV (rs)"] > 3 * volumes["PTV (b)"] == 3 * volumes["Cord"]
    assert [one.name for one in read_curves_csv("c.csv")] == [name for name in volumes if name != "Empty"]
    with pytest.raises(InvalidInput, match="no sequence with these settings"):
        run("dose.dcm", *both, "--sequence-out", "d.dcm")


def test_curves_of_several_doses_say_how_each_was_made(files):
    save_dose(files / "more.dcm", 2 * PIXELS, spacing=(2.0, 2.0, 2.0), first=(0.0, 0.0, 0.0), scale=0.02)
    assert run("dose.dcm", "more.dcm", "--structures", "rs.dcm", "--out", "c.json") == 0
    about = json.loads((files / "c.json").read_text(encoding="utf-8"))["parameters"]
    assert about["unit"] == "Gy"
    assert len(about["doses"]) == 2
    assert "seconds" in about | about["doses"][1]  # of each, where they differ


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
    case = (str(tmp_path / "f.nii.gz"), "--structures", str(tmp_path / "l.nii.gz"))
    assert run(*case) == 0
    head, row = capsys.readouterr().out.splitlines()
    metrics = ["Volume[cc]", "Mean[1/mm²]", "D95%[1/mm²]", "D50%[1/mm²]", "D2%[1/mm²]", "Zero[%]"]
    assert head.split() == ["structure", *metrics]
    linear = np.where(np.isnan(values), 0.0, 10.0**values)
    name, _, mean, *_, zero = row.split()
    assert name == "skull"
    assert float(mean) == pytest.approx(linear.mean(), rel=1e-3)
    assert float(zero) == pytest.approx(100 / 120, rel=1e-3)
    for unit, words in (("Gy", "cannot be given in"), ("foo", "is not a known unit"), ("-3", "is not a known unit")):
        with pytest.raises(InvalidInput, match=words):
            run(*case, f"--unit={unit}")


def test_metrics_in_short_say_their_unit(files, capsys):
    assert run(*PTV, "--metrics", "D95", "max") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split() == ["structure", "D95%[Gy]", "Max[Gy]"]


def test_the_thickness_of_a_single_plane_is_an_option(files, capsys):
    save_structures(files / "one.dcm", [("PTV", [("CLOSED_PLANAR", at(circle(6.0, 64, (13, 11)), 8.0))])])
    case = ("dose.dcm", "--structures", "one.dcm")
    with pytest.raises(InvalidInput, match="single plane, whose thickness is not known; give thickness_mm"):
        run(*case)
    assert run(*case, "--thickness-mm", "4", "--metrics", "volume") == 0
    assert float(capsys.readouterr().out.split()[-1]) == pytest.approx(np.pi * 36 * 4 / 1000, rel=1e-3)
    write_volume(files / "labels.nii", np.ones((3, 3, 3), np.uint8), np.eye(4))
    with pytest.raises(InvalidInput, match="no file is read so; leave --thickness-mm out"):
        run("dose.dcm", "--structures", "labels.nii", "--thickness-mm", "4")


def test_doses_are_added_subtracted_and_compared(files, capsys):
    save_dose(files / "other.dcm", PIXELS[::-1].copy(), spacing=(2.0, 2.0, 2.0), first=(0.0, 0.0, 0.0), scale=0.02)
    assert run("dose.dcm", "other.dcm", "--record", "sum.json", "--out", "sum.nii.gz", verb="dose-sum") == 0
    assert run("dose.dcm", "--minus", "other.dcm", "--out", "d.nii", verb="dose-difference") == 0
    assert run("dose.dcm", "dose.dcm", "--weights", 1, 0.5, "--out", "w.nii", verb="dose-sum") == 0
    assert "dose is added more than once" in capsys.readouterr().err
    first, other = read_rtdose("dose.dcm"), read_rtdose("other.dcm")
    np.testing.assert_allclose(read_nifti_dose("d.nii").values, first.values - other.values)
    np.testing.assert_allclose(read_nifti_dose("w.nii").values, 1.5 * first.values)
    assert read_nifti_dose("d.nii").unit == "Gy"
    ptv = read_rtstruct("rs.dcm")["PTV"]
    means = [dvh(one, ptv, device="cpu").dvhs[0].mean for one in (sum_of_doses([first, other]), first, other)]
    for case in ("sum.json", "sum.nii.gz"):
        assert run(case, *PTV[1:], "--metrics", "mean") == 0
        assert float(capsys.readouterr().out.splitlines()[1].split()[-1]) == pytest.approx(means[0], rel=1e-3)
    assert run("dose.dcm", "other.dcm", *PTV[1:], "--metrics", "mean", "--out", "c.csv") == 0
    rows = [line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines()[1:3]]
    assert [name.strip() for name, _ in rows] == ["PTV", "PTV (dose 2)"]
    assert [float(mean) for _, mean in rows] == pytest.approx(means[1:], rel=1e-3)
    assert [one.name for one in read_curves_csv("c.csv")] == ["PTV", "PTV (dose 2)"]


def test_surfaces_are_written(files):
    areas = []
    for name, more in (("s.csv", ()), ("rough.csv", ("--resolution-mm", 0.5))):
        assert run(*CASE, "--out", name, *more, verb="dose-surface") == 0
        with (files / name).open(newline="", encoding="utf-8") as file:
            areas.append(float(next(csv.DictReader(file))["area_cm2"]))
    assert areas[0] == pytest.approx((2 * np.pi * 6 * 6 + 2 * np.pi * 36) / 100, rel=0.03)
    expected = surface_histograms(read_rtdose("dose.dcm"), read_rtstruct("rs.dcm"))[0]
    assert areas[0] == expected.area_cm2 != areas[1]


def test_bands_of_a_fluence_with_two_halves(tmp_path):
    values = np.random.default_rng(1).random((6, 7, 8)).astype(np.float32)
    halves = np.stack([0.9 * values, 1.1 * values])
    meaning = {"quantity": Quantity("fluence", "1/mm2"), "halves": halves}
    data, keywords, _ = volume_layer(values, np.eye(4), "f", metadata=meaning)
    write_image(str(tmp_path / "f.nii"), data, keywords)
    write_volume(tmp_path / "l.nii", np.ones((6, 7, 8), np.uint8), np.eye(4))
    outputs = ("--bands-out", str(tmp_path / "b.csv"))
    assert run(str(tmp_path / "f.nii"), "--structures", str(tmp_path / "l.nii"), *outputs) == 0
    dose = Dose(values=values, affine=np.eye(4), unit="1/mm2", quantity="fluence")
    labels = LabelStructures(labels=np.ones((6, 7, 8), np.uint8), affine=np.eye(4))
    (expected,) = dvh_bands(dataclasses.replace(dose, halves=tuple(halves)), labels, device="cpu")
    low, high = read_curves_csv(tmp_path / "b.csv")
    assert (low.name, high.name) == ("label 1, low", "label 1, high")
    np.testing.assert_allclose(low.doses, expected.low.doses, rtol=1e-6)
    np.testing.assert_allclose(high.doses, expected.high.doses, rtol=1e-6)


def test_metrics_have_one_spelling_in_a_record(files):
    texts = [("D95[Gy]", "max", "V20Gy"), ("D95%[Gy]", "Max", "V20 Gy[%]")]
    for n, metrics in enumerate(texts):
        run(*CASE, "--metrics", *metrics, "--record", f"{n}.json")
    first, second = (read_record(f"{n}.json") for n in range(2))
    assert first == second
    assert first.metrics == ("D95%[Gy]", "Max", "V20Gy[%]")
    assert digest(run_operation(first.output("metrics"), device="cpu"))


@pytest.mark.parametrize("verb", ["dvh", "dose-sum", "dose-difference", "dose-surface"])
def test_help_fits_on_a_screen(capsys, monkeypatch, verb):
    monkeypatch.setenv("COLUMNS", "80")
    for option, most in (("--help", 40), ("--help-all", 120)):
        with pytest.raises(SystemExit):
            cli.main([verb, option])
        assert len(capsys.readouterr().out.splitlines()) <= most
