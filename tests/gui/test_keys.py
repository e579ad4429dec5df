"""Every printable key over every control of every dock widget: none reaches napari, whose tools they are."""

import string

import pytest
from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QAbstractButton, QWidget

from napari_gpubio.gui.accessible import controls_of, name_of_control
from tests import panel_walk

pytestmark = pytest.mark.display
KEYS = [*map(ord, string.ascii_uppercase + string.digits + "-=[].,/ ")]


@pytest.mark.parametrize("name", panel_walk.PANELS)
def test_no_key_leaves_a_panel(window_with_layers, name, monkeypatch):
    window, reached = window_with_layers.window._qt_window, []
    for kind in ("keyPressEvent", "keyReleaseEvent"):
        monkeypatch.setattr(type(window), kind, lambda _, event: reached.append(event.key()))
    with panel_walk.shown_panel(window_with_layers, name) as panel:
        widgets = [one for one in panel.findChildren(QWidget) if one.focusPolicy() != Qt.FocusPolicy.NoFocus]
        for widget in (panel, *widgets):
            if not widget.isEnabled() or not widget.isVisible():
                continue
            for key in KEYS:
                if not (key == Qt.Key.Key_Space and isinstance(widget, QAbstractButton)):  # it presses the button
                    QTest.keyClick(widget, Qt.Key(key))
            assert reached == [], (widget, widget.toolTip())
        assert len(widgets) > 3


@pytest.mark.parametrize("name", panel_walk.PANELS)
def test_every_control_has_a_name_that_can_be_said(window_with_layers, qtbot, name):
    with panel_walk.shown_panel(window_with_layers, name) as panel:
        for page in panel_walk.pages(panel):
            qtbot.waitUntil(lambda: not panel._naming.isActive())
            nameless = [one for one in controls_of(panel) if one.isVisible() and not name_of_control(one)]
            assert not nameless, (page, [(one, one.toolTip()) for one in nameless])
