"""What the panel shows is bound to what it was made from, whatever becomes of layers, and its record makes it again."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio.core.operations import STORE, State, Store, digest, open_session, run, save_session
from napari_gpubio.core.steps import drive
from napari_gpubio.dose.gui import DosePanel
from napari_gpubio.dose.live import LiveDvh
from napari_gpubio.dose.operations import DoseOf, OpenDose
from napari_gpubio.dose.reader import read_layers
from napari_gpubio.gui.looks import show_layers
from napari_gpubio.gui.session_window import shown_steps, take_layers
from tests.dose.dicom_files import save_dose, save_structures
from tests.dose.gui.panel_samples import a_dose, dose_values, organs
from tests.dose.samples import at, circle

SQUARE = np.array([[5, 3, 3], [5, 3, 9], [5, 9, 9], [5, 9, 3]], float)


@pytest.fixture
def runs(monkeypatch):
    """How many calculations were begun."""
    begun, steps = [], LiveDvh.steps

    def counted(*arguments, **keywords):
        begun.append(arguments)
        return steps(*arguments, **keywords)

    monkeypatch.setattr(LiveDvh, "steps", counted)
    return begun


@pytest.fixture
def live(user, viewer, panel):
    """Two doses, one of them of a series, labels and contours, counted; and layers beside them."""
    series = user.add_series()
    labels = user.choose_two_plans(a_dose(np.eye(4)))
    drawn = viewer.add_shapes([SQUARE], shape_type="polygon", name="drawn")
    viewer.add_image(dose_values().T, name="other")
    viewer.add_labels(np.ones((9, 9, 9), np.uint8), name="more")
    panel.inputs_box.dose_box.choose(series)
    panel.inputs_box.structures.choose(labels, drawn)
    user.run()
    assert panel.message == ""
    assert len(panel.controller.curves) == 6
    return panel


def shown(panel):
    """Digests of the curves on screen, and the id of their operation."""
    return [digest(one) for one in panel.controller.results], panel.operation().id


def rename(viewer, name):
    viewer.layers[name].name = f"{name} of a user"


def rename_and_delete(viewer, name):
    rename(viewer, name)
    viewer.layers.remove(f"{name} of a user")


def reorder(viewer, name):
    viewer.layers.move(viewer.layers.index(name), 0)
    viewer.layers.move(viewer.layers.index(name), len(viewer.layers))


CHANGES = {
    "renamed": rename,
    "hidden": lambda viewer, name: setattr(viewer.layers[name], "visible", False),
    "reordered": reorder,
    "deleted": lambda viewer, name: viewer.layers.remove(name),
    "renamed, then deleted": rename_and_delete,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_becomes_of_layers_starts_no_run_and_changes_nothing(user, viewer, live, runs, subtests, change):
    before = shown(live)
    for name in ("more", "other", "drawn", "B", "organs", "phases", "dose"):
        with subtests.test(name):
            CHANGES[change](viewer, name)
            user.settle()
            assert runs == []
            assert shown(live) == before
            assert live.message == ""
    live.form.widget("bins").value = 100
    user.settle()
    assert len(live.controller.curves) == 6
    if "deleted" in change:
        assert live.message.endswith("was deleted; choose another layer, or open it again")
        assert shown(live) == before
    else:
        assert (live.message, len(runs)) == ("", 2)
        assert shown(live) != before


def test_a_new_layer_starts_no_run_either(user, viewer, live, runs):
    before = shown(live)
    user.add_dose(a_dose(scale=3.0), name="newer")
    user.add_organs(organs(), "newer organs")
    user.settle()
    assert (runs, shown(live)) == ([], before)


def made_again(panel):
    """What the record of the panel makes from nothing."""
    fresh = Store()
    fresh.adopt_arrays(STORE)
    return run(panel.operation(), store=fresh, device="cpu").curves


def check_made_again(panel):
    curves = panel.controller.curves
    made = made_again(panel)
    assert [one.name for one in made] == [f"{one.dvh.name} (dose 2)" if one.second else one.dvh.name for one in curves]
    for one, again in zip(curves, made, strict=True):
        np.testing.assert_array_equal(one.dvh.doses, again.doses)
        np.testing.assert_array_equal(one.dvh.volumes_cc, again.volumes_cc)


def test_the_record_makes_the_curves_again_after_painting_and_when_layers_are_gone(user, viewer, live):
    check_made_again(live)
    first = live.operation()
    organs_layer = viewer.layers["organs"]
    organs_layer.brush_size = 4
    organs_layer.paint((5, 6, 6), 2)
    user.settle()
    painted = live.operation()
    assert painted != first
    check_made_again(live)
    organs_layer.undo()
    user.settle()
    assert digest(made_again(live)) == digest(run(first, device="cpu").curves)
    organs_layer.paint((5, 6, 6), 2)
    user.settle()
    assert digest(made_again(live)) == digest(run(painted, device="cpu").curves)
    viewer.layers.clear()
    user.scale_doses(2.0)
    assert live.operation().scale == 2.0
    check_made_again(live)


def test_settings_that_wait_for_a_run_are_not_in_the_record(user, live, qtbot):
    """An edit of the form while curves are shown changes the record when the curves change, and not before."""
    before = live.operation()
    live.form.widget("bins").value = 200
    assert live.operation() == before
    user.settle()
    assert live.operation().settings.bins == 200
    draft = live.take_draft()()
    assert draft == live.operation()


def test_settings_of_contours_have_rows_where_there_are_contours(user, viewer, live):
    drawn, labels = viewer.layers["drawn"], viewer.layers["organs"]
    live.form.widget("interpolation").value = "shape"
    user.settle()
    assert live.operation().settings.interpolation == "shape"
    live.inputs_box.structures.choose(labels)
    user.settle()
    assert live.message == ""
    assert live.operation().settings.interpolation == "slab"
    live.inputs_box.structures.choose(labels, drawn)
    user.settle()
    assert live.operation().settings.interpolation == "shape", "what was chosen comes back with its row"


def test_a_dose_of_a_file_is_that_file(user, viewer, panel, tmp_path):
    pixels = np.tile(np.arange(100, 112, dtype=np.uint16) * 50, (5, 10, 1))
    save_dose(tmp_path / "dose.dcm", pixels, spacing=(3.0, 3.0, 4.0))
    ring = [("CLOSED_PLANAR", at(circle(9.0, 64, (24.0, -6.0)), z)) for z in (30.0, 34.0, 38.0, 42.0)]
    save_structures(tmp_path / "structures.dcm", [("body", ring)])
    for data, keywords, kind in read_layers(str(tmp_path)):
        getattr(viewer, f"add_{kind}")(data, **keywords)
    user.run()
    made = panel.operation().doses[0].of
    assert isinstance(made, OpenDose)
    assert made.file.path.endswith("dose.dcm")
    check_made_again(panel)
    layer = next(one for one in viewer.layers if "dose" in one.name)
    shown = {one.name: one.output for one in drive(shown_steps(take_layers(viewer.layers)[0]))}
    assert shown[layer.name] == made.output(), "a session opens the file, too"
    layer.data = 2 * layer.data
    user.settle()
    assert isinstance(panel.operation().doses[0].of, DoseOf), "the values are not the file's any more"
    check_made_again(panel)


def test_the_form_of_a_session_comes_back(user, viewer, live, qtbot, tmp_path):
    live.form.widget("bins").value = 200
    live.scale_box.scale.box.setValue(1.23456789012)
    user.prescribe(2.5)
    user.choose_columns("D95%[Gy], Max")
    live.constraints.text.setPlainText("target: Max[Gy] < 45")
    user.settle()
    draft = live.take_draft()()
    taken, _ = take_layers(viewer.layers)
    other = ViewerModel()
    other.dims.point = viewer.dims.point
    for one in drive(shown_steps(taken)):
        show_layers(other, one, run(one.output, device="cpu"))
    there = len(other.layers)
    again = DosePanel(other)
    qtbot.addWidget(again)
    again.choose_device("cpu")
    assert again.show_draft(draft)
    assert again.take_draft()() == draft
    assert len(other.layers) == there, "nothing is there twice"
    assert [one.name for one in again.inputs_box.structures.layers] == ["organs", "drawn"]
    again.teardown()


def test_a_session_has_the_settings_of_the_panel_and_all_that_they_need(live, tmp_path):
    draft = live.take_draft()()
    save_session(tmp_path / "s.zip", State(drafts=(("DosePanel", draft),)))
    store = Store()
    ((name, again),) = open_session(tmp_path / "s.zip", store).state.drafts
    assert (name, again) == ("DosePanel", draft)
    assert digest(run(again, store=store, device="cpu").curves) == digest(run(draft, device="cpu").curves)
