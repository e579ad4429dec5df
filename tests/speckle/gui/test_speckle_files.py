"""Files of frames in the dock widget: opened by it, or looked at after napari's own reader has opened them."""

from pathlib import Path

import numpy as np
import pytest
import tifffile

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.reading import NOTES
from napari_gpubio.speckle.gui.run import FramesSource
from tests.conformance.frames import COUNT, FRAMES, pages, tiff
from tests.conformance.lost_frames import ome, without_end
from tests.dock_widgets import wait_until
from tests.sentences import says
from tests.speckle.gui.panel_samples import run


def appended(folder: Path) -> Path:
    for frame in FRAMES:
        tifffile.imwrite(folder / "a.tif", frame, append=True)
    return folder / "a.tif"


def ended_early(folder: Path) -> Path:
    return pages(folder, description=ome(20), name="a.ome.tif")


def white_zero(folder: Path) -> Path:
    return tiff(folder, 65535 - FRAMES, photometric="miniswhite")


def opened(viewer, panel, path):
    """Open a file with napari's own reader, and choose it."""
    (layer,) = viewer.open(str(path), plugin="napari")
    panel.source_box.stack.layer_box.choose(layer)
    return layer, panel.source_box.stack


@pytest.mark.parametrize(
    ("make", "shape", "facts"),
    [
        (ended_early, (20, *FRAMES.shape[1:]), ("12 frames of 20 × 16 pixels", "8 of 20 frames")),
        (appended, FRAMES.shape[1:], ("12 frames of 20 × 16 pixels",)),
        (white_zero, FRAMES.shape, ("0 is white",)),
    ],
    ids=["fewer frames than declared", "appended pages", "0 is white"],
)
def test_what_another_reader_showed_is_reported_and_can_be_mended(viewer, panel, qtbot, tmp_path, make, shape, facts):
    path = make(tmp_path)
    layer, page = opened(viewer, panel, path)
    assert layer.data.shape == shape
    layer.scale = [2.0] * layer.ndim
    wait_until(qtbot, lambda: not page.reread_button.isHidden())
    assert all(says(page.description.text(), fact) for fact in facts)
    page.reread_button.click()
    wait_until(qtbot, lambda: page.reread_button.isHidden())
    np.testing.assert_array_equal(layer.data, FRAMES)
    assert (tuple(layer.scale)[-2:], page.layer) == ((2.0, 2.0), layer)
    assert panel.map_box.baseline_maps.maximum() == COUNT
    assert all(says("".join(carried(layer, NOTES)), fact) for fact in facts[-1:] if make is not appended)
    assert FramesSource.of(layer).is_in_file()


@pytest.mark.parametrize("make", [tiff, lambda folder: tiff(folder, FRAMES[0])], ids=["a stack", "one frame"])
def test_nothing_is_said_of_a_file_that_is_read_alike(viewer, panel, qtbot, tmp_path, make):
    _, page = opened(viewer, panel, make(tmp_path))
    wait_until(qtbot, lambda: not page._look.is_busy)
    assert page.reread_button.isHidden()
    assert "\n" not in page.description.text()
    run(qtbot, panel)
    assert len(viewer.layers) > 1, panel.message


def test_several_files_as_one_stack_are_not_held_against_the_first(viewer, panel, qtbot, tmp_path):
    paths = [str(tiff(tmp_path, frame, f"{number}.tif")) for number, frame in enumerate(FRAMES[:3])]
    (layer,) = viewer.open(paths, stack=True, plugin="napari")
    panel.source_box.stack.layer_box.choose(layer)
    assert not panel.source_box.stack._look.is_busy
    assert layer.data.shape == (3, *FRAMES.shape[1:])


def test_a_file_that_napari_cannot_read_is_opened_by_the_panel(viewer, panel, qtbot, tmp_path):
    path = without_end(tiff(tmp_path))
    with pytest.raises(ValueError, match="failed to read"):
        viewer.open(str(path), plugin="napari")
    page = panel.source_box.stack
    page.open(path)
    wait_until(qtbot, lambda: len(viewer.layers) == 1)
    np.testing.assert_array_equal(page.layer.data, FRAMES[:8])
    assert says(page.description.text(), "4 of 12 frames")


def test_a_file_that_holds_no_frames_is_refused_in_a_sentence(panel, qtbot, tmp_path):
    (tmp_path / "a.tif").write_bytes(b"no picture")
    panel.source_box.stack.open(tmp_path / "a.tif")
    wait_until(qtbot, lambda: "a.tif" in panel.message)
    assert says(panel.message, "could not be opened")
