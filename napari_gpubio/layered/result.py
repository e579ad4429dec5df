"""Results of a layered simulation: MCML's quantities with their standard errors, per launched photon, in mm."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.settings import LayeredSettings, angle_centers
from napari_gpubio.optics.estimates import Estimate, Estimates, SimulationResult

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class LayeredResult(SimulationResult):
    """Result of a layered simulation.

    Names follow MCML (Wang et al. 1995): R is diffuse reflectance, T transmittance, A absorption; r, z, a and l are the
    axes along which they are resolved. Where `Estimates.trusted` is false, a bin was seen by too few photons.

    Parameters
    ----------
    medium, settings
        What was simulated.
    specular
        Specular reflectance, exact.
    diffuse_reflectance, transmittance, absorbed
        Fractions of a launched photon; transmittance includes the unscattered.
    roulette
        What Russian roulette took less what it gave; zero within its error.
    A_l
        Absorbed fraction in each layer, shape (L,).
    A_rz
        Absorbed per volume, 1/mm^3, shape (radial, depth); None without the absorption map.
    A_z
        Absorbed per depth, 1/mm, shape (depth,); None without the absorption map.
    Rd_ra, Tt_ra
        Escaped per projected area and solid angle, 1/(mm^2 sr), shape (radial, angles).
    Rd_r, Tt_r
        Escaped per area, 1/mm^2, shape (radial,).
    Rd_a, Tt_a
        Escaped per solid angle, 1/sr, shape (angles,).
    """

    medium: LayeredMedium
    settings: LayeredSettings
    specular: float
    diffuse_reflectance: Estimate
    transmittance: Estimate
    absorbed: Estimate
    roulette: Estimate
    A_l: Estimates
    A_rz: Estimates | None
    A_z: Estimates | None
    Rd_ra: Estimates
    Rd_r: Estimates
    Rd_a: Estimates
    Tt_ra: Estimates
    Tt_r: Estimates
    Tt_a: Estimates

    @property
    def total(self) -> float:
        """Sum of all fractions, 1 but for rounding."""
        parts = (self.diffuse_reflectance, self.transmittance, self.absorbed, self.roulette)
        return self.specular + sum(part.value for part in parts)

    @cached_property
    def r_mm(self) -> Floats:
        """Centers of the radial bins, mm."""
        return np.asarray((np.arange(self.settings.radial_bins) + 0.5) * self.settings.dr_mm)

    @cached_property
    def z_mm(self) -> Floats:
        """Centers of the depth bins, mm."""
        return np.asarray((np.arange(self.settings.depth_bins) + 0.5) * self.settings.dz_mm)

    @cached_property
    def angle_rad(self) -> Floats:
        """Centers of the angular bins, from the normal, radians."""
        return angle_centers(self.settings)

    @cached_property
    def mua_z(self) -> Floats:
        """mu_a of the layer in which the center of each depth bin lies, 1/mm, shape (depth,)."""
        return np.array([layer.mua_per_mm for layer in self.medium.layers])[self.medium.layers_at(self.z_mm)]

    def fluence_rz(self) -> Estimates:
        """Fluence A_rz / mu_a, 1/mm^2, shape (radial, depth); NaN where nothing absorbs.

        Raises
        ------
        InvalidInput
            Without the absorption map.
        """
        return self._over_mua(self.A_rz)

    def fluence_z(self) -> Estimates:
        """Fluence of an infinitely wide beam, A_z / mu_a, without unit, shape (depth,).

        Raises
        ------
        InvalidInput
            Without the absorption map.
        """
        return self._over_mua(self.A_z)

    def _over_mua(self, absorbed: Estimates | None) -> Estimates:
        if absorbed is None:
            raise InvalidInput("the absorption map was not tallied; run again with absorption='collect'")
        mua = np.where(self.mua_z > 0, self.mua_z, np.nan)
        return Estimates(absorbed.value / mua, absorbed.error / mua)
