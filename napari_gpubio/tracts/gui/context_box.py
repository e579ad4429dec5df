"""What fibers are seen against in 3-D: a plane of FA through the seed, the whole volume, or nothing."""

from typing import Any

import numpy as np
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QFormLayout, QWidget

CHOICES = {
    "volume": "FA volume",
    "axial": "axial FA plane through the seed",
    "coronal": "coronal FA plane through the seed",
    "sagittal": "sagittal FA plane through the seed",
}
_NORMALS = {"axial": (1, 0, 0), "coronal": (0, 1, 0), "sagittal": (0, 0, 1)}  # viewer axes z, y, x


class ContextBox(QWidget):
    """Choose the context and set a layer up for it."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._box = QComboBox(self)
        for name, text in CHOICES.items():
            self._box.addItem(text, name)
        self._box.currentIndexChanged.connect(lambda *_: self.changed.emit())
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow("Behind (3-D)", self._box)

    def choose(self, name: str) -> None:
        """Choose a context by its name; see `CHOICES`."""
        self._box.setCurrentIndex(self._box.findData(name))

    def apply(self, layer: Any, seed: Any) -> None:
        """Show an image layer as chosen; ``seed`` is a viewer position (z, y, x)."""
        name = self._box.currentData()
        layer.depiction = "volume" if name == "volume" else "plane"
        if name != "volume":
            origin = layer.world_to_data(seed)
            ahead = layer.world_to_data(np.asarray(seed) + _NORMALS[name])
            layer.plane.position = tuple(float(p) for p in origin)
            layer.plane.normal = tuple(float(n) for n in (ahead - origin) / np.linalg.norm(ahead - origin))
            layer.plane.thickness = 1
