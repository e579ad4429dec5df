"""What is told of a result in numbers."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from napari_gpubio.denoise.model import DenoiseResult

if TYPE_CHECKING:
    from napari_gpubio.denoise.widget.volumes import LayerVolume

UNKNOWN = "not known"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Medians over the voxels with more signal than noise; NaN where there are none.

    Parameters
    ----------
    noise
        Standard deviation of the noise, in the unit of the image.
    relative_noise
        The same divided by the signal.
    before_db, gain_db
        Signal / noise before denoising and its estimated gain.
    """

    noise: float
    relative_noise: float
    before_db: float
    gain_db: float

    @property
    def times(self) -> float:
        """How many times the photons (or repetitions) would give the same signal / noise without a filter."""
        return float(10.0 ** (self.gain_db / 10.0))


def numbers_of(result: DenoiseResult, gain_db: float) -> Numbers:
    """Return the numbers of a result; takes a moment for large volumes."""
    there = (result.noise > 0) & (result.image > result.noise)
    noise, nan = result.noise[there].astype(np.float64), float("nan")
    relative = noise / result.image[there]
    return Numbers(
        noise=float(np.median(noise)) if noise.size else nan,
        relative_noise=float(np.median(relative)) if noise.size else nan,
        before_db=float(-20.0 * np.log10(np.median(relative))) if noise.size else nan,
        gain_db=gain_db,
    )


def texts(numbers: Numbers, image: "LayerVolume") -> dict[str, str]:
    """Return the numbers as they are told; of logarithms the noise relative to the signal."""
    is_log = image.values.is_log
    noise = f"{100 * numbers.relative_noise:.3g} %" if is_log else f"{numbers.noise:.3g} {image.unit}".rstrip()
    return {
        "noise": noise if np.isfinite(numbers.noise) else UNKNOWN,
        "before": f"{numbers.before_db:.1f} dB" if np.isfinite(numbers.before_db) else UNKNOWN,
        "gain": f"≈ {numbers.gain_db:.1f} dB" if np.isfinite(numbers.gain_db) else UNKNOWN,
        "times": f"≈ {numbers.times:.2g} × the photons or averages" if np.isfinite(numbers.gain_db) else UNKNOWN,
    }
