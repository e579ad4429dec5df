"""A voxel phantom of the layers, made in a worker and shown from the side."""

from collections.abc import Generator, Mapping
from typing import Any

import numpy as np

from napari_gpubio.core.layers import LayerData
from napari_gpubio.core.steps import Step
from napari_gpubio.light.layered.layers import phantom_layer
from napari_gpubio.light.layered.model import LayeredMedium
from napari_gpubio.light.layered.phantom import voxel_case, voxel_phantom
from napari_gpubio.viewer.orientation import camera_of


def phantom_steps(
    medium: LayeredMedium, sizes: Mapping[str, float], *, source: str, **case: Any
) -> Generator[Step, None, LayerData]:
    """Make the labels layer of a phantom.

    Parameters
    ----------
    medium
        The layers.
    sizes
        Of voxels and phantom, as `voxel_phantom` takes them.
    source
        Where the optical properties come from.
    **case
        What else `voxel_case` is given.
    """
    yield Step(0, 1, "making the phantom …")
    domain = voxel_phantom(medium, source=source, **sizes)
    return phantom_layer(voxel_case(domain, name=f"{medium.name or 'layers'} in voxels", **case))


def show_from_the_side(viewer: Any, layer: Any) -> None:
    """Show a phantom in the slice through the beam, x across and depth downwards."""
    if viewer.dims.ndim != 3:
        return
    viewer.dims.order = (1, 0, 2)
    viewer.dims.set_point(1, 0.0)
    viewer.reset_view()
    every, own = (np.ptp(extent, axis=0)[[0, 2]] for extent in (viewer.layers.extent.world, layer.extent.world))
    camera = camera_of(viewer)
    camera.center = layer.extent.world.mean(axis=0)[[1, 0, 2]]
    camera.zoom *= float((every / own).min())
