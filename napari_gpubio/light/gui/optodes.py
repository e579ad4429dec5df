"""Sources and detectors as the user placed them, by mouse or from a file; immutable, so that changes can be undone."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import Signal

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.space import world_to_viewer
from napari_gpubio.gui.picking import MarkerTool
from napari_gpubio.light.gui.labels import Position, Sight, Tissue, Vector, vector
from napari_gpubio.optics.detectors import AnyDetector, Detector
from napari_gpubio.optics.io.snirf import Optodes as Probe
from napari_gpubio.optics.sources import Source
from napari_gpubio.optics.surface import above_surface, inward_normal, nearest_surface

DETECTOR_RADIUS_MM = 1.5
MAX_DETECTOR_SHARE = 0.05  # of the volume's longest side, so that a detector on a mouse is not as large as its head


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a source is, and in which direction it emits (unit vector); positions in world mm.

    The source lies ``depth_mm`` beyond the entry along its direction (negative: before it). With ``follows_normal`` the
    direction is the inward normal wherever the source is put. ``touches``: it was put on the surface, not at typed
    numbers; a wide beam then starts before it.
    """

    entry_mm: Vector
    direction: Vector
    depth_mm: float = 0.0
    follows_normal: bool = True
    touches: bool = True
    name: str = "S1"

    @property
    def position_mm(self) -> Vector:
        """Where light starts, world mm."""
        return vector(np.asarray(self.entry_mm) + self.depth_mm * np.asarray(self.direction))

    def at(self, position_mm: Position) -> "Placement":
        """Return it shifted to another position, its direction kept."""
        return dataclasses.replace(
            self, entry_mm=vector(np.asarray(position_mm) - self.depth_mm * np.asarray(self.direction)), touches=False
        )

    @classmethod
    def of(cls, source: Source) -> "Placement":
        """Return where a source is, as it is."""
        direction = vector(source.frame()[2])
        return cls(entry_mm=source.position_mm, direction=direction, follows_normal=False, touches=False)

    def on_surface(self, tissue: Tissue, point_mm: Position) -> "Placement":
        """Return it on a surface point, along the normal there if it follows the normal."""
        normal = inward_normal(tissue.labels, tissue.affine, point_mm)
        entry = vector(above_surface(tissue.affine, point_mm, normal))
        direction = vector(normal) if self.follows_normal else self.direction
        return dataclasses.replace(self, entry_mm=entry, direction=direction, touches=True)

    def along_normal(self, tissue: Tissue) -> "Placement":
        """Return it shining along the inward normal at its entry."""
        normal = vector(inward_normal(tissue.labels, tissue.affine, self.entry_mm))
        return dataclasses.replace(self, direction=normal, follows_normal=True)

    def entry_sight(self, sight: Sight) -> Sight:
        """Return the view through its entry that is, through itself, ``sight``."""
        offset = np.subtract(*world_to_viewer([self.entry_mm, self.position_mm]))
        if sight.hidden is not None:
            offset[sight.hidden] = 0.0
        return sight.moved(offset)

    def toward(self, direction: Any) -> "Placement":
        """Return it shining in another direction; `InvalidInput` if that is zero or not finite."""
        numbers = np.asarray(direction, np.float64)
        length = np.linalg.norm(numbers)
        if not (np.isfinite(length) and length > 0):
            raise InvalidInput("the source's direction is (0, 0, 0); give the direction in which it emits")
        turned = dataclasses.replace(self, direction=vector(numbers / length), follows_normal=False)
        return dataclasses.replace(turned.at(np.asarray(self.position_mm)), touches=self.touches)


