"""Structures of DICOM files: whose contours are whose, and what volume they hold."""

from pathlib import Path

import numpy as np
import pytest

from napari_gpubio.dose import Dose, DvhSettings, contour_structure, dvh
from napari_gpubio.dose.io import read_rtstruct
from tests.conformance import Did, Rows
from tests.dose.dicom_files import FRAME, edited, save_structures
from tests.dose.samples import affine_of, at, circle, rotation, square

ROWS = Rows("Structures of RTSTRUCT files")
CLOSED = "CLOSED_PLANAR"
PLANES = (0, 2, 4, 6, 8, 10)
LARGE = [(CLOSED, at(square(10), z)) for z in PLANES]  # 4.8 cc
SMALL = [(CLOSED, at(square(5, (15, 0)), z)) for z in PLANES]  # 1.2 cc
UNIFORM = Dose(values=np.full((40, 40, 60), 2.0), affine=affine_of(4.0, (-80, -80, -120)), unit="Gy")


def structures_file(folder: Path, structures, change=lambda dataset: None) -> Path:
    return edited(save_structures(folder / "s.dcm", structures), change)


def counted(structures, **settings):
    return dvh(UNIFORM, list(structures), DvhSettings(spacing_mm=0.5, any_frame=True, **settings), device="cpu")


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


@ROWS.row("read_rtstruct", "contours of a structure that is not there", Did.LEFT_OUT, "6 contours", "7")
def _(folder):
    def change(dataset):
        dataset.ROIContourSequence[1].ReferencedROINumber = 7

    found = read_rtstruct(structures_file(folder, [("PTV", LARGE), ("new", SMALL)], change))
    check_volumes(found, PTV=4.8, new=0)
    return found


@ROWS.row("read_rtstruct", "contours that name no structure", Did.LEFT_OUT, "6 contours", "none")
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
    check_volumes(found, PTV=4.8)
    return found


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
    result = dvh(dose, found, DvhSettings(spacing_mm=0.5), device="cpu")
    assert result["PTV"].volume_cc == pytest.approx(4.8, rel=2e-3)
    assert result["new"].is_empty
    return result["new"]


@ROWS.row("dvh", "all structures in another frame of reference", Did.REFUSED, "'PTV'", "1.2.3.4 and 9.8")
def _(folder):
    found = read_rtstruct(structures_file(folder, [("PTV", LARGE)]))
    dose = Dose(values=UNIFORM.values, affine=UNIFORM.affine, unit="Gy", frame_of_reference="9.8")
    return dvh(dose, found, device="cpu")


# -- planes and slabs -------------------------------------------------------------------------------------------------


@ROWS.row("read_rtstruct", "oblique contours with one decimal", Did.ASSUMED, "'oblique'", "one decimal")
def _(folder):
    turned = [(CLOSED, (at(circle(20), z) @ rotation(10, (0, 1, 0)).T).round(1)) for z in range(0, 31, 3)]
    found = read_rtstruct(structures_file(folder, [("oblique", turned)]))
    assert len(found["oblique"].planes) == 11
    check_volumes(found, oblique=np.pi * 400 * 33 / 1000)
    return found


def spaced(folder, *distances, first=-30.0):
    """A square of 4 cm² in planes so far apart, and its volume in cc if each holds half way to its neighbors."""
    positions = first + np.cumsum([0.0, *distances])
    loops = [(CLOSED, at(square(10), z)) for z in positions]
    (one,) = counted(read_rtstruct(structures_file(folder, [("cord", loops)])))
    length = positions[-1] - positions[0] + 0.5 * (distances[0] + distances[-1])
    return one, 0.4 * length


def slab_row(name, distances):
    @ROWS.row("dvh", f"slices of {name} mm", Did.ASSUMED, "half way")
    def _(folder):
        found, volume = spaced(folder, *distances)
        assert found.volume_cc == pytest.approx(volume, rel=1e-4)
        return found


slab_row("6, then 3", [6] * 3 + [3] * 7)  # 17.4 cc
slab_row("5, then 2.5", [5] * 6 + [2.5] * 12)  # 25.5 cc
slab_row("3, then 6", [3] * 5 + [6] * 2)
slab_row("2, 5, then 2", [2] * 4 + [5] * 3 + [2] * 4)
slab_row("1, 3, then 10", [1] * 5 + [3] * 4 + [10] * 3)
slab_row("5, 2.5, then 5", [5, 2.5, 2.5, 5])
slab_row("6, 3, then a last one of 6", [6, 6, 3, 3, 6])
slab_row("2, then two of 6", [2, 2, 2, 6, 6])


@ROWS.row("dvh", "a slice without contour, nothing else drawn", Did.ASSUMED, "1 gaps of up to 4 mm", "2 parts")
def _(folder):
    found, volume = spaced(folder, 2, 2, 4, 2, 2)
    assert found.volume_cc == pytest.approx(volume - 0.4 * 2, rel=1e-4)
    return found


@ROWS.row("dvh", "a single contour far from the others", Did.ASSUMED, "2 gaps of up to 20 mm", "3 parts")
def _(folder):
    found, volume = spaced(folder, 2, 2, 20, 20, 2, 2)
    assert found.volume_cc == pytest.approx(volume - 0.4 * 36, rel=1e-4)
    return found


