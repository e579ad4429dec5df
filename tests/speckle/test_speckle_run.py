"""Whole stacks, step by step: progress, stop, lazy frames; streams of frames; and what is refused."""

import copy
import itertools
import threading

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import ContrastSettings, ContrastStream, baseline_k2, contrast, contrast_steps
from napari_gpubio.speckle.model import EDGE
from napari_gpubio.speckle.settings import RelativeFlow, Spatial, Squared, Temporal
from tests.runs import finished, stopped
from tests.speckle.choices import settings_with

FRAMES = np.random.default_rng(0).integers(1, 4096, (30, 24, 28), np.uint16)
TEMPORAL = ContrastSettings(mode=Temporal(frames=5))


def same(one, other):
    return np.array_equal(one, other, equal_nan=True)


def test_steps_count_maps_and_show_the_newest(in_chunks_of):
    in_chunks_of(4)
    seen, maps = finished(contrast_steps(FRAMES, TEMPORAL, device="cpu"))
    assert all(0 < after.done - before.done <= 4 for before, after in itertools.pairwise(seen))
    assert (seen[-1].done, {step.total for step in seen}) == (26, {26})
    for step in seen:
        assert same(step.preview.contrast, maps.contrast[step.done - 1])
    assert maps.complete
    assert maps.parameters["speckle"]["mode"]["kind"] == "temporal"
    assert maps.parameters["device"].startswith("cpu")


@pytest.mark.parametrize("mode", ["spatial", "temporal", "spatio-temporal"])
@pytest.mark.parametrize("blocks", [False, True])
def test_chunks_do_not_change_a_bit(in_chunks_of, mode, blocks):
    settings = settings_with(mode=mode, frames=5, blocks=blocks)
    whole = contrast(FRAMES, settings, device="cpu")
    in_chunks_of(1)
    pieces = contrast(FRAMES, settings, device="cpu")
    assert same(whole.contrast, pieces.contrast)
    assert same(whole.index, pieces.index)
    assert same(whole.mask, pieces.mask)


def test_a_run_can_be_stopped(in_chunks_of):
    in_chunks_of(4)
    stop = threading.Event()
    maps = stopped(contrast_steps(FRAMES, TEMPORAL, device="cpu", stop=stop), stop, after=2)
    assert not maps.complete
    assert same(maps.contrast[:8], contrast(FRAMES, TEMPORAL, device="cpu").contrast[:8])
    assert np.isnan(maps.contrast[12:]).all()
    assert (maps.mask[12:] == EDGE).all()


def test_dask_arrays_are_loaded_piece_by_piece(in_chunks_of):
    dask = pytest.importorskip("dask.array", reason="dask is not installed: it comes with napari")
    in_chunks_of(3)
    loaded = []

    def load(block_info=None):
        loaded.append(block_info[None]["array-location"][0])
        first, end = loaded[-1]
        return FRAMES[first:end]

    lazy = dask.map_blocks(load, chunks=((6,) * 5, (24,), (28,)), dtype=np.uint16, meta=np.empty((0, 0, 0), np.uint16))
    loaded.clear()
    steps = contrast_steps(lazy, device="cpu")
    next(steps)
    assert len(loaded) <= 2
    _, maps = finished(steps)
    assert same(maps.contrast, contrast(FRAMES, device="cpu").contrast)


