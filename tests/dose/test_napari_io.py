"""Doses, structures and DICOM studies as napari layers and back."""

import dataclasses

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers import Image, Labels, Layer, Shapes
from pydicom.data import get_testdata_file

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, affine_mm, has_length_unit, series_layer
from napari_gpubio.core.quantity import Quantity, quantity_metadata
from napari_gpubio.core.reading import ReadingNote, noted
from napari_gpubio.core.space import apply_affine
from napari_gpubio.dose import BySpacing, Dose, DvhSettings, LabelStructures, dvh, sum_of_doses
from napari_gpubio.dose.io import Plan, read_rtstruct
from napari_gpubio.dose.napari_io import (
    contours_layer,
    contours_of,
    dose_layer,
    dose_of,
    labels_layer,
    labels_of,
    unit_of,
)
from napari_gpubio.dose.reader import get_reader, read_layers
from napari_gpubio.dose.structures.raster import dose_at_voxels
from napari_gpubio.dose.structures.slices import with_slices
from tests.dose.dicom_files import counted, save_ct, save_dose, save_plan, save_structures
from tests.dose.samples import ROTATION, affine_of, at, circle, linear_dose, square, stack, uniform_dose

LAS = np.array([[-1.0, 0, 0, 30], [0, 1, 0, -20], [0, 0, 2, 10], [0, 0, 0, 1]])
SAGITTAL = np.array([[0, 0, 1.0, 5], [1, 0, 0, -7], [0, -1, 0, 9], [0, 0, 0, 1]])
OBLIQUE = affine_of((2.0, 2.5, 3.0), (-9, -9, -15), ROTATION)
AFFINES = pytest.mark.parametrize("affine", [np.eye(4), LAS, SAGITTAL, OBLIQUE], ids=["RAS", "LAS", "PSR", "oblique"])


CIRCLES = [("CLOSED_PLANAR", at(circle(6.0, 64, (21, -9)), z)) for z in (32.0, 35.0, 38.0)]
PIXELS = np.full((5, 10, 12), 5000, np.uint16)


def made(layer_data):
    return Layer.create(*layer_data)


def some_dose(affine=LAS):
    values = np.random.default_rng(0).random((6, 7, 8)).astype(np.float32)
    return Dose(values=values, affine=affine, unit="J/cm2", name="light", frame_of_reference="1.2")


# -- doses ------------------------------------------------------------------------------------------------------------


@AFFINES
def test_a_dose_comes_back_from_its_layer(affine):
    dose = some_dose(affine)
    layer = made(dose_layer(dose))
    assert isinstance(layer, Image)
    assert (layer.name, unit_of(layer)) == ("light", "J/cm²")
    found = dose_of(layer, unit_of(layer))
    np.testing.assert_array_equal(found.values, dose.values)
    np.testing.assert_allclose(found.affine, affine)
    assert (found.unit, found.frame_of_reference) == ("J/cm²", "1.2")
    assert has_length_unit(layer)


def test_a_series_gives_the_chosen_volume():
    array = np.random.default_rng(1).random((4, 5, 6, 3))
    layer = made(series_layer(array, SAGITTAL, "phases", "phase"))
    for n in range(3):
        np.testing.assert_array_equal(dose_of(layer, "Gy", frame=n).values, array[..., n])
    with pytest.raises(InvalidInput, match="3 volumes; choose one of them"):
        dose_of(layer, "Gy", frame=3)


def test_units_of_length_are_honored():
    micrometers = Image(np.ones((4, 4, 4)), scale=(500, 250, 250), units=("um", "um", "um"))
    np.testing.assert_allclose(np.diag(affine_mm(micrometers))[:3], (0.25, 0.25, 0.5))
    pixels = Image(np.ones((4, 4, 4)), scale=(2, 1, 1))
    np.testing.assert_allclose(np.diag(affine_mm(pixels))[:3], (1, 1, 2))
    assert (has_length_unit(micrometers), has_length_unit(pixels)) == (True, False)
    labels = Labels(np.ones((10, 10, 10), np.uint8), scale=(100, 100, 100), units=("um", "um", "um"))
    result = dvh(uniform_dose(2.0, (20, 20, 20), 0.1), labels_of(labels), device="cpu")
    assert result["label 1"].volume_cc == pytest.approx(1e-3)  # 1 mm³


