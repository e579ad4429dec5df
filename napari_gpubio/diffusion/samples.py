"""Sample data of diffusion MRI as napari layers."""

from napari_gpubio.core.napari_io import LayerData
from napari_gpubio.diffusion.napari_io import atlas_layer, map_layer, scan_layers


def brain_sample_layers() -> list[LayerData]:
    """Return the brain phantom's diffusion scan and its b = 0 mean (napari's sample-data contribution)."""
    from napari_gpubio.diffusion.phantom import load_brain_phantom

    return scan_layers(load_brain_phantom(), "brain phantom")


def brain_atlas_layers() -> list[LayerData]:
    """Return the brain phantom's regions as labels with names (napari's sample-data contribution)."""
    from napari_gpubio.diffusion.phantom import load_brain_atlas

    return [atlas_layer(load_brain_atlas(), "brain phantom regions")]


def ring_sample_layers() -> list[LayerData]:
    """Return the FA and direction maps of an analytic ring-shaped bundle (napari's sample-data contribution)."""
    from napari_gpubio.diffusion.phantom import ring_field

    field = ring_field()
    return [map_layer(field, "FA", "ring", visible=False), map_layer(field, "DEC", "ring")]
