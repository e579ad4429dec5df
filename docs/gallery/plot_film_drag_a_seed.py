"""
A seed is dragged
=================

The seed moves through the corpus callosum, and its fibers follow.
"""

import napari
import numpy as np
from window_pictures import film, panel, settle

viewer = napari.Viewer()
viewer.open_sample("napari-gpubio", "brain_phantom")
tracking = panel(viewer, "Fiber tracking")
tracking.place_seed((0, -35, 18))
settle(viewer)
viewer.layers["brain phantom FA"].visible = False


def frames():
    for turn in np.linspace(0, np.pi, 20):
        tracking.place_seed((0, float(-35 * np.cos(turn)), float(18 + 5 * np.sin(turn))))
        settle(viewer, 0.02)
        yield viewer.screenshot(canvas_only=True, flash=False)


film("drag_a_seed", frames(), rate=6)
