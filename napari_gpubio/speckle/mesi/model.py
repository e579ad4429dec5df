"""Settings of multi-exposure fits, exposures of a stack, and contrast at each exposure."""

import itertools
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, part
from napari_gpubio.speckle.model import LEFT_OUT, ContrastMaps

MODELS = {"lorentzian": 1.0, "gaussian": 2.0, "multiple": 0.5}  # n in the decay of the field correlation, exp(-(t/τ)ⁿ)


@dataclass(frozen=True, kw_only=True)
class FittedBeta(Settings):
    """β is fitted in every pixel."""

    kind: ClassVar[str] = "fitted"


@dataclass(frozen=True, kw_only=True)
class GivenBeta(Settings):
    """β is known, as from `measure_beta`."""

    kind: ClassVar[str] = "given"
    static_k2: float = param(1.0, "β", "K² of a scatterer at rest.", above=0.0, maximum=1.0, step=0.05)
    static_k2_error: float = param(
        0.0, "Error of β", "Standard error of a β that was measured.", minimum=0.0, maximum=1.0, step=0.01,
        advanced=True,
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class MesiSettings(Settings):
    """Model and fitted parameters of multi-exposure imaging (Parthasarathy et al. 2008; Kazmi et al. 2013 and 2015).

    One curve hardly separates ν from ρ and β: subtract
    the noise of the camera from K², and fit ν only where β is known.
    """

    model: str = param(
        "lorentzian", "Decay",
        "Decay of the correlation: that of the field, exp(-t/τ) (lorentzian, single scattering by unordered motion), "
        "exp(-(t/τ)²) (gaussian, ordered motion), exp(-√(t/τ)) (multiple scattering by unordered motion).",
        choices=tuple(MODELS),
    )  # fmt: skip
    beta: FittedBeta | GivenBeta = part("β", "K² of a scatterer at rest: fitted, or given.", default=FittedBeta())
    contrast_error: float = param(
        0.0, "Error of K",
        "Relative standard error of K at every exposure; 0 = it is estimated from the residuals of each pixel.",
        minimum=0.0, maximum=1.0, step=0.01, advanced=True,
    )  # fmt: skip
    fit_rho: bool = param(
        True, "Fit static fraction",
        "Fit the moving fraction: ρ of the light is scattered by what moves; otherwise it is 1.",
    )  # fmt: skip
    fit_noise: bool = param(
        False, "Fit noise", "Fit a term ν that does not depend on the exposure; otherwise it is 0.", advanced=True
    )

    @property
    def fit_beta(self) -> bool:
        """Whether β is fitted."""
        return isinstance(self.beta, FittedBeta)

    @property
    def power(self) -> float:
        """The power n of the decay."""
        return MODELS[self.model]

    @property
    def free(self) -> int:
        """Number of parameters that are fitted."""
        return 1 + self.fit_rho + self.fit_noise + self.fit_beta


Array = npt.NDArray[Any]
CYCLES, BLOCKS = "in turn", "one after another"
ORDERS = {
    CYCLES: "All exposures once, then again: 1, 2, 5, 1, 2, 5 ms",
    BLOCKS: "All frames of an exposure, then those of the next: 1, 1, 2, 2, 5, 5 ms",
}
_ORDERS = " ".join(f"{name.capitalize()}: {text}." for name, text in ORDERS.items())
NO_EXPOSURES = "there are no exposures; enter those of the frames in ms, for instance 0.5, 1, 2, 5, 10"


@dataclass(frozen=True, kw_only=True)
class MesiRecipe(Settings):
    """Exposures of a stack, and settings of the fit."""

    exposures_ms: tuple[float, ...] = part("Exposures", "Exposures, increasing, each once.", unit="ms")
    order: str = param(
        CYCLES, "Several of each", f"Order: of several frames of each exposure. {_ORDERS}", choices=tuple(ORDERS)
    )
    settings: MesiSettings = part("Fit", "Model, and what is fitted.", default=MesiSettings())

    def repeats(self, frames: int) -> int:
        """Return the number of frames of each exposure.

        Raises
        ------
        InvalidInput
            If the exposures are invalid, too few for the fit, or do not match the number of frames.
        """
        _check_increasing(self.exposures_ms)
        count, free = len(self.exposures_ms), self.settings.free
        if count <= free:
            raise InvalidInput(
                f"{count} different exposures cannot determine {free} parameters; use at least {free + 1}, or fit fewer"
            )
        if frames < count or frames % count:
            raise InvalidInput(
                f"there are {count} exposures and {frames} frames; give one exposure for each frame, or a stack with "
                "the same number of frames of every exposure"
            )
        return frames // count


def squared_contrast(
    exposure_ms: npt.ArrayLike,
    tau_ms: float,
    *,
    power: float = 1.0,
    beta: float = 1.0,
    rho: float = 1.0,
    noise: float = 0.0,
) -> Array:
    """Return K² at exposures (ms), in closed form; equations in `napari_gpubio.speckle.kernels.mesi`.

    Parameters
    ----------
    tau_ms
        Correlation time of the field.
    power
        The decay's n: 1, 2 or 0.5.
    beta, rho, noise
        β, the fraction of light scattered by what moves, and ν.
    """
    from napari_gpubio.speckle.kernels import mesi

    x = np.asarray(exposure_ms, np.float64) / tau_ms
    y = np.stack([2.0 ** (1.0 / power) * x.ravel(), x.ravel()]).ravel()
    b, c = np.empty_like(y), np.empty_like(y)
    mesi.fill_averages(0, y.size, y, float(power), b, c)
    fast, slow = b.reshape(2, *x.shape)
    return np.asarray(beta * (rho**2 * fast + 2.0 * rho * (1.0 - rho) * slow + (1.0 - rho) ** 2) + noise)


def parse_exposures(text: str) -> tuple[float, ...]:
    """Parse exposures (ms) separated by commas, semicolons or spaces.

    Raises
    ------
    InvalidInput
        If there are none, or one is not a number.
    """
    words = [word for word in re.split(r"[,;\s]+", text.strip()) if word]
    if not words:
        raise InvalidInput(NO_EXPOSURES)
    exposures = []
    for place, word in enumerate(words, 1):
        try:
            exposures.append(float(word))
        except ValueError:
            raise InvalidInput(
                f"exposure {place} is {word!r}; give numbers in ms, for instance 0.5, 1, 2, 5, 10"
            ) from None
    return tuple(exposures)


def exposures_text(exposures_ms: npt.ArrayLike) -> str:
    """Return exposures as text."""
    return ", ".join(f"{float(value):g}" for value in np.ravel(exposures_ms))


def exposure_contrast(maps: ContrastMaps, mesi: MesiRecipe) -> npt.NDArray[np.float64]:
    """Return K at each exposure, shape (exposures, Y, X): the square root of the mean of K² over its frames.

    A pixel's frames with a bit of `LEFT_OUT` in the mask are left out; NaN where none is left.

    Parameters
    ----------
    maps
        Maps with K² as their index, one per frame.
    mesi
        Exposures and their order.
    """
    count, repeats = len(mesi.exposures_ms), mesi.repeats(len(maps))
    step = count if mesi.order == CYCLES else 1
    contrast = np.empty((count, *maps.signed.shape[1:]))
    for number in range(count):
        first = number if mesi.order == CYCLES else number * repeats
        which = slice(first, first + step * repeats, step)
        k2 = maps.squared[which].astype(np.float64)
        if maps.mask is not None:
            k2[(maps.mask[which] & LEFT_OUT) > 0] = np.nan
        mean = np.ma.masked_invalid(k2).mean(axis=0).filled(np.nan)
        contrast[number] = np.sqrt(np.maximum(mean, 0.0))
    return contrast


def _check_increasing(exposures_ms: tuple[float, ...]) -> None:
    for place, value in enumerate(exposures_ms, 1):
        if not (0 < value < float("inf")):
            raise InvalidInput(f"exposure {place} is {value:g} ms; it must be greater than 0 ms")
    for place, (before, value) in enumerate(itertools.pairwise(exposures_ms), 2):
        if value <= before:
            raise InvalidInput(
                f"exposure {place} is {value:g} ms and the one before it {before:g} ms; they must increase: sort "
                "the frames by exposure, and give each exposure once"
            )
