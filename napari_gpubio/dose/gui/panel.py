"""The dock widget "Dose-volume histogram": doses and structures in; live curves, metrics and constraints out.

From a stroke of the brush to the curves: `RunListener.labels_painted` -> `CurveController.recount_later` ->
`CurveController.update_curves` -> `DvhPlot.draw_curves`, `CurveMetricTable.update_rows`,
`ConstraintTable.update_results`. From a click in the image to the curves: `VoxelTool.voxel_clicked` ->
`LinkController.mark_voxel` -> `DvhPlot.place_marks`.
"""

import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.layers import Shapes
from qtpy.QtWidgets import QTabWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.layer_files import STRUCTURES
from napari_gpubio.core.named_layers import label_names
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations.graphs import replaced_fields
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.steps import Step
from napari_gpubio.dose.gui.constraint_table import ConstraintTable
from napari_gpubio.dose.gui.controller import CurveController
from napari_gpubio.dose.gui.controls import AxesBox, ScaleBox, ToolsBox
from napari_gpubio.dose.gui.export import ExportButton
from napari_gpubio.dose.gui.histograms import HistogramRequest, LiveHistograms, draft_of, run_steps, unit_note
from napari_gpubio.dose.gui.inputs import DoseInputs
from napari_gpubio.dose.gui.isodose import Isodose
from napari_gpubio.dose.gui.legend import LegendStrip
from napari_gpubio.dose.gui.link import LinkController, VoxelTool
from napari_gpubio.dose.gui.metric_table import CurveMetricTable
from napari_gpubio.dose.gui.overlays import Highlight
from napari_gpubio.dose.gui.plot import DvhPlot
from napari_gpubio.dose.gui.run_listener import RunListener
from napari_gpubio.dose.napari_io import NUMBERS
from napari_gpubio.dose.operations import DoseVolume
from napari_gpubio.dose.settings import DvhSettings
from napari_gpubio.gui.connections import Connection, connect_all, single_shot
from napari_gpubio.gui.forms import Folded, ParamForm, muted_label
from napari_gpubio.gui.panel import EnginePanel

if TYPE_CHECKING:
    import napari.viewer

EMPTY = "No histograms yet: choose a dose, its unit and structures above, and press Run."
_PLOT_HEIGHTS, _PLOT_SHAPE = (230, 560), 0.55  # least and largest, pixels; height by width between them
_SPACING = 4  # pixels, so that the rows of the table are in sight
_RUN_DELAY_MS = 200  # after a change of the inputs


