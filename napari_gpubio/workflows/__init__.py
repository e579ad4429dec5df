"""What joins engines: light is simulated, its fluence cleaned, and counted by region.

From a labeled head to curves of a cleaned fluence in three calls::

    result = light.simulate(head, source, light.LightSettings(photons=1_000_000, halves=True))
    clean = workflows.clean_fluence(result)
    curves = workflows.dose_by_region(result, clean.image)

Datasets of BIDS are opened by `bids.open_dataset`.

Engines do not know this package, which may import all of them.
"""

from types import ModuleType

from napari_gpubio.core.submodules import submodule
from napari_gpubio.workflows.fluence import (
    clean_fluence,
    clean_fluence_steps,
    dose_by_region,
)

__all__ = ["bids", "clean_fluence", "clean_fluence_steps", "dose_by_region"]


def __getattr__(name: str) -> ModuleType:
    return submodule(__name__, name, ("bids",))
