"""Planar layers with optical properties. Lengths in mm, mu_a and mu_s in 1/mm; MCML's files have cm and 1/cm."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import Settings, Words, part
from napari_gpubio.optics.model import Layer

MAX_LAYERS = 100


def _layers(rows: Sequence[Sequence[str]]) -> tuple[Layer, ...]:
    """Layers of the words of a command."""
    try:
        each = [[float(word) for word in row] for row in rows]
    except ValueError:
        what = f"a layer is {' '.join(rows[-1])!r}"
        raise InvalidInput(f"{what}; give its n, mua and mus in 1/mm, g, and thickness in mm, or inf") from None
    return tuple(Layer(n=n, mua_per_mm=a, mus_per_mm=s, g=g, thickness_mm=mm) for n, a, s, g, mm in each)


@dataclass(frozen=True, kw_only=True)
class LayeredMedium(Settings):
    """Layers on top of each other; light comes from above.

    Parameters
    ----------
    layers
        From the top, 1 to 100; only the last may be infinite.
    n_above, n_below
        Refractive index of what is above and below.
    name
        For titles and files.

    Raises
    ------
    InvalidInput
        If there is no layer, or too many, or an infinite one that is not the last, or nothing but glass.
    """

    words: ClassVar[Any] = {"layers": Words(("N", "MUA", "MUS", "G", "MM"), _layers)}

    layers: tuple[Layer, ...] = part("Layers", "From the top, each by its own --layers.")
    n_above: float = part("n above", "Refractive index above.", default=1.0)
    n_below: float = part("n below", "Refractive index below.", default=1.0)
    name: str = param("", "Name", "For titles and files.")

    def check(self) -> None:
        """Raise InvalidInput if no light could be traced through the layers."""
        if not 1 <= len(self.layers) <= MAX_LAYERS:
            raise InvalidInput(f"there are {len(self.layers)} layers; give 1 to {MAX_LAYERS}")
        for what, n in (("above", self.n_above), ("below", self.n_below)):
            if not n >= 1:
                raise InvalidInput(f"the refractive index {what} is {n!r}; it must be at least 1")
        if any(layer.is_endless for layer in self.layers[:-1]):
            raise InvalidInput("a layer above the last one is infinitely thick; nothing below it would be reached")
        if self.layers[-1].is_endless and self.layers[-1].is_glass:
            raise InvalidInput("the last layer is infinitely thick glass; light would travel forever in it")
        if self.layers[-1].is_endless and self.layers[-1].mua_per_mm == 0:
            raise InvalidInput(
                "the last layer is infinitely thick and absorbs nothing; light would scatter in it forever: give it "
                "a thickness or a mua_per_mm above 0"
            )

    @property
    def tops_mm(self) -> np.ndarray:
        """Depth of the top of each layer, mm, and of the bottom of the last one, shape (L + 1,)."""
        thick = [math.inf if layer.is_endless else layer.thickness_mm for layer in self.layers]
        return np.concatenate([[0.0], np.cumsum(thick)])

    def specular_reflectance(self) -> float:
        """Reflectance at normal incidence before photons start; glass on top of other layers reflects repeatedly."""
        first = _normal_reflectance(self.n_above, self.layers[0].n)
        if not self.layers[0].is_glass or len(self.layers) == 1:
            return first  # photons start below the first face
        second = _normal_reflectance(self.layers[0].n, self.layers[1].n)
        return first + (1 - first) ** 2 * second / (1 - first * second)

    def layer_name(self, index: int) -> str:
        """Name of a layer, or its number from 1."""
        return self.layers[index].name or f"layer {index + 1}"

    def layer_at(self, depth_mm: float) -> int:
        """Index of the layer at a depth; the last one below everything."""
        return int(self.layers_at(depth_mm))

    def layers_at(self, depths_mm: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return `layer_at` of many depths."""
        found = np.searchsorted(self.tops_mm, depths_mm, side="right") - 1
        return np.minimum(found, len(self.layers) - 1)


def _normal_reflectance(n1: float, n2: float) -> float:
    return ((n1 - n2) / (n1 + n2)) ** 2
