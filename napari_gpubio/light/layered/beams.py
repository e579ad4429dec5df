"""Finite beams: the response to a pencil beam, convolved with the beam's profile, as CONV does it (Wang et al. 1997).

The layers look the same from everywhere above them, so the response to a beam is the pencil beam's, summed over the
beam's places. In polar coordinates that is a matrix over the radial bins, the same for every depth and angle.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import i0e

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.params import check_params, param
from napari_gpubio.light.layered.result import Estimates, LayeredResult
from napari_gpubio.light.layered.settings import LayeredSettings, ring_area_mm2

Floats = npt.NDArray[np.float64]
_POINTS_PER_BIN = 8  # of the midpoint rule within a radial bin
RESOLVED_IN_R = ("A_rz", "Rd_ra", "Rd_r", "Tt_ra", "Tt_r")


@dataclass(frozen=True, slots=True, kw_only=True)
class Beam:
    """A collimated beam across the surface.

    Parameters
    ----------
    kind
        ``gaussian`` (irradiance falls to 1/e^2 at the radius) or ``flat`` (uniform up to the radius).
    radius_mm
        The radius.

    Raises
    ------
    InvalidInput
        If the radius is not positive, or the kind another.
    """

    kind: str = param("gaussian", "Beam", "Profile of the irradiance.", choices=("gaussian", "flat"))
    radius_mm: float = param(1.0, "Radius", "1/e² radius, or that of the disk.", unit="mm", above=0.0, step=0.1)

    def __post_init__(self) -> None:
        check_params(self)


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
    matrix = response_matrix(beam, s)
    changes: dict[str, Any] = {
        name: _applied(matrix, getattr(result, name)) for name in RESOLVED_IN_R if getattr(result, name) is not None
    }
    return dataclasses.replace(result, **changes, parameters={**result.parameters, "beam": dataclasses.asdict(beam)})


def _applied(matrix: Floats, pencil: Estimates) -> Estimates:
    """Apply the matrix along r. The errors are those of independent bins, which they nearly are."""
    value = np.tensordot(matrix, pencil.value, axes=(1, 0))
    error = np.sqrt(np.tensordot(matrix**2, pencil.error**2, axes=(1, 0)))
    return Estimates(value, error)


def response_matrix(beam: Beam, settings: LayeredSettings) -> Floats:
    """Share of a response in each bin (columns) that a beam brings to the centre of each bin (rows), (radial, radial).

    A row is the beam's irradiance, averaged over the circle around the row's radius, times the column's area.
    """
    bins, dr = settings.radial_bins, settings.dr_mm
    centres = (np.arange(bins) + 0.5) * dr
    inner = (np.arange(bins * _POINTS_PER_BIN) + 0.5) * dr / _POINTS_PER_BIN
    profile = _gaussian if beam.kind == "gaussian" else _flat
    matrix = np.empty((bins, bins))
    for row, r in enumerate(centres):
        weighted = profile(r, inner, beam.radius_mm) * inner
        matrix[row] = weighted.reshape(bins, -1).sum(axis=1) / inner.reshape(bins, -1).sum(axis=1)
    return matrix * ring_area_mm2(settings)


def _gaussian(r: float, other: Floats, radius: float) -> Floats:
    """Irradiance at distance r from a point at distance `other` from the axis, averaged over the angle between them."""
    exponent = -2.0 * (r - other) ** 2 / radius**2
    return np.asarray(2.0 / (np.pi * radius**2) * np.exp(exponent) * i0e(4.0 * r * other / radius**2))


def _flat(r: float, other: Floats, radius: float) -> Floats:
    """The same for a uniform disk: the share of the circle that lies in it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = (r**2 + other**2 - radius**2) / (2.0 * r * other)
    share = np.arccos(np.clip(cosine, -1.0, 1.0)) / np.pi
    return np.asarray(share / (np.pi * radius**2))
