"""The part of the panel that hands the layers over to the voxel engine."""

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QCheckBox, QHBoxLayout, QLabel, QPushButton, QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.light.layered.model import LayeredMedium
from napari_gpubio.light.layered.phantom import common_voxel_mm, plan_phantom
from napari_gpubio.light.layered.widget.layer_columns import DIM
from napari_gpubio.light.widget.number_row import NumberBox, aligned_form, row_label, share_width

_MOST_DEEP = 400  # voxels that are proposed in depth
_MOST_WIDE = 101  # and across: few, and odd, so that the beam's axis is in the middle of one


class PhantomBox(QWidget):
    """Sizes of a voxel phantom, and what becomes of the layers in it; ``wanted`` says whether to simulate it too."""

    wanted = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._medium: LayeredMedium | None = None
        self._proposed: LayeredMedium | None = None  # for which the sizes were proposed
        self._height, self._across, self._width = (NumberBox(0.0, 1e6, 0.01, 6, self) for _ in range(3))
        self._cyclic = QCheckBox("endless sideways (cyclic sides)", self)
        self._cyclic.setToolTip(
            "Light that leaves through a side comes in at the other one: layers and beams without end"
        )
        self._note = QLabel(self)
        self._note.setWordWrap(True)
        self._note.setStyleSheet(DIM)
        sizes, width, buttons = QHBoxLayout(), QHBoxLayout(), QHBoxLayout()
        for box in (self._height, self._across, self._width):
            share_width(box)
            box.setButtonSymbols(NumberBox.ButtonSymbols.NoButtons)
        for box, text in ((self._height, "high"), (self._across, "wide")):
            sizes.addWidget(box, 1)
            sizes.addWidget(QLabel(text, self))
        width.addWidget(self._width, 1)
        width.addWidget(QLabel("in x and in y", self), 1)
        form = aligned_form(self)
        form.addRow(row_label("Voxel (mm)", "Height of a voxel in depth, and its width across", self), sizes)
        form.addRow(row_label("Width (mm)", "Extent of the phantom in x and y", self), width)
        form.addRow("", self._cyclic)
        form.addRow(self._note)
        for text, tip, simulate in (
            ("Make voxel phantom", "Add a labels layer with these optical properties", False),
            ("… and simulate it", "Add it, and open the dock widget that simulates it in voxels", True),
        ):
            button = QPushButton(text, self)
            button.setToolTip(tip)
            button.clicked.connect(lambda _=False, simulate=simulate: self.wanted.emit(simulate))
            buttons.addWidget(button, 1)
        form.addRow(buttons)
        for box in (self._height, self._across, self._width):
            box.edited.connect(lambda _: self._show_note())

    @property
    def cyclic(self) -> bool:
        """Whether the sides are to be cyclic."""
        return self._cyclic.isChecked()

    @property
    def note(self) -> str:
        """What becomes of the layers."""
        return self._note.text()

    def set_sizes(self, height_mm: float, across_mm: float, width_mm: float, *, cyclic: bool = False) -> None:
        """Show other sizes."""
        for box, value in ((self._height, height_mm), (self._across, across_mm), (self._width, width_mm)):
            box.show_value(value)
        self._cyclic.setChecked(cyclic)
        self._show_note()

    def show_medium(self, medium: LayeredMedium | None) -> None:
        """Speak of these layers; sizes are proposed where thicknesses are others than before."""
        self._medium = medium
        if medium is not None and (self._proposed is None or _thicknesses(medium) != _thicknesses(self._proposed)):
            self._proposed = medium
            self._propose(medium)
        self._show_note()

    @property
    def sizes(self) -> dict[str, float]:
        """The sizes, as `voxel_phantom` takes them."""
        return {
            "voxel_mm": self._height.value(),
            "across_mm": self._across.value(),
            "width_mm": self._width.value(),
        }

    def _propose(self, medium: LayeredMedium) -> None:
        """Voxels that fit every layer, and so wide that the phantom is about as wide as it is deep."""
        finite = [layer.thickness_mm for layer in medium.layers if not layer.is_endless]
        depth, height = sum(finite) or 10.0, common_voxel_mm(medium)
        if len(finite) == 1:
            height = depth / 50
        across = height * max(1, round(depth / height / _MOST_WIDE))
        columns = min(_MOST_WIDE, max(1, round(depth / across)))
        columns += 1 - columns % 2
        for box, value in ((self._height, height), (self._across, across), (self._width, across * columns)):
            box.show_value(float(f"{value:.9g}"))

    def _show_note(self) -> None:
        if self._medium is None:
            self._note.setText("")
            return
        try:
            plan = plan_phantom(self._medium, **self.sizes)
        except GpuBioError as error:
            self._note.setText(str(error))
            return
        x, y, z = plan.shape
        self._note.setText(" ".join([f"{x} × {y} × {z} voxels.", *plan.notes]))


def _thicknesses(medium: LayeredMedium) -> list[float]:
    return [layer.thickness_mm for layer in medium.layers]
