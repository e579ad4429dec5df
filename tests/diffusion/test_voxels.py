"""Signals taken out of volumes and put back, whatever the memory order, the mask and the volumes."""

import numpy as np
import pytest

from napari_gpubio.diffusion.voxels import signals_of, volume_of
from napari_gpubio.fibers.kernels.fibers.tally import kept_fibers

SHAPE = (9, 8, 7)
MASK = np.random.default_rng(0).random(SHAPE) < 0.4
MASK[2] = False


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.float64])
@pytest.mark.parametrize("volumes", [np.arange(6), np.array([4, 0]), np.array([], int)])
def test_signals_are_those_of_the_mask(order, dtype, volumes):
    data = np.asarray(np.random.default_rng(1).integers(-99, 99, (*SHAPE, 6)), dtype, order=order)
    found = signals_of(data, MASK, volumes)
    np.testing.assert_array_equal(found, data[MASK][:, volumes])
    assert found.dtype == np.float32
    assert found.flags.c_contiguous


def test_values_are_put_back_where_they_were():
    data = np.random.default_rng(2).normal(size=(*SHAPE, 4)).astype(np.float32)
    np.testing.assert_array_equal(volume_of(data[MASK], MASK), np.where(MASK[..., None], data, 0))
    np.testing.assert_array_equal(volume_of(np.ones(MASK.sum(), bool), MASK), MASK)
    nowhere = np.zeros(SHAPE, bool)
    assert not volume_of(np.empty((0, 4)), nowhere).any()
    assert signals_of(data, nowhere, np.arange(4)).shape == (0, 4)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="the volumes"):
        signals_of(np.ones((*SHAPE, 2)), MASK[:5], np.arange(2))
    for count in (MASK.sum() - 1, MASK.sum() + 1):
        with pytest.raises(ValueError, match="values for the"):
            volume_of(np.ones(count), MASK)


def test_fibers_that_are_kept_are_packed_one_behind_the_other():
    per_ray = np.array([[3, 2], [0, 0], [9, 1], [1, 0]])
    stats = np.zeros((4, 2, 7), np.float32)
    stats[:, :, 0] = [[6, 5], [20, 0], [4, 4], [6, 4]]
    kept, offsets = kept_fibers(per_ray, stats, 10.0)
    assert kept.tolist() == [True, False, False, True]  # the second has its seed alone, the third is too short
    assert offsets.tolist() == [0, 6, 6, 6, 8]
