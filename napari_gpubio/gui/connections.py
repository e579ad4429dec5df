"""Signals and slots that are connected from one list, and disconnected from the same list."""

from collections.abc import Callable, Iterable
from typing import Any

Connection = tuple[Any, Callable[..., Any]]


class Connections:
    """Pairs of a signal and what it calls; a panel's part hands it to `EnginePanel.own`.

    Signals are anything with ``connect`` and ``disconnect``: those of Qt, of psygnal, and the events of napari. The
    pairs are listed anew at each attaching, since objects come and go; ``refresh`` is called after it.
    """

    def __init__(
        self, list_pairs: Callable[[], Iterable[Connection]], refresh: Callable[[], object] | None = None
    ) -> None:
        self._list_pairs, self._refresh = list_pairs, refresh
        self._connected: list[Connection] = []

    def attach(self) -> None:
        """Connect every pair; those of before are disconnected first."""
        self.detach()
        for signal, slot in self._list_pairs():
            signal.connect(slot)
            self._connected.append((signal, slot))
        if self._refresh is not None:
            self._refresh()

    def detach(self) -> None:
        """Disconnect what is connected."""
        while self._connected:
            signal, slot = self._connected.pop()
            signal.disconnect(slot)


def connect_all(pairs: Iterable[Connection]) -> None:
    """Connect signals of widgets that live and die together with what they call."""
    for signal, slot in pairs:
        signal.connect(slot)
