"""The dock widget "Fiber orientations": FODs of a scan or a file, and their glyphs on the slice."""

import dataclasses
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtWidgets import QCheckBox, QFormLayout, QHBoxLayout, QWidget

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations.layer_sources import PART
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.operations.runs import run_steps
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.settings import field_names
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.axis_check import AxisCheck, check_axes, check_fods, tensors_of
from napari_gpubio.diffusion.fods.frames import FRAMES
from napari_gpubio.diffusion.fods.harmonics import BASES
from napari_gpubio.diffusion.fods.model import FixelField, FodField
from napari_gpubio.diffusion.fods.napari_io import fixel_layer, fods_of
from napari_gpubio.diffusion.fods.run import find_peaks_steps
from napari_gpubio.diffusion.fods.settings import CsdSettings, MultiTissueSettings, PeakSettings
from napari_gpubio.diffusion.gui.fods.glyphs import SliceGlyphs
from napari_gpubio.diffusion.gui.fods.making import STOPPED, USUAL, Deconvolution, Deconvolved, add_fods
from napari_gpubio.diffusion.gui.fods.responses import ResponseBox, ResponseChoice
from napari_gpubio.diffusion.gui.records import mask_source, output_of, pictures, remember, with_record
from napari_gpubio.diffusion.gui.scan_panel import ScanPanel
from napari_gpubio.diffusion.gui.source import DECONVOLVING, mask_in, why_no_fods
from napari_gpubio.diffusion.io.bedpostx import bedpostx_folder_of
from napari_gpubio.diffusion.io.fixel_folders import fixel_folder_of
from napari_gpubio.diffusion.io.fixels import read_fixels
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.napari_io import field_of
from napari_gpubio.diffusion.operations import (
    Deconvolve,
    DeconvolveTissues,
    FindPeaks,
    OpenFixels,
    OpenFods,
    Peaks,
)
from napari_gpubio.gui.fields import ElidedComboBox, NumberBox
from napari_gpubio.gui.file_dialogs import opens_with
from napari_gpubio.gui.forms import Folded, ParamForm, notes_text, text_button
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.run_parts import Pieces
from napari_gpubio.gui.views import ViewBox

if TYPE_CHECKING:
    import napari.viewer

_FIXEL_FILES = "Peaks and fixels (*.nii *.nii.gz *.mif *.mif.gz *.mih *.pam5 *.fib *.fib.gz *.fz);;All files (*)"
_FILES = "FODs (*.nii *.nii.gz *.mif *.mif.gz *.mih *.pam5)"


def _checked(check: Callable[[Any, TensorField], AxisCheck], made: Any, tensors: list[TensorField]) -> AxisCheck | None:
    field = tensors_of(made, tensors)
    return None if field is None else check(made, field)


