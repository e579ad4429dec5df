"""The dock widget "Diffusion tensors": from a diffusion scan to tensors, maps and ellipsoids."""

import dataclasses
import threading
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtWidgets import (
    QCheckBox,
    QFormLayout,
    QGridLayout,
    QGroupBox,
    QHBoxLayout,
    QWidget,
)

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.napari_io import KEY, LayerData, carried
from napari_gpubio.core.operations.layer_sources import PART
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.operations.runs import run
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.gui.ellipsoids import NEAR, SLICE, Ellipsoids
from napari_gpubio.diffusion.gui.noise.box import NoiseBox
from napari_gpubio.diffusion.gui.records import hide_signal, mask_source, output_of, pictures, remember, with_record
from napari_gpubio.diffusion.gui.scan_panel import ScanPanel
from napari_gpubio.diffusion.gui.source import FITTING, is_map, is_rgb, mask_in, scan_in
from napari_gpubio.diffusion.io.dwi import read_dwi
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.napari_io import (
    field_of,
    map_layer,
    scan_layers,
    scan_of,
)
from napari_gpubio.diffusion.operations import FittedTensors, FitTensors, OpenTensors
from napari_gpubio.diffusion.tensors.gradient_check import GradientCheck, check_gradients
from napari_gpubio.diffusion.tensors.run import fit_tensors_steps
from napari_gpubio.diffusion.tensors.scalar_maps import scalar_map
from napari_gpubio.diffusion.tensors.settings import FitSettings
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.file_dialogs import opens_with
from napari_gpubio.gui.forms import ParamForm, notes_text, text_button
from napari_gpubio.gui.results import ResultFiles
from napari_gpubio.gui.run_parts import Pieces
from napari_gpubio.gui.views import ViewBox

if TYPE_CHECKING:
    import napari.viewer

MAPS = ("FA", "MD", "AD", "RD", "DEC", "S0")
SHOWN_AT_FIRST = ("FA", "DEC")
_SCAN_FILES = "Scans (*.nii *.nii.gz *.mgz *.mif *.mif.gz *.mih)"
_TENSOR_FILES = "Tensors (*.nii *.nii.gz *.mif *.mif.gz)"
PLACES = {SLICE: "in the current slice", NEAR: "around the center of the view"}


@dataclasses.dataclass(frozen=True, slots=True)
class Fitted:
    """Result of one run."""

    scan: DiffusionScan
    field: TensorField
    check: GradientCheck
    study: str


def _read_tensors(path: Path, maps: Sequence[str]) -> tuple[str, TensorField, Sequence[str]]:
    """Read a tensor image; returns its title, its tensors, and what was noticed. Maps are made, and kept with it."""
    opened = OpenTensors.at(path)
    made = run(opened, device="cpu")
    remember(opened.output(), made, "cpu")
    for name in maps:
        if name != "S0" or made.field.s0 is not None:
            scalar_map(made.field, name)
    return opened.title, made.field, made.notes


