"""The dock widget "Diffusion tensors": ellipsoids."""

import numpy as np
import pytest
from napari.layers import Surface
from qtpy.QtWidgets import QComboBox

from napari_gpubio import diffusion
from napari_gpubio.core.space import viewer_to_world, world_to_viewer
from tests.diffusion.gui.tensor_samples import add_map, add_scan, names, phantom_field
from tests.dock_widgets import button

SEED, CALLOSUM = (-10.0, -20.0, 20.0), (0.0, -5.0, 22.0)


def show_ellipsoids(fit_panel, place, world=None):
    """Show those of a place, with the slices through a world position (mm)."""
    dims = fit_panel.viewer.dims
    if world is not None:
        dims.set_point(range(dims.ndim - 3, dims.ndim), world_to_viewer(world))
    box = next(b for b in fit_panel.findChildren(QComboBox) if b.findData("slice") >= 0)
    box.setCurrentIndex(box.findData(place))
    button(fit_panel, "Show").click()


def drawn(proxy):
    """World positions (mm) of the vertices of the ellipsoids on screen."""
    (layer,) = [layer for layer in proxy.layers if isinstance(layer, Surface)]
    on_screen = np.array([layer.data_to_world(v) for v in layer.data[0][::37]])
    return viewer_to_world(on_screen)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_ellipsoids_of_the_slice_on_screen(proxy, fit_panel, axis):
    show_ellipsoids(fit_panel, "slice")
    assert "fit a scan first" in fit_panel.message
    add_map(proxy, phantom_field())
    proxy.dims.order = [axis, *[a for a in range(3) if a != axis]]
    for _ in range(2):
        show_ellipsoids(fit_panel, "slice", SEED)
        assert fit_panel.message == ""
        assert names(proxy).count("ellipsoids") == 1
    assert np.abs(drawn(proxy)[:, 2 - axis] - SEED[2 - axis]).max() <= 2.75
    assert np.ptp(drawn(proxy)[:, (3 - axis) % 3]) > 80


@pytest.mark.parametrize(("place", "axis"), [("slice", 0), ("slice", 1), ("near", 2)])
def test_triangles_in_front_are_drawn_last(proxy, fit_panel, qtbot, place, axis):
    """napari draws a surface in 2-D without depth, one triangle after the other."""
    add_map(proxy, phantom_field())
    show_ellipsoids(fit_panel, place, SEED)
    proxy.dims.order = [axis, *[a for a in range(3) if a != axis]]
    qtbot.waitUntil(lambda: not fit_panel.ellipsoids.is_busy, timeout=10_000)
    vertices, faces, _ = proxy.layers["ellipsoids"].data
    on_screen = np.array([proxy.layers["ellipsoids"].data_to_world(v) for v in vertices])
    lit = {0: 1.0, 1: -1.0, 2: 1.0}[axis]  # from above, from behind, and from the right
    depth = lit * viewer_to_world(on_screen)[faces][..., 2 - axis].mean(axis=1)
    assert (np.diff(depth) >= -1e-4).all()
    assert np.ptp(depth) > 0


def test_ellipsoids_of_a_slice_follow_it_unless_they_are_hidden(proxy, fit_panel, qtbot):
    add_map(proxy, phantom_field())
    show_ellipsoids(fit_panel, "slice", SEED)
    layer = proxy.layers["ellipsoids"]

    def go_to(place):
        proxy.dims.set_point(range(3), world_to_viewer(place))
        qtbot.waitUntil(lambda: not fit_panel.ellipsoids.is_busy, timeout=10_000)

    go_to(CALLOSUM)
    assert np.abs(drawn(proxy)[:, 2] - CALLOSUM[2]).max() <= 2.75
    go_to((0.0, 0.0, 1000.0))
    assert not layer.visible
    go_to(SEED)
    assert layer.visible
    assert np.abs(drawn(proxy)[:, 2] - SEED[2]).max() <= 2.75
    layer.visible = False
    go_to(CALLOSUM)
    assert not layer.visible
    assert np.abs(drawn(proxy)[:, 2] - SEED[2]).max() <= 2.75


@pytest.mark.display
def test_ellipsoids_of_a_slice_beside_a_scan_of_four_axes(proxy, fit_panel):
    add_scan(proxy, diffusion.phantom.load_brain_phantom())
    add_map(proxy, phantom_field())
    show_ellipsoids(fit_panel, "slice", SEED)
    assert np.abs(drawn(proxy)[:, 2] - SEED[2]).max() <= 2.75


def test_ellipsoids_around_the_middle_of_the_view_lie_along_the_fibers(proxy, fit_panel):
    add_map(proxy, phantom_field())
    show_ellipsoids(fit_panel, "near", CALLOSUM)
    distance = np.linalg.norm(drawn(proxy) - CALLOSUM, axis=1)
    assert distance.max() <= 9 * 2.75
    assert distance.min() <= 2.75
    layer = proxy.layers["ellipsoids"]
    vertices = (layer.data[0] * layer.scale).reshape(-1, 42, 3)  # an icosphere each
    nearest = vertices[np.linalg.norm(vertices.mean(axis=1)[:, ::-1] - CALLOSUM, axis=1).argmin()]
    assert np.ptp(nearest, axis=0).argmax() == 2  # z, y, x: they run left-right there
    proxy.layers.remove("ellipsoids")
    show_ellipsoids(fit_panel, "near", (60.0, 60.0, 60.0))
    assert "no tensors here" in fit_panel.message
    assert "ellipsoids" not in names(proxy)


@pytest.mark.display
def test_removing_the_ellipsoids_does_not_move_the_slices(proxy, fit_panel, qtbot):
    """The slices jump to the end if a slider has fewer steps than before: ellipsoids must not bring smaller ones."""
    add_map(proxy, phantom_field())
    place = world_to_viewer(CALLOSUM)
    show_ellipsoids(fit_panel, "slice", CALLOSUM)
    qtbot.wait(20)
    proxy.layers.remove("ellipsoids")
    qtbot.wait(20)
    assert np.allclose(proxy.dims.point, place, atol=1.5)