@dataclass(frozen=True, slots=True, kw_only=True)
class Optodes:
    """All sources, of which one is active, and all detectors."""

    sources: tuple[Placement, ...] = ()
    active: int = 0
    detectors: tuple[Detector, ...] = ()

    @classmethod
    def of(cls, sources: Sequence[Source], detectors: Sequence[AnyDetector]) -> "Optodes":
        """Return those of a file, as they are; several sources, and detectors without a name, are numbered.

        Whole faces are left out.
        """
        named = [
            detector if detector.name else dataclasses.replace(detector, name=f"D{number}")
            for number, detector in enumerate(detectors, 1)
            if isinstance(detector, Detector)
        ]
        places = [Placement.of(source) for source in sources]
        if len(places) > 1:
            places = [dataclasses.replace(place, name=f"S{number}") for number, place in enumerate(places, 1)]
        return cls(sources=tuple(places), detectors=tuple(named))

    def __iter__(self) -> Iterator[Vector]:
        """Positions of all of them, sources first."""
        yield from (source.position_mm for source in self.sources)
        yield from (detector.position_mm for detector in self.detectors)

    @property
    def source(self) -> Placement | None:
        """The active source, or None if none is placed."""
        return self.sources[self.active] if self.sources else None

    def with_source(self, source: Placement) -> "Optodes":
        """Return them with the active source replaced, or with a first one."""
        sources = list(self.sources) or [source]
        sources[self.active] = source
        return dataclasses.replace(self, sources=tuple(sources))

    def activate(self, index: int) -> "Optodes":
        """Return them with another source shining."""
        return dataclasses.replace(self, active=index)

    def add_detector(self, position_mm: Position, tissue: Tissue) -> "Optodes":
        """Return them with one detector more, as large as the one before."""
        radius = self.detectors[-1].radius_mm if self.detectors else self.usual_radius_mm(tissue)
        detector = Detector(position_mm=vector(position_mm), radius_mm=radius, name=self._free_name())
        return dataclasses.replace(self, detectors=(*self.detectors, detector))

    def change_detector(self, index: int, **changes: Any) -> "Optodes":
        """Return them with a detector's position, radius or name changed; `InvalidInput` if out of range."""
        changed = dataclasses.replace(self.detectors[index], **changes)
        detectors = (*self.detectors[:index], changed, *self.detectors[index + 1 :])
        return dataclasses.replace(self, detectors=detectors)

    def remove_detectors(self, indices: set[int]) -> "Optodes":
        """Return them without some detectors."""
        kept = tuple(d for index, d in enumerate(self.detectors) if index not in indices)
        return dataclasses.replace(self, detectors=kept)

    def dragged(self, marker: int, sight: Sight, tissue: Tissue) -> "Optodes | None":
        """Return them with one dragged on the surface to where the mouse points, or None beside the tissue.

        A source is dragged by its entry, however deep the source itself is, and is active from then on. ``marker`` is
        its place among all positions, ``sight`` where its marker would be. `InvalidInput` if a slice has no tissue or
        the mouse is beside the volume.
        """
        detector = marker - len(self.sources)
        point = tissue.surface_under(sight if detector >= 0 else self.sources[marker].entry_sight(sight))
        if point is None:
            return None
        if detector >= 0:
            return self.change_detector(detector, position_mm=tuple(lifted(tissue, point)))
        return self.activate(marker).with_source(self.sources[marker].on_surface(tissue, point))

    def separation_mm(self, detector: int) -> float | None:
        """Distance between the entry of the active source and a detector, or None without a source."""
        if self.source is None:
            return None
        away = np.subtract(self.detectors[detector].position_mm, self.source.entry_mm)
        return float(np.linalg.norm(away))

    @staticmethod
    def usual_radius_mm(tissue: Tissue) -> float:
        """Radius of a first detector: one that fits the volume."""
        return min(DETECTOR_RADIUS_MM, float(f"{MAX_DETECTOR_SHARE * tissue.extent_mm:.1g}"))

    def _free_name(self) -> str:
        taken = {detector.name for detector in self.detectors}
        return next(name for n in range(1, len(taken) + 2) if (name := f"D{n}") not in taken)


def lifted(tissue: Tissue, point_mm: Position) -> Position:
    """A surface point, moved slightly outside."""
    return above_surface(tissue.affine, point_mm, inward_normal(tissue.labels, tissue.affine, point_mm))


