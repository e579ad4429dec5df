"""The dock widget "Dose-volume histogram": doses and structures in; curves, metrics and verdicts out, live."""

import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QLabel, QTabWidget, QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.steps import Step
from napari_gpubio.dose.gui.axes_box import AxesBox
from napari_gpubio.dose.gui.constraint_box import ConstraintBox
from napari_gpubio.dose.gui.curve_controller import CurveController
from napari_gpubio.dose.gui.export import ExportButton
from napari_gpubio.dose.gui.highlight import Highlight
from napari_gpubio.dose.gui.input_box import InputBox
from napari_gpubio.dose.gui.isodose import Isodose
from napari_gpubio.dose.gui.layer_listener import LayerListener
from napari_gpubio.dose.gui.link_controller import LinkController
from napari_gpubio.dose.gui.metric_table import MetricTable
from napari_gpubio.dose.gui.plot import DvhPlot
from napari_gpubio.dose.gui.plot_legend import LegendStrip
from napari_gpubio.dose.gui.request import NO_STRUCTURES, Counted, Plan, Request, run_steps
from napari_gpubio.dose.gui.scale_box import ScaleBox
from napari_gpubio.dose.gui.script import painted, save, script_text
from napari_gpubio.dose.gui.tools_box import ToolsBox
from napari_gpubio.dose.gui.voxel_tool import VoxelTool
from napari_gpubio.dose.napari_io import NUMBERS, STRUCTURES, structure_names, unit_of
from napari_gpubio.dose.settings import DvhSettings
from napari_gpubio.gui.forms import Folded, ParamForm
from napari_gpubio.gui.panel import EnginePanel

if TYPE_CHECKING:
    import napari.viewer

EMPTY = "No histograms yet: choose a dose, its unit and structures above, and press Run."
_PLOT_HEIGHTS, _PLOT_SHAPE = (270, 560), 0.6  # least and largest, pixels; height by width between them
_DEBOUNCE_MS = 200  # milliseconds after which a change is run


