"""Monte Carlo in planar layers, as MCML does it (Wang et al. 1995), and as fast as GPU-MCML (Alerstam et al. 2010)."""

from types import ModuleType

from napari_gpubio.core.submodules import submodule
from napari_gpubio.layered.beams import Beam, FlatBeam, GaussianBeam, convolved
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.presets import LayeredPreset, preset, preset_names
from napari_gpubio.layered.result import LayeredResult
from napari_gpubio.layered.run import needed_memory, simulate, simulate_steps
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.optics.estimates import Estimates
from napari_gpubio.optics.model import Layer

_MODULES = ("io",)
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
    "io",
    "needed_memory",
    "preset",
    "preset_names",
    "simulate",
    "simulate_steps",
]


def __getattr__(name: str) -> ModuleType:
    return submodule(__name__, name, _MODULES)
