"""Contrast on a real GPU, against the CPU."""

import numpy as np
import pytest

from napari_gpubio.speckle import ContrastSettings, ContrastStream, contrast
from napari_gpubio.speckle.kernels.contrast import gpu
from napari_gpubio.speckle.settings import EDGES
from tests.speckle.reference import ulps
from tests.speckle.test_speckle_backends import MOST_ULPS, OPTIONS, hard_frames

pytestmark = pytest.mark.gpu
SHAPES = [(4, 260, 348), (4, 261, 347)]


def check_same_maps(frames, settings, noise=None, device="cuda"):
    ours, theirs = (contrast(frames, settings, noise=noise, baseline=0.1, device=d) for d in (device, "cpu"))
    assert ulps(ours.contrast, theirs.contrast) <= MOST_ULPS
    if theirs.index is not None:
        assert ulps(ours.index, theirs.index) <= (MOST_ULPS if settings.index != "ict" else 16)
    if theirs.mask is not None:
        np.testing.assert_array_equal(ours.mask, theirs.mask)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4", "f8"])
@pytest.mark.parametrize("options", OPTIONS)
def test_every_option_follows_the_cpu(options, dtype, shape):
    chosen, noise = OPTIONS[options]
    for mode in ("spatial", "temporal", "spatio-temporal"):
        edges = EDGES[list(OPTIONS).index(options) % len(EDGES)]
        check_same_maps(hard_frames(dtype, shape), ContrastSettings(mode=mode, frames=3, edges=edges, **chosen), noise)


@pytest.mark.parametrize("window", range(3, 32, 2))
def test_every_window_follows_the_cpu(window):
    check_same_maps(hard_frames("u2", SHAPES[0]), ContrastSettings(window=window))


def test_large_batches_follow_the_cpu():
    frames = np.random.default_rng(1).integers(0, 4096, (40, 520, 696), np.uint16)
    check_same_maps(frames, ContrastSettings(window=7, mask=False))
    check_same_maps(frames, ContrastSettings(mode="temporal", frames=25, mask=False))


def test_ieee_divisions_have_the_bits_of_the_cpu(monkeypatch):
    monkeypatch.setattr(gpu, "IEEE", 1)
    frames = hard_frames("u2", SHAPES[0])
    ours, theirs = (contrast(frames, device=device) for device in ("cuda", "cpu"))
    assert np.array_equal(ours.contrast, theirs.contrast, equal_nan=True)
    assert np.array_equal(ours.index, theirs.index, equal_nan=True)


def test_all_gpus_together_have_the_bits_of_one():
    frames = hard_frames("u2", (30, 260, 348))
    one, together = (contrast(frames, device=device) for device in ("cuda:0", "cuda:all"))
    assert np.array_equal(one.contrast, together.contrast, equal_nan=True)


def test_streams_have_the_bits_of_a_stack():
    frames = hard_frames("u2", (30, 260, 348))
    settings = ContrastSettings(mode="spatio-temporal", frames=5)
    expected = contrast(frames, settings, device="cuda")
    with ContrastStream(settings, frames.shape[1:], "u2", device="cuda") as stream:
        made = [maps.contrast.copy() for maps in map(stream.push, frames) if maps is not None]
    assert np.array_equal(made, expected.contrast, equal_nan=True)
