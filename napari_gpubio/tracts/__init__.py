"""Diffusion tensors and fiber tracking by geodesic ray-tracing (van Aart et al. 2011).

From a diffusion scan to fibers in four calls::

    scan = read_dwi("dwi.nii.gz")
    field = fit_tensors(scan)
    fibers = track(field, [(0, -5, 22)])
    fibers.save("callosum.trk")
"""

from napari_gpubio.core.volumes import write_volume
from napari_gpubio.tracts.io.dwi import read_dwi, read_mask, read_volume
from napari_gpubio.tracts.io.tensor_images import read_tensors, write_tensors
from napari_gpubio.tracts.io.tractograms import TractogramWriter, read_tractogram, write_tractogram
from napari_gpubio.tracts.model import DiffusionScan, TensorField, Tractogram
from napari_gpubio.tracts.phantom import brain_phantom, load_brain_phantom
from napari_gpubio.tracts.run import track, track_steps, track_to_file
from napari_gpubio.tracts.seeds import ball, label_points
from napari_gpubio.tracts.settings import Directions, StopReason, TrackSettings
from napari_gpubio.tracts.tensors.brain_mask import brain_mask
from napari_gpubio.tracts.tensors.gradient_check import GradientCheck, check_gradients, corrected_scan
from napari_gpubio.tracts.tensors.run import fit_steps, fit_tensors
from napari_gpubio.tracts.tensors.scalars import scalar_map
from napari_gpubio.tracts.tensors.settings import FitSettings

__all__ = [
    "DiffusionScan",
    "Directions",
    "FitSettings",
    "GradientCheck",
    "StopReason",
    "TensorField",
    "TrackSettings",
    "Tractogram",
    "TractogramWriter",
    "ball",
    "brain_mask",
    "brain_phantom",
    "check_gradients",
    "corrected_scan",
    "fit_steps",
    "fit_tensors",
    "label_points",
    "load_brain_phantom",
    "read_dwi",
    "read_mask",
    "read_tensors",
    "read_tractogram",
    "read_volume",
    "scalar_map",
    "track",
    "track_steps",
    "track_to_file",
    "write_tensors",
    "write_tractogram",
    "write_volume",
]
