"""Diffusion tensors and fiber tracking by geodesic ray-tracing (van Aart et al. 2011).

From a diffusion scan to fibers in four calls::

    scan = tracts.io.read_dwi("dwi.nii.gz")
    field = tracts.fit_tensors(scan)
    fibers = tracts.track(field, [(0, -5, 22)])
    tracts.io.write_tractogram("callosum.trk", fibers)

`tracts.noise` takes the noise out of a raw scan. Where fibers cross, `deconvolve` makes fiber orientation
distributions of it (`tracts.fods`), which `track` takes, too.

`show` shows them in a napari viewer. `bootstrap` tells how far noise in the scan moves them.
Files are in `tracts.io`, seed points in `tracts.seeds`, scalar maps, the brain mask and the check of the gradient table
in `tracts.tensors`, regions in `tracts.regions`, the fibers that pass them in `tracts.dissection`, maps of fibers in
`tracts.maps`, profiles and numbers of bundles in `tracts.bundles`, samples with known truth in
`tracts.phantom`, pictures without a display in `tracts.picture`.
"""

from typing import TYPE_CHECKING, Any

from napari_gpubio.tracts import (
    bundles,
    connectome,
    dissection,
    fods,
    io,
    maps,
    noise,
    phantom,
    picture,
    regions,
    seeds,
    tensors,
)
from napari_gpubio.tracts.directions import Cone, FromFod, Isotropic, Principal, Usual
from napari_gpubio.tracts.fods import (
    CsdSettings,
    FixelField,
    FodField,
    HighestFa,
    MultiTissueSettings,
    PeakSettings,
    Response,
    ThreeTissues,
    Tournier,
    TwoTissues,
)
from napari_gpubio.tracts.fods.estimate import estimate_response, estimate_response_steps
from napari_gpubio.tracts.fods.normalize import normalize_tissues
from napari_gpubio.tracts.fods.run import deconvolve, deconvolve_steps, find_peaks, find_peaks_steps
from napari_gpubio.tracts.fods.tissues import estimate_tissue_responses, estimate_tissue_responses_steps
from napari_gpubio.tracts.metrics import Adaptive, Adjugate, Inverse, Sharpened
from napari_gpubio.tracts.model import DiffusionScan, TensorField
from napari_gpubio.tracts.routes import ConnectSettings, Routes, connect, connect_steps, geodesics_between
from napari_gpubio.tracts.run import needed_memory, track, track_steps, track_to_file
from napari_gpubio.tracts.settings import (
    IFOD1,
    IFOD2,
    EuDX,
    FixelGeodesic,
    Hamiltonian,
    LiftedGeodesic,
    SDStream,
    VanAart2011,
)
from napari_gpubio.tracts.tensors.run import fit_tensors, fit_tensors_steps
from napari_gpubio.tracts.tensors.settings import (
    FitSettings,
    OrdinaryLeastSquares,
    Repaired,
    Unrepaired,
    WeightedLeastSquares,
)
from napari_gpubio.tracts.tractogram import StopReason, Tractogram
from napari_gpubio.tracts.uncertainty import (
    Bootstrap,
    BootstrapSettings,
    FodBootstrapSettings,
    bootstrap,
    bootstrap_steps,
)

if TYPE_CHECKING:
    import os

    import numpy.typing as npt

__all__ = [
    "IFOD1",
    "IFOD2",
    "Adaptive",
    "Adjugate",
    "Bootstrap",
    "BootstrapSettings",
    "Cone",
    "ConnectSettings",
    "CsdSettings",
    "DiffusionScan",
    "EuDX",
    "FitSettings",
    "FixelField",
    "FixelGeodesic",
    "FodBootstrapSettings",
    "FodField",
    "FromFod",
    "Hamiltonian",
    "HighestFa",
    "Inverse",
    "Isotropic",
    "LiftedGeodesic",
    "MultiTissueSettings",
    "OrdinaryLeastSquares",
    "PeakSettings",
    "Principal",
    "Repaired",
    "Response",
    "Routes",
    "SDStream",
    "Sharpened",
    "StopReason",
    "TensorField",
    "ThreeTissues",
    "Tournier",
    "Tractogram",
    "TwoTissues",
    "Unrepaired",
    "Usual",
    "VanAart2011",
    "WeightedLeastSquares",
    "bootstrap",
    "bootstrap_steps",
    "bundles",
    "connect",
    "connect_steps",
    "connectome",
    "deconvolve",
    "deconvolve_steps",
    "dissection",
    "estimate_response",
    "estimate_response_steps",
    "estimate_tissue_responses",
    "estimate_tissue_responses_steps",
    "find_peaks",
    "find_peaks_steps",
    "fit_tensors",
    "fit_tensors_steps",
    "fods",
    "geodesics_between",
    "io",
    "maps",
    "needed_memory",
    "noise",
    "normalize_tissues",
    "phantom",
    "picture",
    "regions",
    "seeds",
    "show",
    "tensors",
    "track",
    "track_steps",
    "track_to_file",
]


def show(
    viewer: Any,
    tractogram: "Tractogram | str | os.PathLike[str]",
    name: str | None = None,
    *,
    shown: "npt.ArrayLike | None" = None,
    **options: Any,
) -> Any:
    """Show fibers in a napari viewer, as the fiber tracking panel and File > Open do.

    Parameters
    ----------
    viewer
        A napari viewer.
    tractogram
        The fibers, or a file of them (trk, tck, trx, vtk).
    name
        Of the layer; by default that of the file, or ``"fibers"``.
    shown
        A filter: a boolean for each fiber, shape (F,); None shows all.
    **options
        How they are drawn: ``color_by`` (``"direction"``, ``"uniform"``, ``"length_mm"``, or a number that the
        tractogram has), ``color``, ``colormap``, ``contrast_limits``, ``slab_mm``, ``line_style``, ``line_width``,
        ``saves``, and what every napari layer takes.

    Returns
    -------
    layer
        The streamlines layer, whose properties have the same names.

    Raises
    ------
    InvalidInput
        If a file cannot be read, or an option does not fit the fibers.

    Examples
    --------
    >>> layer = tracts.show(napari.current_viewer(), fibers, color_by="length_mm")  # doctest: +SKIP
    >>> layer.shown = layer.per_fiber["length_mm"] > 40  # doctest: +SKIP
    """
    from napari_gpubio.tracts.gui.fibers import show as show_fibers  # which loads napari's GUI

    return show_fibers(viewer, tractogram, name, shown=shown, **options)
