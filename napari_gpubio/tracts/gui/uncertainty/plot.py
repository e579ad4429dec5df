"""The plot of a profile with its interval."""

import numpy as np
import pyqtgraph
from qtpy.QtWidgets import QWidget

from napari_gpubio.gui import theme
from napari_gpubio.gui.plots import ThemedPlot
from napari_gpubio.tracts.uncertainty import ProfileInterval

_HEIGHT = 220  # pixels


class IntervalPlot(ThemedPlot):
    """Draws FA along the fibers of a fit, and the 95 % interval of it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.hideButtons()
        self.setMinimumHeight(_HEIGHT)
        self.setLabel("bottom", "place along the fibers (%)")
        self.setLabel("left", "FA, 95 % interval")

    def draw(self, found: ProfileInterval) -> None:
        """Draw a profile in place of the last one."""
        self.clear()
        places, color = np.linspace(0.0, 100.0, len(found)), theme.REGIONS[0]
        self.add_band(places, found.low, found.high, color)
        self.plot(places, found.estimate, pen=pyqtgraph.mkPen(color, width=2), connect="finite")
