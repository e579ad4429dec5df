"""What a run shows: curves of the engine for every kind of dose and structures."""

import numpy as np
import pytest
from napari.layers import Labels, Shapes

from napari_gpubio.dose import Dose, LabelStructures, dvh
from napari_gpubio.dose.io import read_dvh_sequence, read_rtdose, read_rtstruct
from napari_gpubio.dose.reader import read_layers
from tests.dock_widgets import moved, show_slices_at
from tests.dose.dicom_files import edited, save_ct, save_dose, save_structures
from tests.dose.gui.panel_samples import (
    AFFINE,
    SAGITTAL,
    SETTINGS,
    SHAPE,
    a_dose,
    check_same,
    dose_values,
    expected,
    label_values,
    organs,
)
from tests.dose.samples import ROTATION, affine_of, at, circle
from tests.sentences import says


@pytest.mark.parametrize("affine", [AFFINE, SAGITTAL, np.eye(4)], ids=["LAS", "sagittal", "RAS"])
def test_curves_are_those_of_the_engine(user, panel, affine):
    user.add_case(affine)
    user.run()
    assert panel.message == ""
    assert user.names == ["lung", "heart"]
    for name in user.names:
        check_same(user.curve(name), expected(a_dose(affine), organs(affine=affine), name))
    assert [one.color for one in panel.controller.curves] == ["#ff0000", "#0080ff"]
    assert panel.empty.isHidden()


def test_dose_and_structures_on_other_grids(user):
    dose = Dose(values=dose_values(), affine=affine_of((2.0, 2.5, 3.0), (-9, -9, -15), ROTATION), unit="Gy")
    labels = LabelStructures(
        labels=label_values((18, 16, 14)), affine=affine_of(1.5, (-8, -7, -9)), structures={1: "a", 2: "b"}
    )
    user.add_dose(dose)
    user.add_organs(labels)
    user.run()
    for name in ("a", "b"):
        check_same(user.curve(name), expected(dose, labels, name))


def test_scale_and_units_of_a_layer_are_honored(user, viewer, panel):
    pixels = viewer.add_image(dose_values().T, name="d")
    assert "in pixels, taken as mm" in panel.inputs_box.sizes.text()
    viewer.layers.remove(pixels)
    viewer.add_image(dose_values().T, scale=(300, 200, 200), units=("um",) * 3, name="d", metadata={"unit": "J/cm2"})
    viewer.add_labels(label_values().T, scale=(300, 200, 200), units=("um",) * 3, name="l")
    assert panel.inputs_box.unit.text() == "J/cm2"
    assert panel.inputs_box.sizes.text() == "20 × 16 × 12 voxels of 0.2 × 0.2 × 0.3 mm"
    user.run()
    voxels = np.count_nonzero(label_values() == 1)
    assert user.curve("label 1").volume_cc == pytest.approx(voxels * 0.2 * 0.2 * 0.3 / 1000)


def test_a_series_follows_the_slider(user, viewer, panel):
    user.add_series()
    user.add_organs()
    show_slices_at(viewer, (5, 0, 20))
    viewer.dims.set_point(0, 0)
    user.run()
    for frame, scale in ((0, 1.0), (2, 0.25), (1, 0.5)):
        viewer.dims.set_point(0, frame)
        user.settle()
        check_same(user.curve("heart"), expected(a_dose(scale=scale), organs(), "heart"))
        assert panel.controller.live.doses[0].name == f"phases [{frame}]"


def test_two_plans_share_the_plot(user, panel):
    user.choose_two_plans(a_dose(scale=0.8))
    user.run()
    check_same(user.curve("lung", second=True), expected(a_dose(scale=0.8), organs()))
    check_same(user.curve("lung"), expected(a_dose(), organs()))
    titles = [panel.table.table.item(row, 0).text() for row in range(6)]
    assert titles == [
        "lung", "lung (2nd plan)", "lung: 2nd − 1st", "heart", "heart (2nd plan)", "heart: 2nd − 1st",
    ]  # fmt: skip
    column = 1 + [str(metric) for metric in panel.table.metrics].index("Mean[Gy]")
    difference = float(panel.table.table.item(2, column).text())
    assert difference == pytest.approx(-0.2 * expected(a_dose(), organs()).mean, abs=0.005)  # to the last known digit


def test_two_label_layers_and_shapes_are_counted_together(user, viewer, panel):
    user.add_case(np.eye(4))
    again = user.add_organs(organs(affine=np.eye(4)), "again")
    square = np.array([[5, 3, 3], [5, 3, 9], [5, 9, 9], [5, 9, 3]], float)
    drawn = viewer.add_shapes([square], shape_type="polygon", name="drawn", edge_color="#00ff00")
    panel.inputs_box.structures.choose(viewer.layers["organs"], again, drawn)
    user.run()
    assert set(user.names) == {"lung (organs)", "heart (organs)", "lung (again)", "heart (again)", "drawn"}
    assert user.curve("drawn").volume_cc == pytest.approx(0.036, rel=0.01)  # 6 x 6 x 1 mm
    assert "single plane" in panel.notes.text()
    assert panel.controller.curves[user.names.index("drawn")].color == "#00ff00"
    drawn.add_polygons([moved(square, 1, 0, 0)])
    user.settle()
    assert user.curve("drawn").volume_cc == pytest.approx(0.072, rel=0.01)


