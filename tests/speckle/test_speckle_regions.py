"""Regions of interest and their time courses."""

import csv

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import ContrastMaps, ContrastSettings, contrast, region_curves
from napari_gpubio.speckle.indices import inverse_correlation_time, speckle_flow_index
from napari_gpubio.speckle.io import write_curves_csv
from napari_gpubio.speckle.model import EDGE, SATURATED


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


def test_tables_of_nothing_or_of_different_maps(tmp_path):
    one, other = (region_curves(m, whole(m))[0] for m in (maps_of(np.full((n, 4, 4), 0.2)) for n in (2, 3)))
    with pytest.raises(InvalidInput, match="no table of no regions"):
        write_curves_csv(tmp_path / "c.csv", [])
    with pytest.raises(InvalidInput, match="different numbers of maps, 2 and 3"):
        write_curves_csv(tmp_path / "c.csv", [one, other])
    with pytest.raises(InvalidInput, match="different numbers of maps, 2 and 5"):
        write_curves_csv(tmp_path / "c.csv", [one], np.arange(5))
    assert not list(tmp_path.iterdir())
