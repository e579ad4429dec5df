"""Streamlines in a window: colors, filters, places, and lines that are uploaded in pieces."""

import itertools

import numpy as np
import pytest

from napari_gpubio.core.napari_io import volume_layer
from napari_gpubio.core.space import apply_affine
from napari_gpubio.gui.streamlines import Streamlines, uploads, visual
from napari_gpubio.gui.streamlines.visual import CanvasScreen
from tests.gui.streamline_samples import BLUE, GREEN, RED, count, cross, seen


def assert_all_colors(viewer):
    picture = seen(viewer)
    assert min(count(picture, rgb) for rgb in (RED, GREEN, BLUE)) > 100


@pytest.mark.display
def test_lines_are_drawn_in_their_colors(viewer):
    layer = viewer.add_layer(cross())
    viewer.dims.set_point(0, 10)
    picture = seen(viewer)
    assert count(picture, RED) > 100
    assert count(picture, GREEN) > 100
    assert count(picture, BLUE) == 0, "along the view"
    viewer.dims.ndisplay = 3
    viewer.scene.camera.angles = (20, 30, 40)
    assert_all_colors(viewer)
    layer.color_by, layer.color = "uniform", "yellow"
    assert count(seen(viewer), RED) == 0
    assert count(seen(viewer), [255, 255, 0]) > 300
    layer.color_by = "number"
    layer.colormap = "green"
    picture = seen(viewer)
    assert count(picture, GREEN) > 100
    assert count(picture, RED) == 0


@pytest.mark.display
def test_the_filter_hides_fibers(viewer):
    layer = viewer.add_layer(cross())
    viewer.dims.set_point(0, 10)
    layer.shown = [False, True, False]
    picture = seen(viewer)
    assert count(picture, RED) == 0
    assert count(picture, GREEN) > 100
    layer.shown = [False, False, False]
    assert seen(viewer).max() == 0
    layer.shown = None
    assert count(seen(viewer), RED) > 100


@pytest.mark.display
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_the_slab_hides_what_is_far_and_fades_what_is_near(viewer, order):
    sizes = np.array([1.0, 2.0, 3.0])
    axis = order[0]
    options = {"slab_mm": 4 * sizes[axis], "color_by": "uniform"}
    layer = viewer.add_layer(cross(affine=np.diag([*sizes * [1, -1, 1], 1.0]), **options))
    layer.shown = np.arange(3) == 2 - order[1]  # one that lies in the slice
    viewer.dims.order = order
    center = layer.data_to_world((10, 10, 10))[axis]
    brightness = []
    for away in (0, 2, 3):
        viewer.dims.set_point(axis, center + away * sizes[axis])
        brightness.append(seen(viewer).max())
    assert brightness == pytest.approx([255, 255 * (1 - 0.5**2), 255 * (1 - 0.75**2)], abs=2)
    viewer.dims.set_point(axis, center - 5 * sizes[axis])
    assert seen(viewer).max() == 0
    layer.slab_mm = 0
    assert seen(viewer).max() > 250


@pytest.mark.display
def test_opacity_visibility_selection_and_width(viewer):
    layer = viewer.add_layer(cross(color_by="uniform", color="red", line_style="lines"))
    viewer.dims.ndisplay = 3
    layer.opacity = 0.5
    assert 110 < seen(viewer)[..., 0].max() < 145
    layer.opacity = 1.0
    red = count(seen(viewer), RED)
    layer.line_width = 4
    assert count(seen(viewer), RED) > 2 * red
    layer.line_width = 1
    assert seen(viewer)[..., 1].max() == 0
    layer.select_fiber(0)
    assert (seen(viewer) == 255).all(axis=-1).sum() > 100
    layer.shown = [False, True, True]
    assert seen(viewer)[..., 1].max() == 0, "a hidden fiber is not highlighted"
    layer.shown = None
    layer.visible = False
    assert seen(viewer).max() == 0
    layer.visible = True
    for blending in ("additive", "opaque", "minimum", "translucent_no_depth"):
        layer.blending = blending
        seen(viewer)
    viewer.layers.remove(layer)
    assert seen(viewer).max() == 0


@pytest.mark.display
def test_clipping_planes_cut_the_lines(viewer):
    layer = viewer.add_layer(cross())
    viewer.dims.ndisplay = 3
    viewer.scene.camera.angles = (20, 30, 40)
    before = count(seen(viewer), RED)
    layer.experimental_clipping_planes = [{"position": (0, 0, 15), "normal": (0, 0, 1), "enabled": True}]
    picture = seen(viewer)
    assert 0 < count(picture, RED) < 0.5 * before
    assert count(picture, GREEN) == 0


