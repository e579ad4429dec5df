"""Fiber tracking: geodesics in tensors, FODs and fixels (van Aart et al. 2011), and streamlines in FODs.

From a diffusion scan to fibers in three calls::

    field = diffusion.fit_tensors(diffusion.io.read_dwi("dwi.nii.gz"))
    found = fibers.track(field, [(0, -5, 22)])
    tractograms.io.write_tractogram("callosum.trk", found)

Seed points are in `fibers.seeds`. `connect` finds the routes between two regions, `geodesic_connectome` those between
all regions of an atlas, and `bootstrap` how far noise in the scan moves fibers.
"""

from napari_gpubio.fibers import flow, seeds
from napari_gpubio.fibers.directions import Cone, FromFod, Isotropic, Principal, Usual
from napari_gpubio.fibers.geodesics import GeodesicSettings, geodesic_connectome, geodesic_connectome_steps
from napari_gpubio.fibers.metrics import Adaptive, Adjugate, Inverse, Sharpened
from napari_gpubio.fibers.routes.between import geodesics_between
from napari_gpubio.fibers.routes.model import Routes
from napari_gpubio.fibers.routes.run import connect, connect_steps
from napari_gpubio.fibers.routes.settings import ConnectSettings
from napari_gpubio.fibers.run import needed_memory, track, track_steps, track_to_file
from napari_gpubio.fibers.settings import (
    IFOD1,
    IFOD2,
    EuDX,
    FixelGeodesic,
    Hamiltonian,
    LiftedGeodesic,
    SDStream,
    VanAart2011,
)
from napari_gpubio.fibers.uncertainty.model import Bootstrap
from napari_gpubio.fibers.uncertainty.run import bootstrap, bootstrap_steps
from napari_gpubio.fibers.uncertainty.settings import BootstrapSettings, FodBootstrapSettings

__all__ = [
    "IFOD1",
    "IFOD2",
    "Adaptive",
    "Adjugate",
    "Bootstrap",
    "BootstrapSettings",
    "Cone",
    "ConnectSettings",
    "EuDX",
    "FixelGeodesic",
    "FodBootstrapSettings",
    "FromFod",
    "GeodesicSettings",
    "Hamiltonian",
    "Inverse",
    "Isotropic",
    "LiftedGeodesic",
    "Principal",
    "Routes",
    "SDStream",
    "Sharpened",
    "Usual",
    "VanAart2011",
    "bootstrap",
    "bootstrap_steps",
    "connect",
    "connect_steps",
    "flow",
    "geodesic_connectome",
    "geodesic_connectome_steps",
    "geodesics_between",
    "needed_memory",
    "seeds",
    "track",
    "track_steps",
    "track_to_file",
]
