"""Fluence of optodes on the CPU: groups of photons are the batches of a run, kept apart instead of added up."""

from napari_gpubio.core.device import CPU, Device
from napari_gpubio.light.kernels.voxels import cpu
from napari_gpubio.probes.kernels.pairs.problem import Keep, OptodeProblem
from napari_gpubio.probes.kernels.pairs.store import Array, FluenceStore, TissueVoxels


class Run(cpu.Run):
    """The simulation of one optode on the CPU; ``keep(group, tally)`` is called for each batch that is whole."""

    def __init__(self, problem: OptodeProblem, *, device: Device = CPU, keep: Keep) -> None:
        super().__init__(problem, device=device)
        self._keep = keep

    def go_on(self, photons: int, path: Array | None) -> None:
        """Begin behind so many photons, with the tally of those of the group that is not whole; None: there is none."""
        if path is not None:
            self.tally[:] = path
            self._done = [(photons // self.span * self.span, photons)]

    def open_path(self) -> Array | None:
        """The tally of the group that is not whole, copied, or None."""
        return self.tally.copy() if self._done else None

    def _close(self, batch: int) -> None:
        self._keep(batch, self.tally)
        self._clear()


def store(voxels: TissueVoxels, optodes: int, groups: int, device: Device) -> FluenceStore:
    """An empty store."""
    del device
    return FluenceStore(voxels, optodes, groups)
