"""Laser speckle contrast imaging: exact contrast and maps of flow, of stacks and live.

From frames to maps in one call::

    frames = speckle.io.read_frames("frames.tif")
    maps = speckle.contrast(frames, speckle.ContrastSettings(
        mode=speckle.Spatial(window=7), index=speckle.FlowIndex(exposure_ms=5)))
    maps.contrast, maps.index, maps.mask

of a stack of any length, from file to file::

    with speckle.io.MapFile("k.tif") as k, speckle.io.MapFile("flow.tif", "index") as flow:
        speckle.contrast(speckle.io.open_frames("frames.tif"), into=[k, flow])

and frame by frame::

    with speckle.ContrastStream(speckle.ContrastSettings(), shape=(1040, 1392), dtype="uint16") as stream:
        maps = stream.push(frame)

`io` reads and writes files, `mesi` fits several exposures, `pulsatility` measures the beat of flow in regions, `live`
watches cameras and folders. Indices of flow, time courses of regions and simulated frames are in `indices`, `regions`
and `samples`.
"""

from napari_gpubio.speckle import io, live, mesi, pulsatility
from napari_gpubio.speckle.model import ContrastMaps, Recording
from napari_gpubio.speckle.regions import region_curves
from napari_gpubio.speckle.registration import register
from napari_gpubio.speckle.run import ContrastStream, baseline_k2, contrast, contrast_steps, needed_memory
from napari_gpubio.speckle.settings import (
    ContrastSettings,
    DarkNoise,
    FlowIndex,
    Inverse,
    InverseCorrelationTime,
    NoIndex,
    NoiseModel,
    NoMask,
    RelativeFlow,
    Spatial,
    SpatioTemporal,
    Squared,
    Temporal,
    Validity,
    WindowSettings,
    measure_dark,
)

__all__ = [
    "ContrastMaps",
    "ContrastSettings",
    "ContrastStream",
    "DarkNoise",
    "FlowIndex",
    "Inverse",
    "InverseCorrelationTime",
    "NoIndex",
    "NoMask",
    "NoiseModel",
    "Recording",
    "RelativeFlow",
    "Spatial",
    "SpatioTemporal",
    "Squared",
    "Temporal",
    "Validity",
    "WindowSettings",
    "baseline_k2",
    "contrast",
    "contrast_steps",
    "io",
    "live",
    "measure_dark",
    "mesi",
    "needed_memory",
    "pulsatility",
    "region_curves",
    "register",
]
