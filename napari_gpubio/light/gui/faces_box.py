"""The part of the panel that says what happens at the outer faces of the grid."""

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QComboBox, QHBoxLayout, QWidget

from napari_gpubio.gui.fields import share_width
from napari_gpubio.gui.forms import Folded, aligned_form, row_label
from napari_gpubio.light.settings import FACE_RULES

AXES = ("x", "y", "z")
CYCLIC = "cyclic"
_TIP = (
    "What happens to light at the first and at the last voxel of this axis of the file: escape; fresnel: reflection at "
    "the index step to the outside; mirror; cyclic: it comes in again on the other side; default: fresnel with "
    "refraction, else escape. Both faces of an axis are cyclic, or neither."
)


class FacesBox(Folded):
    """Six rules, first and last face of each axis, folded away."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Outer faces", parent)
        self._boxes: list[QComboBox] = []
        rows = QWidget(self)
        form = aligned_form(rows)
        for name in AXES:
            form.addRow(row_label(f"{name}: first, last", _TIP, self), self._pair())
        self.fold(rows)

    @property
    def faces(self) -> tuple[str, ...]:
        """The rules, in the order of `napari_gpubio.light.settings.FACES`."""
        return tuple(box.currentText() for box in self._boxes)

    def set_faces(self, faces: tuple[str, ...]) -> None:
        """Show other rules, without a word; they are unfolded if they are not the usual ones."""
        for box, rule in zip(self._boxes, faces, strict=True):
            was = box.blockSignals(True)
            box.setCurrentText(rule)
            box.blockSignals(was)
        if set(faces) != {FACE_RULES[0]}:
            self.expand(animate=False)

    def _pair(self) -> QWidget:
        part = QWidget(self)
        row = QHBoxLayout(part)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(3)
        for _ in range(2):
            index, box = len(self._boxes), QComboBox(part)
            box.addItems(FACE_RULES)
            box.setToolTip(_TIP)
            share_width(box)
            box.currentTextChanged.connect(lambda rule, index=index: self._on_chosen(index, rule))
            self._boxes.append(box)
            row.addWidget(box, 1)
        return part

    def _on_chosen(self, index: int, rule: str) -> None:
        """The opposite face follows into a cycle, and out of it."""
        opposite = self._boxes[index ^ 1]
        if (rule == CYCLIC) != (opposite.currentText() == CYCLIC):
            was = opposite.blockSignals(True)
            opposite.setCurrentText(rule)
            opposite.blockSignals(was)
        self.changed.emit()
