"""The dock that the plots of a light result open in."""

import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QDockWidget

from napari_gpubio.light.gui.plots import TITLE, PlotController
from napari_gpubio.light.gui.request import DisplayOptions, display_voxels


def displayed(result):
    return display_voxels(result, DisplayOptions())


def test_nothing_is_made_before_it_is_asked_for(qtbot, viewer, result):
    controller = PlotController(viewer)
    controller.display("voxels", displayed(result))
    assert controller.window is None
    controller.open()
    qtbot.waitExposed(controller.window)
    assert controller.window.profile.profile is not None
    window = controller.window
    controller.open()
    assert controller.window is window
    controller.detach()
    assert controller.window is None
    assert not window.isVisible()
    controller.detach()


def test_what_is_not_on_screen_is_drawn_when_it_comes(qtbot, viewer, result):
    controller = PlotController(viewer)
    controller.open()
    controller.window.hide()
    controller.display("voxels", displayed(result))
    assert controller.window.profile.profile is None
    controller.open()
    assert controller.window.profile.profile is not None
    controller.detach()


@pytest.mark.display
def test_they_are_docked_below_and_come_back(make_napari_viewer_proxy, qtbot, result):
    viewer = make_napari_viewer_proxy()
    controller = PlotController(viewer)
    controller.display("voxels", displayed(result))
    controller.open()
    dock = controller.window.parentWidget()
    assert isinstance(dock, QDockWidget)
    assert dock.windowTitle() == TITLE or dock.name == TITLE
    main = dock.parent()
    assert main.dockWidgetArea(dock) == Qt.DockWidgetArea.BottomDockWidgetArea
    dock.hide()
    controller.open()
    assert not dock.isHidden()
    dock.destroyOnClose()  # the cross in its title bar
    assert controller.window.parentWidget() is None
    controller.open()
    assert isinstance(controller.window.parentWidget(), QDockWidget)
    controller.detach()
    qtbot.wait(20)
    assert TITLE not in [one.name for one in main.findChildren(QDockWidget)]
