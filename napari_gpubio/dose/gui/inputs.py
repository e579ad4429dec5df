"""The inputs of the panel: dose images, their unit, and layers with structures."""

from contextlib import suppress
from typing import Any

from napari.layers import Image, Labels, Shapes
from qtpy.QtCore import QSignalBlocker, QSize, Qt, Signal
from qtpy.QtWidgets import QComboBox, QLineEdit, QListWidget, QListWidgetItem, QSizePolicy, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.label_volumes import holds_labels
from napari_gpubio.core.layer_files import STRUCTURES
from napari_gpubio.core.napari_io import KEY, affine_mm, carried, taken_as_mm
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.operations.records import Output
from napari_gpubio.core.operations.runs import value_of
from napari_gpubio.core.operations.volumes import HeldVolume
from napari_gpubio.core.quantity import SCALES, UNIT, quantity_of
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.dose.gui.combine import CombineBox
from napari_gpubio.dose.gui.histograms import Plan, frame_at
from napari_gpubio.dose.metrics.parameters import same_kind
from napari_gpubio.dose.model import Dose, is_light
from napari_gpubio.dose.napari_io import (
    CT_NUMBER,
    FRAME,
    NUMBERS,
    OVERLAPPING,
    contours_of,
    scale_of,
    unit_of,
    unit_scale,
)
from napari_gpubio.dose.operations import DoseOf, DoseVolume, HeldContours, LabelsOf
from napari_gpubio.dose.volumes import named_labels
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Connections, Follower, connect_all
from napari_gpubio.gui.forms import aligned_form, muted_label, row_label, row_of
from napari_gpubio.gui.layers import LayerBox, LayerListener, is_no_recording, why_not_array
from napari_gpubio.gui.operation_form import layers_showing

PANEL = "panel"  # key in the metadata of layers that a panel made for itself
NO_DOSE = "there is no dose; open a dose image, choose File > Open Sample, or make one with another panel"
NO_UNIT = "the unit of the dose {!r} is not known; type it beside Unit, for instance Gy or J/cm2 (it is never guessed)"
_UNIT_TIP = "Unit of the dose; taken from the layer where it is known, never guessed"
_SCALE_TIP = (
    "Whether the layer holds doses or their decimal logarithms, which are converted to doses; layers of this plugin "
    "say which"
)
_NO_DOSES = ("CT", CT_NUMBER, "sensitivity")