def beside(folder, *others):
    """The volume of contours with a distance of 6 mm among others of 3 mm, beside other structures."""
    own = [(CLOSED, at(square(10), z)) for z in (-6, 0, 3, 6)]
    found = read_rtstruct(structures_file(folder, [("one", own), *(("other", other) for other in others)]))
    return counted(found)["one"]


@ROWS.row("dvh", "a wide distance where other structures have slices as far apart", Did.ASSUMED, "half way")
def _(folder):
    found = beside(folder, [(CLOSED, at(square(20), z)) for z in (-18, -12, -6, 0, 3, 6, 9)])
    assert found.volume_cc == pytest.approx(0.4 * (12 + 3 + 1.5), rel=1e-4)
    return found


@ROWS.row("dvh", "a wide distance where other structures are drawn between", Did.ASSUMED, "1 gaps", "2 parts")
def _(folder):
    found = beside(folder, [(CLOSED, at(square(20), z)) for z in range(-18, 10, 3)])
    assert found.volume_cc == pytest.approx(0.4 * 12, rel=1e-4)
    return found


def parted_row(trait, positions, volume_cc, *facts):
    @ROWS.row("dvh", trait, Did.ASSUMED, *facts)
    def _(folder):
        own = [(CLOSED, at(square(10), z)) for z in positions]
        every = [(CLOSED, at(square(20), z)) for z in range(-15, 16, 3)]
        found = counted(read_rtstruct(structures_file(folder, [("one", own), ("other", every)])))["one"]
        assert found.volume_cc == pytest.approx(volume_cc, rel=1e-4)
        return found


parted_row("two planes far apart, another structure on every slice", [-15, 15], 2.4, "1 gaps", "2 parts")
parted_row("a plane far from two others, another structure on every slice", [-15, -12, 15], 3.6, "1 gaps", "2 parts")
parted_row("contours on every third slice, another structure on every slice", [-15, -6, 3, 12], 14.4, "half way")


@ROWS.row(
    "read_rtstruct", "copies of all contours 0.06 mm beside them", Did.LEFT_OUT, "0.06 mm", "6 contours", "copies"
)
def _(folder):
    loops = [(CLOSED, at(square(10), z + shift)) for z in PLANES for shift in (0.0, 0.06)]
    found = read_rtstruct(structures_file(folder, [("PTV", loops)]))
    check_volumes(found, PTV=4.8)
    return found


@ROWS.row("read_rtstruct", "copies of all contours 0.1 mm beside them", Did.LEFT_OUT, "0.1 mm", "12 contours")
def _(folder):
    loops = [(CLOSED, at(square(10), z + shift)) for z in PLANES for shift in (0.0, 0.06, 0.1)]
    found = read_rtstruct(structures_file(folder, [("PTV", loops)]))
    check_volumes(found, PTV=4.8)
    return found


@ROWS.row("read_rtstruct", "slices 0.1 mm apart", Did.READ)
def _(folder):
    loops = [(CLOSED, at(square(10), 0.1 * n)) for n in range(40)]
    found = read_rtstruct(structures_file(folder, [("thin", loops)]))
    check_volumes(found, thin=0.4 * 4.0)
    return found


@ROWS.row(
    "read_rtstruct", "a structure in one plane, others on slices of 6 and 3 mm", Did.ASSUMED, "single plane", "6 mm"
)
def _(folder):
    other = [(CLOSED, at(square(10), z)) for z in (-18, -12, -6, 0, 3, 6, 9)]
    found = read_rtstruct(structures_file(folder, [("other", other), ("one", [(CLOSED, at(square(10), -12.0))])]))
    assert volumes(found)["one"] == pytest.approx(0.4 * 6, rel=1e-4)
    return found


@ROWS.row("read_rtstruct", "a structure in one plane that states its thickness", Did.READ)
def _(folder):
    def change(dataset):
        dataset.ROIContourSequence[0].ContourSequence[0].ContourSlabThickness = 5

    found = read_rtstruct(structures_file(folder, [("one", LARGE[:1])], change))
    check_volumes(found, one=0.4 * 5)
    return found


@ROWS.row("read_rtstruct", "contours with an offset", Did.ASSUMED, "1 contours", "ContourOffsetVector")
def _(folder):
    def change(dataset):
        dataset.ROIContourSequence[0].ContourSequence[0].ContourOffsetVector = [0, 0, 5]

    return read_rtstruct(structures_file(folder, [("PTV", LARGE)], change))


@ROWS.row("dvh", "only a structure in one plane", Did.REFUSED, "single plane", "thickness_mm")
def _(folder):
    return counted(read_rtstruct(structures_file(folder, [("one", LARGE[:1])])))


@ROWS.row("dvh(interpolation='shape')", "a shell of 2 mm on slices of 5 mm", Did.ASSUMED, "'shell'", "half way")
def _(folder):
    planes = np.arange(-27.5, 30, 5)
    loops = [at(circle(np.sqrt(900 - z * z)), z) for z in planes]
    loops += [at(circle(np.sqrt(784 - z * z)), z) for z in planes if abs(z) < 28]
    found = counted([contour_structure("shell", loops)], interpolation="shape")["shell"]
    assert found.volume_cc == pytest.approx(4 / 3 * np.pi * (30**3 - 28**3) / 1000, rel=0.03)
    return found
