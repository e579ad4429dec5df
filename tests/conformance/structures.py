"""Structures of DICOM files: whose contours are whose, and what volume they hold."""

from pathlib import Path

import numpy as np
import pytest
from pydicom.dataset import Dataset

from napari_gpubio.dose import BySpacing, Dose, DvhSettings, LabelStructures, dvh
from napari_gpubio.dose.io import read_rtstruct
from tests.conformance import Did, Rows
from tests.dose.dicom_files import FRAME, edited, save_structures
from tests.dose.samples import affine_of, at, square

ROWS = Rows("Structures of RTSTRUCT files")
CLOSED = "CLOSED_PLANAR"
PLANES = (0, 2, 4, 6, 8, 10)
LARGE = [(CLOSED, at(square(10), z)) for z in PLANES]  # 4.8 cc
SMALL = [(CLOSED, at(square(5, (15, 0)), z)) for z in PLANES]  # 1.2 cc
UNIFORM = Dose(values=np.full((40, 40, 60), 2.0), affine=affine_of(4.0, (-80, -80, -120)), unit="Gy")


def structures_file(folder: Path, structures, change=lambda dataset: None) -> Path:
    return edited(save_structures(folder / "s.dcm", structures), change)


def counted(structures, **settings):
    return dvh(
        UNIFORM,
        list(structures),
        DvhSettings(sampling=BySpacing(spacing_mm=0.5), any_frame=True, **settings),
        device="cpu",
    )


def volumes(structures, **settings) -> dict[str, float]:
    return {one.name: one.volume_cc for one in counted(structures, **settings)}


def check_volumes(found, **expected) -> None:
    assert volumes(found) == pytest.approx(expected, rel=2e-3, abs=1e-6)


# -- which contours are whose -----------------------------------------------------------------------------------------


@ROWS.row("read_rtstruct", "two structures", Did.READ)
def _(folder):
    found = read_rtstruct(structures_file(folder, [("PTV", LARGE), ("new", SMALL)]))
    check_volumes(found, PTV=4.8, new=1.2)
    return found


@ROWS.row("read_rtstruct", "two structures with one number", Did.ASSUMED, "2 structures", "number 1", "order")
def _(folder):
    def change(dataset):
        dataset.StructureSetROISequence[1].ROINumber = dataset.ROIContourSequence[1].ReferencedROINumber = 1

    found = read_rtstruct(structures_file(folder, [("PTV", LARGE), ("new", SMALL)], change))
    check_volumes(found, PTV=4.8, new=1.2)
    return found


@ROWS.row("read_rtstruct", "two structures with one number, one of them drawn", Did.LEFT_OUT, "number 1", "6 contours")
def _(folder):
    def change(dataset):
        dataset.StructureSetROISequence[1].ROINumber = 1

    found = read_rtstruct(structures_file(folder, [("PTV", LARGE), ("new", []), ("c", SMALL)], change))
    check_volumes(found, PTV=0, new=0, c=1.2)
    return found


@ROWS.row("read_rtstruct", "two structures with one number and one name", Did.ASSUMED, "2 structures are named")
def _(folder):
    def change(dataset):
        dataset.StructureSetROISequence[1].ROINumber = dataset.ROIContourSequence[1].ReferencedROINumber = 1

    found = read_rtstruct(structures_file(folder, [("PTV", LARGE), ("PTV", SMALL)], change))
    assert sorted(volumes(found).values()) == pytest.approx([1.2, 4.8], rel=2e-3)
    return found


@ROWS.row("read_rtstruct", "contours of a structure in two items", Did.ASSUMED, "structure 1", "2 parts")
def _(folder):
    def change(dataset):
        dataset.ROIContourSequence[1].ReferencedROINumber = 1
        del dataset.StructureSetROISequence[1]

    found = read_rtstruct(structures_file(folder, [("PTV", LARGE[:3]), ("rest", LARGE[3:])], change))
    check_volumes(found, PTV=4.8)
    return found


