"""The panel's image: which one, which of its volumes, where, and what its values mean; names of halves."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from napari.layers import Image, Labels
from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QFormLayout, QHBoxLayout, QSpinBox, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried, taken_as_mm
from napari_gpubio.core.operations.layer_sources import LayerSource, holds_log, layer_source
from napari_gpubio.core.operations.records import Operation, input_infos
from napari_gpubio.core.parameters import param_info
from napari_gpubio.core.settings import part_info, record_fields
from napari_gpubio.denoise.napari_io import LayerVolume, layer_volume, mask_of
from napari_gpubio.denoise.operations import Denoise, DenoiseFluence
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.forms import Folded, Label, aligned_form, muted_label, row_label
from napari_gpubio.gui.layers import VOLUME, LayerBox, LayerListener, is_no_recording, why_not_array
from napari_gpubio.gui.operation_form import choose_output

# Words that distinguish the halves, in their order.
_HALVES = (("a", "b"), ("even", "odd"), ("first", "second"), ("1", "2"), ("0", "1"))
PANEL = "panel"  # the key under which our own layers carry what they are
NO_IMAGE = "there is no image; open a plane, a volume or a series of volumes, for instance a NIfTI file"


class ImageBox(QWidget):
    """Image, volumes, mask, and in a folded part how gaps are treated; ``parts`` follow the viewer."""

    changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        empty = "open an image (2-D to 4-D)"
        self.layer_box = LayerBox(viewer, why_no_image, empty=empty, suggests=is_no_recording, parent=self)
        self.mask_box = LayerBox(viewer, _why_no_mask, nothing="all voxels", parent=self)
        self.log = QCheckBox("log10 values (filtered on the linear scale)", self)
        tip = "Leave voxels that are NaN or infinite out of every average; they are left unchanged"
        self.gaps = QCheckBox("skip voxels that are NaN or infinite", self, toolTip=tip)
        self.first, self.last = QSpinBox(self), QSpinBox(self)
        self.sizes = muted_label(self)
        self._viewer = viewer
        images = LayerListener(viewer, is_image, place_changed=lambda _: self._show_sizes())
        self.parts = (self.layer_box, self.mask_box, images)
        self._fill()
        self.layer_box.currentIndexChanged.connect(self._on_layer)
        signals = [self.mask_box.currentIndexChanged, self.log.toggled, self.gaps.toggled]
        signals += [self.first.valueChanged, self.last.valueChanged]
        connect_all((signal, lambda *_: self.changed.emit()) for signal in signals)
        self._on_layer()

    @property
    def layer(self) -> Any | None:
        """The chosen image layer, or None."""
        return self.layer_box.layer

    @property
    def volumes(self) -> slice | None:
        """Which volumes of a series, or None: all of them, or there is but one."""
        if self.layer is None or self.layer.ndim < 4:
            return None
        first, last = self.first.value(), self.last.value()
        if first > last:
            raise InvalidInput(
                f"volumes {first} to {last} are not a range: the last volume must not come before the first"
            )
        return None if (first, last) == (0, self.last.maximum()) else slice(first, last + 1)

    def read_image(self) -> LayerVolume:
        """Read the image; InvalidInput if there is none."""
        return layer_volume(self.layer_box.needed(NO_IMAGE), is_log=self.log.isChecked())

    def sources(self, image: LayerVolume) -> dict[str, LayerSource]:
        """Where the image and its mask come from; InvalidInput if the mask lies on another grid."""
        found, mask = {"image": layer_source(self.layer)}, self.mask_box.layer
        if mask is None:
            return found
        image.check_same_grid(mask, "mask")
        return {**found, "mask": layer_source(mask, mask_of(mask).astype(np.uint8))}

    def show_draft(self, operation: Denoise | DenoiseFluence) -> bool:
        """Show the image of an operation, and which of its values are denoised; returns whether layers show them."""
        inputs = dict(operation.inputs())
        boxes = {"image": self.layer_box, "mask": self.mask_box}
        found = [choose_output(box, self._viewer, inputs.get(name)) for name, box in boxes.items()]
        self.log.setChecked(bool(operation.log10))
        self.gaps.setChecked(operation.skip_gaps)
        if operation.volumes is not None:
            for box, value in zip((self.first, self.last), operation.volumes, strict=True):
                box.setValue(value)
        return all(found)

    def _fill(self) -> None:
        self._rows = aligned_form(self)
        self._series = QWidget(self)
        row = QHBoxLayout(self._series)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.first, 1)
        row.addWidget(Label("to", self))
        row.addWidget(self.last, 1)
        more = Folded("Missing values", self)
        more.fold(self.gaps)
        lengths = "Voxel size of the layer; windows have the same length in mm along every axis"
        self._rows.addRow(row_label("", lengths, self), self.sizes)
        add_row(self._rows, Denoise, "log10", self.log, "Values")
        add_row(self._rows, Denoise, "volumes", self._series)
        add_row(self._rows, Denoise, "mask", self.mask_box)
        self._rows.addRow(more)

    def _on_layer(self, *_: Any) -> None:
        """Show the properties of another image."""
        layer = self.layer
        was = [(widget, widget.blockSignals(True)) for widget in (self.log, self.first, self.last)]
        self.log.setChecked(layer is not None and holds_log(layer))
        count = layer.data.shape[0] if layer is not None and layer.ndim == 4 else 1
        for box, value in ((self.first, 0), (self.last, count - 1)):
            box.setMaximum(count - 1)
            box.setValue(value)
        for widget, blocked in was:
            widget.blockSignals(blocked)
        self._rows.setRowVisible(self.log, self.log.isChecked())
        self._rows.setRowVisible(self._series, count > 1)
        self._show_sizes()
        self.changed.emit()

    def _show_sizes(self) -> None:
        self._rows.setRowVisible(self.sizes, self.layer is not None)
        if self.layer is not None:
            image = self.read_image()
            edges = [f"{size:.3g}" for size in image.voxel_size_mm]
            size = edges[0] if len(set(edges)) == 1 else " × ".join(edges)
            meaning = "" if image.quantity is None else f"{image.quantity.text}; "
            counts = " × ".join(map(str, image.shape[: self.layer.ndim]))
            plane = f" ({assumed})" if self.layer.ndim == 2 and (assumed := taken_as_mm(self.layer)) else ""
            self.sizes.setText(f"{meaning}{counts} voxels of {size} mm{plane}")


def add_row(rows: QFormLayout, verb: type[Operation], field: str, widget: QWidget, label: str = "") -> None:
    """Add the row of a field of an operation, with its label, if there is no other one, and its tip."""
    known = next(one for one in record_fields(verb) if one.name == field)
    info = input_infos(verb).get(field) or param_info(known) or part_info(known)
    assert info is not None
    widget.setToolTip(info.help)
    rows.addRow(row_label(label or info.label, info.help, widget.parentWidget()), widget)


def is_ours(layer: Any) -> bool:
    """Whether a layer is a result or a preview of this panel."""
    return str(carried(layer, PANEL) or "").startswith("denoise")


def why_no_volume(layer: Any) -> str | None:
    """Why a layer is no plane, volume or series of volumes."""
    return why_not_array(layer, Image, (2, 3, 4))


def why_no_image(layer: Any) -> str | None:
    """Why a layer cannot be denoised."""
    if is_ours(layer):
        return "a result; press Keep to use it" if carried(layer, PANEL) == "denoise after" else ""
    return why_no_volume(layer)


def is_image(layer: Any) -> bool:
    """Whether a layer can be denoised."""
    return why_no_image(layer) is None


def _why_no_mask(layer: Any) -> str | None:
    if isinstance(layer, Labels):
        return why_not_array(layer, Labels, (2, *VOLUME))
    return why_no_image(layer) or why_not_array(layer, Image, (2, 3))


# -- names of halves --------------------------------------------------------------------------------------------------


def other_half(name: str, names: Iterable[str]) -> str | None:
    """Return the one of several names that differs from a name only in the word for a half.

    Examples
    --------
    >>> other_half("fluence even, log10", ["truth", "fluence odd, log10"])
    'fluence odd, log10'
    """
    known = set(names)
    return next((other for other, _ in _pairs(name) if other in known), None)


def both_halves(name: str, other: str) -> str:
    """Return what two halves are called together.

    Examples
    --------
    >>> both_halves("fluence odd, log10", "fluence even, log10")
    'fluence even + odd, log10'
    """
    return next((both for known, both in _pairs(name) if known == other), f"{name} + {other}")


def _pairs(name: str) -> Iterator[tuple[str, str]]:
    """Every way in which a word of a name may stand for a half: the name of the other half, and of both together."""
    for halves in _HALVES:
        for number, word in enumerate(halves):
            for found in re.finditer(rf"(?<![^\W_]){word}(?![^\W_])", name, re.IGNORECASE):
                before, after = name[: found.start()], name[found.end() :]
                own, counterpart = found.group(), _in_case_of(found.group(), halves[1 - number])
                both = f"{own} + {counterpart}" if number == 0 else f"{counterpart} + {own}"
                yield f"{before}{counterpart}{after}", f"{before}{both}{after}"


def _in_case_of(model: str, word: str) -> str:
    if model.isupper():
        return word.upper()
    return word.capitalize() if model[0].isupper() else word
