"""All that is irradiated: the histogram of a whole dose, fine enough for the volumes of small isodoses."""

import dataclasses
import threading
from collections.abc import Generator

from napari_gpubio.core.device import Device
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.dose.metrics.dvh import Dvh
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.run import dvh_steps
from napari_gpubio.dose.settings import DvhSettings
from napari_gpubio.dose.structures.labels import whole_grid

_PARTS = 4  # samples along an edge of a dose voxel: an isodose may surround few voxels, of a volume of millions


def whole_dose(dose: Dose, settings: DvhSettings | None = None, *, device: str | Device = "auto") -> Dvh:
    """Make the histogram of a whole dose, which indices of a plan need; see `whole_dose_steps`, whose end this returns.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.dose import Dose, whole_dose
    >>> dose = Dose(values=np.full((8, 8, 8), 2.0), affine=np.eye(4), unit="Gy")
    >>> whole_dose(dose, device="cpu").volume_cc
    0.512
    """
    return drive(whole_dose_steps(dose, settings, device=device))


def whole_dose_steps(
    dose: Dose,
    settings: DvhSettings | None = None,
    *,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, Dvh]:
    """Make the histogram of a whole dose, step by step.

    The accuracy of the settings is a share of a structure's volume, and an isodose is a small share of a whole dose; so
    samples lie no farther apart than a quarter of the shortest edge of a voxel.

    Parameters
    ----------
    dose
        Of which all of the grid is counted.
    settings, device, stop
        See `napari_gpubio.dose.dvh_steps`.
    """
    chosen = settings or DvhSettings()
    finest = float(dose.voxel_sizes_mm.min()) / _PARTS
    spacing = min(chosen.spacing_mm or finest, finest)
    everything = whole_grid(dose.values.shape, dose.affine)
    fine = dataclasses.replace(chosen, spacing_mm=spacing)
    result = yield from dvh_steps(dose, everything, fine, device=device, stop=stop)
    return result.dvhs[0]
