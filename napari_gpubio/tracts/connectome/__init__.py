"""Connectomes: how the regions of an atlas are connected, by streamlines or by geodesics.

The conventions are those of MRtrix's tck2connectome::

    from napari_gpubio import tracts

    atlas = tracts.io.read_atlas("aparc+aseg.nii.gz")
    found = tracts.connectome.connectome("brain.trx", atlas)
    counts, lengths = found.matrix(), found.matrix("length_mm")
    fibers = tracts.io.read_tractogram("brain.trx").select(found.fibers_of(17, 53))
"""

from napari_gpubio.tracts.connectome.geodesic import GeodesicSettings, geodesic_connectome, geodesic_connectome_steps
from napari_gpubio.tracts.connectome.model import Connectome
from napari_gpubio.tracts.connectome.run import connectome, connectome_steps, needed_memory
from napari_gpubio.tracts.connectome.settings import AllVoxels, Backwards, ConnectomeSettings, EndVoxels, Radial

__all__ = [
    "AllVoxels",
    "Backwards",
    "Connectome",
    "ConnectomeSettings",
    "EndVoxels",
    "GeodesicSettings",
    "Radial",
    "connectome",
    "connectome_steps",
    "geodesic_connectome",
    "geodesic_connectome_steps",
    "needed_memory",
]