def test_what_the_user_changes_is_followed(user, viewer, filled_panel):
    """Settings, colors, names and the place of a layer."""
    panel, labels = filled_panel, viewer.layers["organs"]
    panel.form.widget("bins").value = 100
    user.settle()
    assert panel.controller.results[0].parameters["histograms"]["bins"] == 100
    assert len(user.curve("lung").doses) < 120
    labels.colormap = {1: "#123456", 2: "#654321", 0: "transparent", None: "red"}
    user.settle()
    assert [one.color for one in panel.controller.curves] == ["#123456", "#654321"]
    panel.table.table.item(0, 0).setText("left lung")
    user.settle()
    assert user.names == ["left lung", "heart"]
    assert labels.metadata["napari_gpubio"]["structures"] == {1: "left lung", 2: "heart"}
    del labels.metadata["napari_gpubio"]["affine"]
    before = user.curve("heart").mean
    labels.translate = (0, 0, 6.0)
    user.settle()
    assert user.curve("heart").mean != pytest.approx(before, rel=0.01)


def test_a_case_of_one_dose_everywhere(user, panel):
    user.add_dose(Dose(values=np.full(SHAPE, 2.0), affine=AFFINE, unit="Gy", name="dose"))
    user.add_organs()
    user.run()
    assert user.curve("lung").dose_at_percent(95) == 2.0
    panel.axes_box.log.setChecked(True)
    panel.axes_box.kind.setCurrentText("differential")
    user.settle()
    user.draw_isodose()
    assert panel.message == ""


def ring(radius):
    return [("CLOSED_PLANAR", at(circle(radius, 64, (24.0, -6.0)), z)) for z in (30.0, 34.0, 38.0, 42.0)]


@pytest.fixture
def study(tmp_path):
    """A dose, and a target inside of a body."""
    pixels = np.tile(np.arange(100, 112, dtype=np.uint16) * 50, (5, 10, 1))
    save_dose(tmp_path / "dose.dcm", pixels, spacing=(3.0, 3.0, 4.0))
    save_structures(tmp_path / "structures.dcm", [("body", ring(11.0)), ("target", ring(6.0))])
    return tmp_path


def opened(viewer, folder):
    for data, keywords, kind in read_layers(str(folder)):
        getattr(viewer, f"add_{kind}")(data, **keywords)


def test_contours_are_counted_where_labels_would_lose_overlaps(user, viewer, panel, study, tmp_path):
    """The contours of a study are chosen first; the DVH Sequence has the numbers of their file."""
    opened(viewer, study)
    (chosen,) = panel.inputs_box.structures.layers
    assert isinstance(chosen, Shapes)
    user.run()
    assert user.names == ["body", "target"]
    dose, structures = read_rtdose(study / "dose.dcm"), read_rtstruct(study / "structures.dcm")
    panel.export.write_dicom(tmp_path / "out.dcm")
    written = {one.name: one for one in read_dvh_sequence(tmp_path / "out.dcm", {1: "body", 2: "target"})}
    for one in structures.structures:
        found, reference = user.curve(one.name), dvh(dose, one, SETTINGS, device="cpu")[one.name]
        assert found.volume_cc == pytest.approx(reference.volume_cc, rel=1e-4)
        assert found.mean == pytest.approx(reference.mean, rel=1e-4)
        assert written[one.name].volume_cc == pytest.approx(found.volume_cc, rel=1e-8)
        assert written[one.name].dose_at_percent(50) == pytest.approx(found.dose_at_percent(50), abs=0.01)
    assert "tick 'structures' instead to paint" in panel.notes.text()
    exact = user.curve("body").volume_cc
    panel.inputs_box.structures.choose(next(layer for layer in viewer.layers if isinstance(layer, Labels)))
    user.settle()
    assert user.curve("body").volume_cc < 0.8 * exact  # without the target
    assert "Tick 'structures contours' instead to count structures that overlap" in panel.notes.text()


def test_what_was_assumed_of_ct_dose_and_structures_shows_in_the_panel(user, viewer, panel, study):
    save_ct(study, np.zeros((5, 16, 16), np.int16), each=lambda n: {"remove": n == 2})
    edited(study / "dose.dcm", lambda dataset: setattr(dataset, "DoseSummationType", "BEAM"))
    bent = ("CLOSED_PLANAR", np.array([(20, -10, 30), (28, -10, 30), (28, -2, 36), (20, -2, 30.0)]))
    save_structures(study / "structures.dcm", [("body", [*ring(11.0), bent])])
    opened(viewer, study)
    user.run()
    for facts in (("3 to 6 mm apart",), ("DoseSummationType BEAM",), ("1 contours of 'body'", "left out")):
        assert says(panel.notes.text(), *facts)
        assert panel.notes.text().count(facts[0]) == 1


def test_a_file_that_cannot_be_read_is_noted_in_the_panel(user, viewer, panel, study):
    (study / "slice.dcm").write_bytes((study / "dose.dcm").read_bytes()[:250])
    opened(viewer, study)
    user.run()
    assert "slice.dcm cannot be read as DICOM" in panel.notes.text()
    assert panel.notes.text().count("slice.dcm") == 1
