"""The part of the panel that says how a multi-exposure fit is made: exposures of the frames, model."""

from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QComboBox, QLineEdit, QSizePolicy, QVBoxLayout, QWidget

from napari_gpubio.core.napari_io import carried
from napari_gpubio.gui.forms import ParamForm, aligned_form, row_label
from napari_gpubio.speckle.gui.form_parts import faint
from napari_gpubio.speckle.mesi import MesiSettings
from napari_gpubio.speckle.mesi.model import ORDERS, MesiRecipe, exposures_text, parse_exposures

_HELP = "What moves is told from what rests. Run stack makes the fit; β is best measured, with the same window."
_TIP = (
    "K² is taken of every frame in a square of pixels, averaged over the frames of each exposure, and fitted pixel by "
    "pixel. β is K² of a scatterer at rest, such as paper. A live view goes on with its map."
)


class MesiBox(QWidget):
    """Exposures, and settings of the fit."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.exposures = QLineEdit(self)
        self.exposures.setPlaceholderText("e.g. 0.5, 1, 2, 5, 10, 20")
        self.order = QComboBox(self)
        for name, tip in ORDERS.items():
            self.order.addItem(name)
            self.order.setItemData(self.order.count() - 1, tip, Qt.ItemDataRole.ToolTipRole)
        self.form = ParamForm(MesiSettings(), parent=self)
        told = faint(self)
        told.setText(_HELP)
        told.setToolTip(_TIP)
        self.form.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)  # not squeezed by the text
        rows = aligned_form(None)
        tip = "Exposure of each frame in ms, increasing; with several frames of each, every exposure once"
        rows.addRow(row_label("Exposures (ms)", tip, self), self.exposures)
        tip = "\n".join(f"{name}: {text}" for name, text in ORDERS.items())
        rows.addRow(row_label("Several of each", tip, self), self.order)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(3)
        layout.addWidget(told)
        layout.addLayout(rows)
        layout.addWidget(self.form)
        for signal in (self.exposures.textChanged, self.order.currentIndexChanged, self.form.changed):
            signal.connect(lambda *_: self.changed.emit())

    @property
    def recipe(self) -> MesiRecipe:
        """The fit.

        Raises
        ------
        InvalidInput
            If what is typed are no exposures.
        """
        exposures = parse_exposures(self.exposures.text())
        return MesiRecipe(exposures_ms=exposures, order=self.order.currentText(), settings=self.form.value())

    def take_from(self, layer: Any) -> None:
        """Set the exposures that a layer tells of."""
        if (told := carried(layer, "exposures_ms")) is not None:
            self.exposures.setText(exposures_text(told))
