"""Results that were read from files: the panel goes on where they were saved."""

from collections.abc import Callable
from typing import Any

from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.napari_io import carried
from napari_gpubio.light.model import Domain
from napari_gpubio.light.napari_io import result_of


class LoadedResults(QObject):
    """Finds the layer of a fluence that came, in one file, with the labels that are chosen.

    Parameters
    ----------
    viewer
        The napari viewer.
    domain
        Gives what the chosen labels carry, or None.
    """

    found = Signal(object)

    def __init__(self, viewer: Any, domain: Callable[[], Domain | None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer, self._domain = viewer, domain

    def look(self, *_: Any) -> None:
        """Tell of such a layer if there is one that is nobody's yet."""
        domain = self._domain()
        for layer in self._viewer.layers if domain is not None else ():
            result = result_of(layer)
            if result is not None and result.domain is domain and carried(layer, "panel") is None:
                self.found.emit(layer)
                return

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self._viewer.layers.events.inserted.connect(self.look)

    def detach(self) -> None:
        """Hear no more of the viewer."""
        self._viewer.layers.events.inserted.disconnect(self.look)
