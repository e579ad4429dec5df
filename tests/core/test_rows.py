"""Rows of large arrays on all cores: what NumPy gives, whatever the sizes, types and orders."""

import numpy as np
import pytest

from napari_gpubio.core.rows import copy_rows, finite_rows, row_sums, stacked_rows

MANY = 20_000  # rows, more than one thread takes


@pytest.mark.parametrize("count", [0, 1, MANY])
@pytest.mark.parametrize("order", ["C", "F"])
def test_sums_are_those_of_numpy(count, order):
    values = np.asarray(np.random.default_rng(0).normal(size=(count, 7)), order=order)
    np.testing.assert_allclose(row_sums(values), values.sum(axis=1), rtol=1e-12, atol=1e-12)
    assert row_sums(values.astype(np.float32)).dtype == np.float32


def test_finite_rows():
    values = np.ones((MANY, 5), np.float32)
    values[3, 1], values[7, 4], values[-1, 0] = np.nan, np.inf, -np.inf
    values[9] = 3e38  # finite, but not their sum
    np.testing.assert_array_equal(finite_rows(values), np.isfinite(values).all(axis=1))
    assert finite_rows(values[:0]).shape == (0,)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_rows_are_copied_to_their_places(dtype):
    source = np.random.default_rng(1).integers(0, 2, (MANY, 3)).astype(dtype)
    target, rows = np.zeros((2 * MANY, 3), dtype), np.random.default_rng(2).permutation(2 * MANY)[:MANY]
    copy_rows(source, target, rows)
    np.testing.assert_array_equal(target[rows], source)
    assert np.count_nonzero(target) == np.count_nonzero(source)
    whole = np.empty_like(source)
    copy_rows(source, whole)
    np.testing.assert_array_equal(whole, source)


@pytest.mark.parametrize("counts", [[MANY, 0, 1, 3 * MANY], [2] * 500, [0, 0], [5]])
def test_stacks_are_those_of_numpy(counts):
    random = np.random.default_rng(3)
    for parts in (
        [random.normal(size=(count, 3)).astype(np.float32) for count in counts],
        [random.integers(0, 9, count) for count in counts],
        [random.normal(size=count).astype(np.float32 if n else np.float64) for n, count in enumerate(counts)],
    ):
        expected, found = np.concatenate(parts), stacked_rows(parts)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


def test_lists_are_stacked_and_other_shapes_are_refused():
    np.testing.assert_array_equal(stacked_rows([[1, 2], [3]]), [1, 2, 3])
    for other in ((3,), (2, 1)):
        with pytest.raises(ValueError, match="dimension"):
            stacked_rows([np.ones((2, 3)), np.ones(other)])


def test_an_error_in_a_thread_is_raised():
    with pytest.raises(IndexError):
        copy_rows(np.ones((MANY, 2)), np.ones((10, 2)), np.arange(MANY))
