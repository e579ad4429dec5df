"""The list of layers with structures, some of which are ticked."""

from typing import Any

from napari.layers import Labels, Shapes
from qtpy.QtCore import QSize, Qt, Signal
from qtpy.QtWidgets import QListWidget, QListWidgetItem, QSizePolicy, QWidget

from napari_gpubio.core.napari_io import carried
from napari_gpubio.dose.napari_io import NUMBERS

_ROWS = 2, 5  # that are shown, at least and at most
_ROW = 22  # pixels
_LAYER = Qt.ItemDataRole.UserRole
_TIP = "Tick what the histograms are of: Labels (one structure for each label) or Shapes (closed contours)"


class StructureList(QListWidget):
    """Labels and Shapes layers of the viewer, of which one is ticked until the user ticks.

    That is the newest with contours of an RTSTRUCT file, since labels of the same cannot overlap, else the newest
    visible Labels.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    ticked = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._chosen: list[Any] = []
        self._is_own_choice = False  # of the user
        self.setToolTip(_TIP)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.itemChanged.connect(self._on_item)

    @property
    def layers(self) -> list[Any]:
        """The layers that are ticked, in the order of the list."""
        items = (self.item(row) for row in range(self.count()))
        return [item.data(_LAYER) for item in items if item.checkState() == Qt.CheckState.Checked]

    def choose(self, *layers: Any) -> None:
        """Tick these layers and no others."""
        self._is_own_choice = True
        self._chosen = list(layers)
        self.refresh()

    @property
    def advice(self) -> str:
        """What another layer with the same structures of a file would be good for."""
        chosen = self.layers
        others = [self.item(row).data(_LAYER) for row in range(self.count())]
        for layer in filter(is_from_file, chosen):
            numbers = carried(layer, NUMBERS)
            backends = [one for one in others if one not in chosen and carried(one, NUMBERS) == numbers]
            for backend in backends:
                if isinstance(layer, Labels) and isinstance(backend, Shapes) and carried(layer, "notes"):
                    return f"Tick {backend.name!r} instead to count structures that overlap as they were drawn."
                if isinstance(layer, Shapes) and isinstance(backend, Labels):
                    return f"Counted from contours as they were drawn; tick {backend.name!r} instead to paint."
        return ""

    def refresh(self, *_: Any) -> None:
        """Read the viewer's layers again."""
        there = [layer for layer in reversed(self._viewer.layers) if is_structures(layer)]
        before = self.layers
        self._chosen = [layer for layer in self._chosen if layer in there]
        if not self._is_own_choice:
            drawn = [layer for layer in there if is_from_file(layer) and isinstance(layer, Shapes)]
            labels = [layer for layer in there if layer.visible and isinstance(layer, Labels)]
            self._chosen = (drawn or labels or there)[:1]
        was = self.blockSignals(True)
        self.clear()
        for layer in there:
            self._add(layer)
        self.blockSignals(was)
        self.setFixedHeight(self.sizeHint().height())
        if self.layers != before:
            self.ticked.emit()

    def sizeHint(self) -> QSize:
        """Qt: tall enough for a few rows."""
        rows = min(max(self.count(), _ROWS[0]), _ROWS[1])
        return QSize(super().sizeHint().width(), rows * _ROW + 2 * self.frameWidth())

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
        self._chosen = []

    def _add(self, layer: Any) -> None:
        item = QListWidgetItem(layer.name)
        item.setData(_LAYER, layer)
        item.setSizeHint(QSize(0, _ROW))
        item.setToolTip(f"{type(layer).__name__}: {_TIP}")
        item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
        is_chosen = layer in self._chosen
        item.setCheckState(Qt.CheckState.Checked if is_chosen else Qt.CheckState.Unchecked)
        self.addItem(item)

    def _on_item(self, *_: Any) -> None:
        self._is_own_choice = True
        self._chosen = self.layers
        self.ticked.emit()

    def _events(self) -> list[Any]:
        events = self._viewer.layers.events
        return [events.inserted, events.removed, events.reordered, events.renamed]


def is_from_file(layer: Any) -> bool:
    """Whether a layer's structures are those of an RTSTRUCT file."""
    return bool(carried(layer, NUMBERS))


def is_structures(layer: Any) -> bool:
    """Whether a layer can hold structures."""
    if isinstance(layer, Labels):
        return layer.ndim >= 3 and not layer.multiscale
    return isinstance(layer, Shapes) and layer.ndim >= 3