class OptodeTool(MarkerTool):
    """Turns mouse events of a viewer into places; markers are dragged to a `Sight`, as if it pointed at them."""

    placed = Signal(object, bool)  # sight; whether Shift was held
    places = "source"  # what a plain click places

    @property
    def hint(self) -> str:
        """What clicks do."""
        return f"Click: {self.places} · Shift+click: detector" if self.placing else ""

    def may_begin(self) -> bool:
        """Whether a press may place or move something."""
        return self.placing

    def clicked(self, event: Any) -> None:
        """Place something."""
        self.placed.emit(sight_of(event), "Shift" in event.modifiers)

    def target_of(self, event: Any, anchor: Position) -> Callable[[Any], Sight]:
        """A marker keeps its distance from the mouse."""
        offset = _offset(sight_of(event), anchor)
        return lambda later: sight_of(later).moved(offset)


def sight_of(event: Any) -> Sight:
    """Where the mouse points, of a napari mouse event; axes before the last three (time gates) do not count."""
    position = np.array(event.position, np.float64)[-3:]
    if event.view_direction is not None:
        return Sight(position, np.array(event.view_direction, np.float64)[-3:])
    first = len(event.position) - 3
    hidden = [axis for axis in range(3) if first + axis not in event.dims_displayed]
    return Sight(position, hidden=hidden[0] if len(hidden) == 1 else None)


def _offset(sight: Sight, marker: Position) -> Position:
    """From where the mouse points to a marker, in the slice or across the line of sight."""
    offset = np.asarray(marker) - sight.position
    if sight.direction is not None:
        along = sight.direction / np.linalg.norm(sight.direction)
        offset -= along * (offset @ along)
    elif sight.hidden is not None:
        offset[sight.hidden] = 0.0
    return offset


FAR_MM = 15.0  # further from the surface than a cap can be: the file is in other coordinates


@dataclass(frozen=True, slots=True)
class Montage:
    """Sources and detectors on the surface, and a summary for the user."""

    optodes: Optodes
    summary: str


def montage_of(read: Probe, tissue: Tissue) -> Montage:
    """Snap the sources and detectors of a SNIRF file to the surface; `InvalidInput` if there is none."""
    sources = [
        Placement(entry_mm=(0.0, 0.0, 0.0), direction=(0.0, 0.0, 1.0), name=name).on_surface(tissue, point)
        for name, point in zip(read.sources, _snapped(read.source_positions_mm, tissue), strict=True)
    ]
    empty = Optodes(sources=tuple(sources))
    places = [lifted(tissue, point) for point in _snapped(read.detector_positions_mm, tissue)]
    radius = empty.usual_radius_mm(tissue)
    detectors = tuple(
        Detector(position_mm=vector(place), radius_mm=radius, name=name)
        for name, place in zip(read.detectors, places, strict=True)
    )
    optodes = Optodes(sources=tuple(sources), detectors=detectors)
    positions = np.concatenate([read.source_positions_mm, read.detector_positions_mm])
    return Montage(optodes, _summary(optodes, positions, read.notes))


def _snapped(positions_mm: npt.NDArray[np.float64], tissue: Tissue) -> list[npt.NDArray[np.float64]]:
    return [nearest_surface(tissue.labels, tissue.affine, position) for position in positions_mm]


def _summary(optodes: Optodes, positions_mm: npt.NDArray[np.float64], notes: tuple[str, ...]) -> str:
    """How many there are, and how far they were from the surface."""
    on_surface = [source.entry_mm for source in optodes.sources] + [d.position_mm for d in optodes.detectors]
    moved = np.linalg.norm(np.array(on_surface) - positions_mm, axis=1)
    text = (
        f"{len(optodes.sources)} sources and {len(optodes.detectors)} detectors were moved onto the surface, by "
        f"{np.median(moved):.1f} mm (at most {moved.max():.1f} mm)."
    )
    if moved.max() > FAR_MM:
        text += " That is far: the file probably uses other coordinates than these labels. Check their positions."
    return " ".join([text, *notes])
