import dataclasses

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.viewer import line_buffers as lb


def some_lines(counts=(3, 0, 1, 4), seed=0):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(sum(counts), 3)).astype(np.float32)
    return points, np.concatenate([[0], np.cumsum(counts)])


def test_points_come_back_as_they_went_in():
    points, offsets = some_lines()
    lines = lb.pack_lines(points, offsets)
    assert np.array_equal(lines.points, points)
    assert np.array_equal(lines.vertices[:, :3], points[:, ::-1])
    assert lines.vertices.dtype == np.float32
    assert lines.counts.tolist() == [3, 0, 1, 4]
    assert lines.shown.all()


def test_boxes_and_extent():
    points, offsets = some_lines()
    lines = lb.pack_lines(points, offsets)
    assert np.array_equal(lines.lows[3], points[4:].min(axis=0)[::-1])
    assert np.array_equal(lines.highs[0], points[:3].max(axis=0)[::-1])
    assert np.array_equal(lines.extent, np.stack([points.min(axis=0), points.max(axis=0)]))
    assert np.isnan(lb.pack_lines(np.empty((0, 3)), [0, 0]).extent).all()


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
        lb.pack_lines(points, offsets)


@pytest.mark.parametrize("values", [np.zeros(3), np.zeros((2, 2)), ["a", "b"]])
def test_bad_numbers_are_refused(values):
    with pytest.raises(InvalidInput, match=r"'length' has shape .* for each fiber, 2"):
        lb.checked_table({"length": values}, 2, "fiber")


def test_segments_join_the_points_of_a_line_and_no_others():
    lines = lb.pack_lines(*some_lines())
    buffer = lb.segment_buffer(lines)
    assert buffer.shape == (5, 2)
    assert lb.write_segments(lines, buffer).tolist() == [[0, 1], [1, 2], [4, 5], [5, 6], [6, 7]]


def test_a_filter_leaves_the_segments_of_shown_lines():
    lines = lb.pack_lines(*some_lines())
    buffer = lb.segment_buffer(lines)
    only_last = dataclasses.replace(lines, shown=np.array([False, True, True, True]))
    assert lb.write_segments(only_last, buffer).tolist() == [[4, 5], [5, 6], [6, 7]]
    nothing = dataclasses.replace(lines, shown=np.zeros(4, bool))
    assert lb.write_segments(nothing, buffer).shape == (0, 2)


def test_every_colour_survives_packing():
    rgb = np.stack(np.meshgrid(*[np.arange(0, 256, 15)] * 3, indexing="ij"), -1).reshape(-1, 3)
    assert np.array_equal(lb.unpack_rgb(lb.pack_rgb(rgb / 255)), rgb)
    assert lb.pack_rgb((1.0, 1.0, 1.0, 0.5)) == 2**24 - 1


@pytest.mark.parametrize(("axis", "rgb"), [(2, [255, 0, 0]), (1, [0, 255, 0]), (0, [0, 0, 255])])
def test_direction_is_red_left_right_green_front_back_blue_up_down(axis, rgb):
    points = np.zeros((4, 3))
    points[:, axis] = [3, 2, 1, 0]
    lines = lb.pack_lines(points, [0, 4])
    lb.paint_direction(lines, np.diag([2.0, -1.0, 0.5]))
    assert (lb.unpack_rgb(lines.vertices[:, 3]) == rgb).all()


def test_direction_is_that_of_the_world():
    """Along a data diagonal, voxels of 4 x 3 mm give a world tangent of (z, y, x) = (4, 3, 0) / 5."""
    lines = lb.pack_lines(np.arange(3)[:, None] * [1.0, 1.0, 0.0], [0, 3])
    lb.paint_direction(lines, np.diag([4.0, 3.0, 7.0]))
    assert lb.unpack_rgb(lines.vertices[1, 3]).tolist() == [0, 153, 204]
    turn = np.eye(3)[[2, 1, 0]]  # world x is what the data call z
    lb.paint_direction(lines, turn @ np.diag([4.0, 3.0, 7.0]))
    assert lb.unpack_rgb(lines.vertices[1, 3]).tolist() == [204, 153, 0]


def test_direction_does_not_run_from_one_line_into_the_next():
    points = np.array([[0, 0, 0], [0, 0, 1], [9, 0, 1], [9, 1, 1], [5, 5, 5.0]])
    lines = lb.pack_lines(points, [0, 2, 4, 5])
    lb.paint_direction(lines, np.eye(3))
    red, green = [255, 0, 0], [0, 255, 0]
    assert lb.unpack_rgb(lines.vertices[:, 3]).tolist() == [red, red, green, green, [0, 0, 0]]


def test_values_go_through_the_colormap():
    lines = lb.pack_lines(*some_lines((2, 3, 0)))
    lut = lb.pack_rgb(np.linspace(0, 1, 256)[:, None] * [1, 1, 1])
    lb.paint_values(lines, np.array([1.0, np.nan, 5.0]), lut, (0.0, 2.0))
    assert lb.unpack_rgb(lines.vertices[:, 3])[:, 0].tolist() == [128, 128, 128, 128, 128]
    lb.paint_values(lines, np.array([-9, 0, 1, 2, 99]), lut, (0, 2))
    assert lb.unpack_rgb(lines.vertices[:, 3])[:, 0].tolist() == [0, 0, 128, 255, 255]
    lb.paint_values(lines, np.array([2, 0, 1]), lut, (0, 2))
    assert lb.unpack_rgb(lines.vertices[:, 3])[:, 0].tolist() == [255, 255, 0, 0, 0]


