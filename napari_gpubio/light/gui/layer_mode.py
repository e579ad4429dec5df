"""The mode "Layers": describe layers, press Run, and see where the light goes."""

import dataclasses
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from napari_gpubio.core.device import choose_device
from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import file_name
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.layered.gui.layer_table import LayerTable
from napari_gpubio.layered.io.mci import MciRun
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.operations import AddLayerPhotons, SimulateLayers
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.light.gui.display import LayerDisplayBox
from napari_gpubio.light.gui.displayed import Displayed, DisplayOptions, display_layers, under_beam
from napari_gpubio.light.gui.layer_inputs import OPENED, BeamBox, GridBox, McmlFile, PresetBox, read_mcml, write_mcml
from napari_gpubio.light.gui.mode import STILL_RUNNING, LightMode
from napari_gpubio.light.gui.phantom import PhantomBox, PhantomController, PhantomRequest
from napari_gpubio.light.gui.plots import PlotController
from napari_gpubio.light.gui.results import LayerResultBox
from napari_gpubio.light.gui.run_box import LayerRunBox
from napari_gpubio.light.gui.views import LayerView
from napari_gpubio.optics.pictures import layer_colors

Value = TypeVar("Value")


class LayerMode(LightMode[LayeredResult]):
    """Inputs and results of light in planar layers; ``simulate_phantom`` gets labels to simulate in voxels."""

    run_box: LayerRunBox
    display_box: LayerDisplayBox
    results: LayerResultBox
    view: LayerView
    quick_photons, adds = 10_000, AddLayerPhotons
    make_layers = staticmethod(display_layers)

    def __init__(self, panel: EnginePanel, plots: PlotController, simulate_phantom: Callable[[Any], None]) -> None:
        super().__init__(panel, plots)
        self._fill()
        self.view = LayerView(self.viewer, self.display_box.show_legend, lambda: self.display_box.borders)
        self.phantoms = PhantomController(
            self.viewer, self._phantom_request, self.view.make_room, simulate_phantom, self
        )
        self._connect_parts()
        self._connect()
        self.presets.begin()

    def _fill(self) -> None:
        self.presets, self.table = PresetBox(self), LayerTable(self)
        self.beam_box, self.grid_box = BeamBox(self), GridBox(self)
        self.run_box, self.display_box = LayerRunBox(self), LayerDisplayBox(self)
        self.results, self.phantom_box = LayerResultBox(self.plots, self), PhantomBox(self)
        self._add_sections(
            (
                ("", (self.presets,)),
                ("Layers", (self.table,)),
                ("Beam", (self.beam_box,)),
                ("Grid", (self.grid_box,)),
                ("Run", (self.run_box,)),
                ("Display", (self.display_box,)),
                ("Result", (self.results,)),
                ("Voxel phantom", (self.phantom_box,)),
            )
        )

    def _connect(self) -> None:
        panel = self.panel
        connect_all(
            (
                (self.presets.chosen, self._on_chosen),
                (self.presets.open_requested, self._ask_to_open),
                (self.presets.save_requested, self._ask_to_save),
                (self.table.changed, self._on_layers),
                (self.grid_box.changed, self._on_layers),
                (self.run_box.changed, panel.forget_refusal),
                (self.run_box.changed, self._on_change),
                (self.beam_box.changed, self.update_options),
                (self.display_box.borders_changed, self.view.update_borders),
                (self.phantom_box.requested, lambda simulate: self.phantoms.make(simulate=simulate)),
                (self.phantoms.noted, panel.show_note),
                (self.phantoms.error_occurred, panel.show_error),
            )
        )

    def jobs(self) -> Sequence[Any]:
        """What may run in the background."""
        return (*super().jobs(), self.phantoms)

    # -- inputs ---------------------------------------------------------------------------------------------------

    def draft(self) -> SimulateLayers:
        """Return the inputs; `InvalidInput` with the first problem."""
        settings = self.grid_box.applied_to(self.run_box.settings)
        return SimulateLayers(medium=self.table.medium(), settings=settings)

    def operation_finder(self, draft: SimulateLayers) -> Callable[[], Operation]:
        """Return what returns inputs, which are an operation."""
        return lambda: draft

    def is_made_of(self, shown: Displayed[LayeredResult], draft: SimulateLayers) -> bool:
        """Whether a result is of these layers and this grid, be it with fewer or more photons."""
        settings = dataclasses.replace(shown.traced.settings, photons=draft.settings.photons)
        return (shown.traced.medium, settings) == (draft.medium, draft.settings)

    def take_over(self, operation: SimulateLayers) -> bool:
        """Show layers, grid and photons of an operation."""
        self._on_chosen(operation.medium, operation.settings)
        return True

    def operation_of(self, traced: LayeredResult) -> SimulateLayers:
        """Return the operation of a result of which nothing else is known."""
        return SimulateLayers(medium=traced.medium, settings=traced.settings)

    def _on_chosen(self, medium: LayeredMedium, settings: LayeredSettings) -> None:
        """Take over layers, grid and photons of a preset or a file."""
        self.panel.clear_message()
        self.grid_box.set_settings(settings)
        self.run_box.set_settings(settings)
        self.table.set_medium(medium)

    def _on_layers(self) -> None:
        """Let every part show the layers and the grid as they are now."""
        medium = _or_none(self.table.medium)
        self.presets.show_medium(medium)
        self.grid_box.show_medium(medium)
        self.phantom_box.show_inputs(medium, _or_none(lambda: self.grid_box.applied_to(LayeredSettings())))
        self.table.drawing.show_grid(self.grid_box.depth_mm)
        self._on_change()

    def _on_change(self) -> None:
        """Follow a change of the inputs with a quick run, or report that the displayed result is older."""
        if self._taking:
            return
        if self.panel.running:
            self.panel.note_while_running(STILL_RUNNING)
            return
        self.panel.clear_message()
        try:
            self.panel.check_inputs()
            draft = self.draft()
        except GpuBioError:
            self._quick.cancel()  # the problem is shown beside its input
            return
        if self.run_box.live:
            self.run_quickly(draft)
        else:
            self.show_outdated(draft)

    # -- running --------------------------------------------------------------------------------------------------

    def quick_steps(
        self, draft: SimulateLayers, device: str, stop: threading.Event, outdated: Callable[[], bool]
    ) -> Generator[Step, None, Displayed[LayeredResult]]:
        """Return a run of inputs."""
        return self._shown(draft.steps(None, device=choose_device(device), stop=stop), draft, draft, outdated)

    # -- displaying -----------------------------------------------------------------------------------------------

    def requested_options(self) -> DisplayOptions:
        """Return the display options as they stand; `InvalidInput` if the beam is wrong."""
        return dataclasses.replace(super().requested_options(), beam=self.beam_box.beam)

    def update_options(self) -> None:
        """Draw the displayed result with the options as they stand."""
        if not self.panel.running:
            self.panel.clear_message()
        super().update_options()

    def colors(self, result: LayeredResult) -> Mapping[int, Any]:
        """Colors of the layers of a result, counted from 1."""
        return dict(enumerate(layer_colors([layer.name for layer in result.medium.layers]), start=1))

    # -- files and phantoms ---------------------------------------------------------------------------------------

    def _ask_to_open(self) -> None:
        self.results.files.ask_to_read("Open an MCML file", OPENED, read_mcml, self._on_mcml)

    def _ask_to_save(self) -> None:
        title, filters = "Save an MCML input file", "MCML (*.mci)"
        self.results.files.ask_to_write(title, filters, "layers.mci", lambda: partial(write_mcml, self.draft()))

    def _on_mcml(self, read: McmlFile) -> None:
        """Offer the runs of a file, and display its result if it has one."""
        self.table.set_unit("1/cm")  # as in the file
        self.presets.offer_runs(read.path, read.runs)
        if len(read.runs) > 1:
            self.panel.show_note(f"{read.path.name} has {len(read.runs)} runs; choose one at the top.")
        if read.result is not None:
            self._display_read(read.result)

    def _display_read(self, result: LayeredResult) -> None:
        """Display a result that was read from a file."""
        self._quick.cancel()
        opened = SimulateLayers(medium=result.medium, settings=result.settings)
        self.show_preview(dataclasses.replace(display_layers(result, self.options), inputs=opened))
        self.panel.show_status("")

    def on_result_read(self, path: Path, result: LayeredResult) -> None:
        """Continue where a result was saved: its layers, its grid, its map, its numbers."""
        if self.panel.running:
            self.panel.note_while_running(f"Press Stop, then open {path.name} again; the run continues.")
            return
        output = result.medium.name or path.stem
        self.presets.offer_runs(path, (MciRun(medium=result.medium, settings=result.settings, output=output),))
        self._display_read(result)

    def _phantom_request(self) -> PhantomRequest:
        settings = self.run_box.settings
        return PhantomRequest(
            medium=self.table.medium(),
            sizes=self.phantom_box.sizes,
            source=self.presets.citation,
            beam=self.beam_box.beam,
            photons=settings.photons,
            seed=settings.seed,
            cyclic=self.phantom_box.cyclic,
        )

    # -- the script -----------------------------------------------------------------------------------------------

    def script_files(self) -> dict[Any, str]:
        """Files that a script writes: the run, and its numbers, curves and picture as they are displayed."""
        made = self.operation()
        shown, name = under_beam(made, self.requested_options()), file_name(made.title)
        files = {made.output(): f"{name}.mco", shown.output(): f"{name}.csv"}
        files[shown.output("curves")] = f"{name} curves.csv"
        if self.results.displayed is None or self.results.displayed.result.A_rz is not None:
            files[shown.output("picture")] = f"{name} map.nii.gz"
        return files


def _or_none(read: Callable[[], Value]) -> Value | None:
    """What a part of the mode gives, or None while something is wrong with it."""
    try:
        return read()
    except GpuBioError:
        return None
