"""Which frame of a stack was exposed for how long, and the contrast of each exposure."""

import itertools
import re
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.mesi.settings import MesiSettings
from napari_gpubio.speckle.model import ContrastMaps
from napari_gpubio.speckle.validity import EDGE, LOW_SIGNAL, SATURATED, ZERO_MEAN

CYCLES, BLOCKS = "in turn", "one after another"
ORDERS = {
    CYCLES: "Every exposure once, then all of them again: 1, 2, 5, 1, 2, 5 ms",
    BLOCKS: "All frames of an exposure, then those of the next: 1, 1, 2, 2, 5, 5 ms",
}
LEFT_OUT = EDGE | ZERO_MEAN | SATURATED | LOW_SIGNAL  # K² below the noise stays: without it the mean would be too high
NO_EXPOSURES = "there are no exposures; type those of the frames in ms, for instance 0.5, 1, 2, 5, 10"


@dataclass(frozen=True, kw_only=True)
class MesiRecipe:
    """A multi-exposure fit of a stack.

    Parameters
    ----------
    exposures_ms
        Exposures, increasing.
    order
        How frames follow each other where there are several of each exposure: a key of `ORDERS`.
    settings
        Model and what is fitted.
    """

    exposures_ms: tuple[float, ...]
    order: str = CYCLES
    settings: MesiSettings = field(default_factory=MesiSettings)

    def repeats(self, frames: int) -> int:
        """Return how many frames there are of each exposure.

        Raises
        ------
        InvalidInput
            If the exposures make no sense, are too few for the fit, or do not belong to so many frames.
        """
        if self.order not in ORDERS:
            raise InvalidInput(f"order is {self.order!r}; choose {' or '.join(map(repr, ORDERS))}")
        _check_increasing(self.exposures_ms)
        count, free = len(self.exposures_ms), self.settings.free
        if count <= free:
            raise InvalidInput(
                f"{count} different exposures cannot tell {free} parameters; take at least {free + 1}, or fit fewer"
            )
        if frames < count or frames % count:
            raise InvalidInput(
                f"there are {count} exposures and {frames} frames; give one exposure for each frame, or a stack with "
                "the same number of frames of every exposure"
            )
        return frames // count


def parse_exposures(text: str) -> tuple[float, ...]:
    """Read exposures (ms) that are typed with commas, semicolons or spaces between them.

    Raises
    ------
    InvalidInput
        If there is none, or one is no number.
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
    """Return exposures as they are typed."""
    return ", ".join(f"{float(value):g}" for value in np.ravel(exposures_ms))


def exposure_contrast(maps: ContrastMaps, mesi: MesiRecipe) -> npt.NDArray[np.float64]:
    """Return K of each exposure, shape (exposures, Y, X): the root of the mean of K² over its frames.

    Frames in which a pixel may not be trusted (`LEFT_OUT`) are left out there; NaN where none is left.

    Parameters
    ----------
    maps
        With K² as their index, one map for each frame.
    mesi
        Exposures and their order.
    """
    count, repeats = len(mesi.exposures_ms), mesi.repeats(len(maps))
    step = count if mesi.order == CYCLES else 1
    contrast = np.empty((count, *maps.contrast.shape[1:]))
    for number in range(count):
        first = number if mesi.order == CYCLES else number * repeats
        which = slice(first, first + step * repeats, step)
        mean = np.ma.masked_invalid(_trusted_k2(maps, which)).mean(axis=0).filled(np.nan)
        contrast[number] = np.sqrt(np.maximum(mean, 0.0))
    return contrast


def _trusted_k2(maps: ContrastMaps, which: slice) -> npt.NDArray[np.float64]:
    """K² of some frames, NaN where it may not be trusted."""
    k2 = maps.squared[which].astype(np.float64)
    if maps.mask is not None:
        k2[(maps.mask[which] & LEFT_OUT) > 0] = np.nan
    return k2


def _check_increasing(exposures_ms: tuple[float, ...]) -> None:
    for place, value in enumerate(exposures_ms, 1):
        if not (0 < value < float("inf")):
            raise InvalidInput(f"exposure {place} is {value:g} ms; it must be greater than 0 ms")
    for place, (before, value) in enumerate(itertools.pairwise(exposures_ms), 2):
        if value <= before:
            raise InvalidInput(
                f"exposure {place} is {value:g} ms and the one before it {before:g} ms; they must increase, each of "
                "them once: sort the frames by exposure"
            )
