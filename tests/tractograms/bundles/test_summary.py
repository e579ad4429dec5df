"""Numbers of bundles."""

import csv
import io

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tractograms.bundles import Table, summary
from tests.tractograms.bundles.test_clusters import packed

# Along x: 10 mm in steps of 1 and then of 9, 4 mm in one step; the image is x.
FIBERS = packed([np.array([[0, 2, 2], [1, 2, 2], [10, 2, 2]]), np.array([[2, 5, 2], [6, 5, 2]])])
RAMP = np.broadcast_to(np.arange(12.0)[:, None, None], (12, 8, 8))


def row(fibers, images=None):
    table = summary({"one": fibers}, images, device="cpu")
    return dict(zip(table.columns, table.rows[0], strict=True))


def test_fibers_are_counted_and_measured():
    found = row(FIBERS, {"x": (RAMP, np.eye(4))})
    assert (found["bundle"], found["fibers"], found["volume_mm3"]) == ("one", 2, 11 + 5)
    lengths = [found[f"length_mm_{what}"] for what in ("mean", "sd", "median", "min", "max")]
    np.testing.assert_allclose(lengths, [7, np.sqrt(18), 7, 4, 10])


def test_the_volume_is_that_of_voxels_of_the_image():
    assert row(FIBERS, {"x": (RAMP[::2, ::2, ::2], np.diag([2, 2, 2, 1]))})["volume_mm3"] == pytest.approx((6 + 3) * 8)


def test_points_count_by_the_length_they_stand_for():
    found = row(FIBERS, {"x": (RAMP, np.eye(4))})
    values, weights = np.array([0, 1, 10, 2, 6]), np.array([0.5, 5, 4.5, 2, 2])
    mean = np.average(values, weights=weights)
    assert found["x_mean"] == pytest.approx(mean)
    assert found["x_sd"] == pytest.approx(np.sqrt(np.average((values - mean) ** 2, weights=weights)))
    assert found["x_fiber_mean"] == pytest.approx((5 + 4) / 2)  # of a ramp, the middle of each fiber
    assert found["x_fiber_sd"] == pytest.approx(np.sqrt(0.5))


def test_points_without_a_value_do_not_count():
    image = np.where(RAMP > 4, np.nan, 1.0)
    found = row(FIBERS, {"x": (image, np.eye(4))})
    assert (found["x_mean"], found["x_sd"], found["x_fiber_mean"]) == (1, 0, 1)


def test_no_fibers_have_a_row_without_numbers():
    found = row(packed([]), {"x": (RAMP, np.eye(4))})
    assert (found["fibers"], found["volume_mm3"]) == (0, 0)
    assert all(np.isnan(found[name]) for name in ("length_mm_mean", "x_mean", "x_fiber_sd"))


def test_a_bundle_elsewhere_is_named():
    far = np.eye(4)
    far[0, 3] = 500
    with pytest.raises(InvalidInput, match="one, x: no fiber"):
        row(FIBERS, {"x": (RAMP, far)})


def test_a_table_is_written_as_csv_and_read_back(tmp_path):
    table = summary(FIBERS, {"x": (RAMP, np.eye(4))}, device="cpu")
    table.write(tmp_path / "table.csv")
    (found,) = csv.DictReader(io.StringIO((tmp_path / "table.csv").read_text(encoding="utf-8")))
    assert tuple(found) == table.columns
    assert float(found["length_mm_sd"]) == pytest.approx(table.column("length_mm_sd")[0])


def test_cells_without_a_value_are_empty_and_names_with_commas_quoted():
    assert Table(("a", "b"), (("x,y", np.nan), ("z", 0.5))).csv() == 'a,b\n"x,y",\nz,0.5\n'


def test_wrong_columns_are_reported():
    with pytest.raises(InvalidInput, match="no column 'c'"):
        Table(("a", "b"), ()).column("c")
    with pytest.raises(InvalidInput, match="same columns"):
        Table.join([Table(("a",), ()), Table(("b",), ())])
