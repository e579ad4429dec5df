"""A voxel simulation made ready for a backend: the padded grid, tables, the source, and the scales of the tallies."""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.by_planes import looked_up
from napari_gpubio.core.device import Device, free_memory_bytes
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.kernels.voxels.source_table import PackedSource, SourceTable, source_table
from napari_gpubio.light.kernels.voxels.tensor_table import TensorTable, tensor_table
from napari_gpubio.light.settings import FACE_RULES, FACES, LightSettings
from napari_gpubio.optics.batches import BatchedProblem
from napari_gpubio.optics.detectors import AnyDetector, Detector
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.scattering_tensors import SCATTERING_MODELS
from napari_gpubio.optics.sources import AnySource, Patterned, Source, one_or_all

Array = npt.NDArray[Any]
LIGHT_MM_PER_NS = 299.792458

# What both backends number alike; the counterparts are in ``photon.cuh``.
# Rows of the media table that are no tissue: label 0, and the rim of the grid.
OUTSIDE, EDGE = 0, 1
FIRST_MEDIUM = 2  # row of the first medium, behind these
DEFAULT, ESCAPE, FRESNEL, MIRROR, CYCLIC = range(5)
# Parts of the energy tally.
SPECULAR, MISSED, BEFORE, ESCAPED, TRUNCATED, ROULETTE = range(6)
ENERGY_PARTS = 6
LAUNCHED = ENERGY_PARTS  # one more where patterns share photons
MEDIUM_NUMBERS, DETECTOR_NUMBERS, DETECTED_NUMBERS = 8, 8, 10
NEVER = np.float32(1e30)

_PHOTONS_AT_FULL_SCALE = 1 << 31
SLOT_BYTES = 256 << 20  # for the tallies of batches that a GPU traces together
_COPIED_BYTES, _FEWEST_COPIES, _MAX_COPIES = 400 << 20, 4, 32  # for all copies of them; where the memory is enough
_MAX_CELLS = 1 << 32  # of the tallies of a GPU run, whose places are 32-bit numbers
_NEAR_BYTES = 8 << 20  # for all copies of a batch, so that they stay in the second-level cache