class DosePanel(EnginePanel):
    """Dose-volume histograms of image and structure layers."""

    warms = ("dose",)
    runs_after_undo = True  # what is shown is closed with the run of the next
    kept = ("_has_run",)

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer)
        self.inputs_box = DoseInputs(viewer, self)
        self.form = ParamForm(DvhSettings(), parent=self)
        self.plot, self.legend = DvhPlot(parent=self), LegendStrip(self)
        self.axes_box, self.scale_box, self.tools = AxesBox(self), ScaleBox(self), ToolsBox(self)
        self.table, self.constraints = CurveMetricTable(self), ConstraintTable(self)
        self.empty, self.notes, self.tabs = muted_label(self, EMPTY), muted_label(self), QTabWidget(self)
        self.controller = CurveController(self.plot, self.axes_box, self.scale_box, self.table, self.constraints, self)
        self.export = ExportButton(self.controller, self.table, self.operation, self)
        self.highlight, self.isodose = Highlight(viewer, self), Isodose(viewer, self)
        self.link = LinkController(self.plot, self.tools, self.controller, self.highlight, self.isodose, self)
        self.listener = RunListener(viewer, self)
        self.voxel_tool = VoxelTool(viewer, lambda: self.inputs_box.dose_box.layer, self)
        self._resumes = False  # whether there were curves when the panel was closed
        self._has_run = False  # then it follows every change of the inputs
        self._run_timer = single_shot(_RUN_DELAY_MS, self._run_now, self)
        self._fill()
        connect_all(self._connections())
        for part in (self.inputs_box, self.highlight, self.isodose, self.listener, self.voxel_tool, self.export.files):
            self.own(part)

    @property
    def is_busy(self) -> bool:
        """Whether anything on screen is about to change."""
        parts = (self.listener, self.highlight, self.controller, self.inputs_box.combine, self.export.files)
        return self.running or self.waiting or self._run_timer.isActive() or any(part.is_busy for part in parts)

    def _connections(self) -> list[Connection]:
        """All signals of the parts, and what they call."""
        return [
            # inputs
            (self.inputs_box.dose_changed, self._on_dose),
            (self.inputs_box.inputs_changed, self._show_rows_of_contours),
            (self.inputs_box.inputs_changed, self._run_later),
            (self.form.changed, self._run_later),
            (self.inputs_box.combine.layer_added, self._on_layer_added),
            (self.inputs_box.combine.error_occurred, self.show_error),
            # layers
            (self.listener.labels_painted, self.highlight.update_labels),
            (self.listener.labels_painted, lambda *_: self.controller.recount_later()),
            (self.listener.colors_changed, self.controller.recolor_later),
            (self.listener.run_outdated, self._run_later),
            # curves
            (self.controller.curves_drawn, lambda: self.legend.name_curves(self.controller.curves)),
            (self.controller.notes_changed, self._show_notes),
            (self.table.curve_renamed, self._rename_structure),
            # plot and image
            (self.voxel_tool.voxel_clicked, self.link.mark_voxel),
            (self.table.row_selected, self.link.select_structure),
            (self.legend.name_clicked, self.link.select_structure),
            (self.legend.name_hovered, self.plot.emphasize_curve),
            # messages
            (self.highlight.error_occurred, self.show_error),
            (self.controller.error_occurred, self.show_error),
            (self.export.error_occurred, self.show_error),
            (self.export.file_written, lambda name: self.show_status(f"written: {name}")),
            (self.export.files.status_changed, self.show_status),
        ]

    # -- the inside of the panel ----------------------------------------------------------------------------------

    def _fill(self) -> None:
        self.notes.hide()
        self.inputs.setSpacing(_SPACING)
        settings = Folded("Histogram settings", self)
        settings.fold(self.form)
        self.tools.add_button(self.export)
        self.tabs.addTab(self.table, "Metrics")
        self.tabs.addTab(self.constraints, "Constraints")
        self.header.addRow("Dose", self.inputs_box.dose_box)
        self.result_head.addWidget(self.tools.readout)
        for part in (self.inputs_box, settings, self.empty, self.axes_box, self.plot, self.legend, self.tools):
            self.inputs.addWidget(part)
        for part in (self.scale_box, self.tabs, self.notes):
            self.inputs.addWidget(part)

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size; the plot keeps its shape."""
        super().resizeEvent(event)
        low, high = _PLOT_HEIGHTS
        self.plot.setFixedHeight(min(max(round(_PLOT_SHAPE * self.width()), low), high))

    def _on_dose(self) -> None:
        """Read what another dose layer knows; lines that were drawn mean nothing to it."""
        layer = self.inputs_box.dose_box.layer
        self.link.forget_lines()
        if layer is not None:
            self.scale_box.read_layer(layer)
            self.axes_box.log.setChecked(self.inputs_box.is_light or self.scale_box.is_light)  # light falls by decades
            unit = self.inputs_box.unit.text()
            for part in (self.axes_box, self.scale_box, self.table):
                part.set_unit(unit)

    def _show_rows_of_contours(self) -> None:
        """Hide the settings of contours where there are labels only, which they would not change."""
        layers = self.inputs_box.structures.layers
        for name in ("interpolation", "caps"):
            self.form.set_row_visible(name, visible=not layers or any(isinstance(one, Shapes) for one in layers))

    def _on_layer_added(self, name: str) -> None:
        self.show_status(f"added {name!r}; choose it as the dose for its histograms")

    def _run_later(self) -> None:
        """Run again what has been run once."""
        if self._has_run:
            self._run_timer.start()

    def show_kept(self) -> None:
        """Count again what undo has brought back, or show no curves."""
        if self._has_run:
            self._run_timer.start()
        else:
            self._run_timer.stop()
            self._open_run(None)

    def _run_now(self) -> None:
        if self._can_run():
            self.run_again()
        else:
            self._open_run(None)

    def _can_run(self) -> bool:
        try:
            return bool(self.inputs_box.plans() and self.inputs_box.structures.layers)
        except GpuBioError as error:
            self.show_error(str(error))
            return False

    def input_notes(self) -> tuple[str, ...]:
        """Nothing: the notes of layers that are counted stand with those of their curves."""
        return ()

    def _show_notes(self, notes: str) -> None:
        advice = self.inputs_box.structures.advice if self.controller.live is not None else ""
        text = " ".join(filter(None, (advice, notes)))
        self.notes.setText(text)
        self.notes.setVisible(bool(text))

    def _rename_structure(self, number: int, name: str) -> None:
        """Rename the label of a curve, in its layer too."""
        structure = self.controller.structure_of(number)
        if structure is None or structure.name == name:
            return
        if structure.label is None:
            self.show_note("Contours are named by their layer, or by the column 'structure' of its table.")
        else:
            names = {**label_names(structure.layer), structure.label: name}
            metadata = structure.layer.metadata.get(KEY, {})
            numbers = {name if old == structure.name else old: n for old, n in metadata.get(NUMBERS, {}).items()}
            structure.layer.metadata[KEY] = {**metadata, STRUCTURES: names, NUMBERS: numbers}
        self._run_later()

    # -- running --------------------------------------------------------------------------------------------------

    def _request(self) -> HistogramRequest:
        """Read the inputs, in the GUI thread."""
        return HistogramRequest(
            plans=self.inputs_box.plans(),
            layers=tuple(self.inputs_box.structures.layers),
            settings=self.form.value(),
            device=self.device,
            known={} if self.controller.live is None else self.controller.live.volumes,
        )

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, LiveHistograms]:
        """Read the inputs and return the run."""
        self._run_timer.stop()
        self.inputs_box.structures.settle()
        return run_steps(self._request(), stop)

    def show_result(self, result: LiveHistograms) -> None:
        """Show curves, metrics and constraints, and follow the layers from now on."""
        self._has_run = True
        self._open_run(result)
        if not result.complete:
            self.show_note("Stopped: the curves hold what had been counted by then.")
        elif note := unit_note(result.request.plans):
            self.show_note(note)

    def keep_result(self, result: LiveHistograms) -> None:
        """A result of outdated inputs is of no use."""
        result.close()

    def _open_run(self, live: LiveHistograms | None) -> None:
        self.listener.follow_layers(None)
        self.tools.list_structures(live)
        self.controller.open_run(live)
        self.listener.follow_layers(live)
        self.empty.setVisible(live is None)

    def teardown(self) -> None:
        """End everything."""
        self._run_timer.stop()
        self._resumes = self.controller.live is not None
        super().teardown()
        self.controller.close_run()

    def revive(self) -> None:
        """Continue, after the user decided not to close the panel."""
        super().revive()
        if self._resumes:
            self.run()

    # -- the script -----------------------------------------------------------------------------------------------

    def operation(self) -> DoseVolume:
        """Return the operation of the curves that are shown, or of those that a run would make."""
        live, fields = self.controller.live, self._shown_fields()
        return live.operation(**fields) if live is not None else replaced_fields(draft_of(self._request()), fields)

    def take_draft(self) -> Callable[[], Operation]:
        """Read the inputs, and return what makes an operation of them."""
        request, fields = self._request(), self._shown_fields()
        return lambda: replaced_fields(draft_of(request), fields)

    def draft_to_compare(self) -> Callable[[], Operation] | None:
        """The same without what is read off the curves, which follows at once."""
        return None if super().draft_to_compare() is None else partial(draft_of, self._request())

    def show_draft(self, operation: Operation) -> bool:
        """Show an operation of histograms; returns whether layers show all its inputs."""
        if not isinstance(operation, DoseVolume):
            return False
        self.form.set_value(operation.settings)
        try:
            self.inputs_box.show_draft(operation)
        except GpuBioError as error:
            self.show_error(str(error))
            return False
        self.scale_box.show_scale(operation.scale, operation.reference_dose)
        self.table.columns.enter(", ".join(operation.metrics))
        self.constraints.text.setPlainText("\n".join(operation.constraints))
        return True

    def _shown_fields(self) -> dict[str, Any]:
        """How the histograms are scaled, and what is read off them."""
        return {
            "scale": self.controller.factor,
            "reference_dose": self.controller.reference,
            "metrics": self.table.metrics,
            "constraints": self.constraints.constraints,
        }

    @property
    def is_at_hand(self) -> bool:
        """Whether a result is shown, whose operation is known."""
        return self.controller.live is not None

    def script_files(self) -> dict[str, str]:
        """Files that a script writes."""
        live = self.controller.live
        files = {"curves": "dose-volume curves.csv", "metrics": "dose-volume metrics.csv"}
        return files | ({"bands": "dose-volume bands.csv"} if live is not None and any(live.bases) else {})