@ROWS.row("read_rtstruct", "items in another order than the structures", Did.READ)
def _(folder):
    def change(dataset):
        dataset.ROIContourSequence = dataset.ROIContourSequence[::-1]

    found = read_rtstruct(structures_file(folder, [("PTV", LARGE), ("new", SMALL)], change))
    check_volumes(found, PTV=4.8, new=1.2)
    return found


@ROWS.row("read_rtstruct", "contours of a structure that is not there", Did.ASSUMED, "1 structures", "by number: 7")
def _(folder):
    def change(dataset):
        dataset.ROIContourSequence[1].ReferencedROINumber = 7

    found = read_rtstruct(structures_file(folder, [("PTV", LARGE), ("new", SMALL)], change))
    check_volumes(found, **{"PTV": 4.8, "new": 0, "structure 7": 1.2})
    return found


@ROWS.row("read_rtstruct", "contours, and no StructureSetROISequence", Did.ASSUMED, "2 structures", "number: 1, 2")
def _(folder):
    found = read_rtstruct(
        structures_file(
            folder, [("PTV", LARGE), ("new", SMALL)], lambda dataset: delattr(dataset, "StructureSetROISequence")
        )
    )
    check_volumes(found, **{"structure 1": 4.8, "structure 2": 1.2})
    return found


@ROWS.row("read_rtstruct", "contours that name no structure", Did.LEFT_OUT, "6 contours", "ReferencedROINumber")
def _(folder):
    def change(dataset):
        del dataset.ROIContourSequence[1].ReferencedROINumber

    found = read_rtstruct(structures_file(folder, [("PTV", LARGE), ("new", SMALL)], change))
    check_volumes(found, PTV=4.8, new=0)
    return found


@ROWS.row("read_rtstruct", "a structure without number", Did.LEFT_OUT, "1 structures", "ROINumber")
def _(folder):
    def change(dataset):
        del dataset.StructureSetROISequence[1].ROINumber

    found = read_rtstruct(structures_file(folder, [("PTV", LARGE), ("new", SMALL)], change))
    check_volumes(found, **{"PTV": 4.8, "structure 2": 1.2})
    return found


@ROWS.row("read_rtstruct", "points of interest", Did.LEFT_OUT, "2 points", "no volume: iso, ref")
def _(folder):
    points = [("iso", [("POINT", [[1, 2, 3]])]), ("ref", [(CLOSED, [[1, 2, 4]])])]
    found = read_rtstruct(structures_file(folder, [points[0], ("PTV", LARGE), points[1]]))
    assert found.numbers == (2,)
    check_volumes(found, PTV=4.8)
    return found


@ROWS.row("read_rtstruct", "only points of interest", Did.REFUSED, "no contours", "1 points", "iso")
def _(folder):
    return read_rtstruct(structures_file(folder, [("iso", [("POINT", [[1, 2, 3]])])]))


@ROWS.row("read_rtstruct", "a structure without contours", Did.READ)
def _(folder):
    found = read_rtstruct(structures_file(folder, [("PTV", LARGE), ("new", [])]))
    check_volumes(found, PTV=4.8, new=0)
    return found


@ROWS.row("read_rtstruct", "no structure at all", Did.REFUSED, "StructureSetROISequence")
def _(folder):
    return read_rtstruct(structures_file(folder, []))


@ROWS.row("read_rtstruct", "two structures with one name", Did.ASSUMED, "'PTV'", "numbers")
def _(folder):
    found = read_rtstruct(structures_file(folder, [("PTV", LARGE), ("PTV", SMALL)]))
    check_volumes(found, **{"PTV (1)": 4.8, "PTV (2)": 1.2})
    return found


# -- contours that cannot be used -------------------------------------------------------------------------------------

WIRE = np.array([(0, 0, 0), (10, 0, 3), (10, 10, 9), (0, 10, 1.0)])


def with_bad(folder, bad, change=lambda dataset: None):
    """A structure with one contour more than it should have, and a good one."""
    found = read_rtstruct(structures_file(folder, [("good", SMALL), ("odd", [*LARGE, bad])], change))
    check_volumes(found, good=1.2, odd=4.8)
    return found


