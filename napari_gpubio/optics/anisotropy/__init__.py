"""White matter that scatters less along its fibers: scattering tensors from diffusion MRI.

From the tensors of a scan to a head whose white matter (label 5) scatters by direction::

    head = optics.anisotropy.with_fibers(head, tensors, affine, labels=(5,))
    result = light.simulate(head, source)

Closed forms of light in such tissue are in `optics.anisotropy.theory`.
"""

from napari_gpubio.optics.anisotropy import theory
from napari_gpubio.optics.anisotropy.calibration import (
    FiberCalibration,
    FiberMap,
    fiber_map,
    scattering_of,
    with_fiber_map,
    with_fibers,
)

__all__ = ["FiberCalibration", "FiberMap", "fiber_map", "scattering_of", "theory", "with_fiber_map", "with_fibers"]
