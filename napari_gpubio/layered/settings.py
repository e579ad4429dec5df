"""Settings of a layered simulation, and the areas and solid angles of its bins."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings

Floats = npt.NDArray[np.float64]
ABSORPTION = ("collect", "drop", "off")
MAX_CELLS = 1 << 24


@dataclass(frozen=True, kw_only=True)
class LayeredSettings(Settings):
    """How many photons, and the grid of the tallies.

    ``absorption`` is what becomes of the map of absorption: ``collect`` puts what lies beyond the grid into the
    outermost bins, as MCML does; ``drop`` leaves it out of A_rz and A_z, as GPU-MCML does; ``off`` tallies no map. A
    and A by layer are always complete. Light that escapes beyond the largest radius is always in the last radial bin.

    Raises
    ------
    InvalidInput
        If a number is out of range, or the grid too large.
    """

    photons: int = param(1_000_000, "Photons", "Number of photon packets.", minimum=1, maximum=1 << 32, step=100_000)
    seed: int = param(
        1, "Seed", "Seed of the random numbers; the same seed gives the same result.", minimum=0, maximum=2**64 - 1
    )
    dr_mm: float = param(0.1, "Δr", "Width of a radial bin.", unit="mm", above=0.0, maximum=1e6, step=0.01)
    dz_mm: float = param(0.02, "Δz", "Height of a depth bin.", unit="mm", above=0.0, maximum=1e6, step=0.01)
    radial_bins: int = param(200, "Radial bins", "Number of bins in r.", minimum=1, maximum=100_000, step=10)
    depth_bins: int = param(500, "Depth bins", "Number of bins in z.", minimum=1, maximum=100_000, step=10)
    angle_bins: int = param(30, "Angle bins", "Number of bins from 0° to 90°.", minimum=1, maximum=10_000, step=1)
    absorption: str = param(
        "collect", "Absorption map",
        "Tally A(r, z), and count absorption beyond the grid in the outermost bins, or drop it; without the map, "
        "reflectance and transmittance come faster.",
        choices=ABSORPTION,
    )  # fmt: skip
    roulette_threshold: float = param(
        1e-4,
        "Roulette below",
        "Packets of less weight play Russian roulette (survive with chance 1/10, ten times heavier); 0 = never.",
        minimum=0.0,
        maximum=0.1,  # so that no packet gets heavier than one photon
        advanced=True,
    )
    batches: int = param(
        16, "Batches", "Groups of photons whose spread gives the standard errors.", minimum=2, maximum=256,
        advanced=True,
    )  # fmt: skip

    @property
    def has_map(self) -> bool:
        """Whether absorption is tallied by depth and radius."""
        return self.absorption != "off"

    def check(self) -> None:
        """Raise InvalidInput if the grid is too large."""
        cells = self.radial_bins * max(self.depth_bins if self.has_map else 1, self.angle_bins)
        if cells > MAX_CELLS:
            raise InvalidInput(
                f"the grid has {cells:,} bins; at most {MAX_CELLS:,} are possible: take fewer, wider bins"
            )


def ring_area_mm2(settings: LayeredSettings) -> Floats:
    """Area of each radial bin, mm^2."""
    return np.asarray(2 * np.pi * (np.arange(settings.radial_bins) + 0.5) * settings.dr_mm**2)


def angle_centers(settings: LayeredSettings) -> Floats:
    """Centers of the angular bins, radians."""
    return np.asarray((np.arange(settings.angle_bins) + 0.5) * (np.pi / 2 / settings.angle_bins))


def solid_angle_sr(settings: LayeredSettings) -> Floats:
    """Solid angle of each angular bin, sr."""
    width = np.pi / 2 / settings.angle_bins
    return np.asarray(4 * np.pi * np.sin(angle_centers(settings)) * np.sin(width / 2))
