"""What is done with a live frame: the same numbers as the engine's own, baseline, regions, registration."""

import dataclasses

import numpy as np
import pytest

from napari_gpubio.speckle import ContrastSettings, NoiseModel, contrast, register
from napari_gpubio.speckle.gui.live import LatestMap, LiveProcess, LiveRecipe
from napari_gpubio.speckle.live import LiveResult, TimeCourse
from napari_gpubio.speckle.regions import region_curves
from napari_gpubio.speckle.settings import NoIndex, Temporal
from tests.speckle.choices import settings_with
from tests.speckle.gui.panel_samples import MOVES, SHAPE, moving, speckle

FRAMES = speckle(12)


SETTINGS = ContrastSettings(index=NoIndex())


def recipe(index="none", **keywords):
    settings = {name: keywords.pop(name) for name in ("mode", "frames", "window") if name in keywords}
    return LiveRecipe(settings=settings_with(index=index, **settings), device="cpu", **keywords)


@pytest.mark.parametrize("index", ["none", "sfi", "squared", "inverse", "ict"])
def test_maps_are_those_of_the_engine(index):
    settings = settings_with(index=index)
    process = LiveProcess(LiveRecipe(settings=settings, device="cpu"))
    live = process(FRAMES[0])
    maps = contrast(FRAMES[0], settings, device="cpu")
    np.testing.assert_array_equal(live.shown, maps.contrast if index == "none" else maps.index)
    process.close()


def test_a_temporal_window_fills_first():
    process = LiveProcess(recipe(mode="temporal", frames=4))
    lives = [process(frame) for frame in FRAMES[:5]]
    assert [live.is_ready for live in lives] == [False, False, False, True, True]
    whole = contrast(FRAMES[:5], ContrastSettings(mode=Temporal(frames=4), index=NoIndex()), device="cpu")
    np.testing.assert_allclose(lives[-1].shown, whole.contrast[-1], rtol=1e-6)


def test_flow_is_relative_to_the_mean_of_k2():
    process = LiveProcess(recipe("relative", baseline_maps=5))
    lives = [process(frame) for frame in FRAMES[:8]]
    assert [live.is_ready for live in lives] == [False] * 5 + [True] * 3
    assert [live.baseline_step for live in lives] == [(n, 5) for n in range(1, 6)] + [None] * 3
    k2 = contrast(FRAMES[:8], SETTINGS, device="cpu").contrast.astype(float) ** 2
    inner = (slice(2, -2), slice(2, -2))
    np.testing.assert_allclose(lives[7].shown[inner], (k2[:5].mean(axis=0) / k2[7])[inner], rtol=1e-5)


def test_a_baseline_stays_while_k2_is_the_same_and_goes_with_it():
    process = LiveProcess(recipe("relative", baseline_maps=2))
    for frame in FRAMES[:3]:
        process(frame)
    assert not process.set_recipe(recipe("sfi"))
    assert process.baseline is not None
    assert process.set_recipe(recipe("relative", window=7, baseline_maps=2))
    assert process.baseline is None
    assert [process(frame).is_ready for frame in FRAMES[:3]] == [False, False, True]
    process.take_baseline()  # again, on demand
    for frame in FRAMES[[4, 4, 4]]:
        again = process(frame).shown
    np.testing.assert_allclose(again[3:-3, 3:-3], 1.0, rtol=1e-6)
    smaller = np.ascontiguousarray(FRAMES[:4, :30, :30])
    assert [process(frame).is_ready for frame in smaller] == [False, False, True, True]


def test_k2_of_regions_is_that_of_the_engine():
    masks = {"a": np.zeros(SHAPE, bool), "b": np.zeros(SHAPE, bool)}
    masks["a"][4:20, 6:30] = True
    masks["b"][0:9, :] = True  # reaches over the border, where there is no K
    noise = NoiseModel(dark_adu=20.0, gain=0.1, read_noise_adu=3.0)
    process = LiveProcess(LiveRecipe(settings=SETTINGS, noise=noise, device="cpu"))
    process.set_regions(masks)
    k2 = process(FRAMES[0]).k2
    curves = region_curves(contrast(FRAMES[0], SETTINGS, noise=noise, device="cpu"), masks)
    assert {curve.name: pytest.approx(curve.k2[0], rel=1e-6) for curve in curves} == k2
    process.set_regions({"a": np.ones((5, 5), bool)})
    assert process(FRAMES[0]).k2 == {}, "regions of another frame size are left out"


def test_frames_are_registered_before_contrast_is_taken():
    frames = moving(MOVES[:3])
    process = LiveProcess(recipe(registers=True))
    live = [process(frame) for frame in frames][2]
    assert register(frames).shifts.tolist() == [[0, 0], [-3, 2], [1, -4]]
    alone = register(frames[[0, 2]])
    maps = contrast(alone.frames, SETTINGS, device="cpu")
    alone.clear_outside(maps)
    np.testing.assert_array_equal(live.shown, maps.contrast[1])


def test_memory_is_used_again():
    spare = LiveResult(value=None, number=0, timestamp_s=0.0, latency_s=0.0)
    process = LiveProcess(recipe(), spare=lambda: spare if spare.value is not None else None)
    first = process(FRAMES[0])
    spare = dataclasses.replace(spare, value=first)
    second = process(FRAMES[1])
    assert second.shown is first.shown
    assert second.raw is first.raw
    np.testing.assert_array_equal(second.raw, FRAMES[1])


def test_every_result_reaches_the_time_course():
    course, process = TimeCourse(), LiveProcess(recipe("relative", baseline_maps=3))
    latest = LatestMap(course)
    process.set_regions({"a": np.ones(SHAPE, bool)})
    for number, frame in enumerate(FRAMES[:6]):
        live = process(frame)
        latest.publish(LiveResult(value=live, number=number, timestamp_s=0.1 * number, latency_s=0.0))
    np.testing.assert_allclose(course.times_s, 0.1 * np.arange(6))
    assert (course.baseline.start_s, course.baseline.stop_s) == (0.0, pytest.approx(0.2))
    k2 = course.contrast_squared("a")
    np.testing.assert_allclose(course.relative_flow("a"), k2[:3].mean() / k2)
    latest.begin(10.0)  # stopped, and started again
    latest.publish(LiveResult(value=process(FRAMES[6]), number=0, timestamp_s=0.0, latency_s=0.0))
    assert course.times_s[-1] == 10.0


def test_registration_keeps_its_reference_over_a_baseline():
    """A baseline lies on the frame that the others were shifted onto; that must stay."""
    frames = moving([(n, 0) for n in range(6)])
    process = LiveProcess(recipe("relative", registers=True, baseline_maps=3))
    shifts = []
    for frame in frames:
        process(frame)
        shifts.append(process.last_shift)
    assert process.baseline is not None
    assert shifts == [(-n, 0) for n in range(6)]
    process.close()
    process(frames[4])
    assert process.last_shift == (-4, 0)  # a stop keeps the baseline, so it keeps what it lies on
    process.drop_baseline()
    process(frames[5])
    assert process.last_shift == (0, 0)
