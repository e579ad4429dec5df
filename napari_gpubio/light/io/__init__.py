"""Files of the light engine: labels, tables of optical properties, results, and those of MCML, MCX and SNIRF."""

from napari_gpubio.light.io.jacobians import load_jacobians, save_jacobians, write_jacobian
from napari_gpubio.light.io.mci import MciRun, read_mci, write_mci
from napari_gpubio.light.io.mco import read_mco, write_mco
from napari_gpubio.light.io.mcx.cases import read_mcx, write_mcx
from napari_gpubio.light.io.nirs import read_nirs
from napari_gpubio.light.io.results import load_result, save_result, save_result_steps
from napari_gpubio.light.io.snirf import Optodes, read_snirf
from napari_gpubio.light.io.table import read_table, write_table
from napari_gpubio.light.io.trajectories import load_trajectories, save_trajectories
from napari_gpubio.light.io.volumes import (
    read_diffusion_tensors,
    read_domain,
    read_irradiance,
    write_fluence,
    write_fluence_steps,
)
from napari_gpubio.light.layers.io import load_layered_result, save_layered_result

__all__ = [
    "MciRun",
    "Optodes",
    "load_jacobians",
    "load_layered_result",
    "load_result",
    "load_trajectories",
    "read_diffusion_tensors",
    "read_domain",
    "read_irradiance",
    "read_mci",
    "read_mco",
    "read_mcx",
    "read_nirs",
    "read_snirf",
    "read_table",
    "save_jacobians",
    "save_layered_result",
    "save_result",
    "save_result_steps",
    "save_trajectories",
    "write_fluence",
    "write_fluence_steps",
    "write_jacobian",
    "write_mci",
    "write_mco",
    "write_mcx",
    "write_table",
]
