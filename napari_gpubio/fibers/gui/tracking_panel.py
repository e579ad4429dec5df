"""The dock widget "Fiber tracking": click a seed, see its fibers, drag it."""

import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtWidgets import QSizePolicy

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.napari_io import carried, grid_of, volume_layer, volume_of
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.space import world_to_viewer
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import file_name
from napari_gpubio.diffusion.fods.napari_io import fixels_of, fods_of
from napari_gpubio.diffusion.gui.fods.making import STOPPED, Deconvolved, add_fods
from napari_gpubio.diffusion.gui.records import (
    add_maps,
    field_of_layer,
    field_steps,
    pictures,
    record_of_field,
)
from napari_gpubio.diffusion.gui.source import (
    DECONVOLVING,
    FITTING,
    HINT,
    NO_TENSORS,
    Field,
    Trackable,
    is_rgb,
    trackable_of,
    why_not_trackable,
)
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.napari_io import field_of
from napari_gpubio.diffusion.regions import Region
from napari_gpubio.fibers.gui.bundles import Bundle, BundleList, Position
from napari_gpubio.fibers.gui.controller import SeedController
from napari_gpubio.fibers.gui.crossing_finder import CrossingFinder
from napari_gpubio.fibers.gui.fiber_display import CROSSINGS, FiberDisplay, key_of, settings_of
from napari_gpubio.fibers.gui.fod_offer import FodOffer
from napari_gpubio.fibers.gui.inputs import ContextBox, SeedBox
from napari_gpubio.fibers.gui.methods import MethodForms
from napari_gpubio.fibers.gui.tracing import BundleSettings, Draft, Traced, traced_steps
from napari_gpubio.fibers.operations import Track, TrackInFixels, TrackInFods
from napari_gpubio.fibers.run import track_to_file_steps
from napari_gpubio.fibers.seeds import AtPoints, InRegion, white_matter
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import connect_all, single_shot
from napari_gpubio.gui.file_dialogs import opens_with, saves_with
from napari_gpubio.gui.forms import notes_text, row_of
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.lines import Lines
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.gui.run_parts import Pieces
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.gui.views import ViewBox
from napari_gpubio.tractograms.gui.fibers import (
    TRACTOGRAMS,
    count_text,
    fibers_of,
    fibers_to_save,
    pack_fibers,
    place_warning,
)
from napari_gpubio.tractograms.gui.results import FiberBox
from napari_gpubio.tractograms.io.tractograms import read_tractogram, write_tractogram
from napari_gpubio.tractograms.model import Tractogram

if TYPE_CHECKING:
    import napari.viewer

_IN_TENSORS = (*FITTING, "fibers/fiber tracking", "gui/streamlines")
_IN_FODS = "fibers/streamlines in FODs", "gui/streamlines"
PREVIEW_FIBERS = 200
RETRACK_MS = 300


