"""Curves of regions of interest: of the maps of a stack, and time courses of live imaging."""

import csv

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import ContrastMaps, ContrastSettings, NoiseModel, contrast, region_curves
from napari_gpubio.speckle.indices import inverse_correlation_time, speckle_flow_index
from napari_gpubio.speckle.io import write_curves_csv
from napari_gpubio.speckle.live import Event, TimeCourse
from napari_gpubio.speckle.model import ALL, BELOW_NOISE, EDGE, SATURATED
from napari_gpubio.speckle.regions import mean_k2
from napari_gpubio.speckle.samples import Camera, flow_frames
from napari_gpubio.speckle.settings import FlowIndex, InverseCorrelationTime, Spatial, Squared
from tests.speckle.choices import settings_with


def maps_of(k, mask=None, **options):
    return ContrastMaps(signed=np.asarray(k, np.float32), mask=mask, settings=settings_with(**options))


def whole(maps):
    return {"all": np.ones(maps.contrast.shape[-2:], bool)}


def test_k2_is_averaged_and_not_the_index():
    maps = maps_of([[[0.1, 0.3]], [[0.2, 0.2]]], exposure_ms=5.0)
    (curve,) = region_curves(maps, whole(maps))
    (slow,) = region_curves(maps, whole(maps), flow=InverseCorrelationTime(exposure_ms=5.0, beta=0.5))
    np.testing.assert_allclose(curve.k2, [0.05, 0.04], rtol=1e-6)
    np.testing.assert_allclose(curve.contrast, np.sqrt([0.05, 0.04]), rtol=1e-6)
    np.testing.assert_allclose(curve.flow, speckle_flow_index([0.05, 0.04], 5.0), rtol=1e-6)
    np.testing.assert_allclose(slow.flow, inverse_correlation_time([0.05, 0.04], 5.0, 0.5), rtol=1e-6)
    np.testing.assert_allclose(curve.relative([0]), [1.0, 1.25], rtol=1e-6)
    assert np.mean(speckle_flow_index([0.01, 0.09], 5.0)) > 2 * curve.flow[0]  # what averaging the index would give


def test_flow_needs_an_exposure():
    maps = maps_of([[[0.1, 0.3]]], index="none")
    (curve,) = region_curves(maps, whole(maps))
    with pytest.raises(InvalidInput, match="flow needs the exposure"):
        _ = curve.flow


def test_masked_pixels_are_skipped_and_counted():
    mask = np.array([[[0, SATURATED, EDGE, 0]]], np.uint8)
    maps = maps_of([[[0.1, 9.0, 0.3, np.nan]]], mask)
    (curve,) = region_curves(maps, whole(maps))
    assert (curve.k2[0], curve.used[0], curve.skipped[0]) == (pytest.approx(0.01), 1, 3)
    (curve,) = region_curves(maps, whole(maps), skip=SATURATED)
    assert (curve.k2[0], curve.used[0]) == (pytest.approx(0.05), 2)


def test_negative_k2_counts_where_noise_was_subtracted():
    maps = ContrastMaps(
        signed=np.array([[0.1, np.nan]], np.float32),
        index=np.array([[0.01, -0.004]], np.float32),
        settings=ContrastSettings(index=Squared()),
    )
    (curve,) = region_curves(maps, {"all": np.ones((1, 2))})
    assert curve.k2[0] == pytest.approx(0.003)


def exposed(index, count=4, electrons=2.5, read=1.5):
    """Maps of K² and of an index at so little light that a third of the windows lie below the noise."""
    light = flow_frames(np.full((60, 70), 8.0), frames=1, seed=3)
    camera = Camera(mean_adu=electrons, electrons_per_adu=1.0, read_noise_electrons=read)
    frames = np.concatenate([camera.expose(light, np.random.default_rng(n)) for n in range(count)])
    noise = NoiseModel(dark_adu=camera.dark_adu, gain=1.0, read_noise_adu=read, quantization=True)
    return [
        contrast(frames, settings_with(window=7, index=one), noise=noise, device="cpu") for one in ("squared", index)
    ]


