"""What pictures of light have in common: colors of tissues, decades, and the words of units."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.optics.estimates import FluenceUnit

LAYER_COLORS = ("#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00", "#9f9fff")  # safe for color blindness

Array = npt.NDArray[Any]
DECADES = 6
OTHER_COLOR = "#c850a0"  # of labels that the user paints beside the tissues
TISSUE_COLORS = {
    "scalp": "#b5795a",
    "skull": "#e3d9b8",
    "CSF": "#3f8fbf",
    "gray matter": "#8a8a94",
    "white matter": "#ededed",
}


def log_name(name: str, quantity: str, unit: str) -> str:
    """Return the name of a layer of decimal logarithms: whose, of what, and in which unit the number is that has it."""
    return f"{name} {quantity}, log10 {unit}".strip()


def decade_limits(shown: Array, decades: int = DECADES) -> tuple[float, float]:
    """Contrast limits of a logarithm: the highest value rounded up to a whole decade, and so many decades below."""
    highest = float(np.nanmax(shown, initial=-np.inf))
    top = math.ceil(highest - 1e-6) if math.isfinite(highest) else 0  # 1e-6: rounding makes no new decade
    return float(top - decades), float(top)


def fluence_word(unit: FluenceUnit) -> str:
    """Return what fluence is called in a unit: of a continuous source's power it is a rate."""
    return "fluence rate" if unit.name == "mW/mm²" else "fluence"


def layer_colors(names: Sequence[str]) -> tuple[str, ...]:
    """Colors of layers from the top: those of the tissues of a head, where all of them are such, else one by one."""
    if names and set(names) <= TISSUE_COLORS.keys():
        return tuple(TISSUE_COLORS[name] for name in names)
    return tuple(LAYER_COLORS[index % len(LAYER_COLORS)] for index in range(len(names)))
