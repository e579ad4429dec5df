"""What is given: checked, and refused with a sentence."""

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import ContrastSettings, ContrastStream, contrast

GOOD = np.random.default_rng(0).integers(1, 99, (3, 20, 22), np.uint8)


def refused(frames, settings=None, **options):
    with pytest.raises(InvalidInput) as error:
        contrast(frames, settings, device="cpu", **options)
    return str(error.value)


def with_pixel(value, dtype):
    """Frames with one pixel of the last frame changed."""
    frames = GOOD.astype(dtype)
    frames[2, 3, 4] = value
    return frames


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (np.zeros((20, 22, 3), np.uint8), "like color images; give one channel"),
        (np.zeros((5, 20, 22, 4), np.uint8), "like color images"),
        (np.zeros((20, 20), complex), "hold complex128 values"),
        (np.zeros((20, 20), bool), "hold bool values"),
        (np.zeros(20), "give one frame (y, x) or a stack"),
        (np.zeros((0, 20, 20), np.uint8), "and no pixels"),
        (with_pixel(np.nan, "f4"), "frame 2 holds values that are not finite (1 in what was read)"),
        (with_pixel(np.inf, "f4"), "frame 2 holds values that are not finite"),
        (GOOD * 1e15, "changes no contrast"),
        (GOOD * 1e-12, "changes no contrast"),
        (with_pixel(70_000, "i4"), "frames 0 to 2 hold values from 1 to 70000; integers must be within 0 and 65535"),
        (GOOD.astype("i2") - 50, "must be within 0 and 65535"),
        ([np.ones((20, 22)), np.ones((21, 22))], "different sizes, (20, 22) and (21, 22)"),
    ],
)
def test_frames_that_cannot_be_used(frames, message):
    assert message in refused(frames)


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "u4", "i8", ">u2", "list"])
def test_other_whole_numbers_are_taken_where_they_fit(dtype):
    expected = contrast(GOOD.astype(np.uint16), device="cpu")
    frames = list(GOOD) if dtype == "list" else GOOD.astype(dtype)
    assert np.array_equal(contrast(frames, device="cpu").contrast, expected.contrast, equal_nan=True)


@pytest.mark.parametrize("dtype", ["f2", ">f4", "f8"])
def test_other_floating_point_numbers_are_taken(dtype):
    found, expected = (contrast(GOOD.astype(d), device="cpu").contrast for d in (dtype, "u2"))
    np.testing.assert_allclose(found, expected, rtol=2.5e-7)


def test_windows_larger_than_the_frame():
    assert "window is 21 pixels and a frame 22 x 20" in refused(GOOD, ContrastSettings(window=21))
    assert "the stack has 3" in refused(GOOD, ContrastSettings(mode="temporal", frames=4))
    assert "the stack has 1" in refused(GOOD[0], ContrastSettings(mode="temporal"))
    contrast(GOOD, ContrastSettings(mode="temporal", window=31, frames=3), device="cpu")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"window": 4}, "window is 4 pixels; give an odd number"),
        ({"window": 33}, "at most 31 pixels"),
        ({"window": 1}, "at least 3 pixels"),
        ({"exposure_ms": 0.0}, "exposure_ms is 0 ms; it must be greater than 0 ms"),
        ({"exposure_ms": float("nan")}, "finite"),
        ({"frames": 1}, "at least 2 frames"),
        ({"mode": "both"}, "choose one of 'spatial'"),
        ({"edges": "wrap"}, "choose one of 'valid'"),
        ({"beta": 1.5}, "at most 1"),
    ],
)
def test_settings_that_cannot_be(options, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        ContrastSettings(**options)


def test_baselines():
    relative = ContrastSettings(index="relative")
    assert "needs a baseline" in refused(GOOD, relative)
    assert "the baseline has shape (4, 4)" in refused(GOOD, relative, baseline=np.ones((4, 4)))
    one, whole = (contrast(GOOD, relative, baseline=b, device="cpu").index for b in (0.2, np.full((20, 22), 0.2)))
    assert np.array_equal(one, whole, equal_nan=True)


def test_maps_that_would_not_fit_in_memory(monkeypatch):
    monkeypatch.setattr("napari_gpubio.speckle.run.free_memory_bytes", lambda _: 1000)
    assert "GiB of memory are free" in refused(GOOD)


def test_streams_refuse_another_camera_region():
    with ContrastStream(ContrastSettings(), (20, 22), np.uint8, device="cpu") as stream:
        assert stream.push(GOOD[0]) is not None
        for other in (GOOD[0, :-1], GOOD[0].astype(np.uint16)):
            with pytest.raises(InvalidInput, match="make a new stream"):
                stream.push(other)
    real = ContrastStream(ContrastSettings(), (20, 22), np.float32, device="cpu")
    with real, pytest.raises(InvalidInput, match="not finite"):
        real.push(np.full((20, 22), np.nan, np.float32))


class Lazy:
    """A stack whose frames are read when they are needed."""

    shape, dtype = (3, 20, 22), np.dtype(np.uint8)

    def __init__(self, read):
        self.read = read

    def __getitem__(self, which):
        return self.read(which)


def test_frames_that_change_size_or_go_away_while_they_are_read():
    def gone(which):
        raise OSError("the share is not there")

    assert contrast(Lazy(GOOD.__getitem__), device="cpu").complete
    message = refused(Lazy(lambda which: GOOD[which][:, :-1]))
    assert message.startswith("frames 0 to 2 have shape (3, 19, 22) and those before them (20, 22); crop")
    assert refused(Lazy(gone)).startswith("frames 0 to 2 cannot be read (the share is not there)")
