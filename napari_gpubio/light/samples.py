"""Sample data of the light engine as napari layers."""

import dataclasses

from napari_gpubio.core.napari_io import LayerData
from napari_gpubio.layered.napari_io import border_layers, picture_layer
from napari_gpubio.layered.presets import preset
from napari_gpubio.layered.run import simulate
from napari_gpubio.light.napari_io import labels_layer
from napari_gpubio.optics.phantom import load_head_phantom

SKIN, PHOTONS = "seven-layer skin at 600 nm", 20_000


def head_layers() -> list[LayerData]:
    """Return the head phantom's labels with their optical properties (napari's sample-data contribution)."""
    return [labels_layer(load_head_phantom(), "head phantom")]


def skin_layers() -> list[LayerData]:
    """Return fluence in seven layers of skin, of few photons, and the layers' borders (napari's sample data)."""
    skin = preset(SKIN)
    settings = dataclasses.replace(skin.settings, photons=PHOTONS)
    return [picture_layer(simulate(skin.medium, settings), "skin"), *border_layers(skin.medium, settings)]
