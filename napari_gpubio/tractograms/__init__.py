"""Tractograms: fibers of any program, what they pass and connect, and what lies along them.

From a file to a bundle in three calls::

    fibers = tractograms.io.read_tractogram("brain.tck")
    keep = tractograms.dissection.dissect(fibers, tractograms.dissection.through(region))
    tractograms.io.write_tractogram("bundle.trk", fibers.select(keep))

Files are in `tractograms.io`, the fibers that pass regions in `tractograms.dissection`, matrices of regions in
`tractograms.connectome`, maps of fibers in `tractograms.maps`, profiles and numbers of bundles in
`tractograms.bundles`, pictures without a display in `tractograms.picture`. `show` shows fibers in a napari viewer.
"""

from typing import TYPE_CHECKING, Any

from napari_gpubio.tractograms import bundles, connectome, dissection, io, maps, picture
from napari_gpubio.tractograms.model import StopReason, Tractogram

if TYPE_CHECKING:
    import os

    import numpy.typing as npt

__all__ = [
    "StopReason",
    "Tractogram",
    "bundles",
    "connectome",
    "dissection",
    "io",
    "maps",
    "picture",
    "show",
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
    >>> layer = tractograms.show(napari.current_viewer(), fibers, color_by="length_mm")  # doctest: +SKIP
    >>> layer.shown = layer.per_fiber["length_mm"] > 40  # doctest: +SKIP
    """
    from napari_gpubio.tractograms.gui.fibers import show as show_fibers  # which loads napari's GUI

    return show_fibers(viewer, tractogram, name, shown=shown, **options)
