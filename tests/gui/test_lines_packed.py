import pickle
import subprocess
import sys

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.lines import ByDirection, ByNumber, Uniform, pack_lines
from napari_gpubio.gui.lines.packed import write_segments
from napari_gpubio.gui.lines.paint import unpack_rgb
from tests.gui.line_samples import some_lines


def test_points_come_back_as_they_went_in():
    points, offsets = some_lines()
    lines = pack_lines(points, offsets)
    assert np.array_equal(lines.points, points)
    assert np.array_equal(lines.vertices[:, :3], points[:, ::-1])
    assert lines.vertices.dtype == np.float32
    assert lines.counts.tolist() == [3, 0, 1, 4]
    assert lines.shown.all()


def test_boxes_and_extent():
    points, offsets = some_lines()
    lines = pack_lines(points, offsets)
    assert np.array_equal(lines.lows[3], points[4:].min(axis=0)[::-1])
    assert np.array_equal(lines.highs[0], points[:3].max(axis=0)[::-1])
    assert np.array_equal(lines.extent, np.stack([points.min(axis=0), points.max(axis=0)]))
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


@pytest.mark.parametrize("values", [np.zeros(3), np.zeros((2, 2)), ["a", "b"]])
def test_bad_numbers_are_refused(values):
    with pytest.raises(InvalidInput, match=r"'length' has shape .* for each fiber, 2"):
        pack_lines(*some_lines((2, 1)), per_fiber={"length": values})


@pytest.mark.parametrize(
    ("per_fiber", "per_point", "name"),
    [
        ({"direction": [1, 2]}, {}, "direction"),
        ({}, {"uniform": [1, 2, 3]}, "uniform"),
        ({"a": [1, 2]}, {"a": [1, 2, 3]}, "a"),
    ],
)
def test_a_name_occurs_only_once(per_fiber, per_point, name):
    with pytest.raises(InvalidInput, match=f"the name '{name}' is taken"):
        pack_lines(*some_lines((2, 1)), per_fiber=per_fiber, per_point=per_point)


def test_numbers_are_found_by_name():
    lines = pack_lines(*some_lines((2, 1)), per_fiber={"length": [5, 6]}, per_point={"fa": [1, 2, 3]})
    assert lines.names == ["length", "fa"]
    assert lines.numbers("length").tolist() == [5, 6]
    assert lines.numbers("fa").tolist() == [1, 2, 3]
    assert lines.numbers("md") is None


def test_segments_join_the_points_of_a_line_and_no_others():
    lines = pack_lines(*some_lines())
    assert lines.segments.tolist() == [[0, 1], [1, 2], [4, 5], [5, 6], [6, 7]]


def test_a_filter_leaves_the_segments_of_shown_lines():
    lines = pack_lines(*some_lines())
    memory = np.empty_like(lines.segments)
    only_last = lines.with_shown([False, True, True, True])
    assert write_segments(only_last, memory).tolist() == [[4, 5], [5, 6], [6, 7]]
    assert write_segments(lines.with_shown([False] * 4), memory).shape == (0, 2)
    assert only_last.with_shown(None).shown.all()
    assert lines.shown.all(), "the lines themselves stay as they are"


def test_lines_are_painted_as_they_are_packed():
    points, offsets = some_lines((2, 3))
    black = pack_lines(points, offsets)
    assert black.paint is None
    assert not black.vertices[:, 3].any()
    red = pack_lines(points, offsets, paint=Uniform((1, 0, 0)))
    assert red.paint == Uniform((1, 0, 0))
    assert (unpack_rgb(red.vertices[:, 3]) == [255, 0, 0]).all()


def test_a_paint_without_its_number_leaves_lines_black():
    lines = pack_lines(*some_lines(), paint=ByNumber("length", [0.0, 255.0]))
    assert lines.paint is None
    assert not lines.vertices[:, 3].any()


def test_other_numbers_want_other_colors():
    paint = ByNumber("length", [0.0, 255.0], (0, 1))
    lines = pack_lines(*some_lines((2, 1)), per_fiber={"length": [0, 1]}, paint=paint)
    assert lines.paint == paint
    assert lines.with_numbers({"length": [1, 0]}, None).paint is None


def test_packed_lines_can_come_from_another_process():
    lines = pack_lines(*some_lines(), per_point={"fa": np.zeros(8)}, paint=ByDirection())
    back = pickle.loads(pickle.dumps(lines))
    for name in ("vertices", "segments", "lows", "highs", "extent"):
        assert np.array_equal(getattr(back, name), getattr(lines, name))
    assert back.paint == lines.paint


def test_packing_loads_neither_napari_nor_qt():
    code = "import sys, napari_gpubio.gui.lines; print(*{'napari', 'qtpy', 'vispy', 'PyQt6'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == ""
