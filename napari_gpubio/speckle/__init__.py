"""Laser speckle contrast imaging: exact contrast and maps of flow, of stacks and live.

From frames to maps in one call::

    maps = contrast(frames, ContrastSettings(window=7, exposure_ms=5))
    maps.contrast, maps.index, maps.mask

and frame by frame::

    with ContrastStream(ContrastSettings(), shape=(1040, 1392), dtype="uint16") as stream:
        maps = stream.push(frame)
"""

from napari_gpubio.speckle.indices import inverse_correlation_time, relative_flow, speckle_flow_index
from napari_gpubio.speckle.io import read_frames, write_maps
from napari_gpubio.speckle.mesi import (
    MesiRecipe,
    MesiResult,
    MesiSettings,
    exposure_contrast,
    fit_mesi,
    fit_mesi_steps,
    static_fraction,
)
from napari_gpubio.speckle.model import ContrastMaps
from napari_gpubio.speckle.noise import NoiseModel, measure_dark
from napari_gpubio.speckle.regions import RegionCurve, region_curves, write_curves_csv
from napari_gpubio.speckle.registration import register
from napari_gpubio.speckle.run import ContrastStream, contrast, contrast_steps
from napari_gpubio.speckle.samples import flow_frames, speckle_sequence
from napari_gpubio.speckle.settings import ContrastSettings

__all__ = [
    "ContrastMaps",
    "ContrastSettings",
    "ContrastStream",
    "MesiRecipe",
    "MesiResult",
    "MesiSettings",
    "NoiseModel",
    "RegionCurve",
    "contrast",
    "contrast_steps",
    "exposure_contrast",
    "fit_mesi",
    "fit_mesi_steps",
    "flow_frames",
    "inverse_correlation_time",
    "measure_dark",
    "read_frames",
    "region_curves",
    "register",
    "relative_flow",
    "speckle_flow_index",
    "speckle_sequence",
    "static_fraction",
    "write_curves_csv",
    "write_maps",
]
