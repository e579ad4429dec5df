"""The dock widget "Registration": an image onto a scan, the checkerboard to judge it, and layers carried over."""

import threading
from collections.abc import Callable, Generator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from napari.layers import Image, Labels

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.operations.layer_sources import layer_source, record_of, shown_as
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.operations.runs import run_steps
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.reading import NOTES
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import file_name
from napari_gpubio.diffusion.layer_regions import atlas_of
from napari_gpubio.diffusion.operations.regions import atlas_source
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.gui.forms import aligned_form, muted_label, row_label, row_of, text_button
from napari_gpubio.gui.layers import LayerBox, why_not_array
from napari_gpubio.gui.operation_form import is_edited
from napari_gpubio.gui.operation_panel import Made, OperationPanel
from napari_gpubio.gui.run_parts import Pieces
from napari_gpubio.registration.operations import Register, TransformImage, TransformLabels

if TYPE_CHECKING:
    import napari.viewer

FindOutput = Callable[[], Output[Any]]
_TIP = (
    "A labels or image layer in the space of the moving image, such as its atlas; labels keep their numbers and names"
)
_BOARD = "checkerboard"


class RegistrationPanel(OperationPanel):
    """Registers a T1 or a template to a scan, and carries labels and maps over."""

    of = Register

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer)
        self.live_box.hide()  # a run takes seconds
        self._carried: dict[str, Output[Any]] = {}  # what was carried over, by its layer's name
        self.figures_label = muted_label(self)
        self.carry_box = LayerBox(viewer, _why_not_carried, nothing="none", parent=self)
        self.carry_button = text_button("Carry over", "Show it on the scan's grid", self, self.carry_over)
        self.board_button = text_button("Checkerboard", "Show or hide both images in blocks", self, self.toggle_board)
        rows = aligned_form(None)
        rows.addRow(row_label("Carry over", _TIP, self), self.carry_box)
        self.inputs.addLayout(rows)
        self.inputs.addLayout(row_of(self.carry_button, self.board_button, stretch=(1, 1)))
        self.inputs.addWidget(self.figures_label)
        self.own(self.carry_box)

    def _show_made(self, made: Made) -> Pieces:
        yield from super()._show_made(made)
        found = made.result.transform
        self._carried.clear()
        self.figures_label.setText("\n".join(found.lines()))
        for name in ("image", _BOARD):
            if (layer := self.layer_of(name)) is not None:
                layer.metadata[KEY] |= {"parameters": dict(found.figures), NOTES: list(found.notes)}

    def toggle_board(self) -> None:
        """Show the checkerboard, or hide it."""
        layer = self.layer_of(_BOARD)
        if layer is None or layer not in self.viewer.layers:
            self.show_error("There is no checkerboard; press Run first.")
        else:
            layer.visible = not layer.visible

    def carry_over(self) -> None:
        """Show the chosen layer on the grid of the fixed image, by the transform that was found."""
        if self._made is None or self.carry_box.layer is None:
            what = "transform; press Run first" if self._made is None else "layer to carry over; choose one"
            self.show_error(f"There is no {what}.")
            return
        layer = self.carry_box.layer
        try:
            find = _finder(layer)
        except GpuBioError as error:
            self.show_error(str(error))
            return
        name = f"{layer.name} on {self._fixed_name()}"
        self.run_other(partial(self._carrying_steps, find, name), self._show_carried)

    def _fixed_name(self) -> str:
        box = self.form.boxes["onto"] if self.form.boxes["onto"].chosen is not None else self.form.boxes["scan"]
        return str(box.currentText())

    def _carrying_steps(self, find: FindOutput, name: str, _: threading.Event) -> Generator[Step, None, Any]:
        made = self._made
        assert isinstance(made, Register)
        yield Step(0, 1, "reading the layer")
        moving = find()
        verb: Any = TransformImage if issubclass(moving.kind, Volume) else TransformLabels
        operation: Operation = verb(moving=moving, through=(made.output("transform"),), onto=made.onto, scan=made.scan)
        value = yield from run_steps(operation, device="cpu")
        return operation.output(), value, name

    def _show_carried(self, carried_over: Any) -> None:
        if carried_over is None or carried_over[1] is None:
            return
        output, value, name = carried_over
        ((data, keywords, kind),) = shown_as(value, output, name)
        self._carried[name] = output
        add = self.viewer.add_labels if kind == "labels" else self.viewer.add_image
        add(data, **keywords)
        for note in getattr(value, "notes", ()):
            self.show_note(note)

    def script_files(self) -> dict[Any, str]:
        """Files that a script writes: the image, and what was carried over."""
        there = {name: output for name, output in self._carried.items() if name in self.viewer.layers}
        return super().script_files() | {output: f"{file_name(name)}.nii.gz" for name, output in there.items()}


def _why_not_carried(layer: Any) -> str | None:
    return why_not_array(layer, (Image, Labels), (3,))


def _finder(layer: Any) -> FindOutput:
    """Read a layer; returns what finds out in a worker where it comes from."""
    record = record_of(layer)
    if record is not None and issubclass(record.kind, Atlas) and not is_edited(layer, record):
        return lambda: record
    if not isinstance(layer, Labels):
        return layer_source(layer).output
    path = carried(layer, "path")
    return partial(atlas_source, atlas_of(layer), layer.name, Path(path) if path else None)
