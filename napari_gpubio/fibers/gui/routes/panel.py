"""The dock widget "Connect regions": the routes from one region to another, ranked, and each on screen by a click."""

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.utils.colormaps import ensure_colormap
from qtpy.QtWidgets import QFormLayout

from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import file_name
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.gui.records import (
    add_maps,
    field_of_layer,
    field_output,
    output_of,
    pictures,
    remember,
    show_fods,
    tensor_steps,
)
from napari_gpubio.diffusion.gui.source import FITTING, HINT, NO_TENSORS, FodsBox, Source, source_in, why_no_source
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.fibers.directions import Directions
from napari_gpubio.fibers.gui.methods import MethodForms
from napari_gpubio.fibers.operations import ConnectRegions
from napari_gpubio.fibers.operations.routes import Connections
from napari_gpubio.fibers.routes import ConnectSettings, Routes
from napari_gpubio.fibers.routes.run import FAN, tensor_routes_steps
from napari_gpubio.fibers.settings import InTensors
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.forms import Folded, ParamForm, text_button
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.lines import Lines
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.gui.picking import FiberTool
from napari_gpubio.gui.ranked_table import RankedTable
from napari_gpubio.gui.results import ResultBox, Saving
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.gui.typed_rows import Column
from napari_gpubio.tractograms.gui.fibers import TRACTOGRAMS, fiber_layer, fibers_of, fibers_to_save, pack_fibers
from napari_gpubio.tractograms.gui.region_box import ChosenRegion, RegionBox
from napari_gpubio.tractograms.io.tractograms import write_tractogram

if TYPE_CHECKING:
    import napari.viewer


class RouteTable(RankedTable):
    """Lists routes with their numbers."""

    columns = (
        Column("route", "Route", "Number of the route; click to see it alone"),
        Column("score", "Score", "Alignment × FA, less by a factor of e for each mm from the classic streamlines"),
        Column("fibers", "Fibers", "Fibers that take this route"),
        Column("length_mm", "Length (mm)", "Length of the best fiber"),
        Column("alignment_fa", "Align. × FA", "Mean of |cos| of the angle with the tensors' direction, times FA"),
        Column("eudx_distance_mm", "To EuDX (mm)", "Mean distance from the classic streamlines of the same seeds"),
        Column("speed", "L / L_R", "Length over length in the metric, the classical measure of connectivity"),
        Column("riemannian_length_mm", "L_R (mm)", "Length in the metric, at unit diffusivity 1e-3 mm²/s"),
        Column("weakest_link", "Weakest link", "Largest local cost on the way: length in the metric per mm"),
        Column("solved", "Solved", "Fibers that the two-point solver made of near misses"),
        Column("drift", "Drift", "Largest relative change of g(v, v): numerical quality"),
    )


ROUTE = "route"  # name of the filter that leaves one route


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Connection:
    """Everything that one run needs, read from the panel in the GUI thread.

    ``study``: name of the layer that the tensors are of; ``fods``: those that tell about the way.
    """

    source: Source
    study: str
    start: ChosenRegion
    end: ChosenRegion
    settings: ConnectSettings
    directions: Directions
    tracking: InTensors
    device: str
    fods: FodField | None = None

    @property
    def name(self) -> str:
        """Name of the layer of its fibers."""
        return f"{self.start.region.name} → {self.end.region.name}"

    def operation(self) -> ConnectRegions:
        """Return it as an operation; files are looked through, which a worker does."""
        return ConnectRegions(
            tensors=field_output(self.source),
            source=self.start.output(),
            target=self.end.output(),
            fods=None if self.fods is None else output_of(self.fods),
            settings=self.settings,
            directions=self.directions,
            method=self.tracking,
        )


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Connected:
    """Result of a run: tensors, and the routes unless the fit was stopped."""

    connection: Connection
    field: TensorField
    routes: Routes | None = None
    operation: ConnectRegions | None = None
    lines: Lines | None = None