@ROWS.row("read_rtstruct", "a structure that is not planar", Did.ASSUMED, "'wire'", "leaves its plane by 2.09 mm")
def _(folder):
    found = read_rtstruct(structures_file(folder, [("good", LARGE), ("wire", [(CLOSED, WIRE)])]))
    check_volumes(found, good=4.8, wire=0)
    return found


@ROWS.row("read_rtstruct", "only a structure that is not planar", Did.REFUSED, "'wire'", "leaves its plane")
def _(folder):
    return read_rtstruct(structures_file(folder, [("wire", [(CLOSED, WIRE)])]))


@ROWS.row("read_rtstruct", "one contour that leaves its plane", Did.LEFT_OUT, "1 contours of 'odd'", "9 mm")
def _(folder):
    return with_bad(folder, (CLOSED, WIRE))


@ROWS.row("read_rtstruct", "one contour across the planes of the others", Did.LEFT_OUT, "1 contours of 'odd'")
def _(folder):
    return with_bad(folder, (CLOSED, at(square(4), 0.0)[:, [2, 1, 0]]))


@ROWS.row("read_rtstruct", "an open contour", Did.LEFT_OUT, "1 contours of 'odd'", "OPEN_PLANAR")
def _(folder):
    return with_bad(folder, ("OPEN_PLANAR", at(square(12), 4.0)))


@ROWS.row("read_rtstruct", "a point among contours", Did.LEFT_OUT, "1 contours of 'odd'", "POINT")
def _(folder):
    return with_bad(folder, ("POINT", [[1, 2, 3]]))


@ROWS.row("read_rtstruct", "a contour with a coordinate of 1e9 mm", Did.LEFT_OUT, "1 contours of 'odd'", "1e+09 mm")
def _(folder):
    return with_bad(folder, (CLOSED, [[0, 0, 0], [1e9, 0, 0], [0, 9, 0]]))


@ROWS.row("read_rtstruct", "a point 5 m away", Did.LEFT_OUT, "1 contours of 'odd'", "5e+03 mm", "far from the others")
def _(folder):
    return with_bad(folder, (CLOSED, [*at(square(10), 5.0)[:3], [-10, 5000, 5]]))


TYPES = ["closed_planar", "Closed_Planar", "CLOSED PLANAR", "CLOSEDPLANAR", "CLOSED_PLANAR ", "closed planar"]


@ROWS.row("read_rtstruct", "types of contours in lower case, or without underscore", Did.READ)
def _(folder):
    found = read_rtstruct(
        structures_file(folder, [("PTV", [(kind, loop) for kind, (_, loop) in zip(TYPES, LARGE, strict=True)])])
    )
    check_volumes(found, PTV=4.8)
    return found


@ROWS.row("read_rtstruct", "contours without type", Did.ASSUMED, "6 contours of 'PTV'", "closed")
def _(folder):
    found = read_rtstruct(structures_file(folder, [("PTV", [("", loop) for _, loop in LARGE])]))
    check_volumes(found, PTV=4.8)
    return found


@ROWS.row("read_rtstruct", "a contour with NaN", Did.LEFT_OUT, "1 contours of 'odd'", "not finite")
def _(folder):
    return with_bad(folder, (CLOSED, [[0, 0, 0], [np.nan, 0, 0], [0, 9, 0]]))


@ROWS.row("read_rtstruct", "a contour of two points", Did.LEFT_OUT, "1 contours of 'odd'", "three points")
def _(folder):
    return with_bad(folder, (CLOSED, [[0, 0, 0], [5, 0, 0]]))


@ROWS.row("read_rtstruct", "a contour with a number too many", Did.LEFT_OUT, "1 contours of 'odd'", "13 coordinates")
def _(folder):
    return with_bad(folder, (CLOSED, np.append(at(square(3.0), 4.0), 1.0)))


@ROWS.row("read_rtstruct", "fewer points than stated", Did.ASSUMED, "1 contours of 'PTV'", "state")
def _(folder):
    def change(dataset):
        dataset.ROIContourSequence[0].ContourSequence[0].NumberOfContourPoints = 9

    return read_rtstruct(structures_file(folder, [("PTV", LARGE)], change))


