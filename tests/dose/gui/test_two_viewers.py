"""Two windows of napari, each with a dose panel: neither disturbs the other."""

import numpy as np
import pytest
from napari.utils.theme import get_theme
from qtpy.QtCore import QEvent
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QApplication

from tests.dose.gui.panel_samples import User, a_dose, add_panel, check_same, expected, organs

pytestmark = pytest.mark.display


@pytest.fixture
def users(make_window, qtbot):
    """A user of each window, who has counted a dose: the second one of half the size."""
    users = []
    for scale in (1.0, 0.5):
        viewer = make_window(proxied=True)
        users.append(User(viewer, add_panel(viewer), qtbot))
        users[-1].add_dose(a_dose(scale=scale))
        users[-1].add_organs()
        users[-1].run()
    yield users
    for user in users:
        user.panel.teardown()


def activate(user, monkeypatch):
    """Bring the window of a user to the front, as the window manager that a test does not have tells it."""
    with monkeypatch.context() as patch:
        patch.setattr(user.panel, "isActiveWindow", lambda: True)
        QApplication.sendEvent(user.panel, QEvent(QEvent.Type.ActivationChange))


def text_colors(user):
    """Colors of the names in the legend, and of the axes."""
    html = user.panel.legend.label.text()
    return {html.split("color: ")[1][:7], user.panel.plot.getAxis("left").textPen().color().name()}


def test_strokes_are_counted_where_they_are_painted(users):
    first, second = users
    check_same(first.curve("lung"), expected(a_dose(), organs()))
    check_same(second.curve("lung"), expected(a_dose(scale=0.5), organs()))
    before = [one.dvh for one in second.panel.controller.curves]
    labels = first.viewer.layers["organs"]
    labels.brush_size = 4
    labels.paint((5, 6, 6), 2)
    for user in users:
        user.settle()
    painted = np.asarray(labels.data).T.copy()
    check_same(first.curve("heart"), expected(a_dose(), organs(painted), "heart"))
    assert [one.dvh for one in second.panel.controller.curves] == before
    assert second.cells(0) != first.cells(0)


def test_what_is_drawn_and_chosen_in_one_window_stays_there(users):
    first, second = users
    first.draw_isodose()
    first.panel.link.mark_voxel((20.0, 5.0, 30.0))
    first.choose_columns("Mean[Gy]")
    first.scale_doses(2.0)
    assert [layer.name for layer in second.viewer.layers] == ["dose", "organs"]
    assert second.readout.startswith("Move the mouse")
    assert len(second.cells(0)) > len(first.cells(0))
    check_same(second.curve("lung"), expected(a_dose(scale=0.5), organs()))
    first.panel.parent().destroyOnClose()
    second.viewer.layers["organs"].paint((5, 6, 6), 2)
    second.settle()
    assert second.panel.message == ""


def test_each_window_keeps_the_colors_of_its_theme(users, monkeypatch):
    first, second = users
    for user, name in zip(users, ("dark", "light"), strict=True):
        user.viewer.theme = name
    for user, name in ((first, "dark"), (second, "light"), (first, "dark")):
        activate(user, monkeypatch)
        user.viewer.layers["organs"].paint((5, 6, 6), 2 if name == "dark" else 1)
        user.settle()
        user.scale_doses(1.5 if name == "dark" else 3.0)
        assert text_colors(user) == {QColor(get_theme(name).text.as_hex()).name()}
