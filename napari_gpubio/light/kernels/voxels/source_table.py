"""Sources as the backends take them: one, or a table of several with the chances that a photon starts at each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.smooth_surface import entered_surface
from napari_gpubio.optics.sources import Source, base, kinds
from napari_gpubio.optics.surface import label_at

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]

# As in ``start.cuh``: where photons of a source start, and how they leave; both make a number, shape + EMISSION_STEP *
# emission.
POINT, DISK, GAUSSIAN, RECTANGLE, PATTERN, LINE, CYLINDER, ARRAY, FOURIER, WAIST, VOLUME, FOURIER_2D = range(12)
COLLIMATED, FOCUSED, ISOTROPIC, CONE, COSINE, EVEN, NORMAL, ZGAUSSIAN, ANGLES, AROUND, SPREAD = range(11)
EMISSION_STEP = 16
SOURCE_NUMBERS, SURFACE_NUMBERS = 24, 15
SUM_BITS = 24  # of each of the two numbers that make a running sum of a volume, which single precision holds exactly

_MADE_OF: dict[type[Source], tuple[int, int]] = {
    kinds.Pencil: (POINT, COLLIMATED),
    kinds.Isotropic: (POINT, ISOTROPIC),
    kinds.Cone: (POINT, CONE),
    kinds.Fiber: (DISK, CONE),
    kinds.Gaussian: (GAUSSIAN, COLLIMATED),
    kinds.Disk: (DISK, COLLIMATED),
    kinds.Planar: (RECTANGLE, COLLIMATED),
    kinds.Pattern: (PATTERN, COLLIMATED),
    kinds.Line: (LINE, ISOTROPIC),
    kinds.Cylinder: (CYLINDER, COSINE),
    kinds.Lambertian: (DISK, COSINE),
    kinds.Slit: (RECTANGLE, COLLIMATED),
    kinds.PencilArray: (ARRAY, COLLIMATED),
    kinds.Fourier: (FOURIER, COLLIMATED),
    kinds.Fourier2D: (FOURIER_2D, COLLIMATED),
    kinds.RadialLine: (LINE, AROUND),
    kinds.Hyperboloid: (WAIST, COLLIMATED),
    kinds.EvenCone: (POINT, EVEN),
    kinds.NormalCone: (POINT, NORMAL),
    kinds.ZGaussian: (POINT, ZGAUSSIAN),
    kinds.EmittingVolume: (VOLUME, ISOTROPIC),
}


@dataclass(frozen=True, eq=False)
class PackedSource:
    """A source in a domain as numbers.

    Parameters
    ----------
    source, domain
        Their world coordinates become mm along the axes of the volume.
    """

    source: Source
    domain: Domain

    @property
    def kind(self) -> int:
        """Shape and emission, as the backends number them."""
        s = self.source
        shape, emission = _MADE_OF[type(s)]
        if isinstance(s, base.Collimated) and s.launch_angles_deg is not None:
            emission = ANGLES
        elif isinstance(s, base.Focusable) and s.focus_mm:
            emission = FOCUSED
        elif isinstance(s, kinds.Slit) and s.spreads:
            emission = SPREAD
        return shape + EMISSION_STEP * emission

    @property
    def is_rare(self) -> bool:
        """Whether it needs what the kernels have for the rare sources only; see ``start.py``."""
        shape, emission = self.kind % EMISSION_STEP, self.kind // EMISSION_STEP
        is_part = shape == DISK and any(self.numbers[17:])
        return is_part or shape >= ARRAY or emission == FOCUSED or emission >= EVEN

    @cached_property
    def numbers(self) -> npt.NDArray[np.float32]:
        """What `begin` of the backends takes, along the volume's axes; shape (SOURCE_NUMBERS,).

        Position, frame, two sizes, 1 - cosine of the opening, angle in turns, focus (mm); then of a disk the inner
        radius over the outer one, squared, and start and extent of the sector in turns (0: all of it); of an array its
        columns and rows; of a modulated rectangle cycles along both edges, phase in turns, amplitude, and the phase of
        the second edge, if it has one; of a hyperboloid its Rayleigh length (mm); of a slit the spread of slopes; of a
        line that emits around itself the sector, as of a disk; of a volume its cells along the three axes, and its
        length (mm). The last two are place and length of a table of launch angles, negative if only these angles occur.
        """
        s, numbers = self.source, np.zeros(SOURCE_NUMBERS)
        numbers[:3] = self.domain.world_to_grid(s.position_mm)
        numbers[3:12] = self.domain.direction_to_grid(s.frame()).ravel()
        match s:
            case base.Rectangle() | kinds.EmittingVolume():
                numbers[12:14] = s.width_mm, s.across_mm
            case base.Round() | kinds.Cylinder():
                numbers[12] = s.radius_mm
        if isinstance(s, base.Linear):
            numbers[13] = s.length_mm
        match s:
            case kinds.Fiber():
                numbers[14] = 1.0 - math.cos(self._half_angle(s))
            case kinds.EvenCone():
                numbers[15] = s.half_angle_deg / 360.0
            case base.Opening():
                numbers[14] = 1.0 - math.cos(math.radians(s.half_angle_deg))
            case base.Scattered():
                numbers[15] = s.angle_sd_deg / 360.0
            case base.Focusable() | kinds.Hyperboloid():
                numbers[16] = s.focus_mm
        own = _own_numbers(s)
        numbers[17 : 17 + len(own)] = own
        if isinstance(s, base.Collimated):
            numbers[23] = -len(self.angles) if s.launch_angles_are_discrete else len(self.angles)
        return numbers.astype(np.float32)

    def _half_angle(self, fiber: kinds.Fiber) -> float:
        n = self.domain.outside_n
        if label_at(self.domain.labels, self.domain.affine, fiber.position_mm):
            n = self.domain.medium_at(fiber.position_mm).n
        if fiber.numerical_aperture > n:
            raise InvalidInput(
                f"the fiber's numerical aperture is {fiber.numerical_aperture:g}, more than the refractive index "
                f"{n:g} where it ends; give a smaller one"
            )
        return math.asin(fiber.numerical_aperture / n)

    @cached_property
    def surface(self) -> npt.NDArray[np.float32]:
        """The smoothed surface that light enters through, along the volume's axes, shape (SURFACE_NUMBERS,).

        A place (mm), the normal there and its change per mm, row by row; zeros: light enters through faces of voxels.
        """
        found = entered_surface(self.domain.labels, self.domain.affine, self.source)
        if found is None:
            return np.zeros(SURFACE_NUMBERS, np.float32)
        turning = self.domain.direction_to_grid(self.domain.direction_to_grid(found.turning_per_mm).T).T
        place, normal = self.domain.world_to_grid(found.place_mm), self.domain.direction_to_grid(found.normal)
        return np.concatenate([place, normal, turning.ravel()]).astype(np.float32)

    @cached_property
    def pattern(self) -> npt.NDArray[np.float32]:
        """Running sum of the pattern's pixels, row by row, the last one 1; a single 1 without a pattern.

        Of a volume, a sum is a whole number of 2^-48 in two parts, the upper 24 bits and the lower ones: single
        precision could not distinguish the sums of millions of cells.
        """
        if not isinstance(self.source, base.Patterned):
            return np.ones(1, np.float32)
        sums = np.cumsum(self.source.pattern.ravel())
        if isinstance(self.source, kinds.EmittingVolume):
            whole = np.rint(sums / sums[-1] * 2.0 ** (2 * SUM_BITS)).astype(np.int64)
            return np.stack([whole >> SUM_BITS, whole & ((1 << SUM_BITS) - 1)], axis=1).astype(np.float32).ravel()
        return (sums / sums[-1]).astype(np.float32)

    @property
    def pattern_columns(self) -> int:
        """Columns of the pattern."""
        return self.source.pattern.shape[1] if isinstance(self.source, kinds.Pattern) else 1

    @cached_property
    def angles(self) -> npt.NDArray[np.float32]:
        """The source's table of launch angles, in turns; empty where it has none."""
        angles = self.source.launch_angles_deg if isinstance(self.source, base.Collimated) else None
        return (np.array(angles or (), np.float64) / 360.0).astype(np.float32)


