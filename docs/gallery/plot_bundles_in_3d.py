"""
Bundles over colored directions
===============================

The bundles of the sample brain as tubes over a slice of its direction-encoded colors: both have the same code.
"""

import napari
from window_pictures import panel, settle

from napari_gpubio.core.files import sample_path

viewer = napari.Viewer()
viewer.open_sample("napari-gpubio", "brain_phantom")
tensors = panel(viewer, "Diffusion tensors")
tensors.run_button.click()
settle(viewer)
viewer.open(sample_path("brain_phantom/bundles.trk"), plugin="napari-gpubio")
viewer.layers["bundles"].line_width = 3
viewer.layers["brain phantom FA"].visible = False
viewer.dims.ndisplay = 3
viewer.dims.set_point(1, -20.0)
viewer.camera.angles = (0, -25, 115)
viewer.camera.zoom *= 1.3
