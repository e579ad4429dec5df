"""A sixth engine: its record, panel, verb, script, session and undo need no other line anywhere."""

import dataclasses
import re

import numpy as np
import pytest
from napari.components import ViewerModel
from qtpy.QtWidgets import QApplication

from napari_gpubio.core.command_line import Parser
from napari_gpubio.core.napari_io import carried, volume_of
from napari_gpubio.core.operations import (
    STORE,
    HeldVolume,
    State,
    Store,
    Volume,
    from_graph,
    open_session,
    rerun,
    save_session,
    show,
)
from napari_gpubio.core.operations.commands import add_verb
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.report import add_common
from napari_gpubio.core.volumes import read_volume, write_volume
from napari_gpubio.gui.history import history_of
from tests.dock_widgets import docked, save_scripts_as, script_of, undo, until_the_end, wait_until
from tests.gui.sixth_engine import AFFINE, VALUES, Absolute, Threshold, ThresholdPanel, add, kept, run, use


@pytest.fixture
def viewer(napari_in_tests):
    """A viewer without a window."""
    return ViewerModel()


@pytest.fixture
def panel(viewer, qtbot):
    panel = docked(viewer, ThresholdPanel(viewer), "Threshold")
    panel.choose_device("cpu")
    yield from until_the_end(qtbot, viewer, panel)


def test_a_run_and_what_its_layers_carry(viewer, panel, qtbot):
    add(viewer)
    run(qtbot, panel, value=0.25)
    np.testing.assert_array_equal(kept(panel), np.where(VALUES >= 0.25, VALUES, 0))
    assert [layer.visible for layer in viewer.layers] == [True, True, False]
    record = record_of(panel.layer_of("dropped"))
    assert record.name == "dropped"
    assert record.of.level == Absolute(value=0.25)
    assert record.of == panel.operation()
    run(qtbot, panel, level="share", percent=20.0)
    assert len(viewer.layers) == 3  # changed in their place
    np.testing.assert_array_equal(kept(panel), np.where(np.float32(0.2) * VALUES.max() <= VALUES, VALUES, 0))
    run(qtbot, panel, level="absolute")
    assert panel.operation().level == Absolute(value=0.25)  # what was set there comes back


def test_rows_of_the_chosen_alternative_only(viewer, panel):
    rows = panel.form.settings
    shown = {path[-1] for path, (layout, row) in rows._rows.items() if layout.isRowVisible(row)}
    assert shown == {"level", "value", "fill"}
    use(panel, level="share")
    shown = {path[-1] for path, (layout, row) in rows._rows.items() if layout.isRowVisible(row)}
    assert shown == {"level", "percent", "fill"}


def test_a_number_that_nobody_edits_is_not_rounded(viewer, panel, qtbot):
    image = HeldVolume.of(Volume(array=VALUES, affine=AFFINE), STORE)
    exact = Threshold(image=image, level=Absolute(value=0.1 + 0.2), fill=1e-17)
    panel.form.show(exact)
    assert panel.operation() == exact
    run(qtbot, panel)
    assert record_of(panel.layer_of("kept")).of == exact


# -- inputs are bound by identity -------------------------------------------------------------------------------------


def test_nothing_that_happens_to_layers_runs_or_changes_anything(viewer, panel, qtbot):
    image, other, mask = add(viewer), add(viewer, VALUES + 1, "t2"), add(viewer, VALUES > 0.5, "mask")
    panel.form.boxes["image"].choose(image)
    panel.form.boxes["mask"].choose(mask)
    panel.live_box.setChecked(True)
    run(qtbot, panel)
    before, runs = record_of(panel.layer_of("kept")).of, STORE.runs
    for change in (
        lambda: setattr(other, "name", "t1 [1]"),
        lambda: setattr(image, "name", "renamed"),
        lambda: viewer.layers.move(0, 3),
        lambda: setattr(image, "visible", False),
        lambda: viewer.layers.remove("t1 [1]"),
        lambda: viewer.layers.remove("renamed"),
        lambda: viewer.layers.remove("mask"),
        lambda: add(viewer, VALUES + 2, "t1"),
    ):
        change()
        qtbot.wait(30)
        assert panel.form.boxes["image"].layer == image
        assert panel.form.boxes["mask"].layer == mask
        assert not panel.running
    assert STORE.runs == runs
    assert panel.form.boxes["image"].currentText() == "deleted: renamed"
    assert panel.why_stale() == []
    panel.run()
    assert re.fullmatch("'(renamed|mask)' was deleted; choose another layer, or open it again", panel.message)
    assert record_of(panel.layer_of("kept")).of == before


