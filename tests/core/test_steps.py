"""The protocol of long work."""

import pytest

from napari_gpubio.core.steps import Step, drive


def work(total, closed):
    try:
        for done in range(1, total + 1):
            yield Step(done, total)
        return "result"
    finally:
        closed.append(True)


def test_drive_returns_the_result_and_shows_every_step():
    seen, closed = [], []
    assert drive(work(3, closed), seen.append) == "result"
    assert [step.done for step in seen] == [1, 2, 3]
    assert closed == [True]


def test_drive_without_progress():
    assert drive(work(3, [])) == "result"


def test_an_error_in_progress_closes_the_work():
    closed = []

    def stumble(step):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        drive(work(3, closed), stumble)
    assert closed == [True]


def test_an_error_of_the_work_comes_out():
    def broken():
        yield Step(1, 2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        drive(broken())


def test_fraction():
    assert Step(1, 4).fraction == 0.25
    assert Step(0, 0).fraction == 1.0
