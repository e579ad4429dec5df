"""Planes of structures of DICOM files: which slices they are, and what volume they hold."""

import numpy as np
import pytest

from napari_gpubio.dose import contour_structure
from napari_gpubio.dose.io import read_rtstruct
from napari_gpubio.dose.io.ct import CtImage
from tests.conformance import Did, Rows
from tests.conformance.structures import CLOSED, LARGE, PLANES, check_volumes, counted, structures_file, volumes
from tests.dose.samples import at, circle, rotation, square

ROWS = Rows("Slices of structures")


@ROWS.row("read_rtstruct", "oblique contours with one decimal", Did.ASSUMED, "11 contours of 'oblique'", "0.11 mm off")
def _(folder):
    turned = [(CLOSED, (at(circle(20), z) @ rotation(10, (0, 1, 0)).T).round(1)) for z in range(0, 31, 3)]
    found = read_rtstruct(structures_file(folder, [("oblique", turned)]))
    assert len(found["oblique"].planes) == 11
    check_volumes(found, oblique=np.pi * 400 * 33 / 1000)
    return found


@ROWS.row("read_rtstruct", "points 0.06 mm off their plane", Did.ASSUMED, "6 contours of 'PTV'", "0.12 mm off")
def _(folder):
    bent = [(CLOSED, loop + np.outer([0.06, -0.06, 0.06, -0.06], (0, 0, 1))) for _, loop in LARGE]
    found = read_rtstruct(structures_file(folder, [("PTV", bent)]))
    assert [plane.position_mm for plane in found["PTV"].planes] == pytest.approx(PLANES)
    check_volumes(found, PTV=4.8)
    return found


@ROWS.row("read_rtstruct", "one contour 0.2 mm off its plane", Did.ASSUMED, "1 contours of 'PTV'", "0.2 mm off")
def _(folder):
    tilted = [(CLOSED, LARGE[2][1] + np.outer([0, 0.2, 0.2, 0], (0, 0, 1)))]
    found = read_rtstruct(structures_file(folder, [("PTV", [*LARGE[:2], *tilted, *LARGE[3:]])]))
    np.testing.assert_array_equal(found["PTV"].frame[:3, 2], (0, 0, 1))
    check_volumes(found, PTV=4.8)
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


def parted_row(trait, positions, volume_cc, *facts, slices=range(-15, 16, 3)):
    @ROWS.row("dvh", trait, Did.ASSUMED, *facts)
    def _(folder):
        own = [(CLOSED, at(square(10), z)) for z in positions]
        every = [(CLOSED, at(square(20), z)) for z in slices]
        found = counted(read_rtstruct(structures_file(folder, [("one", own), ("other", every)])))["one"]
        assert found.volume_cc == pytest.approx(volume_cc, rel=1e-4)
        return found


parted_row("two planes far apart, another structure on every slice", [-15, 15], 2.4, "1 gaps", "2 parts")
parted_row("a plane far from two others, another structure on every slice", [-15, -12, 15], 3.6, "1 gaps", "2 parts")
parted_row("contours on every third slice, another structure on every slice", [-15, -6, 3, 12], 14.4, "half way")
COARSE = {"slices": (*range(-15, 1, 3), 6, 12, 18, 24, 30)}
parted_row("a gap where slices of 3 mm become 6 mm", [-9, -6, -3, 18, 24], 8.4, "1 gaps", "2 parts", **COARSE)
parted_row("a gap before a single plane on slices of 6 mm", [-9, -6, -3, 18], 6.0, "1 gaps", "2 parts", **COARSE)
parted_row("a gap of two slices of 3 mm beside slices of 6 mm", [-3, 6, 12, 18], 8.4, "1 gaps", "2 parts", **COARSE)


@ROWS.row(
    "read_rtstruct", "copies of all contours 0.06 mm beside them", Did.LEFT_OUT, "0.06 mm", "6 contours", "copies"
)
def _(folder):
    loops = [(CLOSED, at(square(10), z + shift)) for z in PLANES for shift in (0.0, 0.06)]
    found = read_rtstruct(structures_file(folder, [("PTV", loops)]))
    check_volumes(found, PTV=4.8)
    return found


@ROWS.row("read_rtstruct", "two copies of each contour up to 0.1 mm beside it", Did.LEFT_OUT, "0.1 mm", "12 contours")
def _(folder):
    loops = [(CLOSED, at(square(10), z + shift)) for z in PLANES for shift in (0.0, 0.06, 0.1)]
    found = read_rtstruct(structures_file(folder, [("PTV", loops)]))
    check_volumes(found, PTV=4.8)
    return found


