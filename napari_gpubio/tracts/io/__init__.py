"""Files of the tracts engine.

Diffusion scans and gradient tables, volumes, tensor images, FODs, peaks and fixels, atlases, fibers, tables.
"""

from napari_gpubio.core.volumes import write_volume
from napari_gpubio.tracts.io.atlases import read_atlas
from napari_gpubio.tracts.io.dwi import read_dwi, read_mask, read_volume
from napari_gpubio.tracts.io.fixel_folders import write_fixels
from napari_gpubio.tracts.io.fixels import read_fixels, write_peaks
from napari_gpubio.tracts.io.fods import read_fods, write_fods
from napari_gpubio.tracts.io.gradients import read_fsl_gradients, read_mrtrix_gradients, write_fsl_gradients
from napari_gpubio.tracts.io.mif_writer import write_mif
from napari_gpubio.tracts.io.tables import fiber_table, write_fiber_table
from napari_gpubio.tracts.io.tensor_images import read_tensors, write_tensors
from napari_gpubio.tracts.io.tractograms import (
    TractogramWriter,
    read_track_scalars,
    read_tractogram,
    write_tractogram,
)

__all__ = [
    "TractogramWriter",
    "fiber_table",
    "read_atlas",
    "read_dwi",
    "read_fixels",
    "read_fods",
    "read_fsl_gradients",
    "read_mask",
    "read_mrtrix_gradients",
    "read_tensors",
    "read_track_scalars",
    "read_tractogram",
    "read_volume",
    "write_fiber_table",
    "write_fixels",
    "write_fods",
    "write_fsl_gradients",
    "write_mif",
    "write_peaks",
    "write_tensors",
    "write_tractogram",
    "write_volume",
]
