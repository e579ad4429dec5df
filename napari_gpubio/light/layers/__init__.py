"""Monte Carlo in planar layers, as MCML does it (Wang et al. 1995), and as fast as GPU-MCML (Alerstam et al. 2010)."""

from napari_gpubio.light.estimates import Estimates
from napari_gpubio.light.layers.beams import Beam, FlatBeam, GaussianBeam, convolved
from napari_gpubio.light.layers.model import LayeredMedium
from napari_gpubio.light.layers.phantom import voxel_phantom
from napari_gpubio.light.layers.presets import LayeredPreset, preset, preset_names
from napari_gpubio.light.layers.result import LayeredResult
from napari_gpubio.light.layers.run import needed_memory, simulate, simulate_steps
from napari_gpubio.light.layers.settings import LayeredSettings
from napari_gpubio.light.model import Layer

__all__ = [
    "Beam",
    "Estimates",
    "FlatBeam",
    "GaussianBeam",
    "Layer",
    "LayeredMedium",
    "LayeredPreset",
    "LayeredResult",
    "LayeredSettings",
    "convolved",
    "needed_memory",
    "preset",
    "preset_names",
    "simulate",
    "simulate_steps",
    "voxel_phantom",
]
