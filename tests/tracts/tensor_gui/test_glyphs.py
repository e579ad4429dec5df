"""The dock widget "Diffusion tensors": ellipsoids."""

import numpy as np
import pytest
from napari.layers import Surface
from qtpy.QtWidgets import QComboBox, QPushButton

from napari_gpubio import tracts
from napari_gpubio.core.space import apply_affine, viewer_to_world, world_to_viewer
from tests.tracts.tensor_gui.panel_samples import add_map, add_scan, names, phantom_field

# ------------------------------------------------------------------------------------------------------- ellipsoids


def show_ellipsoids(panel, place):
    box = next(b for b in panel.findChildren(QComboBox) if b.findData("slice") >= 0)
    box.setCurrentIndex(box.findData(place))
    next(b for b in panel.findChildren(QPushButton) if b.text() == "Show").click()


def drawn(viewer, field):
    """World positions (mm) of the vertices of the ellipsoids on screen."""
    (layer,) = [layer for layer in viewer.layers if isinstance(layer, Surface)]
    on_screen = np.array([layer.data_to_world(v) for v in layer.data[0][::37]])
    return viewer_to_world(on_screen, field.affine, field.shape)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_ellipsoids_of_the_slice_on_screen(viewer, panel, axis):
    field = phantom_field()
    add_map(viewer, field)
    viewer.dims.order = [axis, *[a for a in range(3) if a != axis]]
    seed = (-10.0, -20.0, 20.0)
    viewer.dims.set_point([0, 1, 2], world_to_viewer(seed, field.affine, field.shape))
    show_ellipsoids(panel, "slice")
    assert panel.message == ""
    across = drawn(viewer, field)[:, 2 - axis]
    assert np.abs(across - seed[2 - axis]).max() <= 2.75
    assert np.ptp(drawn(viewer, field)[:, (3 - axis) % 3]) > 80
    show_ellipsoids(panel, "slice")
    assert names(viewer).count("ellipsoids") == 1


@pytest.mark.display
def test_ellipsoids_of_a_slice_beside_a_scan_of_four_axes(viewer, panel):
    field = phantom_field()
    add_scan(viewer, tracts.load_brain_phantom())
    add_map(viewer, field)
    viewer.dims.set_point([1, 2, 3], world_to_viewer((-10.0, -20.0, 20.0), field.affine, field.shape))
    show_ellipsoids(panel, "slice")
    assert np.abs(drawn(viewer, field)[:, 2] - 20.0).max() <= 2.75


def test_ellipsoids_around_the_middle_of_the_view(viewer, panel):
    field = phantom_field()
    add_map(viewer, field)
    seed = np.array([-22.0, -18.0, 12.0])
    viewer.dims.set_point([0, 1, 2], world_to_viewer(seed, field.affine, field.shape))
    show_ellipsoids(panel, "point")
    distance = np.linalg.norm(drawn(viewer, field) - seed, axis=1)
    assert distance.max() <= 9 * 2.75
    assert distance.min() <= 2.75


def test_ellipsoids_lie_along_the_fibers(viewer, panel):
    """In the corpus callosum the long axes run left-right."""
    field = phantom_field()
    add_map(viewer, field)
    viewer.dims.set_point([0, 1, 2], world_to_viewer((0.0, -5.0, 22.0), field.affine, field.shape))
    show_ellipsoids(panel, "point")
    (layer,) = [layer for layer in viewer.layers if isinstance(layer, Surface)]
    vertices = apply_affine(layer.affine.affine_matrix, layer.data[0]).reshape(-1, 42, 3)  # an icosphere each
    centers = vertices.mean(axis=1)[:, ::-1]
    nearest = vertices[np.linalg.norm(centers - (0.0, -5.0, 22.0), axis=1).argmin()]
    assert np.ptp(nearest, axis=0).argmax() == 2  # z, y, x


@pytest.mark.display
def test_removing_the_ellipsoids_does_not_move_the_slices(viewer, panel, qtbot):
    """The slices jump to the end if a slider has fewer steps than before: ellipsoids must not bring smaller ones."""
    field = phantom_field()
    add_map(viewer, field)
    viewer.dims.set_point([0, 1, 2], world_to_viewer((0.0, -5.0, 22.0), field.affine, field.shape))
    qtbot.wait(20)
    place = viewer.dims.point
    show_ellipsoids(panel, "slice")
    qtbot.wait(20)
    viewer.layers.remove("ellipsoids")
    qtbot.wait(20)
    assert np.allclose(viewer.dims.point, place, atol=1.5)


def test_ellipsoids_outside_and_without_tensors_are_sentences(viewer, panel):
    show_ellipsoids(panel, "slice")
    assert "fit a scan first" in panel.message
    field = phantom_field()
    add_map(viewer, field)
    viewer.dims.set_point([0, 1, 2], world_to_viewer((60.0, 60.0, 60.0), field.affine, field.shape))
    show_ellipsoids(panel, "point")
    assert "no tensors here" in panel.message
    assert not any(isinstance(layer, Surface) for layer in viewer.layers)


def test_a_message_goes_when_the_ellipsoids_come(viewer, panel):
    show_ellipsoids(panel, "slice")
    assert panel.message
    add_map(viewer, phantom_field())
    show_ellipsoids(panel, "slice")
    assert panel.message == ""
