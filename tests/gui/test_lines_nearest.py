import numpy as np
import pytest

from napari_gpubio.gui.lines import pack_lines
from napari_gpubio.gui.lines.nearest import nearest_line, ray_frame


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
    x = np.arange(5.0)
    back, front = np.zeros((5, 3)), np.zeros((5, 3))
    back[:, 0], back[:, 2] = 8.0, x
    front[:, 0], front[:, 2] = -4.0, x
    front[:, 1] = 0.1
    return pack_lines(np.concatenate([back, front]), [0, 5, 10])


def test_of_lines_over_each_other_the_front_one_is_picked():
    lines = two_lines_over_each_other()
    forward = ray_frame(np.eye(3), np.zeros(3), (0, 0, 2.5), (1, 0, 0))
    backward = ray_frame(np.eye(3), np.zeros(3), (0, 0, 2.5), (-1, 0, 0))
    assert nearest_line(lines, forward, 1.0) == 1
    assert nearest_line(lines, backward, 1.0) == 0
    assert nearest_line(lines, forward, 0.2) == 0, "half the tolerance away, and so no longer level"


def test_only_shown_lines_within_the_slab_are_picked():
    lines = two_lines_over_each_other()
    frame = ray_frame(np.eye(3), np.zeros(3), (0, 0, 2.5), (1, 0, 0))
    assert nearest_line(lines, frame, 1.0, 5.0, in_slice=True) == 1
    assert nearest_line(lines, frame, 1.0, 3.0, in_slice=True) is None
    assert nearest_line(lines, frame, 1.0, in_slice=True) == 1
    hidden = lines.with_shown([True, False])
    assert nearest_line(hidden, frame, 1.0, 5.0, in_slice=True) is None
    assert nearest_line(hidden, frame, 1.0, 9.0, in_slice=True) == 0


def test_a_segment_that_crosses_the_slab_counts_only_inside_it():
    """From (z, y) = (0, 0) to (10, 10): within 2 mm of the slice it is within 2 mm of the axis."""
    lines = pack_lines([[0, 0, 0], [10, 10, 0]], [0, 2])
    frame = ray_frame(np.eye(3), np.zeros(3), (0, 10, 0), (1, 0, 0))
    assert nearest_line(lines, frame, 1.0, in_slice=True) == 0
    assert nearest_line(lines, frame, 7.0, 2.0, in_slice=True) is None
    assert nearest_line(lines, frame, 8.1, 2.0, in_slice=True) == 0


def test_no_lines_no_pick():
    frame = ray_frame(np.eye(3), np.zeros(3), (0, 0, 0), (1, 0, 0))
    assert nearest_line(pack_lines(np.empty((0, 3)), [0]), frame, 1e9) is None
    assert nearest_line(pack_lines(np.zeros((1, 3)), [0, 0, 1]), frame, 1e9) is None
