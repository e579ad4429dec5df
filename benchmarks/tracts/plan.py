"""What to run, and where."""

from dataclasses import dataclass

import speed

from napari_gpubio.core.device import CPU, Device
from tracts.brain import Brain


@dataclass(frozen=True, slots=True)
class Plan(speed.Plan):
    """What to run, and where."""

    brain: Brain | str = ""

    @property
    def repeats(self) -> int:
        """How often each thing is timed."""
        return 3 if self.quick else 5

    @property
    def devices(self) -> tuple[Device, ...]:
        """The device asked for, and the CPU beside a GPU."""
        return (self.device, CPU) if self.device.is_gpu else (CPU,)
