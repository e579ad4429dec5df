"""The newest result, for a reader that comes when it likes: a triple buffer.

A worker publishes, a GUI's timer picks up; nobody waits for the other and nothing is called back. At most three
results are in use: the one being made, the newest, and the one that the reader still shows. Any other can be filled
again, which spares a process the cost of new memory for every frame.
"""

import threading
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Latest(Generic[Result]):
    """A place for one result; the next takes the place of one that was not picked up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._newest: Result | None = None
        self._shown: Result | None = None
        self._spare: list[Result] = []  # two at most
        self._published = self._picked_up = 0

    @property
    def published(self) -> int:
        """How many results were put here."""
        return self._published

    @property
    def picked_up(self) -> int:
        """How many of them a reader took."""
        return self._picked_up

    def publish(self, result: Result) -> None:
        """Put a result here; of one that nobody picked up the memory becomes spare."""
        with self._lock:
            self._give_back(self._newest)
            self._newest = result
            self._published += 1

    def take(self) -> Result | None:
        """Return the newest result, or None if there is none since the last call.

        Taking one gives back what was taken before.
        """
        with self._lock:
            if self._newest is None:
                return None
            self._give_back(self._shown)
            self._shown, self._newest = self._newest, None
            self._picked_up += 1
            return self._shown

    def spare(self) -> Result | None:
        """Return a result that nobody looks at any more, whose memory may be filled again, or None."""
        with self._lock:
            return self._spare.pop() if self._spare else None

    def clear(self) -> None:
        """Forget all results."""
        with self._lock:
            self._newest = self._shown = None
            self._spare.clear()

    def _give_back(self, result: Result | None) -> None:
        if result is not None:
            self._spare = [result, *self._spare[:1]]
