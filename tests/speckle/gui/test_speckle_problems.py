"""The dock widget "Laser speckle": what can go wrong, and the end."""

import errno
import os

import numpy as np
import pytest
import tifffile

from napari_gpubio.speckle.gui import sources
from napari_gpubio.speckle.gui.layers import LIVE_MAP
from napari_gpubio.speckle.gui.sources import CameraPage, FolderPage
from napari_gpubio.speckle.live import CameraSource, SourceFailed
from napari_gpubio.speckle.live import recording as recorder
from tests.dock_widgets import button, wait_until
from tests.speckle.gui.panel_samples import (
    add_stack,
    box,
    complaint,
    draw,
    layer,
    run,
    simulate,
    speckle,
    start,
    stop,
    wait_drawn,
)
from tests.speckle.live.fakes import ListSource, frame


def refused(panel, qtbot):
    """The panel's message after Run stack."""
    panel.run_button.click()
    wait_until(qtbot, lambda: not panel.running)
    return panel.message


def with_nan():
    frames = speckle().astype(np.float32)
    frames[2, 3, 4] = np.nan
    return frames


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        (np.zeros((6, 50, 60, 3), np.uint8), "give one channel"),
        (np.zeros((50, 60, 3), np.uint8), "give one channel"),
        (np.zeros((2, 6, 30, 40), np.uint16), "shape (2, 6, 30, 40)"),
        (with_nan(), "not finite"),
        (speckle(3, (4, 50)), "window is 5 pixels and a frame 50 x 4; choose a smaller window"),
    ],
    ids=["color series", "color image", "four axes", "NaN", "window larger than the frame"],
)
def test_a_stack_that_cannot_be_run(viewer, panel, qtbot, frames, words):
    add_stack(viewer, frames)
    assert words in refused(panel, qtbot)
    assert len(viewer.layers) == 1


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        (np.zeros((50, 60, 3), np.uint8), "give one channel"),
        (speckle()[0], "give an array of shape (frames, height, width)"),
        (with_nan(), "live imaging needs raw integers of 8 to 16 bits"),
        (speckle(3, (4, 50)), "choose a smaller window"),
        (speckle().astype(np.int32) - 5, "values from -5"),
    ],
    ids=["color", "single frame", "float", "window larger than the frame", "negative"],
)
def test_a_stack_that_cannot_be_live(viewer, panel, qtbot, frames, words):
    add_stack(viewer, frames)
    assert words in complaint(qtbot, panel)
    assert panel.live_box.start_button.text() == "Start live"


@pytest.mark.parametrize("act", [complaint, refused])
def test_a_color_layer_is_refused(viewer, panel, qtbot, act):
    add_stack(viewer, np.zeros((6, 50, 60, 3), np.uint8), rgb=True)
    arguments = (qtbot, panel) if act is complaint else (panel, qtbot)
    assert "'frames' is a color image; give one channel" in act(*arguments)


def test_exposure_zero_is_reported_and_the_live_maps_go_on(viewer, panel, qtbot):
    add_stack(viewer)
    start(qtbot, panel)
    panel.contrast_box.form.widget("exposure_ms").value = 0
    assert panel.message == "exposure_ms is 0 ms; it must be greater than 0 ms"
    wait_drawn(qtbot, panel)
    panel.contrast_box.form.widget("exposure_ms").value = 5
    assert panel.message == ""
    stop(qtbot, panel)
    panel.contrast_box.form.widget("exposure_ms").value = 0
    assert "exposure_ms is 0 ms" in refused(panel, qtbot)
    panel.live_box.start_button.click()
    assert not panel.runner.is_live
    assert "exposure_ms is 0 ms" in panel.message


