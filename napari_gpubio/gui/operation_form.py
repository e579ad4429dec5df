"""A form for any operation: boxes with what its inputs refer to, and rows for its settings."""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from napari.layers import Image, Labels, Layer, Shapes
from qtpy.QtCore import QSignalBlocker, Signal
from qtpy.QtWidgets import QFormLayout, QWidget

from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.operations.kinds import kind_registered
from napari_gpubio.core.operations.layer_sources import PART, LayerSource, layer_grid, layer_source, record_of, shown_as
from napari_gpubio.core.operations.records import (
    InputInfo,
    Operation,
    Output,
    input_infos,
)
from napari_gpubio.core.operations.runs import value_of
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.settings import Settings, field_names, hints, record_fields
from napari_gpubio.core.text import words_of
from napari_gpubio.gui.connections import Follower
from napari_gpubio.gui.forms import ParamForm, aligned_form, fill_column, row_label
from napari_gpubio.gui.layers import LayerBox, LayerListener, why_not_array

Source = LayerSource | Output[Any]
Given = Mapping[str, tuple[Source, ...]]  # of inputs, by their fields


def offers(layer: Any, kind: type) -> bool:
    """Whether a layer shows a result of a kind, or is a volume where that is wanted."""
    record = record_of(layer)
    if record is not None and issubclass(record.kind, kind):
        return True
    is_array = isinstance(layer, (Image, Labels)) and not layer.multiscale and not getattr(layer, "rgb", False)
    return issubclass(Volume, kind) and is_array and layer.ndim in (2, 3, 4)


def source_shown(layer: Any, kind: type = object) -> Source:
    """Return where what a layer shows comes from, as a result of a kind; of images and labels else as a volume."""
    record = record_of(layer)
    is_other = record is None or issubclass(record.kind, Volume) or not issubclass(record.kind, kind)
    if record is not None and not is_other and not is_edited(layer, record):
        return record
    return layer_source(layer)


def is_edited(layer: Any, record: Output[Any]) -> bool:
    """Whether an image, labels or shapes are no more the result that they say they show, as far as that is kept."""
    kept = STORE.last_value(record)
    if not isinstance(layer, Image | Labels | Shapes) or kept is None or not kind_registered(record.kind).shows:
        return False
    (data, _, _), *_ = shown_as(kept, record, layer.name, carried(layer, PART))
    if isinstance(layer, Shapes):
        pairs = zip(data, layer.data, strict=False)
        return len(data) != len(layer.data) or not all(np.array_equal(np.float32(one), other) for one, other in pairs)
    return not np.array_equal(np.asarray(data), np.asarray(layer.data), equal_nan=np.asarray(data).dtype.kind == "f")


def choose_output(box: LayerBox, viewer: Any, output: Output[Any] | None) -> bool:
    """Choose the layer of a viewer that shows a result, or none; returns whether there is one."""
    found = None if output is None else next((one for one in viewer.layers if record_of(one) == output), None)
    if output is None:
        box.setCurrentIndex(0)
    elif found is not None:
        box.choose(found)
    box.settle()
    return box.layer == found


def layers_showing(viewer: Any, output: Output[Any]) -> list[Any]:
    """Return the layers of a viewer that show a result; what no layer says that it shows is read.

    A layer that holds just that takes over what is known of it; else there is another layer.

    Raises
    ------
    InvalidInput
        If it cannot be read, or is shown in no layer.
    """
    if found := [layer for layer in viewer.layers if record_of(layer) == output]:
        return found
    for data, keywords, kind in shown_as(value_of(output), output, output.of.title):
        made = data if isinstance(data, Layer) else Layer.create(data, keywords, kind)
        same = next((layer for layer in viewer.layers if _holds(layer, made)), None)
        if same is None:
            viewer.add_layer(same := made)
        same.metadata[KEY] = {**same.metadata.get(KEY, {}), **made.metadata[KEY]}
        found.append(same)
    return found


def _holds(layer: Any, made: Layer) -> bool:
    """Whether a layer has the same values as another one, in the same place."""
    if not isinstance(made, Image | Labels) or not isinstance(layer, type(made)) or layer.ndim != made.ndim:
        return False
    is_there = np.allclose(layer_grid(layer)[0], layer_grid(made)[0])
    return is_there and np.array_equal(np.asarray(layer.data), np.asarray(made.data))