LOGARITHM = {"contrast_limits": (0, 1), "metadata": {"napari_gpubio": {"quantity": "log10 fluence", "unit": "1/mm²"}}}


def test_logarithms_become_doses_by_what_the_layer_carries():
    values = np.array([-3.0, -np.inf, np.nan, 1.0, 0.0, -8.0], np.float32).reshape(1, 2, 3)
    expected = np.array([1e-3, 0.0, 0.0, 10.0, 1.0, 1e-8]).reshape(1, 2, 3)
    own = Image(values.T, **LOGARITHM)
    found = dose_of(own, unit_of(own))
    np.testing.assert_allclose(found.values, expected, rtol=1e-6)
    assert (found.quantity, found.unit, found.is_light) == ("fluence", "1/mm²", True)
    np.testing.assert_allclose(dose_of(own, "1/cm2").values, 100 * expected, rtol=1e-6)
    foreign = Image(values.T, contrast_limits=(0, 1))
    np.testing.assert_allclose(dose_of(foreign, "J/cm2", scale="log10").values, expected, rtol=1e-6)
    with pytest.raises(InvalidInput, match="not finite"):
        dose_of(foreign, "J/cm2")


def test_layers_of_beams_add_up_to_what_a_plan_knows():
    own = {"affine": np.eye(4), "unit": "Gy", "summation": "BEAM", "plans": ("1.2",), "patient": "P"}
    layers = []
    for number in (1, 2):
        data, keywords, _ = dose_layer(Dose(values=np.ones((2, 3, 4)), beams=(number,), **own), f"beam {number}")
        layers.append(Image(data, **keywords))
    total = sum_of_doses([dose_of(layer, "Gy") for layer in layers])
    assert (total.summation, total.plans, total.beams, total.patient) == ("BEAM", ("1.2",), (1, 2), "P")
    plan = Plan(label="plan", uid="1.2", beams=(1, 2), beams_gy=2.0)
    with noted():
        assert plan.prescription_of(total) == (2.0, "sum of the beams' doses")
    with pytest.raises(InvalidInput, match="1 of the 2 beams"):
        plan.prescription_of(dose_of(layers[0], "Gy"))


def test_a_layer_hands_on_what_it_knows_of_its_errors():
    values = np.random.default_rng(0).random((4, 5, 6)).astype(np.float32)
    more = quantity_metadata(
        Quantity("fluence", "1/mm2"), standard_error=0.1 * values, halves=np.stack([0.9 * values, 1.1 * values])
    )
    data, keywords, _ = dose_layer(Dose(values=values, affine=np.eye(4), unit="1/mm2"), "light", metadata=more)
    layer = Image(data, **keywords)
    found = dose_of(layer, "1/cm2")
    np.testing.assert_allclose(found.halves[1], 110 * values, rtol=1e-6)
    np.testing.assert_allclose(found.standard_error, 10 * values, rtol=1e-6)
    other = dose_of(Image(values), "1/cm2")
    assert (other.halves, other.standard_error) == (None, None)
    layer.metadata["napari_gpubio"]["halves"] = np.ones((2, 3, 3, 3))  # of another grid
    assert dose_of(layer, "1/cm2").halves is None


@pytest.mark.parametrize(
    ("data", "keywords", "unit", "words"),
    [
        (np.ones((3, 3, 3)), {}, "  ", "is not known; type it"),
        (np.ones((3, 3)), {}, "Gy", "has 2 dimensions"),
        (np.ones((2, 2, 3, 3, 3)), {}, "Gy", "has 5 dimensions"),
        (np.full((3, 3, 3), np.nan), {"contrast_limits": (0, 1)}, "Gy", "not finite"),
        (np.full((3, 3, 3), np.nan), LOGARITHM, "1/mm2", "none of the 27 voxels of .* holds a number"),
        (np.ones((3, 3, 3)), LOGARITHM, "Gy", "are in 1/mm², which cannot be given in Gy"),
        (np.ones((3, 3, 3)), {}, "foo", "'foo' is not a known unit"),
        (np.ones((3, 3, 3)), {}, "-3", "'-3' is not a known unit"),
    ],
)
def test_what_cannot_be_a_dose_is_a_sentence(data, keywords, unit, words):
    with pytest.raises(InvalidInput, match=words):
        dose_of(Image(data, **keywords), unit)


