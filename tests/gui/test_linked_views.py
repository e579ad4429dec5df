"""Three panes beside the canvas: they show the same layers, go where the user clicks, and paint the same labels."""

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QApplication
from vispy.gloo import glir

from napari_gpubio.core.napari_io import volume_layer
from napari_gpubio.gui.crosshair import crosshair_ends
from napari_gpubio.gui.linked_views import ORDERS, LinkedViews
from napari_gpubio.gui.picking import MarkerTool
from napari_gpubio.gui.scans import follow_scans, unfollow_scans
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.gui.views import camera_of, set_view
from tests.dock_widgets import Mouse
from tests.gui.counting_panel import CountingPanel
from tests.volume_samples import AFFINES

pytestmark = pytest.mark.display
SHAPE = (20, 24, 18)
MM = ("mm",) * 3


@pytest.fixture
def window_is_shown():
    """It need not draw: layers and panes are looked at, not pictures."""
    return False


@pytest.fixture
def image(viewer):
    affine = AFFINES["left-handed"].copy()
    data, keywords, _ = volume_layer(np.random.default_rng(0).random(SHAPE), affine, "image")
    return viewer.add_image(data, **keywords)


def linked(viewer):
    """The views, when all panes show the layers."""
    return until_ready(LinkedViews(viewer))


def until_ready(views):
    while not views.is_ready:
        QApplication.processEvents()
    return views


@pytest.fixture
def views(viewer, image, qtbot):
    views = linked(viewer)
    qtbot.addWidget(views)
    yield views
    views.detach()


def test_each_pane_says_that_it_is_being_drawn_until_it_is(viewer, image, qtbot):
    views = LinkedViews(viewer)
    qtbot.addWidget(views)
    while not views.panes:
        QApplication.processEvents()
    first = views.panes["axial"].waiting
    assert not first.isHidden()
    assert first.text() == "Linked views: drawing axial …"
    until_ready(views)
    assert all(pane.waiting.isHidden() for pane in views.panes.values())
    views.detach()


def models(views):
    return {name: pane.model for name, pane in views.panes.items()}


