"""Results in a panel: numbers, findings, and files that are written and read in workers."""

import gc
import threading
import weakref

import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QLabel, QScrollArea

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.gui import theme
from napari_gpubio.gui.number_table import Number, NumberTable
from napari_gpubio.gui.results import ResultBox
from tests.dock_widgets import button, docked, texts

DIALOG = "napari_gpubio.gui.file_dialogs.QFileDialog"
ROWS = (
    Number(group="Energy", name="absorbed", text="0.61", unit="", note="all labels"),
    Number(group="Energy", name="escaped", text="0.39", status="warning"),
    Number(group="Time", name="run", text="1.2", unit="s", color="#ff0000"),
)


@pytest.fixture
def box(qtbot):
    box = ResultBox("No result yet: press Run.")
    qtbot.addWidget(box)
    box.show()
    box.reports = []
    box.files.status_changed.connect(lambda text: box.reports.append(("status", text)))
    box.files.error_occurred.connect(lambda text: box.reports.append(("error", text)))
    yield box
    box.detach()


def finish(qtbot, box):
    qtbot.waitUntil(lambda: not box.files.is_busy, timeout=10_000)


def answer(monkeypatch, dialog, path):
    monkeypatch.setattr(f"{DIALOG}.{dialog}", lambda *_, **__: (str(path), "All files (*)"))


# -- numbers ----------------------------------------------------------------------------------------------------------


def test_a_result_and_none(box):
    save, always = box.add_button("Save…", "", lambda: None), box.add_button("Open…", "", needs_result=False)
    assert texts(box)[0] == "No result yet: press Run."
    assert not save.isEnabled()
    assert always.isEnabled()
    box.show_numbers(ROWS, [("warning", "Few photons < 100."), ("ok", "Energy is conserved.")])
    assert box.table.isVisible()
    assert save.isEnabled()
    assert not any("No result" in text for text in texts(box) if text)
    findings = next(text for text in texts(box) if "Energy is conserved" in text)
    assert "Few photons &lt; 100." in findings
    assert theme.WARNING in findings
    box.clear()
    assert box.table.rows == ()
    assert not box.table.isVisible()
    assert not save.isEnabled()


def test_the_table_shows_and_copies_all_of_a_row(box):
    box.show_numbers(ROWS)
    energy, time = (box.table.topLevelItem(index) for index in range(2))
    assert [energy.text(0), time.text(0)] == ["Energy", "Time"]
    assert energy.child(0).toolTip(0) == "all labels"
    assert energy.child(1).foreground(1).color().name() == theme.WARNING
    assert time.child(0).icon(0).pixmap(4).toImage().pixelColor(1, 1).name() == "#ff0000"
    assert energy.child(0).icon(0).isNull()
    copied = "Energy\tabsorbed\t0.61\t\nEnergy\tescaped\t0.39\t\nTime\trun\t1.2\ts"
    assert box.table.copied_text() == copied
    time.child(0).setSelected(True)
    QTest.keyClick(box.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QApplication.clipboard().text() == "Time\trun\t1.2\ts"


@pytest.mark.parametrize(
    ("shown", "copied"),
    [("1,234,567", "1234567"), ("12,346 ± 78", "12346 ± 78"), ("< 2,465", "< 2465"), ("1, 234", "1, 234")],
)
def test_numbers_are_copied_without_separators_of_thousands(box, shown, copied):
    box.show_numbers([Number(group="of 1,000", name="n", text=shown)])
    assert box.table.copied_text() == f"of 1,000\tn\t{copied}\t"


def test_other_numbers_leave_what_is_folded_or_selected(box, qtbot):
    box.show_numbers(ROWS)
    box.table.topLevelItem(0).setExpanded(False)
    box.table.topLevelItem(1).child(0).setSelected(True)
    height = box.table.height()
    box.show_numbers([Number(group=row.group, name=row.name, text="2") for row in ROWS])
    assert not box.table.topLevelItem(0).isExpanded()
    assert box.table.copied_text() == "Time\trun\t2\t"
    assert box.table.height() == height
    box.table.topLevelItem(0).setExpanded(True)
    assert box.table.height() > height
    box.table.topLevelItem(0).setExpanded(False)
    box.show_numbers([*ROWS, Number(group="Time", name="compile", text="3")])
    assert not box.table.topLevelItem(0).isExpanded()


# -- files ------------------------------------------------------------------------------------------------------------


def test_writing_in_a_worker(box, qtbot, tmp_path, monkeypatch):
    threads = []

    def write(path):
        threads.append(threading.current_thread())
        path.write_text("numbers")
        return "1 number saved"

    answer(monkeypatch, "getSaveFileName", tmp_path / "a.csv")
    entries = [("CSV…", lambda: box.files.ask_to_write("Save", "Tables (*.csv)", "a.csv", lambda: write))]
    menu = box.add_menu("Export", "", entries).menu()
    menu.actions()[0].trigger()
    assert box.files.is_busy
    finish(qtbot, box)
    assert (tmp_path / "a.csv").read_text() == "numbers"
    assert threads[0] is not threading.main_thread()
    assert [kind for kind, _ in box.reports] == ["error"] + ["status"] * 3
    assert box.reports[0] == ("error", "")  # that of an earlier try has ended
    assert box.reports[-1] == ("status", "1 number saved")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InvalidInput("the disk is full"), "disk is full"),
        (PermissionError(13, "Permission denied"), "Permission denied"),
    ],
)
def test_a_file_that_cannot_be_written_is_a_sentence(box, qtbot, tmp_path, error, words):
    def write(path):
        raise error

    box.files.write(tmp_path / "a.csv", write)
    finish(qtbot, box)
    kind, text = box.reports[-1]
    assert kind == "error"
    assert "a.csv" in text
    assert words in text
    assert ("status", "") in box.reports


