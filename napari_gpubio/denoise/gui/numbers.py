"""What is told of a result in numbers."""

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from napari_gpubio.denoise.napari_io import LayerVolume

UNKNOWN = "not known"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Medians over the voxels with more signal than noise; NaN where there are none.

    Parameters
    ----------
    noise, relative_noise
        Standard deviation of the noise before denoising: in the unit of the image, and divided by the signal.
    left, relative_left
        The same of the noise after it, where that is known.
    before_db, gain_db
        Signal / noise before denoising and its estimated gain.
    """

    noise: float
    relative_noise: float
    before_db: float
    gain_db: float
    left: float = float("nan")
    relative_left: float = float("nan")

    @property
    def times(self) -> float:
        """How many times the photons (or repetitions) would give the same signal / noise without a filter."""
        return float(10.0 ** (self.gain_db / 10.0))


def numbers_of(
    image: npt.NDArray[Any], noise: npt.NDArray[Any], gain_db: float, left: npt.NDArray[Any] | None = None
) -> Numbers:
    """Return the numbers of a result; takes a moment for large volumes.

    Parameters
    ----------
    image
        The denoised image.
    noise, left
        Standard deviation of the noise before and, where that is known, after; of the image's shape.
    gain_db
        Of signal / noise.
    """
    there = (noise > 0) & (image > noise)
    signal, sigma = image[there], noise[there].astype(np.float64)
    rest = np.array([]) if left is None else left[there].astype(np.float64)
    relative = _median(sigma / signal)
    return Numbers(
        noise=_median(sigma),
        relative_noise=relative,
        before_db=float(-20.0 * np.log10(relative)),
        gain_db=gain_db,
        left=_median(rest),
        relative_left=float("nan") if left is None else _median(rest / signal),
    )


def _median(values: npt.NDArray[Any]) -> float:
    return float(np.median(values)) if values.size else float("nan")


def texts(
    numbers: Numbers, image: "LayerVolume", times: str = "photons or averages", about: str = "≈"
) -> dict[str, str]:
    """Return the numbers as they are told; of logarithms the noise relative to the signal.

    Parameters
    ----------
    numbers, image
        Of a result, and what was denoised.
    times
        What more of would do the same without a filter.
    about
        Sign before the gain.
    """
    return {
        "noise": _noise_text(numbers, image) if np.isfinite(numbers.noise) else UNKNOWN,
        "before": f"{numbers.before_db:.1f} dB" if np.isfinite(numbers.before_db) else UNKNOWN,
        "gain": f"{about} {numbers.gain_db:.1f} dB" if np.isfinite(numbers.gain_db) else UNKNOWN,
        "times": f"{about} {numbers.times:.2g} × the {times}" if np.isfinite(numbers.gain_db) else UNKNOWN,
    }


def _noise_text(numbers: Numbers, image: "LayerVolume") -> str:
    """The noise, and an arrow to what is left of it where that is known."""
    if image.values.is_log:
        amounts, unit = (100 * numbers.relative_noise, 100 * numbers.relative_left), "%"
    else:
        amounts, unit = (numbers.noise, numbers.left), image.unit
    return f"{' → '.join(f'{amount:.3g}' for amount in amounts if np.isfinite(amount))} {unit}".rstrip()
