"""
FODs at a crossing
==================

Two bundles that cross at 60°: every voxel of the middle has two pairs of lobes, where a tensor would be a disk.
"""

import tempfile
from pathlib import Path

import napari
from window_pictures import panel, settle

from napari_gpubio import diffusion

path = Path(tempfile.mkdtemp()) / "crossing.nii.gz"
diffusion.io.write_fods(path, diffusion.phantom.crossing(60).fods)

viewer = napari.Viewer()
orientations = panel(viewer, "Fiber orientations")
orientations.open_fods(path)
settle(viewer)
viewer.layers["crossing FOD"].opacity = 0.25
viewer.camera.zoom *= 2.2
