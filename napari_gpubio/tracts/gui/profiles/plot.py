"""The plot of profiles: a curve with a band for each bundle."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyqtgraph
from qtpy.QtWidgets import QWidget

from napari_gpubio.gui.plots import ThemedPlot
from napari_gpubio.tracts.bundles import Profile

_HEIGHT = 240  # pixels


class ProfilePlot(ThemedPlot):
    """Draws mean and standard deviation of an image along bundles."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.curves: dict[str, Any] = {}  # pyqtgraph's items, by bundle
        self.hideButtons()
        self.setMinimumHeight(_HEIGHT)
        self.setLabel("bottom", "place along the bundle (%)")

    def draw(self, profiles: Mapping[str, Profile], colors: Mapping[str, str], quantity: str) -> None:
        """Draw profiles by bundle, each in its color; ``quantity``: of the image, with its unit."""
        self.clear()
        self.curves = {}
        for name, profile in profiles.items():
            places = np.linspace(0.0, 100.0, len(profile))
            self.add_band(places, profile.mean - profile.sd, profile.mean + profile.sd, colors[name])
            pen = pyqtgraph.mkPen(colors[name], width=2)
            self.curves[name] = self.plot(places, profile.mean, pen=pen, connect="finite")
        self.setLabel("left", quantity)