# -- labels -----------------------------------------------------------------------------------------------------------


@AFFINES
def test_labels_come_back_with_their_names(affine):
    array = np.random.default_rng(2).integers(0, 3, (5, 6, 7)).astype(np.uint8)
    given = LabelStructures(labels=array, affine=affine, structures={1: "lung", 2: "heart"})
    layer = made(labels_layer(given, "organs", {1: (255, 0, 0), 2: (0, 0, 255)}))
    np.testing.assert_allclose(layer.get_color(1)[:3], (1, 0, 0))
    np.testing.assert_allclose(layer.get_color(2)[:3], (0, 0, 1))
    found = labels_of(layer)
    np.testing.assert_array_equal(found.labels, array)
    np.testing.assert_allclose(found.affine, affine)
    assert (found.values, found.names) == ((1, 2), ("lung", "heart"))


def test_names_from_a_table_and_names_that_nobody_gave():
    array = np.zeros((3, 3, 3), np.int32)
    with pytest.raises(InvalidInput, match="are empty; paint a structure"):
        labels_of(Labels(array))
    array[0], array[1] = 4, 9
    table = {"index": [4, 7], "name": ["cord", "elsewhere"]}
    assert labels_of(Labels(array, features=table)).names == ("cord", "label 9")


# -- contours ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("affine", [affine_of(2.0, (-20, -20, -20)), affine_of(2.0, (-9, -9, -15), ROTATION)])
def test_contours_come_back_in_their_places(affine):
    values = np.random.default_rng(3).random((20, 20, 20)) * 50
    dose = Dose(values=values, affine=affine, unit="Gy", frame_of_reference="1")
    ring = stack([circle(6.0, 60), circle(2.0, 40)], np.arange(-4.0, 4.1, 2.0), "ring", color=(10, 200, 30))
    ball = stack([circle(3.0, 30, (1, 0))], [0.0, 2.0], "ball")
    layer = made(contours_layer([ring, ball], "drawn"))
    assert isinstance(layer, Shapes)
    found = contours_of(layer, dose)
    assert [one.name for one in found] == ["ring", "ball"]
    assert found[0].color == (10, 200, 30)
    settings = DvhSettings(sampling=BySpacing(spacing_mm=0.3))
    pairs = (dvh(dose, structures, settings, device="cpu") for structures in (found, [ring, ball]))
    for a, b in zip(*pairs, strict=True):
        assert a.volume_cc == pytest.approx(b.volume_cc, rel=1e-4)
        assert a.mean == pytest.approx(b.mean, rel=1e-3)
    stepped = made(contours_layer([ring, ball], "drawn", affine_of((3.0, 0.7, 0.7))))
    for one, other in zip(contours_of(stepped, dose), found, strict=True):  # bit by bit
        for a, b in zip(one.world_loops, other.world_loops, strict=True):
            np.testing.assert_array_equal(a, b)
    elsewhere = contours_layer([dataclasses.replace(ring, frame_of_reference="2")], "drawn")
    with pytest.raises(InvalidInput, match="different frames of reference"):
        dvh(dose, contours_of(made(elsewhere), dose), device="cpu")


BOX = np.array([[8, 5, 5], [8, 5, 15], [8, 11, 15], [8, 11, 5]], float)  # 10 x 6 mm
BENT = np.array([[8, 5, 5], [8, 5, 15], [12, 11, 15], [8, 11, 5]], float)


def test_rectangles_and_ellipses_have_their_areas():
    dose = uniform_dose(2.0, (30, 30, 30), 1.0)
    for kind, area in (("rectangle", 60.0), ("ellipse", np.pi * 15.0)):
        layer = Shapes([BOX], shape_type=kind, name=kind)
        (found,) = dvh(dose, contours_of(layer, dose), DvhSettings(sampling=BySpacing(spacing_mm=0.05)), device="cpu")
        assert found.name == kind
        assert found.volume_cc == pytest.approx(area / 1000, rel=2e-3)  # 1 mm thick, as a slice of the dose
        assert any("single plane and is taken to be 1 mm thick" in note for note in found.notes)


