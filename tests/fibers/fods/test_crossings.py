"""On which share of their way fibers pass voxels with two directions."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.fibers.crossings import crossing_notes, crossing_share
from napari_gpubio.tractograms import Tractogram
from tests.diffusion.fods.samples import straight_bundles


def along_x(start, length, spacing):
    """Fibers along x through the middle of the bundles, two that share no piece."""
    x = start + np.arange(0, length + 1e-6, spacing)
    fiber = np.stack([x, np.full_like(x, 11.5), np.full_like(x, 11.5)], axis=1).astype(np.float32)
    points, offsets = np.concatenate([fiber, fiber[::-1]]), np.array([0, len(x), 2 * len(x)])
    return Tractogram(points=points, offsets=offsets, affine=np.eye(4), shape=(24, 24, 24))


@pytest.mark.parametrize("spacing", [0.25, 0.5])
def test_the_share_is_that_of_the_length_inside_a_crossing(spacing, device):
    crossing, single = straight_bundles([(1, 0, 0), (0, 1, 0)]), straight_bundles([(1, 0, 0)])
    fibers = along_x(2.0, 19.0, spacing)
    assert crossing_share(fibers, crossing, device=device) == pytest.approx(8 / 19, abs=0.01)  # voxels 8 to 15
    assert crossing_share(fibers, single, device=device) == 0
    uneven = dataclasses.replace(fibers, points=fibers.points[::2], offsets=-(-fibers.offsets // 2))
    assert crossing_share(uneven, crossing, device=device) == pytest.approx(8 / 19, abs=0.06)
    inside = crossing_share(along_x(9.0, 5.0, spacing), crossing, device=device)
    assert inside == pytest.approx(1)


def test_fods_of_another_place_and_no_fods_are_reported():
    fods, fibers = straight_bundles([(1, 0, 0)]), along_x(2.0, 19.0, 0.5)
    assert crossing_notes(fibers, None, "cpu") == ()
    assert crossing_notes(fibers.select(np.zeros(2, bool)), fods, "cpu") == ()
    far = dataclasses.replace(fibers, points=fibers.points + np.float32(500))
    assert "another space" in crossing_notes(far, fods, "cpu")[0]
    assert "0 %" in crossing_notes(fibers, fods, "cpu")[0]
