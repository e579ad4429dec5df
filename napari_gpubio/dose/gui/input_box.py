"""The part of the panel in which dose images, their unit and structures are chosen."""

from typing import Any

from napari.layers import Image
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QLabel, QLineEdit, QSizePolicy, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.dose.gui.request import Plan, frame_at
from napari_gpubio.dose.gui.structure_list import StructureList
from napari_gpubio.dose.napari_io import affine_mm, has_length_unit, unit_of
from napari_gpubio.gui.forms import aligned_form, row_label
from napari_gpubio.gui.layer_box import LayerBox

PANEL = "panel"  # under which layers say that they are a panel's own
NO_DOSE = "there is no dose; open a dose image, choose File > Open Sample, or make one with another panel"
NO_UNIT = "the unit of the dose {!r} is not known; type it beside Unit, for instance Gy or J/cm2 (it is never guessed)"
_MISSING = "QLineEdit { border: 1px solid #d6942a; }"
_IN_PIXELS = "the layer is in pixels, taken as mm"


class InputBox(QWidget):
    """Doses, unit, structures; ``changed`` says that any of them may be another, ``dose_changed`` that the dose is."""

    changed = Signal()
    dose_changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.dose_box = LayerBox(viewer, is_dose, empty="open a dose (3-D or 4-D image)", parent=self)
        self.second_box = LayerBox(viewer, is_dose, nothing="none", parent=self)
        self.unit = QLineEdit(self)
        self.structures = StructureList(viewer, self)
        self.sizes = QLabel(self)
        self._viewer = viewer
        self._unit_of: Any = None  # the layer whose unit is shown
        self._fill()
        self._connect()
        self._on_dose()

    def plans(self) -> tuple[Plan, ...]:
        """Return the one or two plans.

        Raises
        ------
        InvalidInput
            If there is no dose, or its unit is not told.
        """
        layer, second = self.dose_box.layer, self.second_box.layer
        if layer is None:
            raise InvalidInput(NO_DOSE)
        unit = self.unit.text().strip()
        if not unit:
            raise InvalidInput(NO_UNIT.format(layer.name))
        point = self._viewer.dims.point
        plans = [Plan(layer=layer, unit=unit, frame=frame_at(layer, point))]
        if second is not None and second != layer:
            plans.append(Plan(layer=second, unit=unit_of(second) or unit, frame=frame_at(second, point)))
        return tuple(plans)

    def attach(self) -> None:
        """Follow the viewer's layers."""
        for part in (self.dose_box, self.second_box, self.structures):
            part.attach()
        self._viewer.layers.events.inserted.connect(self._prefer_a_dose)
        self._prefer_a_dose()

    def detach(self) -> None:
        """Hear no more of the viewer."""
        self._viewer.layers.events.inserted.disconnect(self._prefer_a_dose)
        for part in (self.dose_box, self.second_box, self.structures):
            part.detach()
        self._unit_of = None

    def _fill(self) -> None:
        for box in (self.dose_box, self.second_box):  # whose texts would keep the panel from becoming narrow
            box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.unit.setPlaceholderText("type it: Gy, J/cm2, mW/mm2 …")
        self.sizes.setStyleSheet("color: #9a9a9a;")
        self.sizes.setWordWrap(True)
        self._rows = aligned_form(self)
        for text, tip, widget in (
            ("Dose", "An image layer whose values are doses; of a series, the volume that is on screen", self.dose_box),
            ("Unit", "Of the dose's values; taken from the layer where it says so, never guessed", self.unit),
            ("", "Grid of the dose as its layer has it", self.sizes),
            ("Second plan", "Another dose for the same structures; its curves are dashed", self.second_box),
            ("Structures", self.structures.toolTip(), self.structures),
        ):
            widget.setToolTip(tip)
            self._rows.addRow(row_label(text, tip, self), widget)

    def _connect(self) -> None:
        self.dose_box.currentIndexChanged.connect(self._on_dose)
        self.second_box.currentIndexChanged.connect(lambda *_: self.changed.emit())
        self.structures.ticked.connect(self.changed.emit)
        self.unit.textChanged.connect(self._mark_unit)
        self.unit.editingFinished.connect(self._on_unit)

    def _on_dose(self, *_: Any) -> None:
        """Show what there is to say about another dose."""
        layer = self.dose_box.layer
        if layer != self._unit_of:
            self._unit_of = layer
            self.unit.setText("" if layer is None else unit_of(layer))
            self._told = self.unit.text()
            self.dose_changed.emit()
        self._mark_unit()
        self._rows.setRowVisible(self.sizes, layer is not None)
        if layer is not None:
            self.sizes.setText(_grid_text(layer))
        self.changed.emit()

    def _on_unit(self) -> None:
        if self.unit.text() != self._told:
            self._told = self.unit.text()
            self.changed.emit()

    def _mark_unit(self, *_: Any) -> None:
        missing = self.dose_box.layer is not None and not self.unit.text().strip()
        self.unit.setStyleSheet(_MISSING if missing else "")

    def _prefer_a_dose(self, *_: Any) -> None:
        """Take a layer that says its unit rather than another image."""
        chosen = self.dose_box.layer
        if chosen is not None and (unit_of(chosen) or self.unit.text().strip()):
            return
        doses = [layer for layer in self._viewer.layers if is_dose(layer) and unit_of(layer)]
        if doses:
            self.dose_box.choose(doses[-1])


def is_dose(layer: Any) -> bool:
    """Whether an image layer can be a dose, and is none of ours that show something."""
    is_volume = isinstance(layer, Image) and layer.ndim in (3, 4) and not (layer.rgb or layer.multiscale)
    return is_volume and carried(layer, PANEL) is None and carried(layer, "quantity") != "CT"


def _grid_text(layer: Any) -> str:
    shape = layer.data.shape[-3:][::-1]
    edges = [f"{size:.3g}" for size in voxel_sizes_mm(affine_mm(layer))]
    size = edges[0] if len(set(edges)) == 1 else " × ".join(edges)
    series = f"{layer.data.shape[0]} volumes of " if layer.ndim == 4 else ""
    pixels = "" if has_length_unit(layer) else f" ({_IN_PIXELS})"
    return f"{series}{' × '.join(map(str, shape))} voxels of {size} mm{pixels}"
