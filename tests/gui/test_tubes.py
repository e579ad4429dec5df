"""Streamlines as shaded tubes and lit lines: as wide and bright as they should be, and which of them is drawn when."""

import itertools

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.streamlines import Streamlines, visual
from napari_gpubio.gui.streamlines.tubes import has_geometry_shaders
from tests.gui.streamline_samples import seen

# One fiber along x, red and level on the canvas, and one along y, green and upright.
LEVEL = np.array([(12.0, 10.0, 0.0), (12.0, 10.0, 20.0)])
UPRIGHT = np.array([(8.0, 0.0, 10.0), (8.0, 20.0, 10.0)])


def crossing(**options):
    return Streamlines(np.concatenate([LEVEL, UPRIGHT]), [0, 2, 4], per_fiber={"n": np.array([0.0, 1.0])}, **options)


def in_3d(viewer, layer):
    viewer.add_layer(layer)
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    return seen(viewer).astype(int)


@pytest.mark.parametrize(
    ("version", "there"),
    [
        ("4.5 (Compatibility Profile) Mesa 22.3.6", True),
        ("3.2.0 NVIDIA 550.1", True),
        ("4.6 (Core Profile) Mesa 22.3.6", False),
        ("2.1 INTEL-18.8.4", False),
        ("OpenGL ES 3.2 Mesa", False),
        ("", False),
    ],
)
def test_which_drivers_have_geometry_shaders(version, there):
    assert has_geometry_shaders(version) == there


def test_an_unknown_style_is_refused():
    layer = crossing()
    with pytest.raises(InvalidInput, match="auto, lines, lit, tubes"):
        layer.line_style = "ribbons"
    assert layer.line_style == "auto"
    assert crossing(line_style="tubes").line_style == "tubes"


