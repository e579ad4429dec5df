"""A list of the viewer's layers that fit a purpose, kept up to date."""

from collections.abc import Callable
from typing import Any

from qtpy.QtWidgets import QWidget

from napari_gpubio.gui.fields import ElidedComboBox

_CHARACTERS = 12


class LayerBox(ElidedComboBox):
    """Choose one of the viewer's layers.

    Parameters
    ----------
    viewer
        The napari viewer.
    accepts
        Says of a layer whether it fits.
    nothing
        Text of a first entry that stands for no layer, or None where one must be chosen.
    empty
        Text that is shown while no layer fits and ``nothing`` is None.
    """

    def __init__(
        self,
        viewer: Any,
        accepts: Callable[[Any], bool],
        *,
        nothing: str | None = None,
        empty: str = "no layer fits",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(_CHARACTERS, parent)
        self._viewer, self._accepts, self._nothing = viewer, accepts, nothing
        self.setPlaceholderText(empty)

    @property
    def layer(self) -> Any | None:
        """The chosen layer, or None."""
        return self.currentData()

    def choose(self, layer: Any) -> None:
        """Choose a layer, if it is in the list."""
        for index in range(self.count()):
            if self.itemData(index) is layer or self.itemText(index) == layer.name:
                self.setCurrentIndex(index)
                return

    def refresh(self, *_: Any) -> None:
        """Read the viewer's layers again; the newest is chosen if none was."""
        chosen = self.layer
        was = self.blockSignals(True)
        self.clear()
        if self._nothing is not None:
            self.addItem(self._nothing, None)
        for layer in reversed(self._viewer.layers):
            if self._accepts(layer):
                self.addItem(layer.name, layer)
        names = [self.itemText(i) for i in range(self.count())]
        self.setCurrentIndex(names.index(chosen.name) if chosen is not None and chosen.name in names else 0)
        if not names:
            self.setCurrentIndex(-1)
        self.blockSignals(was)
        if self.layer is not chosen:
            self.currentIndexChanged.emit(self.currentIndex())

    def attach(self) -> None:
        """Follow the viewer's layers."""
        for event in self._events():
            event.connect(self.refresh)
        self.refresh()

    def detach(self) -> None:
        """Hear no more of the viewer, and hold none of its layers."""
        for event in self._events():
            event.disconnect(self.refresh)
        self.clear()

    def _events(self) -> list[Any]:
        events = self._viewer.layers.events
        return [events.inserted, events.removed, events.reordered, events.renamed]