def test_values_without_a_number_are_grey():
    lines = lb.pack_lines(*some_lines((2, 2)))
    red = lb.pack_rgb([[1.0, 0, 0]] * 256)
    lb.paint_values(lines, np.array([np.nan, 1.0], np.float32), red, (0, 1))
    assert lb.unpack_rgb(lines.vertices[::2, 3]).tolist() == [[128] * 3, [255, 0, 0]]


def test_automatic_limits_are_percentiles_of_what_is_finite():
    values = np.concatenate([np.arange(101), [np.nan, np.inf]])
    assert lb.automatic_limits(values) == (2.0, 98.0)
    assert lb.automatic_limits(np.full(5, 3)) == (3.0, 4.0)
    assert lb.automatic_limits(np.array([np.nan])) == (0.0, 1.0)
    assert lb.automatic_limits(np.array([])) == (0.0, 1.0)


@pytest.mark.parametrize("displayed", [[1, 2], [0, 2], [0, 1], [2, 1], [0, 1, 2], [1, 2, 0]])
def test_display_matrix_selects_axes_of_a_straight_layer(displayed):
    matrix = lb.display_matrix(np.diag([3.0, -2.0, 1.5]), displayed)
    zyx = np.array([10.0, 20.0, 30.0])
    assert matrix[: len(displayed)] @ zyx[::-1] == pytest.approx(zyx[displayed[::-1]])
    assert not matrix[len(displayed) :].any()


@pytest.mark.parametrize("displayed", [[1, 2], [0, 2], [0, 1]])
def test_display_matrix_mends_the_projection_of_a_turned_layer(displayed):
    """napari's own part of the transform, applied after the matrix, gives the true world coordinates."""
    linear = Rotation.from_euler("xyz", [0.3, -0.2, 0.4]).as_matrix() @ np.diag([3.0, -2.0, 1.5])
    zyx = np.array([10.0, 20.0, 30.0])
    local = lb.display_matrix(linear, displayed)[:2] @ zyx[::-1]
    rows = displayed[::-1]
    assert linear[np.ix_(rows, rows)] @ local == pytest.approx((linear @ zyx)[rows])


def test_a_ray_frame_measures_in_the_world():
    linear, translate = np.diag([3.0, -2.0, 1.5]), np.array([1.0, 2.0, 3.0])
    direction = np.array([1.0, 2.0, -2.0])
    frame = lb.ray_frame(linear, translate, (4, 5, 6), direction * 10)
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
    lines = lb.pack_lines(points.reshape(-1, 3), np.arange(31) * 8)
    linear, translate = rng.normal(size=(3, 3)), rng.normal(size=3)
    position, direction = rng.normal(size=3), rng.normal(size=3)
    distances = brute_force(lines, linear, translate, position, direction)
    frame = lb.ray_frame(linear, translate, position, direction)
    # a tolerance whose quarters part the nearest line from the next
    first, second = np.sort(distances)[:2]
    assert lb.nearest_line(lines, frame, (first + second) / 2) == distances.argmin()
    assert lb.nearest_line(lines, frame, first * 0.98) is None


def two_lines_over_each_other():
    """Line 0 behind line 1 along z, both along x."""
    x = np.arange(5.0)
    back, front = np.zeros((5, 3)), np.zeros((5, 3))
    back[:, 0], back[:, 2] = 8.0, x
    front[:, 0], front[:, 2] = -4.0, x
    front[:, 1] = 0.1
    return lb.pack_lines(np.concatenate([back, front]), [0, 5, 10])


def test_of_lines_over_each_other_the_front_one_is_picked():
    lines = two_lines_over_each_other()
    forward = lb.ray_frame(np.eye(3), np.zeros(3), (0, 0, 2.5), (1, 0, 0))
    backward = lb.ray_frame(np.eye(3), np.zeros(3), (0, 0, 2.5), (-1, 0, 0))
    assert lb.nearest_line(lines, forward, 1.0) == 1
    assert lb.nearest_line(lines, backward, 1.0) == 0
    assert lb.nearest_line(lines, forward, 0.2) == 0, "half the tolerance away, and so no longer level"


def test_only_shown_lines_within_the_slab_are_picked():
    lines = two_lines_over_each_other()
    frame = lb.ray_frame(np.eye(3), np.zeros(3), (0, 0, 2.5), (1, 0, 0))
    assert lb.nearest_line(lines, frame, 1.0, 5.0, in_slice=True) == 1
    assert lb.nearest_line(lines, frame, 1.0, 3.0, in_slice=True) is None
    assert lb.nearest_line(lines, frame, 1.0, in_slice=True) == 1
    hidden = dataclasses.replace(lines, shown=np.array([True, False]))
    assert lb.nearest_line(hidden, frame, 1.0, 5.0, in_slice=True) is None
    assert lb.nearest_line(hidden, frame, 1.0, 9.0, in_slice=True) == 0


def test_a_segment_that_crosses_the_slab_counts_only_inside_it():
    """From (z, y) = (0, 0) to (10, 10): within 2 mm of the slice it is within 2 mm of the axis."""
    lines = lb.pack_lines([[0, 0, 0], [10, 10, 0]], [0, 2])
    frame = lb.ray_frame(np.eye(3), np.zeros(3), (0, 10, 0), (1, 0, 0))
    assert lb.nearest_line(lines, frame, 1.0, in_slice=True) == 0
    assert lb.nearest_line(lines, frame, 7.0, 2.0, in_slice=True) is None
    assert lb.nearest_line(lines, frame, 8.1, 2.0, in_slice=True) == 0


def test_no_lines_no_pick():
    frame = lb.ray_frame(np.eye(3), np.zeros(3), (0, 0, 0), (1, 0, 0))
    assert lb.nearest_line(lb.pack_lines(np.empty((0, 3)), [0]), frame, 1e9) is None
    assert lb.nearest_line(lb.pack_lines(np.zeros((1, 3)), [0, 0, 1]), frame, 1e9) is None
