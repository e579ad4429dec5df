"""Tables of the numbers of fibers."""

import csv
import io

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.tractograms.io import fiber_table, write_fiber_table
from napari_gpubio.tractograms.model import Tractogram


def fibers():
    points = np.array([[0, 0, 0], [3, 4, 0], [1, 1, 1], [1, 1, 3], [1, 1, 4.5]], np.float32)
    return Tractogram(
        points=points,
        offsets=np.array([0, 2, 5]),
        affine=np.eye(4),
        shape=(5, 5, 5),
        per_fiber={
            "mean_fa": np.array([1 / 3, 0.5], np.float32),
            "stop_reason": np.array([3, 77], np.uint8),
            "color": np.array([[1, 2], [3, 4]]),
        },
    )


def rows(text, separator=","):
    return list(csv.DictReader(io.StringIO(text), delimiter=separator))


def test_a_row_for_each_fiber_with_every_digit():
    first, second = rows(fiber_table(fibers()))
    assert first == {
        "fiber": "0", "points": "2", "length_mm": "5.0", "mean_fa": "0.33333334", "stop_reason": "fa", "color[0]": "1",
        "color[1]": "2",
    }  # fmt: skip
    assert np.float32(first["mean_fa"]) == fibers().per_fiber["mean_fa"][0]
    assert (second["stop_reason"], second["length_mm"]) == ("77", "3.5")


def test_some_fibers_keep_their_indices(tmp_path):
    (row,) = rows(fiber_table(fibers(), np.array([False, True]), separator="\t"), "\t")
    assert row["fiber"] == "1"
    assert [row["fiber"] for row in rows(fiber_table(fibers(), [1, 0]))] == ["1", "0"]
    write_fiber_table(tmp_path / "some.csv", fibers(), [0])
    assert (tmp_path / "some.csv").read_text(encoding="utf-8") == fiber_table(fibers(), [0])


def test_what_does_not_fit_is_a_sentence(tmp_path):
    with pytest.raises(InvalidInput, match="there are 2"):
        fiber_table(fibers(), [5])
    with pytest.raises(InvalidInput, match="does not exist"):
        write_fiber_table(tmp_path / "nowhere" / "some.csv", fibers())
