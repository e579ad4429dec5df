import numpy as np
import pytest

from napari_gpubio.core.napari_io import volume_layer
from napari_gpubio.core.space import apply_affine
from napari_gpubio.gui.streamlines import Streamlines
from tests.gui.streamline_samples import BLUE, GREEN, RED, count, cross, seen


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
    picture = seen(viewer)
    assert min(count(picture, rgb) for rgb in (RED, GREEN, BLUE)) > 100
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
    layer = viewer.add_layer(cross(color_by="uniform", color="red"))
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
    assert min(count(seen(viewer), rgb) for rgb in (RED, GREEN, BLUE)) > 100
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


@pytest.mark.display
@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 2, 1)])
@pytest.mark.parametrize("ndisplay", [2, 3])
def test_lines_lie_where_the_volume_shows_them(viewer, order, ndisplay):
    affine, shape = STRAIGHT, (20, 16, 12)
    volume, line = volume_and_line(affine, shape)
    data, keywords, _ = volume_layer(volume, affine, "volume", interpolation3d="nearest", contrast_limits=(0, 1))
    image = viewer.add_image(data, **keywords)
    layer = viewer.add_layer(Streamlines(line[:, ::-1], [0, len(line)], color_by="uniform", slab_mm=1))
    viewer.dims.order = order
    viewer.dims.ndisplay = ndisplay
    viewer.dims.set_point(order[0], apply_affine(affine, (15, 6, 4))[::-1][order[0]])
    viewer.reset_view()
    viewer.scene.camera.zoom = 12
    if ndisplay == 3:
        viewer.scene.camera.angles = (15, 25, 10)
    layer.visible = False
    bright = seen(viewer).max(axis=-1) > 100
    layer.visible, image.visible = True, False
    drawn = seen(viewer).max(axis=-1) > 100
    assert drawn.sum() > 30
    assert (drawn & bright).sum() > 0.98 * drawn.sum()
    rows, columns = np.nonzero(drawn)
    spans = [np.ptp(rows), np.ptp(columns)]
    expected = [np.ptp(where) for where in np.nonzero(bright)]
    # a line through the centers of the voxels is one voxel shorter than they are
    assert (np.array(expected) - spans < 45).all()
    assert (np.array(spans) <= expected).all()