class DosePanel(EnginePanel):
    """Dose-volume histograms of image and structure layers.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None) -> None:
        super().__init__(viewer, run_text="Run", parent=parent)
        self.inputs_box = InputBox(viewer, self)
        self.form = ParamForm(DvhSettings(), parent=self)
        self.plot, self.legend = DvhPlot(parent=self), LegendStrip(self)
        self.axes_box, self.scale_box, self.tools = AxesBox(self), ScaleBox(self), ToolsBox(self)
        self.table, self.constraints = MetricTable(self), ConstraintBox(self)
        self.controller = CurveController(self.plot, self.axes_box, self.scale_box, self.table, self.constraints, self)
        self.export = ExportButton(self.controller, self.table, self.show_error, self.say, self)
        self.highlight, self.isodose = Highlight(viewer, self), Isodose(viewer, self)
        self.link = LinkController(self.plot, self.tools, self.controller, self.highlight, self.isodose, self)
        self.listener = LayerListener(viewer, self)
        self.voxels = VoxelTool(viewer, lambda: self.inputs_box.dose_box.layer, self)
        self._resumes = False  # whether there were curves when it seemed to be closed
        self._has_run = False  # so that it follows every change, and goes on when what was missing is told
        self._debouncer = QTimer(self)
        self._debouncer.setSingleShot(True)
        self._debouncer.setInterval(_DEBOUNCE_MS)
        self._debouncer.timeout.connect(self._run_debounced)
        self._fill()
        self._connect()
        for part in (self.inputs_box, self.highlight, self.isodose, self.listener, self.voxels):
            self.own(part)

    # -- the inside of the panel ----------------------------------------------------------------------------------

    def _fill(self) -> None:
        self.empty, self.notes = QLabel(EMPTY, self), QLabel(self)
        for label in (self.empty, self.notes):
            label.setWordWrap(True)
            label.setStyleSheet("color: #9a9a9a;")
        self.notes.hide()
        how = Folded("How it is counted", self)
        how.fold(self.form)
        self.tools.add_button(self.export)
        self.tabs = QTabWidget(self)
        self.tabs.addTab(self.table, "Metrics")
        self.tabs.addTab(self.constraints, "Constraints")
        for part in (self.inputs_box, how, self.empty, self.axes_box, self.plot, self.legend, self.tools):
            self.inputs.addWidget(part)
        for part in (self.scale_box, self.tabs, self.notes):
            self.inputs.addWidget(part)

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size; the plot keeps its shape."""
        super().resizeEvent(event)
        low, high = _PLOT_HEIGHTS
        self.plot.setFixedHeight(min(max(round(_PLOT_SHAPE * self.width()), low), high))

    def _connect(self) -> None:
        self.inputs_box.dose_changed.connect(self._on_dose)
        self.inputs_box.changed.connect(self._on_change)
        self.form.changed.connect(self._on_change)
        self.listener.painted.connect(self._on_painted)
        self.listener.recolored.connect(self.controller.recolor)
        self.listener.stale.connect(self._on_change)
        self.voxels.picked.connect(self.link.pick)
        for part in (self.highlight, self.controller):
            part.error_occurred.connect(self.show_error)
        self.controller.noted.connect(self._on_noted)
        self.table.selected.connect(self.link.choose_curve)
        self.legend.chosen.connect(self.link.choose_curve)
        self.legend.pointed.connect(self.plot.point_at)
        self.controller.drawn.connect(lambda: self.legend.show_curves(self.controller.curves))
        self.table.renamed.connect(self._on_renamed)

    def _on_dose(self) -> None:
        """Take over what another dose says of itself; lines that were drawn mean nothing to it."""
        layer = self.inputs_box.dose_box.layer
        self.link.clear()
        if layer is not None:
            self.scale_box.read_layer(layer)
            self.axes_box.log.setChecked(self.scale_box.is_light)  # which falls by decades
            unit = self.inputs_box.unit.text()
            for part in (self.axes_box, self.scale_box, self.table):
                part.show_unit(unit)

    def _on_change(self) -> None:
        """Run again what has been run once."""
        if self._has_run:
            self._debouncer.start()

    def _run_debounced(self) -> None:
        if self._is_possible():
            self.run_again()
        else:
            self._show(None)

    def _is_possible(self) -> bool:
        try:
            return bool(self.inputs_box.plans() and self.inputs_box.structures.layers)
        except GpuBioError as error:
            self.show_error(str(error))
            return False

    def _on_painted(self, layer: Any, box: Any) -> None:
        self.highlight.touch(layer, box)
        self.controller.repaint()

    def _on_noted(self, sentences: str) -> None:
        advice = self.inputs_box.structures.advice if self.controller.counted is not None else ""
        told = " ".join(filter(None, (advice, sentences)))
        self.notes.setText(told)
        self.notes.setVisible(bool(told))

    def _on_renamed(self, number: int, name: str) -> None:
        """Let a label have another name, in its layer too."""
        structure = self.controller.structure_of(number)
        if structure is None or structure.name == name:
            return
        if structure.label is None:
            self.show_note("Contours are named by their layer, or by the column 'structure' of its table.")
        else:
            named = {**structure_names(structure.layer), structure.label: name}
            told = structure.layer.metadata.get(KEY, {})
            numbers = {name if old == structure.name else old: n for old, n in told.get(NUMBERS, {}).items()}
            structure.layer.metadata[KEY] = {**told, STRUCTURES: named, NUMBERS: numbers}
        self._on_change()

    # -- running --------------------------------------------------------------------------------------------------

    def _request(self) -> Request:
        """Take down what a run needs, in the GUI thread."""
        return Request(
            plans=self.inputs_box.plans(),
            layers=tuple(self.inputs_box.structures.layers),
            settings=self.form.value(),
            device=self.device,
        )

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Counted]:
        """Read the inputs and return the run."""
        self._debouncer.stop()
        return run_steps(self._request(), stop)

    def show_result(self, result: Counted) -> None:
        """Show curves, metrics and verdicts, and follow the layers from now on."""
        self._has_run = True
        self._show(result)
        if not result.complete:
            self.show_note("Stopped: the curves hold what was counted until then.")
        elif note := _unit_note(result.request.plans):
            self.show_note(note)

    def keep_result(self, result: Counted) -> None:
        """A result that came too late is of no use."""
        result.close()

    def _show(self, counted: Counted | None) -> None:
        self.listener.follow(None)
        self.tools.offer(counted)
        self.controller.show(counted)
        self.listener.follow(counted)
        self.empty.setVisible(counted is None)

    def teardown(self) -> None:
        """End everything."""
        self._debouncer.stop()
        self._resumes = self.controller.counted is not None
        super().teardown()
        self.controller.finish()

    def revive(self) -> None:
        """Go on where it was, after the user decided not to close it."""
        super().revive()
        if self._resumes:
            self.run()

    # -- the script -----------------------------------------------------------------------------------------------

    def script(self, saved: Mapping[str, Path]) -> str:
        """Return a script that makes the same histograms, and prints the metrics and verdicts."""
        return script_text(
            self._usable(),
            saved,
            metrics=self.table.metrics,
            constraints=self.constraints.constraints,
            factor=self.controller.factor,
            reference=self.controller.reference,
        )

    def painted_layers(self) -> list[Any]:
        """Input layers that no file holds as they are."""
        return painted(self._usable())

    def save_painted(self, layer: Any, folder: Path) -> Path:
        """Save an input layer into a folder."""
        return save(layer, folder, self._usable())

    def _usable(self) -> Request:
        request = self._request()
        if not request.layers:
            raise GpuBioError(NO_STRUCTURES)
        return request


def _unit_note(plans: tuple[Plan, ...]) -> str:
    """A sentence if the second plan's unit is only known from the first."""
    if len(plans) < 2 or unit_of(plans[1].layer):
        return ""
    return f"{plans[1].name!r} does not tell its unit: it is taken to be in {plans[1].unit}, as {plans[0].name!r} is."
