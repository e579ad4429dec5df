"""What the denoise engine gives back."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False, kw_only=True)
class DenoiseResult:
    """A denoised image and the noise that was found in it.

    Parameters
    ----------
    image
        The shape and unit of the image that was given; float64 if that was, else float32.
    noise
        Local standard deviation of the noise, same shape and unit; 0 where nothing was found to compare with. As
        given, where a noise map was given.
    parameters
        How it was made; only what JSON can hold.
    notes
        What was changed on the way, in sentences for the user.
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
        if not there.any():
            return float("nan")
        return float(20.0 * np.median(np.log10(self.image[there] / self.noise[there])))
