"""NumPy in slabs: the same as at once."""

import numpy as np
import pytest

from napari_gpubio.core import by_planes


@pytest.mark.parametrize("least", [1, 1 << 18])
def test_slabs_are_in_order_and_complete(monkeypatch, least):
    monkeypatch.setattr(by_planes, "_MIN_VALUES", least)
    values = np.random.default_rng(0).random((57, 3, 5))
    found = np.empty_like(values)
    parts = by_planes.in_slabs(lambda given, out: np.multiply(given, 2, out=out).sum(axis=(1, 2)), values, found)
    np.testing.assert_array_equal(found, 2 * values)
    np.testing.assert_array_equal(np.concatenate(parts), (2 * values).sum(axis=(1, 2)))
    assert by_planes.extremes(values) == (values.min(), values.max())


def test_one_nan_is_seen(monkeypatch):
    monkeypatch.setattr(by_planes, "_MIN_VALUES", 1)
    values = np.ones((40, 2))
    values[33, 1] = np.nan
    assert np.isnan(by_planes.extremes(values)).all()


def test_errors_reach_the_caller(monkeypatch):
    monkeypatch.setattr(by_planes, "_MIN_VALUES", 1)
    with pytest.raises(ZeroDivisionError):
        by_planes.in_slabs(lambda slab: 1 // (1 - int(slab[0])), np.arange(9))


@pytest.mark.parametrize("shape", [(5, 4, 3), (1, 30, 2), (7, 1, 1)])
@pytest.mark.parametrize("size", [1, 24, 1 << 22])
def test_parts_of_an_axis_are_in_order_and_complete(monkeypatch, shape, size):
    monkeypatch.setattr(by_planes, "SLAB", size)
    parts = list(by_planes.slabs_of(shape))
    assert [n for part in parts for n in range(part.start, part.stop)] == list(range(shape[0]))
    assert all(np.empty(shape)[part].size <= size or part.stop - part.start == 1 for part in parts)
    assert len(list(by_planes.slabs_of(shape, each=size))) == shape[0]


@pytest.mark.parametrize("shape", [(3, 2, 5), (8, 9, 16), (17, 3, 9)])
def test_a_volume_is_put_in_c_order_by_tiles(shape):
    values = np.random.default_rng(0).random(shape)
    for given in (values, np.asfortranarray(values), np.asfortranarray(values)[::-1, :, ::2]):
        found = by_planes.in_c_order(given)
        np.testing.assert_array_equal(found, given)
        assert found.flags.c_contiguous


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
def test_a_table_is_looked_up_plane_by_plane(kind):
    table = np.arange(300, dtype=np.float32) / 7
    indices = np.random.default_rng(0).integers(0, 256, (5, 4, 3)).astype(kind)
    np.testing.assert_array_equal(by_planes.looked_up(table, indices), table[indices])
    room = np.zeros((7, 6, 5), np.float32)
    by_planes.looked_up(table, indices, room[1:-1, 1:-1, 1:-1])
    np.testing.assert_array_equal(room, np.pad(table[indices], 1))
