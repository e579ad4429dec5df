"""What to simulate, where, for how long, and what others have needed for it."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numba
from common import ROOT
from light import plan

from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.presets import INTRALIPID, SKIN
from napari_gpubio.layered.settings import LayeredSettings

CPU_PHOTONS = {"skin": 80_000, "intralipid": 6_000}  # about a second of two cores
GPU_PHOTONS = {"skin": 10**8, "intralipid": 10**7}  # as in the paper
MAP_PHOTONS_PER_THREAD = 500_000  # of error maps that a CPU takes part in
REFERENCE = ROOT.parent / "shared" / "data" / "light" / "skin7_600nm_MTref_8e8.npz"
SKIN_GRID = {"dr_mm": 0.1, "dz_mm": 0.02, "radial_bins": 200, "depth_bins": 500, "angle_bins": 30}
SLAB_MM, CYLINDER_MM = 1000.0, 10.0  # thickness of the slab; radius and depth of what its grid covers
LIKE_GPU_MCML = {"absorption": "drop"}  # what is absorbed beyond the grid is left out there
MAPS: dict[str, dict[str, Any]] = {
    "A(r, z)": LIKE_GPU_MCML,
    "A(r, z), edges collect": {},
    "without the map": {"absorption": "off"},
}
GPU_MCML_SECONDS = {  # with the map, without; its source rebuilt for an H200, as many photons as in GPU_PHOTONS
    "skin": (0.64, 0.56),
    "intralipid": (0.84, 0.62),
}
MCML_IN_C = 36_100  # photons/s of one core on skin, at the clock of today
CORE_TARGET = 40_000  # photons/s


@dataclass(frozen=True, slots=True)
class Plan(plan.Plan):
    """What to run, and where."""

    maps: Path = Path("layered_error_maps.npz")  # where the error maps are written
    reference: Path = REFERENCE  # file with A(r, z) of CPU-MCML and 8e8 photons

    def count(self, name: str) -> int:
        """Photons of a case."""
        if self.photons is not None:
            return self.photons
        return (GPU_PHOTONS if self.device.is_gpu else CPU_PHOTONS)[name] // self.less

    @property
    def is_full_size(self) -> bool:
        """Whether a GPU traces as many photons as in the paper."""
        return self.device.is_gpu and not self.quick and self.photons is None

    @property
    def map_photons(self) -> int:
        """Photons of the error maps that a CPU takes part in, wherever the others come from."""
        return self.photons or MAP_PHOTONS_PER_THREAD * numba.config.NUMBA_NUM_THREADS // self.less

    @property
    def less(self) -> int:
        """By what photons are divided."""
        return 10 if self.quick else 1


class Case(NamedTuple):
    """Layers, with photons and a grid."""

    medium: LayeredMedium
    settings: LayeredSettings


def skin_case(photons: int, **settings: Any) -> Case:
    """Seven layers of skin at 600 nm on the paper's grid: 500 x 200 bins of 0.02 x 0.1 mm in z and r."""
    return Case(SKIN, LayeredSettings(photons=photons, **{**SKIN_GRID, **settings}))


def intralipid_case(photons: int, *, bins: int = 100, **settings: Any) -> Case:
    """A slab of 10 % intralipid at 460 nm; its grid of ``bins`` x ``bins`` covers 1 cm in radius and in depth."""
    layer = dataclasses.replace(INTRALIPID.layers[0], thickness_mm=SLAB_MM)
    grid = {"dr_mm": CYLINDER_MM / bins, "dz_mm": CYLINDER_MM / bins, "radial_bins": bins, "depth_bins": bins}
    return Case(LayeredMedium(layers=(layer,)), LayeredSettings(photons=photons, **{**grid, **settings}))


CASES: dict[str, Callable[..., Case]] = {"skin": skin_case, "intralipid": intralipid_case}


def with_photons(made: Case, photons: int) -> Case:
    return made._replace(settings=dataclasses.replace(made.settings, photons=photons))