def test_what_cannot_be_written_opens_no_dialog_and_a_cancelled_one_does_nothing(box, monkeypatch):
    def make():
        raise InvalidInput("there is no result; press Run first")

    monkeypatch.setattr(f"{DIALOG}.getSaveFileName", lambda *_, **__: pytest.fail("a dialog"))
    box.files.ask_to_write("Save", "", "a", make)
    assert box.reports == [("error", "there is no result; press Run first")]
    for dialog in ("getSaveFileName", "getOpenFileName"):
        answer(monkeypatch, dialog, "")
    box.files.ask_to_write("Save", "", "a", lambda: print)
    box.files.ask_to_read("Open", "", print, print)
    assert not box.files.is_busy
    assert len(box.reports) == 1


def test_reading_in_a_worker(box, qtbot, tmp_path, monkeypatch):
    path, shown = tmp_path / "a.txt", []
    path.write_text("numbers")
    answer(monkeypatch, "getOpenFileName", path)
    opened = box.add_button(
        "Open…", "", lambda: box.files.ask_to_read("Open", "", lambda p: p.read_text(), shown.append)
    )
    box.show_numbers(ROWS)
    button(box, opened.text()).click()
    finish(qtbot, box)
    assert shown == ["numbers"]
    path.unlink()
    opened.click()
    finish(qtbot, box)
    assert shown == ["numbers"]
    assert box.reports[-1][0] == "error"


@pytest.mark.display
def test_in_a_window_of_napari(viewer, qtbot, tmp_path):
    box = ResultBox("No result yet: press Run.")
    save = box.add_button("Save…", "", lambda: box.files.write(tmp_path / "a.txt", lambda path: path.write_text("1")))
    docked(viewer, box, "results")
    box.show_numbers(ROWS, [("ok", "Energy is conserved.")])
    qtbot.waitUntil(box.table.isVisible)
    assert box.table.visualItemRect(box.table.topLevelItem(1).child(0)).bottom() < box.table.height()
    save.click()
    finish(qtbot, box)
    assert (tmp_path / "a.txt").read_text() == "1"
    box.detach()


def test_a_file_that_is_written_in_steps_says_how_far_it_is(qtbot, tmp_path, box):
    def write(path):
        yield Step(1, 4)
        path.write_text("all")
        return "written"

    box.files.write(tmp_path / "a.txt", write)
    finish(qtbot, box)
    reports = ["a.txt is being saved …", "a.txt is being saved … 25 %", "", "written"]
    assert box.reports[1:] == [("status", text) for text in reports]
    assert (tmp_path / "a.txt").read_text() == "all"


def test_a_panel_that_closes_lets_files_come_to_their_end(qtbot, tmp_path):
    go, box, reports = threading.Event(), ResultBox("nothing"), []
    box.files.status_changed.connect(reports.append)

    def write(path):
        go.wait(10)
        path.write_text("all")

    box.files.write(tmp_path / "a.txt", write)
    threading.Timer(0.1, go.set).start()
    box.detach()
    assert (tmp_path / "a.txt").read_text() == "all"
    qtbot.wait(20)
    assert len(reports) == 1
    gone = weakref.ref(box)
    del box
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("width", [240, 320, 500])
def test_a_table_does_not_lose_its_names(qtbot, width):
    table = NumberTable()
    qtbot.addWidget(table)
    value = "0.176900 ± 0.000004"
    table.show_rows([Number(group="Energy", name="absorbed in gray matter", text=value, unit="% of the light")])
    table.resize(width, 100)
    table.show()
    sizes = [table.header().sectionSize(column) for column in range(3)]
    assert sum(sizes) <= table.viewport().width()
    assert sizes[0] >= min(table.sizeHintForColumn(0), table.viewport().width() // 2 - 1)
    assert min(sizes[1:]) >= 30
    assert value in table.topLevelItem(0).child(0).toolTip(1), "what is elided can be read"


@pytest.mark.display
def test_what_is_below_a_table_that_grows_makes_room_at_once(qtbot):
    """In a panel that scrolls: else the table covers it until the event loop has come round to all that is around."""
    area, box, below = QScrollArea(), ResultBox("nothing"), QLabel("below")
    area.setWidget(box)
    area.setWidgetResizable(True)
    box.content.addWidget(below)
    qtbot.addWidget(area)
    area.resize(300, 200)
    box.show_numbers([Number(group="some", name="one", text="1")])
    with qtbot.waitExposed(area):
        area.show()
    box.show_numbers([Number(group=group, name=name, text="1") for group in ("some", "all") for name in "abcdefgh"])
    assert below.y() >= box.table.geometry().bottom()
    assert box.height() >= below.geometry().bottom()
