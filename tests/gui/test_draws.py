"""Layers that shrink, hide and go while they are on screen draw nothing beyond their buffers."""

import numpy as np
import pytest
from vispy import gloo
from vispy.gloo import glir
from vispy.scene import SceneCanvas

from napari_gpubio.gui.lines.paint import STYLES
from tests.draw_check import checked_draws
from tests.gui.streamline_samples import cross

pytestmark = pytest.mark.display


@pytest.mark.usefixtures("checked_draws")
@pytest.mark.parametrize("ndisplay", [2, 3])
def test_streamlines_that_shrink_stay_inside_their_buffers(viewer, ndisplay):
    viewer.dims.ndisplay = ndisplay
    layer = viewer.add_layer(cross())
    points = np.array(layer.points)
    for style in STYLES:
        layer.line_style = style
        for count, offsets in ((63, [0, 21, 42, 63]), (4, [0, 2, 4]), (42, [0, 21, 42])):
            layer.set_streamlines(points[:count], offsets)
            viewer.screenshot(flash=False)
            layer.shown = np.arange(len(offsets) - 1) == 0
            viewer.screenshot(flash=False)
            layer.shown = None
        layer.visible = False
        viewer.screenshot(flash=False)
        layer.visible = True
    viewer.layers.clear()
    viewer.screenshot(flash=False)


@pytest.mark.usefixtures("checked_draws")
@pytest.mark.parametrize("ndisplay", [2, 3])
def test_shapes_and_points_that_are_emptied_stay_inside_their_buffers(viewer, ndisplay):
    viewer.dims.ndisplay = ndisplay
    viewer.add_image(np.random.default_rng(1).random((8, 20, 20)))
    shapes = viewer.add_shapes([[[4, 1, 1], [4, 15, 15]], [[4, 1, 15], [4, 15, 1], [4, 9, 9]]], shape_type="path")
    points = viewer.add_points(np.full((5, 3), 4.0) + np.arange(5)[:, None])
    viewer.screenshot(flash=False)
    for layer in (shapes, points):
        layer.selected_data = {0, 1}
        layer.refresh()
        viewer.screenshot(flash=False)
        layer.remove_selected()
        viewer.screenshot(flash=False)
        layer.data = []
        viewer.screenshot(flash=False)
    viewer.layers.clear()
    viewer.screenshot(flash=False)


@pytest.mark.parametrize(("indices", "is_right"), [([0, 1, 2], True), ([0, 1, 3], False)])
def test_an_index_beyond_the_vertices_is_found(monkeypatch, indices, is_right):
    monkeypatch.setattr(glir.GlirProgram, "draw", lambda *_: None)  # which might crash
    with checked_draws() as checked:
        canvas = SceneCanvas(show=False)
        program = gloo.Program("attribute vec2 a; void main() { gl_Position = vec4(a, 0, 1); }", "void main() {}")
        program["a"] = gloo.VertexBuffer(np.zeros((3, 2), np.float32))
        program.draw("triangles", gloo.IndexBuffer(np.array(indices, np.uint32)))
        canvas.context.flush_commands()
        canvas.close()
    assert checked.count == 1
    assert bool(checked.problems) != is_right
