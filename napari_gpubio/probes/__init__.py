"""Probes: how what detectors measure depends on the tissue, by photons that are traced again and by forward models.

Sensitivity of detected light to each voxel: `probes.replay` (exact), `probes.adjoint_jacobians` (one source and
detector, fast), and `probes.forward` (a probe of many optodes).
"""

from types import ModuleType

from napari_gpubio.core.submodules import submodule
from napari_gpubio.probes.jacobians.adjoint import adjoint_jacobians
from napari_gpubio.probes.jacobians.model import Channel, Jacobian, Jacobians
from napari_gpubio.probes.jacobians.modulation import modulation_gates_ns
from napari_gpubio.probes.jacobians.replay import replay, replay_memory, replay_steps
from napari_gpubio.probes.trajectories import trajectories, trajectories_steps
from napari_gpubio.probes.trajectory_model import Trajectories

_MODULES = ("forward", "io")
__all__ = [
    "Channel",
    "Jacobian",
    "Jacobians",
    "Trajectories",
    "adjoint_jacobians",
    "forward",
    "io",
    "modulation_gates_ns",
    "replay",
    "replay_memory",
    "replay_steps",
    "trajectories",
    "trajectories_steps",
]


def __getattr__(name: str) -> ModuleType:
    return submodule(__name__, name, _MODULES)
