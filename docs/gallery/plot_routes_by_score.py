"""
Routes between two regions, by score
====================================

Geodesics that join the frontal lobes, in distinct routes: the brighter, the better they follow the tensors.
"""

import napari
from window_pictures import panel, settle

viewer = napari.Viewer()
viewer.open_sample("napari-gpubio", "brain_phantom")
viewer.open_sample("napari-gpubio", "brain_phantom_atlas")
viewer.layers[-1].visible = False
connect = panel(viewer, "Connect regions")
connect.directions_form.widget("count").value = 20
connect.run_button.click()
settle(viewer)
viewer.layers["brain phantom FA"].visible = False
viewer.layers["frontal lobe, left → frontal lobe, right"].line_width = 4
viewer.dims.ndisplay = 3
viewer.camera.angles = (0, -30, 125)
viewer.camera.zoom *= 1.3
