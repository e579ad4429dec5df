"""Optics of tissue: properties, label volumes that have them, light sources and detectors, and theory.

What light in voxels (`light`), in layers (`layered`) and of probes (`probes`) share: properties from the literature in
`optics.tissue`, closed-form solutions in `optics.theory`, made-up heads in `optics.phantom`, white matter that scatters
less along its fibers, from diffusion MRI, in `optics.anisotropy`. Light sources are classes, one for each kind:
`optics.Pencil`, `optics.Fiber`, `optics.Pattern` and so on; see `optics.sources`.
"""

from types import ModuleType

from napari_gpubio.core.submodules import submodule
from napari_gpubio.optics.detectors import DetectedPhotons, Detector, FaceDetector
from napari_gpubio.optics.estimates import Estimate
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.phase import TabulatedPhaseFunction
from napari_gpubio.optics.sources.base import Source
from napari_gpubio.optics.sources.kinds import (
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
    ZGaussian,
    emitting_volume,
)

_MODULES = ("anisotropy", "io", "phantom", "theory", "tissue")
__all__ = [
    "Cone",
    "Cylinder",
    "DetectedPhotons",
    "Detector",
    "Disk",
    "Domain",
    "EmittingVolume",
    "Estimate",
    "EvenCone",
    "FaceDetector",
    "Fiber",
    "Fourier",
    "Fourier2D",
    "Gaussian",
    "Hyperboloid",
    "Isotropic",
    "Lambertian",
    "Line",
    "Medium",
    "NormalCone",
    "Pattern",
    "Pencil",
    "PencilArray",
    "Planar",
    "RadialLine",
    "Slit",
    "Source",
    "TabulatedPhaseFunction",
    "ZGaussian",
    "anisotropy",
    "emitting_volume",
    "io",
    "phantom",
    "theory",
    "tissue",
]


def __getattr__(name: str) -> ModuleType:
    return submodule(__name__, name, _MODULES)