def test_open_shapes_are_left_out_with_a_note():
    dose = uniform_dose(2.0, (30, 30, 30), 1.0)
    (found,) = contours_of(Shapes([BOX, BOX[:2]], shape_type=["polygon", "line"]), dose)
    assert any("1 shapes of" in note and "left out" in note for note in found.notes)


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        (Shapes([BOX[:2]], shape_type="line"), "1 shapes are open"),
        (Shapes(ndim=3), "hold no contour; draw polygons"),
        (Shapes([BENT], shape_type="polygon"), "leaves its plane"),
    ],
    ids=["open", "none", "bent"],
)
def test_shapes_that_are_no_contours_are_a_sentence(shapes, words):
    with pytest.raises(InvalidInput, match=words):
        contours_of(shapes, uniform_dose(2.0, (30, 30, 30), 1.0))


# -- the dose at voxels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.int64])
def test_a_linear_dose_at_voxels_is_exact(dtype):
    gradient = np.array([0.3, -0.2, 0.5])
    dose = linear_dose(gradient)
    labels = np.random.default_rng(4).integers(0, 4, (5, 6, 7)).astype(dtype)
    to_world = affine_of((1.3, 1.7, 0.9), (-4, -3, -5), ROTATION)
    out = np.empty(labels.shape, np.float32)
    dose_at_voxels(dose, labels, to_world, [False, True, False, True], out)
    places = apply_affine(to_world, np.indices(labels.shape).reshape(3, -1).T)
    expected = np.where(labels % 2 == 1, (40 + places @ gradient).reshape(labels.shape), np.nan)
    np.testing.assert_allclose(out, expected, rtol=2e-6)


def test_voxels_outside_the_dose_have_none():
    labels, out = np.ones((4, 1, 1), np.uint8), np.empty((4, 1, 1), np.float32)
    dose_at_voxels(uniform_dose(2.0, (2, 2, 2), 1.0), labels, affine_of(1.0, (-1, 0, 0)), [False, True], out)
    np.testing.assert_array_equal(out.ravel(), [np.nan, 2, 2, np.nan])


# -- studies ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def study(tmp_path):
    save_ct(tmp_path, np.zeros((5, 16, 12), np.int16))
    save_dose(tmp_path / "dose.dcm", PIXELS, spacing=(2.0, 2.0, 3.0))
    save_structures(tmp_path / "structures.dcm", [("PTV", CIRCLES), ("Empty", [])])
    target = {
        "DoseReferenceType": "TARGET", "DoseReferenceStructureType": "VOLUME", "TargetPrescriptionDose": "50",
    }  # fmt: skip
    save_plan(tmp_path / "plan.dcm", [target], [(25, [2.0])])
    (tmp_path / "readme.txt").write_text("nothing", encoding="utf-8")
    return tmp_path


def test_a_folder_becomes_layers(study):
    reader = get_reader(str(study))
    layers = reader(str(study))
    assert [(keywords["name"], kind) for _, keywords, kind in layers] == [
        ("THORAX", "image"), ("dose.dcm", "image"), ("structures contours", "shapes"), ("structures", "labels"),
    ]  # fmt: skip
    ct, dose, contours, labels = layers
    assert ct[0].shape == (5, 16, 12)
    assert dose[1]["metadata"][KEY]["quantity"] == Quantity("absorbed dose", "Gy")
    assert dose[1]["metadata"][KEY]["prescription"] == 50.0
    assert len(contours[0]) == 3
    viewer = ViewerModel()
    for data, keywords, kind in layers:
        getattr(viewer, f"add_{kind}")(data, **keywords)
    assert [step.step for step in viewer.dims.range] == [3.0, 1.5, 2.0]  # the voxels of the CT
    np.testing.assert_allclose(viewer.layers["structures contours"].data_to_world(contours[0][0][0])[0], 32.0)
    assert labels[0].shape == ct[0].shape
    voxels = int((labels[0] == 1).sum())
    assert voxels * 2.0 * 1.5 * 3.0 == pytest.approx(np.pi * 36 * 9, rel=0.08)
    assert labels[1]["metadata"][KEY]["structures"] == {1: "PTV"}
    numbers = read_rtstruct(study / "structures.dcm").numbers
    for layer in (labels, contours):  # what the export to DICOM needs
        assert layer[1]["metadata"][KEY]["roi_numbers"] == dict(zip(["PTV", "Empty"], numbers, strict=True))
    assert dose[1]["metadata"][KEY]["rtdose"] == str((study / "dose.dcm").resolve())
    np.testing.assert_allclose(labels[1]["affine"], ct[1]["affine"])
    drawn = np.concatenate(contours[0]) * contours[1]["scale"] + contours[1]["translate"]  # where the labels are
    world = np.argwhere(labels[0] == 1) @ labels[1]["affine"][:3, :3].T + labels[1]["affine"][:3, 3]
    apart = np.abs(world.mean(axis=0) - drawn.mean(axis=0))
    assert (apart <= (1.5, 0.5, 0.5)).all()  # half a slice, since slices of the CT lie elsewhere


