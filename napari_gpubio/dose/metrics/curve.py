"""Dose-volume histograms as curves, and what is read off them directly."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

Array = npt.NDArray[np.float64]


class Differential(NamedTuple):
    """Volume in dose intervals.

    Parameters
    ----------
    edges
        Of the intervals, in units of the dose (or %), shape (N + 1,).
    volumes
        In each of them, cc (or %), shape (N,).
    """

    edges: Array
    volumes: Array


@dataclass(frozen=True, eq=False, kw_only=True)
class Dvh:
    """The cumulative histogram of one structure.

    Parameters
    ----------
    name
        Of the structure.
    unit
        Of the dose.
    doses, volumes_cc
        The curve: ``volumes_cc`` receives at least ``doses``; ascending dose, falling volume, shape (N,) each, straight
        between them. It begins with the least dose and all of the volume and ends with the largest dose. Both are
        empty for a structure without volume.
    mean
        Mean dose, NaN for a structure without volume.
    outside_cc
        Volume of the structure outside the dose grid; ``outside`` says whether it is part of the curve.
    outside
        How that volume is treated, see `napari_gpubio.dose.settings.DvhSettings`.
    color
        Red, green, blue, 0 to 255, where it is known.
    spacing_mm
        Largest distance of samples; 0 where it is not known.
    zero_cc
        Volume inside the dose grid that received no dose at all: where light was simulated, no photon reached it, which
        means "less than the run can detect". None where it was not counted apart (bins of equal width).
    resolution_cc
        Volume that one unit of weight stands for; differences below it mean nothing.
    notes
        In sentences.
    """

    name: str
    unit: str
    doses: Array
    volumes_cc: Array
    mean: float
    outside_cc: float = 0.0
    outside: str = "zero"
    color: tuple[int, int, int] | None = None
    spacing_mm: float = 0.0
    zero_cc: float | None = None
    resolution_cc: float = 0.0
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the structure has no volume (in the dose)."""
        return len(self.doses) == 0

    @property
    def volume_cc(self) -> float:
        """All of the volume of the curve."""
        return 0.0 if self.is_empty else float(self.volumes_cc[0])

    @property
    def zero_percent(self) -> float | None:
        """Share of the volume that received no dose at all, %; None where it was not counted apart."""
        return None if self.zero_cc is None or self.is_empty else 100.0 * self.zero_cc / self.volume_cc

    @property
    def least_positive(self) -> float:
        """Least dose above 0 on the curve; NaN if there is none."""
        positive = self.doses[self.doses > 0]
        return float(positive[0]) if len(positive) else float("nan")

    def step_at(self, dose: float) -> float:
        """Width of the bin in which a dose lies: how finely doses near it are known, in units of the dose."""
        if self.is_empty or not self.least < dose <= self.largest:
            return 0.0
        above = int(np.searchsorted(self.doses, dose, side="left"))
        return float(self.doses[above] - self.doses[above - 1])

    @property
    def least(self) -> float:
        """Least dose of the structure's samples; NaN for a structure without volume.

        Samples lie anywhere in the structure, between voxel centers and up to its border, half a slice beyond its ends.
        Programs that take the extremes of voxels whose centers are inside (SlicerRT, plastimatch) find a narrower
        range wherever doses are steep at the border, and a least or largest voxel that lies between our samples: of a
        breast plan's scar of 0.5 cc they find 2.36 to 9.97 Gy, its planning system 1.22 to 11.55 Gy, and we 0.50 to
        12.35 Gy; of its heart all find 3.09 to 3.10 Gy at most. D0.03cc depends less on such rules.
        """
        return float("nan") if self.is_empty else float(self.doses[0])

    @property
    def largest(self) -> float:
        """Largest dose of the structure's samples, see ``least``; NaN for a structure without volume."""
        return float("nan") if self.is_empty else float(self.doses[-1])

    def volume_at(self, dose: npt.ArrayLike) -> Any:
        """Volume that receives at least a dose, cc; same shape as ``dose``."""
        given = np.asarray(dose, np.float64)
        if self.is_empty:
            return np.zeros(given.shape)[()]
        here = np.clip(np.searchsorted(self.doses, given, side="left"), 1, len(self.doses) - 1)  # the first not below
        low, high = self.doses[here - 1], self.doses[here]
        share = (given - low) / np.where(high > low, high - low, 1.0)
        inner = self.volumes_cc[here - 1] + share * (self.volumes_cc[here] - self.volumes_cc[here - 1])
        inner = np.where(given == high, self.volumes_cc[here], inner)
        return np.where(given <= self.least, self.volume_cc, np.where(given > self.largest, 0.0, inner))[()]

    def dose_at(self, volume_cc: npt.ArrayLike) -> Any:
        """Least dose in the hottest part of a volume in cc (D_x): the largest dose that so much volume receives.

        NaN for more volume than there is. Where ``zero_cc`` is not 0, a dose of 0 means "less than
        `least_positive`": none was counted there.
        """
        given = np.asarray(volume_cc, np.float64)
        if self.is_empty:
            return np.full(given.shape, np.nan)[()]
        last = np.searchsorted(-self.volumes_cc, -given, side="right") - 1  # the last point with so much volume
        here = np.clip(last, 0, len(self.doses) - 2) if len(self.doses) > 1 else np.zeros_like(last)
        after = np.minimum(here + 1, len(self.doses) - 1)
        drop = self.volumes_cc[here] - self.volumes_cc[after]
        share = np.clip((self.volumes_cc[here] - given) / np.where(drop > 0, drop, 1.0), 0.0, 1.0)
        found = self.doses[here] + share * (self.doses[after] - self.doses[here])
        found = np.where(last >= len(self.doses) - 1, self.largest, found)
        tolerance = 1e-9 * self.volume_cc
        return np.where(given > self.volume_cc + tolerance, np.nan, np.where(last < 0, self.least, found))[()]

    def dose_at_percent(self, percent: npt.ArrayLike) -> Any:
        """D_x%: dose that x % of the volume receive at least."""
        return self.dose_at(np.asarray(percent, np.float64) / 100.0 * self.volume_cc)

    def percent_at(self, dose: npt.ArrayLike) -> Any:
        """V_x in % of the volume; NaN for a structure without volume."""
        return (
            100.0 * (self.volume_at(dose) / self.volume_cc) if self.volume_cc > 0 else np.full(np.shape(dose), np.nan)
        )

    def band_volume(self, low: float, high: float) -> float:
        """Volume with a dose from ``low`` up to ``high``, cc."""
        if not low <= high:
            raise InvalidInput(
                f"the band runs from {low:g} to {high:g} {self.unit}; its end must not be below its start"
            )
        return float(self.volume_at(low) - self.volume_at(np.nextafter(high, np.inf)))

    def curve(self, *, reference_dose: float | None = None, relative_volume: bool = True) -> tuple[Array, Array]:
        """Doses and volumes to draw, beginning at dose 0 (or at a negative least dose).

        Parameters
        ----------
        reference_dose
            Doses are in % of it; None: in units of the dose.
        relative_volume
            Volumes in % of the volume instead of cc.
        """
        start = min(0.0, self.least) if not self.is_empty else 0.0
        doses = np.concatenate([[start], self.doses])
        volumes = np.concatenate([[self.volume_cc], self.volumes_cc])
        return doses * _percent_of(reference_dose), volumes * self._volume_factor(relative_volume)

    def differential(
        self, edges: npt.ArrayLike | None = None, *, reference_dose: float | None = None, relative_volume: bool = True
    ) -> Differential:
        """Volume in each dose interval; all of them together are the volume if the edges hold all doses.

        Parameters
        ----------
        edges
            Ascending, in units of the dose; None: 100 equal intervals from 0 (or a negative least dose) to the largest.
        reference_dose, relative_volume
            See `curve`.
        """
        if edges is None:
            edges = np.linspace(min(0.0, self.least), self.largest, 101) if not self.is_empty else np.array([0.0, 1.0])
        borders = np.asarray(edges, np.float64)
        above = np.asarray(self.volume_at(borders))
        if not self.is_empty and borders[-1] == self.largest:
            above[-1] = 0.0  # the last interval holds its upper end
        volumes = -np.diff(above) * self._volume_factor(relative_volume)
        return Differential(borders * _percent_of(reference_dose), volumes)

    def scaled(self, factor: float) -> "Dvh":
        """The histogram of the dose times a number (such as power times time of a light source), not counted anew."""
        if not (np.isfinite(factor) and factor > 0):
            raise InvalidInput(f"the dose is to be scaled by {factor!r}; give a positive number")
        if factor == 1:
            return self
        return dataclasses.replace(self, doses=self.doses * factor, mean=self.mean * factor)

    def _volume_factor(self, relative: bool) -> float:  # noqa: FBT001 - passed on
        return 100.0 / self.volume_cc if relative and self.volume_cc > 0 else 1.0


@dataclass(frozen=True, eq=False, kw_only=True)
class DvhResult:
    """Histograms of all structures, in the order in which they were given.

    Parameters
    ----------
    dvhs
        One for each structure, labels in the order of their names.
    parameters
        How they were made; only what JSON can hold.
    complete
        False if the run was stopped before its end; the curves then hold what was counted.
    """

    dvhs: tuple[Dvh, ...]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    complete: bool = True

    def __getitem__(self, name: str) -> Dvh:
        for dvh in self.dvhs:
            if dvh.name == name:
                return dvh
        raise InvalidInput(f"there is no structure {name!r}; there are {', '.join(dvh.name for dvh in self.dvhs)}")

    def __iter__(self) -> Iterator[Dvh]:
        return iter(self.dvhs)

    def __len__(self) -> int:
        return len(self.dvhs)


def _percent_of(reference_dose: float | None) -> float:
    if reference_dose is None:
        return 1.0
    if not (np.isfinite(reference_dose) and reference_dose > 0):
        raise InvalidInput(f"the reference dose is {reference_dose!r}; give a positive dose")
    return 100.0 / reference_dose
