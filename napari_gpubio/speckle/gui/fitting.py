"""Inputs of a multi-exposure fit: exposures, settings, and where β comes from."""

import dataclasses
from typing import Any

from napari.layers import Shapes
from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QCheckBox, QLineEdit, QSizePolicy, QWidget

from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import ParamForm, aligned_form, fill_column, muted_label, row_label
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.speckle.gui.layers import frames_of, why_no_frames
from napari_gpubio.speckle.gui.regions import shapes_mask
from napari_gpubio.speckle.gui.run import FramesSource
from napari_gpubio.speckle.mesi import GivenBeta, MesiRecipe, MesiSettings
from napari_gpubio.speckle.mesi.model import ORDERS, parse_exposures

_HELP = "Separates moving from static scatterers. Run stack performs the fit."
_TIP = (
    "K² is computed for every frame in a square of pixels, averaged over the frames of each exposure, and fitted pixel "
    "by pixel. A live view keeps its own map."
)
_EXPOSURES_TIP = "Exposure of each frame in ms, increasing; with several frames of each, every exposure once"
FITTED, MEASURED, GIVEN = "fitted", "measured on a static target", "given"
_BETA_TIP = (
    "β is K² of a scatterer at rest. It is fitted in every pixel; or measured on frames of a static target, such as "
    "paper, with the same window; or given as a number. A wrong β makes τ and ρ wrong."
)
_TARGET_TIP = "Frames of a static target, or the stack itself if it shows one"
_REGION_TIP = "Shapes around the static target; all of the image without"
_ERRORS_TIP = "Add layers of the standard errors of what is fitted"
NO_TARGET = "there are no frames of a static target; open some, or let β be fitted"
WHOLE_IMAGE = "the whole image"
_SPACING = 3  # pixels


class MesiBox(QWidget):
    """Exposures of the frames, and settings of the fit."""

    changed = Signal()

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.exposures = QLineEdit(self)
        self.exposures.setPlaceholderText("e.g. 0.5, 1, 2, 5, 10, 20")
        self.order, self.beta = ElidedComboBox(self), ElidedComboBox(self)
        for name, tip in ORDERS.items():
            self.order.addItem(name)
            self.order.setItemData(self.order.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.beta.addItems([FITTED, MEASURED, GIVEN])
        self.target_box = LayerBox(viewer, why_no_frames, empty="no frames", parent=self)
        self.region_box = LayerBox(
            viewer,
            lambda layer: None if isinstance(layer, Shapes) else "",
            nothing=WHOLE_IMAGE,
            parent=self,
        )
        self.shows_errors = QCheckBox("as layers", self)
        self.shows_errors.setToolTip(_ERRORS_TIP)
        self.form = ParamForm(MesiSettings(), skip=("beta",), parent=self)
        self.known = ParamForm(GivenBeta(), parent=self)
        for form in (self.form, self.known):
            form.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)  # not squeezed by the text
        text = muted_label(self, _HELP)
        text.setToolTip(_TIP)
        self._rows = rows = aligned_form(None)
        rows.addRow(row_label("Exposures (ms)", _EXPOSURES_TIP, self), self.exposures)
        orders = "\n".join(f"{name}: {tip}" for name, tip in ORDERS.items())
        rows.addRow(row_label("Several of each", orders, self), self.order)
        rows.addRow(row_label("β is", _BETA_TIP, self), self.beta)
        rows.addRow(row_label("Static target", _TARGET_TIP, self), self.target_box)
        rows.addRow(row_label("Within", _REGION_TIP, self), self.region_box)
        rows.addRow(row_label("Standard errors", _ERRORS_TIP, self), self.shows_errors)
        fill_column(self, text, rows, self.known, self.form, spacing=_SPACING)
        connect_all((
            (self.beta.currentIndexChanged, self._show_rows),
            *((signal, lambda *_: self.changed.emit()) for signal in (
                self.exposures.textChanged, self.order.currentIndexChanged, self.form.changed, self.known.changed,
                self.beta.currentIndexChanged, self.target_box.currentIndexChanged,
                self.region_box.currentIndexChanged,
            )),
        ))  # fmt: skip
        self._show_rows()

    @property
    def recipe(self) -> MesiRecipe:
        """The fit; InvalidInput if the text is not a list of exposures."""
        settings = self.form.value()
        if self.beta.currentText() == GIVEN:
            settings = dataclasses.replace(settings, beta=self.known.value())
        exposures = parse_exposures(self.exposures.text())
        return MesiRecipe(exposures_ms=exposures, order=self.order.currentText(), settings=settings)

    @property
    def target(self) -> tuple[FramesSource, dict[str, Any]] | None:
        """The static target that β is measured on, and its pixels by name, nothing for all; None if β is not measured.

        Raises
        ------
        InvalidInput
            If it has no frames.
        """
        if self.beta.currentText() != MEASURED:
            return None
        layer, region = self.target_box.needed(NO_TARGET), self.region_box.layer
        rows, columns = frames_of(layer).shape[-2:]
        within = {} if region is None else {region.name: shapes_mask(region, layer, (rows, columns))}
        return FramesSource.of(layer), within

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self.target_box.attach()
        self.region_box.attach()

    def detach(self) -> None:
        """Stop following them."""
        self.target_box.detach()
        self.region_box.detach()

    def _show_rows(self, *_: Any) -> None:
        """Show the rows that the choice of β needs."""
        for box in (self.target_box, self.region_box):
            self._rows.setRowVisible(box, self.beta.currentText() == MEASURED)
        self.known.setVisible(self.beta.currentText() == GIVEN)
