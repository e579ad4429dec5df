import numpy as np
import pytest

from napari_gpubio.gui.streamlines import uploads, visual
from napari_gpubio.gui.streamlines.visual import CanvasScreen
from tests.gui.streamline_samples import BLUE, GREEN, RED, count, cross, seen


@pytest.fixture
def sent(monkeypatch):
    """Rows of the vertices that went up with each frame."""
    rows = []
    send = uploads.Upload.send

    def spy(upload, limit):
        before = upload.pending
        send(upload, limit)
        if not isinstance(upload.buffer, uploads.FrontIndexBuffer) and len(upload.array) > 30:
            rows.append(before - upload.pending)

    monkeypatch.setattr(uploads.Upload, "send", spy)
    monkeypatch.setattr(uploads, "PIECE_ROWS", 25)
    monkeypatch.setattr(uploads, "_SLOW_FRAME_SECONDS", 60.0)
    return rows


def drawn_in(viewer):
    """Number of indices that the layer draws now."""
    node = viewer.window._qt_viewer.canvas.layer_to_visual[viewer.layers[0]].node
    return node._lines._index_buffer.front


@pytest.fixture
def midst(sent, qtbot, monkeypatch):
    """A function that returns in the midst of an upload."""

    def wait():
        qtbot.waitUntil(lambda: sum(sent) > 0, timeout=10_000)
        assert sum(sent) < 63
        return sum(sent)

    monkeypatch.setattr(uploads, "PIECE_ROWS", 1)
    return wait


@pytest.mark.display
def test_a_window_gets_the_lines_in_pieces(viewer, sent, qtbot):
    viewer.dims.ndisplay = 3
    viewer.add_layer(cross())
    qtbot.waitUntil(lambda: sum(sent) == 63, timeout=10_000)
    assert sent == [25, 25, 13]
    assert drawn_in(viewer) == 120
    viewer.scene.camera.angles = (20, 30, 40)
    picture = seen(viewer)
    assert min(count(picture, rgb) for rgb in (RED, GREEN, BLUE)) > 100


@pytest.mark.display
def test_a_picture_has_all_the_lines(viewer, sent):
    viewer.dims.ndisplay = 3
    viewer.add_layer(cross())
    viewer.scene.camera.angles = (20, 30, 40)
    picture = seen(viewer)
    assert sum(sent) == 63
    assert min(count(picture, rgb) for rgb in (RED, GREEN, BLUE)) > 100


@pytest.mark.display
def test_a_picture_by_a_window_that_is_not_shown_has_all_the_lines(make_napari_viewer, sent):
    viewer = make_napari_viewer(show=False)
    viewer.add_layer(cross())
    viewer.window._qt_viewer.canvas._scene_canvas.render()
    assert sum(sent) == 63


PICTURES = {
    "screenshot": lambda viewer: viewer.screenshot(flash=False),
    "window": lambda viewer: viewer.screenshot(flash=False, canvas_only=False),
    "figure": lambda viewer: viewer.export_figure(flash=False),
    "render": lambda viewer: viewer.window._qt_viewer.canvas._scene_canvas.render(),
}


@pytest.mark.display
@pytest.mark.parametrize("take", PICTURES.values(), ids=PICTURES)
def test_a_picture_taken_meanwhile_has_all_the_lines(viewer, sent, midst, take):
    viewer.add_layer(cross())
    midst()
    take(viewer)
    assert sum(sent) == 63
    assert drawn_in(viewer) == 120


@pytest.mark.display
def test_other_colors_come_in_pieces_over_the_old_ones(viewer, sent, midst):
    layer = viewer.add_layer(cross(color_by="uniform", color="red"))
    seen(viewer)
    sent.clear()
    layer.color = "blue"
    midst()
    assert drawn_in(viewer) == 120, "the old ones are still there"
    viewer.dims.set_point(0, 10)
    picture = seen(viewer)
    assert sum(sent) == 63
    assert count(picture, BLUE) > 100
    assert count(picture, RED) == 0


@pytest.mark.display
def test_a_filter_uploads_no_vertex_and_all_segments_at_once(viewer, sent):
    layer = viewer.add_layer(cross())
    seen(viewer)
    sent.clear()
    layer.shown = [False, True, True]
    seen(viewer)
    assert not sum(sent)
    assert drawn_in(viewer) == 80


@pytest.mark.display
def test_a_filter_in_the_midst_of_an_upload(viewer, sent, midst, qtbot):
    layer = viewer.add_layer(cross())
    midst()
    layer.shown = [False, False, True]
    qtbot.waitUntil(lambda: sum(sent) == 63, timeout=10_000)
    assert drawn_in(viewer) == 40


@pytest.mark.display
def test_other_lines_in_the_midst_of_an_upload(viewer, sent, midst):
    layer = viewer.add_layer(cross())
    midst()
    sent.clear()
    layer.set_streamlines(layer.points[:42], [0, 21, 42])
    seen(viewer)
    assert sum(sent) == 42
    assert drawn_in(viewer) == 80


@pytest.mark.display
def test_slow_frames_end_the_pieces(viewer, sent, qtbot, monkeypatch):
    monkeypatch.setattr(uploads, "_SLOW_FRAME_SECONDS", 0.0)
    viewer.add_layer(cross())
    qtbot.waitUntil(lambda: sum(sent) == 63, timeout=10_000)
    assert sent == [25, 38]


@pytest.mark.display
def test_a_layer_that_is_taken_away_is_watched_no_longer(viewer, midst, qtbot):
    native = viewer.window._qt_viewer.canvas.native
    layer = viewer.add_layer(cross())
    assert len(native.findChildren(CanvasScreen)) == 1
    midst()
    viewer.layers.remove(layer)
    qtbot.waitUntil(lambda: not native.findChildren(CanvasScreen))


def test_only_segments_with_both_ends_are_drawn():
    segments, vertices = (uploads.Upload(buffer) for buffer in (uploads.FrontIndexBuffer(), visual.gloo.VertexBuffer()))
    segments.replace(np.array([[0, 1], [1, 2], [4, 5], [5, 6]], np.uint32))
    vertices.replace(np.zeros((7, 4), np.float32))
    assert uploads.drawable(segments, vertices) == 0
    vertices.send(5)
    segments.send(4)
    assert uploads.drawable(segments, vertices) == 2, "the third segment ends in vertex 5, which is not there"
    vertices.send(1)
    assert uploads.drawable(segments, vertices) == 3
    vertices.send(9)
    assert uploads.drawable(segments, vertices) == 4
