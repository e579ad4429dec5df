"""Regions of interest and their time courses; registration of frames."""

import csv

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import (
    ContrastMaps,
    ContrastSettings,
    contrast,
    inverse_correlation_time,
    region_curves,
    register,
    speckle_flow_index,
    write_curves_csv,
)
from napari_gpubio.speckle.phantom import SpeckleField
from napari_gpubio.speckle.registration import find_shift, shift_frame
from napari_gpubio.speckle.validity import EDGE, SATURATED


def maps_of(k, mask=None, **options):
    return ContrastMaps(contrast=np.asarray(k, np.float32), mask=mask, settings=ContrastSettings(**options))


def whole(maps):
    return {"all": np.ones(maps.contrast.shape[-2:], bool)}


def test_k2_is_averaged_and_not_the_index():
    maps = maps_of([[[0.1, 0.3]], [[0.2, 0.2]]], exposure_ms=5.0, beta=0.5)
    (curve,) = region_curves(maps, whole(maps))
    np.testing.assert_allclose(curve.k2, [0.05, 0.04], rtol=1e-6)
    np.testing.assert_allclose(curve.contrast, np.sqrt([0.05, 0.04]), rtol=1e-6)
    np.testing.assert_allclose(curve.sfi, speckle_flow_index([0.05, 0.04], 5.0), rtol=1e-6)
    np.testing.assert_allclose(curve.ict, inverse_correlation_time([0.05, 0.04], 5.0, 0.5), rtol=1e-6)
    np.testing.assert_allclose(curve.relative([0]), [1.0, 1.25], rtol=1e-6)
    assert np.mean(speckle_flow_index([0.01, 0.09], 5.0)) > 2 * curve.sfi[0]  # what averaging the index would give


def test_masked_pixels_are_skipped_and_counted():
    mask = np.array([[[0, SATURATED, EDGE, 0]]], np.uint8)
    maps = maps_of([[[0.1, 9.0, 0.3, np.nan]]], mask)
    (curve,) = region_curves(maps, whole(maps))
    assert (curve.k2[0], curve.used[0], curve.skipped[0]) == (pytest.approx(0.01), 1, 3)
    (curve,) = region_curves(maps, whole(maps), skip=SATURATED)
    assert (curve.k2[0], curve.used[0]) == (pytest.approx(0.05), 2)


def test_negative_k2_counts_where_noise_was_subtracted():
    maps = ContrastMaps(
        contrast=np.array([[0.1, np.nan]], np.float32),
        index=np.array([[0.01, -0.004]], np.float32),
        settings=ContrastSettings(index="squared"),
    )
    (curve,) = region_curves(maps, {"all": np.ones((1, 2))})
    assert curve.k2[0] == pytest.approx(0.003)


def test_a_region_without_a_valid_pixel_is_nan():
    maps = maps_of([[[np.nan, 0.1]]])
    (curve,) = region_curves(maps, {"left": [[1, 0]]})
    assert np.isnan(curve.k2[0])
    assert curve.used[0] == 0
    with pytest.raises(InvalidInput, match="baseline of region 'left' has no valid pixel"):
        curve.relative([0])


def test_regions_that_do_not_fit():
    maps = maps_of(np.ones((2, 3, 4)))
    with pytest.raises(InvalidInput, match=r"region 'a' has shape \(3, 3\)"):
        region_curves(maps, {"a": np.ones((3, 3))})
    with pytest.raises(InvalidInput, match="region 'b' is empty"):
        region_curves(maps, {"b": np.zeros((3, 4))})


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


# -- registration -----------------------------------------------------------------------------------------------------


def scene(shape=(90, 110), seed=0):
    return 200 + 800 * np.abs(SpeckleField(shape, 0.08, np.random.default_rng(seed)).draw()) ** 2


@pytest.mark.parametrize("shift", [(0, 0), (3, -5), (-8, 2), (11, 13)])
def test_a_known_shift_is_found(shift):
    big, rng = scene((120, 140)), np.random.default_rng(1)
    reference = big[15:105, 15:125]
    moved = big[15 + shift[0] : 105 + shift[0], 15 + shift[1] : 125 + shift[1]]
    noisy = moved + 40 * rng.standard_normal(moved.shape)
    assert find_shift(noisy, reference) == shift
    inner = (slice(15, -15),) * 2
    np.testing.assert_array_equal(shift_frame(moved, shift)[inner], reference[inner])


def test_a_stack_is_registered_by_whole_pixels():
    big = scene((120, 140)).astype(np.uint16)
    shifts = [(0, 0), (2, -3), (-4, 1)]
    frames = np.stack([big[10 + dy : 100 + dy, 10 + dx : 120 + dx] for dy, dx in shifts])
    found = register(frames)
    assert found.shifts.tolist() == [list(s) for s in shifts]
    assert found.frames.dtype == np.uint16
    inner = (slice(None), slice(8, -8), slice(8, -8))
    np.testing.assert_array_equal(found.frames[inner], np.broadcast_to(frames[0], frames.shape)[inner])
    assert (found.frames[1, :2] == 0).all()


@pytest.mark.parametrize("edges", ["valid", "reflect"])
def test_what_came_in_from_outside_has_no_contrast(edges):
    big = scene((120, 140)).astype(np.uint16)
    frames = np.stack([big[10 + dy : 100 + dy, 10 + dx : 120 + dx] for dy, dx in [(0, 0), (2, -3)]])
    found = register(frames)
    maps = contrast(found.frames, ContrastSettings(edges=edges), device="cpu")
    found.clear_outside(maps)
    known = np.zeros(frames.shape, bool)
    known[:, 4 : 90 if edges == "reflect" else 88, (0 if edges == "reflect" else 2) : 105] = True
    np.testing.assert_array_equal(np.isfinite(maps.contrast), known)
    assert (maps.mask[~known] & EDGE).all()
    assert np.isnan(maps.index[~known]).all()


def test_even_frames_are_not_moved():
    assert find_shift(np.full((30, 30), 7), np.full((30, 30), 7)) == (0, 0)


def test_a_reference_of_another_size():
    with pytest.raises(InvalidInput, match="give one of its size"):
        register(np.ones((2, 20, 20), np.uint8), np.ones((20, 21)))
