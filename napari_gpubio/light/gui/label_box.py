"""The top of the panel: which labels, on what grid, and how left and right are shown."""

from typing import Any

from napari.layers import Labels
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QLabel, QWidget

from napari_gpubio.gui.forms import LABEL_WIDTH, aligned_form, row_label
from napari_gpubio.gui.layer_box import LayerBox
from napari_gpubio.gui.views import ViewBox
from napari_gpubio.light.gui.tissue import Tissue

_NARROWEST = 150  # pixels


class LabelBox(QWidget):
    """Choose a labels layer.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.choice = LayerBox(viewer, _is_volume, empty="open labels, or a sample", parent=self)
        self.choice.setMinimumWidth(_NARROWEST)
        self.view_box = ViewBox(viewer, self)
        for label in self.view_box.findChildren(QLabel):
            label.setMinimumWidth(LABEL_WIDTH)
        self._grid = QLabel(self)
        self._grid.setStyleSheet("color: #9a9da5;")
        self._grid.setAlignment(Qt.AlignmentFlag.AlignRight)
        form = aligned_form(self)
        form.addRow(row_label("Labels", "The segmented volume; 0 is outside.", self), self.choice)
        form.addRow(self._grid)
        form.addRow(self.view_box)
        self.show_tissue(None)

    def show_tissue(self, tissue: Tissue | None) -> None:
        """Say how many voxels of what size are simulated, so that a wrong scale is seen."""
        self._grid.setText("" if tissue is None else tissue.grid_text)
        self._grid.setVisible(tissue is not None)


def _is_volume(layer: Any) -> bool:
    return isinstance(layer, Labels) and layer.ndim >= 3
