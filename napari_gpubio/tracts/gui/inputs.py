"""Inputs of the tracking panel: bundles and their seeds, and what fibers are seen against in 3-D."""

from typing import Any

import numpy as np
from napari.layers import Labels
from qtpy.QtCore import Qt, Signal
from qtpy.QtGui import QColor, QIcon, QPixmap
from qtpy.QtWidgets import (
    QAbstractItemView,
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.gui.forms import ParamForm
from napari_gpubio.gui.layer_box import LayerBox
from napari_gpubio.tracts.gui.bundles import BundleList
from napari_gpubio.tracts.seeds import SeedSettings


class SeedBox(QWidget):
    """Bundles and how they are seeded."""

    placing_changed = Signal(bool)
    chosen = Signal(int)
    renamed = Signal(str)
    add_clicked = Signal()
    remove_clicked = Signal()
    undo_clicked = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.form = ParamForm(SeedSettings(), parent=self)
        self._labels = LayerBox(viewer, _is_labels, nothing="the clicked seed", parent=self)
        self._label = QSpinBox(self)
        self._label.setRange(1, 2**31 - 1)
        self._list = QListWidget(self)
        self._build()

    @property
    def settings(self) -> SeedSettings:
        """The ball around a click."""
        return self.form.value()

    @property
    def label_layer(self) -> Any | None:
        """The labels layer to seed from, or None for the clicked seed."""
        return self._labels.layer

    @property
    def label(self) -> int:
        """Which label to seed from."""
        return int(self._label.value())

    def seed_from_click(self) -> None:
        """Seed from the click again."""
        self._labels.setCurrentIndex(0)

    def list_bundles(self, bundles: BundleList) -> None:
        """Show the list as it is."""
        was = self._list.blockSignals(True)
        self._list.clear()
        for bundle in bundles:
            item = QListWidgetItem(_dot(bundle.color), bundle.name)
            x, y, z = bundle.center_mm
            item.setToolTip(f"seed at ({x:.1f}, {y:.1f}, {z:.1f}) mm; double-click to rename")
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
            self._list.addItem(item)
        self._list.setCurrentRow(bundles.current_index)
        self._list.blockSignals(was)
        self._remove.setEnabled(len(bundles) > 0)
        self._undo.setEnabled(bundles.can_undo)

    def attach(self) -> None:
        """Follow the viewer's labels layers."""
        self._labels.attach()

    def detach(self) -> None:
        """Hear no more of the viewer."""
        self._labels.detach()

    def _build(self) -> None:
        self._placing = QPushButton("Click to seed", self)
        self._placing.setCheckable(True)
        self._placing.setChecked(True)
        self._placing.setToolTip(
            "On: a click moves the current bundle's seed, Shift+click starts a new bundle, drag a marker to move it, "
            "Ctrl+click picks a fiber. Off: a click picks a fiber."
        )
        self._placing.toggled.connect(self.placing_changed)
        self._remove = self._button("Remove", "Remove the current bundle and its fibers", self.remove_clicked)
        self._undo = self._button("Undo", "Take the last change of the seeds back", self.undo_clicked)
        add = self._button("New", "Start a new bundle (or Shift+click)", self.add_clicked)
        buttons = QHBoxLayout()
        for button, stretch in ((self._placing, 2), (add, 1), (self._remove, 1), (self._undo, 1)):
            buttons.addWidget(button, stretch)
        self._list.setMaximumHeight(72)
        self._list.setEditTriggers(QAbstractItemView.EditTrigger.DoubleClicked)
        self._list.currentRowChanged.connect(self.chosen)
        self._list.itemChanged.connect(lambda item: self.renamed.emit(item.text()))
        self._list.setToolTip("Bundles, each with its own seed and fibers")
        region = QHBoxLayout()
        region.addWidget(self._labels, 3)
        region.addWidget(self._label, 1)
        self._label.setToolTip("Which label to seed from")
        self._labels.currentIndexChanged.connect(lambda *_: self._label.setEnabled(self.label_layer is not None))
        self._label.setEnabled(False)
        form = QFormLayout()
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow("Seed from", region)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(buttons)
        layout.addWidget(self._list)
        layout.addLayout(form)
        layout.addWidget(self.form)

    def _button(self, text: str, tip: str, signal: Any) -> QPushButton:
        button = QPushButton(text, self)
        button.setToolTip(tip)
        button.clicked.connect(lambda: signal.emit())
        return button


def _is_labels(layer: Any) -> bool:
    return isinstance(layer, Labels)


def _dot(color: str) -> QIcon:
    pixmap = QPixmap(12, 12)
    pixmap.fill(QColor(color))
    return QIcon(pixmap)


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
