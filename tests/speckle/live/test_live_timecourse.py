"""Time courses: blocks, late regions, baseline, events, the table."""

import csv
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live import Event, TimeCourse


def course(n: int = 10) -> TimeCourse:
    """Flow doubles at 0.5 s in the vessel: K^2 halves."""
    made = TimeCourse()
    for i in range(n):
        made.append(0.1 * i, {"vessel": 0.08 if i < 5 else 0.04, "tissue, left": 0.2})
    return made


def test_flow_relative_to_the_baseline_is_one_there() -> None:
    made = course()
    assert np.isnan(made.relative_flow("vessel")).all()
    made.set_baseline(0.0, 0.4)
    flow = made.relative_flow("vessel")
    np.testing.assert_allclose(flow, [1.0] * 5 + [2.0] * 5)
    np.testing.assert_allclose(made.relative_flow("tissue, left"), 1.0)


def test_the_baseline_averages_k_squared_and_not_flow() -> None:
    made = TimeCourse()
    for i, value in enumerate((0.1, 0.3, 0.4)):
        made.append(float(i), {"a": value})
    made.set_baseline(0.0, 1.0)
    np.testing.assert_allclose(made.relative_flow("a"), [2.0, 2.0 / 3.0, 0.5])


def test_a_region_is_nan_before_it_came_and_after_it_went() -> None:
    made = TimeCourse()
    made.append(0.0, {"a": 1.0})
    made.append(1.0, {"a": 1.0, "b": 2.0})
    made.append(2.0, {"b": 3.0})
    np.testing.assert_array_equal(made.contrast_squared("a"), [1.0, 1.0, np.nan])
    np.testing.assert_array_equal(made.contrast_squared("b"), [np.nan, 2.0, 3.0])
    made.set_baseline(0.0, 0.5)
    assert np.isnan(made.relative_flow("b")).all()  # no value in the baseline
    assert made.regions == ("a", "b")


def test_many_samples() -> None:
    made = TimeCourse()
    for i in range(5000):
        made.append(i / 30.0, {"a": float(i)} if i < 3000 else {"a": float(i), "late": 1.0})
    np.testing.assert_array_equal(made.contrast_squared("a"), np.arange(5000))
    np.testing.assert_allclose(made.times_s, np.arange(5000) / 30.0)
    assert np.isnan(made.contrast_squared("late")).sum() == 3000
    assert len(made) == 5000


def test_zero_contrast_is_infinite_flow() -> None:
    made = TimeCourse()
    made.append(0.0, {"a": 0.1})
    made.append(1.0, {"a": 0.0})
    made.set_baseline(0.0, 0.0)
    np.testing.assert_array_equal(made.relative_flow("a"), [1.0, np.inf])


def test_the_table_read_again(tmp_path: Path) -> None:
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


def test_the_table_of_nothing(tmp_path: Path) -> None:
    TimeCourse().write_csv(tmp_path / "course.csv")
    assert (tmp_path / "course.csv").read_text().splitlines() == ["time_s,event"]


def test_a_table_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not exist"):
        course().write_csv(tmp_path / "absent" / "course.csv")


def test_clear() -> None:
    made = course()
    made.set_baseline(0.0, 0.4)
    made.mark(0.1, "x")
    made.clear()
    assert (len(made), made.regions, made.events, made.baseline) == (0, (), (), None)
    made.append(0.0, {"a": 1.0})


def test_events_are_in_the_order_of_time() -> None:
    made = TimeCourse()
    made.mark(2.0, "b")
    made.mark(1.0, "a")
    assert made.events == (Event(time_s=1.0, label="a"), Event(time_s=2.0, label="b"))


def test_what_is_refused() -> None:
    made = course()
    with pytest.raises(InvalidInput, match=r"the sample's time is 0\.1 s; it must not be before the last one"):
        made.append(0.1, {})
    with pytest.raises(InvalidInput, match="time is nan s"):
        made.append(float("nan"), {})
    with pytest.raises(InvalidInput, match="the event's time is inf s"):
        made.mark(float("inf"), "x")
    with pytest.raises(InvalidInput, match="from 5 s to 6 s holds no sample"):
        made.set_baseline(5.0, 6.0)
    with pytest.raises(InvalidInput, match="its end must not be before its start"):
        made.set_baseline(1.0, 0.0)
    with pytest.raises(InvalidInput, match="there is no region 'x'; there are vessel, tissue, left"):
        made.contrast_squared("x")
