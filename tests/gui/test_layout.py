"""Dock widgets in a small window and with a large font: side by side as tabs, and nothing is cut off."""

import importlib
import pkgutil

import numpy as np
import pytest
from napari.settings import get_settings
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QDockWidget, QLabel, QPushButton

import napari_gpubio
from napari_gpubio.gui import docking
from napari_gpubio.gui.plots import ThemedPlot
from napari_gpubio.gui.switcher import open_panel
from tests import panel_walk

pytestmark = pytest.mark.display
WIDTH, HEIGHT = 1280, 800
FONTS = (9, 14)  # points: the usual one, and half as large again
WIDEST = {9: WIDTH, 14: 1320}  # napari's own controls need up to 1309 pixels beside a panel in the large font


@pytest.fixture
def small_window(viewer):
    """A window of 1280 x 800, with the font size as it was after the test."""
    before = get_settings().appearance.font_size
    viewer.window._qt_window.setGeometry(0, 0, WIDTH, HEIGHT)
    yield viewer
    get_settings().appearance.font_size = before


def cut_off(panel):
    """Texts of labels and buttons on screen that have less room than they need."""
    for label in panel.findChildren(QLabel):
        if label.isVisible() and label.text() and label.pixmap().isNull() and label.width() > 0:
            needed = label.minimumSizeHint()
            height = label.heightForWidth(label.width()) if label.wordWrap() else needed.height()
            if (not label.wordWrap() and label.width() < needed.width() - 1) or label.height() < height - 1:
                yield label.text()
    for button in panel.findChildren(QPushButton):
        if button.isVisible():
            needed = button.fontMetrics().horizontalAdvance(button.text())
            if button.width() < needed:
                yield button.text()


@pytest.mark.daily
@pytest.mark.parametrize("name", panel_walk.PANELS)
def test_nothing_is_cut_off(make_window, qtbot, name):
    viewer = make_window(show=True)  # a new one: one that had larger fonts and other panels is wider at times
    window = viewer.window._qt_window
    window.setGeometry(0, 0, WIDTH, HEIGHT)
    panel_walk.add_layers(viewer)
    for points in FONTS:
        get_settings().appearance.font_size = points
        with panel_walk.shown_panel(viewer, name) as panel:
            for page in panel_walk.pages(panel):
                qtbot.waitUntil(lambda panel=panel: not list(cut_off(panel)), timeout=1000)
                assert not list(cut_off(panel)), (points, page)
            area = panel_walk.scroll_area(panel)
            assert area.widget().width() <= area.viewport().width()
            assert window.width() <= WIDEST[points]


@pytest.mark.parametrize("points", FONTS)
def test_panels_are_tabs_of_one_place(small_window, qtbot, points):
    get_settings().appearance.font_size = points
    window = small_window.window._qt_window
    docks = [small_window.window.add_plugin_dock_widget("napari-gpubio", name)[0] for name in panel_walk.PANELS[:3]]
    qtbot.waitUntil(lambda: len(window.tabifiedDockWidgets(docks[0])) == 2)
    assert docks[-1].widget().isVisible()
    assert not any(dock.visibleRegion().isEmpty() for dock in docks[-1:])
    assert not set(window.tabifiedDockWidgets(docks[0])) - set(docks)
    own = [dock for dock in window.findChildren(QDockWidget) if dock not in docks]
    assert not any(window.tabifiedDockWidgets(dock) for dock in own), "napari's own docks stay where they are"


def test_on_a_narrow_screen_panels_are_tabs_of_naparis_docks(small_window, qtbot, monkeypatch):
    """They make the window no higher than napari's own: also when napari puts a panel where it was."""
    window = small_window.window._qt_window
    monkeypatch.setattr(docking, "_TOO_WIDE", 0.3)
    small_window.add_image(np.zeros((4, 5, 6)))  # whose controls decide how high the window must be
    window.layout().activate()
    before, controls = window.minimumSizeHint().height(), small_window.window._qt_viewer.dockLayerControls
    for _ in range(2):
        panel = open_panel(small_window, panel_walk.PANELS[0])
        dock = docking.dock_of(panel)
        qtbot.waitUntil(lambda dock=dock: window.tabifiedDockWidgets(dock) == [controls])
        assert window.dockWidgetArea(dock) == Qt.DockWidgetArea.LeftDockWidgetArea
        assert not panel.visibleRegion().isEmpty()
        window.layout().activate()
        assert window.minimumSizeHint().height() <= before
        assert window.height() <= HEIGHT
        panel.teardown()
        small_window.window.remove_dock_widget(panel)