class FodPanel(ScanPanel):
    """Estimate FODs from a scan, or open a file of them; draw their glyphs."""

    warms_first = DECONVOLVING

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer, run_text="Deconvolve")
        self.glyphs = SliceGlyphs(viewer, self)
        self._fill()
        self.glyphs.error_occurred.connect(self.show_error)
        self.glyphs.nothing_drawn.connect(lambda: self.show_note("There are no FODs in this part of the slice."))
        for part in (self.fod_box, self.view_box, self.glyphs):
            self.own(part)
        self._take_size()
        self._show_glyphs()

    def _fill(self) -> None:
        self.view_box = ViewBox(self.viewer, self)
        self.inputs.addWidget(self.view_box)
        top = QFormLayout()
        self.header.addRow("Scan", self.scan_box)
        top.addRow("Mask", self.mask_box)
        self.response_box = ResponseBox(self)
        self.response_box.error_occurred.connect(self.show_error)
        top.addRow("Response", self.response_box)
        self.inputs.addLayout(top)
        self.form = ParamForm(USUAL, parent=self)
        self.response_box.box.currentIndexChanged.connect(self._show_fitting_rows)
        self.inputs.addWidget(self.form)
        self.basis_box = ElidedComboBox(
            self,
            entries={"auto": "as the file says, else MRtrix 3", **BASES},
            tip="Basis of the spherical harmonics in the file; a wrong one turns the glyphs",
        )
        opening = QHBoxLayout()
        tip = "FODs from MRtrix (mif, NIfTI) or DIPY (NIfTI, pam5)"
        opening.addWidget(text_button("Open FODs…", tip, self, opens_with(self, "Open FODs", _FILES, self.open_fods)))
        opening.addWidget(self.basis_box, 1)
        self.inputs.addLayout(opening)
        self.frame_box = ElidedComboBox(
            self,
            entries={"auto": "as the file says, else the program's convention", **FRAMES},
            tip="Axes that harmonics, peaks, or fixels in the file refer to",
        )
        axes = QFormLayout()
        axes.addRow("Axes in the file", self.frame_box)
        self.inputs.addLayout(axes)
        self.inputs.addWidget(self._glyph_controls())
        self.peak_form = ParamForm(PeakSettings(), parent=self)
        folded = Folded("Peaks", self)
        folded.fold(self.peak_form)
        self.inputs.addWidget(folded)
        fixels = QHBoxLayout()
        tip = "The peaks of the chosen FODs as fixels, to track geodesics in"
        fixels.addWidget(text_button("Find peaks", tip, self, self.find_peaks))
        tip = "Peaks or fixels of MRtrix, TractSeg, DIPY, bedpostX, or DSI Studio; of a folder choose any file of it"
        ask = opens_with(self, "Open peaks or fixels", _FIXEL_FILES, self.open_fixels)
        fixels.addWidget(text_button("Open fixels…", tip, self, ask))
        self.inputs.addLayout(fixels)
        self.add_last_rows()

    def _show_fitting_rows(self, *_: Any) -> None:
        """Hide what only counts for one tissue where there are several."""
        for name in {*field_names(CsdSettings)} - {*field_names(MultiTissueSettings)}:
            self.form.set_row_visible(name, visible=not self.response_box.choice.several)

    def _glyph_controls(self) -> QWidget:
        box = QWidget(self)
        form = QFormLayout(box)
        form.setContentsMargins(0, 0, 0, 0)
        self.fod_box = LayerBox(self.viewer, why_no_fods, empty="deconvolve, or open FODs", parent=self)
        self.shows_glyphs = QCheckBox("Glyphs on the slice", box, checked=True)
        tip = "Scale each glyph to fill its voxel, whatever its amplitude"
        self.same_size = QCheckBox("all the same size", box, toolTip=tip)
        tip = "Size of the largest glyphs, in voxels"
        self.size_box = NumberBox(0.2, 5.0, 1.4, decimals=1, step=0.2, parent=box, arrows=True, toolTip=tip)
        form.addRow("FODs", self.fod_box)
        row = QHBoxLayout()
        row.addWidget(self.shows_glyphs)
        row.addWidget(self.same_size)
        form.addRow(row)
        form.addRow("Glyph size (voxels)", self.size_box)
        for signal in (
            self.fod_box.currentIndexChanged,
            self.shows_glyphs.toggled,
            self.same_size.toggled,
            self.size_box.valueChanged,
        ):
            signal.connect(self._show_glyphs)
        return box

    @property
    def fods(self) -> FodField | None:
        """The chosen FODs."""
        return None if self.fod_box.layer is None else fods_of(self.fod_box.layer)

    @property
    def is_busy(self) -> bool:
        """Whether anything runs or is about to."""
        return self.running or self.glyphs.is_busy

    def _take_size(self) -> None:
        """Go on with the size of glyphs that are there, such as those of a session."""
        part = carried(self.glyphs.layer, PART) if self.glyphs.layer is not None else None
        if part is not None:
            *_, size, same, _ = part
            self.size_box.setValue(size)
            self.same_size.setChecked(same)

    def _show_glyphs(self, *_: Any) -> None:
        shown = self.fods if self.shows_glyphs.isChecked() else None
        self.glyphs.show(shown, size=float(self.size_box.value()), same=self.same_size.isChecked())

    # -- inputs ---------------------------------------------------------------------------------------------------

    def open_fods(self, path: str | Path) -> None:
        """Read FODs in the chosen basis and show them, checked against tensors if there are some of their voxels."""
        basis, frame, path = str(self.basis_box.currentData()), str(self.frame_box.currentData()), Path(path)
        tensors = self._tensors()

        def make(_: threading.Event) -> Generator[Step, None, Deconvolved]:
            yield Step(0, 1, "reading FODs")
            opened = OpenFods.at(path, basis=basis, frame=frame).output()
            fods = yield from run_steps(opened, device="cpu")
            remember(opened, fods, "cpu")
            return Deconvolved(fods, path.name.split(".")[0], _checked(check_fods, fods, tensors))

        self.run_other(make, self.show_result)

    def open_fixels(self, path: str | Path) -> None:
        """Read peaks or fixels and show their layer and notes; of a folder any file of it may be given.

        Where the file does not say its axes, they are those under which the fixels agree with open tensors. Other ones
        can be chosen before it is opened again.
        """
        path, frame, tensors = Path(path), str(self.frame_box.currentData()), self._tensors()
        source = fixel_folder_of(path) or bedpostx_folder_of(path) or path

        def make(_: threading.Event) -> Generator[Step, None, tuple[FixelField, AxisCheck | None]]:
            yield Step(0, 1, "reading fixels")
            fixels = read_fixels(source, frame=frame, tensors=tensors)
            remember(OpenFixels.at(source, frame=fixels.parameters["frame"]).output(), fixels, "cpu")
            return fixels, _checked(check_axes, fixels, tensors)

        def show(found: tuple[FixelField, AxisCheck | None]) -> None:
            fixels, check = found
            self._show_fixels(fixels, source.name.split(".")[0])
            self.show_check(check)
            self.show_note(notes_text(fixels.notes))

        self.run_other(make, show)

    def _tensors(self) -> list[TensorField]:
        return [field for layer in self.viewer.layers if (field := field_of(layer)) is not None]

    def find_peaks(self) -> None:
        """Find the peaks of the chosen FODs, and show their layer."""
        fods, layer = self.fods, self.fod_box.layer
        if fods is None or layer is None:
            self.show_error("There are no FODs; deconvolve a scan, or open some.")
            return
        study, device = str(carried(layer, "study")), self.device
        settings: PeakSettings = self.peak_form.value()

        def make(stop: threading.Event) -> Generator[Step, None, FixelField]:
            fixels = yield from find_peaks_steps(fods, settings, device=device, stop=stop)
            remember(FindPeaks(fods=output_of(fods), settings=settings).output("fixels"), Peaks(fixels), device)
            return fixels

        self.run_other(make, lambda fixels: self._show_fixels(fixels, study))

    def _show_fixels(self, fixels: FixelField, study: str) -> None:
        data, keywords, _ = with_record(fixel_layer(fixels, study), fixels)
        self.viewer.add_image(data, **keywords)
        self.show_note(notes_text(fixels.notes) or f"{len(fixels.directions):,} fixels")

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Deconvolved | None]:
        """Read the inputs and return the deconvolution; it returns None if it was stopped before that began."""
        return self._deconvolution().steps(self.device, stop)

    def show_result(self, result: Deconvolved | None) -> Pieces:
        """Add the layer, which is chosen, and draw its glyphs; show the notes and the check of the axes."""
        if result is None:
            self.show_note(STOPPED.format("Deconvolve"))
            return
        layer = yield from add_fods(self.viewer, result)
        self.fod_box.choose(layer)
        self.show_check(result.check)
        gradients = result.gradients
        wrong = () if gradients is None or gradients.ok else (gradients.message,)
        self.show_notes(result.fods, "The deconvolution was stopped early: only part of the volume has FODs", *wrong)

    def tracked_layer(self) -> Any | None:
        """The layer of the FODs, or that of the scan while there are none."""
        return self.fod_box.layer or self.scan_box.layer

    # -- the script -----------------------------------------------------------------------------------------------

    def script_layers(self) -> list[Shown]:
        """Return the layers that are on screen; a deconvolution as the panel would do it if there are no FODs yet."""
        shown = pictures(self.viewer.layers)
        if self.fod_box.layer is None:
            shown.append(Shown(self.take_draft()().output(), f"{self.chosen_scan()[1]} FOD"))
        return shown

    def take_draft(self) -> Callable[[], Deconvolve | DeconvolveTissues]:
        """Read the inputs, and return what makes an operation of them."""
        return self._deconvolution().operation

    def _deconvolution(self) -> Deconvolution:
        scan, study = self.chosen_scan()
        layer = self.mask_box.layer
        return Deconvolution(
            scan=scan,
            study=study,
            settings=self.form.value(),
            choice=self.response_box.choice,
            mask=mask_in(layer, scan),
            mask_source=mask_source(layer, scan),
        )

    def show_draft(self, operation: Operation) -> bool:
        """Show a deconvolution, if a layer has its scan and its responses are those of no file."""
        if not isinstance(operation, Deconvolve | DeconvolveTissues):
            return False
        choice = ResponseChoice.of(operation)
        if choice is None or not self.choose_scan(operation.scan):
            return False
        self.response_box.show(choice)
        known = {name: getattr(operation.settings, name) for name in field_names(type(operation.settings))}
        self.form.set_value(dataclasses.replace(self.form.value(), **known))
        return self.choose_mask(operation.mask)
