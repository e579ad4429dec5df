"""Monte Carlo light transport in label volumes and in layers, with errors, on the CPU or the GPU.

From a segmented head to its fluence in three calls::

    head = light.phantom.load_head_phantom()
    result = light.simulate(head, light.phantom.default_source(head), light.LightSettings(photons=1_000_000))
    result.fluence  # 1/mm^2 per launched photon

Sources are classes, one for each kind: `light.Pencil`, `light.Fiber`, `light.Pattern` and so on; see `light.sources`.

The same in planar layers is `light.layers`; files are in `light.io`, optical properties in `light.tissue`, units and
numbers of a result in `light.statistics`, closed-form solutions in `light.theory`, made-up heads in `light.phantom`.
Sensitivity of detected light to each voxel: `light.replay` (exact), `light.adjoint_jacobians` (one source and detector,
fast), and `light.forward` (a probe). White matter that scatters less along its fibers, from
diffusion MRI, is in `light.anisotropy`.
"""

import importlib
from types import ModuleType

from napari_gpubio.light import layers
from napari_gpubio.light.detectors import DetectedPhotons, Detector, FaceDetector
from napari_gpubio.light.estimates import Estimate
from napari_gpubio.light.fluorescence import FluorescenceResult, Fluorophore, fluorescence, fluorescence_steps
from napari_gpubio.light.jacobians.adjoint import adjoint_jacobians
from napari_gpubio.light.jacobians.model import Channel, Jacobian, Jacobians
from napari_gpubio.light.jacobians.modulation import modulation_gates_ns
from napari_gpubio.light.jacobians.replay import replay, replay_memory, replay_steps
from napari_gpubio.light.jacobians.sensitivity import Sensitivity, sensitivity
from napari_gpubio.light.model import Domain, Medium
from napari_gpubio.light.patterns import PatternResult, simulate_patterns, simulate_patterns_steps
from napari_gpubio.light.phase import TabulatedPhaseFunction
from napari_gpubio.light.result import EnergyBalance, LightResult
from napari_gpubio.light.run import (
    needed_memory,
    needed_memory_mb,
    simulate,
    simulate_each,
    simulate_each_steps,
    simulate_steps,
)
from napari_gpubio.light.settings import LightCase, LightSettings
from napari_gpubio.light.sources import (
    Cone,
    Cylinder,
    Disk,
    EmittingVolume,
    EvenCone,
    Fiber,
    Fourier,
    Fourier2D,
    Gaussian,
    Hyperboloid,
    Isotropic,
    Lambertian,
    Line,
    NormalCone,
    Pattern,
    Pencil,
    PencilArray,
    Planar,
    RadialLine,
    Slit,
    Source,
    ZGaussian,
    emitting_volume,
)
from napari_gpubio.light.spectrum import DetectedSpectrum, reweighted, spectrum, spectrum_media
from napari_gpubio.light.trajectories import trajectories, trajectories_steps
from napari_gpubio.light.trajectory import Trajectories

_NAMESPACES = ("anisotropy", "forward", "io", "phantom", "statistics", "theory", "tissue")
__all__ = [
    "Channel",
    "Cone",
    "Cylinder",
    "DetectedPhotons",
    "DetectedSpectrum",
    "Detector",
    "Disk",
    "Domain",
    "EmittingVolume",
    "EnergyBalance",
    "Estimate",
    "EvenCone",
    "FaceDetector",
    "Fiber",
    "FluorescenceResult",
    "Fluorophore",
    "Fourier",
    "Fourier2D",
    "Gaussian",
    "Hyperboloid",
    "Isotropic",
    "Jacobian",
    "Jacobians",
    "Lambertian",
    "LightCase",
    "LightResult",
    "LightSettings",
    "Line",
    "Medium",
    "NormalCone",
    "Pattern",
    "PatternResult",
    "Pencil",
    "PencilArray",
    "Planar",
    "RadialLine",
    "Sensitivity",
    "Slit",
    "Source",
    "TabulatedPhaseFunction",
    "Trajectories",
    "ZGaussian",
    "adjoint_jacobians",
    "anisotropy",
    "emitting_volume",
    "fluorescence",
    "fluorescence_steps",
    "forward",
    "io",
    "layers",
    "modulation_gates_ns",
    "needed_memory",
    "needed_memory_mb",
    "phantom",
    "replay",
    "replay_memory",
    "replay_steps",
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
    "theory",
    "tissue",
    "trajectories",
    "trajectories_steps",
]


def __getattr__(name: str) -> ModuleType:
    if name in _NAMESPACES:
        return importlib.import_module(f"napari_gpubio.light.{name}")
    raise AttributeError(f"module 'napari_gpubio.light' has no attribute {name!r}")
