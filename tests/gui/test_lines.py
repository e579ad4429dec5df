"""Lines packed for the graphics card: layout, colors, display, and the line nearest to a click."""

import pickle

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.lines import ByDirection, ByNumber, Uniform, pack_lines, painted
from napari_gpubio.gui.lines.nearest import nearest_line, ray_frame
from napari_gpubio.gui.lines.packed import display_matrix, thumbnail, write_segments
from napari_gpubio.gui.lines.paint import automatic_limits, pack_rgb, unpack_rgb


def some_lines(counts=(3, 0, 1, 4), seed=0):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(sum(counts), 3)).astype(np.float32)
    return points, np.concatenate([[0], np.cumsum(counts)])


def test_packed_lines_hold_points_boxes_and_segments():
    points, offsets = some_lines()
    lines = pack_lines(points, offsets)
    assert np.array_equal(lines.points, points)
    assert np.array_equal(lines.vertices[:, :3], points[:, ::-1])
    assert lines.vertices.dtype == np.float32
    assert lines.counts.tolist() == [3, 0, 1, 4]
    assert lines.shown.all()
    assert np.array_equal(lines.lows[3], points[4:].min(axis=0)[::-1])
    assert np.array_equal(lines.highs[0], points[:3].max(axis=0)[::-1])
    assert np.array_equal(lines.extent, np.stack([points.min(axis=0), points.max(axis=0)]))
    assert lines.segments.tolist() == [[0, 1], [1, 2], [4, 5], [5, 6], [6, 7]]
    assert np.isnan(pack_lines(np.empty((0, 3)), [0, 0]).extent).all()


