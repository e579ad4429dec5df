"""Monte Carlo light transport in label volumes, with errors, on the CPU or the GPU.

From a segmented head to its fluence in three calls::

    head = optics.phantom.load_head_phantom()
    result = light.simulate(head, optics.phantom.default_source(head), light.LightSettings(photons=1_000_000))
    result.fluence  # 1/mm^2 per launched photon

Files are in `light.io`, numbers of a result in `light.statistics`. In planar layers: `layered`. Probes, and how what
detectors measure depends on each voxel: `probes`.
"""

from types import ModuleType

from napari_gpubio.core.submodules import submodule
from napari_gpubio.light.depth_radius import DepthRadius, depth_radius
from napari_gpubio.light.fluorescence import FluorescenceResult, Fluorophore, fluorescence, fluorescence_steps
from napari_gpubio.light.layered_phantom import voxel_phantom
from napari_gpubio.light.patterns import PatternResult, simulate_patterns, simulate_patterns_steps
from napari_gpubio.light.result import EnergyBalance, LightResult
from napari_gpubio.light.run import (
    needed_memory,
    needed_memory_mb,
    simulate,
    simulate_each,
    simulate_each_steps,
    simulate_steps,
)
from napari_gpubio.light.sensitivity import Sensitivity, sensitivity
from napari_gpubio.light.settings import LightCase, LightSettings
from napari_gpubio.light.spectrum import DetectedSpectrum, reweighted, spectrum, spectrum_media

_MODULES = ("io", "statistics")
__all__ = [
    "DepthRadius",
    "DetectedSpectrum",
    "EnergyBalance",
    "FluorescenceResult",
    "Fluorophore",
    "LightCase",
    "LightResult",
    "LightSettings",
    "PatternResult",
    "Sensitivity",
    "depth_radius",
    "fluorescence",
    "fluorescence_steps",
    "io",
    "needed_memory",
    "needed_memory_mb",
    "reweighted",
    "sensitivity",
    "simulate",
    "simulate_each",
    "simulate_each_steps",
    "simulate_patterns",
    "simulate_patterns_steps",
    "simulate_steps",
    "spectrum",
    "spectrum_media",
    "statistics",
    "voxel_phantom",
]


def __getattr__(name: str) -> ModuleType:
    return submodule(__name__, name, _MODULES)
