import numpy as np
import pytest

from napari_gpubio.gui.lines import ByDirection, ByNumber, Uniform, pack_lines, painted
from napari_gpubio.gui.lines.paint import automatic_limits, pack_rgb, unpack_rgb
from tests.gui.line_samples import some_lines


def test_every_color_survives_packing():
    rgb = np.stack(np.meshgrid(*[np.arange(0, 256, 15)] * 3, indexing="ij"), -1).reshape(-1, 3)
    assert np.array_equal(unpack_rgb(pack_rgb(rgb / 255)), rgb)
    assert pack_rgb((1.0, 1.0, 1.0, 0.5)) == 2**24 - 1


@pytest.mark.parametrize(("axis", "rgb"), [(2, [255, 0, 0]), (1, [0, 255, 0]), (0, [0, 0, 255])])
def test_direction_is_red_left_right_green_front_back_blue_up_down(axis, rgb):
    points = np.zeros((4, 3))
    points[:, axis] = [3, 2, 1, 0]
    lines = pack_lines(points, [0, 4])
    painted(lines, ByDirection(np.diag([2.0, -1.0, 0.5])))
    assert (unpack_rgb(lines.vertices[:, 3]) == rgb).all()


def test_direction_is_that_of_the_world():
    """Along a data diagonal, voxels of 4 x 3 mm give a world tangent of (z, y, x) = (4, 3, 0) / 5."""
    lines = pack_lines(np.arange(3)[:, None] * [1.0, 1.0, 0.0], [0, 3])
    painted(lines, ByDirection(np.diag([4.0, 3.0, 7.0])))
    assert unpack_rgb(lines.vertices[1, 3]).tolist() == [0, 153, 204]
    turn = np.eye(3)[[2, 1, 0]]  # world x is what the data call z
    painted(lines, ByDirection(turn @ np.diag([4.0, 3.0, 7.0])))
    assert unpack_rgb(lines.vertices[1, 3]).tolist() == [204, 153, 0]


def test_direction_does_not_run_from_one_line_into_the_next():
    points = np.array([[0, 0, 0], [0, 0, 1], [9, 0, 1], [9, 1, 1], [5, 5, 5.0]])
    lines = pack_lines(points, [0, 2, 4, 5])
    painted(lines, ByDirection(np.eye(3)))
    red, green = [255, 0, 0], [0, 255, 0]
    assert unpack_rgb(lines.vertices[:, 3]).tolist() == [red, red, green, green, [0, 0, 0]]


GRAYS = pack_rgb(np.linspace(0, 1, 256)[:, None] * [1, 1, 1])


def reds(values, limits, *, per="fiber", counts=(2, 3, 0)):
    """Red of each vertex when these values color lines of so many points from black to white."""
    lines = pack_lines(
        *some_lines(counts), **{f"per_{per}": {"number": values}}, paint=ByNumber("number", GRAYS, limits)
    )
    return unpack_rgb(lines.vertices[:, 3])[:, 0].tolist()


def test_values_go_through_the_colormap():
    assert reds(np.array([1.0, np.nan, 5.0]), (0.0, 2.0)) == [128, 128, 128, 128, 128]
    assert reds(np.array([-9, 0, 1, 2, 99]), (0, 2), per="point") == [0, 0, 128, 255, 255]
    assert reds(np.array([2, 0, 1]), (0, 2)) == [255, 255, 0, 0, 0]
    assert reds(np.array([0, 2, 1]), (0, 2), per="point", counts=(1, 1, 1)) == [0, 255, 128]


def test_limits_are_automatic_if_none_are_given():
    values = np.arange(101.0)
    assert reds(values, None, per="point", counts=(101,)) == reds(values, (2.0, 98.0), per="point", counts=(101,))


def test_values_without_a_number_are_gray():
    lines = pack_lines(*some_lines((2, 2)), per_fiber={"number": np.array([np.nan, 1.0], np.float32)})
    lines = painted(lines, ByNumber("number", pack_rgb([[1.0, 0, 0]] * 256), (0, 1)))
    assert unpack_rgb(lines.vertices[::2, 3]).tolist() == [[128] * 3, [255, 0, 0]]


def test_a_matrix_is_the_same_however_it_was_computed():
    turn = np.array([[0.9363, -0.2750, 0.2184], [0.2896, 0.9564, -0.0370], [-0.1987, 0.0978, 0.9752]])
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = turn * [3, -2, 1.5], [45, -60, 7]
    by_differences = np.column_stack([(affine @ [*unit, 1.0] - affine[:, 3])[:3] for unit in np.eye(3)])
    assert ByDirection(by_differences) == ByDirection(affine)
    assert ByDirection(2 * affine) == ByDirection(affine), "size does not matter"
    assert ByDirection(affine.T) != ByDirection(affine)


def test_a_paint_is_applied_only_once():
    lines = pack_lines(*some_lines((3,)), paint=Uniform((1, 0, 0)))
    lines.vertices[:, 3] = 0
    assert painted(lines, Uniform(np.array([1, 0, 0], np.float32))) is lines
    assert not lines.vertices[:, 3].any()
    assert painted(lines, Uniform((0, 1, 0))).vertices is lines.vertices
    assert (unpack_rgb(lines.vertices[:, 3]) == [0, 255, 0]).all()


def test_automatic_limits_are_percentiles_of_what_is_finite():
    values = np.concatenate([np.arange(101), [np.nan, np.inf]])
    assert automatic_limits(values) == (2.0, 98.0)
    assert automatic_limits(np.full(5, 3)) == (3.0, 4.0)
    assert automatic_limits(np.array([np.nan])) == (0.0, 1.0)
    assert automatic_limits(np.array([])) == (0.0, 1.0)