@pytest.mark.display
def test_new_lines_are_drawn(viewer):
    layer = viewer.add_layer(Streamlines(np.empty((0, 3)), [0]))
    viewer.dims.ndisplay = 3
    assert seen(viewer).max() == 0
    layer.set_streamlines(cross().points[:21], [0, 21])
    viewer.reset_view()
    assert count(seen(viewer), RED) > 100
    layer.set_streamlines(cross().points, cross().offsets)
    viewer.scene.camera.angles = (20, 30, 40)
    assert_all_colors(viewer)
    layer.select_fiber(2)
    layer.set_streamlines(layer.points[:21], [0, 21])
    assert layer.selected_fiber is None
    assert count(seen(viewer), RED) > 100
    layer.set_streamlines(np.empty((0, 3)), [0])
    assert seen(viewer).max() == 0


def volume_and_line(affine, shape):
    """Voxels (i, j, k) along a bent line, lit, and the line itself in world mm."""
    voxels = np.concatenate([[(i, 6, 4) for i in range(3, 16)], [(15, j, 4) for j in range(7, 12)]])
    voxels = np.concatenate([voxels, [(15, 11, k) for k in range(5, 9)]])
    volume = np.zeros(shape, np.float32)
    volume[tuple(voxels.T)] = 1.0
    return volume, apply_affine(affine, voxels)


STRAIGHT = np.array([[-1.5, 0, 0, 45.0], [0, 2, 0, -50], [0, 0, 3, -60], [0, 0, 0, 1]])


@pytest.mark.daily
@pytest.mark.display
def test_lines_lie_where_the_volume_shows_them(viewer):
    affine, shape = STRAIGHT, (20, 16, 12)
    volume, line = volume_and_line(affine, shape)
    data, keywords, _ = volume_layer(volume, affine, "volume", interpolation3d="nearest", contrast_limits=(0, 1))
    image = viewer.add_image(data, **keywords)
    layer = viewer.add_layer(Streamlines(line[:, ::-1], [0, len(line)], color_by="uniform", slab_mm=1))
    for order, ndisplay in itertools.product([(0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 2, 1)], [2, 3]):
        viewer.dims.order, viewer.dims.ndisplay = order, ndisplay
        viewer.dims.set_point(order[0], apply_affine(affine, (15, 6, 4))[::-1][order[0]])
        viewer.reset_view()
        viewer.scene.camera.zoom = 12
        if ndisplay == 3:
            viewer.scene.camera.angles = (15, 25, 10)
        layer.visible, image.visible = False, True
        bright = seen(viewer).max(axis=-1) > 100
        layer.visible, image.visible = True, False
        drawn = seen(viewer).max(axis=-1) > 100
        check_spans(drawn, bright, (order, ndisplay))


def check_spans(drawn, bright, where):
    """A line through the centers of the voxels lies on them, and is one voxel shorter than they are."""
    assert drawn.sum() > 30, where
    assert (drawn & bright).sum() > 0.98 * drawn.sum(), where
    spans, expected = (np.array([np.ptp(places) for places in np.nonzero(shown)]) for shown in (drawn, bright))
    assert (expected - spans < 45).all(), where
    assert (spans <= expected).all(), where


# -- uploads ----------------------------------------------------------------------------------------------------------


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
    assert_all_colors(viewer)


@pytest.mark.display
@pytest.mark.parametrize("shown", [True, False])
def test_a_picture_has_all_the_lines_in_a_window_that_is_not_shown_too(make_window, sent, shown):
    viewer = make_window(show=shown)
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
@pytest.mark.parametrize(("change", "vertices", "drawn"), [("filter", 63, 40), ("lines", 42, 80)])
def test_changes_in_the_midst_of_an_upload(viewer, sent, midst, qtbot, change, vertices, drawn):
    layer = viewer.add_layer(cross())
    midst()
    if change == "filter":
        layer.shown = [False, False, True]
    else:
        sent.clear()
        layer.set_streamlines(layer.points[:42], [0, 21, 42])
        seen(viewer)
    qtbot.waitUntil(lambda: sum(sent) == vertices, timeout=10_000)
    assert drawn_in(viewer) == drawn


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
