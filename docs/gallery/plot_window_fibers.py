"""
A click in the corpus callosum
==============================

One seed in the sample brain, ten directions, and the fibers that pass there, as napari shows them.
"""

import napari
from window_pictures import panel, settle

viewer = napari.Viewer()
viewer.open_sample("napari-gpubio", "brain_phantom")
tracking = panel(viewer, "Fiber tracking")
tracking.place_seed((0, -5, 22))
settle(viewer)
viewer.dims.ndisplay = 3
