"""Doses of plans: their parts, sums and prescriptions, and files of several plans and patients."""

import io
import shutil
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
from pydicom.dataset import Dataset

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.dose import dvh, sum_of_doses
from napari_gpubio.dose.io import read_rtdose, read_rtdoses, read_rtplan, read_rtstruct
from napari_gpubio.dose.reader import read_layers
from tests.conformance import Did, Rows
from tests.conformance.studies import ORGAN, TARGET, noted_layers, references
from tests.dose.dicom_files import edited, save_dose, save_plan, save_structures
from tests.shell import run_verb

ROWS = Rows("Plans and their doses")
PIXELS = np.full((5, 10, 12), 5000, np.uint16)  # 50 Gy
RAMP = np.arange(8 * 5 * 6, dtype=np.uint16).reshape(8, 5, 6) * 30


def save_planned(folder: Path, beams=(1, 2, 3), targets=(TARGET,), setup=(), sequence="Beam") -> tuple[Path, str]:
    """A plan of 50 Gy with beams, of which some do not treat; its path and UID."""

    def change(dataset):
        items = [Dataset() for _ in beams]
        for number, beam in zip(beams, items, strict=True):
            beam.BeamNumber, beam.TreatmentDeliveryType = number, "SETUP" if number in setup else "TREATMENT"
        setattr(dataset, f"{sequence}Sequence", items)

    path = edited(save_plan(folder / "plan.dcm", list(targets), [(25, [2.0])]), change)
    return path, read_rtplan(path).uid


def marked(path: Path, **attributes) -> Path:
    """A file after attributes of it were set that all files of the tests share."""
    return edited(path, lambda dataset: [setattr(dataset, name, value) for name, value in attributes.items()])


def save_beam(folder: Path, name: str, uid: str, *numbers: int, **changes) -> Path:
    """The dose of beams of a plan, 50 Gy everywhere."""
    changes = {"DoseSummationType": "BEAM", **changes}
    return edited(save_dose(folder / f"{name}.dcm", PIXELS, **changes), references(uid, *numbers))


# -- sums -------------------------------------------------------------------------------------------------------------


def sum_row(trait, did, added, *facts, planned=(1, 2, 3), **more):
    @ROWS.row("Plan.prescription_of", trait, did, *facts)
    def _(folder):
        path, uid = save_planned(folder, planned, **more)
        files = [save_beam(folder, str(n), uid, *numbers) for n, numbers in enumerate(added)]
        total = sum_of_doses([read_rtdose(file) for file in files])
        np.testing.assert_allclose(total.values, 50.0 * len(added))
        assert read_rtplan(path).prescription_of(total) == (50.0, "prescribed to 'site'")
        return total


sum_row("the sum of all beams of the plan", Did.ASSUMED, [(1,), (3,), (2,)], "not of a plan")
sum_row("the sum of all beams, two in one file", Did.ASSUMED, [(1, 3), (2,)], "beams 1, 3")
sum_row("the sum of all beams that treat", Did.ASSUMED, [(1,), (2,)], "beams 2", planned=(1, 2, 7), setup=(7,))
sum_row(
    "the sum of all ion beams of the plan", Did.ASSUMED, [(1,), (2,)], "beams 2", planned=(1, 2), sequence="IonBeam"
)
sum_row("the sum of two of three beams", Did.REFUSED, [(1,), (2,)], "2 of the 3 beams", "50 Gy")
sum_row("a sum with one beam twice", Did.REFUSED, [(1,), (1,), (2,), (3,)], "beam 1", "twice")
sum_row("a sum with a beam that the plan lacks", Did.REFUSED, [(1,), (2,), (3,), (4,)], "beam 4", "none of the plan")
sum_row("a sum of beams, and a plan that lists none", Did.REFUSED, [(1,), (2,)], "not known", planned=())
sum_row("a plan that has a number of a beam twice", Did.REFUSED, [(1,), (2,)], "not known", planned=(1, 2, 2))


@ROWS.row("Plan.prescription_of", "the sum of two plans", Did.REFUSED, "several plans")
def _(folder):
    path, uid = save_planned(folder)
    first, second = (
        read_rtdose(save_beam(folder, str(n), own, DoseSummationType="PLAN")) for n, own in enumerate((uid, "1.2.3"))
    )
    return read_rtplan(path).prescription_of(sum_of_doses([first, second]))


