"""The panel of BIDS datasets: what is listed, what opens in place of what, and what is said of what does not."""

import shutil
import time

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.layers._layer_actions import _duplicate_layer
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from napari_gpubio.core.napari_io import stored_array
from napari_gpubio.core.reading import ReadingNote
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.gui.history import history_of
from napari_gpubio.workflows.bids import napari_io
from napari_gpubio.workflows.gui import BidsPanel
from tests.dock_widgets import MILLISECONDS, docked, script_of, undo, until_the_end, wait_until
from tests.workflows.bids_samples import made

SHAPE = (5, 6, 4)


def image(path, values):
    write_volume(made(path.parent) / path.name, values, np.diag([2.0, 2.0, 2.0, 1.0]))


def random(seed, shape=SHAPE):
    return np.random.default_rng(seed).random(shape, np.float32)


@pytest.fixture
def study(tmp_path):
    """Three subjects: one with labels, one with two sessions, and one whose scan has no b-vectors."""
    folder = made(tmp_path, "study")
    (folder / "dataset_description.json").write_text('{"Name": "study", "BIDSVersion": "1.10.0"}')
    image(folder / "sub-01" / "anat" / "sub-01_T1w.nii.gz", random(1))
    image(folder / "sub-01" / "anat" / "sub-01_dseg.nii.gz", np.repeat(np.int16([0, 1, 2, 2, 1]), 24).reshape(SHAPE))
    for session in "ab":
        image(folder / "sub-02" / f"ses-{session}" / "anat" / f"sub-02_ses-{session}_T1w.nii.gz", random(ord(session)))
    (folder / "sub-02" / "ses-b" / "anat" / "T1w.nii.gz").touch()
    image(folder / "sub-03" / "dwi" / "sub-03_dwi.nii.gz", random(3, (*SHAPE, 3)))
    (folder / "sub-03" / "dwi" / "sub-03_dwi.bval").write_text("0 1000 1000")
    return folder


@pytest.fixture
def viewer(napari_in_tests):
    return ViewerModel()


@pytest.fixture
def panel(viewer, qtbot):
    yield from until_the_end(qtbot, viewer, docked(viewer, BidsPanel(viewer), "BIDS dataset"))


@pytest.fixture
def listed(panel, study, qtbot):
    panel.list_subjects(study)
    settled(qtbot, panel)
    return panel


def settled(qtbot, panel):
    wait_until(qtbot, lambda: not panel._listing.is_busy and not panel.is_busy)


def opened(qtbot, panel, name):
    """Open a subject; returns the names of the layers."""
    history_of(panel.viewer).note_act()
    assert panel.table.pick(name)
    with qtbot.waitSignal(panel.run_finished, timeout=MILLISECONDS):
        panel.run_button.click()
    return names_in(panel.viewer)


def names_in(viewer):
    return [layer.name for layer in viewer.layers]


def texts(table):
    """The rows in sight; columns that are hidden are None."""
    return [
        [None if table.isColumnHidden(n) else table.item(row, n).text() for n in range(table.columnCount())]
        for row in range(table.rowCount())
        if not table.isRowHidden(row)
    ]


def test_each_session_has_a_row_with_what_it_has_and_what_is_wrong(listed):
    assert texts(listed.table) == [
        ["01", "✓", "", "✓", None, None, ""],
        ["02/a", "✓", "", "", None, None, ""],
        ["02/b", "✓", "", "", None, None, "1"],
        ["03", "", "✓", "", None, None, "1"],
    ]
    tips = [[listed.table.item(row, column).toolTip() for column in (1, 6)] for row in range(4)]
    assert tips[0] == ["sub-01_T1w.nii.gz", ""]
    assert "sub-02/ses-b/anat/T1w.nii.gz is left out" in tips[2][1]
    assert tips[3] == ["no T1-weighted image", "sub-03_dwi.nii.gz has no b-vectors (.bvec), beside it or inherited."]
    assert listed.about_label.text().startswith("subjects: 3 · sessions: 2 · with problems: 2")
    assert listed.folder_label.text() == "study"
    assert listed.table.picked.name == "sub-01"


def test_a_subject_takes_the_place_of_another_one_as_one_step(listed, viewer, qtbot):
    mine = viewer.add_image(np.zeros((3, 3, 3)), name="mine")
    first = opened(qtbot, listed, "sub-01")
    assert first == ["mine", "sub-01_T1w", "sub-01_dseg"]
    assert "sub-01 is shown; layers: 2" in listed.status
    history = history_of(viewer)
    assert history.can_undo
    steps = len(history.done)
    assert opened(qtbot, listed, "sub-02/ses-b") == ["mine", "sub-02_ses-b_T1w"]
    assert "T1w.nii.gz is left out" in listed.message
    assert history.can_undo
    assert len(history.done) == steps + 1
    undo(viewer)
    assert names_in(viewer) == first
    undo(viewer, 1)
    assert names_in(viewer) == ["mine", "sub-02_ses-b_T1w"]
    assert mine in viewer.layers


def test_beside_the_others_and_what_the_user_made_of_layers_stay(listed, viewer, qtbot):
    opened(qtbot, listed, "sub-01")
    listed.beside_box.setChecked(True)
    assert opened(qtbot, listed, "sub-03") == ["sub-01_T1w", "sub-01_dseg", "sub-03_dwi"]
    viewer.layers["sub-01_dseg"].data_setitem((np.array([0]), np.array([0]), np.array([0])), 7)
    viewer.layers.selection = {viewer.layers["sub-01_T1w"]}
    _duplicate_layer(viewer.layers)  # as a user does
    listed.beside_box.setChecked(False)
    assert opened(qtbot, listed, "sub-02/ses-a") == ["sub-01_T1w copy", "sub-01_dseg", "sub-02_ses-a_T1w"]
    assert "'sub-01_dseg' was painted on, and stays" in listed.message