class DoseInputs(QWidget, Follower):
    """Doses, unit, structures.

    ``inputs_changed`` is emitted when any of them may have changed, ``dose_changed`` when another dose was chosen.
    """

    inputs_changed = Signal()
    dose_changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        empty = "open a dose (3-D or 4-D image)"
        self.dose_box = LayerBox(viewer, why_no_dose, empty=empty, suggests=is_no_recording, parent=self)
        self.second_box = LayerBox(viewer, why_no_dose, nothing="none", parent=self)
        self.unit, self.scale = QLineEdit(self), QComboBox(self)
        self.combine = CombineBox(viewer, self.plans, self)
        self.structures = StructureList(viewer, self)
        self.sizes = muted_label(self)
        self._viewer = viewer
        self._unit_layer: Any = None  # the layer whose unit is shown
        self._is_user_choice = False  # whether the user chose the dose
        self._last_unit = ""
        self._frames: dict[Any, int | None] = {}  # of series, as they were last seen
        prefer = self._prefer_known_unit
        inserted = Connections(lambda: [(viewer.layers.events.inserted, prefer)], prefer)
        self.followers = (self.dose_box, self.second_box, self.structures, inserted)
        self._fill()
        self._connect()
        self._on_second()
        self._on_dose()

    def plans(self) -> tuple[Plan, ...]:
        """Return the one or two plans.

        Raises
        ------
        InvalidInput
            If there is no dose, or its unit is not known.
        """
        layer, second = self.dose_box.needed(NO_DOSE), self.second_box.layer
        unit = self.unit.text().strip()
        if not unit:
            raise InvalidInput(NO_UNIT.format(layer.name))
        unit_scale(layer, unit)  # refuses what is no unit, or another one than the layer's
        plans = [Plan(layer=layer, unit=unit, frame=self._frame_of(layer), scale=SCALES[self.scale.currentIndex()])]
        if second is not None and second != layer:
            own = unit_of(second) or unit
            own = unit if same_kind(own, unit) else own
            plans.append(Plan(layer=second, unit=own, frame=self._frame_of(second), scale=scale_of(second) or "linear"))
        return tuple(plans)

    def _frame_of(self, layer: Any) -> int | None:
        """Which volume of a series is on screen; of a layer that the viewer has no more, that which was."""
        if layer.ndim == 4 and layer in self._viewer.layers:
            self._frames[layer] = frame_at(layer, self._viewer.dims.point)
        return self._frames.get(layer, 0) if layer.ndim == 4 else None

    @property
    def is_light(self) -> bool:
        """Whether the chosen dose is of light."""
        layer = self.dose_box.layer
        known = None if layer is None else quantity_of(layer)
        return is_light(known.name if known else "", self.unit.text())

    def show_draft(self, operation: DoseVolume) -> None:
        """Show the layers of an operation's doses and structures, or add them; InvalidInput if one is not there."""
        refs = [*operation.inputs()]
        doses = [_layer_of(self._viewer, ref) for field, ref in refs if field == "doses"]
        dose = value_of(refs[0][1])
        structures = [
            _layer_drawn(self._viewer, ref, dose) or _layer_of(self._viewer, ref)
            for field, ref in refs
            if field == "structures"
        ]
        self._is_user_choice = True
        for box, layer in ((self.dose_box, doses[0]), (self.second_box, doses[1] if len(doses) > 1 else None)):
            box.choose(layer)
            box.settle()
        first = refs[0][1].of
        if isinstance(first, DoseOf):
            self.unit.setText(first.unit)
            self._on_unit()
            volume = next(first.inputs())[1].of
            if isinstance(volume, HeldVolume) and self.scale.isEnabled():
                self.scale.setCurrentIndex(SCALES.index(volume.quantity[2]))
        self.structures.choose(*structures)

    def detach(self) -> None:
        """Stop following the viewer."""
        self.combine.detach()
        super().detach()
        self._unit_layer = None
        self._frames.clear()

    def _fill(self) -> None:
        for box in (self.dose_box, self.second_box):  # long names of layers must not widen the panel
            box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.unit.setPlaceholderText("for instance Gy, J/cm2, mW/mm2")
        self.scale.addItems(list(SCALES))
        unit_row = QWidget(self)
        unit_row.setLayout(row_of(self.unit, self.scale))
        self._rows = aligned_form(self)
        for text, tip, widget in (
            ("Unit", _UNIT_TIP, unit_row),
            ("Second plan", "Another dose for the same structures; its curves are dashed", self.second_box),
            ("Structures", self.structures.toolTip(), self.structures),
        ):
            widget.setToolTip(tip)
            self._rows.addRow(row_label(text, tip, self), widget)
            if widget is unit_row:
                self._rows.addRow(self.sizes)
            elif widget is self.second_box:
                self._rows.addRow("", self.combine)
        self.dose_box.setToolTip("Image layer with the dose; of a series, the volume on screen is counted")
        self.sizes.setToolTip("What the layer holds, and its grid")
        self.unit.setToolTip(_UNIT_TIP)
        self.scale.setToolTip(_SCALE_TIP)

    def _connect(self) -> None:
        connect_all(
            [
                (self.dose_box.currentIndexChanged, self._on_dose),
                (self.dose_box.activated, self._on_user_choice),
                (self.scale.activated, lambda *_: self.inputs_changed.emit()),
                (self.second_box.currentIndexChanged, self._on_second),
                (self.structures.ticked, self.inputs_changed.emit),
                (self.unit.textChanged, self._mark_unit),
                (self.unit.editingFinished, self._on_unit),
            ]
        )

    def _on_dose(self, *_: Any) -> None:
        """Show unit and grid of another dose."""
        layer = self.dose_box.layer
        if layer != self._unit_layer:
            self._unit_layer = layer
            self.unit.setText("" if layer is None else unit_of(layer))
            self._last_unit = self.unit.text()
            self._show_scale(layer)
            self.dose_changed.emit()
        self._mark_unit()
        self._rows.setRowVisible(self.sizes, layer is not None)
        if layer is not None:
            self.sizes.setText(_grid_text(layer))
            self._fit_sizes()
        self.inputs_changed.emit()

    def _on_second(self, *_: Any) -> None:
        self._rows.setRowVisible(self.combine, self.second_box.layer is not None)
        self.inputs_changed.emit()

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size."""
        super().resizeEvent(event)
        self._fit_sizes()

    def _fit_sizes(self) -> None:
        """Give the wrapped text the height that it needs, which a form layout does not."""
        self.sizes.setMinimumHeight(self.sizes.heightForWidth(max(self.width(), self.sizes.minimumWidth())))

    def _show_scale(self, layer: Any) -> None:
        """Show the scale that a layer carries; where it carries none, the user may choose."""
        known = None if layer is None else scale_of(layer)
        self.scale.setCurrentIndex(SCALES.index(known or "linear"))
        self.scale.setEnabled(layer is not None and known is None)

    def _on_user_choice(self, *_: Any) -> None:
        self._is_user_choice = True

    def _on_unit(self) -> None:
        if self.unit.text() != self._last_unit:
            self._last_unit = self.unit.text()
            self.inputs_changed.emit()

    def _mark_unit(self, *_: Any) -> None:
        missing = self.dose_box.layer is not None and not self.unit.text().strip()
        self.unit.setStyleSheet(theme.border_style(theme.MISSING) if missing else "")

    def _prefer_known_unit(self, *_: Any) -> None:
        """Choose a layer that is known to be a dose rather than another image, unless the user has chosen."""
        chosen = self.dose_box.layer
        if chosen is None:
            self._is_user_choice = False
        elif self._is_user_choice or means_dose(chosen) or self.unit.text().strip() not in ("", unit_of(chosen)):
            return
        doses = [layer for layer in self._viewer.layers if why_no_dose(layer) is None and means_dose(layer)]
        if doses:
            self.dose_box.suggest(doses[-1])


def _layer_of(viewer: Any, shown: Output[Any]) -> Any:
    """The layer that shows a dose or structures, or a volume that they are taken of; it carries what is known of it."""
    of = shown.of
    if not isinstance(of, (DoseOf, LabelsOf)):
        return layers_showing(viewer, shown)[0]
    _, volume = next(of.inputs())
    layer = next((one for one in viewer.layers if _has_values(record_of(one), volume)), None)
    if layer is None:
        return layers_showing(viewer, shown)[0]
    known: dict[str, Any] = {FRAME: of.frame_of_reference}
    known |= {STRUCTURES: named_labels(of.names)} if isinstance(of, LabelsOf) else {UNIT: of.values_unit}
    layer.metadata[KEY] = {**layer.metadata.get(KEY, {}), **{name: one for name, one in known.items() if one}}
    return layer


def _layer_drawn(viewer: Any, shown: Output[Any], dose: Dose) -> Any | None:
    """The layer of shapes that has the contours of drawn structures, under whatever names."""
    if not isinstance(shown.of, HeldContours):
        return None
    for layer in (one for one in viewer.layers if isinstance(one, Shapes)):
        with suppress(InvalidInput):  # it has no contours
            found = HeldContours.of(contours_of(layer, dose))
            if (found.loops, found.points) == (shown.of.loops, shown.of.points):
                return layer
    return None


def _has_values(one: Output[Any] | None, other: Output[Any]) -> bool:
    """Whether a result is a volume, or has its values and place where no file holds it, whatever they mean."""
    if one is not None and isinstance(one.of, HeldVolume) and isinstance(other.of, HeldVolume):
        return (one.of.array, one.of.affine) == (other.of.array, other.of.affine)
    return one == other


def why_no_dose(layer: Any) -> str | None:
    """Why a layer is no dose: a volume or a series can be, but no CT, no map of errors, and no overlay of a panel."""
    known = quantity_of(layer)
    if known is not None and (known.name in _NO_DOSES or "error" in known.name):
        return f"{known.name}, not a dose"
    if carried(layer, PANEL) is not None and not means_dose(layer):
        return ""
    return why_not_array(layer, Image, (3, 4))


def means_dose(layer: Any) -> bool:
    """Whether a layer is known to be a dose of radiation or of light."""
    known, unit = quantity_of(layer), unit_of(layer)
    return bool(unit) and (is_light(known.name if known else "", unit) or same_kind(unit, "Gy"))


def _meaning(layer: Any) -> str:
    """What a layer says that it holds, in front of its grid."""
    known = quantity_of(layer)
    hidden = carried(layer, "hidden")
    text = f"{known.text}; " if known else ""
    return f"{text}{hidden} are hidden and count as 0; " if hidden else text


def _grid_text(layer: Any) -> str:
    shape = layer.data.shape[-3:][::-1]
    edges = [f"{size:.3g}" for size in voxel_sizes_mm(affine_mm(layer))]
    size = edges[0] if len(set(edges)) == 1 else " × ".join(edges)
    series = f"{layer.data.shape[0]} volumes of " if layer.ndim == 4 else ""
    pixels = f" ({assumed})" if (assumed := taken_as_mm(layer)) else ""
    return f"{_meaning(layer)}{series}{' × '.join(map(str, shape))} voxels of {size} mm{pixels}"


_ROWS = 2, 5  # that are shown, at least and at most
_ROW_PIXELS = 22
_LAYER = Qt.ItemDataRole.UserRole
_TIP = "Layers with structures: Labels or an image of labels (one structure for each), or Shapes (closed contours)"


class StructureList(QListWidget):
    """Labels, Shapes and images of labels with check boxes; ``ticked`` is emitted when other ones are checked.

    What was counted or clicked stays checked, whatever is renamed, moved or deleted. Before, one layer is checked: the
    newest with contours of an RTSTRUCT file, because labels of the same structures cannot overlap, else the newest
    visible Labels.
    """

    ticked = Signal()
    kept = ("kept_layers",)
    keeps_controls = False

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._chosen: list[Any] = []
        self._is_settled = False
        self._viewer = viewer
        self._listener = LayerListener(viewer, is_structures, layers_changed=self.refresh)
        self.attach = self._listener.attach
        self.setToolTip(_TIP)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.itemChanged.connect(self._on_item)

    @property
    def layers(self) -> list[Any]:
        """The layers that are ticked, in the order in which they were; the viewer may have some of them no more."""
        return list(self._chosen)

    def choose(self, *layers: Any) -> None:
        """Tick these layers and no others."""
        before = self.layers
        self._is_settled, self._chosen = True, list(layers)
        self.refresh()
        if self._chosen != before:
            self.ticked.emit()

    @property
    def kept_layers(self) -> tuple[Any, ...]:
        """The ticked layers as undo keeps them."""
        return tuple(self._chosen)

    @kept_layers.setter
    def kept_layers(self, layers: tuple[Any, ...]) -> None:
        self.choose(*layers)

    def show_kept(self) -> None:
        """Do nothing: the layers are ticked."""

    def settle(self) -> None:
        """Take what is ticked as the user's own choice, which nothing but a click changes from now on."""
        self._is_settled = self._is_settled or bool(self._chosen)

    @property
    def advice(self) -> str:
        """Why another layer with the same structures of a file may be the better choice."""
        chosen = self.layers
        others = [self.item(row).data(_LAYER) for row in range(self.count())]
        for layer in filter(is_from_file, chosen):
            numbers = carried(layer, NUMBERS)
            for other in others:
                if other in chosen or carried(other, NUMBERS) != numbers:
                    continue
                if isinstance(layer, Labels) and isinstance(other, Shapes) and carried(layer, OVERLAPPING):
                    return f"Tick {other.name!r} instead to count structures that overlap as they were drawn."
                if isinstance(layer, Shapes) and isinstance(other, Labels):
                    return f"Counted from contours as they were drawn; tick {other.name!r} instead to paint."
        return ""

    def refresh(self) -> None:
        """List the viewer's layers again."""
        there = self._listener.layers[::-1]
        before = self.layers
        if not self._is_settled:
            drawn = [layer for layer in there if is_from_file(layer) and isinstance(layer, Shapes)]
            labels = [layer for layer in there if layer.visible and isinstance(layer, Labels)]
            shapes = [layer for layer in there if isinstance(layer, Shapes)]
            self._chosen = (drawn or labels or shapes)[:1]
        self._chosen = [next((own for own in there if own == one), one) for one in self._chosen]  # and no proxies
        with QSignalBlocker(self):
            self.clear()
            for layer in [*there, *(one for one in self._chosen if one not in there)]:
                self._add(layer)
        self.setFixedHeight(self.sizeHint().height())
        if self.layers != before:
            self.ticked.emit()

    def sizeHint(self) -> QSize:
        """Qt: tall enough for a few rows."""
        rows = min(max(self.count(), _ROWS[0]), _ROWS[1])
        return QSize(super().sizeHint().width(), rows * _ROW_PIXELS + 2 * self.frameWidth())

    def detach(self) -> None:
        """Stop following the viewer, and let its layers go."""
        self._listener.detach()
        self.clear()
        self._chosen, self._is_settled = [], False

    def _add(self, layer: Any) -> None:
        is_there = layer in self._viewer.layers
        item = QListWidgetItem(layer.name if is_there else f"deleted: {layer.name}")
        item.setData(_LAYER, layer)
        item.setSizeHint(QSize(0, _ROW_PIXELS))
        item.setToolTip(f"{type(layer).__name__}: {_TIP}")
        item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
        is_chosen = layer in self._chosen
        item.setCheckState(Qt.CheckState.Checked if is_chosen else Qt.CheckState.Unchecked)
        self.addItem(item)

    def _on_item(self, *_: Any) -> None:
        items = (self.item(row) for row in range(self.count()))
        ticked = [item.data(_LAYER) for item in items if item.checkState() == Qt.CheckState.Checked]
        kept = [layer for layer in self._chosen if layer in ticked]
        self._is_settled, self._chosen = True, [*kept, *(layer for layer in ticked if layer not in kept)]
        self.ticked.emit()


def is_from_file(layer: Any) -> bool:
    """Whether a layer's structures are those of an RTSTRUCT file."""
    return bool(carried(layer, NUMBERS))


def is_structures(layer: Any) -> bool:
    """Whether a layer can hold structures."""
    if isinstance(layer, Image):
        return holds_labels(layer)
    return isinstance(layer, Labels | Shapes) and layer.ndim >= 3 and not getattr(layer, "multiscale", False)