@ROWS.row("read_rtstruct", "a color that is none", Did.READ)
def _(folder):
    def change(dataset):
        dataset.ROIContourSequence[0].ROIDisplayColor = [255, 0]

    found = read_rtstruct(structures_file(folder, [("PTV", LARGE)], change))
    assert found["PTV"].color is None
    return found


@ROWS.row("dvh", "one structure in another frame of reference", Did.LEFT_OUT, "'new'", "1.2.3.4 and 9.8")
def _(folder):
    def change(dataset):
        dataset.StructureSetROISequence[1].ReferencedFrameOfReferenceUID = "9.8"

    found = read_rtstruct(structures_file(folder, [("PTV", LARGE), ("new", SMALL)], change))
    dose = Dose(values=UNIFORM.values, affine=UNIFORM.affine, unit="Gy", frame_of_reference=FRAME)
    result = dvh(dose, found, DvhSettings(sampling=BySpacing(spacing_mm=0.5)), device="cpu")
    assert result["PTV"].volume_cc == pytest.approx(4.8, rel=2e-3)
    assert result["new"].is_empty
    return result["new"]


@ROWS.row("dvh", "all structures in another frame of reference", Did.REFUSED, "'PTV'", "1.2.3.4 and 9.8")
def _(folder):
    found = read_rtstruct(structures_file(folder, [("PTV", LARGE)]))
    dose = Dose(values=UNIFORM.values, affine=UNIFORM.affine, unit="Gy", frame_of_reference="9.8")
    return dvh(dose, found, device="cpu")


# -- loops of one plane -----------------------------------------------------------------------------------------------

OUTER, INNER = square(10), square(4)[::-1]
KEYHOLE = np.concatenate([OUTER, OUTER[:1], INNER[-1:], INNER, OUTER[:1]])


def loops_row(trait, loops, area, did, *facts):
    @ROWS.row("read_rtstruct", trait, did, *facts)
    def _(folder):
        drawn = [(CLOSED, at(loop, z)) for z in PLANES for loop in loops]
        found = read_rtstruct(structures_file(folder, [("one", drawn)]))
        assert volumes(found)["one"] == pytest.approx(area * 12 / 1000, rel=2e-3)
        return found


loops_row("a hole", [OUTER, INNER], 400 - 64, Did.READ)
loops_row("a keyhole", [KEYHOLE], 400 - 64, Did.READ)
for name, ring in (("a hole", [OUTER, INNER]), ("a keyhole", [KEYHOLE])):
    overlap = [*ring, square(4, (10, 0))]
    loops_row(f"{name}, and a loop across the border", overlap, 336 + 32, Did.ASSUMED, "6 times", "united")
    overlap = [*ring, square(5, (8, 0))]
    loops_row(f"{name}, and a loop across the border and it", overlap, 336 + 30 + 8, Did.ASSUMED, "6 times", "united")
loops_row("keyholes across each other", [KEYHOLE, np.add(KEYHOLE, (7, 0))], 516, Did.ASSUMED, "6 times", "united")


@ROWS.row("dvh", "labels of another patient than the dose", Did.ASSUMED, "patient")
def _(folder):
    dose = Dose(values=np.ones((6, 6, 6)), affine=np.eye(4), unit="Gy", patient="1")
    labels = LabelStructures(labels=np.ones((6, 6, 6), np.uint8), affine=np.eye(4), patient="2")
    (found,) = dvh(dose, labels)
    return found


@ROWS.row("read_rtstruct", "the frame of reference beside the structures, not in them", Did.READ)
def _(folder):
    def change(dataset):
        del dataset.StructureSetROISequence[0].ReferencedFrameOfReferenceUID
        dataset.ReferencedFrameOfReferenceSequence = [Dataset()]
        dataset.ReferencedFrameOfReferenceSequence[0].FrameOfReferenceUID = "1.2.9"

    (found,) = read_rtstruct(structures_file(folder, [("PTV", LARGE)], change))
    assert found.frame_of_reference == "1.2.9"
    return found
