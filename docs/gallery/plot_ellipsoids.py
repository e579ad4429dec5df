"""
Tensors as ellipsoids
=====================

Tensors of a slice through the corpus callosum: long and red where fibers run left to right, round in gray matter.
"""

import napari
from window_pictures import panel, settle

viewer = napari.Viewer()
viewer.open_sample("napari-gpubio", "brain_phantom")
tensors = panel(viewer, "Diffusion tensors")
tensors.run_button.click()
settle(viewer)
viewer.layers["brain phantom DEC"].visible = False
viewer.dims.order = (0, 2, 1, 3)
viewer.dims.set_point(2, -5.0)
tensors.show_ellipsoids()
settle(viewer)
viewer.camera.center = (0, 24.0, 0.0)
viewer.camera.zoom *= 3.0
