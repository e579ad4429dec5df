"""Which panel of a viewer is in front: it alone has the clicks on the canvas, and edits run only what it shows."""

import atexit
import weakref
from collections.abc import Iterator
from typing import Any

from qtpy.compat import isalive
from qtpy.QtCore import QObject, Signal


class Front(QObject):
    """The panels of a viewer, the one in front first.

    A panel comes to the front when it is opened, raised, or used with the mouse or a key; it goes behind when another
    one does, or when it is hidden. ``changed`` is also emitted when clicks mean something else. ``tools`` are those
    that listen to the mouse, in the order in which they began to.
    """

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._panels: list[weakref.ref[Any]] = []
        self._hidden: weakref.WeakSet[Any] = weakref.WeakSet()
        self._has_ended = False
        self.tools: dict[Any, None] = {}

    @property
    def panel(self) -> Any | None:
        """The panel in front, or None."""
        return next((panel for panel in self._open() if panel not in self._hidden), None)

    @property
    def panels(self) -> list[Any]:
        """The panels that are open, the one in front first."""
        return list(self._open())

    def _open(self) -> Iterator[Any]:
        return (panel for ref in self._panels if (panel := ref()) is not None and isalive(panel))

    def shows(self, panel: Any) -> bool:
        """Whether a panel is on screen, or was never: not behind the tab of another one, nor closed up."""
        return panel not in self._hidden

    def take(self, panel: Any) -> None:
        """Bring a panel to the front."""
        self._move(panel, 0)
        self._hidden.discard(panel)
        self._tell()

    def hide(self, panel: Any) -> None:
        """Put a panel behind all others; with no other one, none is in front. One that is closed is not known."""
        if not any(panel is other for other in self.panels):
            return
        self._move(panel, len(self._panels))
        self._hidden.add(panel)
        self._tell()

    def leave(self, panel: Any) -> None:
        """Forget a panel that is closed."""
        self._panels = [weakref.ref(other) for other in self.panels if other is not panel]
        self._hidden.discard(panel)
        self._tell()

    def end(self) -> None:
        """Tell nothing more: the program ends, and Qt hides what is left."""
        self._has_ended = True

    def allows(self, part: Any) -> bool:
        """Whether a part may act: its panel is in front, or it belongs to none."""
        panel = self.panel_of(part)
        return panel is None or panel is self.panel

    def panel_of(self, part: Any) -> Any | None:
        """The panel that a part belongs to, or None."""
        panels = self.panels
        while part is not None and not any(part is panel for panel in panels):
            part = part.parent()
        return part

    def _tell(self) -> None:
        if not self._has_ended:
            self.changed.emit()

    def _move(self, panel: Any, place: int) -> None:
        others = [weakref.ref(other) for other in self.panels if other is not panel]
        self._panels = [*others[:place], weakref.ref(panel), *others[place:]]


_fronts: dict[int, Front] = {}  # by the viewer's id; viewers compare all they hold


@atexit.register
def _end() -> None:
    """Functions are called at exit in reverse order: this one before PyQt's, which deletes the signals."""
    for front in _fronts.values():
        front.end()


def front_of(viewer: Any) -> Front:
    """Return what knows a viewer's panels."""
    viewer = getattr(viewer, "__wrapped__", viewer)  # napari's proxy
    if id(viewer) not in _fronts:
        _fronts[id(viewer)] = Front()
        weakref.finalize(viewer, _fronts.pop, id(viewer), None)
    return _fronts[id(viewer)]
