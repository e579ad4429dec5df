"""The simulation of an optode, whose groups of photons are kept apart."""

from collections.abc import Callable
from typing import Any

from napari_gpubio.core.device import Device
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem

Keep = Callable[[int, Any], None]  # takes the number of a group and its tally
_ONE_LAUNCH = 1 << 24  # photons of a GPU's first chunk: an optode takes a fraction of a second


class OptodeProblem(VoxelProblem):
    """The simulation of an optode; batches are the groups, which a GPU traces together."""

    def first_chunk(self, device: Device) -> int:
        """On a GPU all photons."""
        return _ONE_LAUNCH if device.is_gpu else super().first_chunk(device)

    def options(self, device: Device) -> dict[str, Any]:
        """On a GPU the tallies of all groups, and their copies."""
        slots = self.batch_count
        return {"slots": slots, "copies": self.copies(slots)} if device.is_gpu else {}
