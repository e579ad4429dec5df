"""Structures that are laid out once, to count one dose after another."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Self

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.drivers import Runs
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.model import ANY_FRAME, Dose, Structures, check_frames, listed
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
        self._device = choose_device(device).first
        self._runs = Runs(self.problem, self._device)
        (self.run,) = self._runs.each

    def close(self) -> None:
        """Free what is kept on the device."""
        self._runs.close()

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
        structures: Structures | Iterable[Structures],
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