@pytest.mark.parametrize(
    ("points", "offsets", "sentence"),
    [
        (np.zeros((4, 2)), [0, 4], r"shape \(P, 3\)"),
        (np.zeros((4, 3)), [0, 3], "from 0 to the number of points, 4"),
        (np.zeros((4, 3)), [], "from 0 to the number of points"),
        (np.zeros((4, 3)), [0, 3, 2, 4], "must not decrease"),
        ([[0, 0, 0], [0, np.nan, 1]], [0, 2], "point 1 of the streamlines"),
        ([[0, 0, np.inf], [0, 0, 1]], [0, 2], "point 0 of the streamlines"),
    ],
)
def test_bad_lines_are_refused(points, offsets, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        pack_lines(points, offsets)


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        *(
            ({"per_fiber": {"length": values}}, r"'length' has shape .* for each fiber, 2")
            for values in (np.zeros(3), np.zeros((2, 2)), ["a", "b"])
        ),
        ({"per_fiber": {"direction": [1, 2]}}, "the name 'direction' is taken"),
        ({"per_point": {"uniform": [1, 2, 3]}}, "the name 'uniform' is taken"),
        ({"per_fiber": {"a": [1, 2]}, "per_point": {"a": [1, 2, 3]}}, "the name 'a' is taken"),
    ],
)
def test_bad_numbers_are_refused(numbers, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        pack_lines(*some_lines((2, 1)), **numbers)


def test_numbers_are_found_by_name():
    lines = pack_lines(*some_lines((2, 1)), per_fiber={"length": [5, 6]}, per_point={"fa": [1, 2, 3]})
    assert lines.names == ["length", "fa"]
    assert lines.numbers("length").tolist() == [5, 6]
    assert lines.numbers("fa").tolist() == [1, 2, 3]
    assert lines.numbers("md") is None


def test_a_filter_leaves_the_segments_of_shown_lines():
    lines = pack_lines(*some_lines())
    memory = np.empty_like(lines.segments)
    only_last = lines.with_shown([False, True, True, True])
    assert write_segments(only_last, memory).tolist() == [[4, 5], [5, 6], [6, 7]]
    assert write_segments(lines.with_shown([False] * 4), memory).shape == (0, 2)
    assert only_last.with_shown(None).shown.all()
    assert lines.shown.all(), "the lines themselves stay as they are"


def test_lines_are_painted_as_they_are_packed_if_they_have_the_number():
    points, offsets = some_lines((2, 1))
    paint = ByNumber("length", [0.0, 255.0], (0, 1))
    for black in (pack_lines(points, offsets), pack_lines(points, offsets, paint=paint)):
        assert black.paint is None
        assert not black.vertices[:, 3].any()
    red = pack_lines(points, offsets, paint=Uniform((1, 0, 0)))
    assert red.paint == Uniform((1, 0, 0))
    assert (unpack_rgb(red.vertices[:, 3]) == [255, 0, 0]).all()
    lines = pack_lines(points, offsets, per_fiber={"length": [0, 1]}, paint=paint)
    assert lines.paint == paint
    assert lines.with_numbers({"length": [1, 0]}, None).paint is None, "other numbers need other colors"


def test_packed_lines_can_come_from_another_process():
    lines = pack_lines(*some_lines(), per_point={"fa": np.zeros(8)}, paint=ByDirection())
    back = pickle.loads(pickle.dumps(lines))
    for name in ("vertices", "segments", "lows", "highs", "extent"):
        assert np.array_equal(getattr(back, name), getattr(lines, name))
    assert back.paint == lines.paint


def test_the_last_point_of_a_line_is_marked_in_its_color():
    lines = pack_lines(*some_lines(), paint=Uniform((0, 0, 1)))
    assert np.flatnonzero(lines.vertices[:, 3] < 0).tolist() == [2, 3, 7]
    assert (unpack_rgb(lines.vertices[:, 3]) == [0, 0, 255]).all()
    black = painted(lines, Uniform((0, 0, 0)))
    assert np.flatnonzero(black.vertices[:, 3] < 0).tolist() == [2, 3, 7]
    assert not unpack_rgb(black.vertices[:, 3]).any()
    white = painted(black, Uniform((1, 1, 1)))
    assert (unpack_rgb(white.vertices[:, 3]) == 255).all()


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
    values = np.arange(101.0)
    assert reds(values, None, per="point", counts=(101,)) == reds(values, (2.0, 98.0), per="point", counts=(101,))
    lines = pack_lines(*some_lines((2, 2)), per_fiber={"number": np.array([np.nan, 1.0], np.float32)})
    lines = painted(lines, ByNumber("number", pack_rgb([[1.0, 0, 0]] * 256), (0, 1)))
    assert unpack_rgb(lines.vertices[::2, 3]).tolist() == [[128] * 3, [255, 0, 0]], "without a value they are gray"


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


@pytest.mark.parametrize("displayed", [[1, 2], [0, 2], [0, 1], [2, 1], [0, 1, 2], [1, 2, 0]])
def test_display_matrix_selects_axes_of_a_straight_layer(displayed):
    matrix = display_matrix(np.diag([3.0, -2.0, 1.5]), displayed)
    zyx = np.array([10.0, 20.0, 30.0])
    assert matrix[: len(displayed)] @ zyx[::-1] == pytest.approx(zyx[displayed[::-1]])
    assert not matrix[len(displayed) :].any()


@pytest.mark.parametrize("displayed", [[1, 2], [0, 2], [0, 1]])
def test_display_matrix_mends_the_projection_of_a_turned_layer(displayed):
    """napari's own part of the transform, applied after the matrix, gives the true world coordinates."""
    linear = Rotation.from_euler("xyz", [0.3, -0.2, 0.4]).as_matrix() @ np.diag([3.0, -2.0, 1.5])
    zyx = np.array([10.0, 20.0, 30.0])
    local = display_matrix(linear, displayed)[:2] @ zyx[::-1]
    rows = displayed[::-1]
    assert linear[np.ix_(rows, rows)] @ local == pytest.approx((linear @ zyx)[rows])


def test_a_thumbnail_shows_each_point_in_its_color():
    lines = pack_lines([[0, 0, 0], [0, 9, 9], [0, 9, 0]], [0, 3], paint=Uniform((0, 1, 0)))
    picture = thumbnail(lines, [1, 2], (10, 10, 4))
    assert (picture[[0, 9, 9], [0, 9, 0]] == [0, 255, 0, 255]).all()
    assert picture[..., 1].sum() == 3 * 255
    assert not thumbnail(pack_lines(np.empty((0, 3)), [0]), [1, 2], (10, 10, 4))[..., :3].any()


def test_a_ray_frame_measures_in_the_world():
    linear, translate = np.diag([3.0, -2.0, 1.5]), np.array([1.0, 2.0, 3.0])
    direction = np.array([1.0, 2.0, -2.0])
    frame = ray_frame(linear, translate, (4, 5, 6), direction * 10)
    world = np.array([7.0, -3.0, 11.0])
    data = (world - translate) / np.diag(linear)
    u, v, w = frame @ np.append(data[::-1], 1.0)
    offset = world - (4, 5, 6)
    assert w == pytest.approx(offset @ direction / 3)
    assert np.hypot(u, v) == pytest.approx(np.linalg.norm(np.cross(offset, direction / 3)))


def brute_force(lines, linear, translate, position, direction):
    """Distance of each line from a ray, by sampling every segment finely."""
    direction = np.asarray(direction) / np.linalg.norm(direction)
    distances = []
    for a, b in zip(lines.offsets[:-1], lines.offsets[1:], strict=True):
        world = lines.points[a:b].astype(float) @ linear.T + translate - position
        t = np.linspace(0, 1, 200)[:, None, None]
        samples = (world[:-1] * (1 - t) + world[1:] * t).reshape(-1, 3)
        distances.append(np.linalg.norm(np.cross(samples, direction), axis=1).min())
    return np.array(distances)


@pytest.mark.parametrize("seed", range(5))
def test_the_picked_line_is_nearest_to_the_ray(seed):
    rng = np.random.default_rng(seed)
    points = np.cumsum(rng.normal(size=(30, 8, 3)), axis=1) + rng.normal(size=(30, 1, 3)) * 5
    lines = pack_lines(points.reshape(-1, 3), np.arange(31) * 8)
    linear, translate = rng.normal(size=(3, 3)), rng.normal(size=3)
    position, direction = rng.normal(size=3), rng.normal(size=3)
    distances = brute_force(lines, linear, translate, position, direction)
    frame = ray_frame(linear, translate, position, direction)
    # a tolerance whose quarters part the nearest line from the next
    first, second = np.sort(distances)[:2]
    assert nearest_line(lines, frame, (first + second) / 2) == distances.argmin()
    assert nearest_line(lines, frame, first * 0.98) is None


def two_lines_over_each_other():
    """Line 0 behind line 1 along z, both along x."""
    points = np.zeros((2, 5, 3))
    points[:, :, 0] = [[8.0], [-4.0]]
    points[1, :, 1] = 0.1
    points[:, :, 2] = np.arange(5.0)
    return pack_lines(points.reshape(-1, 3), [0, 5, 10])


def along_z(x=2.5, y=0, direction=1):
    return ray_frame(np.eye(3), np.zeros(3), (0, y, x), (direction, 0, 0))


def test_of_lines_over_each_other_the_front_one_is_picked():
    lines = two_lines_over_each_other()
    assert nearest_line(lines, along_z(), 1.0) == 1
    assert nearest_line(lines, along_z(direction=-1), 1.0) == 0
    assert nearest_line(lines, along_z(), 0.2) == 0, "half the tolerance away, and so no longer level"


def test_only_shown_lines_within_the_slab_are_picked():
    lines, frame = two_lines_over_each_other(), along_z()
    assert nearest_line(lines, frame, 1.0, 5.0, in_slice=True) == 1
    assert nearest_line(lines, frame, 1.0, 3.0, in_slice=True) is None
    assert nearest_line(lines, frame, 1.0, in_slice=True) == 1
    hidden = lines.with_shown([True, False])
    assert nearest_line(hidden, frame, 1.0, 5.0, in_slice=True) is None
    assert nearest_line(hidden, frame, 1.0, 9.0, in_slice=True) == 0


def test_a_segment_that_crosses_the_slab_counts_only_inside_it():
    """From (z, y) = (0, 0) to (10, 10): within 2 mm of the slice it is within 2 mm of the axis."""
    lines = pack_lines([[0, 0, 0], [10, 10, 0]], [0, 2])
    frame = along_z(0, 10)
    assert nearest_line(lines, frame, 1.0, in_slice=True) == 0
    assert nearest_line(lines, frame, 7.0, 2.0, in_slice=True) is None
    assert nearest_line(lines, frame, 8.1, 2.0, in_slice=True) == 0


def test_no_lines_no_pick():
    assert nearest_line(pack_lines(np.empty((0, 3)), [0]), along_z(), 1e9) is None
    assert nearest_line(pack_lines(np.zeros((1, 3)), [0, 0, 1]), along_z(), 1e9) is None
