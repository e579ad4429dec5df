"""Settings and result of fluence denoising."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.exchange import GriddedArray
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings


@dataclass(frozen=True, kw_only=True)
class FluenceSettings(Settings):
    """Smoothing on several scales, chosen voxel by voxel from two half-buffers."""

    largest_scale: float = param(
        5.0, "Largest scale",
        "Standard deviation of the widest Gaussian, along the finest axis; others are as long in mm.",
        unit="voxels", minimum=0.8, maximum=12.0, step=0.5,
    )  # fmt: skip
    flat: bool = param(
        True, "Flat windows", "Also try windows that are flat along x, y or z, for layers, faces and strong absorbers.",
    )  # fmt: skip
    smoothness: float = param(
        3.0, "Smoothness",
        "Weight of the noise against the bias where scales are compared: 1 is the unbiased estimate of the error, "
        "more makes up for the luck of the choice and gives smoother images.",
        minimum=1.0, maximum=10.0, step=0.5, advanced=True,
    )  # fmt: skip
    cap: float = param(
        1.25, "Cap",
        "Windows that are not flat end at this many penetration depths, where mu_eff is given; 0 = no cap.",
        minimum=0.0, maximum=10.0, step=0.25, advanced=True,
    )  # fmt: skip
    seed: int = param(
        1, "Seed", "Of the random numbers that split a single buffer in two.",
        minimum=0, maximum=2**31 - 1, advanced=True,
    )  # fmt: skip


PROVABLE_TIMES = 15.0  # `photon_multiplier` that two halves can prove; what is above is an upper bound


@dataclass(frozen=True, eq=False, kw_only=True)
class FluenceResult(GriddedArray, array="image"):
    """Denoised fluence, its noise, and how far it was smoothed.

    Parameters
    ----------
    image
        The shape and unit of the fluence that was given; float64 if that was, else float32.
    noise
        Error that is left, same shape and unit: standard error and bias, as the halves tell it; beside sources and
        absorbers, too (``benchmarks/fluence_errors.py``). Of a single buffer at least that: its halves are made up.
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
        """How much the signal / error has risen, dB, over voxels with more signal than noise; NaN without any.

        Squared errors are relative to the fluence, and photons count alike, so that bright voxels count more. An error
        above the fluence counts as the fluence: where few photons came, halves show an error of a voxel that is many
        times too large, and a few such voxels would outweigh all others.
        """
        there = (self.noise > 0) & (self.raw_noise > 0) & (self.image > self.raw_noise)
        if not there.any():
            return math.nan
        before, after = (
            float(np.sum(np.square(np.minimum(error, self.image)[there], dtype=np.float64) / self.image[there]))
            for error in (self.raw_noise, self.noise)
        )
        return 10.0 * math.log10(before / after)

    @property
    def photon_multiplier(self) -> float:
        """Times as many photons as an unfiltered run would need for the same error; at most that if above 15.

        Halves cannot show an error that is so much smaller than the noise. Below, it is mostly a tenth to a half too
        low, since they show an error that is too large rather than one that is too small.
        """
        return float(10.0 ** (self.snr_gain_db / 10.0))
