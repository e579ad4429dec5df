"""The dock widget "Laser speckle": what can go wrong, and the end."""

import errno
import os

import numpy as np
import pytest
import tifffile

from napari_gpubio.speckle.gui import sources
from napari_gpubio.speckle.gui.panel_layers import LIVE_MAP
from napari_gpubio.speckle.gui.sources import CameraPage, FolderPage
from napari_gpubio.speckle.live import SourceFailed
from napari_gpubio.speckle.live.writers import BigTiffWriter
from tests.dock_widgets import button, error_after_run, wait_until
from tests.sentences import says
from tests.speckle.gui.panel_samples import (
    SHAPE,
    add_stack,
    box,
    draw,
    layer,
    live_error,
    run,
    run_live,
    simulate,
    speckle,
    start,
    stop,
    use_camera,
    wait_drawn,
)
from tests.speckle.live.fakes import ListSource, frame
from tests.speckle.live.test_live_camera import StandIn

COLORS = "'frames' cannot be used (colors; Split RGB makes channels of them)"


def with_nan():
    frames = speckle().astype(np.float32)
    frames[2, 3, 4] = np.nan
    return frames


@pytest.mark.parametrize(
    ("act", "frames", "words"),
    [
        (error_after_run, np.zeros((6, 50, 60, 3), np.uint8), COLORS),
        (error_after_run, np.zeros((50, 60, 3), np.uint8), COLORS),
        (error_after_run, np.zeros((2, 6, 30, 40), np.uint16), "shape (2, 6, 30, 40)"),
        (error_after_run, with_nan(), "not finite"),
        (error_after_run, speckle(3, (4, 50)), "window is 5 pixels and a frame 50 x 4; choose a smaller window"),
        (live_error, np.zeros((50, 60, 3), np.uint8), COLORS),
        (live_error, speckle()[0], "give an array of shape (frames, height, width)"),
        (live_error, with_nan(), "live imaging needs raw integers of 8 to 16 bits"),
        (live_error, speckle(3, (4, 50)), "choose a smaller window"),
        (live_error, speckle().astype(np.int32) - 5, "values from -5"),
    ],
    ids=[
        "color series", "color image", "four axes", "NaN", "window larger than the frame",
        "live color", "live single frame", "live float", "live window larger than the frame", "live negative",
    ],
)  # fmt: skip
def test_a_stack_that_cannot_be_used(viewer, panel, qtbot, act, frames, words):
    add_stack(viewer, frames)
    assert words in act(qtbot, panel)
    assert len(viewer.layers) == 1
    assert panel.live_box.start_button.text() == "Start live"


@pytest.mark.parametrize("act", [live_error, error_after_run])
def test_a_color_layer_is_refused(viewer, panel, qtbot, act):
    add_stack(viewer, np.zeros((6, 50, 60, 3), np.uint8), rgb=True)
    assert COLORS in act(qtbot, panel)


def test_exposure_zero_is_reported_and_the_live_maps_go_on(viewer, panel, qtbot):
    exposure = panel.contrast_box.form.widget("exposure_ms")
    add_stack(viewer)
    start(qtbot, panel)
    exposure.value = 0
    assert says(panel.message, "exposure_ms is 0 ms", "greater than 0 ms")
    wait_drawn(qtbot, panel)
    exposure.value = 5
    assert panel.message == ""
    stop(qtbot, panel)
    exposure.value = 0
    for act in (error_after_run, live_error):
        assert "exposure_ms is 0 ms" in act(qtbot, panel)


def test_an_empty_folder_is_waited_for(viewer, panel, qtbot, tmp_path):
    panel.source_box.choose(FolderPage)
    assert "no folder is chosen" in live_error(qtbot, panel)
    panel.source_box.page.folder.setText(str(tmp_path / "nowhere"))
    assert "is not a folder; create it" in live_error(qtbot, panel)
    panel.source_box.page.folder.setText(str(tmp_path))
    panel.live_box.start_button.click()
    wait_until(qtbot, lambda: "holds no TIFF or PNG file yet" in panel.status)
    assert panel.message == ""
    for number in range(3):
        tifffile.imwrite(tmp_path / f"{number}.tif", speckle(1)[0])
    wait_drawn(qtbot, panel, 1)
    stop(qtbot, panel)
    assert layer(viewer, LIVE_MAP) is not None


def test_cameras_need_a_package_and_a_device(panel, qtbot, monkeypatch):
    with monkeypatch.context() as without:
        without.setattr(sources, "has_camera_support", lambda: False)
        panel.source_box.choose(CameraPage)
        assert "pip install 'napari-gpubio[camera]'" in live_error(qtbot, panel)
    use_camera(monkeypatch, panel, StandIn([], getCameraDevice=""))
    assert "Micro-Manager has no camera" in live_error(qtbot, panel)


def unplugged():
    raise SourceFailed("the camera A stopped sending frames; check its cable and power, and start again")


def test_an_unplugged_camera_keeps_everything(viewer, panel, qtbot, monkeypatch):
    source = ListSource([*(frame(number, SHAPE) for number in range(5)), unplugged], can_wait=True)
    monkeypatch.setattr(type(panel.source_box.page), "make_source", lambda self, exposure_ms: source)
    add_stack(viewer)
    draw(qtbot, panel, box(5, 5, 20, 20))
    assert "check its cable and power" in live_error(qtbot, panel)
    assert layer(viewer, LIVE_MAP) is not None
    monkeypatch.undo()
    run_live(qtbot, panel)
    assert panel.message == ""


def test_a_full_disk_ends_the_recording_and_nothing_else(viewer, panel, qtbot, monkeypatch, tmp_path):
    append, left = BigTiffWriter.append, iter(range(3))

    def append_three(writer, pixels):
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        append(writer, pixels)

    monkeypatch.setattr(BigTiffWriter, "append", append_three)
    add_stack(viewer)
    start(qtbot, panel)
    panel.controller.record(tmp_path / "run.tif")
    wait_until(qtbot, lambda: "the disk is full" in panel.message)
    assert "its 3 frames can be read" in panel.message
    wait_drawn(qtbot, panel)
    stop(qtbot, panel)
    assert len(tifffile.imread(tmp_path / "run.tif")) == 3


def test_buttons_that_have_nothing_to_work_on(viewer, panel, qtbot, tmp_path):
    panel.controller.record(tmp_path / "a.tif")
    assert "nothing is live" in panel.message
    panel.course_box.mark_event()
    assert "no moment to mark" in panel.message
    button(panel, "CSV…").click()
    assert "no time course to write" in panel.message
    panel.ask_video()
    assert "there is no map yet" in panel.message
    simulate(panel)
    panel.controller.take_baseline()
    assert "nothing is live" in panel.message
    start(qtbot, panel)
    panel.controller.record(tmp_path / "a.avi")
    assert "use .tif or .zarr" in panel.message
    stop(qtbot, panel)
    panel.ask_video()
    assert "the live map is a single image" in panel.message


def test_live_and_a_whole_stack_at_once(viewer, panel, qtbot):
    add_stack(viewer)
    start(qtbot, panel)
    run(qtbot, panel)
    wait_drawn(qtbot, panel)
    stop(qtbot, panel)
    assert panel.message == ""


def test_a_panel_that_was_not_closed_after_all_goes_on(viewer, panel, qtbot):
    add_stack(viewer)
    start(qtbot, panel)
    panel.teardown()
    assert not panel.runner.is_live
    assert panel.live_box.start_button.text() == "Start live"
    panel.revive()
    run_live(qtbot, panel)
    assert panel.message == ""
