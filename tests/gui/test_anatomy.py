"""Letters of the body's sides: at the borders of slices and on the compass."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_gpubio.gui.anatomy import OVERLAY, border_letters, screen_axes, show_letters
from napari_gpubio.gui.views import VIEWS, camera_of, set_view

AXIAL, CORONAL, SAGITTAL = (1, 2), (0, 2), (0, 1)


@pytest.mark.parametrize(
    ("displayed", "view", "letters"),
    [
        (AXIAL, "neurological", "APLR"),
        (AXIAL, "radiological", "APRL"),
        (CORONAL, "neurological", "SILR"),
        (CORONAL, "radiological", "SIRL"),
        (SAGITTAL, "neurological", "SIPA"),
        (SAGITTAL, "radiological", "SIAP"),
    ],
)
def test_letters_at_the_borders(displayed, view, letters):
    assert "".join(border_letters(displayed, VIEWS[view])) == letters


def test_naparis_own_view_has_the_front_below():
    assert "".join(border_letters(AXIAL, ("towards", "down", "right"))) == "PALR"


@pytest.mark.parametrize("view", VIEWS)
def test_the_compass_is_right_handed_as_the_body_is(view):
    model = ViewerModel(ndisplay=3)
    set_view(model, view)
    for angles in ((0, 0, 90), (30, -50, 110), (-70, 20, 5)):
        camera_of(model).angles = angles
        axes = screen_axes(camera_of(model))
        np.testing.assert_allclose(axes @ axes.T, np.eye(3), atol=1e-9)
        superior, anterior, right = axes
        np.testing.assert_allclose(np.cross(right, anterior), superior, atol=1e-9)


@pytest.mark.display
def test_the_compass_points_where_napari_draws_the_axes(viewer):
    """Points on the three axes, seen through the real canvas, lie where the compass says."""
    ends = np.eye(3) * 40
    viewer.add_points(ends, size=4)
    viewer.dims.ndisplay = 3
    canvas = viewer.window._qt_viewer.canvas
    for view in VIEWS:
        set_view(viewer, view)
        camera_of(viewer).center = (0, 0, 0)
        for angles in ((0, 0, 90), (25, -40, 100)):
            camera_of(viewer).angles = angles
            transform = canvas.layer_to_visual[viewer.layers[0]].node.get_transform("visual", "canvas")
            drawn = transform.map(np.concatenate([ends, np.zeros((1, 3))])[:, ::-1])
            drawn = (drawn[:, :2] / drawn[:, 3:])[:3] - (drawn[:, :2] / drawn[:, 3:])[3]
            expected = screen_axes(camera_of(viewer))[:, :2] * (1, -1)
            scale = np.abs(drawn).max() / np.abs(expected).max()
            np.testing.assert_allclose(drawn / scale, expected, atol=0.05)


@pytest.mark.display
def test_the_letters_follow_the_view_and_come_once(viewer):
    viewer.add_image(np.zeros((5, 6, 7)))
    assert show_letters(viewer)
    assert show_letters(viewer)
    overlay = viewer.canvas.overlays[OVERLAY]
    (visual,) = viewer.window._qt_viewer.canvas._viewer_overlay_to_visual[overlay]
    text = visual._text
    set_view(viewer, "neurological")
    assert list(text.text) == list("APLR")
    set_view(viewer, "radiological")
    assert list(text.text) == list("APRL")
    viewer.dims.order = (1, 0, 2)
    assert list(text.text) == list("SIRL")
    viewer.dims.ndisplay = 3
    assert list(text.text) == list(" SRPIL"), "A lies behind P"
