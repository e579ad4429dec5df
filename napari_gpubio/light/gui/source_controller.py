"""Everything about sources and detectors between the mouse, the boxes in the panel and the layers on screen."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.space import viewer_to_world, world_to_viewer
from napari_gpubio.gui.connections import Connections, connect_all
from napari_gpubio.gui.typed_rows import typed_number
from napari_gpubio.gui.views import SliceGuide
from napari_gpubio.light.gui.labels import Sight, Tissue
from napari_gpubio.light.gui.optode_boxes import DetectorBox, KeptSource, PlaceBar, SourceBox
from napari_gpubio.light.gui.optode_layers import OptodeLayers
from napari_gpubio.light.gui.optodes import Optodes, OptodeTool, Placement, lifted
from napari_gpubio.light.gui.several import LoadedSources
from napari_gpubio.optics.detectors import AnyDetector
from napari_gpubio.optics.sources import AnySource, EmittingVolume, Isotropic, Pattern, Source, one_or_all
from napari_gpubio.optics.surface import clearance_mm, nearest_surface, source_problem

NO_LABELS = "there are no labels; choose a Labels layer, or File › Open Sample › napari-gpubio › Head phantom"
MISSED = "The click hit no tissue; click on the surface of the labels."
NO_SOURCE = "there is no source; click on the surface of the labels to place it"
_BEFORE = "The beam starts {:.2g} mm in front of the surface, so that all of it enters from outside."


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class KeptOptodes:
    """Sources and detectors of a volume while another one is on show."""

    optodes: Optodes
    loaded: LoadedSources | None
    source: KeptSource


class SourceController(QObject):
    """Keeps sources, detectors, the boxes and the drawing in step.

    ``changed``: another run would give something else; ``dragged``: the same while the mouse is still down. ``tissue``
    returns the labels to simulate, or None.
    """

    changed = Signal()
    dragged = Signal()
    error_occurred = Signal(str)
    kept = ("optodes", "_loaded")

    def __init__(
        self,
        viewer: Any,
        bar: PlaceBar,
        source_box: SourceBox,
        detector_box: DetectorBox,
        tissue: Callable[[], Tissue | None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.optodes = Optodes()
        self.layers = OptodeLayers(viewer)
        self.tool = OptodeTool(viewer, self._markers, lambda: self.layers.reach, self)
        self._viewer, self._bar, self._source_box, self._detector_box = viewer, bar, source_box, detector_box
        self._tissue = tissue
        self._active = True
        self._loaded: LoadedSources | None = None  # of a file that has more than one, or of a session
        self._while_dragged: Optodes | None = None
        self._slices = SliceGuide(viewer, self._source_on_screen, self)
        dims = viewer.dims.events
        events = (dims.point, dims.order, dims.ndisplay)
        self._dims = Connections(lambda: [(event, self.layers.follow_slice) for event in events])
        self._connect()

    # -- what a run needs -----------------------------------------------------------------------------------------

    def source(self) -> Source:
        """Return the active source, even while it is dragged; `InvalidInput` if none is placed or complete."""
        if self.shown.source is None:
            raise InvalidInput(NO_SOURCE)
        return self._source_box.complete_source(self._start_of(self.shown.source))

    def sources(self) -> AnySource:
        """Return the active source, or all those of a file or a session while none of them is changed; see `source`."""
        loaded, placement = self._loaded, self.shown.source
        if loaded is not None and placement is not None:
            box = self._source_box
            if loaded.is_shown(self.shown, box.source_at(placement), box.pattern_layer):
                return one_or_all(loaded.sources)
        return self.source()

    @property
    def shown(self) -> Optodes:
        """What is on screen: while something is dragged, where it is at the moment."""
        return self._while_dragged or self.optodes

    def show_kept(self) -> None:
        """Show sources and detectors that undo has brought back."""
        self._while_dragged = None
        self.refresh()

    # -- placing --------------------------------------------------------------------------------------------------

    def place_source(self, position_mm: Any, *, snap: bool = True) -> None:
        """Put the source at a world position, mm, or at the nearest point of the surface."""
        if snap:
            tissue = self._needed_tissue()
            position_mm = nearest_surface(tissue.labels, tissue.affine, position_mm)
            self._take(self.optodes.with_source(self._placement().on_surface(tissue, position_mm)))
        else:
            self._take(self.optodes.with_source(self._placement().at(np.asarray(position_mm, np.float64))))

    def add_detector(self, position_mm: Any) -> None:
        """Add a detector at the point of the surface nearest to a world position, mm."""
        tissue = self._needed_tissue()
        point = nearest_surface(tissue.labels, tissue.affine, position_mm)
        self._take(self.optodes.add_detector(lifted(tissue, point), tissue))

    def load(self, optodes: Optodes) -> None:
        """Replace all sources and detectors, and show where the first source is."""
        self._take(optodes)
        self.go_to_source()

    def load_sources(
        self, sources: tuple[Source, ...], detectors: Sequence[AnyDetector], *, is_draft: bool = False
    ) -> None:
        """Show sources, of which the first is active, and detectors; ``is_draft``: of a session, whose view stays."""
        source, box = sources[0], self._source_box
        if isinstance(source, EmittingVolume):
            source = Isotropic(position_mm=source.position_mm)
        if isinstance(source, Pattern) and not box.choose_pattern(source.pattern):
            image = self._viewer.add_image(source.pattern, name="source pattern", visible=False, units=("mm", "mm"))
            box.pattern_box.choose(image)
        box.set_source(source)
        optodes, self._loaded = Optodes.of(sources, detectors), None
        if len(sources) > 1 or (is_draft and source is sources[0]):
            first = box.source_at(optodes.sources[0])
            self._loaded = LoadedSources(sources, optodes, first, box.pattern_layer)  # before a quick run begins
        if is_draft:
            self._take(optodes)
        else:
            self.load(optodes)

    def keep(self) -> KeptOptodes:
        """Return all that belongs to the volume on show, for `begin_with`."""
        return KeptOptodes(self.optodes, self._loaded, self._source_box.keep())

    def begin_with(self, kept: KeptOptodes | None) -> None:
        """Show sources and detectors of another volume as they were kept, or none; ``changed`` is not emitted."""
        kept_source = None if kept is None else kept.source
        self.optodes, self._loaded, self._while_dragged = Optodes(), None, None
        self._source_box.begin_with(kept_source)  # with no source placed, which a change of its sizes would run
        if kept is not None:
            self.optodes, self._loaded = kept.optodes, kept.loaded
        self.refresh()

    def refresh(self) -> None:
        """Show sources and detectors in the boxes and on screen; sizes that do not fit are a warning."""
        optodes, tissue = self.shown, self._tissue()
        start, source, problem = self._beam()
        self._source_box.show_optodes(optodes, start)
        self._detector_box.show_optodes(optodes)
        if tissue is None:
            self.layers.clear()
            self._source_box.warn(problem)
            return
        self.layers.show_optodes(optodes, source, tissue)
        if source is not None:
            problem = source_problem(tissue.labels, tissue.affine, source)
        before = 0.0 if start is None or start is optodes.source else -start.depth_mm
        self._source_box.warn(problem, _BEFORE.format(before) if before else "")

    def go_to_source(self) -> None:
        """Move the slices on screen to the active source."""
        self._slices.go()

    def set_active(self, *, active: bool) -> None:
        """Place and drag with the mouse, or leave the mouse alone while the other mode is on screen."""
        self._active = active
        self._on_choice(self._bar.choices.choice)

    def attach(self) -> None:
        """Take the mouse, and follow the slice."""
        for part in (self.tool, self._dims, self._slices):
            part.attach()

    def detach(self) -> None:
        """Give the mouse back."""
        for part in (self.tool, self._dims, self._slices):
            part.detach()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        tool, bar, box, detectors = self.tool, self._bar, self._source_box, self._detector_box
        connect_all(
            (
                (tool.placed, self._guarded(self._on_placed)),
                (tool.dragged, self._guarded(self._on_dragged)),
                (tool.dropped, self._guarded(self._on_dropped)),
                (tool.grabbed, self._on_grabbed),
                (tool.nudged, self._guarded(self._on_nudged)),
                (bar.choices.changed, self._on_choice),
                (box.changed, self._on_sizes),
                (box.moved, self._guarded(self._on_typed)),
                (box.turned, self._guarded(lambda direction: self._turn(self._placement().toward(direction)))),
                (box.deepened, lambda mm: self._turn(dataclasses.replace(self._placement(), depth_mm=mm))),
                (box.normal_requested, self._guarded(self._on_normal)),
                (box.flip_requested, self._on_flip),
                (box.chosen, self._on_chosen),
                (detectors.changed, self._guarded(self._on_detector)),
                (detectors.remove_requested, lambda rows: self._take(self.optodes.remove_detectors(rows))),
            )
        )

    def _guarded(self, act: Callable[..., None]) -> Callable[..., None]:
        """What the user does: if it cannot be done, a sentence is shown and everything stays as it was."""

        def guarded(*arguments: Any) -> None:
            try:
                act(*arguments)
            except GpuBioError as error:
                self._while_dragged = None
                self.refresh()
                self.error_occurred.emit(str(error))

        return guarded

    def _placement(self) -> Placement:
        return self.optodes.source or Placement(entry_mm=(0.0, 0.0, 0.0), direction=(0.0, 0.0, -1.0))

    def _beam(self) -> tuple[Placement | None, Source | None, str]:
        """Where light starts, with the source there to be drawn; both None where there is none, and what is wrong."""
        placement = self.shown.source
        if placement is None:
            return None, None, ""
        try:
            start = self._start_of(placement)
            return start, self._source_box.source_at(start), ""
        except GpuBioError as error:
            return None, None, str(error)

    def _start_of(self, placement: Placement) -> Placement:
        """Where light starts: a wide beam that was put on the surface starts before it, all of it outside."""
        tissue = self._tissue()
        if tissue is None or not placement.touches or placement.depth_mm != 0:
            return placement
        clearance = clearance_mm(tissue.labels, tissue.affine, self._source_box.source_at(placement))
        return placement if clearance == 0 else dataclasses.replace(placement, depth_mm=-clearance)

    def _needed_tissue(self) -> Tissue:
        tissue = self._tissue()
        if tissue is None:
            raise InvalidInput(NO_LABELS)
        return tissue

    def _take(self, optodes: Optodes) -> None:
        """Take a change over."""
        self._while_dragged, self.optodes = None, optodes
        self.refresh()
        self.changed.emit()

    def _turn(self, placement: Placement) -> None:
        if self.optodes.source is not None:
            self._take(self.optodes.with_source(placement))

    def _markers(self) -> Any:
        tissue = self._tissue()
        positions = list(self.optodes)
        return [] if tissue is None or not positions else world_to_viewer(positions)

    def _source_on_screen(self) -> Any:
        """Viewer position of the active source, or None."""
        tissue, source = self._tissue(), self.optodes.source
        return None if tissue is None or source is None else world_to_viewer(source.position_mm)

    # -- what the user does ---------------------------------------------------------------------------------------

    def _on_placed(self, sight: Sight, shift: bool) -> None:
        tissue = self._needed_tissue()
        point = tissue.surface_under(sight)
        if point is None:
            raise InvalidInput(MISSED)
        if shift or self._bar.choices.choice == "detector":
            self._take(self.optodes.add_detector(lifted(tissue, point), tissue))
        else:
            self._take(self.optodes.with_source(self._placement().on_surface(tissue, point)))
            if sight.direction is not None:  # in 3-D: back in 2-D the slice shows it
                self.go_to_source()

    def _on_typed(self, position_mm: Any) -> None:
        self.place_source(position_mm, snap=False)
        self.go_to_source()

    def _on_chosen(self, index: int) -> None:
        self._take(self.optodes.activate(index))
        self.go_to_source()

    def _on_grabbed(self, marker: int) -> None:
        if marker < len(self.optodes.sources) and marker != self.optodes.active:
            self._take(self.optodes.activate(marker))

    def _on_nudged(self, offset: Any) -> None:
        if (source := self.optodes.source) is not None:
            self.place_source(source.position_mm + viewer_to_world(offset), snap=source.touches)

    def _on_dragged(self, marker: int, sight: Sight) -> None:
        moved = self.optodes.dragged(marker, sight, self._needed_tissue())
        if moved is not None:
            self._while_dragged = moved
            self.refresh()
            self.dragged.emit()

    def _on_dropped(self, marker: int, sight: Sight) -> None:
        moved = self.optodes.dragged(marker, sight, self._needed_tissue())
        moved = moved or self._while_dragged  # beside the tissue it stays where it was last
        if moved is not None:
            self._take(moved)
            if sight.direction is not None and marker == self.optodes.active:  # as after a click in 3-D
                self.go_to_source()

    def _on_choice(self, choice: str) -> None:
        self.tool.places = choice
        self.tool.placing = self._active and choice != "nothing"

    def _on_sizes(self) -> None:
        self.refresh()
        if self.optodes.source is not None:
            self.changed.emit()

    def _on_normal(self, follow: bool) -> None:
        source = self.optodes.source
        if source is not None:
            kept = dataclasses.replace(source, follows_normal=False)
            self._turn(source.along_normal(self._needed_tissue()) if follow else kept)

    def _on_flip(self) -> None:
        source = self.optodes.source
        if source is not None:
            self._turn(source.toward(-np.asarray(source.direction)))

    def _on_detector(self, index: int, changes: dict[str, str]) -> None:
        values: dict[str, Any] = dict(changes)
        if "radius_mm" in changes:
            values["radius_mm"] = typed_number(changes["radius_mm"])
            if not isinstance(values["radius_mm"], float):
                raise InvalidInput(f"the radius of a detector is {changes['radius_mm']!r}; give a number in mm")
        self._take(self.optodes.change_detector(index, **values))
