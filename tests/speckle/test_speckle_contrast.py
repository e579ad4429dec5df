"""Contrast against its definition, closed forms, and what must not change it."""

import numpy as np
import pytest
from scipy import ndimage

from napari_gpubio.core import jit
from napari_gpubio.core.device import CPU
from napari_gpubio.speckle import ContrastSettings, contrast
from napari_gpubio.speckle.kernels.contrast import cpu
from napari_gpubio.speckle.settings import EDGES, SpatioTemporal, Temporal, Validity
from tests.speckle.choices import settings_with
from tests.speckle.reference import check_close, contrast_of

K_ERROR, SFI_ERROR = 2.5e-7, 5e-7
MODES = [
    ("spatial", False),
    ("temporal", False),
    ("temporal", True),
    ("spatio-temporal", False),
    ("spatio-temporal", True),
]


def noise(dtype, shape=(7, 23, 37), seed=0):
    top = {"u1": 256, "u2": 65536, "f4": 3000}[dtype]
    return (np.random.default_rng(seed).random(shape) * top).astype(dtype)


def k_of(stack, **options):
    return contrast(stack, settings_with(**options), device="cpu").contrast


@pytest.mark.parametrize("edges", EDGES)
@pytest.mark.parametrize(("mode", "blocks"), MODES)
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_every_mode_and_border_follows_the_definition(dtype, mode, blocks, edges, device):
    frames = noise(dtype)
    for window in (3, 7, 13):
        wanted = {"mode": mode, "window": window, "frames": 3, "blocks": blocks, "edges": edges}
        settings = settings_with(exposure_ms=4, **wanted)
        maps = contrast(frames, settings, device=device)
        expected = contrast_of(frames, settings.width, settings.depth, settings.step, edges)
        check_close(maps.contrast, expected, K_ERROR)
        check_close(maps.index, 1 / (2 * 4e-3 * expected**2), SFI_ERROR)
        assert (maps.unit, len(maps)) == ("1/s", len(expected))


@pytest.mark.parametrize("window", range(3, 32, 2))
def test_every_window_follows_the_definition(window):
    frame = noise("u2", (1, 40, 45), seed=window)
    check_close(k_of(frame, window=window), contrast_of(frame, window), K_ERROR)


@pytest.mark.parametrize("contrast_level", [0.05, 0.01, 0.002])
def test_little_contrast_at_a_high_level_keeps_its_digits(contrast_level):
    """Where single-precision sums lose up to all of them."""
    rng = np.random.default_rng(1)
    for mean, top in ((3500, 4095), (60000, 65535)):
        frame = np.clip(np.rint(mean * (1 + contrast_level * rng.standard_normal((1, 60, 70)))), 0, top).astype("u2")
        for window in (5, 7):
            check_close(k_of(frame, window=window), contrast_of(frame, window), K_ERROR)


def test_long_series_do_not_drift(device):
    frames = (3000 * (1 + 0.05 * np.random.default_rng(2).standard_normal((600, 6, 8)))).astype("u2")
    maps = contrast(frames, ContrastSettings(mode=Temporal(frames=25)), device=device)
    check_close(maps.contrast[-3:], contrast_of(frames[-27:], 1, 25), K_ERROR)


def test_real_brain_frame(shared_data):
    """Rat cortex, courtesy of D. Postnov, from the repository pkeilbach/pylsci (MIT)."""
    import tifffile

    frame = tifffile.imread(shared_data / "speckle" / "rat_cortex_1280x1024_u8.tif")
    for window, mean in ((5, 0.0884), (7, 0.0907)):
        k = k_of(frame, window=window)
        assert np.nanmean(k) == pytest.approx(mean, abs=3e-4)
    rows = slice(500, 540)
    check_close(k_of(frame[rows], window=7), contrast_of(frame[None, rows], 7)[0], K_ERROR)


def test_real_series_over_time(shared_data):
    """A finger pad, from the same repository."""
    from PIL import Image

    picture = np.asarray(Image.open(shared_data / "speckle" / "temporal_1000x64x64_u8.png"))
    frames = picture.reshape(1000, 64, 64)
    for count, mean in ((25, 0.254), (1000, 0.308)):
        k = k_of(frames[:count], mode="temporal", frames=count)
        assert k.mean() == pytest.approx(mean, abs=2e-3)
        check_close(k, contrast_of(frames[:count], 1, count), K_ERROR)


