"""Diffusion tensors and fiber tracking by geodesic ray-tracing (van Aart et al. 2011).

From a diffusion scan to fibers in four calls::

    scan = tracts.io.read_dwi("dwi.nii.gz")
    field = tracts.fit_tensors(scan)
    fibers = tracts.track(field, [(0, -5, 22)])
    fibers.save("callosum.trk")

Files are in `tracts.io`, seed points in `tracts.seeds`, scalar maps, the brain mask and the check of the gradient table
in `tracts.tensors`, samples with known truth in `tracts.phantom`.
"""

from napari_gpubio.tracts import io, phantom, seeds, tensors
from napari_gpubio.tracts.model import DiffusionScan, TensorField, Tractogram
from napari_gpubio.tracts.run import track, track_steps, track_to_file
from napari_gpubio.tracts.settings import Directions, StopReason, TrackSettings
from napari_gpubio.tracts.tensors.run import fit_steps, fit_tensors
from napari_gpubio.tracts.tensors.settings import FitSettings

__all__ = [
    "DiffusionScan",
    "Directions",
    "FitSettings",
    "StopReason",
    "TensorField",
    "TrackSettings",
    "Tractogram",
    "fit_steps",
    "fit_tensors",
    "io",
    "phantom",
    "seeds",
    "tensors",
    "track",
    "track_steps",
    "track_to_file",
]