@pytest.mark.parametrize("points", FONTS)
def test_linked_views_need_no_more_height_than_naparis_own_controls(small_window, qtbot, points):
    """Those of a volume in 3-D, which is what the panel turns the canvas to, need most."""
    get_settings().appearance.font_size = points
    window = small_window.window._qt_window
    panel_walk.add_layers(small_window)
    small_window.dims.ndisplay = 3
    panel_walk.let_live()
    window.layout().activate()
    before = window.minimumSizeHint().height()
    small_window.dims.ndisplay = 2
    with panel_walk.shown_panel(small_window, "Linked views") as panel:
        for is_ready in (False, True):
            assert docking.dock_of(panel).minimumSizeHint().height() <= 100, is_ready
            window.layout().activate()
            assert window.minimumSizeHint().height() <= before, is_ready
            qtbot.waitUntil(lambda: panel.is_ready, timeout=20_000)
        assert window.height() <= HEIGHT


def test_the_first_long_message_leaves_the_window_as_it_is(small_window, qtbot):
    window = small_window.window._qt_window
    with panel_walk.shown_panel(small_window, panel_walk.PANELS[0]) as panel:
        panel.show_note("why this is so, and what to do about it, " * 12)
        qtbot.wait(100)
        assert panel.message not in list(cut_off(panel))
        assert window.height() <= HEIGHT


def _all_plots(base=ThemedPlot):
    for plot in base.__subclasses__():
        yield plot
        yield from _all_plots(plot)


def test_plots_keep_their_axes_and_units_at_300_pixels(qtbot):
    for module in pkgutil.walk_packages(napari_gpubio.__path__, "napari_gpubio."):
        if ".gui." in module.name:
            importlib.import_module(module.name)
    for make in _all_plots():
        if not make.__module__.startswith("napari_gpubio") or make.__name__ == "PresetPlot":  # in a wide dialog
            continue
        plot = make()
        qtbot.addWidget(plot)
        plot.setLabel("bottom", "the distance from the source to the detector along the surface (mm)")
        plot.setLabel("left", "the mean of all repeats of what was measured there (1/mm²)")
        plot.setFixedSize(300, 220)
        with qtbot.waitExposed(plot):
            plot.show()
        seen = plot.viewport().rect().adjusted(-2, -2, 2, 2)
        for side, unit in (("bottom", "(mm)"), ("left", "(1/mm²)")):
            label = plot.getAxis(side).label
            assert label.toPlainText().strip().endswith(unit), (make, label.toPlainText())
            if label.isVisible():
                box = plot.mapFromScene(label.sceneBoundingRect()).boundingRect()
                assert seen.left() <= box.left() + 6, (make, side, box)
                assert box.right() - 6 <= seen.right(), (make, side, box)
                assert seen.top() <= box.top() + 6, (make, side, box)
                assert box.bottom() - 6 <= seen.bottom(), (make, side, box)


def test_the_menu_of_napari_brings_up_a_panel_behind_another_tab(small_window, qtbot):
    """It takes the panel for visible and hides it, though its tab is behind."""
    first, second = (open_panel(small_window, name) for name in ("Denoise", "Dissect fibers"))
    qtbot.waitUntil(lambda: second.is_in_front and first.visibleRegion().isEmpty())
    dock = small_window.window._wrapped_dock_widgets["Denoise (napari-gpubio)"]
    dock.setVisible(not dock.isVisible())  # what the entry of the menu does
    qtbot.waitUntil(lambda: first.is_in_front and not first.visibleRegion().isEmpty())
    for panel in (first, second):
        panel.teardown()
        small_window.window.remove_dock_widget(panel)