@pytest.mark.display
def test_a_tube_is_so_many_pixels_wide_and_has_a_dark_rim(viewer):
    layer = crossing(line_style="tubes", color_by="uniform")
    in_3d(viewer, layer)
    for width, pixels in ((1, 3), (8, 8), (15, 15)):
        layer.line_width = width
        light = seen(viewer).astype(int).sum(axis=-1)
        column = light[:, light.shape[1] // 2 + 60]  # across the level fiber, away from the crossing
        lit = np.flatnonzero(column > 20)
        assert abs(len(lit) - pixels) <= 1, width
        if width > 5:
            assert min(column[lit[0]], column[lit[-1]]) < 0.4 * column[lit].max(), width


@pytest.mark.display
def test_the_fiber_in_front_hides_the_other(viewer):
    layer = crossing(line_width=9)
    in_3d(viewer, layer)
    for style, turn in itertools.product(("tubes", "lit", "lines"), (0.0, 180.0)):
        layer.line_style, viewer.scene.camera.angles = style, (0.0, turn, 0.0)
        picture = seen(viewer)
        row, column = (size // 2 for size in picture.shape[:2])
        middle = picture[row - 2 : row + 3, column - 2 : column + 3].max(axis=(0, 1))
        direction = np.array(viewer.scene.camera.view_direction)
        assert (middle[0] > 200) == (direction @ LEVEL[0] < direction @ UPRIGHT[0]), (style, turn)


@pytest.mark.display
def test_filters_and_colors_apply_to_tubes(viewer):
    layer = crossing(line_style="tubes", line_width=9)
    whole = in_3d(viewer, layer)
    layer.shown = np.array([True, False])
    one = seen(viewer).astype(int)
    assert 0.3 < (one.sum(axis=-1) > 20).sum() / (whole.sum(axis=-1) > 20).sum() < 0.7
    layer.color_by = "uniform"
    gray = seen(viewer).astype(int)
    assert np.ptp(gray[gray.sum(axis=-1) > 300], axis=-1).max() < 10


@pytest.fixture
def drawn(viewer):
    """A function that draws a layer and returns the style in which it was."""

    def style(layer):
        seen(viewer)
        return viewer.window._qt_viewer.canvas.layer_to_visual[layer].node.drawn_style

    return style


@pytest.mark.display
def test_slices_are_drawn_with_lines_and_clipped_layers_with_lit_ones(viewer, drawn):
    layer = crossing(line_style="tubes", line_width=1)
    in_3d(viewer, layer)
    assert drawn(layer) == "tubes"
    layer.experimental_clipping_planes = [{"position": (10, 10, 10), "normal": (0, 1, 0), "enabled": True}]
    assert drawn(layer) == "lit"
    layer.experimental_clipping_planes = []
    viewer.dims.ndisplay = 2
    assert drawn(layer) == "lines"


@pytest.mark.display
def test_many_fibers_translucent_ones_and_old_drivers_get_lit_lines(viewer, drawn, monkeypatch):
    layer = crossing()
    in_3d(viewer, layer)
    assert drawn(layer) == "tubes"
    layer.opacity = 0.5
    assert drawn(layer) == "lit"
    layer.opacity = 1.0
    monkeypatch.setattr(visual, "MAX_TUBES", 1)
    assert drawn(layer) == "lit"
    layer.shown = [True, False]
    assert drawn(layer) == "tubes"
    layer.line_style = "lines"
    assert drawn(layer) == "lines"
    layer.line_style = "tubes"
    monkeypatch.setattr(visual, "has_geometry_shaders", lambda _: False)
    assert drawn(layer) == "lit"


# -- lit lines --------------------------------------------------------------------------------------------------------


def lit_row(viewer, points, offsets, shown=None):
    """Brightness along the brightest row or column of a picture of lit lines, without the ends."""
    layer = Streamlines(points, offsets, line_style="lit", line_width=5, color_by="uniform", color=(0.8, 0, 0))
    layer.shown = shown
    viewer.add_layer(layer)
    viewer.dims.ndisplay = 3
    viewer.reset_view()
    picture = seen(viewer)[..., 0]
    viewer.layers.remove(layer)
    row, column = np.unravel_index(picture.argmax(), picture.shape)
    lines = [line[line > 10] for line in (picture[row], picture[:, column])]
    return max(lines, key=len)[3:-3]


@pytest.mark.display
@pytest.mark.parametrize("points", [2, 9])
def test_a_lit_line_is_darker_the_more_it_points_along_the_view(viewer, points):
    viewer.dims.ndisplay = 3
    camera = viewer.scene.camera
    across, along = (10 * np.array(axis) for axis in (camera.up_direction, camera.view_direction))
    bright = [
        np.median(lit_row(viewer, np.linspace(-end, end, points), [0, points]))
        for end in (across, across + along, across + 4 * along)
    ]
    assert bright[0] > 1.1 * bright[1] > 1.3 * bright[2] > 50


@pytest.mark.display
def test_the_last_segment_is_lit_as_the_line_is_and_not_by_the_next_line(viewer):
    """The vertex after the last one of a line is that of another line, wherever that lies."""
    viewer.dims.ndisplay = 3
    camera = viewer.scene.camera
    across, along = (10 * np.array(axis) for axis in (camera.up_direction, camera.view_direction))
    points = np.stack([-across, across, across + along, across - along])
    row = lit_row(viewer, points, [0, 2, 4], [True, False])
    assert len(row) > 100
    assert np.ptp(row) <= 3


@pytest.mark.display
def test_lit_lines_are_filtered_picked_and_as_wide_as_set(viewer):
    layer = crossing(line_style="lit", color_by="uniform")
    thin = (in_3d(viewer, layer).sum(axis=-1) > 60).sum()
    layer.line_width = 4
    wide = (seen(viewer).sum(axis=-1) > 60).sum()
    assert 3 < wide / thin < 5
    other = crossing(line_style="lit", color_by="uniform", name="other")
    layer.visible = False
    viewer.add_layer(other)
    layer.visible = True
    layer.shown = [False, False]
    assert (seen(viewer).sum(axis=-1) > 60).sum() == pytest.approx(thin, rel=0.1), "the width of one is not another's"
    other.shown = [True, False]
    assert (seen(viewer).sum(axis=-1) > 60).sum() < 0.8 * thin
    assert other.pick((12.0, 10.0, 4.0), (1.0, 0, 0), [0, 1, 2], 0.5) == 0
