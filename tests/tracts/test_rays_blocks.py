"""How the rays of a GPU are shared out among blocks, and that it cannot be seen in the fibers."""

import numpy as np
import pytest

from napari_gpubio.tracts import Directions, TrackSettings, ball, fit_tensors, load_brain_phantom, track
from napari_gpubio.tracts.kernels.rays import gpu

PROCESSORS = 132


@pytest.mark.parametrize(("rays", "expected"), [(1, 1), (528, 1), (2048, 4), (16_384, 32), (1_000_000, 32)])
def test_few_rays_are_spread_over_all_processors(rays, expected):
    assert gpu._rays_per_block(rays, PROCESSORS) == expected


def test_the_size_of_the_blocks_changes_no_bit(fake_gpu, monkeypatch):
    pretended = fake_gpu()
    field = fit_tensors(load_brain_phantom(), device="cpu")
    seeds, fan, settings = ball((0.0, -5.0, 22.0), 3.0, 5), Directions(count=9), TrackSettings(max_length_mm=20.0)
    found, sizes = [], set()
    for processors in (1, 4, PROCESSORS):
        monkeypatch.setattr(gpu, "processor_count", lambda device, n=processors: n)
        pretended.log.clear()
        found.append(track(field, seeds, fan, settings, device="cuda"))
        sizes |= {block for _, name, _, block in pretended.log if name == "trace_cubic"}
    assert len(sizes) == 3
    for fibers in found[1:]:
        np.testing.assert_array_equal(fibers.points, found[0].points)
        np.testing.assert_array_equal(fibers.offsets, found[0].offsets)