def test_zarr_and_memory_maps(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed: it comes with napari")
    np.save(tmp_path / "frames.npy", FRAMES)
    mapped = np.load(tmp_path / "frames.npy", mmap_mode="r")
    stored = zarr.array(FRAMES, chunks=(5, 24, 28))
    expected = contrast(FRAMES, device="cpu").contrast
    for frames in (mapped, stored, FRAMES[:, ::-1][:, ::-1]):
        assert same(contrast(frames, device="cpu").contrast, expected)


def test_remarks_on_frames():
    maps = contrast(FRAMES, ContrastSettings(mode=Temporal(frames=8, blocks=True)), device="cpu")
    assert len(maps) == 3
    assert maps.notes == ("the last 6 of 30 frames do not fill a block and were left out",)
    assert contrast(FRAMES[0].astype(float), device="cpu").notes == (
        "floating-point frames have no known saturation level; give it to mark saturated pixels",
    )


def test_a_baseline_is_the_mean_of_finite_k2():
    frames = FRAMES.astype(np.uint16)
    frames[3, :9, :9] = 0
    k2 = contrast(frames, ContrastSettings(index=Squared()), device="cpu").index.astype(float)
    found = baseline_k2(frames, device="cpu")
    np.testing.assert_allclose(found, np.ma.masked_invalid(k2).mean(axis=0).filled(np.nan), rtol=1e-12)
    assert np.isfinite(found[2:-2, 2:-2]).all()
    assert np.isnan(found[0]).all()


# -- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["u1", "u2", "i4", "f4"])
@pytest.mark.parametrize("mode", ["spatial", "temporal", "spatio-temporal"])
@pytest.mark.parametrize("blocks", [False, True])
def test_a_stream_gives_the_maps_of_its_stack(mode, blocks, dtype):
    frames = (FRAMES[:11] // 16).astype(dtype)
    settings = settings_with(mode=mode, frames=3, blocks=blocks)
    expected = contrast(frames, settings, device="cpu")
    with ContrastStream(settings, frames.shape[1:], dtype, device="cpu") as stream:
        pushed = [copy.deepcopy(stream.push(frame)) for frame in frames]
    made = {n: maps for n, maps in enumerate(pushed) if maps is not None}
    assert list(made) == [settings.depth - 1 + n * settings.step for n in range(len(expected))]
    for maps, one in zip(made.values(), (expected[n] for n in range(len(expected))), strict=True):
        np.testing.assert_allclose(maps.contrast, one.contrast, rtol=2.5e-7)  # exact but for floating-point frames
        assert dtype == "f4" or (same(maps.contrast, one.contrast) and same(maps.index, one.index))
        assert same(maps.mask, one.mask)


def test_maps_stay_while_three_more_are_made():
    with ContrastStream(ContrastSettings(), (24, 28), np.uint16, device="cpu") as stream:
        first = stream.push(FRAMES[0]).contrast
        kept = first.copy()
        stream.push(FRAMES[1])
        stream.push(FRAMES[2])
        assert same(first, kept)
        stream.push(FRAMES[3])
        assert not same(first, kept)


def test_a_stream_can_forget_and_frames_may_be_written_into_its_own_memory():
    with ContrastStream(TEMPORAL, (24, 28), np.uint16, device="cpu") as stream:
        for frame in FRAMES[:7]:
            stream(frame)
        stream.forget()
        for number, frame in enumerate(FRAMES[10:15]):
            stream.slot()[...] = frame
            maps = stream.push(stream.slot())
            assert (maps is None) == (number < 4)
        assert same(maps.contrast, contrast(FRAMES[10:15], TEMPORAL, device="cpu").contrast[0])


def test_read_only_and_strided_frames():
    frame = FRAMES[0].copy()
    frame.flags.writeable = False
    with ContrastStream(ContrastSettings(), (24, 28), np.uint16, device="cpu") as stream:
        expected = stream.push(FRAMES[0]).contrast.copy()
        assert same(stream.push(frame).contrast, expected)
        assert same(stream.push(np.asfortranarray(frame)).contrast, expected)


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
    assert "window is 21 pixels and a frame 22 x 20" in refused(GOOD, ContrastSettings(mode=Spatial(window=21)))
    assert "the stack has 3" in refused(GOOD, ContrastSettings(mode=Temporal(frames=4)))
    assert "the stack has 1" in refused(GOOD[0], ContrastSettings(mode=Temporal()))
    contrast(GOOD, ContrastSettings(mode=Temporal(frames=3)), device="cpu")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"window": 4}, "window is 4 pixels; give an odd number"),
        ({"window": 33}, "at most 31 pixels"),
        ({"window": 1}, "at least 3 pixels"),
        ({"exposure_ms": 0.0}, "exposure_ms is 0 ms; it must be greater than 0 ms"),
        ({"exposure_ms": float("nan")}, "finite"),
        ({"mode": "temporal", "frames": 1}, "at least 2"),
        ({"edges": "wrap"}, "choose one of 'valid'"),
        ({"index": "ict", "beta": 1.5}, "at most 1"),
    ],
)
def test_settings_that_cannot_be(options, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        settings_with(**options)


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: Spatial(frames=3), TypeError, "frames"),
        (lambda: Temporal(window=3), TypeError, "window"),
        (lambda: Squared(exposure_ms=3.0), TypeError, "exposure_ms"),
        (lambda: ContrastSettings(mode="spatial"), InvalidInput, "mode is 'spatial'; give Spatial or Temporal"),
        (lambda: ContrastSettings(mode=Squared()), InvalidInput, "mode is Squared; give Spatial or Temporal"),
        (lambda: RelativeFlow(baseline=(3, 1)), InvalidInput, r"baseline is \(3, 1\)"),
    ],
)
def test_a_setting_that_would_be_ignored_cannot_be_written(make, error, sentence):
    with pytest.raises(error, match=sentence):
        make()


def test_baselines():
    relative, first = ContrastSettings(index=RelativeFlow()), ContrastSettings(index=RelativeFlow(baseline=(0, 1)))
    with pytest.raises(InvalidInput, match="needs a baseline"):
        ContrastStream(relative, (20, 22), np.uint8, device="cpu")
    for settings, frames in ((relative, GOOD), (first, GOOD[:2])):
        k2 = baseline_k2(frames, settings, device="cpu")
        expected = contrast(GOOD, relative, baseline=k2, device="cpu").index
        np.testing.assert_array_equal(contrast(GOOD, settings, device="cpu").index, expected)
    assert "in the settings, and its K² is given" in refused(GOOD, first, baseline=0.1)
    assert "and there are 3 frames" in refused(GOOD, ContrastSettings(index=RelativeFlow(baseline=(0, 3))))
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
