"""Detectors on the surface, and detected photons."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.optics.sources import Vector

Array = npt.NDArray[Any]
FACES = ("-i", "+i", "-j", "+j", "-k", "+k")  # of the grid, across its axes


@dataclass(frozen=True, kw_only=True)
class Detector(Settings):
    """A place on the surface that detects escaping photons.

    Parameters
    ----------
    position_mm
        Center, world mm.
    radius_mm
        Radius, mm.
    normal
        For a flat disc: its normal in world axes; a photon counts that escapes within the radius of the axis and within
        half a radius of the plane. None: a sphere; a photon counts that escapes inside it.
    name
        For tables.

    Raises
    ------
    InvalidInput
        If a number is not finite, or the radius not positive.
    """

    position_mm: Vector = part("Position", "Center, world axes.", unit="mm")
    radius_mm: float = param(1.5, "Radius", "Radius of the detector.", unit="mm", above=0.0, maximum=1e4, step=0.1)
    normal: Vector | None = part("Normal", "Of a flat disc, world axes; a sphere by default.", default=None)
    name: str = param("", "Name", "For tables.")

    def check(self) -> None:
        """Raise InvalidInput if the normal is zero."""
        if self.normal is not None and not any(self.normal):
            raise InvalidInput("the detector's normal is (0, 0, 0); give a direction, or None for a sphere")


@dataclass(frozen=True, kw_only=True)
class FaceDetector(Settings):
    """A whole face of the grid that detects what escapes through it; not what escapes inside the grid, into label 0.

    Parameters
    ----------
    face
        One of `FACES`: ``-k`` is the face before the first voxels of the third axis, ``+k`` that behind the last.
    name
        For tables.

    Raises
    ------
    InvalidInput
        If there is no such face.
    """

    kind: ClassVar[str] = "face"
    face: str = param("-k", "Face", "Face of the grid that detects.", choices=FACES)
    name: str = param("", "Name", "For tables.")


AnyDetector: TypeAlias = Detector | FaceDetector


def detector_names(detectors: Sequence[AnyDetector]) -> tuple[str, ...]:
    """Names of detectors; one without a name has its number, from D1, or that of its face."""
    return tuple(
        detector.name or (f"D{number}" if isinstance(detector, Detector) else f"face {detector.face}")
        for number, detector in enumerate(detectors, 1)
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class DetectedPhotons(ShortRepr):
    """Detected photons, ordered by photon.

    Parameters
    ----------
    photon
        Index of the photon, shape (N,), uint64.
    detector
        Index of the detector, shape (N,).
    weight
        Weight at escape, shape (N,).
    path_mm
        Path length in each medium, shape (N, M), in the order of ``labels``.
    scatterings
        Number of scattering events, shape (N,).
    position_mm, direction
        Where and in which direction it escaped, world, shape (N, 3); the direction is that after refraction.
    time_ns
        Time of flight, shape (N,).
    labels
        Label of each medium, length M.
    launched
        Number of photons launched in all.
    dropped
        Detected photons that are not listed, because the list was full.
    """

    photon: npt.NDArray[np.uint64]
    detector: npt.NDArray[np.int32]
    weight: npt.NDArray[np.float32]
    path_mm: npt.NDArray[np.float32]
    scatterings: npt.NDArray[np.int32]
    position_mm: npt.NDArray[np.float64]
    direction: npt.NDArray[np.float64]
    time_ns: npt.NDArray[np.float64]
    labels: tuple[int, ...]
    launched: int
    dropped: int = 0

    def __len__(self) -> int:
        return len(self.photon)

    def of(self, detector: int) -> "DetectedPhotons":
        """Return the photons of one detector; where the list was full, of those launched until then."""
        chosen = self.detector == detector
        rows = {name: values[chosen] for name, values in vars(self).items() if isinstance(values, np.ndarray)}
        return replace(self, **rows, launched=self.listed_launched, dropped=0)

    @property
    def detected_weight(self) -> float:
        """Weight per launched photon."""
        return float(self.weight.sum(dtype=np.float64)) / max(1, self.listed_launched)

    @property
    def listed_launched(self) -> int:
        """Photons of a complete run that the list stands for: where it was full, those up to the last one listed."""
        is_full = self.dropped and len(self.photon)
        return min(int(self.photon[-1]) + 1, self.launched) if is_full else self.launched

    def mean_path_mm(self) -> npt.NDArray[np.float64]:
        """Mean partial path length in each medium, weighted by the photons' weight, mm, shape (M,)."""
        total = self.weight.sum(dtype=np.float64)
        if total == 0:
            return np.full(len(self.labels), np.nan)
        return np.asarray(self.weight.astype(np.float64) @ self.path_mm / total)

    def mean_time_ns(self) -> float:
        """Mean time of flight, weighted, ns."""
        total = self.weight.sum(dtype=np.float64)
        return float(self.weight.astype(np.float64) @ self.time_ns / total) if total else float("nan")

    def differential_pathlength_factor(self, separation_mm: float) -> float:
        """Mean total path over the distance between source and detector (DPF)."""
        if not separation_mm > 0:
            raise InvalidInput(f"the source-detector separation is {separation_mm} mm; it must be greater than 0")
        return float(self.mean_path_mm().sum() / separation_mm)

    def time_point_spread(self, edges_ns: Sequence[float] | Array) -> npt.NDArray[np.float64]:
        """Weight per launched photon and ns in each interval between edges (TPSF), shape (len(edges) - 1,)."""
        edges = np.asarray(edges_ns, np.float64)
        sums, _ = np.histogram(self.time_ns, edges, weights=self.weight.astype(np.float64))
        return np.asarray(sums / np.diff(edges) / max(1, self.listed_launched))
