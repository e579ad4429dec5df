"""A user's way through the panel with the mouse and the keyboard, in a viewer that is on screen."""

import csv
import itertools
import json

import numpy as np
import pytest
from qtpy.QtCore import QPoint, QPointF, Qt
from qtpy.QtGui import QImage
from qtpy.QtTest import QTest

from napari_gpubio.dose import DvhSettings
from napari_gpubio.dose.gui import DosePanel
from napari_gpubio.dose.io import read_dvh_sequence
from tests.dock_widgets import docked, save_scripts_as, script_of, shown_by_script
from tests.dose.dicom_files import save_dose, save_structures
from tests.dose.gui.panel_samples import User
from tests.dose.samples import at, circle

pytestmark = pytest.mark.display
LEFT = Qt.MouseButton.LeftButton


def drag(widget, *places):
    """Press at the first place, move over the others, release at the last."""
    QTest.mouseMove(widget, places[0])
    QTest.qWait(20)
    QTest.mousePress(widget, LEFT, pos=places[0])
    for place in places[1:]:
        for share in (0.3, 0.6, 1.0):
            QTest.qWait(20)
            QTest.mouseMove(widget, places[0] + (place - places[0]) * share)
    QTest.qWait(20)
    QTest.mouseRelease(widget, LEFT, pos=places[-1])
    QTest.qWait(20)


class WindowUser(User):
    """Sees the treatment phantom and the panel in a window."""

    def __init__(self, viewer, qtbot):
        viewer.window._qt_window.resize(1100, 900)
        viewer.open_sample("napari-gpubio", "treatment")
        super().__init__(viewer, docked(viewer, DosePanel(viewer), "Dose-volume histogram"), qtbot)
        self.panel.choose_device("cpu")
        self.panel.form.set_value(DvhSettings(bins=512))
        qtbot.wait(50)

    def click(self, widget):
        QTest.mouseClick(widget, LEFT)
        self.settle()

    def on_plot(self, dose, volume):
        """Where a dose and a volume are on screen."""
        plot = self.panel.plot
        return plot.mapFromScene(plot.plotItem.vb.mapViewToScene(QPointF(dose, volume)))

    def on_canvas(self, layer, row, column):
        """Where a voxel of the slice of a layer is on screen."""
        node = self.canvas.layer_to_visual[layer].node
        x, y = node.transforms.get_transform("visual", "canvas").map([column, row])[:2]
        return QPoint(round(x), round(y))

    @property
    def canvas(self):
        return self.viewer.window._qt_viewer.canvas

    def move_on_plot(self, dose, volume):
        """To and fro, as a hand does, until it is read: a single move is lost if the window's own comes just before.

        pyqtgraph passes over what comes within ten milliseconds, and a window that is shown may be laid out meanwhile.
        """
        before, steps = self.readout, itertools.cycle((QPoint(1, 0), QPoint(0, 0)))

        def is_read():
            QTest.mouseMove(self.panel.plot.viewport(), self.on_plot(dose, volume) + next(steps))
            QTest.qWait(20)
            return self.readout != before

        self.qtbot.waitUntil(is_read)

    def drag_on_plot(self, *places):
        drag(self.panel.plot.viewport(), *(self.on_plot(*place) for place in places))
        self.settle()


@pytest.fixture
def user(make_window, qtbot, request):
    user = WindowUser(make_window(show=getattr(request, "param", True)), qtbot)
    user.run()
    yield user
    user.panel.teardown()


@pytest.mark.daily
def test_lines_are_dragged_voxels_clicked_and_labels_painted(user):
    panel, lung, target = user.panel, user.curve("left lung"), user.curve("target")
    dose = float(lung.dose_at_percent(25))
    user.move_on_plot(dose, 25)
    assert "left lung" in user.readout
    assert float(user.readout.split("left lung ")[1].split(" %")[0]) == pytest.approx(25, abs=2)
    user.click(panel.tools.dose)
    user.drag_on_plot((panel.plot.dose_line.value(), 50), (60, 50))
    line = panel.plot.dose_line.value()
    assert line == pytest.approx(60, abs=1.5)
    assert panel.isodose.layer.data.level == pytest.approx(line)
    assert f"at least {line:.4g} Gy" in user.readout
    QTest.mouseClick(panel.plot.viewport(), LEFT, pos=user.on_plot(float(target.dose_at_percent(60)), 60))
    user.settle()
    assert panel.tools.inside.currentText() == "target"
    user.click(panel.tools.volume)
    user.drag_on_plot((20, panel.plot.volume_line.value()), (20, 50))
    assert panel.plot.volume_line.value() == pytest.approx(50, abs=2)
    assert f"D at {panel.plot.volume_line.value():.4g} %" in user.readout
    user.click(panel.tools.volume)
    user.click(panel.tools.interval)
    assert panel.isodose.layer is None
    high = panel.plot.interval.getRegion()[1]
    user.drag_on_plot((high, 30), (95, 30))
    low, high = panel.plot.interval.getRegion()
    assert high == pytest.approx(95, abs=1.5)
    user.drag_on_plot(((low + high) / 2, 30), ((low + high) / 2 - 10, 30))
    assert panel.plot.interval.getRegion()[0] == pytest.approx(low - 10, abs=1.5)
    user.viewer.dims.ndisplay = 3
    user.settle()
    assert panel.highlight.layer.data.shape == user.viewer.layers["organs"].data.shape
    user.viewer.dims.ndisplay = 2
    user.click(panel.tools.interval)
    click_a_voxel_and_paint(user)


