"""Structures that are laid out once: one dose after another is counted, also a dose less and plus its errors."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.model import ANY_FRAME, Dose, Structures, check_frames, checked_values, listed
from napari_gpubio.dose.run import make_runs
from napari_gpubio.dose.settings import DvhSettings


class OpenCalculation:
    """Structures laid out on the first GPU of a device or on the CPU, until it is closed; usable with ``with``."""

    def _open(
        self,
        dose: Dose,
        structures: Sequence[Structures],
        settings: DvhSettings | None,
        device: str | Device,
        *,
        painted: bool = False,
    ) -> None:
        from napari_gpubio.dose.kernels.histogram.problem import make_problem

        self._dose, self._settings = dose, (settings or DvhSettings()).resolved(dose)
        self.problem = make_problem(dose, structures, self._settings, painted=painted)
        chosen = choose_device(device)
        self._device = dataclasses.replace(chosen, indices=chosen.indices[:1])
        (self.run,) = make_runs(self.problem, self._device)

    def close(self) -> None:
        """Free what is kept on the device."""
        self.run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class ResidentDvh(OpenCalculation):
    """A calculation that is kept open, on the first GPU of a device or on the CPU, for one dose after another.

    Laying structures out takes longer than counting them. Here that is done once: a new dose on the same grid (another
    plan, the next volume of a series, an iteration of an optimizer) costs its upload and the counting. The histograms
    are those of `napari_gpubio.dose.dvh`, bit for bit.

    Parameters
    ----------
    dose, structures, settings, device
        See `napari_gpubio.dose.dvh_steps`.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.dose import Dose, ResidentDvh
    >>> from napari_gpubio.dose.structures import whole_grid
    >>> plans = [Dose(values=np.full((8, 8, 8), gray), affine=np.eye(4), unit="Gy") for gray in (2.0, 3.0)]
    >>> with ResidentDvh(plans[0], whole_grid((8, 8, 8), np.eye(4)), device="cpu") as resident:
    ...     resident.set_dose(plans[1])
    ...     float(resident.dvhs()[0].mean)
    3.0
    """

    def __init__(
        self,
        dose: Dose,
        structures: Structures | Sequence[Structures],
        settings: DvhSettings | None = None,
        *,
        device: str | Device = "auto",
    ) -> None:
        self._open(dose, listed(structures), settings, device)
        self.run.advance(0, self.problem.items)

    def set_dose(self, dose: Dose) -> None:
        """Count another dose.

        Parameters
        ----------
        dose
            On the same grid and in the same unit.

        Raises
        ------
        InvalidInput
            If it is on another grid, in another unit, or of another frame of reference.
        """
        from napari_gpubio.dose.kernels.histogram.dose_grid import make_bins, renewed

        self._check(dose)
        grid = renewed(self.problem.grid, dose)
        self.problem = dataclasses.replace(self.problem, grid=grid, bins=make_bins(grid, self._settings))
        self._dose = dose
        self.run.renew(self.problem)
        self.run.advance(0, self.problem.items)

    def _check(self, dose: Dose) -> None:
        if dose.unit != self._dose.unit:
            raise InvalidInput(f"the new dose is in {dose.unit} and the one before in {self._dose.unit}; scale it")
        if not self._settings.any_frame:
            frames = dose.frame_of_reference, self._dose.frame_of_reference
            check_frames("the new dose", "the one before", frames, ANY_FRAME)

    def dvhs(self) -> tuple[Dvh, ...]:
        """The histograms of the dose as it is now, in the order of the structures."""
        from napari_gpubio.dose.kernels.histogram.tally import make_dvhs

        return make_dvhs(self.problem, self.run.snapshot(), self._settings, self._dose.unit)


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
