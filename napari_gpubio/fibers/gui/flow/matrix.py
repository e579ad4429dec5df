"""The matrix of all regions of the atlas: overlaps or arrivals of their flows, whose cells can be clicked."""

from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.fibers.flow.model import MATRICES, Flow
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import Label, fill_column
from napari_gpubio.gui.matrix_plot import MatrixPlot

_SIDE_PIXELS = 320


class FlowMatrixBox(QWidget):
    """Shows a matrix of the flow between all regions; ``pair_picked`` carries two labels."""

    pair_picked = Signal(int, int)
    keeps_controls = True

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._flow: Flow | None = None
        texts = {name: name.replace("_", " ") for name in MATRICES}
        self.quantity = ElidedComboBox(self, entries=texts, tip="\n".join(f"{k}: {v}" for k, v in MATRICES.items()))
        self.plot, self._line = MatrixPlot(self), Label(self)
        self.plot.setMinimumHeight(_SIDE_PIXELS)
        self._line.setMinimumHeight(self._line.fontMetrics().height())
        fill_column(self, self.quantity, self.plot, self._line)
        self.quantity.currentIndexChanged.connect(self._show)
        self.plot.cell_hovered.connect(self._line.setText)
        self.plot.cell_picked.connect(self._on_cell)

    @property
    def flow(self) -> Flow:
        """The flow that is shown; InvalidInput if there is none."""
        if self._flow is None:
            raise InvalidInput("there is no flow between regions; choose an atlas above, and press Flow")
        return self._flow

    @property
    def matrix(self) -> Any:
        """The matrix that is shown, shape (R, R); InvalidInput if there is none."""
        return self.flow.matrix(self.quantity.currentData())

    def show_flow(self, flow: Flow | None) -> None:
        """Show the flow of all regions, or none."""
        if flow is not self._flow:
            self._flow = flow
            self._show()

    def _show(self, *_: Any) -> None:
        if self._flow is None:
            self.plot.show_matrix([], (), "")
        else:
            self.plot.show_matrix(self.matrix, self._flow.names, self.quantity.currentText(), logarithmic=True)

    def _on_cell(self, row: int, column: int) -> None:
        if row != column and self._flow is not None:
            self.pair_picked.emit(int(self._flow.labels[row]), int(self._flow.labels[column]))