# -- closed forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [3, 5, 7, 31])
def test_a_bright_pixel_has_the_root_of_n(window):
    frame = np.zeros((65, 65), np.uint16)
    frame[32, 32] = 51234
    around = slice(32 - window // 2, 33 + window // 2)
    expected = np.full(frame.shape, np.nan)
    expected[around, around] = window
    np.testing.assert_array_equal(k_of(frame, window=window), expected)


@pytest.mark.parametrize("window", [3, 5, 7])
def test_a_ramp_has_its_closed_form(window):
    radius, n, columns = window // 2, window**2, np.arange(50)
    frame = np.broadcast_to(200 + 37 * columns, (20, 50)).astype("u2")
    expected = 37 * np.sqrt(radius * (radius + 1) / 3 * n / (n - 1)) / (200 + 37 * columns)
    inner = slice(radius, -radius)
    np.testing.assert_allclose(k_of(frame, window=window)[radius, inner], expected[inner], rtol=K_ERROR)


def test_scale_and_offset():
    frame = noise("u2") // 40
    k, inner = k_of(frame), (slice(None), slice(2, -2), slice(2, -2))
    np.testing.assert_allclose(k_of(7 * frame), k, rtol=K_ERROR)
    check_close(k_of(frame + 500), contrast_of(frame + 500, 5), K_ERROR)
    mean = ndimage.uniform_filter(frame.astype(float), (1, 5, 5))
    np.testing.assert_allclose(k_of(frame + 500)[inner], (k * mean / (mean + 500))[inner], rtol=1e-6)


@pytest.mark.parametrize("edges", EDGES)
def test_flips_and_transposes_commute(edges):
    frame = noise("u2")[0]
    k = k_of(frame, edges=edges)
    np.testing.assert_array_equal(k_of(frame[::-1], edges=edges), k[::-1])
    np.testing.assert_array_equal(k_of(frame[:, ::-1], edges=edges), k[:, ::-1])
    np.testing.assert_array_equal(k_of(frame.T, edges=edges), k.T)


def test_a_stack_is_its_frames_one_by_one(device):
    frames = noise("u1")
    whole = contrast(frames, device=device)
    assert np.array_equal(whole.contrast, [contrast(f, device=device).contrast for f in frames], equal_nan=True)
    assert contrast(frames[0], device=device).contrast.shape == frames.shape[1:]
    assert np.array_equal(whole[2].index, contrast(frames[2], device=device).index, equal_nan=True)


def test_threads_do_not_change_a_bit(monkeypatch):
    frames = noise("u2", (2, 90, 64))
    for options in ({}, {"mode": "temporal", "frames": 2}):
        settings = settings_with(window=7, edges="reflect", **options)
        made = []
        for threads, least in ((1, 1 << 15), (2, 64), (3, 200)):
            monkeypatch.setattr(jit, "thread_count", lambda threads=threads: threads)
            monkeypatch.setattr(cpu, "MIN_PIXELS", least)
            made.append(contrast(frames, settings, device=CPU).contrast)
        np.testing.assert_array_equal(made[1], made[0])
        np.testing.assert_array_equal(made[2], made[0])


@pytest.mark.parametrize("blocks", [False, True])
def test_small_batches_of_floating_point_frames_change_nothing(monkeypatch, blocks):
    frames = noise("f4", (9, 23, 37))
    settings = ContrastSettings(
        mode=SpatioTemporal(frames=2, blocks=blocks, edges="shrink"), mask=Validity(saturation=2000)
    )
    whole = contrast(frames, settings, device=CPU)
    monkeypatch.setattr(cpu, "BATCH_PIXELS", 2 * 23 * 37)
    monkeypatch.setattr(cpu, "MIN_PIXELS", 5 * 37)
    parts = contrast(frames, settings, device=CPU)
    for name in ("contrast", "index", "mask"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
