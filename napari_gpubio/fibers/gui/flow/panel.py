"""The dock widget "Fiber flow": where the fibers of a source lead to, live, and by which routes."""

import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from napari.layers import Labels
from qtpy.QtWidgets import QFormLayout

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.core.space import world_to_viewer
from napari_gpubio.core.steps import Step, silent
from napari_gpubio.core.text import file_name
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.gui.records import output_of, pictures
from napari_gpubio.fibers.flow import (
    AlongSettings,
    FlowRoutes,
    FlowSettings,
    RouteSettings,
    fibers_along_steps,
    routes_steps,
)
from napari_gpubio.fibers.gui.flow.gates import ROLES, GateList
from napari_gpubio.fibers.gui.flow.inputs import (
    HINT,
    NO_FIELD,
    Found,
    Inputs,
    Prepared,
    field_in,
    fixels_output,
    found_steps,
    why_no_flow,
)
from napari_gpubio.fibers.gui.flow.layers import FlowLayers
from napari_gpubio.fibers.gui.flow.matrix import FlowMatrixBox
from napari_gpubio.fibers.gui.flow.sources import COMPARED, SOURCE, SourceTool
from napari_gpubio.fibers.gui.flow.sure import Sure, SureBox
from napari_gpubio.fibers.gui.flow.tables import MAX_ROWS, FlowRouteTable, ReachedTable
from napari_gpubio.fibers.gui.inputs import ContextBox
from napari_gpubio.fibers.operations import FindRoutes, FlowFromSource, TrackAlongRoutes
from napari_gpubio.fibers.operations.source_flow import MovedFromSource
from napari_gpubio.fibers.settings import IFOD2, InFods
from napari_gpubio.gui.connections import connect_all, single_shot
from napari_gpubio.gui.forms import Folded, ParamForm, notes_text
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.gui.layers import LayerBox, LayerListener, unwrapped
from napari_gpubio.gui.lines import Lines
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.gui.results import ResultBox, Saving
from napari_gpubio.tractograms.gui.fibers import pack_fibers
from napari_gpubio.tractograms.gui.region_box import AtlasSource, ChosenRegion, RegionBox, why_no_regions
from napari_gpubio.tractograms.model import Tractogram

if TYPE_CHECKING:
    import napari.viewer

    from napari_gpubio.fibers.flow.source import Reached

_AGAIN_MS = 300  # after the last edit of the settings


@dataclass(frozen=True, kw_only=True)
class _Along(Settings):
    settings: AlongSettings = part("Seeds", "Where fibers start, and which are kept.", default=AlongSettings())
    method: InFods = part("Method", "How fibers are traced.", default=IFOD2())