class TensorPanel(ScanPanel):
    """Fit tensors; show scalar maps and ellipsoids."""

    warms_first = FITTING

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer, run_text="Fit")
        self.shell_boxes: dict[int, QCheckBox] = {}
        self._fill()
        self.scan_box.currentIndexChanged.connect(self._on_scan)
        self.ellipsoids, self.files = Ellipsoids(viewer, self), ResultFiles(self)
        self.files.status_changed.connect(self.show_status)
        self.files.error_occurred.connect(self.show_error)
        for part in (self.view_box, self.noise_box, self.ellipsoids, self.files):
            self.own(part)
        self._on_scan()

    def _fill(self) -> None:
        opening, tip = QHBoxLayout(), "NIfTI with bval and bvec beside it, or MRtrix .mif"
        ask = opens_with(self, "Open a diffusion scan", _SCAN_FILES, self.open_scan)
        opening.addWidget(text_button("Open scan…", tip, self, ask))
        ask = opens_with(self, "Open a tensor image", _TENSOR_FILES, self.open_tensors)
        opening.addWidget(text_button("Open tensors…", "A tensor image from MRtrix, FSL, or DIPY", self, ask))
        self.view_box = ViewBox(self.viewer, self)
        self.inputs.addWidget(self.view_box)
        top = QFormLayout()
        top.addRow(opening)
        self.header.addRow("Scan", self.scan_box)
        top.addRow("Mask", self.mask_box)
        self._shells = QHBoxLayout()
        top.addRow("b (s/mm²)", self._shells)
        self.inputs.addLayout(top)
        self.noise_box = NoiseBox(self, self.scan_box)
        self.inputs.addWidget(self.noise_box)
        self.form = ParamForm(FitSettings(), parent=self)
        self.inputs.addWidget(self.form)
        self.inputs.addWidget(self._map_choices())
        self.inputs.addWidget(self._glyph_controls())
        self.add_last_rows()

    def _map_choices(self) -> QWidget:
        box = QGroupBox("Maps", self)
        grid = QGridLayout(box)
        self.map_boxes: dict[str, QCheckBox] = {}
        for place, name in enumerate(MAPS):
            self.map_boxes[name] = QCheckBox(name, box, checked=name in SHOWN_AT_FIRST)
            grid.addWidget(self.map_boxes[name], place // 3, place % 3)
        self.map_boxes["DEC"].setToolTip(
            "Direction-encoded color: red left–right, green anterior–posterior, blue superior–inferior"
        )
        return box

    def _glyph_controls(self) -> QWidget:
        box = QGroupBox("Ellipsoids", self)
        self._place = ElidedComboBox(box, entries=PLACES)
        row = QHBoxLayout(box)
        row.addWidget(self._place, 1)
        row.addWidget(text_button("Show", "Draw the tensors as ellipsoids", box, self.show_ellipsoids))
        return box

    def _on_scan(self, *_: Any) -> None:
        """Offer the shells of the chosen scan."""
        while (item := self._shells.takeAt(0)) is not None:
            item.widget().hide()  # it is deleted only in the event loop
            item.widget().deleteLater()
        self.shell_boxes = {}
        self.clear_message()
        scan = scan_of(self.scan_box.layer) if self.scan_box.layer is not None else None
        if scan is None:
            return
        for shell in scan.shells():
            tip = f"{np.count_nonzero(scan.shell_of == shell)} volumes near b = {shell} s/mm²"
            self.shell_boxes[shell] = QCheckBox(str(shell), self, toolTip=tip, checked=True)
            self._shells.addWidget(self.shell_boxes[shell])
        if not scan.is_b0.any():
            tip = "No volume is near b = 0, which tissue responses and S0 need: take those of the lowest shell"
            text = f"b ≤ {scan.lowest_bval:g} is b = 0"
            button = text_button(text, tip, self, self.take_lowest_shell)
            button.setObjectName("lowest_shell")
            self._shells.addWidget(button)

    def take_lowest_shell(self) -> None:
        """Take the volumes of the chosen scan's lowest shell as b = 0, in all panels."""
        scan = scan_in(self.scan_box.layer)
        taken = scan.with_b0_limit(scan.lowest_bval)
        for layer in self.viewer.layers:
            for name in ("scan", "mean_of"):
                if carried(layer, name) is scan:
                    layer.metadata[KEY][name] = taken
        self._on_scan()

    @property
    def settings(self) -> FitSettings:
        """The fit's settings as the panel shows them."""
        chosen = tuple(shell for shell, box in self.shell_boxes.items() if box.isChecked())
        everything = len(chosen) == len(self.shell_boxes)
        return dataclasses.replace(self.form.value(), shells=() if everything else chosen)

    # -- opening --------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether a run is under way, or a file is being opened."""
        return super().is_busy or self.files.is_busy

    def open_scan(self, path: str | Path) -> None:
        """Read a diffusion scan and add its layers; what goes wrong is shown as a sentence."""
        self.files.read(Path(path), lambda file: scan_layers(read_dwi(file), file.name.split(".")[0]), self._show_scan)

    def _show_scan(self, layers: list[LayerData]) -> None:
        for data, keywords, _ in layers:
            self.scan_box.choose(self.viewer.add_image(data, **keywords))

    def open_tensors(self, path: str | Path) -> None:
        """Read a tensor image and add its maps; what goes wrong is shown as a sentence."""
        self.files.read(Path(path), partial(_read_tensors, maps=self._chosen_maps()), self._show_tensors)

    def _chosen_maps(self) -> list[str]:
        return [name for name in MAPS if self.map_boxes[name].isChecked()]

    def _show_tensors(self, read: tuple[str, TensorField, Sequence[str]]) -> None:
        title, field, notes = read
        for _ in self._add_maps(field, title):
            pass
        if notes:
            self.show_note(notes_text(notes))

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Fitted]:
        """Read the inputs and return the fit."""
        scan, study = self.chosen_scan()
        settings, device, draft = self.settings, self.device, self.take_draft()
        mask = mask_in(self.mask_box.layer, scan)
        maps = self._chosen_maps()

        def steps() -> Generator[Step, None, Fitted]:
            field = yield from fit_tensors_steps(scan, mask, settings, device=device, stop=stop)
            yield Step(1, 1, "checking the gradient table")
            remember(draft().output(), FittedTensors(field), device)
            for name in maps:
                scalar_map(field, name)  # made here, kept with the field, and only shown in the GUI thread
            return Fitted(scan, field, check_gradients(field), study)

        return steps()

    def show_result(self, result: Fitted) -> Pieces:
        """Add the maps; show the notes of the fit and the result of the gradient check."""
        yield from self._add_maps(result.field, result.study)
        hide_signal(self.viewer, result.scan)
        self.show_check(result.check)
        self.show_notes(result.field, "The fit was stopped early: only part of the volume has tensors")

    def _add_maps(self, field: TensorField, study: str) -> Pieces:
        for name in self._chosen_maps():
            if name != "S0" or field.s0 is not None:
                data, keywords, _ = with_record(map_layer(field, name, study), field)
                self.viewer.add_image(data, **keywords)
                yield

    # -- ellipsoids -----------------------------------------------------------------------------------------------

    @property
    def field(self) -> TensorField | None:
        """The tensors of the active layer, or else of the newest layer that has some."""
        active = self.viewer.layers.selection.active
        layers = ([active] if active is not None else []) + list(reversed(self.viewer.layers))
        return next((field_of(layer) for layer in layers if is_map(layer)), None)

    def show_ellipsoids(self) -> None:
        """Draw the tensors of the slice on screen, or around the middle of the view."""
        field = self.field
        if field is None:
            self.show_error("there are no tensors to draw; fit a scan first")
            return
        try:
            self.ellipsoids.show(field, self._place.currentData())
        except GpuBioError as error:
            self.show_error(str(error))
            return
        self.clear_message()

    def tracked_layer(self) -> Any | None:
        """A layer of the tensors, or that of the scan while there are none."""
        field = self.field
        maps = [x for x in self.viewer.layers if field is not None and is_map(x) and field_of(x) is field]
        return next((x for x in maps if not is_rgb(x)), self.scan_box.layer)

    # -- the script -----------------------------------------------------------------------------------------------

    def script_layers(self) -> list[Shown]:
        """Return the layers that are on screen; a fit as the panel would do it if there are no maps yet."""
        shown = pictures(self.viewer.layers)
        if not any(map(is_map, self.viewer.layers)):
            draft, (_, study) = self.take_draft()().output(), self.chosen_scan()
            chosen = [name for name, box in self.map_boxes.items() if box.isChecked()]
            shown += [Shown(draft, f"{study} {name}", display=((PART, name),)) for name in chosen]
        return shown

    def take_draft(self) -> Callable[[], FitTensors]:
        """Read the inputs, and return what makes an operation of them."""
        scan, settings = self.chosen_scan()[0], self.settings
        if not settings.shells and not any(box.isChecked() for box in self.shell_boxes.values()):
            raise InvalidInput("no b-value is chosen; tick b = 0 and at least one shell")
        mask = mask_source(self.mask_box.layer, scan)
        return lambda: FitTensors(scan=output_of(scan), mask=None if mask is None else mask.output(), settings=settings)

    def show_draft(self, operation: Operation) -> bool:
        """Show a fit of tensors, if a layer has its scan."""
        if not isinstance(operation, FitTensors):
            return False
        if not self.choose_scan(operation.scan):
            return False
        shells = operation.settings.shells
        self.form.set_value(dataclasses.replace(operation.settings, shells=()))
        for shell, box in self.shell_boxes.items():
            box.setChecked(not shells or shell in shells)
        return self.choose_mask(operation.mask)