def test_a_result_is_not_shown_in_the_layer_of_another_image_or_place(viewer, panel, qtbot):
    first = add(viewer)
    second = viewer.add_image(VALUES.T + 1, name="t2", affine=first.affine.affine_matrix * [2, 1, 1, 1])
    of_first, of_second = [], []
    for image, layers in ((first, of_first), (second, of_second), (first, of_first), (second, of_second)):
        panel.form.boxes["image"].choose(image)
        run(qtbot, panel, value=0.25)
        layers.append(panel.layer_of("kept"))
        np.testing.assert_array_equal(kept(panel), np.where(image.data.T >= 0.25, image.data.T, 0))
        np.testing.assert_array_equal(layers[-1].affine.affine_matrix, image.affine.affine_matrix)
    assert of_first[0] == of_first[1] != of_second[0] == of_second[1]
    second.scale = (1, 1, 5)
    run(qtbot, panel)
    assert panel.layer_of("kept") not in (of_first[0], of_second[0])
    assert volume_of(of_second[0]).sum() == kept(panel).sum()  # the earlier one stays


def test_live_runs_follow_edits_of_the_form(viewer, panel, qtbot):
    add(viewer)
    run(qtbot, panel)
    panel.live_box.setChecked(True)
    with qtbot.waitSignal(panel.run_finished):
        use(panel, value=0.75)
    np.testing.assert_array_equal(kept(panel), np.where(VALUES >= 0.75, VALUES, 0))


def test_what_is_painted_on_is_another_input(viewer, panel, qtbot):
    add(viewer)
    labels = viewer.add_labels(np.ones(VALUES.T.shape, int), name="mask", scale=(1, 1, 2))
    panel.form.boxes["mask"].choose(labels)
    run(qtbot, panel, value=0.0)
    first = panel.operation()
    viewer.dims.set_current_step(0, 0)
    labels.data_setitem((np.array([0]), np.array([0]), np.array([0])), 0)
    assert panel.why_stale() == ["another mask"]
    run(qtbot, panel)
    assert panel.operation().mask != first.mask
    assert kept(panel)[0, 0, 0] == 0
    undo(viewer)
    assert kept(panel)[0, 0, 0] == VALUES[0, 0, 0]


# -- stale, undo ------------------------------------------------------------------------------------------------------


def test_why_a_result_is_not_what_the_form_says(viewer, panel, qtbot):
    first, second = add(viewer), add(viewer, VALUES + 1, "t2")
    panel.form.boxes["image"].choose(first)
    assert panel.stale_label.isHidden()
    run(qtbot, panel)
    use(panel, fill=3.0)
    assert panel.why_stale() == ["Fill 0 instead of 3"]
    assert "Fill 0 instead of 3" in panel.stale_label.text()
    use(panel, fill=0.0, level="share")
    assert panel.why_stale() == ["Level absolute instead of share"]
    use(panel, level="absolute")
    assert panel.stale_label.isHidden()
    panel.form.boxes["image"].choose(second)
    assert panel.why_stale() == ["another image"]


def test_undo_and_redo_run_nothing_again(viewer, panel, qtbot):
    add(viewer)
    for value in (0.25, 0.5, 0.75):
        run(qtbot, panel, value=value)
    runs = STORE.runs
    for by, value in ((-1, 0.5), (-1, 0.25), (1, 0.5)):
        undo(viewer, by)
        wait_until(qtbot, lambda: not panel.running)
        assert panel.form.settings.widget("value").value == value
        np.testing.assert_array_equal(kept(panel), np.where(value <= VALUES, VALUES, 0))
        assert panel.why_stale() == []
    assert STORE.runs == runs
    run(qtbot, panel, value=0.9)
    assert history_of(viewer).can_undo
    assert not history_of(viewer).undone


