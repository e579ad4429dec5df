"""Settings of a forward model."""

from dataclasses import dataclass
from typing import ClassVar

from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.light.settings import MAX_PHOTONS, LightSettings
from napari_gpubio.optics.sources import Fiber, Pencil, Source, Vector

PHOTONS = {"cpu": 200_000, "cuda": 10_000_000}  # of an optode, where none are given
_POINT_RADIUS_MM = 0.01
_APERTURE_IN_AIR = 1.0


@dataclass(frozen=True, kw_only=True)
class Optode(Settings):
    """Base of ways in which light enters from a source, or a detector takes it."""

    touches: ClassVar[bool] = True  # the skin; else it starts outside of it

    @property
    def core_mm(self) -> float:
        """Radius of its core, mm, if that is not small."""
        return 0.0

    def source(self, position_mm: Vector, direction: Vector) -> Source:
        """The source that stands for an optode there."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class PencilOptode(Optode):
    """Light along the axis; a detector takes what leaves normally, whose mean path is longer than that of all light."""

    kind: ClassVar[str] = "pencil"
    touches = False

    def source(self, position_mm: Vector, direction: Vector) -> Source:
        """The source that stands for an optode there."""
        return Pencil(position_mm=position_mm, direction=direction, entry="smooth")


@dataclass(frozen=True, kw_only=True)
class DiffuseOptode(Optode):
    """Light of all directions of the air, as of an LED on the skin, or to a small detector."""

    kind: ClassVar[str] = "diffuse"

    def source(self, position_mm: Vector, direction: Vector) -> Source:
        """The source that stands for an optode there."""
        return _fiber(_POINT_RADIUS_MM, _APERTURE_IN_AIR, position_mm, direction)


@dataclass(frozen=True, kw_only=True)
class FiberOptode(Optode):
    """Light within the numerical aperture of a fiber."""

    kind: ClassVar[str] = "fiber"
    radius_mm: float = param(0.5, "Fiber radius", "Radius of fibers.", unit="mm", above=0.0, maximum=20.0, step=0.1)
    numerical_aperture: float = param(
        0.5, "Fiber NA", "Numerical aperture of fibers.", above=0.0, maximum=1.0, step=0.05
    )

    @property
    def core_mm(self) -> float:
        """Radius of its core, mm."""
        return self.radius_mm

    def source(self, position_mm: Vector, direction: Vector) -> Source:
        """The source that stands for an optode there."""
        return _fiber(self.radius_mm, self.numerical_aperture, position_mm, direction)


def _fiber(radius_mm: float, numerical_aperture: float, position_mm: Vector, direction: Vector) -> Source:
    return Fiber(
        radius_mm=radius_mm, numerical_aperture=numerical_aperture, position_mm=position_mm, direction=direction,
        entry="smooth",
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ForwardSettings(Settings):
    """How photons are traced, and what of a Jacobian is kept.

    By reciprocity a detector is simulated as a source: light that leaves normally, which a `PencilOptode` takes, has a
    mean path two to three transport mean free paths longer than all light. Pencils start outside of the skin, the
    others touch it: no light goes through the air.

    Parameters
    ----------
    wavelengths_nm
        Wavelengths, nm; none: those of the probe.

    Raises
    ------
    InvalidInput
        If a number is out of range.
    """

    photons: int = param(
        0, "Photons", "Photons of each optode and wavelength; 0: ten million on a GPU, 200,000 on a CPU.", minimum=0,
        maximum=MAX_PHOTONS, step=100_000,
    )  # fmt: skip
    groups: int = param(
        8, "Groups", "Independent groups of photons, whose spread gives the standard errors.", minimum=2, maximum=64,
        advanced=True,
    )  # fmt: skip
    seed: int = param(
        1, "Seed", "Seed of the random numbers; optodes have this and the following ones, wavelengths the same.",
        minimum=0, maximum=2**62,
    )  # fmt: skip
    sources: PencilOptode | DiffuseOptode | FiberOptode = part(
        "Sources", "How light enters from a source.", default=PencilOptode()
    )
    detectors: PencilOptode | DiffuseOptode | FiberOptode = part(
        "Detectors", "How a detector takes light.", default=DiffuseOptode()
    )
    last_gate_ns: float = param(
        8.0, "Longest time", "Light that is older is left out.", unit="ns", above=0.0, maximum=1000.0, advanced=True
    )
    longest_mm: float = param(
        0.0, "Longest separation", "Pairs that are farther apart are left out; 0: none.", unit="mm", minimum=0.0,
        maximum=1000.0, step=5.0,
    )  # fmt: skip
    threshold: float = param(
        1e-4, "Threshold", "Voxels of less than this share of a row's largest value are dropped; 1e-4 keeps 99 %.",
        minimum=0.0, maximum=0.5, step=1e-4,
    )  # fmt: skip
    wavelengths_nm: tuple[float, ...] = part("Wavelengths", "Those of the probe, by default.", default=(), unit="nm")

    def group_size(self, kind: str) -> int:
        """Photons of each group on a kind of device (``cpu``, ``cuda``)."""
        return -(-(self.photons or PHOTONS[kind]) // self.groups)

    def light(self, kind: str, optode: int) -> LightSettings:
        """Settings of the simulation of an optode."""
        return LightSettings(
            photons=self.groups * self.group_size(kind),
            batches=self.groups,
            seed=self.seed + optode,
            time_gates_ns=(0.0, self.last_gate_ns),
        )
