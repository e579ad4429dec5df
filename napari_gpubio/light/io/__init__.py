"""Files of light in voxels: labels, and results."""

from napari_gpubio.light.io.results import load_result, save_result, save_result_steps
from napari_gpubio.light.io.volumes import (
    read_diffusion_tensors,
    read_domain,
    read_irradiance,
    write_fluence,
    write_fluence_steps,
)

__all__ = [
    "load_result",
    "read_diffusion_tensors",
    "read_domain",
    "read_irradiance",
    "save_result",
    "save_result_steps",
    "write_fluence",
    "write_fluence_steps",
]
