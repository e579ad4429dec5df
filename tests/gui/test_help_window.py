"""Help: a page for every dock widget, the window that shows it, the tour, and what the preferences change."""

import sys

import pytest
from napari.utils._proxies import PublicOnlyProxy
from qtpy.QtCore import Qt, QUrl
from qtpy.QtGui import QColor, QTextCursor
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

from napari_gpubio.gui import help_window, preferences, theme
from napari_gpubio.gui.help_window import HelpWindow, page_of, slug_of
from napari_gpubio.gui.switcher import names_of_panels, open_panel
from napari_gpubio.gui.tour import start_tour
from napari_gpubio.gui.views import view_of
from napari_gpubio.optics.gui.optical_table import OpticalTable

pytestmark = pytest.mark.display


def test_every_dock_widget_has_a_page_that_begins_with_its_name():
    for name in names_of_panels():
        assert page_of(name).startswith(f"# {name}\n")
    assert {path.stem for path in help_window.PAGES.glob("*.md")} == set(map(slug_of, names_of_panels()))


@pytest.mark.daily
def test_the_button_and_f1_open_the_page_of_their_panel_in_one_window(viewer):
    window = open_panel(viewer, "Bundle profiles").help_button.open()
    assert "100 nodes" in window.text.toPlainText()
    window.text.moveCursor(QTextCursor.MoveOperation.End)  # to the link, which can be read on this theme
    assert window.text.currentCharFormat().foreground().color() == QColor(theme.NOTE)
    QTest.keyClick(open_panel(viewer, "Session"), Qt.Key.Key_F1)
    assert "to the same bits" in window.text.toPlainText()
    assert viewer.window._qt_window.findChildren(HelpWindow) == [window]
    window.close()


def test_the_tour_goes_over_the_first_click_and_places_a_seed(viewer, qtbot):
    tour = start_tour(PublicOnlyProxy(viewer))  # as panels have it that a menu opens
    assert start_tour(viewer) is tour
    panel = open_panel(viewer, "Fiber tracking")
    titles = []
    for _ in range(20):
        QApplication.processEvents()
        if not tour._active:
            break
        titles.append(tour._tooltip._title.text())
        if titles[-1] == "A click":
            qtbot.waitUntil(lambda: not panel.is_busy and panel.results.head.isVisible(), timeout=60_000)
        tour._on_next()
    assert [*dict.fromkeys(titles)] == [
        "The brain", "Panels", "What is tracked in", "A click", "Numbers", "Run", "As a script",
    ]  # fmt: skip
    assert "bundle 1" in viewer.layers


@pytest.mark.parametrize("opens", [True, False])
def test_a_link_opens_the_browser_or_says_that_there_is_none(viewer, monkeypatch, opens):
    window, asked = open_panel(viewer, "Session").help_button.open(), []
    monkeypatch.setattr(help_window.QDesktopServices, "openUrl", lambda url: asked.append(url.toString()) or opens)
    window.text.anchorClicked.emit(QUrl(help_window.SITE))
    assert asked == [help_window.SITE]
    assert ("No browser could be opened" in window.text.toPlainText()) is not opens
    window.close()


def test_a_napari_without_tours_is_a_sentence(viewer, monkeypatch):
    window = open_panel(viewer, "Session").help_button.open()
    monkeypatch.setitem(sys.modules, "napari._qt.widgets.qt_viewer_tour", None)
    window._tour()
    assert "has no tours" in window.text.toPlainText()
    window.close()


def test_panels_begin_as_the_preferences_say(viewer, qtbot, monkeypatch):
    chosen = {"device": "cpu", "left_right": "radiological", "coefficient_unit": "1/cm", "cache_folder": ""}
    for module in ("processors", "anatomy"):
        monkeypatch.setattr(f"napari_gpubio.gui.{module}.preference", chosen.get)
    monkeypatch.setattr("napari_gpubio.optics.gui.optical_table.preference", chosen.get)
    panel = open_panel(viewer, "Light transport")
    qtbot.waitUntil(lambda: panel.device == "cpu", timeout=20_000)
    assert [table.unit for table in panel.findChildren(OpticalTable)] == ["1/cm"]
    viewer.open_sample("napari-gpubio", "head_phantom")
    assert view_of(viewer) == "radiological"


def test_what_the_manifest_declares_is_what_there_is_without_preferences(monkeypatch):
    monkeypatch.setattr("napari.settings.get_plugin_settings", {}.__getitem__)
    assert {name: preferences.preference(name) for name in preferences._defaults()} == {
        "device": "auto", "left_right": "neurological", "coefficient_unit": "1/mm", "cache_folder": "",
    }  # fmt: skip
