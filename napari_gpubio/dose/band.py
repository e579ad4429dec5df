"""What an error of the dose means for histograms."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.metrics.dvh import Dvh
from napari_gpubio.dose.model import Dose, Structures, checked_values
from napari_gpubio.dose.resident import ResidentDvh
from napari_gpubio.dose.settings import DvhSettings


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class DvhBand:
    """Histograms of one structure: of the dose less and plus some standard errors, and of the dose itself."""

    low: Dvh
    middle: Dvh
    high: Dvh


def dvh_band(
    dose: Dose,
    standard_error: npt.ArrayLike,
    structures: Structures | Sequence[Structures],
    settings: DvhSettings | None = None,
    *,
    errors: float = 1.0,
    device: str | Device = "auto",
) -> tuple[DvhBand, ...]:
    """Histograms with a band from a standard error of every voxel, as Monte Carlo gives it.

    The borders are the histograms of dose -+ ``errors`` x standard error: as if all voxels erred together, so the band
    is the widest that these errors can make. Independent errors of voxels move a curve much less; they blur it.

    Parameters
    ----------
    dose
        The dose.
    standard_error
        Of each voxel, in the unit of the dose, same shape, not negative.
    structures, settings, device
        See `napari_gpubio.dose.dvh_steps`.
    errors
        How many standard errors the band reaches to each side.

    Raises
    ------
    InvalidInput
        If the error does not belong to the dose.
    """
    sigma = _checked_error(standard_error, dose, errors)
    with ResidentDvh(dose, structures, settings, device=device) as resident:
        middle = resident.dvhs()
        borders = []
        for by in (-errors, errors):
            resident.set_dose(dataclasses.replace(dose, values=dose.values + by * sigma))
            borders.append(resident.dvhs())
    together = zip(borders[0], middle, borders[1], strict=True)
    return tuple(DvhBand(low=low, middle=own, high=high) for low, own, high in together)


def _checked_error(standard_error: npt.ArrayLike, dose: Dose, errors: float) -> npt.NDArray[np.float64]:
    if not (math.isfinite(errors) and errors > 0):
        raise InvalidInput(f"errors is {errors!r}; give how many standard errors the band shall reach")
    given, least, _ = checked_values(standard_error, "the standard error")
    sigma = given.astype(np.float64)
    if sigma.shape != dose.values.shape:
        raise InvalidInput(f"the standard error has shape {sigma.shape} and the dose {dose.values.shape}")
    if least < 0:
        raise InvalidInput(f"the standard error is negative somewhere (the least is {least:g})")
    return sigma
