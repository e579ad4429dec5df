"""Finite beams: the response to a pencil beam, convolved with the beam's profile, as CONV does it (Wang et al. 1997).

The layers look the same from everywhere above them, so the response to a beam is the pencil beam's, summed over the
beam's places. In polar coordinates that is a matrix over the radial bins, the same for every depth and angle.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, plain
from napari_gpubio.layered.kernels.layers.problem import LayeredProblem
from napari_gpubio.layered.kernels.layers.tally import LayerTally
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.run import assemble
from napari_gpubio.layered.settings import LayeredSettings, ring_area_mm2
from napari_gpubio.optics.estimates import Estimates

Floats = npt.NDArray[np.float64]
_POINTS_PER_BIN = 8  # of the midpoint rule within a radial bin
RESOLVED_IN_R = ("A_rz", "Rd_ra", "Rd_r", "Tt_ra", "Tt_r")


@dataclass(frozen=True, kw_only=True)
class Beam(Settings):
    """Base of collimated beams across the surface.

    Raises
    ------
    InvalidInput
        If the radius is not positive.
    """

    kind: ClassVar[str]
    radius_mm: float = param(1.0, "Radius", "1/e² radius, or that of the disk.", unit="mm", above=0.0, step=0.1)

    def within(self, r: float, places: Floats) -> Floats:
        """Share of the beam, its axis at each of these distances, that lies within r."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class GaussianBeam(Beam):
    """A beam whose irradiance falls to 1/e² at the radius."""

    kind: ClassVar[str] = "gaussian"

    def within(self, r: float, places: Floats) -> Floats:
        """Share of the beam that lies within r: noncentral chi-square."""
        from scipy.special import chndtr

        return np.asarray(chndtr(4.0 * r**2 / self.radius_mm**2, 2.0, 4.0 * places**2 / self.radius_mm**2))


@dataclass(frozen=True, kw_only=True)
class FlatBeam(Beam):
    """A beam that is uniform up to the radius."""

    kind: ClassVar[str] = "flat"

    def within(self, r: float, places: Floats) -> Floats:
        """Share of the beam that lies within r: two circles' common area."""
        d, radius = places, self.radius_mm
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.arccos(np.clip((d**2 + r**2 - radius**2) / (2.0 * d * r), -1.0, 1.0))
            other = np.arccos(np.clip((d**2 + radius**2 - r**2) / (2.0 * d * radius), -1.0, 1.0))
        kite = np.sqrt(np.maximum((r + radius - d) * (d + r - radius) * (d - r + radius) * (d + r + radius), 0.0))
        common = r**2 * own + radius**2 * other - 0.5 * kite
        return np.asarray(common / (np.pi * radius**2))


AnyBeam = GaussianBeam | FlatBeam
BEAMS: dict[str, type[AnyBeam]] = {one.kind: one for one in (GaussianBeam, FlatBeam)}


def convolved(result: LayeredResult, beam: Beam) -> LayeredResult:
    """Return the result for a beam of one photon instead of a pencil beam of one photon.

    Quantities that are not resolved in r stay as they are. What lies beyond the grid is missing, so the grid should
    reach at least the beam's radius further than the radius that is looked at.

    Raises
    ------
    InvalidInput
        If the beam is wider than the grid.
    """
    s = result.settings
    if beam.radius_mm > s.radial_bins * s.dr_mm:
        raise InvalidInput(
            f"the beam's radius is {beam.radius_mm:g} mm and the grid ends at {s.radial_bins * s.dr_mm:g} mm; take "
            "more or wider radial bins"
        )
    if "beam" in result.parameters:
        raise InvalidInput("the result is already for a finite beam; take the pencil-beam result")
    matrix = response_matrix(beam, s)
    parameters = {**result.parameters, "beam": plain(beam)}
    if isinstance(result.state, LayerTally):  # batch by batch, since one photon's deposits lie in many bins
        problem = LayeredProblem(result.medium, s, result.state.batch_size)
        return assemble(problem, result.state, parameters, spread=matrix)
    changes: dict[str, Any] = {
        name: _applied(matrix, getattr(result, name)) for name in RESOLVED_IN_R if getattr(result, name) is not None
    }
    return dataclasses.replace(result, **changes, parameters=parameters)


def _applied(matrix: Floats, pencil: Estimates) -> Estimates:
    """Apply the matrix along r; the errors are those of bins that go up and down together, which is the worst case."""
    return Estimates(*(np.tensordot(matrix, array, axes=(1, 0)) for array in pencil))


def response_matrix(beam: Beam, settings: LayeredSettings) -> Floats:
    """Matrix from the response per area in each bin (columns) to that to a beam (rows), shape (radial, radial).

    What is in a column's ring moves with the beam's places; the share of it that comes to lie in a row's ring is exact
    in the row and a midpoint rule in the column, so that no light is lost but what leaves the grid.
    """
    bins, dr = settings.radial_bins, settings.dr_mm
    places = (np.arange(bins * _POINTS_PER_BIN) + 0.5) * dr / _POINTS_PER_BIN
    weights = places.reshape(bins, -1) / places.reshape(bins, -1).sum(axis=1, keepdims=True)
    area = ring_area_mm2(settings)
    matrix, inner = np.empty((bins, bins)), np.zeros(len(places))
    for row in range(bins):
        outer = beam.within((row + 1) * dr, places)
        matrix[row] = ((outer - inner).reshape(bins, -1) * weights).sum(axis=1) * area / area[row]
        inner = outer
    return matrix
