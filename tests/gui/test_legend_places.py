"""Color bars, spheres, letters, compass and scale bar on canvases of several sizes: none lies over another one."""

import itertools

import numpy as np
import pytest
from napari.components import ViewerModel
from napari.qt import QtViewer

from napari_gpubio.core.napari_io import volume_layer
from napari_gpubio.core.quantity import Quantity
from napari_gpubio.gui.anatomy import OVERLAY
from napari_gpubio.gui.scans import follow_scans
from tests.gui.streamline_samples import cross

LETTER = 7.0  # pixels from the middle of a letter to its end
NARROWEST, NARROW, WIDE = (340, 640), (400, 640), (1300, 900)


@pytest.fixture
def shown(qtbot, napari_in_tests):
    """A function that shows a canvas of a size, with a volume in it."""
    views = []

    def show(size):
        model = ViewerModel()
        view = QtViewer(model)
        views.append(view)
        view.dims.hide()
        view.resize(*size)
        view.show()
        follow_scans(model)
        quantity = Quantity("fluence", "1/mm²", "log10")
        data, keywords, _ = volume_layer(
            np.random.default_rng(0).random((20, 24, 18)).astype(np.float32), np.eye(4), "head",
            metadata={"quantity": quantity, "title": "fluence rate per watt (1/mm²)"},
        )  # fmt: skip
        model.add_image(data, **keywords)
        return model, view

    yield show
    for view in views:
        view.close()


def rectangles(model, view):
    """What is drawn on a canvas in its corners and at its borders: left, top, right, bottom, by name."""
    canvas, found = view.canvas, {}
    canvas._update_overlay_canvas_positions()
    visuals = [(f"{layer.name}: {type(one).__name__}", visual)
               for layer, own in canvas._layer_overlay_to_visual.items() for one, visual in own.items()]  # fmt: skip
    visuals.append(("scale bar", canvas._viewer_overlay_to_visual[model.canvas.overlays.scale_bar][0]))
    for name, visual in visuals:
        if visual.node.visible and visual.x_size > 0:
            x, y = visual.node.transform.translate[:2]
            found[name] = (x, y, x + visual.x_size, y + visual.y_size)
    letters = canvas._viewer_overlay_to_visual[model.canvas.overlays[OVERLAY]][0]._text
    for text, (x, y) in zip(letters.text, letters.pos[:, :2], strict=False):
        if text != " ":
            found[f"letter {text}"] = (x - LETTER, y - LETTER, x + LETTER, y + LETTER)
    return found


def overlapping(found):
    return [
        (one, other)
        for (one, a), (other, b) in itertools.combinations(found.items(), 2)
        if a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
    ]


def check(model, view, size):
    found = rectangles(model, view)
    assert not overlapping(found), found
    for name, (left, top, right, bottom) in found.items():
        assert min(left, top) >= 0, name
        assert right <= view.canvas.size[1], name
        assert bottom <= view.canvas.size[0], name
    return found


@pytest.mark.display
@pytest.mark.parametrize("size", [NARROW, WIDE], ids=["narrow", "wide"])
def test_nothing_lies_over_anything_else(shown, size):
    model, view = shown(size)
    assert len(check(model, view, size)) == 6, "a bar, a scale bar, and four letters"
    fibers = model.add_layer(cross(name="a"))
    assert len(check(model, view, size)) == 7
    model.add_layer(cross(name="b", color_by="place"))
    assert len(check(model, view, size)) == 8
    for order in ((1, 0, 2), (2, 0, 1)):
        model.dims.order = order
        check(model, view, size)
    model.dims.ndisplay = 3
    check(model, view, size)
    model.dims.ndisplay = 2
    model.layers.remove(fibers)
    assert len(check(model, view, size)) == 7


@pytest.mark.display
def test_legends_that_a_canvas_has_no_room_for_are_counted_below_that_of_the_active_layer(shown):
    model, view = shown(NARROWEST)
    lines = [model.add_layer(cross(name=f"{top}", color_by="place", contrast_limits=(0, top))) for top in range(1, 5)]
    model.layers.selection.active = lines[2]
    found = few(model, view)
    assert any(name.startswith("3:") for name in found)
    (more,) = [visual.more.text for visual in visuals(view) if visual.more.visible]
    assert more == f"+{5 - len(found)} more"
    check(model, view, NARROWEST)
    for layer in lines[:-1]:
        layer.visible = False
    assert len(few(model, view)) == 2
    assert not any(visual.more.visible for visual in visuals(view))


def few(model, view):
    return [name for name in rectangles(model, view) if "TitledColorBar" in name]


def visuals(view):
    return [
        visual
        for own in view.canvas._layer_overlay_to_visual.values()
        for visual in own.values()
        if hasattr(visual, "more")
    ]


@pytest.mark.display
def test_letters_stand_in_the_middle_where_there_is_room(shown):
    model, view = shown(WIDE)
    found = rectangles(model, view)
    height, width = view.canvas.size
    top, right = (found[f"letter {name}"] for name in "AR")
    assert (top[0] + top[2]) / 2 == pytest.approx(width / 2)
    assert (right[1] + right[3]) / 2 == pytest.approx(height / 2)


@pytest.mark.display
def test_legends_that_a_canvas_has_no_width_for_stand_below_each_other(shown, qtbot):
    model, view = shown(WIDE)
    model.add_layer(cross(name="a"))
    model.add_layer(cross(name="b", color_by="place"))
    assert model.canvas.overlay_tiling.top_right == "horizontal"
    view.resize(*NARROWEST)
    qtbot.waitUntil(lambda: model.canvas.overlay_tiling.top_right == "vertical")
    check(model, view, NARROWEST)
