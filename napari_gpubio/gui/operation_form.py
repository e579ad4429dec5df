"""A form for any operation: boxes with what its inputs refer to, and rows for its settings."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from napari.layers import Image, Labels
from qtpy.QtCore import QSignalBlocker, Signal
from qtpy.QtWidgets import QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.layers import LayerSource, layer_source, record_of
from napari_gpubio.core.operations.records import (
    InputInfo,
    Operation,
    Output,
    input_infos,
)
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.settings import Settings, hints, record_fields
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import ParamForm, aligned_form, row_label
from napari_gpubio.gui.layers import LayerListener

Source = LayerSource | Output[Any]
Given = Mapping[str, tuple[Source, ...]]  # of inputs, by their fields
_GONE = "{} (no layer)"


def offers(layer: Any, kind: type) -> bool:
    """Whether a layer shows a result of a kind, or is a volume where that is wanted."""
    record = record_of(layer)
    if record is not None and issubclass(record.kind, kind):
        return True
    is_array = isinstance(layer, (Image, Labels)) and not layer.multiscale and not getattr(layer, "rgb", False)
    return issubclass(Volume, kind) and is_array and layer.ndim in (2, 3, 4)


def source_shown(layer: Any) -> Source:
    """Return where what a layer shows comes from."""
    record = record_of(layer)
    if record is not None and not issubclass(record.kind, Volume):
        return record
    return layer_source(layer)


class InputBox(ElidedComboBox):
    """What an input refers to: a layer, or a result that no layer shows any more.

    What was chosen stays, whatever is renamed, moved or deleted; only a click changes it. The first suitable layer is
    taken while nothing has been chosen yet.
    """

    edited = Signal()

    def __init__(self, viewer: Any, info: InputInfo, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._info, self._chosen = info, None
        self.is_edited = False  # whether what is chosen has been painted on since it was read
        self._listener = LayerListener(
            viewer, lambda layer: offers(layer, info.kind), layers_changed=self._fill, data_changed=self._on_data
        )
        self.setPlaceholderText(f"no {info.label.lower()}")
        self.setToolTip(info.help)
        self.activated.connect(self._on_activated)
        self.attach, self.detach = self._listener.attach, self._listener.detach

    @property
    def chosen(self) -> Any | None:
        """The layer that was chosen, which the viewer may have no more, a result, or None."""
        return self._chosen

    def choose(self, chosen: Any | None) -> None:
        """Choose a layer of the list, a result, or nothing."""
        self._chosen = chosen
        self._fill()
        self.edited.emit()

    def sources(self) -> tuple[Source, ...]:
        """Read where it comes from; InvalidInput if nothing is chosen that must be."""
        if self._chosen is None:
            if self._info.optional:
                return ()
            raise InvalidInput(f"there is no {self._info.label.lower()}; open one, and choose it")
        return (self._chosen if isinstance(self._chosen, Output) else source_shown(self._chosen),)

    def _fill(self) -> None:
        """List what there is; Qt would choose another row where the text of the chosen one is gone."""
        layers = [*reversed(self._listener.layers)]
        is_first = self._chosen is None and not self._info.optional and layers
        if is_first:
            self._chosen = next((layer for layer in layers if layer.visible), layers[0])
        with QSignalBlocker(self):
            self.clear()
            if self._info.optional:
                self.addItem("none", None)
            for layer in layers:
                self.addItem(layer.name, layer)
            chosen = self._chosen
            if chosen is not None and all(layer != chosen for layer in layers):
                self.addItem(_GONE.format(chosen.of.title if isinstance(chosen, Output) else chosen.name), chosen)
            rows = [row for row in range(self.count()) if self.itemData(row) == chosen]
            self.setCurrentIndex(rows[0] if rows else -1)
        if is_first:
            self.edited.emit()

    def _on_activated(self, row: int) -> None:
        if self.itemData(row) != self._chosen:
            self._chosen = self.itemData(row)
            self.edited.emit()

    def _on_data(self, layer: Any, _: Any) -> None:
        if layer == self._chosen:
            self.is_edited = True
            self.edited.emit()


class OperationForm(QWidget):
    """Shows and edits a draft of an operation.

    Parameters
    ----------
    viewer
        The napari viewer.
    operation
        The class of operations.
    """

    changed = Signal()

    def __init__(self, viewer: Any, operation: type[Operation], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._operation = operation
        self.boxes = {name: InputBox(viewer, info, self) for name, info in input_infos(operation).items()}
        self.settings = ParamForm(_settings_of(operation)(), parent=self)
        self._read: dict[str, Any] = {}  # what inputs were when they were read last
        self._layers: dict[str, Any] = {}  # by the ids of the outputs that they were found to show
        rows = aligned_form(None)
        for name, box in self.boxes.items():
            info = input_infos(operation)[name]
            rows.addRow(row_label(info.label, info.help, self), box)
            box.edited.connect(self.changed)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(rows)
        column.addWidget(self.settings)
        self.settings.changed.connect(self.changed)

    def attach(self) -> None:
        """Follow the viewer's layers."""
        for box in self.boxes.values():
            box.attach()

    def detach(self) -> None:
        """Stop following them."""
        for box in self.boxes.values():
            box.detach()

    def read(self) -> tuple[Given, dict[str, Any]]:
        """Read inputs and settings for a run, in the GUI thread; InvalidInput if they cannot be used."""
        given = {name: box.sources() for name, box in self.boxes.items()}
        self._read = {name: box.chosen for name, box in self.boxes.items()}
        for box in self.boxes.values():
            box.is_edited = False
        return given, self.own_settings()

    def own_settings(self) -> dict[str, Any]:
        """Return the settings by their fields; InvalidInput if they cannot be used."""
        settings = self.settings.value()
        return {field.name: getattr(settings, field.name) for field in dataclasses.fields(settings)}

    def draft(self, given: Given, settings: Mapping[str, Any]) -> Operation:
        """Return the operation of what was read; files and arrays are looked through, which a worker does."""
        infos, made = input_infos(self._operation), dict[str, Any]()
        for name, sources in given.items():
            found = tuple(one if isinstance(one, Output) else one.output() for one in sources)
            if found or not infos[name].optional:
                made[name] = found if infos[name].many else found[0]
                self._layers |= {one.id: self._read[name] for one in found}
        return self._operation(**made, **settings)

    def shows(self, name: str, made: Operation) -> bool:
        """Whether a box still has what an operation was made from, which nobody has painted on since."""
        value, chosen = getattr(made, name), self.boxes[name].chosen
        refs = value if isinstance(value, tuple) else () if value is None else (value,)
        if not refs or chosen is None:
            return not refs and chosen is None
        return chosen == refs[0] or (self._layers.get(refs[0].id) == chosen and not self.boxes[name].is_edited)

    def subject(self, made: Operation) -> Any:
        """Return the layer that the first input of an operation was read from; its result if no layer is known."""
        first = next((ref for _, ref in made.inputs()), None)
        return None if first is None else self._layers.get(first.id, first)

    def show(self, draft: Operation) -> None:
        """Show another draft: its settings, and for its inputs the layers that show them, if there are any."""
        with QSignalBlocker(self):
            for name, box in self.boxes.items():
                value = getattr(draft, name)
                refs = value if isinstance(value, tuple) else () if value is None else (value,)
                box.choose(self._layers.get(refs[0].id, refs[0]) if refs else None)
            kept = {name: getattr(draft, name) for name in type(self.settings.value()).__dataclass_fields__}
            self.settings.set_value(_settings_of(type(draft))(**kept))
        self.changed.emit()


def _settings_of(operation: type[Operation]) -> type[Any]:
    """The settings of an operation as a class of their own, without its inputs."""
    own = [field for field in record_fields(operation) if field.name not in input_infos(operation)]
    types = hints(operation)
    fields = [(f.name, types[f.name], dataclasses.field(default=f.default, metadata=f.metadata)) for f in own]
    name = f"{operation.__name__}Settings"
    return dataclasses.make_dataclass(name, fields, bases=(Settings,), frozen=True, kw_only=True)