SQUARE, RING = [square(10)], [square(10), square(9.5)]


def copies_row(trait, shifts, loops=SQUARE, planes=PLANES, volume_cc=4.8, count=6, others=(), image=None):
    @ROWS.row("read_rtstruct", trait, Did.LEFT_OUT, f"{count} contours of 'PTV'", "copies", "one plane")
    def _(folder):
        drawn = [(CLOSED, at(loop, z + shift)) for z in planes for shift in shifts for loop in loops]
        found = read_rtstruct(structures_file(folder, [("PTV", drawn), *others]), image=image)
        assert volumes(found)["PTV"] == pytest.approx(volume_cc, rel=2e-3)
        return found


EVERY = [("other", [(CLOSED, at(square(20), z)) for z in range(-15, 16, 3)])]
THREE = CtImage(values=np.zeros((1, 1, 11)), affine=np.eye(4), slices=np.array([(0, 0, z) for z in range(-15, 16, 3)]))
copies_row("copies 0.16 mm beside slices of 2 mm", (0, 0.16))
copies_row("copies 0.5 mm beside slices of 2 mm", (0, 0.5))
copies_row("two copies 0.2 mm beside slices of 2 mm", (0, 0.2, 0.4), count=12)
copies_row("copies of a thin shell", (0, 0.2), RING, volume_cc=12 * (0.4 - 0.361), count=12)
copies_row("copies beside slices of which some are missing", (0, 0.2), planes=(0, 3, 12, 15), count=4)
copies_row(
    "a copy beside a single contour, others every 3 mm", (0, 0.3), planes=(0,), volume_cc=1.2, count=1, others=EVERY
)
copies_row("a copy beside a single contour, a CT of 3 mm", (0, 0.3), planes=(0,), volume_cc=1.2, count=1, image=THREE)


@ROWS.row("read_rtstruct", "copies that are 5 % smaller", Did.LEFT_OUT, "6 contours of 'PTV'", "copies")
def _(folder):
    drawn = [(CLOSED, at(square(10 - 3 * shift), z + shift)) for z in PLANES for shift in (0, 0.17)]
    found = read_rtstruct(structures_file(folder, [("PTV", drawn)]))
    check_volumes(found, PTV=4.8)
    return found


@ROWS.row("read_rtstruct", "holes 0.3 mm beside their contours", Did.ASSUMED, "0.3 mm", "one plane")
def _(folder):
    drawn = [*LARGE, *((CLOSED, at(square(5), z + 0.3)) for z in PLANES)]
    found = read_rtstruct(structures_file(folder, [("PTV", drawn)]))
    check_volumes(found, PTV=3.6)
    return found


@ROWS.row("read_rtstruct(image=...)", "pairs of slices as close as those of the CT", Did.ASSUMED, "2 parts")
def _(folder):
    fine = CtImage(values=np.zeros((1, 1, 30)), affine=np.eye(4), slices=np.arange(30)[:, None] * (0, 0, 0.2))
    drawn = [(CLOSED, at(square(10), z)) for z in (0, 0.2, 3, 3.2)]
    (one,) = counted(read_rtstruct(structures_file(folder, [("PTV", drawn)]), image=fine))
    assert one.volume_cc == pytest.approx(0.4 * 0.8, rel=2e-3)
    return one


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


@ROWS.row("read_rtstruct", "structures on slices as far apart, beside each other", Did.READ)
def _(folder):
    drawn = [("a", [(CLOSED, at(square(10), z)) for z in range(0, 12, 3)]),
             ("b", [(CLOSED, at(square(10), z + 1.5)) for z in range(0, 12, 3)])]  # fmt: skip
    found = read_rtstruct(structures_file(folder, drawn))
    check_volumes(found, a=4.8, b=4.8)
    return found


@ROWS.row("read_rtstruct", "a single contour between slices of 3 mm", Did.ASSUMED, "'one'", "3 mm thick")
def _(folder):
    found = read_rtstruct(structures_file(folder, [("one", [(CLOSED, at(square(10), 1.5))]), *EVERY]))
    assert volumes(found)["one"] == pytest.approx(1.2, rel=2e-3)
    return found


@ROWS.row("dvh", "two contours 70 mm apart, and nothing else", Did.ASSUMED, "70 mm apart", "one body")
def _(folder):
    path = structures_file(folder, [("PTV", [(CLOSED, at(square(10), z)) for z in (-40, 30)])])
    found = read_rtstruct(path)
    check_volumes(found, PTV=56.0)
    (one,) = counted(found)
    return one
