"""Folders of CT, doses, plans and structures."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pydicom
import pytest
from pydicom.dataset import Dataset

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.reading import NOTES
from napari_gpubio.dose.io import read_rtplan
from napari_gpubio.dose.reader import get_reader, read_layers
from tests.conformance import Did, Rows
from tests.dose.dicom_files import edited, save_ct, save_dose, save_plan, save_structures
from tests.dose.samples import at, circle, square

ROWS = Rows("Study folders")
STORED = np.arange(5 * 6 * 7, dtype=np.int16).reshape(5, 6, 7) * 10
PIXELS = np.full((5, 10, 12), 5000, np.uint16)
ORGAN = [("CLOSED_PLANAR", at(circle(6.0, 64, (21, -9)), z)) for z in (32.0, 35.0, 38.0)]
TARGET = {"DoseReferenceType": "TARGET", "DoseReferenceStructureType": "SITE", "TargetPrescriptionDose": "50"}


def study(folder: Path, each=lambda n: {}, change=lambda dataset: None, **dose) -> list:
    """Layers of a folder of CT, dose and structures; the notes of each are checked by its metadata."""
    save_ct(folder, STORED, each=each)
    edited(save_dose(folder / "dose.dcm", PIXELS, spacing=(2.0, 2.0, 3.0), **dose), change)
    save_structures(folder / "structures.dcm", [("PTV", ORGAN)])
    return read_layers(str(folder))


def kinds(layers) -> list[str]:
    return [kind for *_, kind in layers]


def notes_of(layers, kind: str) -> str:
    found = [keywords["metadata"][KEY].get(NOTES, ()) for _, keywords, own in layers if own == kind]
    return "\n".join(note for notes in found for note in notes)


FULL = ["image", "image", "shapes", "labels"]


def check_voxels(labels) -> None:
    """The labels of the organ have its volume (3 slices of 3 mm), as well as voxels can."""
    data, keywords, _ = labels
    assert np.count_nonzero(data) * 2.0 * 1.5 * 3.0 == pytest.approx(np.pi * 36 * 9, rel=0.1), keywords["name"]


@ROWS.row("File > Open", "a folder of CT, dose and structures between its slices", Did.READ)
def _(folder):
    save_ct(folder, np.zeros((5, 16, 12), np.int16))
    save_dose(folder / "dose.dcm", PIXELS, spacing=(2.0, 2.0, 3.0))
    save_structures(folder / "structures.dcm", [("PTV", ORGAN)])
    layers = read_layers(str(folder))
    assert kinds(layers) == FULL
    check_voxels(layers[-1])
    return layers


@ROWS.row("File > Open", "a folder with folders of CT, dose and structures", Did.READ)
def _(folder):
    for name in ("CT", "RS", "RD/1"):
        (folder / name).mkdir(parents=True)
    save_ct(folder / "CT", np.zeros((5, 16, 12), np.int16))
    save_dose(folder / "RD" / "1" / "dose.dcm", PIXELS, spacing=(2.0, 2.0, 3.0))
    save_structures(folder / "RS" / "structures.dcm", [("PTV", ORGAN)])
    assert get_reader(str(folder)) is read_layers
    layers = read_layers(str(folder))
    assert kinds(layers) == FULL
    check_voxels(layers[-1])
    return noted_layers(layers, 0)


@ROWS.row("File > Open", "a folder with a link to a folder of a dose, and one to itself", Did.READ)
def _(folder):
    (folder / "RD").mkdir()
    save_dose(folder / "RD" / "dose", PIXELS)
    (folder / "links").mkdir()
    (folder / "links" / "all").symlink_to(folder, target_is_directory=True)
    assert get_reader(str(folder / "links")) is read_layers
    layers = read_layers(str(folder / "links"))
    assert kinds(layers) == ["image"]
    return noted_layers(layers, 0)


def _bare(folder, name):
    """Leave only the dataset of a file, without preamble and file meta information, under a name without suffix."""
    dataset = pydicom.dcmread(folder / name)
    bare = Dataset()
    bare.update({element.tag: element for element in dataset})
    pydicom.dcmwrite(folder / Path(name).stem, bare, implicit_vr=True, little_endian=True, enforce_file_format=False)
    (folder / name).unlink()


@ROWS.row("File > Open", "files without file meta information and suffix, and macOS' companions", Did.ASSUMED,
          "5 files: it has no transfer syntax")  # fmt: skip
def _(folder):
    save_ct(folder, np.zeros((5, 16, 12), np.int16))
    save_dose(folder / "dose.dcm", PIXELS, spacing=(2.0, 2.0, 3.0))
    save_structures(folder / "structures.dcm", [("PTV", ORGAN)])
    for path in sorted(folder.glob("*.dcm")):
        _bare(folder, path.name)
    (folder / "._dose.dcm").write_bytes(b"\0\5\x16\7" + bytes(60))
    layers = read_layers(str(folder))
    assert kinds(layers) == FULL
    check_voxels(layers[-1])
    return SimpleNamespace(notes=[notes_of(layers, "image")])


@ROWS.row("File > Open", "folders deeper than three levels", Did.REFUSED, "no CT, RTDOSE or RTSTRUCT")
def _(folder):
    (folder / "1" / "2" / "3" / "4").mkdir(parents=True)
    save_dose(folder / "1" / "2" / "3" / "4" / "dose.dcm", PIXELS)
    assert get_reader(str(folder)) is None
    return read_layers(str(folder))


@ROWS.row("File > Open", "a folder whose CT has slices of 3 and 6 mm", Did.ASSUMED, "3 to 6 mm apart")
def _(folder):
    layers = study(folder, each=lambda n: {"remove": n == 2})
    assert kinds(layers) == FULL
    assert "3 to 6 mm apart" in notes_of(layers, "labels")  # where they are used, too
    return layers


@ROWS.row("File > Open", "a folder with two CT series", Did.ASSUMED, "2 CT series", "hidden")
def _(folder):
    layers = study(folder, each=lambda n: {"SeriesInstanceUID": f"1.2.{n % 2}"})
    assert kinds(layers) == ["image", *FULL]
    assert [keywords["visible"] for _, keywords, _ in layers[:2]] == [True, False]
    assert [layer[0].shape[0] for layer in layers[:2]] == [3, 2]
    return layers


@ROWS.row("File > Open", "a folder whose CT cannot be read", Did.LEFT_OUT, "ImagePositionPatient", "left out")
def _(folder):
    layers = study(folder, each=lambda n: {"ImagePositionPatient": None})
    assert kinds(layers) == FULL[1:]
    assert "left out" in notes_of(layers, "image")
    return noted_layers(layers, 1)


@ROWS.row("File > Open", "a folder with a slice that was cut off", Did.LEFT_OUT, "left out: 1", "slice0.dcm")
def _(folder):
    files = save_ct(folder, STORED)
    files[0].write_bytes(files[0].read_bytes()[:250])
    save_dose(folder / "dose.dcm", PIXELS)
    layers = read_layers(str(folder))
    assert layers[0][0].shape[0] == 4
    return noted_layers(layers, 1)


@ROWS.row("File > Open", "a folder with a damaged dose", Did.LEFT_OUT, "dose.dcm", "left out")
def _(folder):
    layers = study(folder, change=lambda dataset: dataset.__delattr__("DoseGridScaling"))
    assert kinds(layers) == ["image", "shapes", "labels"]
    return noted_layers(layers, 1)


@ROWS.row("File > Open", "a folder with one of two doses damaged", Did.LEFT_OUT, "dose 2.dcm", "left out")
def _(folder):
    save_dose(folder / "dose 1.dcm", PIXELS)
    save_dose(folder / "dose 2.dcm", PIXELS, DoseGridScaling=None)
    layers = read_layers(str(folder))
    assert [keywords["name"] for _, keywords, _ in layers] == ["dose 1.dcm"]
    return noted_layers(layers, 0)


@ROWS.row("File > Open", "a folder with damaged structures", Did.LEFT_OUT, "structures.dcm", "left out")
def _(folder):
    save_dose(folder / "dose.dcm", PIXELS)
    edited(save_structures(folder / "structures.dcm", [("PTV", ORGAN)]), lambda d: d.__delattr__("ROIContourSequence"))
    layers = read_layers(str(folder))
    assert kinds(layers) == ["image"]
    return noted_layers(layers, 0)


@ROWS.row(
    "File > Open", "a dose in another frame of reference than the CT", Did.ASSUMED, "different frames", "register"
)
def _(folder):
    layers = study(folder, FrameOfReferenceUID="9.8")
    assert kinds(layers) == FULL
    return noted_layers(layers, 0)


@ROWS.row(
    "File > Open", "structures in another frame of reference", Did.LEFT_OUT, "1 structures", "'PTV'", "contours only"
)
def _(folder):
    save_dose(folder / "dose 1.dcm", PIXELS, FrameOfReferenceUID="9.8")
    save_structures(folder / "structures.dcm", [("PTV", ORGAN)])
    layers = read_layers(str(folder))
    assert kinds(layers) == ["image", "shapes"]
    return noted_layers(layers, 1)


@ROWS.row("File > Open", "relative doses", Did.ASSUMED, "RELATIVE", "unit")
def _(folder):
    ((data, keywords, _),) = read_layers(str(save_dose(folder / "dose.dcm", PIXELS, DoseUnits="RELATIVE")))
    np.testing.assert_allclose(data, PIXELS * 0.01)
    assert keywords["metadata"][KEY]["quantity"].unit == ""  # so that the panel asks for it
    return noted_layers([(data, keywords, "image")], 0)


def planned(folder: Path, **dose):
    """The prescription that the layer of a dose carries beside the plan that it refers to, and its notes."""
    save_plan(folder / "plan.dcm", [TARGET], [(25, [2.0])])
    save_dose(folder / "dose.dcm", PIXELS, **dose)
    (layer,) = read_layers(str(folder))
    return layer[1]["metadata"][KEY].get("prescription"), noted_layers([layer], 0)


@ROWS.row("File > Open", "a dose that names no plan, and one plan", Did.ASSUMED, "does not say which plan")
def _(folder):
    prescription, notes = planned(folder)
    assert prescription == 50.0
    return notes


@ROWS.row("File > Open", "the dose of a beam, and the plan", Did.ASSUMED, "not the dose of a plan", "50 Gy")
def _(folder):
    prescription, notes = planned(folder, DoseSummationType="BEAM")
    assert prescription is None
    return notes


@ROWS.row("File > Open", "errors of a dose, and the plan", Did.ASSUMED, "ERROR", "no prescription")
def _(folder):
    prescription, notes = planned(folder, DoseType="ERROR")
    assert prescription is None
    return notes


def references(uid, *beams):
    """A change that makes a dose refer to a plan, and beams of it."""

    def change(dataset):
        plan, group, items = Dataset(), Dataset(), [Dataset() for _ in beams]
        for item, beam in zip(items, beams, strict=True):
            item.ReferencedBeamNumber = beam
        plan.ReferencedSOPInstanceUID, group.ReferencedBeamSequence = uid, items
        plan.ReferencedFractionGroupSequence = [group] if beams else []
        dataset.ReferencedRTPlanSequence = [plan]

    return change


@ROWS.row("File > Open", "a dose of another plan than the one beside it", Did.ASSUMED, "plan that is not here")
def _(folder):
    save_plan(folder / "plan.dcm", [TARGET], [(25, [2.0])])
    edited(save_dose(folder / "dose.dcm", PIXELS), references("1.2.3"))
    (layer,) = read_layers(str(folder))
    assert "prescription" not in layer[1]["metadata"][KEY]
    return noted_layers([layer], 0)


@ROWS.row("File > Open", "doses of two plans, and both plans", Did.READ)
def _(folder):
    for n, dose in ((1, "50"), (2, "60")):
        path = save_plan(folder / f"plan {n}.dcm", [{**TARGET, "TargetPrescriptionDose": dose}], [(25, [2.0])])
        edited(save_dose(folder / f"dose {n}.dcm", PIXELS), references(read_rtplan(path).uid))
    layers = read_layers(str(folder))
    assert [keywords["metadata"][KEY]["prescription"] for _, keywords, _ in layers] == [50.0, 60.0]
    return layers


def beams(folder: Path, numbers, planned_beams=()):
    def change(dataset):
        dataset.BeamSequence = []
        for number in planned_beams:
            beam = Dataset()
            beam.BeamNumber = number
            dataset.BeamSequence.append(beam)

    path = edited(save_plan(folder / "plan.dcm", [TARGET], [(25, [2.0])]), change)
    for n, number in enumerate(numbers):
        edited(
            save_dose(folder / f"beam {n}.dcm", PIXELS, DoseSummationType="BEAM"),
            references(read_rtplan(path).uid, number),
        )
    layers = read_layers(str(folder))
    assert not any("prescription" in keywords["metadata"][KEY] for _, keywords, _ in layers)
    return noted_layers(layers, 0)


@ROWS.row("File > Open", "a dose for each beam of a plan", Did.ASSUMED, "all beams of the plan", "none of them")
def _(folder):
    return beams(folder, (1, 2, 3), (1, 2, 3))


@ROWS.row("File > Open", "doses of some beams of a plan", Did.ASSUMED, "2 of the 3 beams", "none of them")
def _(folder):
    return beams(folder, (1, 2), (1, 2, 3))


@ROWS.row("File > Open", "a dose of a beam twice", Did.ASSUMED, "beam 1", "twice", "none of them")
def _(folder):
    return beams(folder, (1, 1, 2), (1, 2, 3))


@ROWS.row("File > Open", "doses of beams, whose plan lists none", Did.ASSUMED, "not known", "none of them")
def _(folder):
    return beams(folder, (1, 2))


@ROWS.row("File > Open", "a dose whose planes are files", Did.ASSUMED, "15 other files", "joined")
def _(folder):
    for n in range(16):
        save_dose(folder / f"plane {n:02d}.dcm", PIXELS[:1] // 16 * (n + 1), first=(10.0, -20.0, 30.0 + 2 * n),
                  GridFrameOffsetVector=None)  # fmt: skip
    (layer,) = read_layers(str(folder))
    assert layer[0].shape == (16, 10, 12)
    assert "rtdose" not in layer[1]["metadata"][KEY]  # no file that a copy with histograms could be made of
    np.testing.assert_allclose(layer[0][:, 0, 0], 5000 // 16 * (np.arange(16) + 1) * 0.01)
    return noted_layers([layer], 0)


@ROWS.row("File > Open", "structures in a single plane, and a dose", Did.ASSUMED, "'One'", "3 mm thick")
def _(folder):
    save_dose(folder / "dose.dcm", PIXELS, spacing=(2.0, 2.0, 3.0))
    save_structures(folder / "s.dcm", [("One", [("CLOSED_PLANAR", at(square(4, (21, -9)), 33.0))])])
    layers = read_layers(str(folder))
    assert kinds(layers) == ["image", "shapes", "labels"]
    return noted_layers(layers, 2)


@ROWS.row("File > Open", "structures in a single plane, and a CT of 3 mm", Did.ASSUMED, "'One'", "3 mm thick", "image")
def _(folder):
    save_ct(folder, STORED)
    save_structures(folder / "s.dcm", [("One", [("CLOSED_PLANAR", at(square(4, (15, -16)), 33.0))])])
    layers = read_layers(str(folder))
    assert kinds(layers) == ["image", "shapes", "labels"]
    return noted_layers(layers, 2)


@ROWS.row("File > Open", "a folder with images of other kinds", Did.LEFT_OUT, "1 MR")
def _(folder):
    save_dose(folder / "dose.dcm", PIXELS)
    (slice_,) = save_ct(folder, STORED[:1], each=lambda n: {"Modality": "MR"})
    edited(slice_, lambda dataset: setattr(dataset, "SOPClassUID", "1.2.840.10008.5.1.4.1.1.4"))
    layers = read_layers(str(folder))
    assert kinds(layers) == ["image"]
    return noted_layers(layers, 0)


@ROWS.row("File > Open", "a plan alone", Did.REFUSED, "no CT, RTDOSE or RTSTRUCT")
def _(folder):
    return read_layers(str(save_plan(folder / "plan.dcm", [TARGET], [(25, [2.0])])))


class noted_layers:  # noqa: N801
    """Layers, of which one carries the notes that are checked."""

    def __init__(self, layers, number: int) -> None:
        self.notes = tuple(layers[number][1]["metadata"][KEY].get(NOTES, ()))