def click_a_voxel_and_paint(user):
    viewer, panel, organs = user.viewer, user.panel, user.viewer.layers["organs"]
    native = user.canvas.native
    place = user.on_canvas(organs, 60, 70)
    QTest.mouseMove(native, place)
    QTest.mouseClick(native, LEFT, pos=place)
    user.qtbot.wait(50)
    assert "voxel in target" in user.readout
    assert len(panel.plot.marks.data) == 5
    viewer.layers.selection.active = organs
    organs.mode, organs.selected_label, organs.brush_size = "paint", 5, 12
    before, data = user.curve("cord").volume_cc, organs.data.copy()
    drag(native, user.on_canvas(organs, 60, 60), user.on_canvas(organs, 80, 100))
    user.settle()
    painted = np.count_nonzero(organs.data == 5) - np.count_nonzero(data == 5)
    assert painted > 100
    assert user.curve("cord").volume_cc == pytest.approx(before + painted * 0.008, rel=1e-6)
    organs.undo()
    user.settle()
    np.testing.assert_array_equal(organs.data, data)
    assert user.curve("cord").volume_cc == pytest.approx(before, rel=1e-12)


@pytest.mark.parametrize("user", [pytest.param(False, id="hidden")], indirect=True)  # figures are drawn all the same
def test_columns_are_typed_and_what_is_on_screen_is_written(user, tmp_path, monkeypatch):
    panel = user.panel
    panel.table.columns.selectAll()
    QTest.keyClicks(panel.table.columns, "gEUD(a=8), Paddick CI(target=target)")
    user.settle()
    row = [panel.table.table.item(n, 0).text() for n in range(5)].index("target")
    assert 90 < float(user.cells(row)[1]) < 100
    assert 0.5 < float(user.cells(row)[2]) < 0.8
    tabs = panel.tabs.tabBar()
    QTest.mouseClick(tabs, LEFT, pos=tabs.tabRect(1).center())
    text = panel.constraints.text
    text.setFocus()
    for line in ("target: V95%[%] >= 98", "cord: gEUD(a=8) < 45", "bowel: Max[Gy] < 45"):
        QTest.keyClicks(text, line)
        QTest.keyClick(text, Qt.Key.Key_Return)
    user.settle()
    table = panel.constraints.table
    assert [table.item(n, 2).text() for n in range(3)] == ["✗ fail", "✓ pass", "? not evaluated"]
    write_and_copy(user, tmp_path, monkeypatch)


def write_and_copy(user, tmp_path, monkeypatch):
    panel, target = user.panel, user.curve("target")
    names = ["body (rest)", "left lung", "right lung", "target", "cord"]
    loop = at(circle(6.0, 64, (21, -9)), 32.0)
    rtdose = save_dose(tmp_path / "rd.dcm", np.ones((3, 4, 5), np.uint16))
    rtstruct = save_structures(tmp_path / "rs.dcm", [(name, [("CLOSED_PLANAR", loop)]) for name in names])
    answers = iter([str(rtdose), str(rtstruct)])
    box = "napari_gpubio.gui.file_dialogs.QFileDialog."
    monkeypatch.setattr(f"{box}getOpenFileName", lambda *_, **__: (next(answers), ""))
    monkeypatch.setattr(f"{box}getSaveFileName", lambda _, __, name, *___: (str(tmp_path / name), ""))
    for action in panel.export.menu().actions():
        action.trigger()
        assert panel.message == "" or panel.message.startswith("written"), action.text()
    assert QImage(str(tmp_path / "dvh.png")).width() > 2 * 800
    assert (tmp_path / "dvh.svg").stat().st_size > 1000
    with (tmp_path / "metrics.csv").open(encoding="utf-8", newline="") as file:
        assert {row["structure"] for row in csv.DictReader(file)} == set(names)
    written = json.loads((tmp_path / "dvh.json").read_text(encoding="utf-8"))
    assert written["parameters"]["prescription"] == 90.0
    stored = {one.name: one for one in read_dvh_sequence(tmp_path / "rtdose_dvh.dcm", dict(enumerate(names, 1)))}
    assert stored["target"].volume_cc == pytest.approx(target.volume_cc, rel=1e-6)
    save_scripts_as(monkeypatch, tmp_path / "script.py")
    shown_by_script(script_of(panel), tmp_path, monkeypatch)
    with (tmp_path / "dose-volume curves.csv").open(encoding="utf-8", newline="") as file:
        assert {row["structure"] for row in csv.DictReader(file)} == set(names)
    with (tmp_path / "dose-volume metrics.csv").open(encoding="utf-8", newline="") as file:
        line = next(row for row in csv.DictReader(file) if row["structure"] == "target")
    geud = next(cells for cells in map(user.cells, range(5)) if cells[0] == "target")[1]
    assert float(line["gEUD(a=8)[Gy]"]) == pytest.approx(float(geud), rel=1e-3)
