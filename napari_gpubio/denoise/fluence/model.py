"""Result of fluence denoising."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.denoise.model import median_db


@dataclass(frozen=True, eq=False, kw_only=True)
class FluenceResult:
    """Denoised fluence, its noise, and how far it was smoothed.

    Parameters
    ----------
    image
        The shape and unit of the fluence that was given; float64 if that was, else float32.
    noise
        Standard error that is left, same shape and unit; it does not know of bias.
    raw_noise
        Standard error of what was given.
    scale_mm
        Standard deviation of the window that was chosen, same shape; 0 where the fluence was left as it was, and
        in between where choices meet.
    parameters
        Provenance; only what JSON can hold.
    notes
        Changes made to the input, in sentences for the user.
    complete
        False if the run was stopped before its end; wider windows were then not tried.
    """

    image: npt.NDArray[Any]
    noise: npt.NDArray[Any]
    raw_noise: npt.NDArray[Any]
    scale_mm: npt.NDArray[np.float32]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    complete: bool = True

    @property
    def snr_gain_db(self) -> float:
        """How much the signal / noise has risen, dB: median over voxels with more signal than noise, NaN without any.

        Bias is not counted. Beside the truth two half-buffers gained 1 to 2 dB less than this; a single buffer, whose
        halves are not quite independent, up to 5 dB less.
        """
        there = (self.noise > 0) & (self.raw_noise > 0) & (self.image > self.raw_noise)
        return median_db(self.raw_noise[there] / self.noise[there])

    @property
    def photon_multiplier(self) -> float:
        """Times as many photons as an unfiltered run would need for the same noise."""
        return float(10.0 ** (self.snr_gain_db / 10.0))