def test_single_files_become_layers(study):
    for name, kind in (("dose.dcm", "image"), ("structures.dcm", "shapes")):
        path = str(study / name)
        ((_, keywords, found),) = get_reader(path)(path)
        assert found == kind, keywords
    both = [str(study / name) for name in ("dose.dcm", "structures.dcm")]
    assert [kind for *_, kind in get_reader(both)(both)] == ["image", "shapes", "labels"]
    with pytest.raises(InvalidInput, match="there is no CT, RTDOSE or RTSTRUCT file to show"):
        read_layers(str(study / "plan.dcm"))


def test_what_has_no_place_in_common_is_shown_apart(study):
    save_dose(study / "dose.dcm", PIXELS, spacing=(2.0, 2.0, 3.0), FrameOfReferenceUID="9.8")
    with pytest.warns(ReadingNote, match=r"'THORAX', 'dose\.dcm' have different frames of reference"):
        layers = read_layers(str(study))
    assert [kind for *_, kind in layers] == ["image", "image", "shapes", "labels"]  # labels on the CT
    assert layers[3][0].shape == layers[0][0].shape
    with pytest.raises(InvalidInput, match=r"the labels \(PTV\) and the dose have different frames of reference"):
        dvh(dose_of(made(layers[1]), "Gy"), labels_of(made(layers[3])), device="cpu")
    with pytest.warns(ReadingNote, match=r"'PTV'.* another frame of reference"):
        _, contours = read_layers([str(study / "dose.dcm"), str(study / "structures.dcm")])
    assert contours[2] == "shapes"
    dose = uniform_dose()
    apart = dataclasses.replace(dose, frame_of_reference="9.8")
    with pytest.raises(InvalidInput, match="different frames of reference"):
        dvh(apart, contours_of(made(contours), apart), device="cpu")


def test_contours_keep_the_thickness_that_their_file_tells():
    own = stack([square(5)], [-6.0, 0, 3, 6], "own")
    others = stack([square(9)], [-18.0, -12, -6, 0, 3, 6, 9], "others"), stack([square(5)], [-12.0], "single")
    given = with_slices([own, *others])
    dose = linear_dose((0.3, 0.5, 0.7))
    found = contours_of(made(contours_layer(given, "drawn")), dose)
    expected, again = (dvh(dose, structures, device="cpu") for structures in (given, found))
    for one in expected:
        assert again[one.name].volume_cc == pytest.approx(one.volume_cc, rel=1e-6)
    assert expected["single"].volume_cc == pytest.approx(0.6, rel=1e-3)


def test_other_files_are_left_to_others(study, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "short.dcm").write_bytes(b"DICM")
    for path in (study / "readme.txt", tmp_path / "empty", tmp_path / "short.dcm", tmp_path / "gone.dcm"):
        assert get_reader(str(path)) is None
    assert get_reader(get_testdata_file("MR_small.dcm", download=False)) is None
    assert get_reader([str(study / "dose.dcm"), str(study / "readme.txt")]) is None


def test_a_real_study(shared_data):
    folder = str(shared_data / "dose" / "dicompyler_example")
    image, contours, labels = get_reader(folder)(folder)
    assert image[1]["metadata"][KEY]["prescription"] == 14.0
    assert len(contours[0]) == 441
    names = labels[1]["metadata"][KEY]["structures"]
    assert "Areola" not in names.values()  # it is empty
    heart = next(label for label, name in names.items() if name == "Heart")
    voxel_cc = 2.5 * 2.5 * 3.0 / 1000
    expected = counted(shared_data / "dose" / "dicompyler_example")[0]["Heart"].volume_cc
    assert (labels[0] == heart).sum() * voxel_cc == pytest.approx(expected, rel=0.01)