@ROWS.row("Plan.prescription_of", "beams that are weighted", Did.REFUSED, "not known to be the dose of a plan")
def _(folder):
    path, uid = save_planned(folder, (1, 2))
    beams = [read_rtdose(save_beam(folder, str(n), uid, n)) for n in (1, 2)]
    return read_rtplan(path).prescription_of(sum_of_doses(beams, [1.0, 0.5]))


@ROWS.row("sum_of_doses", "doses of two patients", Did.ASSUMED, "different patients", "'0.dcm'", "'1.dcm'")
def _(folder):
    files = [marked(save_dose(folder / f"{n}.dcm", PIXELS), PatientID=f"P{n}") for n in (0, 1)]
    total = sum_of_doses([read_rtdose(file) for file in files])
    np.testing.assert_allclose(total.values, 100.0)
    return total


# -- which plan -------------------------------------------------------------------------------------------------------


def plan_row(trait, did, change, *facts, patient="PHANTOM", gray=50.0):
    @ROWS.row("Plan.prescription_of", trait, did, *facts)
    def _(folder):
        path, uid = save_planned(folder, targets=({**TARGET, "TargetPrescriptionDose": str(gray)},))
        dose = read_rtdose(marked(edited(save_dose(folder / "d.dcm", PIXELS), change(uid)), PatientID=patient))
        assert read_rtplan(path).prescription_of(dose) == (gray, "prescribed to 'site'")
        return dose


plan_row("the dose of the plan", Did.READ, references)
plan_row("the dose of another plan", Did.REFUSED, lambda uid: references("1.2.3"), "another plan", "50 Gy")
plan_row("a dose that names no plan", Did.ASSUMED, lambda uid: len, "does not say which plan", "'PLAN'")
plan_row("a dose of another patient than the plan", Did.ASSUMED, references, "different patients", patient="other")
plan_row("the dose of a plan of a patient without a number", Did.READ, references, patient="")
SIZES = "largest dose of d.dcm is 50 Gy", "of 5000 Gy"
plan_row("a prescription in cGy", Did.ASSUMED, references, *SIZES, "give 50 Gy together", gray=5000.0)


@ROWS.row(
    "Plan.prescription_of", "a plan that prescribes nothing to a target", Did.ASSUMED, "50 Gy", "sum of the beams"
)
def _(folder):
    path, uid = save_planned(folder, targets=())
    dose = read_rtdose(save_beam(folder, "d", uid, DoseSummationType="PLAN"))
    assert read_rtplan(path).prescription_of(dose) == (50.0, "sum of the beams' doses")
    return dose


@ROWS.row("Plan.prescription_of", "a dose that names two plans", Did.REFUSED, "several plans")
def _(folder):
    path, uid = save_planned(folder)

    def change(dataset):
        references(uid)(dataset)
        dataset.ReferencedRTPlanSequence.append(Dataset())
        dataset.ReferencedRTPlanSequence[1].ReferencedSOPInstanceUID = "1.2.3"

    return read_rtplan(path).prescription_of(read_rtdose(edited(save_dose(folder / "d.dcm", PIXELS), change)))


def files_of_shell(folder: Path, uid: str) -> tuple[object, ...]:
    structures = save_structures(folder / "s.dcm", [("PTV", ORGAN)])
    return save_beam(folder, "d", uid, DoseSummationType="PLAN"), "--structures", structures


@ROWS.row("napari-gpubio dvh --plan", "another plan than that of the dose", Did.REFUSED, "another plan", "% are of")
def _(folder):
    path, _ = save_planned(folder)
    return run_verb("dvh", *files_of_shell(folder, "1.2.3"), "--plan", path, "--device", "cpu")


@ROWS.row("napari-gpubio dvh --plan", "the sum of one of two beams with itself", Did.REFUSED, "beam 1", "twice")
def _(folder):
    path, uid = save_planned(folder, (1, 2))
    beam, structures = save_beam(folder, "b", uid, 1), files_of_shell(folder, uid)[1:]
    run_verb("dose-sum", beam, beam, "--record", folder / "sum.json", "--device", "cpu")
    return run_verb("dvh", folder / "sum.json", *structures, "--plan", path, "--device", "cpu")


