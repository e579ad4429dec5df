"""From signals to tensors: brain mask, fit, repair, check of the gradient table, scalar maps and ellipsoids."""

from napari_gpubio.diffusion.tensors.ellipsoid_mesh import ellipsoids, nearby_voxels, slice_voxels
from napari_gpubio.diffusion.tensors.gradient_check import GradientCheck, check_gradients, corrected_scan
from napari_gpubio.diffusion.tensors.mask import brain_mask
from napari_gpubio.diffusion.tensors.run import needed_memory
from napari_gpubio.diffusion.tensors.scalar_maps import scalar_map

__all__ = [
    "GradientCheck",
    "brain_mask",
    "check_gradients",
    "corrected_scan",
    "ellipsoids",
    "nearby_voxels",
    "needed_memory",
    "scalar_map",
    "slice_voxels",
]
