"""Files of Jacobians and of photons' paths."""

from napari_gpubio.probes.io.jacobians import load_jacobians, save_jacobians, write_jacobian
from napari_gpubio.probes.io.trajectories import load_trajectories, save_trajectories

__all__ = [
    "load_jacobians",
    "load_trajectories",
    "save_jacobians",
    "save_trajectories",
    "write_jacobian",
]
