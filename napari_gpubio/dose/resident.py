"""Structures that are laid out once and stay where doses are counted."""

import dataclasses
from collections.abc import Sequence
from typing import Self

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.dose.kernels.histogram.dose_grid import make_bins, renewed
from napari_gpubio.dose.kernels.histogram.problem import make_problem
from napari_gpubio.dose.kernels.histogram.tally import make_dvhs
from napari_gpubio.dose.metrics.dvh import Dvh
from napari_gpubio.dose.model import Dose, Structures
from napari_gpubio.dose.run import make_runs
from napari_gpubio.dose.settings import DvhSettings


class ResidentDvh:
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
    >>> from napari_gpubio.dose import Dose, ResidentDvh, whole_grid
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
        together = [structures] if isinstance(structures, Structures) else list(structures)
        self._settings, self._dose = settings or DvhSettings(), dose
        self._problem = make_problem(dose, together, self._settings)
        chosen = choose_device(device)
        (self._run,) = make_runs(self._problem, dataclasses.replace(chosen, indices=chosen.indices[:1]))
        self._run.advance(0, self._problem.items)

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
        self._check(dose)
        grid = renewed(self._problem.grid, dose)
        self._problem = dataclasses.replace(self._problem, grid=grid, bins=make_bins(grid, self._settings))
        self._dose = dose
        self._run.renew(self._problem)
        self._run.advance(0, self._problem.items)

    def _check(self, dose: Dose) -> None:
        if dose.unit != self._dose.unit:
            raise InvalidInput(f"the new dose is in {dose.unit} and the one before in {self._dose.unit}; scale it")
        frames = {dose.frame_of_reference, self._dose.frame_of_reference} - {""}
        if len(frames) > 1 and not self._settings.any_frame:
            raise InvalidInput(
                f"the new dose has another frame of reference ({' and '.join(sorted(frames))}); register it, or choose "
                "any_frame=True if they are the same"
            )

    def dvhs(self) -> tuple[Dvh, ...]:
        """The histograms of the dose as it is now, in the order of the structures."""
        return make_dvhs(self._problem, self._run.snapshot(), self._settings, self._dose.unit)

    def close(self) -> None:
        """Free what is kept on the device."""
        self._run.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
