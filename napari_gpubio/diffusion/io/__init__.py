"""Files of diffusion scans and gradient tables, volumes, tensors, FODs, peaks and fixels, and atlases."""

from napari_gpubio.core.volumes import write_volume
from napari_gpubio.diffusion.io.atlases import read_atlas
from napari_gpubio.diffusion.io.dwi import read_dwi, read_mask, read_volume
from napari_gpubio.diffusion.io.fixel_folders import write_fixels
from napari_gpubio.diffusion.io.fixels import read_fixels, write_peaks
from napari_gpubio.diffusion.io.fods import read_fods, write_fods
from napari_gpubio.diffusion.io.gradients import read_fsl_gradients, read_mrtrix_gradients, write_fsl_gradients
from napari_gpubio.diffusion.io.tensor_images import read_tensors, write_tensors

__all__ = [
    "read_atlas",
    "read_dwi",
    "read_fixels",
    "read_fods",
    "read_fsl_gradients",
    "read_mask",
    "read_mrtrix_gradients",
    "read_tensors",
    "read_volume",
    "write_fixels",
    "write_fods",
    "write_fsl_gradients",
    "write_peaks",
    "write_tensors",
    "write_volume",
]
