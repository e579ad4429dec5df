"""Sample data of diffusion MRI as napari layers."""

from pathlib import Path

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import LayerData, volume_layer
from napari_gpubio.core.reading import note
from napari_gpubio.core.volumes import read_volume
from napari_gpubio.diffusion.io.atlases import read_atlas
from napari_gpubio.diffusion.io.dwi import read_dwi
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


def stanford_layers(folder: Path) -> list[LayerData]:
    """Return the layers of the Stanford HARDI files: scan, mean b = 0, T1, and labels with their names."""
    scan = read_dwi(folder / "dwi.nii.gz", bval=folder / "dwi.bvals", bvec=folder / "dwi.bvecs")
    labels, table = folder / "aparc-reduced.nii.gz", folder / "label_info.txt"
    try:
        atlas = read_atlas(labels, table)
    except InvalidInput as error:
        note(f"its labels have no names: {error}")
        atlas = read_atlas(labels)
    t1 = volume_layer(*read_volume(folder / "t1.nii.gz"), "Stanford T1", visible=False, colormap="gray")
    return [*scan_layers(scan, "Stanford HARDI"), t1, atlas_layer(atlas, "Stanford labels")]
