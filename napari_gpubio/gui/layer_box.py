"""A list of the viewer's layers that fit a purpose, kept up to date."""

from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QSignalBlocker
from qtpy.QtWidgets import QWidget

from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.layer_listener import LayerListener

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
        self._nothing = nothing
        self._listener = LayerListener(viewer, accepts, layers_changed=self._fill)
        self.attach, self.refresh = self._listener.attach, self._listener.refresh
        self.setPlaceholderText(empty)

    @property
    def layer(self) -> Any | None:
        """The chosen layer, or None."""
        return self.currentData()

    def choose(self, layer: Any) -> None:
        """Choose a layer, if it is in the list."""
        index = self._index_of(layer)
        if index >= 0:
            self.setCurrentIndex(index)

    def detach(self) -> None:
        """Stop following the viewer, and hold none of its layers."""
        self._listener.detach()
        self.clear()

    def _index_of(self, layer: Any) -> int:
        """Where a layer is in the list; two proxies of one layer are equal."""
        return next((index for index in range(self.count()) if self.itemData(index) == layer), -1)

    def _fill(self) -> None:
        """List the layers, the newest first; it is chosen if the one that was is gone."""
        chosen = self.layer
        with QSignalBlocker(self):
            self.clear()
            if self._nothing is not None:
                self.addItem(self._nothing, None)
            for layer in reversed(self._listener.layers):
                self.addItem(layer.name, layer)
            self.setCurrentIndex(max(self._index_of(chosen), 0) if self.count() else -1)
        if self.layer != chosen:
            self.currentIndexChanged.emit(self.currentIndex())
