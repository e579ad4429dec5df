"""The dock widget "Diffusion tensors": ellipsoids."""

import numpy as np
import pytest
from napari.layers import Surface
from qtpy.QtWidgets import QComboBox, QPushButton

from napari_gpubio import tracts
from napari_gpubio.core.space import apply_affine, viewer_to_world, world_to_viewer
from tests.tracts.gui.tensor_samples import add_map, add_scan, names, phantom_field

# ------------------------------------------------------------------------------------------------------- ellipsoids


def show_ellipsoids(fit_panel, place):
    box = next(b for b in fit_panel.findChildren(QComboBox) if b.findData("slice") >= 0)
    box.setCurrentIndex(box.findData(place))
    next(b for b in fit_panel.findChildren(QPushButton) if b.text() == "Show").click()


def drawn(proxy, field):
    """World positions (mm) of the vertices of the ellipsoids on screen."""
    (layer,) = [layer for layer in proxy.layers if isinstance(layer, Surface)]
    on_screen = np.array([layer.data_to_world(v) for v in layer.data[0][::37]])
    return viewer_to_world(on_screen)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_ellipsoids_of_the_slice_on_screen(proxy, fit_panel, axis):
    field = phantom_field()
    add_map(proxy, field)
    proxy.dims.order = [axis, *[a for a in range(3) if a != axis]]
    seed = (-10.0, -20.0, 20.0)
    proxy.dims.set_point([0, 1, 2], world_to_viewer(seed))
    show_ellipsoids(fit_panel, "slice")
    assert fit_panel.message == ""
    across = drawn(proxy, field)[:, 2 - axis]
    assert np.abs(across - seed[2 - axis]).max() <= 2.75
    assert np.ptp(drawn(proxy, field)[:, (3 - axis) % 3]) > 80
    show_ellipsoids(fit_panel, "slice")
    assert names(proxy).count("ellipsoids") == 1


@pytest.mark.display
def test_ellipsoids_of_a_slice_beside_a_scan_of_four_axes(proxy, fit_panel):
    field = phantom_field()
    add_scan(proxy, tracts.phantom.load_brain_phantom())
    add_map(proxy, field)
    proxy.dims.set_point([1, 2, 3], world_to_viewer((-10.0, -20.0, 20.0)))
    show_ellipsoids(fit_panel, "slice")
    assert np.abs(drawn(proxy, field)[:, 2] - 20.0).max() <= 2.75


def test_ellipsoids_around_the_middle_of_the_view(proxy, fit_panel):
    field = phantom_field()
    add_map(proxy, field)
    seed = np.array([-22.0, -18.0, 12.0])
    proxy.dims.set_point([0, 1, 2], world_to_viewer(seed))
    show_ellipsoids(fit_panel, "point")
    distance = np.linalg.norm(drawn(proxy, field) - seed, axis=1)
    assert distance.max() <= 9 * 2.75
    assert distance.min() <= 2.75


def test_ellipsoids_lie_along_the_fibers(proxy, fit_panel):
    """In the corpus callosum the long axes run left-right."""
    field = phantom_field()
    add_map(proxy, field)
    proxy.dims.set_point([0, 1, 2], world_to_viewer((0.0, -5.0, 22.0)))
    show_ellipsoids(fit_panel, "point")
    (layer,) = [layer for layer in proxy.layers if isinstance(layer, Surface)]
    vertices = apply_affine(layer.affine.affine_matrix, layer.data[0]).reshape(-1, 42, 3)  # an icosphere each
    centers = vertices.mean(axis=1)[:, ::-1]
    nearest = vertices[np.linalg.norm(centers - (0.0, -5.0, 22.0), axis=1).argmin()]
    assert np.ptp(nearest, axis=0).argmax() == 2  # z, y, x


@pytest.mark.display
def test_removing_the_ellipsoids_does_not_move_the_slices(proxy, fit_panel, qtbot):
    """The slices jump to the end if a slider has fewer steps than before: ellipsoids must not bring smaller ones."""
    field = phantom_field()
    add_map(proxy, field)
    proxy.dims.set_point([0, 1, 2], world_to_viewer((0.0, -5.0, 22.0)))
    qtbot.wait(20)
    place = proxy.dims.point
    show_ellipsoids(fit_panel, "slice")
    qtbot.wait(20)
    proxy.layers.remove("ellipsoids")
    qtbot.wait(20)
    assert np.allclose(proxy.dims.point, place, atol=1.5)


def test_ellipsoids_outside_and_without_tensors_are_sentences(proxy, fit_panel):
    show_ellipsoids(fit_panel, "slice")
    assert "fit a scan first" in fit_panel.message
    field = phantom_field()
    add_map(proxy, field)
    proxy.dims.set_point([0, 1, 2], world_to_viewer((60.0, 60.0, 60.0)))
    show_ellipsoids(fit_panel, "point")
    assert "no tensors here" in fit_panel.message
    assert not any(isinstance(layer, Surface) for layer in proxy.layers)


def test_a_message_goes_when_the_ellipsoids_come(proxy, fit_panel):
    show_ellipsoids(fit_panel, "slice")
    assert fit_panel.message
    add_map(proxy, phantom_field())
    show_ellipsoids(fit_panel, "slice")
    assert fit_panel.message == ""
