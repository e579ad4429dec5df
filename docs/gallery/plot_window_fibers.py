"""
A click in the corpus callosum
==============================

One seed in the sample brain, ten directions, and the fibers that pass there, as napari shows them.
"""

import napari
from window_pictures import panel, settle

viewer = napari.Viewer()
viewer.window.resize(1280, 800)
viewer.open_sample("napari-gpubio", "brain_phantom")
tracking = panel(viewer, "Fiber tracking")
tracking.place_seed((0, -5, 22))
settle(viewer)
viewer.dims.ndisplay = 3
viewer.reset_view()
viewer.scene.camera.angles = (14, -28, 58)
