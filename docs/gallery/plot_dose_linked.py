"""
Curves linked to the image
==========================

A line at 60 Gy on the curves, its isodose in the slice, and the voxels of the target that receive as much.
"""

import napari
from window_pictures import panel, settle

viewer = napari.Viewer()
viewer.window._qt_window.setGeometry(0, 0, 1280, 800)
viewer.open_sample("napari-gpubio", "treatment")
curves = panel(viewer, "Dose-volume histogram")
settle(viewer)
curves.run()
settle(viewer)
curves.tools.dose.setChecked(True)
curves.tools.inside.setCurrentText("target")
curves.link.move_dose_line(60.0)
viewer.reset_view()
viewer.camera.zoom *= 1.4
