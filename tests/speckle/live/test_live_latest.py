"""The newest result: a triple buffer."""

from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio.speckle.live import Latest


def test_the_newest_is_taken_once() -> None:
    latest: Latest[str] = Latest()
    assert latest.take() is None
    latest.publish("a")
    latest.publish("b")
    assert latest.take() == "b"
    assert latest.take() is None
    assert (latest.published, latest.picked_up) == (2, 1)


def test_a_result_that_nobody_saw_is_spare_at_once_and_the_shown_one_when_the_next_is_taken() -> None:
    latest: Latest[str] = Latest()
    latest.publish("a")
    latest.publish("b")
    assert latest.spare() == "a"
    assert latest.spare() is None
    latest.take()
    latest.publish("c")
    assert latest.spare() is None  # b is shown
    latest.take()
    assert latest.spare() == "b"


def test_cleared() -> None:
    latest: Latest[str] = Latest()
    latest.publish("a")
    latest.clear()
    assert latest.take() is None
    assert latest.spare() is None


@given(st.lists(st.booleans(), max_size=80))
def test_three_buffers_are_enough_and_the_shown_one_is_never_filled(takes: list[bool]) -> None:
    latest: Latest[list[int]] = Latest()
    made, shown, content = 0, None, 0
    for number, takes_now in enumerate(takes):
        buffer = latest.spare()
        if buffer is None:
            buffer, made = [0], made + 1
        assert buffer is not shown
        buffer[0] = number
        if shown is not None:
            assert shown[0] == content
        latest.publish(buffer)
        if takes_now:
            shown = latest.take()
            assert shown is not None
            content = shown[0]
            assert content == number
    assert made <= 3