@pytest.mark.parametrize("index", ["sfi", "inverse", "ict", "none"])
def test_windows_below_the_noise_count_with_every_index(index):
    squared, maps = exposed(index)
    below = (maps.mask & BELOW_NOISE) > 0
    assert 0.1 < below[:, 3:-3, 3:-3].mean() < 0.5
    assert np.isnan(maps.contrast[below]).all()
    assert (maps.contrast[maps.valid] > 0).all()
    np.testing.assert_allclose(maps.squared, squared.squared, rtol=1e-6)
    regions = {"all": np.ones((60, 70)), "part": np.eye(60, 70)}
    flow = FlowIndex(exposure_ms=10.0)
    for curve, expected in zip(region_curves(maps, regions, flow=flow), region_curves(squared, regions), strict=True):
        np.testing.assert_allclose(curve.k2, expected.k2, rtol=1e-5)
        np.testing.assert_allclose(curve.flow, speckle_flow_index(expected.k2, 10.0), rtol=1e-5)
        assert (curve.skipped == expected.skipped).all()
    one, inner = maps[2], (slice(None), slice(3, -3), slice(3, -3))
    assert mean_k2(one[np.nonzero(regions["part"])])[0] == pytest.approx(region_curves(maps, regions)[1].k2[2])
    alone = region_curves(maps, {"a": np.ones((60, 70))}, skip=ALL)[0]
    assert alone.k2.mean() > 1.2 * maps.squared[inner].mean(), "without them it would be too high"


def test_equal_samples_count_where_noise_was_subtracted():
    frame = np.full((9, 9), 110, np.uint8)
    noise = NoiseModel(dark_adu=100.0, read_noise_adu=0.5)
    curves = [region_curves(contrast(frame, noise=m, device="cpu"), {"a": np.ones((9, 9))})[0] for m in (noise, None)]
    assert curves[0].k2[0] == pytest.approx(-0.25 / 10**2, rel=0.01)
    assert (curves[0].used[0], curves[1].used[0]) == (25, 0)
    assert np.isnan([curves[0].contrast, curves[0].flow]).all(), "there is no flow below the noise"


def test_means_at_low_light_are_those_of_the_light():
    """Bias of K² in 40 recordings of the same light; if the means of windows were taken as exact, it would be 6 %."""
    light = flow_frames(np.full((90, 90), 3.0), frames=2, seed=4)
    rng = np.random.default_rng(5)
    for electrons, read, gain, window in ((2.5, 1.5, 1.0, 7), (5.0, 2.0, 0.5, 5), (1.2, 0.0, 2.0, 9)):
        camera = Camera(mean_adu=electrons * gain, electrons_per_adu=1 / gain, read_noise_electrons=read)
        frames = np.concatenate([camera.expose(light, rng) for _ in range(40)])
        noise = NoiseModel(dark_adu=camera.dark_adu, gain=gain, read_noise_adu=read * gain, quantization=gain < 2)
        settings, everywhere = ContrastSettings(mode=Spatial(window=window)), {"a": np.ones((90, 90))}
        (found,) = region_curves(contrast(frames, settings, noise=noise, device="cpu"), everywhere)
        (expected,) = region_curves(contrast(light, settings, device="cpu"), everywhere)
        assert found.k2.mean() == pytest.approx(expected.k2.mean(), rel=0.03)


def test_regions_without_a_valid_pixel_are_nan_and_those_that_do_not_fit_are_refused():
    maps = maps_of([[[np.nan, 0.1]]])
    (curve,) = region_curves(maps, {"left": [[1, 0]]})
    assert np.isnan(curve.k2[0])
    assert curve.used[0] == 0
    with pytest.raises(InvalidInput, match="baseline of region 'left' has no valid pixel"):
        curve.relative([0])
    with pytest.raises(InvalidInput, match=r"region 'a' has shape \(3, 3\)"):
        region_curves(maps, {"a": np.ones((3, 3))})
    with pytest.raises(InvalidInput, match="region 'b' is empty"):
        region_curves(maps, {"b": np.zeros((1, 2))})


