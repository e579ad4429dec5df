"""The mode "Voxels": place a source on a segmented volume and watch its fluence build up."""

import dataclasses
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.layer_files import MEDIA, STRUCTURES
from napari_gpubio.core.napari_io import KEY, carried, notes_of
from napari_gpubio.core.numbers import memory_text
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import file_name
from napari_gpubio.gui.actions import ActionBar, FindOutput, ResultAction, ResultContext
from napari_gpubio.gui.connections import Connections, connect_all
from napari_gpubio.gui.jobs import LatestJob, Outcome, one_step
from napari_gpubio.gui.layers import unwrapped
from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.light.gui.display import VoxelDisplayBox
from napari_gpubio.light.gui.displayed import Displayed, display_voxels, fluence_of
from napari_gpubio.light.gui.domains import Domains, TissueInputs, VoxelDraft, layer_of_tissue, opened, operation_of
from napari_gpubio.light.gui.fibers import FiberBox, names_of
from napari_gpubio.light.gui.labels import LabelBox, LabelSource
from napari_gpubio.light.gui.mode import STILL_RUNNING, LightMode
from napari_gpubio.light.gui.optode_boxes import DetectorBox, PlaceBar, SourceBox
from napari_gpubio.light.gui.optodes import montage_of
from napari_gpubio.light.gui.plots import PlotController
from napari_gpubio.light.gui.results import VoxelResultBox
from napari_gpubio.light.gui.run_box import VoxelRunBox
from napari_gpubio.light.gui.sensitivity import SensitivityMap, sensitivity_steps
from napari_gpubio.light.gui.several import case_notes, input_notes, shown_source
from napari_gpubio.light.gui.source_controller import NO_LABELS, KeptOptodes, SourceController
from napari_gpubio.light.gui.views import SENSITIVITY, SENSITIVITY_STYLE, PutAway, VoxelView
from napari_gpubio.light.io.results import media_from
from napari_gpubio.light.napari_io import result_of
from napari_gpubio.light.operations import AddPhotons, Simulate, WithFibers
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.run import needed_memory, simulate_steps
from napari_gpubio.light.settings import LightCase, LightSettings
from napari_gpubio.light.summary import sensitivity_rows
from napari_gpubio.optics.detectors import AnyDetector
from napari_gpubio.optics.gui.optical_model import KeptRows
from napari_gpubio.optics.gui.property_table import PropertyTable
from napari_gpubio.optics.io.archive import fields_of
from napari_gpubio.optics.io.nirs import read_nirs
from napari_gpubio.optics.io.snirf import Optodes as Probe
from napari_gpubio.optics.io.snirf import read_snirf
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.numbers import NumberRow
from napari_gpubio.optics.sources import Source, all_sources


@dataclass(slots=True, eq=False)
class Study:
    """What belongs to one labels layer, kept while another one is on show; ``late``: what a run has given since."""

    rows: KeptRows
    fibers: tuple[Any, int | None, str]
    optodes: KeptOptodes
    picture: PutAway
    shown: Displayed[LightResult] | None
    added_rows: tuple[NumberRow, ...]
    late: Displayed[LightResult] | None = None


