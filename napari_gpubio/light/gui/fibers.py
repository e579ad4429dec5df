"""Input for scattering that follows fibers: diffusion tensors of a layer, labels that have fibers, and the model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Image
from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations.layer_sources import PART
from napari_gpubio.core.operations.runs import value_of
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.tensor_components import tensors_of
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import aligned_form, muted_label, row_label
from napari_gpubio.gui.layers import LayerBox, LayerListener
from napari_gpubio.light.operations import DiffusionTensors, WithFibers
from napari_gpubio.optics.anisotropy.calibration import FiberCalibration
from napari_gpubio.optics.scattering_tensors import FREE, NOT_RECIPROCAL, PRODUCT

_TIP = (
    "White matter scatters light less along its fibers than across them. Their directions are those of diffusion "
    "tensors: a map that the panel Diffusion tensors has made, on any grid. The mean of each label's µs′ is as in the "
    "table."
)
_LABELS_TIP = "Which labels have fibers; others scatter as the table says, however the light travels"
_MODELS = {
    PRODUCT: ("product", "Reciprocal: source and detector may change places. µs′ decides, not g"),
    FREE: ("free (not reciprocal)", "The phase function with g about the incoming direction, as in other programs"),
}
_MAP = "FA"  # of several maps of the same tensors, the one that is offered


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FiberChoice(ShortRepr):
    """What scattering follows: diffusion tensors (X, Y, Z, 6) in world axes with their affine, and how.

    ``labels``: those that have fibers, None for all.
    """

    tensors: npt.NDArray[Any]
    affine: npt.NDArray[np.float64]
    labels: tuple[int, ...] | None
    model: str

    def is_same(self, other: "FiberChoice | None") -> bool:
        """Whether another choice makes the same scattering."""
        return self.has_same_fibers(other) and other is not None and self.model == other.model

    def has_same_fibers(self, other: "FiberChoice | None") -> bool:
        """Whether another choice has the same tensors in the same labels."""
        if other is None:
            return False
        return self.tensors is other.tensors and self.affine is other.affine and self.labels == other.labels


class FiberBox(QWidget):
    """Choose a layer with diffusion tensors, or none; not shown while no layer has any."""

    changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self.choice = LayerBox(viewer, self._why_no_fibers, nothing="none", parent=self)
        self.labels_box, self.model_box = ElidedComboBox(self), ElidedComboBox(self)
        self._offered = LayerListener(viewer, _is_of_fibers, layers_changed=self._show_state)
        self._note = muted_label(self)
        self._form = aligned_form(self)
        self._fill()
        for box in (self.choice, self.labels_box, self.model_box):
            box.currentIndexChanged.connect(self._on_changed)

    @property
    def layer(self) -> Any | None:
        """The layer whose tensors are used, or None."""
        return self.choice.layer

    @property
    def value(self) -> FiberChoice | None:
        """What is chosen, or None for scattering as in the table."""
        field = None if self.layer is None else tensors_of(self.layer)
        if field is None:
            return None
        label = self.labels_box.currentData()
        return FiberChoice(
            tensors=field.tensors,
            affine=field.affine,
            labels=None if label is None else (label,),
            model=self.model_box.currentData(),
        )

    def show_draft(self, made: WithFibers | None) -> bool:
        """Show the fibers of a tissue, or that there are none; returns whether a layer has them."""
        if made is None:
            self.choice.setCurrentIndex(0)
            return True
        tensors: Any = made.tensors
        wanted, labels = value_of(tensors), made.labels or (None,)
        found = self.choice.choose_where(lambda layer: _has_tensors(layer, wanted))
        boxes = {self.labels_box: labels[0], self.model_box: made.model}
        for box, data in boxes.items():
            box.setCurrentIndex(box.findData(data))
        return found and len(labels) == 1 and made.calibration == FiberCalibration()

    def keep(self) -> tuple[Any, int | None, str]:
        """Return what is chosen, for `begin_with`."""
        return self.layer, self.labels_box.currentData(), self.model_box.currentData()

    def begin_with(self, kept: tuple[Any, int | None, str] | None) -> None:
        """Show what was chosen for another volume, or none."""
        self.choice.setCurrentIndex(0)
        if kept is not None:
            layer, label, model = kept
            self.choice.choose(layer)
            self.labels_box.setCurrentIndex(self.labels_box.findData(label))
            self.model_box.setCurrentIndex(self.model_box.findData(model))

    def show_labels(self, names: Mapping[int, str]) -> None:
        """Offer these labels; the one that was chosen stays, marked where it does not occur."""
        box, chosen = self.labels_box, self.labels_box.currentData()
        entries = [("all labels", None), *((f"{label} {name}".strip(), label) for label, name in names.items())]
        if chosen is not None and chosen not in names:
            entries.append((f"{chosen} (does not occur)", chosen))
        if entries == [(box.itemText(index), box.itemData(index)) for index in range(box.count())]:
            return
        with QSignalBlocker(box):
            box.clear()
            for text, label in entries:
                box.addItem(text, label)
            box.setCurrentIndex([label for _, label in entries].index(chosen))

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self._offered.attach()
        self.choice.attach()

    def detach(self) -> None:
        """Stop following the viewer."""
        self._offered.detach()
        with QSignalBlocker(self.choice):  # nothing is to be computed again for a panel that closes
            self.choice.detach()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _why_no_fibers(self, layer: Any) -> str | None:
        """Why the tensors of a layer cannot be used; see `LayerBox`.

        Of several maps of the same tensors the FA is offered; any other map where there is no FA, or once it is chosen.
        """
        if not isinstance(layer, Image):
            return ""
        field = tensors_of(layer)
        if field is None:
            is_scan = carried(layer, "scan") is not None
            return "a scan; fit its diffusion tensors first" if is_scan else "no diffusion tensors"
        if carried(layer, PART) in (None, _MAP) or layer == self.layer:
            return None
        has_map = any(tensors_of(other) is field and carried(other, PART) == _MAP for other in self._viewer.layers)
        return f"choose the {_MAP} of the same tensors" if has_map else None

    def _fill(self) -> None:
        for model, (text, tip) in _MODELS.items():
            self.model_box.addItem(text, model)
            self.model_box.setItemData(self.model_box.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.show_labels({})
        self._form.addRow(row_label("Fiber anisotropy", _TIP, self), self.choice)
        self._form.addRow(row_label("Fibers in", _LABELS_TIP, self), self.labels_box)
        tip = "\n".join(f"{text}: {help_text}" for text, help_text in _MODELS.values())
        self._form.addRow(row_label("Scattering model", tip, self), self.model_box)
        self._form.addRow(self._note)
        self._show_state()

    def _on_changed(self, *_: Any) -> None:
        self._show_state()
        self.changed.emit()

    def _show_state(self) -> None:
        """Show what counts while a layer is chosen, and what to know about it."""
        is_chosen = self.layer is not None
        for part in (self.labels_box, self.model_box, self._note):
            self._form.setRowVisible(part, is_chosen)
        self._note.setText(_note(self.model_box.currentData()))
        self.setVisible(bool(self._offered.layers))


def names_of(rows: Iterable[Any]) -> dict[int, str]:
    """Labels and names of rows of the table of optical properties."""
    return {row.label: row.name for row in rows}


def _note(model: str) -> str:
    """What the numbers are, and what is wrong with the model."""
    if model == FREE:
        return f"{NOT_RECIPROCAL[0].upper()}{NOT_RECIPROCAL[1:]}."
    standard = FiberCalibration()
    return (
        f"µs′ across to along coherent fibers as {standard.musp_across_per_mm:g} to {standard.musp_along_per_mm:g} "
        f"(spinal white matter; {standard.source}, which names no wavelength)."
    )


def _has_tensors(layer: Any, wanted: DiffusionTensors) -> bool:
    """Whether a layer has these diffusion tensors."""
    field = tensors_of(layer)
    if field is None or not np.allclose(field.affine, wanted.affine):
        return False
    return np.array_equal(field.tensors, wanted.tensors, equal_nan=True)


def _is_of_fibers(layer: Any) -> bool:
    """Whether a layer has diffusion tensors, or is a scan that they can be fitted to."""
    return isinstance(layer, Image) and (tensors_of(layer) is not None or carried(layer, "scan") is not None)
