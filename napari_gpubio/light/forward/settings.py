"""Settings of a forward model."""

from dataclasses import dataclass
from typing import Any

from napari_gpubio.core.parameters import check_params, param
from napari_gpubio.light.settings import MOST_PHOTONS, LightSettings
from napari_gpubio.light.sources import Fiber, Pencil, Source, Vector

OPTODES = ("pencil", "diffuse", "fiber")
_FIBERS = ({"sources": ("fiber",)}, {"detectors": ("fiber",)})
PHOTONS = {"cpu": 200_000, "cuda": 10_000_000}  # of an optode, where none are given
_POINT_MM = 0.01  # radius of what stands for a small detector
_ALL_DIRECTIONS = 1.0  # numerical aperture in air


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardSettings:
    """How photons are traced, and what of a Jacobian is kept.

    Light of a source enters along its axis (``pencil``), from all directions of the air (``diffuse``, as of an LED on
    the skin), or from a ``fiber``. By reciprocity a ``diffuse`` detector is a small one that takes light of all
    directions, a ``fiber`` one that takes what is within its numerical aperture, and a ``pencil`` one along its axis
    only: light that leaves normally has a mean path two to three transport mean free paths longer than all light.
    Pencils start outside of the skin, the others touch it: no light goes through the air.

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
        maximum=MOST_PHOTONS, step=100_000,
    )  # fmt: skip
    groups: int = param(
        8, "Groups", "Independent groups of photons, whose spread gives the standard errors.", minimum=2, maximum=64,
        advanced=True,
    )  # fmt: skip
    seed: int = param(
        1, "Seed", "Seed of the random numbers; optodes have this and the following ones, wavelengths the same.",
        minimum=0, maximum=2**62,
    )  # fmt: skip
    sources: str = param("pencil", "Sources", "How light enters from a source.", choices=OPTODES)
    detectors: str = param("diffuse", "Detectors", "How a detector takes light.", choices=OPTODES)
    radius_mm: float = param(
        0.5,
        "Fiber radius",
        "Radius of fibers.",
        unit="mm",
        above=0.0,
        maximum=20.0,
        step=0.1,
        where=_FIBERS,
    )
    numerical_aperture: float = param(
        0.5,
        "Fiber NA",
        "Numerical aperture of fibers.",
        above=0.0,
        maximum=1.0,
        step=0.05,
        where=_FIBERS,
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

    wavelengths_nm: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_params(self)
        object.__setattr__(self, "wavelengths_nm", tuple(map(float, self.wavelengths_nm)))

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

    def source(self, kind: str, position_mm: Vector, direction: Vector) -> Source:
        """The source that stands for an optode of one of `OPTODES`."""
        place: dict[str, Any] = {"position_mm": position_mm, "direction": direction, "entry": "smooth"}
        if kind == "pencil":
            return Pencil(**place)
        is_fiber = kind == "fiber"
        return Fiber(
            radius_mm=self.radius_mm if is_fiber else _POINT_MM,
            numerical_aperture=self.numerical_aperture if is_fiber else _ALL_DIRECTIONS,
            **place,
        )
