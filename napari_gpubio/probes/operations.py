"""The verbs of probes: Jacobians, paths of photons, and forward models."""

from napari_gpubio.probes.forward.operations import MakeForwardModel, OpenHead, OpenProbe
from napari_gpubio.probes.jacobians.operations import Replay, Trace

__all__ = [
    "MakeForwardModel",
    "OpenHead",
    "OpenProbe",
    "Replay",
    "Trace",
]