@pytest.mark.parametrize("when", ["before the panel is opened", "after"])
def test_a_dropped_dataset_is_listed_and_its_subject_picked(viewer, study, qtbot, when):
    panel = docked(viewer, BidsPanel(viewer), "BIDS dataset") if when == "after" else None
    with pytest.warns(ReadingNote, match="'BIDS dataset'"):
        layers = napari_io.read_layers(str(study / "sub-02"))
    for data, keywords, _ in layers:
        viewer.add_image(data, **keywords)
    panel = panel or docked(viewer, BidsPanel(viewer), "BIDS dataset")
    qtbot.addWidget(panel)
    settled(qtbot, panel)
    assert panel.folder == study
    assert panel.table.picked.name == "sub-02/ses-a"
    assert opened(qtbot, panel, "sub-01") == ["sub-01_T1w", "sub-01_dseg"], "in place of what was dropped"
    panel.teardown()


def test_rows_are_found_by_typing_and_opened_by_keys_and_a_double_click(listed, viewer, qtbot):
    for text, expected in (("02", ["02/a", "02/b"]), ("SES-B", ["02/b"]), ("", ["01", "02/a", "02/b", "03"])):
        listed.search_line.setText(text)
        assert [row[0] for row in texts(listed.table)] == expected
    assert listed.table.picked.name == "sub-02/ses-b", "the one in sight stays picked"
    listed.search_line.setText("02")
    QTest.keyClick(listed.search_line, Qt.Key.Key_Up)
    assert listed.table.picked.name == "sub-02/ses-a"
    with qtbot.waitSignal(listed.run_finished, timeout=MILLISECONDS):
        QTest.keyClick(listed.search_line, Qt.Key.Key_Return)
    assert names_in(viewer) == ["sub-02_ses-a_T1w"]
    QTest.keyClick(listed.table, Qt.Key.Key_Down)
    with qtbot.waitSignal(listed.run_finished, timeout=MILLISECONDS):
        listed.table.doubleClicked.emit(listed.table.currentIndex())
    assert names_in(viewer) == ["sub-02_ses-b_T1w"]


def test_what_cannot_be_shown_is_said_and_nothing_is_lost(listed, viewer, study, tmp_path, qtbot):
    before = opened(qtbot, listed, "sub-01")
    shutil.rmtree(study / "sub-02" / "ses-a")
    assert opened(qtbot, listed, "sub-02/ses-a") == before
    assert "sub-02/ses-a is no more in study" in listed.message
    shutil.rmtree(study / "sub-03")
    assert opened(qtbot, listed, "sub-03") == before
    assert "no subject '03'; it has 01" in listed.message
    damaged = study / "sub-02" / "ses-b" / "anat" / "sub-02_ses-b_T1w.nii.gz"
    damaged.write_bytes(b"no image")
    assert opened(qtbot, listed, "sub-02/ses-b") == before
    assert "that can be shown (sub-02_ses-b_T1w.nii.gz is left out" in listed.message
    for folder in (made(tmp_path, "other"), tmp_path / "nowhere"):
        listed.list_subjects(folder)
        settled(qtbot, listed)
        assert folder.name in listed.message
        assert listed.folder == study
        assert listed.table.rowCount() == 4
        assert "subjects: 3" in listed.about_label.text()
    shutil.rmtree(study)
    assert opened(qtbot, listed, "sub-01") == before
    assert "is no folder" in listed.message


def test_nothing_is_opened_or_copied_without_a_dataset(panel):
    panel.run_button.click()
    assert "choose its folder" in panel.message
    panel.copy_script()
    assert "open a subject" in panel.message


def test_the_script_reads_what_is_shown(listed, viewer, study, qtbot, tmp_path, monkeypatch):
    names = opened(qtbot, listed, "sub-01")
    with qtbot.waitSignal(listed.run_finished, timeout=MILLISECONDS):
        script_of(listed)
    text, found = QApplication.clipboard().text(), {}
    assert str(study / "sub-01") in text, "files, which no array stands for"
    monkeypatch.chdir(tmp_path)
    exec(text, found)
    image, labels = found["results"]
    np.testing.assert_array_equal(image.array, stored_array(viewer.layers[names[0]]))
    np.testing.assert_array_equal(labels.array, stored_array(viewer.layers[names[1]]))


def test_hundreds_of_subjects_do_not_block_the_window(panel, tmp_path, qtbot, monkeypatch):
    for number in range(400):
        made(tmp_path, "many", f"sub-{number:03d}", "anat")
        (tmp_path / "many" / f"sub-{number:03d}" / "anat" / f"sub-{number:03d}_T1w.nii.gz").touch()
    spent, add = [], panel.table.add

    def timed(*arguments):
        begun = time.thread_time()
        add(*arguments)
        spent.append(time.thread_time() - begun)

    monkeypatch.setattr(panel.table, "add", timed)
    panel.list_subjects(tmp_path / "many")
    settled(qtbot, panel)
    assert len(spent) == panel.table.rowCount() == 400
    assert max(spent) < 0.05
    begun = time.thread_time()
    panel.search_line.setText("39")
    assert time.thread_time() - begun < 0.05
    assert len(texts(panel.table)) == 14