class VoxelMode(LightMode[LightResult]):
    """Inputs and results of light in a labels layer."""

    run_box: VoxelRunBox
    display_box: VoxelDisplayBox
    results: VoxelResultBox
    view: VoxelView
    quick_photons, adds = 100_000, AddPhotons
    make_layers = staticmethod(display_voxels)
    operation_of = staticmethod(operation_of)

    def __init__(self, panel: EnginePanel, plots: PlotController) -> None:
        super().__init__(panel, plots)
        self._domains = Domains()
        self._labels = LabelSource(self.panel.viewer, self)
        self._need, self._load = LatestJob(self), LatestJob(self)
        inserted = self.viewer.layers.events.inserted
        self._loaded = Connections(lambda: ((inserted, self._on_inserted),))
        self._studies: WeakKeyDictionary[Any, Study] = WeakKeyDictionary()  # of layers that are not on show
        self._studied: Any = None  # the layer on show
        self._run_for: Any = None  # the layer that the last run was begun for
        self._done: tuple[LightResult | None, dict[str, FindOutput]] = None, {}  # with a result, by files of scripts
        self._fill()
        self.controller = SourceController(
            self.viewer, self.place_bar, self.source_box, self.detector_box, lambda: self._labels.tissue, self
        )
        self.view = VoxelView(self.viewer, self.display_box.show_legend, self.controller.layers.bring_to_front)
        self.labels_box = self.label_box.choice
        self._connect_parts()
        self._connect()

    def _fill(self) -> None:
        self.label_box, self.table = LabelBox(self.viewer, self), PropertyTable(self)
        self.fiber_box = FiberBox(self.viewer, self)
        self.place_bar, self.source_box = PlaceBar(self), SourceBox(self.viewer, self)
        self.detector_box = DetectorBox(self)
        self.run_box, self.display_box = VoxelRunBox(self), VoxelDisplayBox(self)
        self.results = VoxelResultBox(self.plots, self)
        self.panel.header.addRow("Labels", self.label_box.choice)
        self.actions = ActionBar(self.panel)
        self.panel.above_run.addWidget(self.actions)
        self._add_sections(
            (
                ("", (self.label_box,)),
                ("Optical properties", (self.table, self.fiber_box)),
                ("Source", (self.place_bar, self.source_box)),
                ("Detectors", (self.detector_box,)),
                ("Run", (self.run_box,)),
                ("Display", (self.display_box,)),
                ("Result", (self.results,)),
            )
        )

    def _connect(self) -> None:
        labels, controller, panel = self._labels, self.controller, self.panel
        connect_all(
            (
                (self.labels_box.currentIndexChanged, lambda *_: labels.follow(self.labels_box.layer)),
                (labels.chosen, self._on_labels),
                (labels.counted, self._on_counted),
                (labels.painted, self._on_painted),
                (labels.recolored, lambda: self._show_labels(self.table.model.labels)),
                (labels.error_occurred, panel.show_error),
                (self.table.label_selected, labels.select),
                (self.actions.requested, self._start_action),
                (controller.changed, self._on_change),
                (controller.dragged, self._on_change),
                (controller.error_occurred, panel.show_error),
                (self.detector_box.load_requested, self._ask_for_optodes),
                (self.detector_box.sensitivity_requested, self.find_sensitivity),
                (self._load.finished, self._on_loaded_layers),
                (self._need.finished, lambda outcome: self.run_box.show_need(outcome.result or "")),
            )
        )
        self.table.changed.connect(self._keep_media)
        self.fiber_box.changed.connect(self._show_carried)
        self.table.changed.connect(lambda: self.fiber_box.show_labels(names_of(self.table.model.rows)))
        for signal in (self.table.changed, self.fiber_box.changed, self.run_box.changed):
            signal.connect(panel.forget_refusal)
            signal.connect(lambda: self._on_change(quiet=True))
            signal.connect(self._find_need)

    def parts(self) -> Sequence[Any]:
        """Parts that follow the viewer."""
        followers = (self.label_box.view_box, self.fiber_box, self.source_box, self.controller)
        return (*followers, *super().parts(), self._labels, self._loaded, self.labels_box, self)

    def attach(self) -> None:
        """Do nothing: what belongs to layers comes with them."""

    def detach(self) -> None:
        """Hold no layer."""
        self._studies.clear()
        self._studied = self._run_for = None

    def jobs(self) -> Sequence[Any]:
        """What may run in the background."""
        return (*super().jobs(), self._need, self._load)

    def enter(self) -> None:
        """Take clicks again."""
        super().enter()
        self.panel.header.setRowVisible(self.labels_box, True)
        self.controller.set_active(active=True)
        self.actions.setVisible(self.results.displayed is not None)

    def leave(self) -> None:
        """Leave clicks alone."""
        super().leave()
        self.panel.header.setRowVisible(self.labels_box, False)
        self.controller.set_active(active=False)
        self.actions.hide()

    # -- inputs ---------------------------------------------------------------------------------------------------

    def draft(self) -> VoxelDraft:
        """Return the inputs; `InvalidInput` with the first problem."""
        return VoxelDraft(
            volume=self._volume(),
            source=self.controller.sources(),
            detectors=self.controller.shown.detectors,
            settings=self.run_box.settings,
        )

    def operation_finder(self, draft: VoxelDraft) -> Callable[[], Operation]:
        """Return what makes an operation of inputs."""
        return partial(draft.operation, self._domains)

    def is_made_of(self, shown: Displayed[LightResult], draft: VoxelDraft) -> bool:
        """Whether a result is of these inputs, be it with fewer or more photons."""
        return shown.inputs is not None and draft.is_same_run(shown.inputs, shown.traced)

    def take_over(self, operation: Simulate) -> bool:
        """Show labels, fibers, sources, detectors and settings of an operation."""
        tissue: Any = operation.tissue
        fibers = tissue.of if isinstance(tissue.of, WithFibers) else None
        plain: Any = tissue if fibers is None else fibers.tissue
        layer = layer_of_tissue(self.viewer, plain)
        self.labels_box.choose(layer)
        self.labels_box.settle()
        self._labels.read_domain()
        self._take_carried()
        has_fibers = self.fiber_box.show_draft(fibers)
        sources = operation.whole_sources(map(STORE.array, operation.patterns))
        notes = self._set_inputs(sources, operation.detectors, operation.settings, is_draft=True)
        self._show_notes(notes)
        return has_fibers

    def _volume(self) -> TissueInputs:
        tissue, layer = self._labels.tissue, self._labels.layer
        if tissue is None or layer is None:
            raise InvalidInput(NO_LABELS)
        path = carried(layer, "path") or layer.source.path
        saved = None if path is None or Path(path).suffix == ".npz" else Path(path)
        return TissueInputs(
            study=layer.name,
            tissue=tissue,
            media=self.table.media(),
            carried=self._labels.domain,
            fibers=self.fiber_box.value,
            path=saved,
        )

    def place_source(self, position_mm: Any, *, snap: bool = True) -> None:
        """Put the source at a world position, mm: at the surface point nearest to it, or exactly there."""
        self.controller.place_source(position_mm, snap=snap)

    def load_optodes(self, path: str | Path) -> None:
        """Take sources and detectors from a SNIRF file, read in a worker, snapped to the surface."""
        self.results.files.read(Path(path), _read_probe, self._place_optodes)

    def _place_optodes(self, read: Probe) -> None:
        try:
            if self._labels.tissue is None:
                raise InvalidInput(NO_LABELS)
            montage = montage_of(read, self._labels.tissue)
        except GpuBioError as error:
            self.panel.show_error(f"The optodes could not be loaded: {error}")
            return
        self.controller.load(montage.optodes)
        self.panel.show_note(montage.summary)

    def _ask_for_optodes(self) -> None:
        files, filters = self.results.files, "Probes (*.snirf *.nirs)"
        files.ask_to_read("Load optodes", filters, _read_probe, self._place_optodes)

    # -- the labels -----------------------------------------------------------------------------------------------

    def _on_labels(self) -> None:
        """Show what belongs to a layer: as it was left, or else what comes with it."""
        self.panel.clear_message()
        self._quick.cancel()
        self.label_box.show_tissue(self._labels.tissue)
        if self._labels.layer is None:
            self._show_labels(())
            self._show_carried()
            self.controller.refresh()
        elif self._is_new_study():
            self._take_carried()
        else:
            self._show_carried()
            self._show_notes(self._find_loaded())

    def _is_new_study(self) -> bool:
        """Put away what belongs to the layer before, and show what was kept of this one; returns whether nothing was.

        What was set before there was any layer belongs to the first one.
        """
        layer, before = unwrapped(self._labels.layer), self._studied
        self._studied = layer
        if before is None or before is layer:
            return before is None
        self._studies[before] = Study(
            rows=self.table.model.keep(),
            fibers=self.fiber_box.keep(),
            optodes=self.controller.keep(),
            picture=self.view.put_away(),
            shown=self.results.displayed,
            added_rows=self.results.added_rows,
        )
        study = self._studies.pop(layer, None)
        before_taking, self._taking = self._taking, True  # another volume is no change of this one
        try:
            self._show_study(study)
        finally:
            self._taking = before_taking
        return study is None

    def _show_study(self, study: Study | None) -> None:
        self.table.begin_with(None if study is None else study.rows)
        self._show_labels(self.table.model.labels)
        self.fiber_box.begin_with(None if study is None else study.fibers)
        self.controller.begin_with(None if study is None else study.optodes)
        if study is not None:
            self.view.take_back(study.picture)
        self.results.display(None)
        if study is not None and study.shown is not None:
            self._show_numbers(study.shown)
            self.results.add_rows(study.added_rows)
        if study is not None and study.late is not None:
            self._show_here(study.late)
        self.actions.setVisible(self.results.displayed is not None and not self.isHidden())
        self.panel.show_status("")

    def _take_carried(self) -> None:
        """Take over the optical properties that come with a layer."""
        domain, layer = self._labels.domain, self._labels.layer
        media = _media_of(layer, domain)  # before the table shows other rows, which the layer then has
        if domain is not None:
            self._show_labels(domain.labels_present)
        if media:
            self.table.set_media(media)
        self._show_carried()
        case = carried(layer, "case")
        notes = () if domain is None else domain.notes
        if isinstance(case, LightCase):
            left_out = self._set_inputs(all_sources(shown_source(case)), case.detectors, case.settings)
            notes = (*case_notes(case), *left_out)
        self._show_notes((*notes, *self._find_loaded()))
        self.controller.refresh()

    def _on_inserted(self, *_: Any) -> None:
        """Another layer: the fluence of a saved result, whose labels were there before."""
        if notes := self._find_loaded():
            domain = self._labels.domain
            self._show_notes((*(() if domain is None else domain.notes), *notes))

    def _show_notes(self, notes: tuple[str, ...]) -> None:
        said = [note.rstrip(".") for note in notes_of(self._labels.layer)]  # below the inputs, and by whom
        new = [note for note in notes if not any(one.endswith(note.rstrip(".")) for one in said)]
        if new:
            self.panel.show_note(" ".join(new))

    def _show_carried(self) -> None:
        """Say which properties come with the labels, whatever the table has."""
        self.table.show_carried(self._labels.domain, has_fibers=self.fiber_box.value is not None)

    def _set_inputs(
        self, sources: tuple[Source, ...], detectors: Sequence[AnyDetector], settings: LightSettings, **how: bool
    ) -> tuple[str, ...]:
        """Show sources, detectors and settings of a file or a session; return notes on them."""
        self.run_box.set_settings(settings)
        self.controller.load_sources(sources, detectors, **how)
        return input_notes(sources, detectors)

    def _on_counted(self, labels: tuple[int, ...]) -> None:
        self._show_labels(labels)
        self._find_need()

    def _keep_media(self) -> None:
        """Let the layer carry the names and properties of its labels, as a file of it would have them."""
        layer, media = self._labels.layer, self.table.model.complete_media()
        if layer is None or self._taking or not (media or carried(layer, MEDIA)):
            return
        names = {medium.label: medium.name for medium in media if medium.name}
        ours = layer.metadata.setdefault(KEY, {})
        ours[STRUCTURES] = {**ours.get(STRUCTURES, {}), **names}
        ours[MEDIA] = [fields_of(medium) for medium in media]

    def _show_labels(self, labels: tuple[int, ...]) -> None:
        self.table.set_labels(labels, self._labels.colors(labels))

    def _on_painted(self) -> None:
        self.controller.refresh()
        self._on_change(quiet=True)

    # -- quick runs -----------------------------------------------------------------------------------------------

    def _on_change(self, *, quiet: bool = False) -> None:
        """Follow a change of the inputs with a quick run; ``quiet``: without an error where something is missing."""
        if self._taking:
            return
        if list(self.controller.shown) or self.table.model.is_edited:
            self.labels_box.settle()  # which new labels must not take the place of, when these are hidden or deleted
        if self.panel.running:
            self.panel.note_while_running(STILL_RUNNING)
            return
        if not self.run_box.live or self.controller.shown.source is None:
            self.show_outdated(self._draft_or_none())
            return
        try:
            self.panel.check_inputs()
            draft = self.draft()
        except GpuBioError as error:
            self._quick.cancel()
            self._on_run_finished()
            if not (quiet or self._is_warned_of(str(error))):
                self.panel.show_error(str(error))
            return
        self.panel.clear_message()
        self.run_quickly(draft)

    def _draft_or_none(self) -> VoxelDraft | None:
        """The inputs, or None while something is wrong with them."""
        try:
            return self.draft()
        except GpuBioError:
            return None

    def on_quick_failed(self, sentence: str) -> None:
        """A quick run failed; what the source box already shows is not repeated."""
        if self._is_warned_of(sentence):
            self._on_run_finished()
        else:
            super().on_quick_failed(sentence)

    def _is_warned_of(self, sentence: str) -> bool:
        """Whether the source box already shows what is wrong."""
        return bool(self.source_box.warning) and self.source_box.warning in sentence

    def _find_need(self) -> None:
        """Show how much memory a run needs, before it is started."""
        try:
            volume, settings, device = self._volume(), self.run_box.settings, self.panel.device
        except GpuBioError:
            self._need.cancel()
            self.run_box.show_need("")
            return
        self._need.submit(one_step("reading the labels …", lambda: self._need_text(volume, settings, device)))

    def _need_text(self, volume: TissueInputs, settings: LightSettings, device: str) -> str:
        memory = needed_memory(self._domains.of(volume), settings, device, previews=True)
        return f"Needs about {memory_text(memory.total)} of memory."

    # -- running --------------------------------------------------------------------------------------------------

    def quick_steps(
        self, draft: VoxelDraft, device: str, stop: threading.Event, outdated: Callable[[], bool]
    ) -> Generator[Step, None, Displayed[LightResult]]:
        """Return a run of inputs without a denoiser's guide; their operation is found when it is needed."""
        yield Step(0, draft.settings.photons, "reading the labels …")
        domain = self._domains.of(draft.volume)
        later = cache(partial(draft.operation, self._domains, domain))  # which keeps its labels, whatever is painted
        how: dict[str, Any] = {"detectors": draft.detectors, "device": device, "stop": stop}
        steps = simulate_steps(domain, draft.source, draft.settings, **how)
        return (yield from self._shown(steps, later, draft, outdated))

    def find_sensitivity(self, detector: int) -> None:
        """Show where a change of absorption changes what a detector detects."""
        self.panel.run_other(lambda stop: self._sensitivity_steps(detector, stop), self._show_sensitivity)

    def _sensitivity_steps(self, index: int, stop: threading.Event) -> Generator[Step, None, SensitivityMap]:
        result = self.needed_result().result
        detector, source = self.controller.shown.detectors[index], self.controller.source()
        simulated = result.single_source("a sensitivity")
        if not all(np.allclose(getattr(simulated, of), getattr(source, of)) for of in ("position_mm", "direction")):
            raise InvalidInput("the source has moved since the result was made; press Run first")
        self._quick.cancel()
        name = detector.name or f"detector {index + 1}"
        return sensitivity_steps(result, detector, name, self.panel.device, stop, self.options)

    # -- displaying -----------------------------------------------------------------------------------------------

    def colors(self, result: LightResult) -> Mapping[int, Any]:
        """Colors of the labels of a result."""
        return self._labels.colors(result.domain.labels_present)

    def begin_run(self, fewest: int = 0) -> None:
        """A run begins, for the layer on show."""
        super().begin_run(fewest)
        self._run_for = self._studied

    def show_preview(self, preview: Displayed[LightResult]) -> None:
        """Show the layers and the numbers of a result, and offer what can be done next with it.

        That of a run for a layer which is not on show is kept until it is.
        """
        if self._run_for is self._studied:
            self._show_here(preview)
        elif self._run_for in self._studies and preview.traced.launched >= self._fewest:
            self._studies[self._run_for].late = preview

    def _show_here(self, preview: Displayed[LightResult]) -> None:
        super().show_preview(preview)
        self.actions.setHidden(self.isHidden())

    def show_result(self, result: Displayed[LightResult] | None) -> None:
        """Show what a run gave."""
        if self._run_for is not self._studied and result is not None:
            self.show_preview(result)
            self.panel.show_status(f"{self.panel.status}; choose {self._run_for.name} again to see it")
            return
        super().show_result(result)
        self.view.end_aside()  # also where a run gives what it gave before

    def _show_sensitivity(self, found: SensitivityMap) -> None:
        part = f"{SENSITIVITY}{found.detector}"
        self.view.remove(part)
        self.view.add(part, found.layer, **SENSITIVITY_STYLE)
        self.view.set_aside()
        self.controller.layers.bring_to_front()
        if self.results.result is found.source_run:
            self.results.add_rows(sensitivity_rows(found.sensitivity, found.detector))

    def _start_action(self, action: ResultAction) -> None:
        """Do something next with the displayed result."""
        layers, set_aside = {"fluence": self.view.layer(), "labels": self._labels.layer}, self.view.set_aside
        try:
            shown = self.needed_result()
            made, record = lambda: shown.operation, partial(self._record, shown.result)
            action.start(ResultContext(self.panel, shown.result, layers, self.options, set_aside, made, record))
        except GpuBioError as error:
            self.panel.show_error(str(error))

    def _record(self, result: LightResult, path: str, find: FindOutput) -> None:
        """Keep what was made of a result, until there is another one."""
        before = self._done[1] if self._done[0] is result else {}
        self._done = result, {**before, path: find}

    # -- saved results --------------------------------------------------------------------------------------------

    def on_result_read(self, path: Path, result: Any) -> None:
        """Add the layers of a saved result, and choose its labels; the rest follows from these."""
        if self.panel.running:
            self.panel.note_while_running(f"Press Stop, then open {path.name} again; the run continues.")
            return
        added = [getattr(self.viewer, f"add_{kind}")(data, **keywords) for data, keywords, kind in result]
        for layer in added:
            self.labels_box.choose(layer)

    def _find_loaded(self) -> tuple[str, ...]:
        """Continue with the fluence layer that came from the same file as the labels, if no panel has it yet.

        Returns notes on its inputs.
        """
        domain = self._labels.domain
        for layer in self.viewer.layers if domain is not None else ():
            result = result_of(layer)
            if result is not None and result.domain is domain and carried(layer, "panel") is None:
                return self._continue_loaded(layer, result)
        return ()

    def _continue_loaded(self, layer: Any, result: LightResult) -> tuple[str, ...]:
        """Continue where a result was saved: its inputs, its layers, its numbers; return notes on its inputs."""
        self._quick.cancel()
        self.view.adopt(layer)
        before, self._taking = self._taking, True  # perhaps as a part of what is taken over from a session
        try:
            notes = self._set_inputs(result.sources, result.detectors, result.settings)
        finally:
            self._taking = before
        draft = self._draft_or_none()
        inputs = draft if draft is not None and draft.describes(result) else None
        options, path = self.options, carried(layer, "path")

        def drawn() -> Displayed[LightResult]:
            return dataclasses.replace(display_voxels(result, options, opened(result, path)), inputs=inputs)

        if not self.panel.running:
            self.begin_run()
        self._load.submit(one_step("drawing", drawn))
        return notes

    def _on_loaded_layers(self, outcome: Outcome) -> None:
        if outcome.error:
            self.panel.show_error(outcome.error)
        elif not self.panel.running:
            self.show_preview(outcome.result)

    # -- the script -----------------------------------------------------------------------------------------------

    def script_files(self) -> dict[Any, str]:
        """Files that a script writes: the run, its fluence as it is displayed, and what was made of it since."""
        made, shown = self.operation(), self.results.displayed
        name = file_name(made.title if self._labels.layer is None else self._labels.layer.name)
        gates = self.run_box.settings.gate_count if shown is None else shown.traced.settings.gate_count
        fluence = fluence_of(made, gates, self.requested_options())
        result, done = self._done
        since = {find(): path for path, find in done.items() if result is self.results.result}
        since.pop(None, None)
        return {made.output(): f"{name}.npz", fluence.output(): f"{name} fluence.nii.gz", **since}


def _media_of(layer: Any, domain: Domain | None) -> tuple[Medium, ...]:
    """The optical properties that a layer carries, which were edited since its domain was made."""
    with suppress(InvalidInput):
        if (rows := carried(layer, MEDIA)) is not None:
            return media_from(rows)
    return () if domain is None else domain.media


def _read_probe(path: Path) -> Probe:
    return read_nirs(path) if path.suffix.lower() == ".nirs" else read_snirf(path)
