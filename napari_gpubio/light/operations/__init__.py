"""The verbs of light in voxels: tissue of a file or held, a simulation, its fluence."""

from napari_gpubio.light.operations.fluence import Fluence, FluenceVolume, Lit
from napari_gpubio.light.operations.lighting import Light, Spectrum
from napari_gpubio.light.operations.runs import AddPhotons, OpenRun, Simulate
from napari_gpubio.light.operations.tissue import (
    AtWavelengths,
    DiffusionTensors,
    HeldDiffusionTensors,
    HeldDomain,
    OpenDiffusionTensors,
    OpenDomain,
    WithFibers,
)

__all__ = [
    "AddPhotons",
    "AtWavelengths",
    "DiffusionTensors",
    "Fluence",
    "FluenceVolume",
    "HeldDiffusionTensors",
    "HeldDomain",
    "Light",
    "Lit",
    "OpenDiffusionTensors",
    "OpenDomain",
    "OpenRun",
    "Simulate",
    "Spectrum",
    "WithFibers",
]
