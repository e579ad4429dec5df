"""How maps are made, and a live map on its way to the screen."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.speckle.mesi.model import MesiRecipe
from napari_gpubio.speckle.noise import NoiseModel
from napari_gpubio.speckle.settings import ContrastSettings

Array = npt.NDArray[Any]
_SAME_K2 = ("index", "beta", "nonfinite", "mask", "low_signal")  # settings that change no K²


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Recipe:
    """How maps are made.

    Parameters
    ----------
    settings, noise
        See the engine.
    registers
        Whether frames are shifted onto the first one before contrast is taken.
    baseline_maps
        Number of maps that a baseline is the mean of.
    device
        As the engine takes it.
    dark
        Name of the layer of dark frames that the noise was measured in, or nothing.
    mesi
        The multi-exposure fit that is made of K², or None.
    """

    settings: ContrastSettings
    noise: NoiseModel = dataclasses.field(default_factory=NoiseModel)
    registers: bool = False
    baseline_maps: int = 30
    device: str = "auto"
    dark: str = ""
    mesi: MesiRecipe | None = None

    def has_same_k2(self, other: "Recipe") -> bool:
        """Whether another recipe gives the same K², so that a baseline may be kept."""
        free = {name: getattr(self.settings, name) for name in _SAME_K2}
        own, others = (_values(recipe.noise) for recipe in (self, other))
        same_frames = self.registers == other.registers and own == others
        return same_frames and dataclasses.replace(other.settings, **free) == self.settings


@dataclasses.dataclass(eq=False)
class LiveMap:
    """A map on its way to the screen; its memory is used again.

    Parameters
    ----------
    shown
        The chosen map, float32 of shape (Y, X).
    raw
        The frame.
    settings
        How the map was made.
    is_there
        Whether there is a map: a window of frames may not be full yet, or a baseline missing.
    k2
        Mean of K² over the valid pixels of each region.
    baseline_step
        Number of this map in the baseline that is being taken, and how many make it; or None.
    """

    shown: npt.NDArray[np.float32]
    raw: Array
    settings: ContrastSettings
    is_there: bool = False
    k2: dict[str, float] = dataclasses.field(default_factory=dict)
    baseline_step: tuple[int, int] | None = None


def _values(noise: NoiseModel) -> tuple[Any, ...]:
    scalars = (noise.dark_adu, noise.gain, noise.read_noise_adu, noise.quantization)
    return (*scalars, id(noise.dark_map), id(noise.variance_map))
