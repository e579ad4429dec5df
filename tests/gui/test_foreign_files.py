"""Files that napari's own reader has opened: what it has not shown is said in a notification, and mended from there."""

import numpy as np
import pytest
import tifffile
from napari.utils.notifications import notification_manager

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.reading import NOTES
from napari_gpubio.gui import foreign_files
from napari_gpubio.gui.scans import follow_scans, unfollow_scans
from napari_gpubio.speckle.io import READ_TIFF_SUFFIXES
from tests.conformance.frames import COUNT, FRAMES, SHAPE, pages, tiff
from tests.conformance.lost_frames import ome
from tests.dock_widgets import wait_until
from tests.sentences import says

pytestmark = pytest.mark.display


def appended(folder):
    for frame in FRAMES:
        tifffile.imwrite(folder / "a.tif", frame, append=True)
    return folder / "a.tif"


def ended_early(folder):
    return pages(folder, description=ome(20), name="a.ome.tif")


def thumbnail_first(folder):
    return pages(folder, [FRAMES[0, ::4, ::4].copy(), *FRAMES])


def colors(folder):
    return tiff(folder, np.stack([FRAMES >> 4] * 3, axis=-1).astype(np.uint8), photometric="rgb")


def channels(folder):
    hyper = np.random.default_rng(2).integers(0, 999, (5, 3, 2, *SHAPE), np.uint16)
    return tiff(folder, hyper, imagej=True, metadata={"axes": "TZCYX"})


def no_picture(folder):
    path = tiff(folder)
    path.write_bytes(path.read_bytes()[:100])
    return path


@pytest.fixture
def notes(viewer):
    """Follow the viewer; notifications since then."""
    follow_scans(viewer)
    first = len(notification_manager.records)
    yield lambda: notification_manager.records[first:]
    unfollow_scans(viewer)


def is_idle(viewer):
    from napari_gpubio.gui import scans

    return not scans._followed[id(viewer)]._files._files.is_busy


@pytest.mark.parametrize(
    ("make", "facts"),
    [
        (ended_early, ("a.ome.tif: it has 12 images; shown: 20", "8 of 20 frames")),
        (appended, ("a.tif: it has 12 images; shown: 1",)),
        (thumbnail_first, ("it has 12 images; shown: others", "of another size")),
    ],
)
def test_frames_shown_and_not_there_or_the_reverse_are_reported_and_mended(viewer, notes, qtbot, tmp_path, make, facts):
    (layer,) = viewer.open(str(make(tmp_path)), plugin="napari")
    layer.scale = [2.0] * layer.ndim
    wait_until(qtbot, lambda: bool(notes()))
    (record,) = notes()
    assert all(says(record.message, fact) for fact in facts)
    ((text, act),) = record.actions
    assert text == "Read it as frames"
    act()
    wait_until(qtbot, lambda: layer.data.shape == (COUNT, *SHAPE))
    np.testing.assert_array_equal(layer.data, FRAMES)
    assert tuple(layer.scale)[-2:] == (2.0, 2.0)
    assert make is appended or all(says("".join(carried(layer, NOTES)), fact) for fact in facts[-1:])
    act()  # clicked twice
    assert is_idle(viewer)


@pytest.mark.parametrize("make", [tiff, colors, channels])
def test_nothing_is_said_of_files_whose_frames_are_all_shown(viewer, notes, qtbot, tmp_path, make):
    viewer.open(str(make(tmp_path)), plugin="napari")
    wait_until(qtbot, lambda: is_idle(viewer))
    assert notes() == []


def test_a_file_that_is_no_tiff_any_more_is_left_to_its_reader(viewer, notes, qtbot, tmp_path):
    from napari.layers._source import Source

    path = no_picture(tmp_path)
    with_source = viewer.add_image(FRAMES)
    with_source._source = Source(path=str(path), reader_plugin="napari")
    viewer.layers.remove(with_source)
    viewer.layers.append(with_source)
    wait_until(qtbot, lambda: is_idle(viewer))
    assert notes() == []


def test_layers_that_another_plugin_made_of_each_channel_are_not_held_against_the_file(viewer, notes, qtbot, tmp_path):
    from napari.layers import Image
    from napari.layers._source import Source

    path = channels(tmp_path)
    one = Image(np.zeros((5, 3, *SHAPE), np.uint16))
    one._source = Source(path=str(path), reader_plugin="napari-ome")
    viewer.layers.append(one)
    wait_until(qtbot, lambda: is_idle(viewer))
    assert notes() == []


def test_the_files_that_are_looked_at_are_those_that_the_reader_takes():
    assert tuple(foreign_files._READERS) == READ_TIFF_SUFFIXES
