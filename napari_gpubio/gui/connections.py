"""Signals and slots that are connected and disconnected from one list, and actions that many signals request.

What follows by itself (timers of `single_shot`, a `Debouncer`, results of `jobs.LatestJob`) waits while somebody holds
it up, such as an undo that takes several turns of the event loop.
"""

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from qtpy.QtCore import QObject, Qt, QTimer, Signal

Connection = tuple[Any, Callable[..., Any]]
_holding: weakref.WeakSet[Any] = weakref.WeakSet()  # who holds up what follows


class Connections:
    """Pairs of a signal and what it calls; a panel's part hands it to `EnginePanel.own`.

    Signals are anything with ``connect`` and ``disconnect``: those of Qt, of psygnal, and the events of napari. The
    pairs are listed anew at each attaching, since objects come and go, and those that were there stay connected, since
    napari looks at length at each new one; ``refresh`` is called after it.
    """

    def __init__(
        self, list_pairs: Callable[[], Iterable[Connection]], refresh: Callable[[], object] | None = None
    ) -> None:
        self._list_pairs, self._refresh = list_pairs, refresh
        self._connected: dict[tuple[int, Callable[..., Any]], Connection] = {}  # by the signal's id and the slot

    def attach(self) -> None:
        """Connect the pairs that are listed now, each once, and no others."""
        wanted = {(id(signal), slot): (signal, slot) for signal, slot in self._list_pairs()}
        before, self._connected = self._connected, wanted
        for key in before.keys() - wanted.keys():
            _disconnect(before[key])
        for key in wanted.keys() - before.keys():
            signal, slot = wanted[key]
            signal.connect(slot)
        if self._refresh is not None:
            self._refresh()

    def detach(self) -> None:
        """Disconnect what is connected."""
        while self._connected:
            _disconnect(self._connected.popitem()[1])


def _disconnect(pair: Connection) -> None:
    signal, slot = pair
    signal.disconnect(slot)


class Follower:
    """Base of a panel's part that follows the viewer as far as its own parts do; see `PanelFrame.own`."""

    followers: Sequence[Any] = ()

    def attach(self) -> None:
        """Follow the viewer."""
        for one in self.followers:
            one.attach()

    def detach(self) -> None:
        """Stop following it."""
        for one in reversed(self.followers):
            one.detach()


def connect_all(pairs: Iterable[Connection]) -> None:
    """Connect signals of widgets that live and die together with what they call."""
    for signal, slot in pairs:
        signal.connect(slot)


class Debouncer(QObject):
    """Calls an action once for any number of requests: when control is back in the event loop, before the window draws.

    A timer of 0 ms would call it after the window has drawn.
    """

    _requested = Signal()

    def __init__(self, act: Callable[[], Any], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.is_due = False
        self._act = act
        self._later = single_shot(0, self._act_if_due, self)
        self._requested.connect(self._act_if_due, Qt.ConnectionType.QueuedConnection)

    def request(self) -> None:
        """Request the action."""
        if not self.is_due:
            self.is_due = True
            self._requested.emit()

    def cancel(self) -> None:
        """Cancel a request that has not been acted on."""
        self.is_due = False

    def _act_if_due(self) -> None:
        if is_held_up():
            self._later.start()
        elif self.is_due:
            self.is_due = False
            self._act()


def hold_up(who: Any) -> None:
    """Let nothing follow by itself until `let_go`."""
    _holding.add(who)


def let_go(who: Any) -> None:
    """Let follow what was held up, in the next turns of the event loop."""
    _holding.discard(who)


def is_held_up() -> bool:
    """Whether what follows by itself has to wait."""
    return bool(_holding)


class _Timer(QTimer):
    """A timer that waits while it is held up."""

    def timerEvent(self, event: Any) -> None:
        """Qt: it is due; the event comes again after the interval."""
        if not _holding:
            super().timerEvent(event)


def single_shot(milliseconds: int, act: Callable[[], Any], parent: QObject) -> QTimer:
    """Return a timer that calls a function once, so long after it was last started."""
    timer = _Timer(parent)
    timer.setSingleShot(True)
    timer.setInterval(milliseconds)
    timer.timeout.connect(act)
    return timer