def printed(*words) -> str:
    """What a run of the shell's verb prints, also where it is refused."""
    with redirect_stdout(io.StringIO()) as out:
        try:
            run_verb("dvh", *words, "--device", "cpu")
        except InvalidInput:
            assert out.getvalue() == ""
            raise
    return out.getvalue()


@ROWS.row("napari-gpubio dvh", "a metric in % of a prescription that is not known", Did.REFUSED, "--reference-dose")
def _(folder):
    return printed(*files_of_shell(folder, "1.2.3"), "--metrics", "V95%[%]")


@ROWS.row("napari-gpubio dvh --reference-dose", "a prescription in cGy", Did.ASSUMED, "50 Gy, 1 % of 5000 Gy")
def _(folder):
    return printed(*files_of_shell(folder, "1.2.3"), "--metrics", "V95%[%]", "--reference-dose", 5000)


@ROWS.row("napari-gpubio dvh", "escape sequences and ends of lines in a name", Did.READ)
def _(folder):
    *words, structures = files_of_shell(folder, "1.2.3")
    edited(structures, lambda dataset: setattr(dataset.StructureSetROISequence[0], "ROIName", "\x1b[2JPTV\r\n1"))
    _, line = printed(*words, structures).splitlines()
    assert line.startswith(r"\x1b[2JPTV  1 ")


TWO = (TARGET, {**TARGET, "DoseReferenceDescription": "nodes", "TargetPrescriptionDose": "40"})


@ROWS.row("napari-gpubio dvh --plan", "doses prescribed to two targets", Did.ASSUMED, "50 Gy", "40 Gy", "'nodes'")
def _(folder):
    path, uid = save_planned(folder, targets=TWO)
    return run_verb("dvh", *files_of_shell(folder, uid), "--plan", path, "--device", "cpu")


@ROWS.row("File > Open", "doses prescribed to two targets", Did.ASSUMED, "50 Gy", "40 Gy", "'nodes'")
def _(folder):
    _, uid = save_planned(folder, targets=TWO)
    save_beam(folder, "d", uid, DoseSummationType="PLAN")
    (layer,) = read_layers(str(folder))
    held = layer[1]["metadata"][KEY]
    assert held["prescription"] == 50.0
    assert dict(held["prescriptions"]) == {50.0: "prescribed to 'site'", 40.0: "prescribed to 'nodes'"}
    return noted_layers([layer], 0)


# -- patients ---------------------------------------------------------------------------------------------------------


@ROWS.row("dvh", "structures of another patient than the dose", Did.ASSUMED, "different patients")
def _(folder):
    dose = read_rtdose(marked(save_dose(folder / "d.dcm", PIXELS, spacing=(2.0, 2.0, 3.0)), PatientID="other"))
    found = dvh(dose, read_rtstruct(save_structures(folder / "s.dcm", [("PTV", ORGAN)]))["PTV"], device="cpu").dvhs[0]
    assert found.mean == pytest.approx(50.0, rel=1e-3)
    return found


def nameless_row(trait, did, *facts, **other):
    @ROWS.row("dvh", trait, did, *facts)
    def _(folder):
        files = (
            save_dose(folder / "d.dcm", PIXELS, spacing=(2.0, 2.0, 3.0)),
            save_structures(folder / "s.dcm", [("PTV", ORGAN)]),
        )
        dose, structures = (
            marked(file, PatientID="", PatientName="A^B", PatientBirthDate="19500101") for file in files
        )
        return dvh(read_rtdose(marked(dose, **other)), read_rtstruct(structures)["PTV"], device="cpu").dvhs[0]


nameless_row("patients without numbers, of one name and date of birth", Did.READ, PatientName="a^b^^")
nameless_row("patients without numbers, of two names", Did.ASSUMED, "(PatientName)", PatientName="C^B", PatientID="1")
nameless_row(
    "patients without numbers, of two dates of birth", Did.ASSUMED, "(PatientBirthDate)", PatientBirthDate="19500102"
)


@ROWS.row("File > Open", "a dose and structures of two patients", Did.ASSUMED, "different patients", "'d.dcm'")
def _(folder):
    marked(save_dose(folder / "d.dcm", PIXELS, spacing=(2.0, 2.0, 3.0)), PatientID="other")
    save_structures(folder / "s.dcm", [("PTV", ORGAN)])
    return noted_layers(read_layers(str(folder)), 0)


