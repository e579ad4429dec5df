"""What panels that make something of a scan share: its box and its mask's, notes, the check of axes, and tracking."""

from typing import TYPE_CHECKING, Any

from napari_gpubio.core.operations.records import Ref
from napari_gpubio.diffusion.fods.axis_check import AxisCheck
from napari_gpubio.diffusion.gui.records import MaskSource, output_of
from napari_gpubio.diffusion.gui.source import scan_in, why_no_mask, why_no_scan
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.napari_io import shows_signal_of
from napari_gpubio.diffusion.tensors.gradient_check import GradientCheck
from napari_gpubio.gui import theme
from napari_gpubio.gui.forms import Label, notes_text, text_button
from napari_gpubio.gui.layers import LayerBox, set_visible
from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.gui.switcher import open_panel

if TYPE_CHECKING:
    import napari.viewer

_UNCHECKED = "Their axes were not checked, since no tensors of the same voxels are open."


class ScanPanel(EnginePanel):
    """Base of a panel with a scan and a mask."""

    warms = ("diffusion",)

    def __init__(self, viewer: "napari.viewer.Viewer", *, run_text: str) -> None:
        super().__init__(viewer, run_text=run_text)
        self.scan_box = LayerBox(viewer, why_no_scan, empty="open a scan (NIfTI + bval + bvec)", parent=self)
        self.mask_box = LayerBox(viewer, why_no_mask, nothing="automatic brain mask", parent=self)
        self.check_label = Label(self, wordWrap=True)
        self.check_label.hide()
        for box in (self.scan_box, self.mask_box):
            self.own(box)

    def add_last_rows(self) -> None:
        """Add the button that leads to tracking, and the check of the axes."""
        tip = "Bring up the Fiber tracking panel, to track in what was made here"
        self.inputs.addWidget(text_button("Track fibers…", tip, self, self.open_tracking))
        self.result_head.addWidget(self.check_label)

    def open_tracking(self) -> None:
        """Bring the panel "Fiber tracking" up, with what was made here."""
        open_panel(self.viewer, "Fiber tracking").source_box.choose(self.tracked_layer())

    def tracked_layer(self) -> Any | None:
        """The layer to track in."""
        return self.scan_box.layer

    def chosen_scan(self) -> tuple[DiffusionScan, str]:
        """Return the scan and the name of its layer; InvalidInput if none is chosen."""
        layer: Any = self.scan_box.layer
        return scan_in(layer), str(layer.name)

    def choose_scan(self, scan: Ref[DiffusionScan]) -> bool:
        """Choose the layer that has what an operation makes; returns whether there is one."""
        return self.scan_box.choose_where(lambda layer: output_of(scan_in(layer)) == scan)

    def choose_mask(self, mask: Ref[Any] | None) -> bool:
        """Choose the layer that has the mask of an operation, if it has one; returns whether there is one."""
        return mask is None or self.mask_box.choose_where(lambda layer: MaskSource(layer).output() == mask)

    def hide_signal(self, scan: DiffusionScan | None) -> None:
        """Hide the layers that show a scan's signal."""
        for layer in self.viewer.layers:
            if scan is not None and shows_signal_of(layer, scan):
                set_visible(layer, False)

    def show_check(self, check: AxisCheck | GradientCheck | None) -> None:
        """Show what the check of the axes says; None: there was none."""
        self.check_label.show()
        self.check_label.setText(_UNCHECKED if check is None else check.message)
        self.check_label.setStyleSheet("" if check is None or check.ok else theme.ERROR_STYLE)

    def show_notes(self, made: Any, early: str, *first: str) -> None:
        """Show the notes of what was made, behind others; ``early``: what to say if the run was stopped."""
        notes = [*(() if made.complete else (early,)), *first, *made.notes]
        if notes:
            self.show_note(notes_text(notes))
