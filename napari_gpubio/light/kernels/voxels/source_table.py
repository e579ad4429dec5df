"""Sources as the backends take them: one, or a table of several with the chances that a photon starts at each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.light.model import Domain
from napari_gpubio.light.smooth_surface import entered_surface
from napari_gpubio.light.source import KINDS, RECTANGLES, Source
from napari_gpubio.light.surface import label_at

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]

# As in ``start.cuh``: where photons of a source start, and how they leave; both make a number, shape + EMISSION_STEP *
# emission.
POINT, DISK, GAUSSIAN, RECTANGLE, PATTERN, LINE, CYLINDER, ARRAY, FOURIER, WAIST, VOLUME, FOURIER_2D = range(12)
COLLIMATED, FOCUSED, ISOTROPIC, CONE, COSINE, EVEN, NORMAL, ZGAUSSIAN, ANGLES, AROUND, SPREAD = range(11)
EMISSION_STEP = 16
SOURCE_NUMBERS, SURFACE_NUMBERS = 24, 15
SUM_BITS = 24  # of each of the two numbers that make a running sum of a volume, which single precision holds exactly

_MADE_OF = {
    "pencil": (POINT, COLLIMATED),
    "isotropic": (POINT, ISOTROPIC),
    "cone": (POINT, CONE),
    "fiber": (DISK, CONE),
    "gaussian": (GAUSSIAN, COLLIMATED),
    "disk": (DISK, COLLIMATED),
    "planar": (RECTANGLE, COLLIMATED),
    "pattern": (PATTERN, COLLIMATED),
    "line": (LINE, ISOTROPIC),
    "cylinder": (CYLINDER, COSINE),
    "lambertian": (DISK, COSINE),
    "slit": (RECTANGLE, COLLIMATED),
    "pencil_array": (ARRAY, COLLIMATED),
    "fourier": (FOURIER, COLLIMATED),
    "fourier_2d": (FOURIER_2D, COLLIMATED),
    "radial_line": (LINE, AROUND),
    "hyperboloid": (WAIST, COLLIMATED),
    "even_cone": (POINT, EVEN),
    "normal_cone": (POINT, NORMAL),
    "zgaussian": (POINT, ZGAUSSIAN),
    "volume": (VOLUME, ISOTROPIC),
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
        shape, emission = _MADE_OF[self.source.kind]
        if self.source.launch_angles_deg is not None:
            emission = ANGLES
        if emission == COLLIMATED and shape != WAIST and self._focus_mm:
            emission = FOCUSED
        elif self.source.kind == "slit" and (self.source.spread_along or self.source.spread_across):
            emission = SPREAD
        return shape + EMISSION_STEP * emission

    @property
    def is_rare(self) -> bool:
        """Whether it needs what the kernels have for the rare sources only; see ``start.py``."""
        shape, emission = self.kind % EMISSION_STEP, self.kind // EMISSION_STEP
        is_part = shape == DISK and any(self.numbers[17:])
        return is_part or shape >= ARRAY or emission == FOCUSED or emission >= EVEN

    @property
    def _focus_mm(self) -> float:
        return self.source.focus_mm if "focus_mm" in KINDS[self.source.kind] else 0.0

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
        wide = s.kind in RECTANGLES or s.kind == "volume"
        numbers[12] = s.width_mm if wide else s.radius_mm
        numbers[13] = s.across_mm if wide else s.length_mm
        numbers[14] = 1.0 - math.cos(self._half_angle())
        numbers[15] = (s.half_angle_deg if s.kind == "even_cone" else s.angle_sd_deg) / 360.0
        numbers[16] = self._focus_mm
        own = {
            "disk": self._disk_numbers,
            "lambertian": self._disk_numbers,
            "pencil_array": (s.columns, s.rows),
            "fourier": (s.cycles_across, s.cycles_up, s.phase_deg / 360.0, s.modulation),
            "fourier_2d": (
                s.cycles_across,
                s.cycles_up,
                s.phase_deg / 360.0,
                s.modulation,
                s.phase_up_deg / 360.0,
            ),
            "hyperboloid": (s.rayleigh_mm,),
            "volume": (*np.asarray(s.pattern).shape, s.length_mm),
            "slit": (s.spread_along, s.spread_across),
            "radial_line": (0.0, *self._sector_turns),
        }.get(s.kind, ())
        numbers[17 : 17 + len(own)] = own
        numbers[23] = -len(self.angles) if s.launch_angles_are_discrete else len(self.angles)
        return numbers.astype(np.float32)

    @property
    def _disk_numbers(self) -> tuple[float, ...]:
        return (self.source.inner_radius_mm / self.source.radius_mm) ** 2, *self._sector_turns

    @property
    def _sector_turns(self) -> tuple[float, float]:
        start, stop = self.source.sector_deg or (0.0, 0.0)
        return start / 360.0, (stop - start) / 360.0

    def _half_angle(self) -> float:
        if self.source.kind != "fiber":
            return math.radians(self.source.half_angle_deg)
        n = self.domain.outside_n
        if label_at(self.domain.labels, self.domain.affine, self.source.position_mm):
            n = self.domain.medium_at(self.source.position_mm).n
        if self.source.numerical_aperture > n:
            raise InvalidInput(
                f"the fiber's numerical aperture is {self.source.numerical_aperture:g}, more than the refractive index "
                f"{n:g} where it ends; give a smaller one"
            )
        return math.asin(self.source.numerical_aperture / n)

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
        if self.source.pattern is None:
            return np.ones(1, np.float32)
        sums = np.cumsum(self.source.pattern.ravel())
        if self.source.kind == "volume":
            whole = np.rint(sums / sums[-1] * 2.0 ** (2 * SUM_BITS)).astype(np.int64)
            return np.stack([whole >> SUM_BITS, whole & ((1 << SUM_BITS) - 1)], axis=1).astype(np.float32).ravel()
        return (sums / sums[-1]).astype(np.float32)

    @property
    def pattern_columns(self) -> int:
        """Columns of the pattern."""
        return 1 if self.source.pattern is None or self.source.kind == "volume" else self.source.pattern.shape[1]

    @cached_property
    def angles(self) -> npt.NDArray[np.float32]:
        """The source's table of launch angles, in turns; empty where it has none."""
        return (np.array(self.source.launch_angles_deg or (), np.float64) / 360.0).astype(np.float32)


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
