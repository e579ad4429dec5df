"""Buffers between threads: the ring of frames and the newest result."""

import threading
import time
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live import FrameMode, Latest, Ring, RingCounts
from tests.speckle.live.fakes import frame

PUT, TAKE = "put", "take"


def taken(ring: Ring) -> int | None:
    with ring.take(timeout_s=0.0) as got:
        return None if got is None else got.number


@pytest.mark.parametrize(
    ("mode", "numbers", "counts"),
    [
        ("every frame", [7, 8, 9], RingCounts(received=10, taken=3, dropped=7)),
        ("most recent", [9, None], RingCounts(received=10, taken=1, skipped=9)),
    ],
)
def test_a_full_ring_drops_the_oldest_or_skips_all_but_the_newest(
    mode: str, numbers: list[int | None], counts: RingCounts
) -> None:
    ring = Ring(slots=3, mode=mode)
    for number in range(10):
        ring.put(frame(number))
    assert [taken(ring) for _ in numbers] == numbers
    assert ring.counts == counts


@given(st.sampled_from(list(FrameMode)), st.integers(3, 5), st.lists(st.sampled_from([PUT, TAKE]), max_size=60))
def test_any_order_of_puts_and_takes_gives_what_a_queue_would(mode: FrameMode, slots: int, actions: list[str]) -> None:
    """Against a queue of the same length, in which taking leaves all slots to those that wait."""
    ring, queue = Ring(slots, mode), deque[int](maxlen=slots)
    received = passed = 0
    for action in actions:
        if action == PUT:
            passed += len(queue) == slots
            queue.append(received)
            ring.put(frame(received))
            received += 1
            continue
        if mode is FrameMode.MAX_RECENT:
            while len(queue) > 1:
                queue.popleft()
                passed += 1
        assert taken(ring) == (queue.popleft() if queue else None)
    counts = ring.counts
    assert counts.received == received == counts.taken + counts.dropped + counts.skipped + counts.waiting
    assert (counts.dropped, counts.skipped) == ((passed, 0) if mode is FrameMode.EVERY_FRAME else (0, passed))
    assert counts.waiting == len(queue)


def test_a_frame_that_is_read_is_not_written_over() -> None:
    ring = Ring(slots=3)
    ring.put(frame(0))
    with ring.take() as held:
        assert held is not None
        for number in range(1, 20):
            ring.put(frame(number))
        np.testing.assert_array_equal(held.pixels, 0)
    assert [taken(ring) for _ in range(3)] == [18, 19, None]


def test_a_slot_comes_back_when_its_reader_fails() -> None:
    ring = Ring(slots=3)
    for number in range(20):
        ring.put(frame(number))
        with pytest.raises(ZeroDivisionError), ring.take():
            raise ZeroDivisionError
    assert ring.counts.dropped == 0


def test_pixels_are_copied_into_the_memory_of_the_slots() -> None:
    ring, mine = Ring(slots=5), frame(7, shape=(10, 20))
    assert ring.nbytes == 0
    ring.put(mine)
    mine.pixels[:] = 0
    with ring.take() as got:
        assert got is not None
        np.testing.assert_array_equal(got.pixels, 7)
        assert got.timestamp_s == mine.timestamp_s
    for _ in range(50):
        ring.put(mine)
    assert ring.nbytes == 5 * 10 * 20 * 2


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (frame(1, shape=(5, 4)), "from 5 x 4 uint16 to 4 x 5 uint16"),
        (frame(1, dtype=np.uint8), "from 5 x 4 uint16 to 5 x 4 uint8"),
    ],
)
def test_frames_that_change_are_refused(other: object, message: str) -> None:
    ring = Ring()
    ring.put(frame(0))
    with pytest.raises(InvalidInput, match=message):
        ring.put(other)  # type: ignore[arg-type]
    assert ring.counts.received == 1


def test_what_makes_no_ring_is_refused() -> None:
    with pytest.raises(InvalidInput, match="2 slots; it must have at least 3"):
        Ring(slots=2)
    with pytest.raises(InvalidInput, match="'newest'; choose one of 'every frame', 'most recent'"):
        Ring(mode="newest")


@pytest.mark.parametrize("discard", [False, True])
def test_a_closed_ring_takes_nothing_more_and_gives_what_waits_unless_it_is_discarded(discard: bool) -> None:
    ring = Ring()
    ring.put(frame(0))
    ring.close(discard=discard)
    assert not ring.put(frame(1))
    assert ring.ended == discard
    assert taken(ring) == (None if discard else 0)
    assert ring.ended
    assert taken(ring) is None
    assert (ring.counts.received, ring.counts.waiting) == (1, discard)


@pytest.mark.parametrize("closes", [False, True])
def test_a_patient_source_waits_for_a_slot_or_the_end(closes: bool) -> None:
    ring, answers = Ring(slots=3), list[bool]()
    for number in range(3):
        ring.put(frame(number))
    putting = threading.Thread(target=lambda: answers.append(ring.put(frame(3), can_wait=True)), daemon=True)
    putting.start()
    assert closes or taken(ring) == 0
    if closes:
        ring.close()
    putting.join(5.0)
    assert answers == [not closes]
    assert [taken(ring) for _ in range(3)] == ([0, 1, 2] if closes else [1, 2, 3])
    assert ring.counts.dropped == 0


def test_who_waits_for_a_frame_sleeps() -> None:
    ring, used_s = Ring(), []

    def wait() -> None:
        begun = time.thread_time()
        with ring.take():
            used_s.append(time.thread_time() - begun)

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    time.sleep(0.2)
    ring.close()
    waiting.join(5.0)
    assert used_s[0] < 0.02


@pytest.mark.parametrize("mode", list(FrameMode))
def test_between_threads_no_frame_is_torn_or_uncounted(mode: FrameMode) -> None:
    n, ring, seen = 3000, Ring(slots=4, mode=mode), list[int]()

    def read() -> None:
        while not ring.ended:
            with ring.take() as got:
                if got is not None:
                    values = np.unique(got.pixels)
                    assert values.tolist() == [got.number]
                    seen.append(got.number)

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    for number in range(n):
        ring.put(frame(number, shape=(8, 64)))
    ring.close()
    reading.join(10.0)
    counts = ring.counts
    assert seen == sorted(set(seen))
    assert counts.received == n == len(seen) + counts.dropped + counts.skipped
    assert counts.taken == len(seen)
    assert counts.waiting == 0


def test_the_newest_is_taken_once_and_spare_when_the_next_is_taken() -> None:
    latest: Latest[str] = Latest()
    assert latest.take() is None
    latest.publish("a")
    latest.publish("b")
    assert latest.spare() == "a"  # nobody saw it
    assert latest.spare() is None
    assert latest.take() == "b"
    assert latest.take() is None
    latest.publish("c")
    assert latest.spare() is None  # b is shown
    latest.take()
    assert latest.spare() == "b"


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
