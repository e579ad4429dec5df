"""Inputs of a multi-exposure fit: exposures, settings, and where β comes from."""

from typing import Any, NamedTuple

from napari.layers import Shapes
from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QCheckBox, QLineEdit, QSizePolicy, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import ParamForm, aligned_form, fill_column, muted_label, row_label
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.speckle.gui.layers import frames_of, why_no_frames
from napari_gpubio.speckle.gui.regions import shapes_mask
from napari_gpubio.speckle.gui.request import Target
from napari_gpubio.speckle.mesi import MesiRecipe, MesiSettings
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
NO_BETA = "β is 0; enter K² of a scatterer at rest, or let β be fitted"
_SPACING = 3  # pixels


class _Beta(NamedTuple):
    """Rows of the form, and of the target, that a choice of β needs."""

    form: bool
    target: bool


_ROWS = {FITTED: _Beta(False, False), MEASURED: _Beta(False, True), GIVEN: _Beta(True, False)}


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
        self.beta.addItems(list(_ROWS))
        self.target_box = LayerBox(viewer, why_no_frames, empty="no frames", parent=self)
        self.region_box = LayerBox(
            viewer, lambda layer: None if isinstance(layer, Shapes) else "", nothing=WHOLE_IMAGE, parent=self
        )
        self.shows_errors = QCheckBox("as layers", self)
        self.shows_errors.setToolTip(_ERRORS_TIP)
        self.form = ParamForm(MesiSettings(), parent=self)
        self.form.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)  # not squeezed by the text
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
        fill_column(self, text, rows, self.form, spacing=_SPACING)
        connect_all((
            (self.beta.currentIndexChanged, self._show_rows),
            *((signal, lambda *_: self.changed.emit()) for signal in (
                self.exposures.textChanged, self.order.currentIndexChanged, self.form.changed,
                self.beta.currentIndexChanged, self.target_box.currentIndexChanged,
                self.region_box.currentIndexChanged,
            )),
        ))  # fmt: skip
        self._show_rows()

    @property
    def recipe(self) -> MesiRecipe:
        """The fit, with a β of 0 until it is measured.

        Raises
        ------
        InvalidInput
            If the text is not a list of exposures, or β is given and none is.
        """
        exposures = parse_exposures(self.exposures.text())
        form = self.form.value()
        if self.beta.currentText() == GIVEN and not form.beta:
            raise InvalidInput(NO_BETA)
        return MesiRecipe(exposures_ms=exposures, order=self.order.currentText(), settings=form)

    @property
    def target(self) -> Target | None:
        """The static target that β is measured on, or None; raises InvalidInput if it has no frames."""
        if self.beta.currentText() != MEASURED:
            return None
        layer, region = self.target_box.needed(NO_TARGET), self.region_box.layer
        frames = frames_of(layer)
        if region is None:
            return Target(frames=frames, name=layer.name)
        rows, columns = frames.shape[-2:]
        mask = shapes_mask(region, layer, (rows, columns))
        return Target(frames=frames, name=layer.name, region=mask, region_name=region.name)

    @property
    def layers(self) -> list[Any]:
        """The layers of the static target and its region, as far as they are used."""
        if self.beta.currentText() != MEASURED:
            return []
        return [layer for layer in (self.target_box.layer, self.region_box.layer) if layer is not None]

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self.target_box.attach()
        self.region_box.attach()

    def detach(self) -> None:
        """Stop following them."""
        self.target_box.detach()
        self.region_box.detach()

    def _show_rows(self, *_: Any) -> None:
        """Show the rows that the choice of β needs; a number that is not shown is not used."""
        needed = _ROWS[self.beta.currentText()]
        for box in (self.target_box, self.region_box):
            self._rows.setRowVisible(box, needed.target)
        for name in ("beta", "beta_error"):
            self.form.set_row_visible(name, visible=needed.form)
            if not needed.form:
                self.form.widget(name).value = 0.0