def _why_not(layer: Any, *, kind: type) -> str | None:
    """Why a layer is not offered, as lists say it; nothing of layers that are no arrays."""
    if kind is Volume and (reason := why_not_array(layer, (Image, Labels), (3, 4))) is not None:
        return reason
    if offers(layer, kind):
        return None
    return f"no {words_of(kind)}" if isinstance(layer, (Image, Labels)) else ""


class OperationInputBox(LayerBox):
    """What an input refers to: a layer, or a result that no layer shows any more."""

    edited = Signal()

    def __init__(self, viewer: Any, info: InputInfo, parent: QWidget | None = None) -> None:
        label = info.label.lower()
        nothing = "none" if info.optional else None
        super().__init__(
            viewer,
            partial(_why_not, kind=info.kind),
            nothing=nothing,
            empty=f"no {label}",
            parent=parent,
        )
        self._label, self._kind = label, info.kind
        self.is_edited = False  # whether what is chosen has been painted on since it was read
        data = LayerListener(viewer, lambda layer: offers(layer, info.kind), data_changed=self._on_data)
        self.followers = (*self.followers, data)
        self.setToolTip(info.help)
        self.currentIndexChanged.connect(lambda *_: self.edited.emit())

    @property
    def chosen(self) -> Any | None:
        """The layer or the result that was chosen, or None."""
        return self._chosen

    @property
    def layer(self) -> Any | None:
        """The chosen layer; None where a result was chosen that no layer shows."""
        return None if isinstance(self._chosen, Output) else self._chosen

    def choose(self, chosen: Any | None) -> None:
        """Choose a layer, a result, or nothing."""
        self._chosen = chosen
        self.settle()
        self._fill()
        self.edited.emit()

    def sources(self) -> tuple[Source, ...]:
        """Read where it comes from; InvalidInput if nothing is chosen that must be."""
        if isinstance(self._chosen, Output):
            return (self._chosen,)
        if self._chosen is None and self._nothing is not None:
            return ()
        return (source_shown(self.needed(f"there is no {self._label}; open one, and choose it"), self._kind),)

    def _name_of(self, chosen: Any) -> str:
        return chosen.of.title if isinstance(chosen, Output) else super()._name_of(chosen)

    def _on_data(self, layer: Any, _: Any) -> None:
        if layer == self._chosen:
            self.is_edited = True
            self.edited.emit()


class OperationForm(QWidget, Follower):
    """Shows and edits a draft of an operation.

    Parameters
    ----------
    viewer
        The napari viewer.
    operation
        The class of operations.
    header
        Where the row of the first input goes, which stays in sight.
    """

    changed = Signal()

    def __init__(
        self,
        viewer: Any,
        operation: type[Operation],
        parent: QWidget | None = None,
        *,
        header: QFormLayout | None = None,
    ) -> None:
        super().__init__(parent)
        self._operation = operation
        self.boxes = {name: OperationInputBox(viewer, info, self) for name, info in input_infos(operation).items()}
        self.followers = tuple(self.boxes.values())
        self.settings = ParamForm(_settings_of(operation)(), parent=self)
        self._read: dict[str, Any] = {}  # what inputs were when they were read last
        self._layers: dict[str, Any] = {}  # by the ids of the outputs that they were found to show
        rows = aligned_form(None)
        for number, (name, box) in enumerate(self.boxes.items()):
            info = input_infos(operation)[name]
            row = rows if number or header is None else header
            row.addRow(row_label(info.label, info.help, self), box)
            box.edited.connect(self.changed)
        fill_column(self, rows, self.settings)
        self.settings.changed.connect(self.changed)

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
            kept = {name: getattr(draft, name) for name in field_names(type(self.settings.value()))}
            self.settings.set_value(_settings_of(type(draft))(**kept))
        self.changed.emit()


def _settings_of(operation: type[Operation]) -> type[Any]:
    """The settings of an operation as a class of their own, without its inputs."""
    own = [field for field in record_fields(operation) if field.name not in input_infos(operation)]
    types = hints(operation)
    fields = [(f.name, types[f.name], dataclasses.field(default=f.default, metadata=f.metadata)) for f in own]
    name = f"{operation.__name__}Settings"
    return dataclasses.make_dataclass(name, fields, bases=(Settings,), frozen=True, kw_only=True)
