"""Inputs of the tracking panel: bundles and their seeds, and what fibers are seen against in 3-D."""

from typing import Any

from napari.layers import Labels
from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtWidgets import (
    QAbstractItemView,
    QFormLayout,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import ParamForm, text_button
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.tables import color_chip
from napari_gpubio.gui.views import show_as_plane
from napari_gpubio.tracts.gui.bundles import BundleList
from napari_gpubio.tracts.seeds import SeedSettings


class SeedBox(QWidget):
    """Bundles and how they are seeded: from the click, or from ``label_box`` of the layer of ``labels_box``."""

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.placing = QPushButton("Click to seed", self)
        self.placing.setCheckable(True)
        self.placing.setChecked(True)
        self.placing.setToolTip(
            "On: a click moves the current bundle's seed, Shift+click starts a new bundle, drag a marker to move it, "
            "Ctrl+click picks a fiber. Off: a click picks a fiber."
        )
        self.add = text_button("New", "Start a new bundle (or Shift+click)", self)
        self.remove = text_button("Remove", "Remove the current bundle and its fibers", self)
        self.undo = text_button("Undo", "Undo the last change of the seeds", self)
        buttons = QHBoxLayout()
        for button, stretch in ((self.placing, 2), (self.add, 1), (self.remove, 1), (self.undo, 1)):
            buttons.addWidget(button, stretch)
        self.names = QListWidget(self)
        self.names.setMaximumHeight(72)
        self.names.setEditTriggers(QAbstractItemView.EditTrigger.DoubleClicked)
        self.names.setToolTip("Bundles, each with its own seed and fibers")
        self.labels_box = LayerBox(
            viewer, lambda layer: isinstance(layer, Labels), nothing="the clicked seed", parent=self
        )
        self.label_box = QSpinBox(self)
        self.label_box.setRange(1, 2**31 - 1)
        self.label_box.setToolTip("Which label to seed from")
        self.label_box.setEnabled(False)
        self.labels_box.currentIndexChanged.connect(
            lambda *_: self.label_box.setEnabled(self.labels_box.layer is not None)
        )
        region = QHBoxLayout()
        region.addWidget(self.labels_box, 3)
        region.addWidget(self.label_box, 1)
        self.form = ParamForm(SeedSettings(), parent=self)
        form = QFormLayout()
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow("Seed from", region)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addLayout(buttons)
        layout.addWidget(self.names)
        layout.addLayout(form)
        layout.addWidget(self.form)

    def seed_from_click(self) -> None:
        """Seed from the click again."""
        self.labels_box.setCurrentIndex(0)

    def list_bundles(self, bundles: BundleList) -> None:
        """Show the list as it is."""
        with QSignalBlocker(self.names):
            self.names.clear()
            for bundle in bundles:
                item = QListWidgetItem(color_chip(bundle.color), bundle.name)
                x, y, z = bundle.center_mm
                item.setToolTip(f"seed at ({x:.1f}, {y:.1f}, {z:.1f}) mm; double-click to rename")
                item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
                self.names.addItem(item)
            self.names.setCurrentRow(bundles.current_index)
        self.remove.setEnabled(len(bundles) > 0)
        self.undo.setEnabled(bundles.can_undo)

    def attach(self) -> None:
        """Follow the viewer's labels layers."""
        self.labels_box.attach()

    def detach(self) -> None:
        """Stop following the viewer."""
        self.labels_box.detach()


CHOICES = {  # a plane is drawn in half the time of a volume, and hides no fibers
    "axial": "axial FA plane through the seed",
    "coronal": "coronal FA plane through the seed",
    "sagittal": "sagittal FA plane through the seed",
    "volume": "FA volume",
}
_ACROSS = {"axial": 0, "coronal": 1, "sagittal": 2}  # axes of the viewer, (z, y, x)


class ContextBox(QWidget):
    """What fibers are seen against in 3-D: the FA volume, or a plane of it."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._box = ElidedComboBox(self)
        for name, text in CHOICES.items():
            self._box.addItem(text, name)
        self._box.currentIndexChanged.connect(lambda *_: self.changed.emit())
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow("Behind (3-D)", self._box)

    def choose(self, name: str) -> None:
        """Choose a context by its name; see `CHOICES`."""
        self._box.setCurrentIndex(self._box.findData(name))

    def set_depiction(self, layer: Any, seed: Any) -> None:
        """Show an image layer as chosen; ``seed`` is a viewer position (z, y, x)."""
        name = self._box.currentData()
        if name == "volume":
            layer.depiction = "volume"
        else:
            show_as_plane(layer, seed, _ACROSS[name])