def center_of(image):
    return np.asarray(image.data_to_world((np.array(image.data.shape) - 1) // 2))


def beside(place, *offset):
    return place + np.array(offset)


def test_each_pane_shows_the_layers_along_its_axis_with_left_and_right_as_in_the_main_viewer(viewer, views, image):
    for name, model in models(views).items():
        (copy,) = model.layers
        assert copy.name == "image"
        assert copy.data is image.data
        assert tuple(model.dims.order) == ORDERS[name]
        np.testing.assert_allclose(copy.data_to_world((1, 2, 3)), image.data_to_world((1, 2, 3)))
    set_view(viewer, "radiological")
    for model in models(views).values():
        assert camera_of(model).orientation == camera_of(viewer).orientation


def test_a_surface_with_other_vertices_and_colors_is_followed(viewer, views):
    """Glyphs of another slice are another mesh in the same layer."""
    rng, faces = np.random.default_rng(1), np.array([[0, 1, 2]])
    surface = viewer.add_surface((rng.random((9, 3)), faces), vertex_colors=rng.random((9, 4)).astype(np.float32))
    for count in (4, 12):
        colors = rng.random((count, 4)).astype(np.float32)
        surface.vertex_colors = None
        surface.data, surface.vertex_colors = (rng.random((count, 3)), faces), colors
        for model in models(views).values():
            copy = model.layers[surface.name]
            np.testing.assert_array_equal(copy.vertices, surface.vertices)
            np.testing.assert_array_equal(copy.vertex_colors, colors)


@pytest.mark.daily
def test_a_click_or_drag_in_a_pane_moves_all(viewer, views, image):
    for number, pane in enumerate(models(views).values()):
        target = beside(center_of(image), 6.0, -4.0 + 4.0 * number, 8.0)
        Mouse(pane).click(target)
        np.testing.assert_allclose(viewer.dims.point, target, atol=1e-6)
        for model in models(views).values():
            np.testing.assert_allclose(model.dims.point, viewer.dims.point)
    start = center_of(image)
    Mouse(views.panes["coronal"].model).drag(start, beside(start, 2, 0, 2), beside(start, 6, 0, 4))
    np.testing.assert_allclose(viewer.dims.point, beside(start, 6, 0, 4), atol=1e-6)
    assert camera_of(views.panes["coronal"].model).mouse_pan


@pytest.mark.parametrize(("width", "views_first"), [(1280, False), (1580, True)])
def test_views_have_room_and_leave_the_panel_in_sight(make_window, qtbot, width, views_first):
    """napari would put them below it, a few pixels high; in a narrow window they are a row below the canvas."""
    viewer = make_window(show=True)
    viewer.add_image(np.zeros(SHAPE), units=MM)
    viewer.window.resize(width, 760)
    window, parts = viewer.window._qt_window, []
    for make in (LinkedViews, CountingPanel)[:: 1 if views_first else -1]:
        parts.append(make(viewer))
        viewer.window.add_dock_widget(parts[-1], name=make.__name__, area="right")
        qtbot.wait(100)
    views, panel = parts if views_first else parts[::-1]
    try:
        assert window.tabifiedDockWidgets(panel.parentWidget()) == []
        assert views.isVisible()
        assert not panel.visibleRegion().isEmpty()
        qtbot.waitUntil(lambda: panel.height() > 600)
        qtbot.waitUntil(lambda: views.height() > (400 if width > 1500 else 200))
        wanted = Qt.Orientation.Horizontal if width < 1500 else Qt.Orientation.Vertical
        qtbot.waitUntil(lambda: views.orientation() == wanted)
    finally:
        for part in parts:
            viewer.window.remove_dock_widget(part)
        panel.teardown()


def test_the_tools_of_the_main_viewer_get_clicks_and_drags(viewer, views, image):
    class Tool(MarkerTool):
        def __init__(self):
            super().__init__(viewer, lambda: np.array([start]), lambda: 1.0)
            self.clicks, self.drops = [], []
            self.dropped.connect(lambda index, target: self.drops.append(target))

        def clicked(self, event):
            self.clicks.append(np.array(event.position))

        def target_of(self, event, anchor):
            return lambda later: np.array(later.position)

    start = center_of(image)
    tool = Tool()
    tool.attach()
    far = beside(start, 0.0, 14.0, 0.0)
    Mouse(views.panes["axial"].model).click(far)
    np.testing.assert_allclose(tool.clicks, [far])
    viewer.dims.set_point(range(3), start)
    Mouse(views.panes["axial"].model).drag(start, beside(start, 0, 2, 2), beside(start, 0, 4, 4))
    np.testing.assert_allclose(tool.drops, [beside(start, 0, 4, 4)])
    np.testing.assert_allclose(viewer.dims.point, start)  # a marker that is dragged leaves the crosshair where it is
    tool.detach()


def test_the_crosshair_leaves_its_middle_free():
    ends = crosshair_ends((9.0, 1.0, 2.0, 3.0), (2, 3), 0.5)
    np.testing.assert_allclose(ends[1:3], [(2.5, 2.0, 0.0), (3.5, 2.0, 0.0)])
    np.testing.assert_allclose(ends[5:7], [(3.0, 1.5, 0.0), (3.0, 2.5, 0.0)])
    np.testing.assert_allclose(np.abs(ends[[0, 3]] - ends[[1, 2]]).max(), 1e4 - 0.5)


def test_panes_follow_the_settings_the_order_and_the_end_of_layers(viewer, views, image):
    image.contrast_limits, image.colormap, image.visible = (0.2, 0.4), "magma", False
    second = viewer.add_image(image.data, name="second", units=MM)
    viewer.layers.move(1, 0)
    for model in models(views).values():
        assert [layer.name for layer in model.layers] == ["second", "image"]
        copy = model.layers["image"]
        assert copy.contrast_limits == [0.2, 0.4]
        assert (copy.colormap.name, copy.visible) == ("magma", False)
    second.data = np.ones_like(np.asarray(second.data))
    viewer.layers.remove(image)
    for model in models(views).values():
        (copy,) = model.layers
        assert copy.data is second.data


def test_streamlines_share_their_lines_and_follow_filters(viewer, views):
    lines = np.random.default_rng(1).normal(size=(40, 3)) * 5
    fibers = viewer.add_layer(Streamlines(lines, [0, 20, 40], per_fiber={"length": np.array([1.0, 2.0])}, units=MM))
    copies = [model.layers["Streamlines"] for model in models(views).values()]
    fibers.shown = np.array([True, False])
    fibers.color_by = "length"
    for copy in copies:
        assert copy.lines.vertices is fibers.lines.vertices
        assert copy.shown.tolist() == [True, False]
        assert copy.color_by == "length"
    fibers.contrast_limits = (0.0, 4.0)
    assert all(copy.contrast_limits == (0.0, 4.0) for copy in copies)
    fibers.color_by_image(viewer.layers["image"])
    for copy in copies:
        assert (copy.color_by, copy.legend) == ("image", False)
        assert copy.lines.vertices is fibers.lines.vertices
    fibers.set_streamlines(lines[:20], [0, 20])
    assert all(len(copy.lines) == 1 for copy in copies)
    assert all(copy.color_by == "image" for copy in copies)


@pytest.mark.parametrize(("affine", "ndisplay"), [("left-handed", 3), ("oblique", 2), ("oblique", 3)])
def test_painting_in_a_pane_paints_the_layer_itself(viewer, views, qtbot, affine, ndisplay):
    array = np.zeros(SHAPE, np.uint8)
    data, keywords, _ = volume_layer(array, AFFINES[affine], "labels", kind="labels")
    labels = viewer.add_labels(data, **keywords)
    viewer.add_image(np.zeros(SHAPE), name="above")
    viewer.layers.selection.active = labels
    viewer.dims.ndisplay = ndisplay
    labels.mode, labels.selected_label, labels.brush_size = "paint", 3, 2
    model = views.panes["coronal"].model
    copy = model.layers["labels"]
    assert model.layers.selection.active is copy
    assert (str(copy.mode), copy.selected_label, copy.brush_size) == ("paint", 3, 2)
    place = center_of(labels)
    viewer.dims.set_point(range(3), place)
    strokes, drawn = [], []
    labels.events.paint.connect(lambda event: strokes.append(event.value))
    labels.events.set_data.connect(lambda _: drawn.append((np.asarray(labels.data) == 3).sum()))
    with copy.block_history():  # as a drag of the mouse does
        copy.paint(np.round(copy.world_to_data(place)), 3)
        qtbot.waitUntil(lambda: bool(drawn) and drawn[-1] > 0)
        copy.paint(np.round(copy.world_to_data(beside(place, 4.0, 0.0, 0.0))), 3)
    painted = (np.asarray(labels.data) == 3).sum()
    assert (array == 3).any()
    assert (len(strokes), drawn[-1]) == (1, painted)
    labels.undo()
    assert not array.any()
    copy.redo()
    assert (np.asarray(labels.data) == 3).sum() == painted


def test_images_are_planes_in_3d_and_volumes_again_after(viewer, views, image, qtbot):
    assert viewer.dims.ndisplay == 3
    series = viewer.add_image(np.zeros((2, *SHAPE)), name="series", units=("pixel", *MM))
    place = center_of(image)
    viewer.dims.set_point(range(1, 4), place)
    for layer in (image, series):
        assert layer.depiction == "plane"
        np.testing.assert_allclose(layer.plane.position, np.asarray(layer.world_to_data((0.0, *place)))[-3:])
        assert [abs(part) for part in layer.plane.normal] == [1.0, 0.0, 0.0]
    views.detach()
    assert [layer.depiction for layer in (image, series)] == ["volume", "volume"]


def test_planes_and_rgb_images_follow_the_crosshair_and_are_where_they_were_after(viewer, image, qtbot):
    normal = (0.0, 1.0, 0.0)
    plane = {"position": (1.0, 2.0, 3.0), "normal": normal}
    rgb = viewer.add_image(np.zeros((*SHAPE, 3)), rgb=True, name="directions", units=MM, depiction="plane", plane=plane)
    views = linked(viewer)
    qtbot.addWidget(views)
    place = center_of(image)
    views.go(place)
    np.testing.assert_allclose(rgb.plane.position, np.asarray(rgb.world_to_data(viewer.dims.point)))
    assert tuple(rgb.plane.normal) == normal
    views.detach()
    assert (rgb.depiction, tuple(rgb.plane.position)) == ("plane", plane["position"])


def test_a_move_in_3d_uploads_no_volume(viewer, views, image):
    sliced = []
    image.events.set_data.connect(sliced.append)
    target = beside(center_of(image), 6.0, -4.0, 8.0)
    views.go(target)
    np.testing.assert_allclose(viewer.dims.point, target, atol=1e-6)
    assert not sliced
    viewer.dims.ndisplay = 2
    assert sliced


def test_detached_panes_are_gone_and_come_back(viewer, views, image, qtbot):
    views.detach()
    assert not views.panes
    viewer.layers.remove(image)
    viewer.add_image(np.zeros(SHAPE), name="other")
    views.attach()
    until_ready(views)
    for model in models(views).values():
        assert [layer.name for layer in model.layers] == ["other"]


def test_detached_panes_leave_nothing_on_the_graphics_card(views, image, monkeypatch):
    alive = set()
    for kind in (glir.GlirProgram, glir.GlirTexture, glir.GlirBuffer):
        create, delete = kind.create, kind.delete
        monkeypatch.setattr(kind, "create", lambda self, do=create: (alive.add(self), do(self)))
        monkeypatch.setattr(kind, "delete", lambda self, do=delete: (alive.discard(self), do(self)))
    for pane in views.panes.values():
        pane.view.canvas.native.grabFramebuffer()
    assert {type(one) for one in alive} >= {glir.GlirProgram, glir.GlirTexture2D, glir.GlirVertexBuffer}
    views.detach()
    assert not alive


def test_units_that_a_layer_is_lent_are_lent_to_its_copies(viewer, views, image):
    follow_scans(viewer)
    frames = viewer.add_image(np.zeros(SHAPE), name="frames")
    volume = viewer.add_image(np.zeros(SHAPE), name="volume", units=MM)
    for pane in views.panes.values():
        assert [str(unit) for unit in pane.model.layers["frames"].units] == ["millimeter"] * 3
        assert pane.model.layers.extent.units is not None, "napari would warn"
    for layer in (volume, image):
        viewer.layers.remove(layer)
    assert str(frames.units[0]) == "pixel"
    unfollow_scans(viewer)


def test_a_pane_lets_no_welcome_page_list_its_shortcuts_again_and_again(viewer, monkeypatch):
    page, listed = viewer.window._qt_viewer._welcome_widget, []
    monkeypatch.setattr(type(page), "refresh_shortcuts", lambda one, *_: listed.append(one))
    views = linked(viewer)
    views.detach()
    views.deleteLater()
    assert page not in listed
    assert len(listed) <= len(ORDERS)
