"""Runs that are kept while they last: when, and which inputs they go on with."""

import dataclasses
import time

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.keeping import EVERY_SECONDS, Keeper, check_inputs, difference, inputs_of, left_by
from napari_gpubio.core.reading import noted
from napari_gpubio.core.steps import Step


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still unless a test sets it."""
    now = [50.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def step(done):
    return Step(done, 100, make_preview=lambda: done)


def kept_at(clock, path, times, takes=0.0):
    """The steps, each at its time, that are saved in a run of these times; saving takes some seconds."""
    saved = []

    def save(_, preview):
        saved.append(preview)
        clock[0] += takes

    keep = Keeper(path, save, lambda step: None)
    begun = clock[0]
    for seconds in times:
        clock[0] = max(clock[0], begun + seconds)
        keep(step(seconds))
    return saved


def test_no_more_than_ten_seconds_are_lost(clock, tmp_path):
    saved = kept_at(clock, tmp_path / "a.npz", range(61))
    assert saved == [8, 16, 24, 32, 40, 48, 56]
    assert EVERY_SECONDS < 10
    assert kept_at(clock, None, range(61)) == []


def test_saving_takes_a_fifth_of_the_time_at_most(clock, tmp_path):
    saved = kept_at(clock, tmp_path / "a.npz", range(400), takes=10.0)
    assert 7 <= len(saved) <= 0.2 * 400 / 10 + 1


def test_a_step_without_a_preview_is_waited_for(clock, tmp_path):
    saved = []
    keep = Keeper(tmp_path / "a.npz", lambda _, preview: saved.append(preview), lambda step: None)
    clock[0] += 9
    keep(Step(1, 100))
    assert saved == []
    keep(step(2))
    assert saved == [2]
    assert keep.has_saved


def test_steps_of_making_and_saving_are_shown(clock, tmp_path):
    def make():
        yield
        return "preview"

    def save(_, preview):
        yield Step(1, 2, f"{preview} saved")

    shown = []
    keep = Keeper(tmp_path / "a.npz", save, shown.append)
    clock[0] += 9
    keep(Step(5, 100, "photons", make_preview=make))
    assert [(step.done, step.message) for step in shown] == [(5, "photons"), (5, "photons"), (1, "preview saved")]
    assert keep.has_saved


def test_a_full_disk_does_not_end_the_run(clock, tmp_path):
    def fail(*_):
        raise InvalidInput("a.npz could not be written (No space left on device)")

    keep, notes, shown = Keeper(tmp_path / "a.npz", fail, lambda step: shown.append(step.done)), [], []
    with noted(notes.append):
        for seconds in range(1, 20):
            clock[0] += 1
            keep(step(seconds))
    assert shown == list(range(1, 20))
    assert len(notes) == 1  # reported once, and tried again
    assert "No space left" in notes[0]
    assert not keep.has_saved


def test_a_run_that_goes_on_says_so_once(clock, tmp_path):
    keep, notes = Keeper(tmp_path / "a.npz", print, lambda step: None, goes_on=True), []
    with noted(notes.append):
        keep(step(1))
        keep(step(2))
    assert notes == ["goes on with a.npz, whose run did not come to its end"]


def test_what_is_left_is_read_where_there_is_a_file(tmp_path):
    path = tmp_path / "a.npz"
    assert left_by(None, str) is left_by(path, str) is None
    path.write_text("left")
    assert left_by(path, lambda path: path.read_text()) == "left"


@dataclasses.dataclass
class Part:
    size: float
    name: str = ""


@dataclasses.dataclass
class Whole:
    array: np.ndarray
    parts: tuple[Part, ...] = ()
    seed: int = 1


WHOLE = Whole(np.arange(3), (Part(1.0), Part(2.0)))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ""),
        ({"seed": 2}, "other seed: 1, and this run has 2"),
        ({"parts": (Part(1.0), Part(2.5))}, "other parts 2 size: 2.0, and this run has 2.5"),
        ({"parts": (Part(1.0),)}, "other parts 2 size: 2.0, and this run has none"),
        ({"parts": (Part(1.0, "another name"), Part(2.0))}, ""),
    ],
)
def test_the_first_input_that_differs_is_named_with_both_values(changes, expected):
    other = dataclasses.replace(WHOLE, **changes)
    assert difference(*(inputs_of(one, without=("name",)) for one in (WHOLE, other))) == expected


def test_inputs_of_one_name_are_told_apart_by_their_checksums():
    before, now = (inputs_of(array, "labels") for array in (np.zeros(2), np.ones(2)))
    first, second = (inputs["labels"][1][:8] for inputs in (before, now))
    assert first != second
    assert difference(before, now) == (
        f"other labels: no file (checksum {first}), and this run has no file (checksum {second})"
    )


def test_a_file_that_says_nothing_of_its_inputs_is_refused():
    now = inputs_of(3, "seed")
    check_inputs("model", {"seed": ["3", now["seed"][1]]}, now)  # as JSON has it
    for before in (None, {}, [], "seed"):
        with pytest.raises(InvalidInput, match="the model to go on with does not say what it was made of"):
            check_inputs("model", before, now)
    for before in ({"seed": 3}, {"seed": ["3"]}, {"else": ["3", "3"]}):
        with pytest.raises(InvalidInput, match="was begun with other seed: none, and this run has 3; remove it"):
            check_inputs("model", before, now)
