"""Light in layers among other layers, hidden, and closed."""

import threading
import weakref

import numpy as np
import pytest

from napari_gpubio.light.layers.beams import Beam
from tests.dock_widgets import WAYS_TO_CLOSE, check_closing_ends_a_run, close, ended, hide_and_show
from tests.light.gui.layers.panel_samples import FEW, add_panel, result, run, settle


def test_other_layers_without_units_get_no_complaint(viewer, panel, qtbot):
    run(qtbot, panel)
    assert viewer.canvas.overlays.scale_bar.visible
    assert viewer.layers.extent.units is not None
    viewer.add_image(np.zeros((5, 6)), name="photo")
    assert viewer.layers.extent.units is not None  # all of them have none now
    assert not viewer.canvas.overlays.scale_bar.visible
    run(qtbot, panel)
    viewer.layers.remove("photo")
    panel.layers.grid_box._boxes["depth_bins"].setValue(10)
    run(qtbot, panel)
    assert str(viewer.layers.extent.units[0]) == "millimeter"


@pytest.mark.display
@WAYS_TO_CLOSE
def test_closing_during_a_run_frees_everything(make_napari_viewer, qtbot, held, errors, how):
    viewer = make_napari_viewer(strict_qt="raise")
    check_closing_ends_a_run(qtbot, viewer, add_panel, held, how)
    assert errors() == []


@pytest.mark.display
@WAYS_TO_CLOSE
def test_nothing_is_left_when_it_is_closed(make_napari_viewer, qtbot, how):
    viewer = make_napari_viewer(strict_qt="raise")
    panel = add_panel(viewer)
    run(qtbot, panel)
    panel.plots.open()
    qtbot.wait(50)
    panel.layers.beam_box.set_beam(Beam(kind="flat", radius_mm=0.3))
    settle(qtbot, panel)
    gone, kept = weakref.ref(panel), weakref.ref(result(viewer))
    threads = [thread for thread in threading.enumerate() if "napari-gpubio" in thread.name]
    close(viewer, panel, how)
    if how == "the dock":
        viewer.layers.clear()
    del panel
    assert ended(qtbot, gone, kept)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.display
def test_a_floating_panel_that_was_hidden_works_when_it_is_shown_again(viewer, panel, qtbot):
    hide_and_show(qtbot, panel)
    run(qtbot, panel)
    assert result(viewer).launched == FEW
