"""Dose and structures of one calculation, laid out for the kernels, the same for both backends."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import drivers
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.jit import thread_count
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.dose.countable import countable
from napari_gpubio.dose.kernels.histogram.dose_grid import Bins, ScaledDose, c_ordered, make_bins, scaled_dose
from napari_gpubio.dose.kernels.histogram.slices import (
    MAX_UNITS,
    PlaneSlices,
    joined,
    make_slices,
    rough_volume_mm3,
    spacing_for,
    units_of,
    weigh,
)
from napari_gpubio.dose.kernels.histogram.work import (
    NO_ORGAN,
    STRIP_ROWS,
    LabelWork,
    Work,
    contour_work,
    frame_of,
    point_work,
    strip_rows_of,
)
from napari_gpubio.dose.model import MM3_PER_CC, Dose, Structures
from napari_gpubio.dose.settings import CONSTANT, ByAccuracy, DvhSettings
from napari_gpubio.dose.structures.contours import Color, ContourStructure
from napari_gpubio.dose.structures.labels import LabelStructures, PointStructure
from napari_gpubio.dose.structures.outlines import edges_of, gap_notes
from napari_gpubio.dose.structures.tips import outline_notes, outlines_of

Array = npt.NDArray[Any]
_FIRST_TASKS = 512
_SAME_PLACE = 1e-3  # voxels; samples that are no farther from a center lie in its voxel


@dataclass(frozen=True, slots=True, kw_only=True)
class Organ:
    """How one structure is counted."""

    name: str
    unit_mm3: float  # volume that one unit of weight stands for
    spacing_mm: float = 0.0  # largest distance of samples; 0 where it was not chosen here
    color: Color | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Problem(drivers.Problem):
    """All that a backend needs to know."""

    work = "counting this dose"

    grid: ScaledDose
    bins: Bins
    organs: tuple[Organ, ...]  # what is counted, in the order of the structures that were given
    works: tuple[Work, ...]  # contours of all structures, each label volume, points of all structures, if there are any
    extreme_rows: int  # rows of least and largest dose: one, and one for each strip of labels that will be painted

    @property
    def items(self) -> int:
        """Number of tasks of all works."""
        return sum(work.items for work in self.works)

    def first_chunk(self, device: Device) -> int:
        """All of them on GPUs, milliseconds of work on the CPU."""
        return -(-self.items // len(device.indices)) if device.is_gpu else _FIRST_TASKS

    def memory(self, device: Device) -> Memory:
        """The scaled dose, contours and points (on a GPU labels, too), and counts: of each thread, on a GPU twice."""
        organs, bins = len(self.organs), int(self.bins.rule.bins)
        works = (work.nbytes for work in self.works if device.is_gpu or not isinstance(work, LabelWork))
        inputs = 4 * self.grid.source.size + sum(works)
        if device.is_gpu:
            return Memory(inputs=inputs, tallies=8 * organs * (2 * (bins + 4) + self.extreme_rows))
        each = 8 * (bins + 3) + 12  # counts, sums and extremes
        return Memory(inputs=inputs, tallies=organs * (thread_count() * each + 12 * (self.extreme_rows - 1)))

    def pieces(self, start: int, count: int) -> list[tuple[int, int, int]]:
        """Work, first task in it, and number of tasks, for the tasks ``start`` to ``start + count - 1`` of all."""
        found, before = [], 0
        for number, work in enumerate(self.works):
            first, end = max(start - before, 0), min(start + count - before, work.items)
            if first < end:
                found.append((number, first, end - first))
            before += work.items
        return found


def make_problem(
    dose: Dose, structures: Sequence[Structures], settings: DvhSettings, *, painted: bool = False
) -> Problem:
    """Lay out a calculation; InvalidInput if there is no structure, or one cannot be counted.

    Labels that will be ``painted`` get extremes for each strip, to be found again without counting everything.
    """
    if not structures:
        raise InvalidInput("there is no structure to make a histogram of; give at least one")
    layout = _Layout(dose, settings)
    for structure in countable(structures, dose, any_frame=settings.any_frame):
        layout.add(structure)
    return layout.problem(painted=painted)


class _Layout:
    """Structures as they are added, one after another."""

    def __init__(self, dose: Dose, settings: DvhSettings) -> None:
        self._settings, self._grid = settings, scaled_dose(dose, whole=settings.within_voxels == CONSTANT)
        self._from_world = self._grid.from_world
        self._voxel_mm = float(dose.voxel_sizes_mm.min())
        self._organs: list[Organ] = []
        self._contours: list[tuple[int, PlaneSlices, Array]] = []
        self._points: list[tuple[int, Array]] = []
        self._labels: list[tuple[Array, Array, Array]] = []
        self._divisions: dict[int, Array] = {}

    def add(self, structure: Structures) -> None:
        """Give a structure its organ numbers and its spacing."""
        if isinstance(structure, ContourStructure):
            self._add_contours(structure)
        elif isinstance(structure, LabelStructures):
            self._add_labels(structure)
        else:
            self._add_points(structure)

    def _add_contours(self, structure: ContourStructure) -> None:
        unit_mm3, spacing, notes = 1.0, 0.0, structure.notes
        if structure.planes:
            outlines = outlines_of(structure, self._settings.interpolation, self._settings.caps)
            edges = edges_of(outlines)
            spacing = self._settings.spacing_mm or self._spacing(rough_volume_mm3(edges))
            slices = make_slices(edges, spacing, spacing)
            _check_size(slices, structure.name, spacing)
            unit_mm3 = weigh(slices)
            notes += gap_notes(structure) + outline_notes(outlines, structure.name)
            self._contours.append((len(self._organs), slices, structure.frame))
        self._organs.append(
            Organ(name=structure.name, unit_mm3=unit_mm3, spacing_mm=spacing, color=structure.color, notes=notes)
        )

    def _spacing(self, volume_mm3: float) -> float:
        assert isinstance(self._settings.sampling, ByAccuracy)
        return spacing_for(volume_mm3, self._settings.sampling.accuracy_percent, self._voxel_mm)

    def _add_labels(self, structure: LabelStructures) -> None:
        labels, affine = c_ordered(structure.labels, structure.affine)
        sizes, is_dose_grid = voxel_sizes_mm(affine), _is_whole(self._from_world @ affine)
        first = len(self._organs)
        for value, name in zip(structure.values, structure.names, strict=True):
            volume = float(structure.voxels[value]) * structure.voxel_mm3
            spacing = self._settings.spacing_mm or self._spacing(volume)
            parts = np.maximum(np.ceil(sizes / spacing - 1e-3), 1)
            if is_dose_grid and self._grid.whole:  # all samples of a voxel would have one dose
                parts, spacing = np.ones(3), float(sizes.max())
            _check_parts(float(parts.prod()), labels.shape[2], name, spacing)
            self._divisions[len(self._organs)] = parts.astype(np.int32)
            self._organs.append(
                Organ(
                    name=name,
                    unit_mm3=structure.voxel_mm3 / float(parts.prod()),
                    spacing_mm=spacing,
                    notes=structure.notes,
                )
            )
        organs = np.full(len(structure.voxels), NO_ORGAN, np.int32)
        organs[list(structure.values)] = np.arange(first, len(self._organs))
        self._labels.append((labels, organs, affine))

    def _add_points(self, structure: PointStructure) -> None:
        self._points.append((len(self._organs), structure.points))
        unit = structure.volume_cc * MM3_PER_CC / max(len(structure.points), 1)
        self._organs.append(Organ(name=structure.name, unit_mm3=unit))

    def problem(self, *, painted: bool) -> Problem:
        """What has been added, for the kernels."""
        works: list[Work] = []
        if self._contours:
            works.append(self._contour_work())
        rows, divisions = 1, np.ones((len(self._organs), 3), np.int32)
        for organ, parts in self._divisions.items():
            divisions[organ] = parts
        for labels, organs, affine in self._labels:
            frame = frame_of(self._from_world @ affine)
            height = strip_rows_of(labels.shape, len(self._organs), painted=painted)
            work = LabelWork(labels, organs, divisions, frame, height, rows if painted else 0)
            works.append(work)
            rows += work.items if painted else 0
        if self._points:
            numbers, points = zip(*self._points, strict=True)
            works.append(point_work(points, numbers, self._from_world))
        bins = make_bins(self._grid, self._settings)
        return Problem(self._grid, bins, tuple(self._organs), tuple(works), rows)

    def _contour_work(self) -> Work:
        organs, parts, own_frames = zip(*self._contours, strict=True)
        frames = np.zeros((len(self._organs), 4, 3))
        frames[list(organs)] = [frame_of(self._from_world @ frame) for frame in own_frames]
        return contour_work(joined(parts, organs), frames)


def _is_whole(matrix: Array) -> bool:
    """Whether voxels of one grid are voxels of another one, by the matrix from indices to indices."""
    steps = np.round(matrix)
    is_permuted = (np.abs(steps[:3, :3]).sum(axis=0) == 1).all() and (np.abs(steps[:3, :3]).sum(axis=1) == 1).all()
    return bool(is_permuted and np.abs(matrix - steps).max() < _SAME_PLACE)


def _check_parts(parts: float, columns: int, name: str, spacing: float) -> None:
    """A strip of voxels is counted in 32 bits on a GPU."""
    if parts * columns * STRIP_ROWS >= 2**32:
        raise InvalidInput(
            f"{name!r} would need {parts:.2g} samples a voxel, {spacing:.3g} mm apart; choose a larger spacing_mm or "
            "accuracy_percent"
        )


def _check_size(slices: PlaneSlices, name: str, spacing: float) -> None:
    rows = float(slices.row_count)  # each has one sample at least; too many of them could not be listed
    if (units := rows if rows > MAX_UNITS else float(units_of(slices).sum())) > MAX_UNITS:
        raise InvalidInput(
            f"{name!r} would need about {units:.2g} samples {spacing:.3g} mm apart, more than {MAX_UNITS:.2g}; choose "
            "a larger spacing_mm or accuracy_percent"
        )
