"""The part of the panel that lists detectors."""

from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QHeaderView,
    QLabel,
    QPushButton,
    QTableWidget,
    QTableWidgetItem,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.gui import theme
from napari_gpubio.light.gui.optodes import Optodes

_COLUMNS = ("Detector", "Radius (mm)", "From source (mm)")
_SENSITIVITY = (
    "Where a change of absorption changes what the chosen detector sees: runs light from the detector with as many "
    "photons as the result has, and combines both; shares by label are added to the numbers"
)
_ROW, _MOST_ROWS = 24, 6  # pixels; rows that are shown without scrolling
_EMPTY = "No detectors. Choose Detector above and click the surface (or Shift+click), or load an optode montage."


class DetectorBox(QWidget):
    """Detectors: names, radii, distances."""

    changed = Signal(int, object)  # which one, and what of it
    remove_requested = Signal(object)  # set of indices
    load_requested = Signal()
    sensitivity_requested = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._build()
        self.show_optodes(Optodes())

    def show_optodes(self, optodes: Optodes) -> None:
        """Show the list as it is."""
        count = len(optodes.detectors)
        was = self._table.blockSignals(True)
        self._table.setRowCount(count)
        for row, detector in enumerate(optodes.detectors):
            separation = optodes.separation_mm(row)
            texts = (detector.name, f"{detector.radius_mm:g}", "–" if separation is None else f"{separation:.1f}")
            for column, text in enumerate(texts):
                self._table.setItem(row, column, _cell(text, editable=column < 2))
            x, y, z = detector.position_mm
            self._table.item(row, 0).setToolTip(f"at ({x:.1f}, {y:.1f}, {z:.1f}) mm; double-click to rename")
        self._table.blockSignals(was)
        header = self._table.horizontalHeader().sizeHint().height()
        self._table.setFixedHeight(header + _ROW * min(count, _MOST_ROWS) + 4)
        self._table.setVisible(count > 0)
        self._empty.setVisible(count == 0)
        for button in (self._remove, self._sensitivity):
            button.setEnabled(count > 0)
        self._name_sensitivity_button()

    def _build(self) -> None:
        self._table = QTableWidget(0, len(_COLUMNS), self)
        self._table.setHorizontalHeaderLabels(_COLUMNS)
        self._table.verticalHeader().hide()
        self._table.verticalHeader().setDefaultSectionSize(_ROW)
        self._table.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self._table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self._table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._table.itemChanged.connect(self._on_edited)
        self._table.itemSelectionChanged.connect(self._name_sensitivity_button)
        self._empty = QLabel(_EMPTY, self)
        self._empty.setWordWrap(True)
        self._empty.setStyleSheet(theme.MUTED_STYLE)
        buttons = QHBoxLayout()
        self._remove = self._button("Remove", "Remove the chosen detectors, or the last one")
        load = self._button("Load optodes…", "Read sources and detectors of a SNIRF file, and snap them to the surface")
        self._remove.clicked.connect(lambda: self.remove_requested.emit(self._chosen()))
        load.clicked.connect(lambda: self.load_requested.emit())
        for button, stretch in ((load, 2), (self._remove, 1)):
            buttons.addWidget(button, stretch)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        self._sensitivity = self._button("", _SENSITIVITY)
        self._sensitivity.clicked.connect(lambda: self.sensitivity_requested.emit(max(self._chosen())))
        for part in (self._empty, self._table):
            layout.addWidget(part)
        layout.addLayout(buttons)
        layout.addWidget(self._sensitivity)

    def _button(self, text: str, tip: str) -> QPushButton:
        button = QPushButton(text, self)
        button.setToolTip(tip)
        return button

    def _chosen(self) -> set[int]:
        rows = {index.row() for index in self._table.selectedIndexes()}
        return rows or {self._table.rowCount() - 1}

    def _name_sensitivity_button(self) -> None:
        """Name the detector whose sensitivity the button finds: the chosen one, or the last."""
        row = max(self._chosen())
        item = self._table.item(row, 0) if row >= 0 else None
        name = "a detector" if item is None else item.text() or f"detector {row + 1}"
        self._sensitivity.setText(f"Sensitivity to {name}")

    def _on_edited(self, item: Any) -> None:
        what = ("name", "radius_mm")[item.column()]
        self.changed.emit(item.row(), {what: item.text().strip()})


def _cell(text: str, *, editable: bool) -> QTableWidgetItem:
    item = QTableWidgetItem(text)
    if not editable:
        item.setFlags(item.flags() & ~Qt.ItemFlag.ItemIsEditable)
    return item