class ConnectPanel(EnginePanel):
    """Find the routes between two regions."""

    warms = ("diffusion", "fibers", "gui")
    warms_first = (*FITTING, "fibers/fiber tracking", "gui/streamlines")
    kept = ("_result", "_layer")

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer, run_text="Connect")
        self._result: Connected | None = None
        self._layer: Streamlines | None = None
        self.source_box = LayerBox(viewer, why_no_source, empty=HINT, parent=self)
        self.fods_box = FodsBox(viewer, self.source_box, self)
        self.start_box, self.end_box = RegionBox(viewer, parent=self), RegionBox(viewer, parent=self)
        self.form = ParamForm(ConnectSettings(), parent=self)
        self.methods = MethodForms(self, FAN)
        self.directions_form, self.tracking_form = self.methods.directions, self.methods.tracking
        self.table = RouteTable(self)
        self.results = ResultBox("Choose two regions and press Connect: their routes are listed here.", self)
        self.tool = FiberTool(viewer, self)
        self._fill()
        connect_all(
            (
                (self.table.row_picked, self._on_route),
                (self.tool.fiber_clicked, self._on_fiber),
                (self.results.files.status_changed, self.show_status),
                (self.results.files.error_occurred, self.show_error),
            )
        )
        for part in (self.source_box, self.fods_box, self.start_box, self.end_box, self.results, self.tool):
            self.own(part)
        if self.end_box.name_box.count() > 1:
            self.end_box.name_box.setCurrentIndex(1)  # not the region that the fibers start in

    def _fill(self) -> None:
        top = QFormLayout()
        self.header.addRow("Tensors", self.source_box)
        top.addRow("FODs", self.fods_box)
        top.addRow("From", self.start_box)
        top.addRow("To", self.end_box)
        top.addRow("", text_button("Swap", "Exchange the two regions", self, self.swap))
        self.inputs.addLayout(top)
        self.inputs.addWidget(heading("Routes", self))
        self.inputs.addWidget(self.results)
        self.result_head.addWidget(self.results.head)
        self.results.content.addWidget(self.table)
        self.results.add_button("All routes", "Show the fibers of all routes", lambda: self._pick(0))
        self.results.add_button("Copy table", "Copy the table (Ctrl+C copies the selected row)", self.table.copy)
        self.results.add_saving("Save table…", "Save the table as CSV", "CSV (*.csv)", self._table)
        tip = "Save the fibers, with their routes and scores"
        self.results.add_saving("Save fibers…", tip, TRACTOGRAMS, self._fibers)
        for title, form in (
            ("Search", self.form), ("Fan of directions", self.directions_form), ("Tracking", self.tracking_form)
        ):  # fmt: skip
            folded = Folded(title, self)
            folded.fold(form)
            self.inputs.addWidget(folded)

    def swap(self) -> None:
        """Exchange the two regions."""
        before = [(box.layer, box.key) for box in (self.end_box, self.start_box)]
        for box, (layer, key) in zip((self.start_box, self.end_box), before, strict=True):
            if layer is not None and key is not None:
                box.choose(layer, key)

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Connected]:
        """Read the inputs and return the search for routes."""
        return _steps(self._connection(), stop)

    def _connection(self) -> Connection:
        layer = self.source_box.needed(NO_TENSORS)
        return Connection(
            source=source_in(layer),
            study=layer.name,
            start=self.start_box.chosen("where fibers start"),
            end=self.end_box.chosen("where fibers end"),
            settings=self.form.value(),
            directions=self.methods.launched(),
            tracking=self.tracking_form.value(),
            device=self.device,
            fods=self.fods_box.fods,
        )

    def keep_result(self, result: Connected) -> None:
        """Show tensors that were fitted."""
        source = result.connection.source
        if isinstance(source, DiffusionScan) and result.field.complete:
            fa = add_maps(self.viewer, result.field, source, result.connection.study)
            self.source_box.choose(fa)

    def show_result(self, result: Connected) -> None:
        """Show the routes and their table."""
        self.keep_result(result)
        routes = result.routes
        if routes is None or result.lines is None:
            self.show_note("The fit was stopped before it finished; press Connect to fit again.")
            return
        self._result = result
        self._show_layer(result.connection.name, routes, result.lines)
        self._show_routes(routes)

    def show_kept(self) -> None:
        """Show routes that undo has brought back, or none."""
        if self._result is None or self._result.routes is None:
            self.results.clear()
        else:
            self._show_routes(self._result.routes)

    def _show_routes(self, routes: Routes) -> None:
        self.table.show_rows(routes.table(), self._colors(routes))
        self.table.setVisible(len(routes) > 0)
        stopped = () if routes.complete else ("The search was stopped, so there may be more.",)
        findings = [("ok" if len(routes) else "warning", routes.message)]
        findings += [("warning", sentence) for sentence in (*routes.notes, *stopped)]
        self.results.show_numbers((), findings)

    def _show_layer(self, name: str, routes: Routes, lines: Lines) -> None:
        """Put the fibers into the layer of these two regions, or into a new one."""
        layer = next((x for x in self.viewer.layers if isinstance(x, Streamlines) and x.name == name), None)
        if layer is None:
            layer = fiber_layer(routes.tractogram, name, beside=self.viewer.layers, lines=lines)
            self.viewer.add_layer(layer)
        else:
            layer.set_lines(lines)
        operation = None if self._result is None else self._result.operation
        record = {} if operation is None else {RECORD: record_of_output(operation.output())}
        layer.metadata[KEY] = {"tractogram": routes.tractogram, **record}
        if len(routes):
            layer.color_by = "score"
        self._layer = layer

    def _colors(self, routes: Routes) -> list[Any]:
        """Color of each route's best fiber on screen."""
        layer = self._layer
        if layer is None or layer.contrast_limits is None or not len(routes):
            return []
        low, high = layer.contrast_limits
        share = (routes.columns()["score"] - low) / max(high - low, 1e-12)
        return list(ensure_colormap(layer.colormap).map(np.clip(share, 0.0, 1.0)))

    # -- routes ---------------------------------------------------------------------------------------------------

    @property
    def route(self) -> int:
        """Number of the route that is shown alone, or 0 for all."""
        return self.table.picked + 1

    def _on_route(self, row: int) -> None:
        layer, result = self._layer, self._result
        if layer is None or result is None or result.routes is None or layer not in self.viewer.layers:
            return
        layer.set_filter(ROUTE, None if row < 0 else result.routes.tractogram.per_fiber["route"] == row + 1)

    def _on_fiber(self, layer: Any, fiber: int) -> None:
        if layer == self._layer and self._result is not None and self._result.routes is not None:
            layer.select_fiber(fiber)
            self._pick(int(self._result.routes.tractogram.per_fiber["route"][fiber]))

    def _pick(self, route: int) -> None:
        """Show one route, or with 0 all."""
        self.table.pick(route - 1)
        self._on_route(route - 1)

    # -- files ----------------------------------------------------------------------------------------------------

    def _table(self) -> Saving:
        routes, name = self._routes()
        return f"{name}.csv", routes.save_csv

    def _fibers(self) -> Saving:
        routes, name = self._routes()
        layer = self._layer
        is_theirs = layer is not None and fibers_of(layer) is routes.tractogram
        fibers = fibers_to_save(layer) if layer is not None and is_theirs else routes.tractogram
        return f"{name}.trx", partial(write_tractogram, tractogram=fibers)

    def _routes(self) -> tuple[Routes, str]:
        assert self._result is not None  # the buttons need a result
        assert self._result.routes is not None
        return self._result.routes, file_name(self._result.connection.name)

    # -- the script -----------------------------------------------------------------------------------------------

    def script_layers(self) -> list[Shown]:
        """Return the layer of the routes, or that of a run with the inputs as they stand."""
        if self._result is not None and self._layer is not None and self._layer in self.viewer.layers:
            return pictures([self._layer])
        connection = self._connection() if self._result is None else self._result.connection
        return [Shown(connection.operation().output(), connection.name, display=(("color_by", "score"),))]

    def take_draft(self) -> Callable[[], ConnectRegions]:
        """Read the inputs, and return what makes an operation of them."""
        return self._connection().operation

    def show_draft(self, operation: Operation) -> bool:
        """Show a connection, if layers have its tensors and its regions."""
        if not isinstance(operation, ConnectRegions):
            return False
        self.form.set_value(operation.settings)
        self.methods.show(operation.directions, operation.method)
        has_tensors = self.source_box.choose_where(lambda layer: field_of_layer(layer) == operation.tensors)
        regions = {name: ref for name, ref in operation.inputs() if name in ("source", "target")}
        has_start = self.start_box.choose_output(regions["source"])
        has_end, has_fods = self.end_box.choose_output(regions["target"]), show_fods(self.fods_box, operation.fods)
        return has_end and has_fods and has_start and has_tensors

    def teardown(self) -> None:
        """End runs and let go of the routes."""
        super().teardown()
        self._result = self._layer = None


def _steps(connection: Connection, stop: threading.Event) -> Generator[Step, None, Connected]:
    field = yield from tensor_steps(connection.source, connection.device, stop)
    if not field.complete:
        return Connected(connection, field)
    steps = tensor_routes_steps(
        field,
        connection.start.region,
        connection.end.region,
        connection.settings,
        connection.directions,
        connection.tracking,
        fods=connection.fods,
        device=connection.device,
        stop=stop,
    )
    with contextlib.closing(steps):
        routes = yield from steps
    made = connection.operation() if routes.complete else None
    if made is not None:
        remember(made.output(), Connections(routes, made.sort_by), connection.device, is_kept=False)
    return Connected(connection, field, routes, made, pack_fibers(routes.tractogram))