def test_an_empty_folder_is_waited_for(viewer, panel, qtbot, tmp_path):
    panel.source_box.choose(FolderPage)
    assert "no folder is chosen" in complaint(qtbot, panel)
    panel.source_box.page.folder.setText(str(tmp_path / "nowhere"))
    assert "is not a folder; create it" in complaint(qtbot, panel)
    panel.source_box.page.folder.setText(str(tmp_path))
    panel.live_box.start_button.click()
    wait_until(qtbot, lambda: "holds no TIFF or PNG file yet" in panel.status)
    assert panel.message == ""
    for number in range(3):
        tifffile.imwrite(tmp_path / f"{number}.tif", speckle(1)[0])
    wait_drawn(qtbot, panel, 1)
    stop(qtbot, panel)
    assert layer(viewer, LIVE_MAP) is not None


def test_cameras_need_a_package(viewer, panel, qtbot, monkeypatch):
    monkeypatch.setattr(sources, "has_camera_support", lambda: False)
    panel.source_box.choose(CameraPage)
    assert "pip install 'napari-gpubio[camera]'" in complaint(qtbot, panel)


def test_a_camera_that_is_not_there(viewer, panel, qtbot, monkeypatch):
    panel.source_box.choose(CameraPage)
    core = type("Core", (), {"getCameraDevice": lambda self: ""})()
    monkeypatch.setattr(
        CameraPage, "make_source", lambda self, exposure_ms: CameraSource(core, exposure_ms=exposure_ms)
    )
    assert "Micro-Manager has no camera" in complaint(qtbot, panel)


def unplugged():
    raise SourceFailed("the camera A stopped sending frames; check its cable and power, and start again")


def test_an_unplugged_camera_keeps_everything(viewer, panel, qtbot, monkeypatch):
    pixels = speckle(1)[0]
    frames = [frame(number, pixels.shape) for number in range(5)]
    source = ListSource([*frames, unplugged], can_wait=True)
    monkeypatch.setattr(type(panel.source_box.page), "make_source", lambda self, exposure_ms: source)
    add_stack(viewer)
    draw(qtbot, panel, box(5, 5, 20, 20))
    assert "check its cable and power" in complaint(qtbot, panel)
    assert layer(viewer, LIVE_MAP) is not None
    monkeypatch.undo()
    start(qtbot, panel)
    assert panel.message == ""
    stop(qtbot, panel)


def test_a_full_disk_ends_the_recording_and_nothing_else(viewer, panel, qtbot, monkeypatch, tmp_path):
    writer = recorder.open_writer

    def full_after_three(*arguments):
        made = writer(*arguments)
        append, left = made.append, iter(range(3))

        def limited(pixels):
            if next(left, None) is None:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            append(pixels)

        made.append = limited
        return made

    monkeypatch.setattr(recorder, "open_writer", full_after_three)
    add_stack(viewer)
    start(qtbot, panel)
    panel.controller.record(tmp_path / "run.tif")
    wait_until(qtbot, lambda: "the disk is full" in panel.message)
    assert "its 3 frames can be read" in panel.message
    wait_drawn(qtbot, panel)
    stop(qtbot, panel)
    assert len(tifffile.imread(tmp_path / "run.tif")) == 3


def test_recordings_that_cannot_begin(viewer, panel, qtbot, tmp_path):
    panel.controller.record(tmp_path / "a.tif")
    assert "nothing is live" in panel.message
    add_stack(viewer)
    start(qtbot, panel)
    panel.controller.record(tmp_path / "a.avi")
    assert "use .tif or .zarr" in panel.message
    (tmp_path / "b.tif").touch()
    panel.controller.record(tmp_path / "b.tif")
    assert "exists already" in panel.message
    stop(qtbot, panel)


def test_buttons_that_have_nothing_to_work_on(viewer, panel, qtbot):
    panel.course_box.mark_event()
    assert "no moment to mark" in panel.message
    button(panel, "CSV…").click()
    assert "no time course to write" in panel.message
    panel.ask_video()
    assert "there is no map yet" in panel.message
    simulate(panel)
    panel.controller.take_baseline()
    assert "nothing is live" in panel.message


def test_the_live_map_is_no_video(viewer, panel, qtbot):
    add_stack(viewer)
    start(qtbot, panel)
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
    start(qtbot, panel)
    stop(qtbot, panel)
    assert panel.message == ""
