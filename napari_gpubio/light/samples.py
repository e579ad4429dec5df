"""Sample data of the light engine as napari layers."""

import dataclasses
from pathlib import Path

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import LayerData
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.layered.napari_io import border_layers, picture_layer
from napari_gpubio.layered.presets import preset
from napari_gpubio.layered.run import simulate
from napari_gpubio.light.napari_io import labels_layer
from napari_gpubio.optics.model import Domain
from napari_gpubio.optics.phantom import load_head_phantom
from napari_gpubio.optics.phantom.head import WAVELENGTH_NM
from napari_gpubio.optics.tissue import head_media

_MASKS = ("skin", "bone", "csf", "gray", "white")  # of the labels 1 to 5; where two overlap, the inner one counts
SKIN, PHOTONS = "seven-layer skin at 600 nm", 20_000


def head_layers() -> list[LayerData]:
    """Return the head phantom's labels with their optical properties (napari's sample-data contribution)."""
    return [labels_layer(load_head_phantom(), "head phantom")]


def skin_layers() -> list[LayerData]:
    """Return fluence in seven layers of skin, of few photons, and the layers' borders (napari's sample data)."""
    skin = preset(SKIN)
    settings = dataclasses.replace(skin.settings, photons=PHOTONS)
    return [picture_layer(simulate(skin.medium, settings), "skin"), *border_layers(skin.medium, settings)]


def colin_layers(folder: Path) -> list[LayerData]:
    """Return the labels of the Colin27 head, with the optical properties of the head phantom's tissues."""
    labels: np.ndarray | None = None
    for label, name in enumerate(_MASKS, 1):
        found = next(iter(sorted(folder.rglob(f"mask_{name}.nii*"))), None)
        if found is None:
            raise InvalidInput(
                f"the archive of the Colin27 head has no mask_{name}.nii; remove {folder}, and try again"
            )
        mask, affine = read_volume(found)
        labels = np.zeros(mask.shape, np.uint8) if labels is None else labels
        labels[mask > 0] = label
    assert labels is not None
    domain = Domain(labels=labels, affine=affine, media=head_media(WAVELENGTH_NM), path=None)
    return [labels_layer(domain, "Colin27 head")]