def test_settings_edited_during_a_run_do_not_touch_it(viewer, panel, qtbot, monkeypatch):
    add(viewer)
    use(panel, value=0.25)
    steps = panel.make_steps

    def edited(stop):
        made = steps(stop)
        use(panel, value=0.75)
        viewer.layers.remove("t1")
        return made

    monkeypatch.setattr(panel, "make_steps", edited)
    run(qtbot, panel)
    np.testing.assert_array_equal(kept(panel), np.where(VALUES >= 0.25, VALUES, 0))
    assert panel.operation().level == Absolute(value=0.25)
    assert panel.why_stale() == ["Value 0.25 instead of 0.75"]


# -- script, session, verb --------------------------------------------------------------------------------------------


def test_the_script_gives_what_is_on_screen(viewer, panel, qtbot, tmp_path, monkeypatch):
    write_volume(tmp_path / "t1.nii.gz", VALUES, AFFINE)
    add(viewer, metadata={"path": str(tmp_path / "t1.nii.gz")})
    run(qtbot, panel, level="share")
    text = script_of(panel)
    assert "level=Share()" in text
    monkeypatch.chdir(tmp_path)
    exec(text, {})
    np.testing.assert_array_equal(read_volume(tmp_path / "threshold kept.nii.gz")[0], kept(panel))


def test_the_script_saves_what_no_file_holds_beside_it(viewer, panel, qtbot, tmp_path, monkeypatch):
    add(viewer)
    run(qtbot, panel)
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    text = script_of(panel)
    assert (tmp_path / "script.py").read_text() == text == QApplication.clipboard().text()
    assert len([*tmp_path.glob("*.npy")]) == 1
    monkeypatch.chdir(tmp_path)
    exec(text, {})
    np.testing.assert_array_equal(read_volume(tmp_path / "threshold kept.nii.gz")[0], kept(panel))


def test_a_session_of_its_layers(viewer, panel, qtbot, tmp_path):
    add(viewer)
    run(qtbot, panel, value=0.25)
    record = record_of(panel.layer_of("kept"))
    draft = dataclasses.replace(record.of, fill=2.0)
    save_session(tmp_path / "s.zip", State((show(record, "kept", device="cpu"),), (("threshold", draft),)))
    store = Store()
    opened = open_session(tmp_path / "s.zip", store)
    assert dict(opened.state.drafts)["threshold"] == draft
    ((shown, found),) = rerun(opened.state, device="cpu")
    assert shown.digest == found
    held = carried(panel.layer_of("kept"), "record")
    assert [*from_graph({name: one for name, one in held.items() if name != "output"}).values()][-1] == record.of


def test_its_verb(tmp_path, capsys):
    write_volume(tmp_path / "t1.nii.gz", VALUES, AFFINE)
    parser = Parser(prog="napari-gpubio")
    verbs = parser.add_subparsers()
    add_verb(verbs, Threshold)
    add_common(verbs.choices)
    words = ["threshold", str(tmp_path / "t1.nii.gz"), "--level", "share", "--percent", "25", "--out"]
    options = parser.parse_args([*words, str(tmp_path / "out.nii")])
    assert options.run(options) == 0
    expected = np.where(np.float32(0.25) * VALUES.max() <= VALUES, VALUES, 0)
    np.testing.assert_array_equal(read_volume(tmp_path / "out.nii")[0], expected)


def test_bad_input_is_a_sentence_and_loses_nothing(viewer, panel, qtbot):
    panel.run_button.click()
    assert "there is no image; open one, and choose it" in panel.message
    add(viewer)
    run(qtbot, panel, value=0.25)
    before = kept(panel).copy()
    panel.form.boxes["mask"].choose(viewer.add_labels(np.ones((3, 3, 3), int), name="small"))
    run(qtbot, panel)
    assert panel.message
    np.testing.assert_array_equal(kept(panel), before)