class FlowPanel(EnginePanel):
    """Let mass flow from a source along all fibers at once, and see which regions it reaches."""

    warms = ("diffusion", "fibers", "gui")
    warms_first = "fibers/flow along fixels", "gui/streamlines"
    kept = ("_found", "_routes", "_sure")

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer, run_text="Flow")
        self._found: Found | None = None
        self._routes: tuple[FlowRoutes, FindRoutes] | None = None
        self._sure: Sure | None = None
        self.layers = FlowLayers(viewer, self)
        self._listed: list[Reached] = []  # in the table
        self._moves = LatestJob(self, self._on_moved)
        self._again = single_shot(_AGAIN_MS, self.run_again, self)
        self.field_box = LayerBox(viewer, why_no_flow, empty=HINT, parent=self)
        self.atlas_box = LayerBox(
            viewer, partial(why_no_regions, kinds=(Labels,)), empty="no atlas: the map alone", parent=self
        )
        self.source_box = RegionBox(viewer, parent=self)
        self.compared_box = RegionBox(viewer, nothing="nothing", parent=self)
        self.gates = GateList(viewer, self)
        self.form = ParamForm(FlowSettings(), parent=self)
        self.route_form = ParamForm(RouteSettings(), parent=self)
        self.along_form = ParamForm(_Along(), parent=self)
        self.matrix = FlowMatrixBox(self)
        self.sure_box = SureBox(viewer, self.repeat, self)
        self.context_box = ContextBox(self)
        self.results = ResultBox("Click in the brain, or choose a region; drag it, and its flow follows.", self)
        self.table, self.route_table = ReachedTable(self), FlowRouteTable(self)
        self.tool = SourceTool(viewer, self._clicked_layer, self)
        self._painted = LayerListener(
            viewer, lambda layer: layer == self.atlas_box.layer, data_changed=self._forget_ground
        )
        self._prepared: Prepared | None = None
        self._fill()
        connect_all(
            (
                (self.tool.placed, self._on_placed),
                (self.tool.missed, lambda: self.show_error("Nothing is there; click in the brain.")),
                (self.source_box.changed, self._follow),
                (self.compared_box.changed, self._follow),
                (self.field_box.currentIndexChanged, self._forget_ground),
                (self.atlas_box.currentIndexChanged, self._on_atlas),
                (self.device_changed, self._forget_ground),
                (self.form.changed, self._on_settings),
                (self.gates.changed, self._on_settings),
                (self.context_box.changed, self._show_context),
                (self.table.row_picked, self._on_region),
                (self.matrix.pair_picked, self._on_pair),
                (self.route_table.row_picked, self.layers.show_route),
                (self.results.files.status_changed, self.show_status),
                (self.results.files.error_occurred, self.show_error),
            )
        )
        boxes = self.field_box, self.atlas_box, self.source_box, self.compared_box
        for one in (*boxes, self.gates, self.sure_box, self.results, self.tool, self._painted):
            self.own(one)

    def _fill(self) -> None:
        top = QFormLayout()
        self.header.addRow("Flow in", self.field_box)
        self.header.addRow("Regions", self.atlas_box)
        top.addRow("From", self.source_box)
        top.addRow("Beside it", self.compared_box)
        self.inputs.addLayout(top)
        self.inputs.addWidget(self.context_box)
        self.inputs.addWidget(heading("Regions that it reaches", self))
        self.inputs.addWidget(self.results)
        self.result_head.addWidget(self.results.head)
        self.results.content.addWidget(self.table)
        self.result_head.addWidget(self.route_table)
        self.route_table.hide()
        add, save = self.results.add_button, self.results.add_saving
        add("Fibers along…", "Track fibers in the FODs that follow the routes on screen", self.track_along)
        add("Where it ends", "Show where the mass of the source ends, as an image", self.show_losses)
        add("Copy table", "Copy the selected rows, or all of them (Ctrl+C)", self.table.copy)
        save("Save table…", "Save all regions as CSV", "CSV (*.csv)", self._table_file)
        save("Save matrix…", "Save the matrix below as CSV, with names", "CSV (*.csv)", self._matrix_file)
        save("Save repeats…", "Save how sure the ranks are as npz, with all repeats", "npz (*.npz)", self._repeats_file)
        save("Save matrices…", "Save all matrices of the regions as npz", "npz (*.npz)", self._matrices_file)
        for title, form in (
            ("Pass and avoid", self.gates), ("How sure", self.sure_box), ("All regions", self.matrix),
            ("Flow", self.form), ("Routes", self.route_form), ("Fibers along routes", self.along_form),
        ):  # fmt: skip
            folded = Folded(title, self)
            folded.fold(form)
            self.inputs.addWidget(folded)

    # -- the source -----------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether anything runs or is about to."""
        return self.running or self.waiting or self._moves.is_busy or self._again.isActive()

    @property
    def found(self) -> Found | None:
        """The result that is shown."""
        return self._found

    def place(self, center_mm: tuple[float, float, float], *, compared: bool = False) -> None:
        """Put the source (or the one beside it) at a world position in mm."""
        self.tool.place(COMPARED if compared else SOURCE, world_to_viewer(center_mm))

    def _clicked_layer(self) -> Any | None:
        """What a click in 3-D hits: the map of the flow, or what it flows in."""
        shown = self.layers.find(SOURCE)
        return self.field_box.layer if shown is None else shown

    def _on_placed(self, layer: Any) -> None:
        """Choose a source that is new; of one that is chosen its list tells that it was moved."""
        box = self.compared_box if layer == self.tool.layer_of(COMPARED) else self.source_box
        if box.layer != layer:
            box.choose(layer, 0)
        if self._found is None:
            self.run_again(end_first=False)

    def _on_atlas(self, *_: Any) -> None:
        self._painted.refresh()
        self._forget_ground()

    def _forget_ground(self, *_: Any) -> None:
        """Prepare anew at the next run."""
        self._prepared = None

    def _show_context(self) -> None:
        """Show in 3-D what mass flows in as chosen, through the source."""
        layer, found = self.field_box.layer, self._found
        if layer is not None and found is not None:
            self.context_box.set_depiction(layer, world_to_viewer(found.moved.flow.center_mm))

    def _on_settings(self) -> None:
        self._forget_ground()
        if self._found is not None:
            self._again.start()

    def _follow(self) -> None:
        """Follow a source that was moved: at once where the ground is prepared, else by a run.

        Without a result nothing is followed: which layers there are asks for nothing.
        """
        if self._found is None or not self.may_follow():
            return
        if self._prepared is None:
            self.run_again(end_first=False)
            return
        try:
            self.check_inputs()
            sources = self._source(), self._compared()
        except InvalidInput as error:
            self.show_error(f"{error}.")
            return
        prepared = self._prepared
        self._moves.submit(lambda stop: found_steps(prepared, *sources, stop))

    def _on_moved(self, outcome: Outcome) -> None:
        if outcome.error:
            self.show_error(outcome.error)
        elif outcome.result.prepared is self._prepared:
            self.show_error("")
            self.show_result(outcome.result)

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Found]:
        """Read the inputs and return the preparation of the ground, and the move of the source."""
        self._moves.cancel()
        return found_steps(self._prepared or self._inputs(), self._source(), self._compared(), stop)

    def _inputs(self) -> Inputs:
        layer, atlas = self.field_box.needed(NO_FIELD), self.atlas_box.layer
        if (field := field_in(layer)) is None:
            raise InvalidInput(NO_FIELD)
        source = None if atlas is None else AtlasSource(atlas)
        how: dict[str, Any] = {"settings": self.form.value(), "gates": self.gates.chosen(), "device": self.device}
        return Inputs(field=field, atlas=source, **how)

    def _source(self) -> ChosenRegion:
        return self.source_box.chosen("where fibers start, or click in the brain")

    def _compared(self) -> ChosenRegion | None:
        return None if self.compared_box.layer is None else self.compared_box.chosen("what to compare with")

    def keep_result(self, found: Found) -> None:
        """Keep what further sources can flow on."""
        self._prepared = found.prepared if found.prepared.complete else None

    def show_result(self, found: Found) -> None:
        """Show the maps and the regions that are reached."""
        self.keep_result(found)
        self._found = found
        for which, moved in ((SOURCE, found.moved), (COMPARED, found.compared)):
            self.layers.show_mass(which, moved)
        self._show_found(found)
        self._forget_routes(found)
        self._show_context()
        self.stale_line.show_of(lambda: found.moved.operation)

    def show_kept(self) -> None:
        """Show what undo has brought back, or nothing."""
        if self._found is None:
            self.results.clear()
        else:
            self._show_found(self._found)
            self._show_routes()

    def _show_found(self, found: Found) -> None:
        flow, other = found.moved.flow, found.compared
        picked = self._picked_label()
        atlas = self.atlas_box.layer
        sure = self._sure_of(found)
        ranked = [] if sure is None else sure.ranked
        self._listed = self.table.show_flow(flow, None if other is None else other.flow, ranked, partial(_color, atlas))
        self.table.pick(next((n for n, one in enumerate(self._listed) if one.label == picked), -1))
        self.table.setVisible(bool(self._listed))
        self.matrix.show_flow(flow.ground.flow)
        notes = [("ok", note) for note in flow.notes]
        regions = len(flow.ground.names)
        if len(self._listed) == MAX_ROWS < regions:
            notes.append(("ok", f"The first {len(self._listed)} of {regions:,} regions are listed; a file has all."))
        if sure is not None:
            notes = [("ok", note) for note in sure.repeats.notes]
        self._show_numbers(flow.message if sure is None else sure.message, notes)

    def _sure_of(self, found: Found) -> Sure | None:
        """How sure the ranks of a result are, if that is known of these very numbers."""
        sure = self._sure
        return None if sure is None or sure.found.moved.operation != found.moved.operation else sure

    def repeat(self) -> None:
        """Repeat the flow of the source along FODs that the scan could as well have given."""
        try:
            steps = self.sure_box.steps_of(self._found)
        except InvalidInput as error:
            self.show_error(f"{error}.")
            return

        def show(sure: Sure) -> None:
            self._sure = sure
            if self._found is not None:
                self._show_found(self._found)

        self.run_other(lambda stop: silent(steps(stop)), show)

    def _picked_label(self) -> int:
        row = self.table.picked
        return self._listed[row].label if 0 <= row < len(self._listed) else 0

    # -- routes ---------------------------------------------------------------------------------------------------

    def _on_region(self, _row: int) -> None:
        """Find the routes from the source to the region that was clicked."""
        if (label := self._picked_label()) and self._found is not None:
            self._find_routes(self._found.source, label)

    def _on_pair(self, one: int, other: int) -> None:
        """Find the routes between the regions of a cell."""
        if self._found is not None and (atlas := self._found.prepared.inputs.atlas) is not None:
            self._find_routes(ChosenRegion(self.atlas_box.layer, one, atlas.atlas.region(one)), other)

    def _find_routes(self, source: ChosenRegion, label: int) -> None:
        assert self._found is not None
        prepared = self._found.prepared
        atlas, settings = prepared.inputs.atlas, self.route_form.value()
        assert atlas is not None  # whose labels are shown
        fixels, target = prepared.ground.fixels, atlas.atlas.region(label)
        device, end = self.device, ChosenRegion(self.atlas_box.layer, label, target)
        made, walls = prepared.sources, prepared.inputs.walls

        def make(stop: threading.Event) -> Generator[Step, None, Any]:
            routes = yield from routes_steps(fixels, source.region, target, settings, **walls, device=device, stop=stop)
            inputs = {name: made[name] for name in ("fixels", *ROLES)}
            operation = FindRoutes(source=source.output(), target=end.output(), settings=settings, **inputs)
            return routes, operation, pack_fibers(routes.tractogram)

        self.run_other(make, lambda made: self._on_routes(*made))

    def _on_routes(self, routes: FlowRoutes, operation: FindRoutes, lines: Lines) -> None:
        """Show routes as lines, and their density as an image."""
        self._routes = routes, operation
        name = f"{routes.source} → {routes.target}"
        volume = Volume(array=routes.density, affine=routes.flow.affine, name=f"routes {name}")
        look = {"colormap": "green", "blending": "additive", "contrast_limits": (0.0, 0.5)}
        self.layers.show_image("density", volume, operation.output("density"), **look)
        self.layers.show_lines("routes", name, routes.tractogram, lines, operation.output("fibers"), "share")
        self._show_routes()

    def _show_routes(self) -> None:
        self.route_table.setVisible(self._routes is not None and len(self._routes[0]) > 0)
        if self._routes is None:
            return
        routes, _ = self._routes
        self.route_table.show_routes(routes.table())
        notes = [("ok", note) for note in routes.notes]
        if not routes.complete:
            notes.append(("warning", "The search was stopped, so there may be more."))
        self._show_numbers(routes.message, notes)

    def _show_numbers(self, message: str, notes: list[tuple[str, str]]) -> None:
        self.results.show_numbers((), notes)
        self.results.head.setText(message)
        self.results.head.show()

    def _forget_routes(self, found: Found) -> None:
        """Routes of another source, or through other gates, stay on screen as they are, and leave the table."""
        if self._routes is not None:
            made, now = self._routes[1], found.moved.operation
            if any(getattr(made, name) != getattr(now, name) for name in ("source", "fixels", *ROLES)):
                self._routes = None
        self.route_table.setVisible(self._routes is not None)

    def track_along(self) -> None:
        """Track fibers in the FODs that follow the routes on screen."""
        try:
            if self._routes is None or not len(self._routes[0]):
                raise InvalidInput("there are no routes on screen; click a region in the table first")
            assert self._found is not None
            fods = self._found.prepared.inputs.field
            if not isinstance(fods, FodField):
                raise InvalidInput("fibers along routes are tracked in FODs; choose FODs above, not fixels")
            how = self.along_form.value()
        except GpuBioError as error:
            self.show_error(f"{error}.")
            return
        (routes, found), device = self._routes, self.device

        def make(stop: threading.Event) -> Generator[Step, None, Any]:
            steps = fibers_along_steps(fods, routes.tractogram, how.settings, how.method, device=device, stop=stop)
            fibers = yield from silent(steps)
            operation = TrackAlongRoutes(
                fods=output_of(fods), routes=found.output("fibers"), settings=how.settings, method=how.method
            )
            return fibers, operation, pack_fibers(fibers)

        def show(made: tuple[Tractogram, TrackAlongRoutes, Lines]) -> None:
            fibers, operation, lines = made
            name = f"fibers {routes.source} → {routes.target}"
            self.layers.show_lines("along", name, fibers, lines, operation.output(), "route")
            self.show_note(notes_text(fibers.notes))

        self.run_other(make, show, warms=("fibers/streamlines in FODs", "gui/streamlines"))

    def show_losses(self) -> None:
        """Show where the mass of the source ends."""
        assert self._found is not None  # the button needs a result
        self.layers.show_losses(self._found.moved)
        ended = self._found.moved.flow.flow.endings_text(1)
        self.show_status(f"what became of the mass: {ended}")

    # -- files and the script -------------------------------------------------------------------------------------

    def _table_file(self) -> Saving:
        assert self._found is not None  # the button needs a result
        flow = self._found.moved.flow
        return f"{file_name(flow.name)} flow.csv", MovedFromSource(flow).table.write

    def _matrix_file(self) -> Saving:
        write = partial(self.matrix.flow.save_csv, matrix=self.matrix.matrix)
        return f"flow {self.matrix.quantity.currentData()}.csv", write

    def _repeats_file(self) -> Saving:
        if self._sure is None:
            raise InvalidInput("the flow has not been repeated yet; press How sure… below")
        return f"{file_name(self._sure.found.source.region.name)} repeats.npz", self._sure.repeats.save

    def _matrices_file(self) -> Saving:
        return "flow.npz", self.matrix.flow.save

    def script_layers(self) -> list[Shown]:
        """Return the layers of the results on screen, or that of a run with the inputs as they stand."""
        shown = pictures(self.layers.there())
        return shown or [Shown(self.take_draft()().output("mass"), "flow")]

    def take_draft(self) -> Callable[[], FlowFromSource]:
        """Read the inputs, and return what makes an operation of them."""
        inputs, source = self._inputs(), self._source()
        return lambda: inputs.operation(source)

    def show_draft(self, operation: Operation) -> bool:
        """Show a flow, if layers have its fixels, source and regions."""
        if not isinstance(operation, FlowFromSource):
            return False
        self.form.set_value(operation.settings)
        inputs = dict(operation.inputs())

        def has_fixels(layer: Any) -> bool:
            field = field_in(layer)
            return field is not None and fixels_output(field) == inputs["fixels"]

        has_field = self.field_box.choose_where(has_fixels)
        has_source = self.source_box.choose_output(inputs["source"])
        atlas = inputs.get("atlas")
        if atlas is None:
            self.atlas_box.setCurrentIndex(-1)
            return has_field and has_source
        has_atlas = self.atlas_box.choose_where(lambda layer: AtlasSource(layer).output() == atlas)
        return has_atlas and has_field and has_source

    def teardown(self) -> None:
        """End runs and let go of the results."""
        self._again.stop()
        self._moves.abandon()
        super().teardown()
        self._found = self._routes = self._prepared = self._sure = None
        self.layers.detach()


def _color(atlas: Any | None, label: int) -> Any:
    """Color of a label on screen."""
    layer = unwrapped(atlas)
    return layer.get_color(label) if isinstance(layer, Labels) else None