@dataclass(frozen=True, eq=False)
class VoxelProblem(BatchedProblem):
    """A voxel simulation as photons see it.

    Parameters
    ----------
    domain, source, settings, detectors
        What is simulated.
    batch_size
        Photons of a batch, where a resumed run has fixed it; by default photons / batches.
    others
        Further sources: each photon starts at one of them or at ``source``, drawn by their weights.
    shares
        Where several patterns share photons: the weight for each pattern of a photon from each pixel, shape (P, K).
        The source's own pattern is then the density from which photons start.
    heaviest
        Largest weight that a photon starts with.
    """

    work = "light transport in this volume"
    domain: Domain
    source: Source
    settings: LightSettings
    detectors: Sequence[AnyDetector] = ()
    batch_size: int = 0
    others: Sequence[Source] = ()
    shares: npt.NDArray[np.float32] | None = None
    heaviest: float = 1.0

    # -- the grid -------------------------------------------------------------------------------------------------

    @property
    def size(self) -> tuple[int, int, int]:
        """Dimensions without the rim."""
        return self.domain.shape

    @property
    def padded(self) -> tuple[int, int, int]:
        """Dimensions with the rim of one voxel."""
        x, y, z = self.domain.shape
        return x + 2, y + 2, z + 2

    def inside(self, planes: slice) -> Callable[[Any], Any]:
        """Return what takes planes out of tallies (..., T), without the rim: (..., halves * gates, X, Y, Z)."""
        part = slice(planes.start + 1, planes.stop + 1), slice(1, -1), slice(1, -1)
        return lambda tally: tally.reshape(*tally.shape[:-1], -1, *self.padded)[(..., *part)]

    @property
    def cells(self) -> int:
        """Voxels with the rim."""
        return math.prod(self.padded)

    @cached_property
    def edges_mm(self) -> npt.NDArray[np.float32]:
        """Edge lengths of a voxel, mm."""
        return self.domain.voxel_sizes_mm.astype(np.float32)

    @property
    def label_of_row(self) -> tuple[int, ...]:
        """Label of each medium, from row `FIRST_MEDIUM` on."""
        return self.domain.labels_present

    @property
    def media_rows(self) -> int:
        """Rows of the media table."""
        return FIRST_MEDIUM + len(self.label_of_row)

    @cached_property
    def rows(self) -> Array:
        """Media row of every voxel of the padded grid, flat, uint8 or uint16."""
        table = np.full(1 << 16, OUTSIDE, np.uint8 if self.media_rows <= 256 else np.uint16)
        table[list(self.label_of_row)] = np.arange(FIRST_MEDIUM, self.media_rows)
        rows = np.full(self.padded, EDGE, table.dtype)
        looked_up(table, self.domain.labels, rows[1:-1, 1:-1, 1:-1])
        return rows.ravel()

    @cached_property
    def media(self) -> npt.NDArray[np.float32]:
        """The media table, shape (rows, MEDIUM_NUMBERS).

        mu_a, mu_s, g, n; and for tissue what packets divide by: mean free path (mm), 1 / n, and the path (mm) after
        which absorption is booked at the latest, two absorption lengths.
        """
        table = np.zeros((self.media_rows, MEDIUM_NUMBERS), np.float32)
        table[[OUTSIDE, EDGE], 3] = self.domain.outside_n
        for row, label in enumerate(self.label_of_row, FIRST_MEDIUM):
            m = self.domain.medium(label)
            table[row, :4] = m.mua_per_mm, m.mus_per_mm, m.g, m.n
        tissue = table[FIRST_MEDIUM:]
        tissue[:, 4] = 1.0 / np.maximum(tissue[:, 1], 1e-20)
        tissue[:, 5] = 1.0 / tissue[:, 3]
        tissue[:, 6] = 2.0 / np.maximum(tissue[:, 0], 1e-20)
        return table

    @cached_property
    def mua(self) -> npt.NDArray[np.float32]:
        """mu_a of every voxel of the padded grid, flat; empty without continuous media."""
        return self._continuous(self.domain.mua_per_mm, 0)

    @cached_property
    def mus(self) -> npt.NDArray[np.float32]:
        """mu_s of every voxel of the padded grid, flat; empty without continuous media."""
        return self._continuous(self.domain.mus_per_mm, 1)

    def _continuous(self, values: Array | None, column: int) -> npt.NDArray[np.float32]:
        if not self.domain.is_continuous:
            return np.zeros(0, np.float32)
        return self._of_media(column).ravel() if values is None else np.pad(values, 1).ravel()

    def _of_media(self, column: int) -> npt.NDArray[np.float32]:
        """A column of the media table for every voxel of the padded grid."""
        return looked_up(self.media[:, column], self.rows.reshape(self.padded))

    @cached_property
    def g(self) -> npt.NDArray[np.float32]:
        """g of every voxel of the padded grid, flat; empty unless g or n are given voxel by voxel."""
        return self._by_voxel(self.domain.g, 2)

    @cached_property
    def n(self) -> npt.NDArray[np.float32]:
        """Refractive index of every voxel of the padded grid, flat, that of the outside where there is no tissue.

        Empty unless g or n are given voxel by voxel.
        """
        return self._by_voxel(self.domain.n, 3)

    @property
    def has_own_g_or_n(self) -> bool:
        """Whether g or n are given voxel by voxel, so that there are volumes of both."""
        return self.domain.g is not None or self.domain.n is not None

    def _by_voxel(self, values: Array | None, column: int) -> npt.NDArray[np.float32]:
        """A volume, or the labels' numbers in its place; the table's where there is no tissue."""
        if not self.has_own_g_or_n:
            return np.zeros(0, np.float32)
        found, inside = self._of_media(column), (slice(1, -1),) * 3
        if values is not None:
            np.copyto(found[inside], values, where=self.rows.reshape(self.padded)[inside] >= FIRST_MEDIUM)
        return found.ravel()

    @cached_property
    def phase(self) -> npt.NDArray[np.float32]:
        """Cosines of the scattering angle at equal steps of their distribution; empty for Henyey and Greenstein's."""
        table = self.domain.phase_function
        return np.zeros(0, np.float32) if table is None else table.cosines.astype(np.float32)

    @property
    def is_thin(self) -> bool:
        """Whether light mostly crosses voxels without being scattered there; decides about speed only."""
        mean_chord = 2.0 / float((1.0 / self.edges_mm).sum())
        return mean_chord * float(self.media[FIRST_MEDIUM:, 1].mean()) < 1.0

    @property
    def anisotropy(self) -> int:
        """How light scatters where a voxel has a tensor, as the backends number it; 0 if none has one."""
        return 0 if self.tensors is None else 1 + SCATTERING_MODELS.index(self.domain.scattering_model)

    @cached_property
    def tensors(self) -> TensorTable | None:
        """Scattering tensors of the voxels that do not scatter by their label alike, or None if all do."""
        return tensor_table(self.domain)

    @property
    def faces(self) -> int:
        """Rules of the six faces, three bits each, in the order of `FACES`."""
        return sum(FACE_RULES.index(rule) << (3 * face) for face, rule in enumerate(self.settings.faces))

    @property
    def specular(self) -> bool:
        """Whether light loses a part where it enters."""
        return self.settings.specular and self.settings.refraction

    # -- source and detectors -------------------------------------------------------------------------------------

    @property
    def kind(self) -> int:
        """Shape and emission of the (first) source, as the backends number them."""
        return self.packed_sources[0].kind

    @cached_property
    def packed_sources(self) -> tuple[PackedSource, ...]:
        """The source, and the others."""
        return tuple(PackedSource(source, self.domain) for source in (self.source, *self.others))

    @cached_property
    def source_table(self) -> SourceTable:
        """The source, or all of them where there are several."""
        return source_table(self.packed_sources)

    @cached_property
    def surfaces(self) -> npt.NDArray[np.float32]:
        """Smoothed surfaces that light of the sources enters through, end to end; empty where there is none."""
        none = np.zeros(0, np.float32)
        found = np.concatenate([source.surface for source in self.packed_sources]) if self.specular else none
        return found if found.any() else none

    @property
    def sources(self) -> AnySource:
        """The source, or all of them where there are several."""
        return one_or_all((self.source, *self.others))

    @property
    def patterns(self) -> int:
        """Number of patterns that share photons; each has tallies of its own."""
        return 1 if self.shares is None else self.shares.shape[1]

    @property
    def rare_source(self) -> bool:
        """Whether a source needs what the kernels have for the rare ones only; see ``start.py``."""
        return any(source.is_rare for source in self.packed_sources)

    @cached_property
    def detector_numbers(self) -> npt.NDArray[np.float32]:
        """Detectors along the volume's axes; see `detector_at` of the backends; shape (D, DETECTOR_NUMBERS)."""
        table = np.zeros((len(self.detectors), DETECTOR_NUMBERS))
        for line, detector in zip(table, self.detectors, strict=True):
            if not isinstance(detector, Detector):
                line[3] = -1.0 - FACES.index(detector.face)
                continue
            line[:3] = self.domain.world_to_grid(detector.position_mm)
            line[3] = detector.radius_mm**2
            line[7] = NEVER
            if detector.normal is not None:
                line[4:7] = self.domain.direction_to_grid(detector.normal) / np.linalg.norm(detector.normal)
                line[7] = 0.5 * detector.radius_mm
        return table.astype(np.float32)

    # -- tallies --------------------------------------------------------------------------------------------------

    @cached_property
    def gate_edges(self) -> npt.NDArray[np.float32]:
        """Edges of the time gates as optical path, mm."""
        return (np.array(self.settings.time_gates_ns) * LIGHT_MM_PER_NS).astype(np.float32)

    @property
    def gates(self) -> int:
        """Number of time gates."""
        return self.settings.gate_count

    @property
    def halves(self) -> int:
        """2 where even and odd photons are kept apart, else 1."""
        return 2 if self.settings.halves else 1

    @property
    def square_gates(self) -> int:
        """Parts of the sums of squares: each gate, and all of them together where there are several."""
        return self.gates + (1 if self.gates > 1 else 0)

    @property
    def tally_size(self) -> int:
        """Numbers of a tally."""
        return self.halves * self.gates * self.cells * self.patterns

    @property
    def square_size(self) -> int:
        """Sums of squares, for each voxel in each of their parts."""
        return self.square_gates * self.cells * self.patterns

    @property
    def energy_size(self) -> int:
        """Numbers of the energy tally of a batch."""
        return ENERGY_PARTS if self.shares is None else (ENERGY_PARTS + 1) * self.patterns

    @property
    def exit_cells(self) -> int:
        """Numbers of the map of escaping light."""
        return self.cells * self.patterns if self.settings.exit_map else 0

    @property
    def bound_mm(self) -> float:
        """The most that one photon can book at once: its largest weight times its longest path, mm."""
        slowest = min(float(self.media[FIRST_MEDIUM:, 3].min()), 1e9)
        if self.has_own_g_or_n:
            slowest = float(self.n[self.rows >= FIRST_MEDIUM].min())
        heaviest = self.heaviest * max(1.0, 10.0 * self.settings.roulette_threshold)
        return heaviest * (float(self.gate_edges[-1]) / slowest + 4.0 * float(np.linalg.norm(self.edges_mm)))

    @property
    def scale(self) -> float:
        """Quanta of the tally per mm: each entry fits in 32 bits, and all of them together in 63."""
        crowd = max(1.0, self.settings.photons / _PHOTONS_AT_FULL_SCALE)
        return 2.0 ** math.floor(31.9 - math.log2(self.bound_mm) - math.ceil(math.log2(crowd)))

    def fluence_of_quantum(self, photons: int) -> float:
        """Fluence (1/mm^2) per launched photon of one quantum of the tally of some photons."""
        return 1.0 / (self.scale * self.domain.voxel_volume_mm3 * max(1, photons))

    @property
    def energy_scale(self) -> float:
        """Quanta of the energy tally per photon weight."""
        of_batch = 59 - math.ceil(math.log2(self.batch_size * self.heaviest))
        # the map of escaping light adds up over all batches
        of_exits = 63 - math.ceil(math.log2(self.settings.photons * self.heaviest)) if self.settings.exit_map else 63
        return 2.0 ** min(30, of_batch, of_exits)

    @property
    def absorbed_scale(self) -> float:
        """Quanta of absorbed energy per quantum of the tally times mu_a (1/mm)."""
        return 2.0 ** min(20, 58 - math.ceil(math.log2(self.batch_size)) - math.ceil(math.log2(self.scale)))

    # -- memory ---------------------------------------------------------------------------------------------------

    @cached_property
    def key(self) -> str:
        """Fingerprint of everything but the number of photons: runs with the same key trace the same photons."""
        s = self.settings
        first = self.packed_sources[0]
        words: tuple[Any, ...] = (s.seed, s.refraction, s.specular, s.roulette_threshold, s.faces, s.halves, s.exit_map)
        words += (self.size, self.kind, first.pattern_columns, self.scale, self.energy_scale, self.absorbed_scale)
        words += (self.anisotropy,) if self.tensors is not None else ()
        words += ("split at gates",) if s.is_gated else ()  # earlier gated runs do not fit
        found = hashlib.sha256(repr(words).encode())
        arrays = (self.rows, self.media, self.mua, self.mus, self.edges_mm, first.numbers, first.pattern)
        own = (self.g, self.n, self.phase, *(self.tensors or ()))
        for array in (*arrays, self.gate_edges, self.detector_numbers, *own):
            found.update(np.ascontiguousarray(array).data)
        for more in (first.angles, self.shares, self.surfaces):
            if more is not None and more.size:
                found.update(np.ascontiguousarray(more).data)
        for table in self.source_table if self.others else ():
            found.update(np.ascontiguousarray(table).data)
        return found.hexdigest()

    def options(self, device: Device) -> dict[str, Any]:
        """On GPUs the batches that each traces together, and the tallies of each batch.

        As many as leave half of what is spare on the fullest one. InvalidInput if there are too many cells.
        """
        if not device.is_gpu:
            return {}
        if self.tally_size >= _MAX_CELLS:
            raise InvalidInput(
                f"the volume has {self.tally_size:,} cells with its time gates and patterns, more than a GPU run can "
                "count; take fewer of them or larger voxels, or device='cpu'"
            )
        spare = max(0, free_memory_bytes(device) - self.resident_bytes()) // 2
        room = 1 + spare // (8 * self.tally_size)
        slots = min(self.slots(len(device.indices)), _MAX_CELLS // self.tally_size, room)
        copies = min(self.copies(slots), room // slots, _MAX_CELLS // (slots * self.tally_size))
        return {"slots": slots, "copies": max(1, copies)}

    def needed_bytes(self, device: Device, **options: Any) -> int:
        """Those of a run with so many tallies."""
        return self.resident_bytes(options.get("slots", 1) * options.get("copies", 1))

    @property
    def bytes_per_item(self) -> int:
        """Bytes of the list of detected photons that one photon may take."""
        return self.detected_bytes if self.detectors else 1

    @property
    def detected_bytes(self) -> int:
        """Bytes that a detected photon takes."""
        return 8 + 4 * (DETECTED_NUMBERS + self.media_rows)

    def slots(self, sharers: int = 1) -> int:
        """Batches that one of some GPUs traces together, each with a tally of its own, as far as the memory goes."""
        share = -(-self.batch_count // sharers)
        return max(1, min(SLOT_BYTES // (8 * self.tally_size), share))

    def copies(self, slots: int) -> int:
        """Tallies of each of so many batches that a GPU traces together: blocks of threads share them out."""
        near = max(_FEWEST_COPIES, min(_MAX_COPIES, _NEAR_BYTES // (8 * self.tally_size)))
        return max(1, min(near, _COPIED_BYTES // (8 * self.tally_size * slots)))

    @property
    def grid_bytes(self) -> int:
        """Bytes of what photons meet: media, coefficients voxel by voxel, tensors, and patterns of sources."""
        per_cell = self.rows.itemsize + 8 * self.domain.is_continuous + 8 * self.has_own_g_or_n
        patterns = (source.pattern for source in self.packed_sources if isinstance(source.source, Patterned))
        tables = (self.media, *(self.tensors or ()), *patterns)
        return self.cells * per_cell + sum(table.nbytes for table in tables)

    @property
    def state_bytes(self) -> int:
        """Bytes of what whole batches leave: sums, squares, and exits."""
        return 8 * (self.tally_size + 2 * self.square_size + self.exit_cells)

    def resident_bytes(self, tallies: int = 1) -> int:
        """Bytes that a run keeps: what photons meet, shares, tallies, sums and squares, and exits."""
        alike = self.energy_size * 8 * self.batch_count
        if self.shares is not None:  # tallies of one pattern are copied for folding
            alike += self.shares.nbytes + 8 * tallies * self.tally_size // self.patterns
        return self.grid_bytes + self.state_bytes + 8 * tallies * self.tally_size + alike
