"""The kept picture of fibers: pixel by pixel what is seen without it, and drawn anew only where it must be."""

import numpy as np
import pytest

from napari_gpubio.gui.streamlines import visual
from napari_gpubio.gui.streamlines.kept_picture import KeptPictureVisual
from tests.gui.streamline_samples import cross, seen

pytestmark = pytest.mark.display


@pytest.fixture
def scene(viewer, monkeypatch):
    """A viewer in 3-D with fibers, few but kept, and a plane through them; the plane is above them in the list."""
    monkeypatch.setattr(visual, "_FEW_SEGMENTS", 0)
    fibers = viewer.add_layer(cross(line_width=6, line_style="lit"))
    plane = viewer.add_image(np.full((21, 21, 21), 0.5, np.float32), contrast_limits=(0, 1), depiction="plane")
    plane.plane.normal = (1, 0, 0)
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    viewer.scene.camera.angles = (20, 30, 40)
    plane.plane.position = (10, 10, 10)
    return viewer, fibers, plane


@pytest.fixture
def drawn(monkeypatch):
    """The kept pictures that were drawn."""
    pictures = []
    begin = KeptPictureVisual._has_begun

    def spy(picture, *arguments):
        pictures.append(picture)
        return begin(picture, *arguments)

    monkeypatch.setattr(KeptPictureVisual, "_has_begun", spy)
    return pictures


def assert_same_without(viewer, monkeypatch):
    """Compare the picture with the one that is drawn without keeping."""
    seen(viewer)
    kept = seen(viewer)
    with monkeypatch.context() as patch:
        patch.setattr(visual, "_FEW_SEGMENTS", 10**9)
        plain = seen(viewer)
    assert plain.max() > 100
    assert (kept != plain).any(axis=-1).sum() <= 2, "but for rounded depths where fiber and plane meet"


@pytest.mark.parametrize("position", [-5.0, 3.0, 10.0, 17.0, 25.0])
def test_moving_planes_draw_no_fiber_again_and_cut_them_as_before(scene, drawn, monkeypatch, position):
    viewer, _, plane = scene
    seen(viewer)
    drawn.clear()
    plane.plane.position = (position, 10, 10)
    assert_same_without(viewer, monkeypatch)
    assert not drawn


CHANGES = {
    "filter": lambda viewer, fibers: setattr(fibers, "shown", [True, False, True]),
    "color": lambda viewer, fibers: setattr(fibers, "color_by", "number"),
    "camera": lambda viewer, fibers: setattr(viewer.scene.camera, "angles", (50, 10, 5)),
    "zoom": lambda viewer, fibers: setattr(viewer.scene.camera, "zoom", 9.0),
    "width": lambda viewer, fibers: setattr(fibers, "line_width", 2),
    "style": lambda viewer, fibers: setattr(fibers, "line_style", "tubes"),
    "affine": lambda viewer, fibers: setattr(fibers, "translate", (0, 3, 0)),
    "lines": lambda viewer, fibers: fibers.set_streamlines(fibers.points[:42], [0, 21, 42]),
    "planes": lambda viewer, fibers: setattr(
        fibers, "experimental_clipping_planes", [{"position": (0, 0, 12), "normal": (0, 0, 1), "enabled": True}]
    ),
    "background": lambda viewer, fibers: setattr(viewer, "theme", "light"),
    "window": lambda viewer, fibers: viewer.window.resize(700, 500),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_are_seen(scene, drawn, monkeypatch, change):
    viewer, fibers, _ = scene
    seen(viewer)
    drawn.clear()
    change(viewer, fibers)
    assert_same_without(viewer, monkeypatch)
    assert drawn


@pytest.mark.parametrize(("name", "value"), [("opacity", 0.5), ("blending", "additive")])
def test_what_is_not_opaque_is_drawn_in_every_frame(scene, drawn, monkeypatch, name, value):
    viewer, fibers, _ = scene
    setattr(fibers, name, value)
    drawn.clear()
    assert_same_without(viewer, monkeypatch)
    assert not drawn


def test_a_driver_without_the_framebuffer_draws_fibers_in_every_frame(scene, monkeypatch):
    viewer, fibers, _ = scene
    monkeypatch.setattr(KeptPictureVisual, "_has_begun", lambda *_: False)
    fibers.line_width = 5
    assert_same_without(viewer, monkeypatch)


def test_the_selected_fiber_and_pictures_of_other_sizes(scene, monkeypatch):
    viewer, fibers, _ = scene
    fibers.select_fiber(1)
    assert_same_without(viewer, monkeypatch)
    assert viewer.screenshot(size=(300, 400), flash=False).shape[:2] == (300, 400)
    assert_same_without(viewer, monkeypatch)