class TrackingPanel(EnginePanel):
    """Track fibers from clicked seeds."""

    marks_stale = False  # each bundle says so of itself
    warms = ("diffusion", "fibers", "gui")
    warms_first = _IN_TENSORS

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer, run_text="Track")
        self._preview, self._crossings = LatestJob(self), CrossingFinder(self.viewer, self)
        self._retrack = single_shot(RETRACK_MS, self.track_again, self)
        self._fill()
        self.bundles = BundleList(theme.REGIONS)
        self.display = self.run_display = FiberDisplay(viewer, self.bundles, self)
        self.controller = SeedController(
            self.seed_box, self.bundles, self.display, lambda: self.source, self._clicked_layer, self
        )
        self._connect()
        for part in (self.source_box, self.fod_offer, self.seed_box, self.view_box, self.results, self.controller):
            self.own(part)
        self._on_source()
        self._show_use()

    def _fill(self) -> None:
        self.source_box = LayerBox(self.viewer, why_not_trackable, empty=HINT, parent=self)
        self.seed_box = SeedBox(self.viewer, self)
        self.methods = MethodForms(self)
        self.directions_form, self.settings_form = self.methods.directions, self.methods.tracking
        self.results = FiberBox(self.viewer, self)
        self.results.add_button(
            "Open fibers…",
            "Open a trk, tck, trx, or vtk file beside the bundles",
            opens_with(self, "Open fibers", TRACTOGRAMS, self.open_fibers),
            needs_result=False,
        )
        self.results.add_button(
            "Save fibers…", "Save the fibers of these results as trk, tck, trx, or vtk", self._ask_to_save
        )
        tip = "Copy the selected rows of the table above, or all of them (Ctrl+C)"
        self.results.add_button("Copy numbers", tip, self.results.table.copy)
        self.results.add_button(
            "Track to file…",
            "Trace the fibers and write them to a trx or tck file as they come, for more than memory holds",
            saves_with(self, "Track to a file", "Tractograms (*.trx *.tck)", "brain.trx", self.track_to_file),
            needs_result=False,
        )
        self.result_head.addWidget(self.results.head)
        self.results.add_table_menu()
        self.view_box = ViewBox(self.viewer, self)
        self.context_box = ContextBox(self)
        self.fod_offer = FodOffer(self.viewer, self.source_box, self.track_in_fods, self)
        self.source_box.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)  # the button is beside it
        self.header.addRow("Track in", row_of(self.source_box, self.fod_offer.button))
        self.header.addRow(self.fod_offer)
        self.inputs.addWidget(self.view_box)
        for title, *parts in (
            ("Seeds", self.seed_box),
            ("Result", self.results),
            ("Fibers", self.directions_form, self.settings_form),
            ("3-D", self.context_box),
        ):
            self.inputs.addWidget(heading(title, self))
            for part in parts:
                self.inputs.addWidget(part)

    def _connect(self) -> None:
        controller, display, results = self.controller, self.display, self.results
        connect_all(
            (
                (self.source_box.currentIndexChanged, self._on_source),
                (controller.seed_placed, self.track_again),
                (controller.seed_dragged, self._on_drag),
                (controller.bundles_changed, self._on_bundles),
                (controller.bundle_duplicated, self._load_settings),
                (controller.fibers_chosen, results.describe_layer),
                (results.layer_described, self._show_settings),
                (results.layer_described, self._show_launch),
                (results.layer_described, self._mark_stale),
                (self.run_finished, self._mark_stale),
                (self.seed_box.region_box.changed, self._show_launch),
                (self.device_changed, self._show_launch),
                (self.seed_box.whole_brain.clicked, self.seed_whole_brain),
                (self.seed_box.load.clicked, lambda: self._load_settings(self.results.layer)),
                (controller.error_occurred, self.show_error),
                (controller.tool.fiber_clicked, self._on_fiber_clicked),
                (display.tensors_shown, self.source_box.choose),
                (display.fibers_shown, self._on_fibers),
                (display.note_occurred, self.show_note),
                (self.methods.changed, self._on_settings),
                (self.seed_box.form.changed, self._on_settings),
                (results.files.status_changed, self.show_status),
                (results.files.error_occurred, self.show_error),
                (self.context_box.changed, self._show_context),
                (self._preview.finished, self._on_preview),
                (self.methods.changed, self._show_use),
                (self.source_box.currentIndexChanged, self._show_use),
                (self.run_finished, self._find_crossings),
                (results.layer_described, self._find_crossings),
                (self._crossings.found, self._show_settings),
                (self._crossings.note_occurred, self.show_note),
            )
        )

    # -- inputs ---------------------------------------------------------------------------------------------------

    @property
    def source(self) -> Trackable | None:
        """The chosen layer's FODs, tensors, or diffusion scan, or None."""
        return trackable_of(self.source_box.layer)

    @property
    def field(self) -> Field | None:
        """The chosen FODs or tensors, or None while there is only a scan."""
        source = self.source
        return None if source is None or isinstance(source, DiffusionScan) else source

    @property
    def is_busy(self) -> bool:
        """Whether anything runs or is about to: a run, a preview, fibers to be traced again, a file."""
        waiting = self._retrack.isActive() or self._preview.is_busy or self._crossings.is_busy
        return self.running or waiting or self.results.files.is_busy

    def _on_source(self, *_: Any) -> None:
        self.methods.offer(self.source)
        self.controller.refresh()
        self._show_settings()
        self._show_launch()

    def _on_settings(self) -> None:
        """Follow the settings: the fibers on screen are traced again, once the user pauses."""
        self._show_settings()
        self._show_launch()
        layer = self.results.layer
        if layer is not None and key_of(layer) == self._key():
            self._retrack.start()

    def _show_launch(self, *_: Any) -> None:
        """Tell how many fibers Track launches from a region, about how long that takes, and how much memory."""
        text = ""
        if self.seed_box.region_box.layer is not None:
            with suppress(GpuBioError):  # Track says what is missing
                draft = self._draft()
                made = [
                    fibers
                    for layer in self.viewer.layers
                    if (settings := settings_of(layer)) is not None and (fibers := fibers_of(layer)) is not None
                    if type(settings.method) is type(draft.settings.method)
                ]
                text = f"Track launches {draft.launch_text(made)}."
        self.seed_box.launch.setText(text)
        self.seed_box.launch.setVisible(bool(text))

    def _load_settings(self, layer: Any | None) -> None:
        """Show the settings that made the fibers of a layer, which stay as they are."""
        settings = None if layer is None else settings_of(layer)
        if settings is None:
            return
        self.seed_box.show_seeds(settings.seeds)
        self.methods.show(settings.directions, settings.method)
        self._retrack.stop()

    def _show_settings(self) -> None:
        """Tell what the fibers of the results were traced with."""
        layer = self.results.layer
        made = None if layer is None else settings_of(layer)
        try:
            differ = made is not None and made != self._settings_like(made)
        except InvalidInput:  # what the form holds is no settings
            differ = True
        crossings = () if layer is None else carried(layer, CROSSINGS) or ()
        self.seed_box.show_settings(made, differ=differ, crossings=notes_text(crossings))

    def _show_use(self, *_: Any) -> None:
        """Say what the chosen method is for."""
        with suppress(InvalidInput):  # a run says why the form holds no method
            self.fod_offer.show_use(self.settings_form.value())

    def _mark_stale(self) -> None:
        """Say where the current bundle was made with other inputs; of fibers of a file there is nothing to say."""
        layer = self.results.layer
        made = None if layer is None or key_of(layer) != self._key() else record_of(layer)
        self.stale_line.show_of(None if made is None else lambda: made.of)

    def _key(self) -> object:
        """What the fibers of the next run belong to: a bundle, or a label region."""
        labels, bundle = self.seed_box.region_box.layer, self.bundles.current
        if labels is not None:
            return f"region {labels.name} {self.seed_box.label}"
        return None if bundle is None else bundle.key

    def _clicked_layer(self) -> Any | None:
        """Layer whose volume a click means: one that can be clicked in 3-D too, if there is one."""
        return self._scalar_map() or self.source_box.layer

    def _scalar_map(self) -> Any | None:
        """A scalar map of the chosen tensors or FODs, a visible one first."""
        field = self.field
        shown = [
            x for x in self.viewer.layers if field is not None and field in (field_of(x), fods_of(x), fixels_of(x))
        ]
        maps = [layer for layer in shown if not is_rgb(layer)]
        return next((layer for layer in maps if layer.visible), maps[0] if maps else None)

    # -- seeds ----------------------------------------------------------------------------------------------------

    def place_seed(self, center_mm: Position, *, new: bool = False) -> None:
        """Put the current bundle's seed (or a new one's) at a world position in mm, and track it."""
        self.controller.place_seed(center_mm, new=new)

    def seed_whole_brain(self) -> None:
        """Make a labels layer of the white matter, and seed from it; a scan is fitted first."""
        try:
            self.source_box.check_there()
            layer, source = self.source_box.needed(NO_TENSORS), self.source
            if source is None:
                raise InvalidInput(NO_TENSORS)
        except InvalidInput as error:
            self.show_error(f"{error}.")
            return
        device, study = self.device, layer.name

        def make(stop: threading.Event) -> Generator[Step, None, Any]:
            field = yield from field_steps(source, device, stop)
            return field, white_matter(field) if field.complete else None

        def show(found: tuple[Field, Any]) -> None:
            field, voxels = found
            if voxels is None:
                return
            if isinstance(source, DiffusionScan) and isinstance(field, TensorField):
                self.source_box.choose(add_maps(self.viewer, field, source, study))
            data, keywords, _ = volume_layer(voxels.astype(np.uint8), field.affine, "white matter", kind="labels")
            active = self.viewer.layers.selection.active
            labels = self.viewer.add_labels(data, visible=False, **keywords)  # which would cover the fibers
            if active is not None:
                self.viewer.layers.selection.active = active
            self.seed_box.region_box.choose(labels, 1)
            self.show_status(f"{np.count_nonzero(voxels):,} voxels of white matter; press Track")

        self.run_other(make, show, warms=FITTING)

    def track_to_file(self, path: str | Path) -> None:
        """Trace with the inputs as they stand and write the fibers to a file as they come; nothing is shown."""
        try:
            self.check_inputs()
            draft = self._draft()
        except InvalidInput as error:
            self.show_error(f"{error}.")
            return
        how = draft.settings.directions, draft.settings.method

        def make(stop: threading.Event) -> Generator[Step, None, int]:
            field = yield from field_steps(draft.source, draft.device, stop)
            seeds = draft.seed_points(field)
            return (yield from track_to_file_steps(str(path), field, seeds, *how, device=draft.device, stop=stop))

        name = Path(path).name
        show = lambda count: self.show_status(f"{self.status}: {count:,} fibers in {name}")  # noqa: E731
        self.run_other(make, show)

    def _on_bundles(self) -> None:
        current = self.bundles.current
        self.results.describe_layer(None if current is None else self.display.fiber_layer(current.key))
        self._show_context()

    def _show_context(self) -> None:
        """Show FA in 3-D as chosen in the panel."""
        layer, field, bundle = self._scalar_map(), self.field, self.bundles.current
        if layer is not None and field is not None and bundle is not None:
            self.context_box.set_depiction(layer, world_to_viewer(bundle.center_mm))

    def _find_crossings(self, *_: Any) -> None:
        if not self.running:
            self._crossings.find(self.results.layer, self.device)

    def track_in_fods(self) -> None:
        """Choose the FODs of what is tracked in; they are made first if there are none."""
        wanted = self.fod_offer.deconvolution
        if self.fod_offer.layer is not None:
            self.source_box.choose(self.fod_offer.layer)
        elif wanted is not None:
            device = self.device
            self.run_other(lambda stop: wanted.steps(device, stop), self._show_fods, warms=DECONVOLVING)

    def _show_fods(self, made: Deconvolved | None) -> Pieces:
        """Show FODs as their own panel does; whole ones whose axes are right are chosen."""
        if made is None or not made.fods.mask.any():
            self.show_note(STOPPED.format("Make FODs"))
            return
        layer, fods = (yield from add_fods(self.viewer, made)), made.fods
        self.display.raise_fibers()
        early = () if fods.complete else ("The deconvolution was stopped early: only part of the volume has FODs.",)
        wrong = () if made.check is None or made.check.ok else (made.check.message,)
        if fods.complete and not wrong:
            self.source_box.choose(layer)
            self.show_status(f"{self.status}; click, or press Track, for fibers in {layer.name}")
        self.show_note(notes_text([*early, *wrong, *fods.notes]))
        self._find_crossings()

    def _on_drag(self, moved: Bundle) -> None:
        """Trace fewer fibers of the same fan, to follow the mouse."""
        self._crossings.cancel()
        if self.field is not None:
            draft = self._draft_of(moved, None).thinned(PREVIEW_FIBERS)
            self._preview.submit(lambda stop: traced_steps(draft, stop))

    def _on_preview(self, outcome: Outcome) -> None:
        if outcome.result is not None:
            self.display.show_preview(outcome.result)

    # -- running --------------------------------------------------------------------------------------------------

    def track_again(self) -> None:
        """Track with the inputs as they stand; tracking under way is ended first, a fit is waited for."""
        self._preview.cancel()
        self._crossings.cancel()
        self._retrack.stop()
        self.run_again(end_first=self.field is not None)

    def needs(self) -> tuple[str, ...]:
        """What tracking in the chosen tensors, scan, FODs or fixels needs."""
        return _IN_TENSORS if self.field is None or isinstance(self.field, TensorField) else _IN_FODS

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Traced]:
        """Read the inputs and return the tracking of the current bundle; `FiberDisplay` shows what it gives."""
        return traced_steps(self._draft(), stop)

    def _draft(self) -> Draft:
        return self._draft_of(self.bundles.current, self.seed_box.region_box.layer)

    def _draft_of(self, bundle: Bundle | None, labels: Any | None) -> Draft:
        layer, source, region = self.source_box.needed(NO_TENSORS), self.source, None
        if source is None:
            raise InvalidInput(NO_TENSORS)
        if labels is None and bundle is None:
            raise InvalidInput("there is no seed; click in the brain, or choose a label region to seed from")
        name, center = ("", None) if bundle is None else (bundle.name, bundle.center_mm)
        if labels is not None:
            if not self.seed_box.label:
                raise InvalidInput(f"the labels {labels.name!r} are empty; paint the region to seed from")
            label = self.seed_box.label
            name, center, whose = f"{labels.name} {label}", None, f"label {label} of {labels.name}"
            region = Region(name=whose, voxels=volume_of(labels) == label, affine=grid_of(labels)[0])
        key = self._key() if labels is not None or bundle is None else bundle.key
        shown = self.display.fiber_layer(key)
        return Draft(
            key=key,
            name=name,
            study=layer.name,
            source=source,
            settings=self._settings(self.seed_box.seeds_at(center), "" if region is None else region.name),
            device=self.device,
            region=region,
            record=record_of_field(layer),
            paint=None if shown is None else shown.paint,
        )

    def _settings(self, seeds: AtPoints | InRegion, region: str = "") -> BundleSettings:
        """The settings on show, with seeds."""
        directions, method = self.methods.launched(), self.settings_form.value()
        return BundleSettings(seeds=seeds, directions=directions, method=method, region=region)

    def _settings_like(self, made: BundleSettings) -> BundleSettings:
        """The settings on show, where those of other fibers begin."""
        seeds = made.seeds
        return self._settings(self.seed_box.seeds_at(seeds.seed[0] if isinstance(seeds, AtPoints) else None))

    def teardown(self) -> None:
        """End runs, give the mouse back and free what is kept on a GPU."""
        self._retrack.stop()
        self._preview.abandon()
        self._crossings.abandon()
        if self.field is not None:
            self.field.cache.clear()
        super().teardown()

    # -- results --------------------------------------------------------------------------------------------------

    def _on_fibers(self, layer: Any) -> None:
        if key_of(layer) == self._key():
            self.results.describe_layer(layer)

    def _on_fiber_clicked(self, layer: Any, fiber: int) -> None:
        layer.select_fiber(fiber)
        self.controller.choose_layer(layer)
        self.results.describe_fiber(layer, fiber)

    def _ask_to_save(self) -> None:
        layer = self.results.layer
        if layer is not None:
            fibers = fibers_to_save(layer)
            title, name = f"Save {count_text(len(fibers), len(layer.lines))}", file_name(layer.name) + ".trk"
            self.results.files.ask_to_write(title, TRACTOGRAMS, name, lambda: partial(_save, fibers))

    def save(self, fibers: Tractogram, path: str | Path) -> None:
        """Write fibers to a file, in a worker; what goes wrong is shown as a sentence."""
        self.results.files.write(Path(path), partial(_save, fibers))

    def open_fibers(self, path: str | Path) -> None:
        """Show the fibers of a file in a layer of their own, once read; what goes wrong is shown as a sentence."""
        path, source = Path(path), self.source
        reference = None if source is None else (source.affine, source.shape)

        def read(path: Path) -> tuple[Tractogram, Lines]:
            fibers = read_tractogram(path, reference=reference)
            return fibers, pack_fibers(fibers)

        self.results.files.read(path, read, lambda found: self._show_file(path, *found))

    def _show_file(self, path: Path, fibers: Tractogram, lines: Lines) -> None:
        layer = self.display.set_fibers(str(path), path.name, fibers, lines)
        self.viewer.layers.selection.active = layer
        self.results.describe_layer(layer)
        warning = place_warning(fibers, layer.name, [x for x in self.viewer.layers if x == self.source_box.layer])
        if notes := notes_text([*fibers.notes, warning]):
            self.show_note(notes)

    # -- the script -----------------------------------------------------------------------------------------------

    def script_layers(self) -> list[Shown]:
        """Return the layers that are on screen; a seed that has no fibers yet is tracked."""
        labels, bundle, shown = self.seed_box.region_box.layer, self.bundles.current, pictures(self.viewer.layers)
        nothing = bundle is None and labels is None and any(isinstance(x, Streamlines) for x in self.viewer.layers)
        if self.display.fiber_layer(self._key()) is None and not nothing:
            draft = self._draft()
            shown.append(Shown(draft.operation().output(), draft.name))
        return shown

    def take_draft(self) -> Callable[[], Operation]:
        """Read the inputs, and return what makes an operation of them."""
        return self._draft().operation

    def show_draft(self, operation: Operation) -> bool:
        """Show an operation that tracks, if a layer has what it tracks in."""
        if not isinstance(operation, Track | TrackInFods | TrackInFixels):
            return False
        if not self.source_box.choose_where(lambda layer: field_of_layer(layer) == operation.field):
            return False
        self.methods.show(operation.directions, operation.method)
        self.seed_box.show_seeds(operation.seeds)
        if isinstance(operation.seeds, AtPoints):
            self.seed_box.seed_from_click()
            self.bundles.add(operation.seeds.seed[0])
            self.controller.refresh()
            is_shown = len(operation.seeds.seed) == 1
        else:
            regions = [ref for name, ref in operation.inputs() if name == "region"]
            is_shown = all(map(self.seed_box.region_box.choose_output, regions))
        self._retrack.stop()
        return is_shown


def _save(fibers: Tractogram, path: Path) -> str:
    write_tractogram(path, fibers)
    return f"saved {len(fibers):,} fibers in {path.name}"
