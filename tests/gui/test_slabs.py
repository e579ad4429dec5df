"""Segments of a slab: none is missing, and few come along that lie outside."""

import numpy as np
import pytest

from napari_gpubio.gui.lines import pack_lines
from napari_gpubio.gui.lines.slabs import SegmentOrder

RANDOM = np.random.default_rng(5)


def some_lines(count=200):
    counts = RANDOM.integers(0, 30, count)
    steps = RANDOM.normal(scale=0.6, size=(counts.sum(), 3))
    return pack_lines(np.cumsum(steps, axis=0) % 60, np.append(0, np.cumsum(counts)))


def extents(lines, segments, axis):
    ends = lines.vertices[segments][..., axis]
    return ends.min(axis=1), ends.max(axis=1)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize(("low", "high"), [(10.0, 15.0), (-5.0, 2.0), (59.0, 80.0), (30.0, 30.0), (-9.0, 99.0)])
def test_a_slab_has_every_segment_that_touches_it_and_few_others(axis, low, high):
    lines = some_lines()
    found = {tuple(one) for one in SegmentOrder(lines, axis).within(low, high).tolist()}
    lowest, highest = extents(lines, lines.segments, axis)
    touching = {tuple(one) for one in lines.segments[(lowest <= high) & (highest >= low)].tolist()}
    assert touching <= found
    near = (lowest <= high + 2.5) & (highest >= low - 2.5)
    assert len(found) <= near.sum() + (highest - lowest > 2.0).sum()
    assert len(found) == len(SegmentOrder(lines, axis).within(low, high))


@pytest.mark.parametrize(("low", "high"), [(-30.0, -20.0), (90.0, 99.0)])
def test_a_slab_beside_the_lines_is_empty(low, high):
    points = RANDOM.uniform(0, 1, (40, 3))
    assert not len(SegmentOrder(pack_lines(points, [0, 20, 40]), 2).within(low, high))


def test_lines_without_a_segment():
    for points, offsets in ((np.zeros((0, 3)), [0]), (np.zeros((2, 3)), [0, 1, 2])):
        assert SegmentOrder(pack_lines(points, offsets), 1).within(-1.0, 1.0).shape == (0, 2)


def test_only_shown_lines_are_left():
    lines = some_lines(20).with_shown(np.arange(20) % 3 == 0)
    segments = SegmentOrder(lines, 0).within(-1e3, 1e3, lines.shown)
    line_of = np.repeat(np.arange(20), lines.counts)
    assert set(line_of[segments[:, 0]]) <= set(range(0, 20, 3))
    assert len(segments) == np.maximum(lines.counts - 1, 0)[::3].sum()