def _own_numbers(source: Source) -> tuple[float, ...]:
    """What only some kinds have; see `PackedSource.numbers`."""
    match source:
        case base.Ring():
            return (source.inner_radius_mm / source.radius_mm) ** 2, *_sector_turns(source)
        case kinds.RadialLine():
            return 0.0, *_sector_turns(source)
        case kinds.PencilArray():
            return source.columns, source.rows
        case base.Modulated():
            own = source.cycles_across, source.cycles_up, source.phase_deg / 360.0, source.modulation
            return (*own, source.phase_up_deg / 360.0) if isinstance(source, kinds.Fourier2D) else own
        case kinds.Hyperboloid():
            return (source.rayleigh_mm,)
        case kinds.EmittingVolume():
            return *source.pattern.shape, source.length_mm
        case kinds.Slit():
            return source.spread_along, source.spread_across
    return ()


def _sector_turns(source: base.Sector) -> tuple[float, float]:
    start, stop = source.sector_deg or (0.0, 0.0)
    return start / 360.0, (stop - start) / 360.0


class SourceTable(NamedTuple):
    """One source or several, end to end.

    Parameters
    ----------
    numbers
        `PackedSource.numbers` of each, shape (S * SOURCE_NUMBERS,).
    pattern, angles
        Running sums of all patterns, and all tables of launch angles.
    chances
        Running sum of the chances of the sources, the last one 1; shape (S,).
    places
        Of each source its kind, columns of its pattern, and where that begins and ends; shape (S, 4).
    """

    numbers: Floats
    pattern: Floats
    angles: Floats
    chances: Floats
    places: Integers

    @property
    def is_several(self) -> bool:
        """Whether photons start at one of several sources."""
        return len(self.chances) > 1


def running_chances(weights: Sequence[float]) -> Floats:
    """Running sum of the chances of sources with some weights, the last one 1."""
    sums = np.cumsum(np.asarray(weights, np.float64))
    return np.asarray((sums / sums[-1]).astype(np.float32))


def source_table(parts: Sequence[PackedSource]) -> SourceTable:
    """Return the table of some sources."""
    ends = np.cumsum([len(part.pattern) for part in parts])
    starts = ends - [len(part.pattern) for part in parts]
    kinds, columns = [part.kind for part in parts], [part.pattern_columns for part in parts]
    numbers = np.array([part.numbers for part in parts])
    angles = [part.angles for part in parts]
    numbers[:, 22] = np.cumsum([0, *map(len, angles)])[:-1]
    return SourceTable(
        numbers=numbers.ravel(),
        pattern=np.concatenate([part.pattern for part in parts]),
        angles=np.concatenate(angles),
        chances=running_chances([part.source.weight for part in parts]),
        places=np.stack([kinds, columns, starts, ends], axis=1).astype(np.int32),
    )
