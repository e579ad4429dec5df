"""Results of denoising, and how they were made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import how_made
from napari_gpubio.core.exchange import GriddedArray
from napari_gpubio.core.settings import plain
from napari_gpubio.core.timing import RunClock


@dataclass(frozen=True, eq=False, kw_only=True)
class DenoiseResult(GriddedArray, array="image"):
    """A denoised image and the noise that was found in it.

    Parameters
    ----------
    image
        The shape and unit of the image that was given; float64 if that was, else float32.
    noise
        Local standard deviation of the noise, same shape and unit; 0 where nothing was found to compare with. As
        given, where a noise map was given.
    parameters
        Provenance; only what JSON can hold.
    notes
        Changes made to the input, in sentences for the user.
    complete
        False if the run was stopped before its end; voxels that were not reached are then as they were.
    """

    image: npt.NDArray[Any]
    noise: npt.NDArray[Any]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    complete: bool = True

    @property
    def signal_to_noise_db(self) -> float:
        """20 log10 of signal over noise before filtering, median over voxels where both are positive; NaN if none."""
        there = (self.noise > 0) & (self.image > 0)
        return median_db(self.image[there] / self.noise[there])


def provenance(settings: Any, voxel_size_mm: Sequence[float], device: Device, clock: RunClock) -> dict[str, Any]:
    """Provenance of a result as JSON can hold it: software, settings, grid, device, seconds without compilation."""
    return how_made(device, clock.seconds, denoising=plain(settings), voxel_size_mm=list(voxel_size_mm))


def median_db(ratio: npt.NDArray[Any]) -> float:
    """Median of a ratio in dB, NaN without any values."""
    return float(20.0 * np.median(np.log10(ratio))) if ratio.size else float("nan")
