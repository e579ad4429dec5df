"""Bands around histograms: from halves of a Monte Carlo run, or from the standard error of every voxel.

Voxels share photons, so the error of a curve does not follow from the errors of its voxels. Two halves of the photons
show it: their curves differ by twice the standard error of the curve of all photons (one degree of freedom). They also
show how much noise widens the curve: that bias is inversely proportional to the number of photons, so it is the mean
of both halves' curves minus the curve of all photons. Where there are no halves, all voxels are taken to err together,
which is the widest band that their errors can make.
"""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.model import Dose, Structures, checked_values
from napari_gpubio.dose.resident import ResidentDvh
from napari_gpubio.dose.settings import DvhSettings

Array = npt.NDArray[Any]
HALVES, TOGETHER = "halves", "together"
_PERCENT_GRID = np.linspace(0.0, 100.0, 201)  # of the volume, at which halves are compared
_WINDOW = 11  # of these points, over which differences are averaged: single ones are noise


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class DvhBand:
    """A histogram and the borders of its band.

    Parameters
    ----------
    low, middle, high
        Histograms of one structure.
    basis
        ``"halves"``: the spread of two halves of the photons. ``"together"``: all voxels err together.
    errors
        How many standard errors the band reaches to each side.
    """

    low: Dvh
    middle: Dvh
    high: Dvh
    basis: str
    errors: float = 1.0

    def scaled(self, factor: float) -> "DvhBand":
        """The band of the dose times a number."""
        scaled = {name: getattr(self, name).scaled(factor) for name in ("low", "middle", "high")}
        return dataclasses.replace(self, **scaled)


def dvh_bands(
    dose: Dose,
    structures: Structures | Iterable[Structures],
    settings: DvhSettings | None = None,
    *,
    errors: float = 1.0,
    device: str | Device = "auto",
) -> tuple[DvhBand, ...]:
    """Histograms with bands, from what a dose carries of its errors.

    With two halves of the photons they show the error of the curve. With a standard error of every voxel alone, the
    borders are the histograms of dose -+ ``errors`` x standard error: as if all voxels erred together, so the band is
    the widest that these errors can make. Independent errors of voxels move a curve much less; they blur it.

    Parameters
    ----------
    dose
        With `Dose.halves`, per photon of each half, or else `Dose.standard_error`, which is not negative.
    structures, settings, device
        See `napari_gpubio.dose.dvh_steps`.
    errors
        How many standard errors the band reaches to each side.

    Raises
    ------
    InvalidInput
        If the dose carries no errors, or they do not belong to it.
    """
    basis, borders = border_doses(dose, errors)
    if not basis:
        raise InvalidInput(f"{dose.name or 'the dose'} carries no errors; give it halves or a standard error")
    with ResidentDvh(dose, structures, settings, device=device) as resident:
        made = [resident.dvhs()]
        for border in borders:
            resident.set_dose(border)
            made.append(resident.dvhs())
    return tuple(band_of(basis, *three, errors=errors) for three in zip(*made, strict=True))


def shifted_doses(dose: Dose, standard_error: npt.ArrayLike, errors: float = 1.0) -> tuple[Dose, Dose]:
    """Return a dose less and plus so many standard errors; it stays at 0 or above where the dose does."""
    _check_errors(errors)
    given, least, _ = checked_values(standard_error, "the standard error")
    if given.shape != dose.values.shape:
        raise InvalidInput(f"the standard error has shape {given.shape} and the dose {dose.values.shape}")
    if least < 0:
        raise InvalidInput(f"the standard error is negative somewhere (the least is {least:g})")
    sigma = errors * given.astype(np.float64)
    low = dose.values - sigma
    if dose.least >= 0:
        low = np.maximum(low, 0.0)
    none: dict[str, Any] = {"halves": None, "standard_error": None}
    return dataclasses.replace(dose, values=low, **none), dataclasses.replace(dose, values=dose.values + sigma, **none)


def half_doses(dose: Dose, halves: tuple[npt.ArrayLike, npt.ArrayLike]) -> tuple[Dose, Dose]:
    """Return the doses of both halves on the grid of a dose."""
    first, second = (checked_values(half, "a half of the photons")[0] for half in halves)
    for half in (first, second):
        if half.shape != dose.values.shape:
            raise InvalidInput(f"a half of the photons has shape {half.shape} and the dose {dose.values.shape}")
    none: dict[str, Any] = {"halves": None, "standard_error": None}
    return dataclasses.replace(dose, values=first, **none), dataclasses.replace(dose, values=second, **none)


def border_doses(dose: Dose, errors: float = 1.0) -> tuple[str, tuple[Dose, ...]]:
    """Return what the bands of a dose are made from: their basis, and two doses; nothing where no errors are known."""
    _check_errors(errors)
    if dose.halves is not None:
        return HALVES, half_doses(dose, dose.halves)
    if dose.standard_error is not None:
        return TOGETHER, shifted_doses(dose, dose.standard_error, errors)
    return "", ()


def band_of(basis: str, middle: Dvh, first: Dvh, second: Dvh, *, errors: float = 1.0) -> DvhBand:
    """Return the band of a histogram from those of `border_doses`."""
    if basis == HALVES:
        return band_of_halves(middle, first, second, errors=errors)
    return DvhBand(low=first, middle=middle, high=second, basis=basis, errors=errors)


def band_of_halves(middle: Dvh, first: Dvh, second: Dvh, *, errors: float = 1.0) -> DvhBand:
    """Return the band of a histogram from those of both halves of its photons.

    At each volume the band reaches ``errors`` x sqrt(e^2 + b^2) to both sides of the dose D: e is half the difference
    of the halves' doses, b their mean less D, both relative to D and averaged (as squares) over volumes near by.
    """
    if middle.is_empty:
        return DvhBand(low=middle, middle=middle, high=middle, basis=HALVES, errors=errors)
    whole, one, other = (dvh.dose_at_percent(_PERCENT_GRID) for dvh in (middle, first, second))
    with np.errstate(divide="ignore", invalid="ignore"):
        squares = ((one - other) / (2 * whole)) ** 2 + ((one + other) / (2 * whole) - 1) ** 2
    share = np.sqrt(_averaged(squares, whole > 0))
    spread = np.exp(errors * np.interp(100 * middle.volumes_cc / middle.volume_cc, _PERCENT_GRID, share))
    shift = errors * math.hypot((first.mean - second.mean) / 2, (first.mean + second.mean) / 2 - middle.mean)
    low = dataclasses.replace(
        middle, doses=np.maximum.accumulate(middle.doses / spread), mean=max(middle.mean - shift, 0.0)
    )
    high = dataclasses.replace(middle, doses=np.maximum.accumulate(middle.doses * spread), mean=middle.mean + shift)
    return DvhBand(low=low, middle=middle, high=high, basis=HALVES, errors=errors)


def _averaged(values: Array, known: Array) -> Array:
    """Mean of the known values in a window about each of some numbers; 0 where none is known."""
    window = np.ones(_WINDOW)
    sums = np.convolve(np.where(known, values, 0.0), window, mode="same")
    counts = np.convolve(known.astype(np.float64), window, mode="same")
    return np.asarray(sums / np.maximum(counts, 1.0))


def _check_errors(errors: float) -> None:
    if not (math.isfinite(errors) and errors > 0):
        raise InvalidInput(f"errors is {errors!r}; give how many standard errors the band shall reach")