# -- files of one plane, copies, and files that were cut off ----------------------------------------------------------


def planes(folder: Path, name: str, scale: int, series: str, shift=0.0) -> list[Path]:
    return [
        marked(save_dose(folder / f"{name}{n}.dcm", scale * RAMP[n : n + 1], first=(10.0, -20.0, 30.0 + 4 * n + shift),
                         GridFrameOffsetVector=None), SeriesInstanceUID=series)
        for n in range(8)
    ]  # fmt: skip


def series_row(trait, did, shift, *facts):
    @ROWS.row("read_rtdoses", trait, did, *facts)
    def _(folder):
        files = [*planes(folder, "a", 1, "1.1"), *planes(folder, "b", 2, "1.2", shift)]
        first, second = (one.dose for one in read_rtdoses(files[::-1]))
        np.testing.assert_allclose(first.values, RAMP.transpose(2, 1, 0) * 0.02)
        np.testing.assert_allclose(second.values, RAMP.transpose(2, 1, 0) * 0.01)
        return first


series_row("planes of two series at the same places", Did.ASSUMED, 0.0, "7 other files", "joined")
series_row("planes of two series between each other", Did.ASSUMED, 2.0, "7 other files", "joined")


@ROWS.row("read_rtdoses", "planes of one series twice at a place", Did.ASSUMED, "15 other files", "not joined")
def _(folder):
    files = [*planes(folder, "a", 1, "1.1"), *planes(folder, "b", 2, "1.1")]
    found = read_rtdoses([marked(file, SliceThickness=4) for file in files])
    assert [one.dose.values.shape for one in found] == 16 * [(6, 5, 1)]
    return found[0].dose


@ROWS.row("read_rtdoses", "a copy of one of the planes", Did.LEFT_OUT, "1 copies", "copy.dcm")
def _(folder):
    files = planes(folder, "a", 1, "1.1")
    (found,) = read_rtdoses([*files, shutil.copy(files[3], folder / "copy.dcm")])
    np.testing.assert_allclose(found.dose.values, RAMP.transpose(2, 1, 0) * 0.01)
    return found.dose


@ROWS.row("read_rtdoses", "a copy of a dose", Did.LEFT_OUT, "1 copies", "copy.dcm")
def _(folder):
    file = save_dose(folder / "d.dcm", RAMP)
    (found,) = read_rtdoses([file, shutil.copy(file, folder / "copy.dcm")])
    return found.dose


@ROWS.row("read_rtdose", "a file that was cut off in its frames", Did.LEFT_OUT, "2 of 8 frames")
def _(folder):
    file = save_dose(folder / "d.dcm", RAMP)
    file.write_bytes(file.read_bytes()[: -RAMP[0].nbytes - 10])
    dose = read_rtdose(file)
    np.testing.assert_allclose(dose.values, RAMP[:6].transpose(2, 1, 0) * 0.01)
    return dose


@ROWS.row("read_rtdose", "no number of frames", Did.ASSUMED, "NumberOfFrames", "8 frames")
def _(folder):
    dose = read_rtdose(save_dose(folder / "d.dcm", RAMP, NumberOfFrames=None))
    np.testing.assert_allclose(dose.values, RAMP.transpose(2, 1, 0) * 0.01)
    return dose


@ROWS.row("read_rtdose", "more frames than it declares", Did.LEFT_OUT, "1 more frames", "8")
def _(folder):
    dose = read_rtdose(save_dose(folder / "d.dcm", RAMP, PixelData=RAMP.tobytes() + RAMP[0].tobytes()))
    np.testing.assert_allclose(dose.values, RAMP.transpose(2, 1, 0) * 0.01)
    return dose


@ROWS.row("read_rtplan", "a beam without BeamDose", Did.ASSUMED, "1 of 2 beams")
def _(folder):
    def change(dataset):
        del dataset.FractionGroupSequence[0].ReferencedBeamSequence[1].BeamDose

    plan = read_rtplan(edited(save_plan(folder / "p.dcm", [], [(10, [1.0, 2.0])]), change))
    assert plan.beams_gy is None
