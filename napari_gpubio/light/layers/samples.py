"""Sample data of light in layers, as layer tuples."""

import dataclasses

from napari_gpubio.core.napari_io import LayerData
from napari_gpubio.light.layers.napari_io import border_layers, picture_layer
from napari_gpubio.light.layers.presets import preset
from napari_gpubio.light.layers.run import simulate

SKIN, PHOTONS = "seven-layer skin at 600 nm", 20_000


def skin_layers() -> list[LayerData]:
    """Return fluence in seven layers of skin, of few photons, and the layers' borders (napari's sample data)."""
    skin = preset(SKIN)
    settings = dataclasses.replace(skin.settings, photons=PHOTONS)
    return [picture_layer(simulate(skin.medium, settings), "skin"), *border_layers(skin.medium, settings)]
