"""Monte Carlo light transport in label volumes and in layers, with errors, on the CPU or the GPU.

From a segmented head to its fluence in three calls::

    head = light.phantom.load_head_phantom()
    result = light.simulate(head, light.phantom.default_source(head), light.LightSettings(photons=1_000_000))
    result.fluence  # 1/mm^2 per launched photon

The same in planar layers is `light.layers`; files are in `light.io`, optical properties in `light.tissue`, units and
numbers of a result in `light.statistics`, closed-form solutions in `light.theory`, made-up heads in `light.phantom`.
"""

import importlib
from types import ModuleType

from napari_gpubio.light import layers
from napari_gpubio.light.detectors import DetectedPhotons, Detector, FaceDetector
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.phase import TabulatedPhaseFunction
from napari_gpubio.light.result import EnergyBalance, Estimate, LightResult
from napari_gpubio.light.run import needed_memory_mb, simulate, simulate_steps
from napari_gpubio.light.sensitivity import Sensitivity, sensitivity
from napari_gpubio.light.settings import LightCase, LightSettings
from napari_gpubio.light.source import Source

_NAMESPACES = ("io", "phantom", "statistics", "theory", "tissue")
__all__ = [
    "DetectedPhotons",
    "Detector",
    "Domain",
    "EnergyBalance",
    "Estimate",
    "FaceDetector",
    "LightCase",
    "LightResult",
    "LightSettings",
    "Medium",
    "Sensitivity",
    "Source",
    "TabulatedPhaseFunction",
    "io",
    "layers",
    "needed_memory_mb",
    "phantom",
    "sensitivity",
    "simulate",
    "simulate_steps",
    "statistics",
    "theory",
    "tissue",
]


def __getattr__(name: str) -> ModuleType:
    if name in _NAMESPACES:
        return importlib.import_module(f"napari_gpubio.light.{name}")
    raise AttributeError(f"module 'napari_gpubio.light' has no attribute {name!r}")
