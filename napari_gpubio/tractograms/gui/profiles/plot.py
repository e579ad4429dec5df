"""The plot of profiles: a curve with a band for each bundle."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from qtpy.QtWidgets import QWidget

from napari_gpubio.gui.plots import Axis, ThemedPlot

_HEIGHT_PIXELS = 240


class Band(NamedTuple):
    """A profile as it is drawn: a curve, and the edges of the band around it, each of shape (K,)."""

    curve: npt.NDArray[np.float64]
    low: npt.NDArray[np.float64]
    high: npt.NDArray[np.float64]


class ProfilePlot(ThemedPlot):
    """Draws values along bundles."""

    bottom = Axis(title="place along the bundle (%)")

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.curves: dict[str, Any] = {}  # pyqtgraph's items, by bundle
        self.setMinimumHeight(_HEIGHT_PIXELS)

    def draw(self, bands: Mapping[str, Band], colors: Mapping[str, str], quantity: str, way: str = "") -> None:
        """Draw profiles by bundle, each in its color.

        ``quantity``: what they are of, with its unit; ``way``: how all bundles run, see `way_of`.
        """
        self.clear()
        self.curves = {}
        for name, band in bands.items():
            places = np.linspace(0.0, 100.0, len(band.curve))
            self.add_band(places, band.low, band.high, colors[name])
            self.curves[name] = self.add_curve(places, band.curve, color=colors[name], width=2)
        self.setLabel("left", quantity)
        self.setLabel("bottom", way or self.bottom.title)


def way_of(ends: tuple[str, str]) -> str:
    """Return from where to where a bundle runs; ``ends``: see `Profile.ends`."""
    return f"from {ends[0]} (0 %) to {ends[1]} (100 %)"