def test_curves_go_to_csv_and_come_back(tmp_path):
    maps = contrast(np.random.default_rng(0).integers(1, 99, (3, 20, 20), np.uint8), device="cpu")
    curves = region_curves(maps, {"one": np.eye(20), "two, with a comma": np.ones((20, 20))})
    write_curves_csv(tmp_path / "curves.csv", curves, seconds=[0.0, 0.5, 1.0])
    with (tmp_path / "curves.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = csv.reader(file)
    assert head[:3] == ["map", "time [s]", "one K²"]
    assert "two, with a comma SFI [1/s]" in head
    np.testing.assert_array_equal([float(row[2]) for row in rows], curves[0].k2)
    np.testing.assert_array_equal([int(row[head.index("one skipped")]) for row in rows], curves[0].skipped)


def test_tables_of_nothing_or_of_different_maps(tmp_path):
    one, other = (region_curves(m, whole(m))[0] for m in (maps_of(np.full((n, 4, 4), 0.2)) for n in (2, 3)))
    with pytest.raises(InvalidInput, match="no table of no regions"):
        write_curves_csv(tmp_path / "c.csv", [])
    with pytest.raises(InvalidInput, match="different numbers of maps, 2 and 3"):
        write_curves_csv(tmp_path / "c.csv", [one, other])
    with pytest.raises(InvalidInput, match="different numbers of maps, 2 and 5"):
        write_curves_csv(tmp_path / "c.csv", [one], np.arange(5))
    assert not list(tmp_path.iterdir())


# -- time courses of live imaging --------------------------------------------------------------------------------------


def course(n=10):
    """Flow doubles at 0.5 s in the vessel: K^2 halves."""
    made = TimeCourse()
    for i in range(n):
        made.append(0.1 * i, {"vessel": 0.08 if i < 5 else 0.04, "tissue, left": 0.2})
    return made


def test_flow_relative_to_the_baseline_is_one_there():
    made = course()
    assert np.isnan(made.relative_flow("vessel")).all()
    made.set_baseline(0.0, 0.4)
    flow = made.relative_flow("vessel")
    np.testing.assert_allclose(flow, [1.0] * 5 + [2.0] * 5)
    np.testing.assert_allclose(made.relative_flow("tissue, left"), 1.0)


def test_the_baseline_averages_k_squared_and_zero_contrast_is_infinite_flow():
    made = TimeCourse()
    for i, value in enumerate((0.1, 0.3, 0.4, 0.0)):
        made.append(float(i), {"a": value})
    made.set_baseline(0.0, 1.0)
    np.testing.assert_allclose(made.relative_flow("a"), [2.0, 2.0 / 3.0, 0.5, np.inf])


def test_a_region_is_nan_before_it_came_and_after_it_went():
    made = TimeCourse()
    made.append(0.0, {"a": 1.0})
    made.append(1.0, {"a": 1.0, "b": 2.0})
    made.append(2.0, {"b": 3.0})
    np.testing.assert_array_equal(made.contrast_squared("a"), [1.0, 1.0, np.nan])
    np.testing.assert_array_equal(made.contrast_squared("b"), [np.nan, 2.0, 3.0])
    made.set_baseline(0.0, 0.5)
    assert np.isnan(made.relative_flow("b")).all()  # no value in the baseline
    assert made.regions == ("a", "b")


def test_many_samples():
    made = TimeCourse()
    for i in range(5000):
        made.append(i / 30.0, {"a": float(i)} if i < 3000 else {"a": float(i), "late": 1.0})
    np.testing.assert_array_equal(made.contrast_squared("a"), np.arange(5000))
    np.testing.assert_allclose(made.times_s, np.arange(5000) / 30.0)
    assert np.isnan(made.contrast_squared("late")).sum() == 3000
    assert len(made) == 5000


def test_the_table_read_again(tmp_path):
    made = course()
    made.set_baseline(0.0, 0.4)
    made.mark(0.45, "clamp, left")
    made.mark(99.0, "end")
    made.mark(-1.0, "before")
    made.write_csv(tmp_path / "course.csv")
    with (tmp_path / "course.csv").open(newline="") as file:
        head, *rows = list(csv.reader(file))
    assert head == [
        "time_s", "vessel K^2", "tissue, left K^2", "vessel relative flow", "tissue, left relative flow", "event",
    ]  # fmt: skip
    assert [float(row[0]) for row in rows] == pytest.approx(
        [-1.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 99.0]
    )
    assert [row[-1] for row in rows if row[-1]] == ["before", "clamp, left", "end"]
    samples = np.array([row[:-1] for row in rows if not row[-1]], float)
    np.testing.assert_array_equal(samples[:, 1], made.contrast_squared("vessel"))  # to the last digit
    np.testing.assert_array_equal(samples[:, 3], made.relative_flow("vessel"))


def test_a_course_is_cleared_and_events_are_in_the_order_of_time(tmp_path):
    made = course()
    made.set_baseline(0.0, 0.4)
    made.mark(2.0, "b")
    made.mark(1.0, "a")
    assert made.events == (Event(time_s=1.0, label="a"), Event(time_s=2.0, label="b"))
    with pytest.raises(InvalidInput, match="does not exist"):
        made.write_csv(tmp_path / "absent" / "course.csv")
    made.clear()
    assert (len(made), made.regions, made.events, made.baseline) == (0, (), (), None)
    made.write_csv(tmp_path / "course.csv")
    assert (tmp_path / "course.csv").read_text().splitlines() == ["time_s,event"]
    made.append(0.0, {"a": 1.0})


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda made: made.append(0.1, {}), r"the sample's time is 0\.1 s; it must not be before the last one"),
        (lambda made: made.append(float("nan"), {}), "time is nan s"),
        (lambda made: made.mark(float("inf"), "x"), "the event's time is inf s"),
        (lambda made: made.set_baseline(5.0, 6.0), "from 5 s to 6 s holds no sample"),
        (lambda made: made.set_baseline(1.0, 0.0), "its end must not be before its start"),
        (lambda made: made.contrast_squared("x"), "there is no region 'x'; there are vessel, tissue, left"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(InvalidInput, match=words):
        call(course())
