"""Connectomes: how the regions of an atlas are connected, by streamlines or by geodesics.

The conventions are those of MRtrix's tck2connectome::

    from napari_gpubio import diffusion, tractograms

    atlas = diffusion.io.read_atlas("aparc+aseg.nii.gz")
    found = tractograms.connectome.connectome("brain.trx", atlas)
    counts, lengths = found.matrix(), found.matrix("length_mm")
    fibers = tractograms.io.read_tractogram("brain.trx").select(found.fibers_of(17, 53))
"""

from napari_gpubio.tractograms.connectome.model import Connectome
from napari_gpubio.tractograms.connectome.run import connectome, connectome_steps, needed_memory
from napari_gpubio.tractograms.connectome.settings import AllVoxels, Backwards, ConnectomeSettings, EndVoxels, Radial

__all__ = [
    "AllVoxels",
    "Backwards",
    "Connectome",
    "ConnectomeSettings",
    "EndVoxels",
    "Radial",
    "connectome",
    "connectome_steps",
    "needed_memory",
]
