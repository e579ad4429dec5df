"""Copy as Python: from the file of the image to the file of the denoised image."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.napari_io import grid_of, saved_path
from napari_gpubio.core.volumes import write_volume
from napari_gpubio.denoise.gui.inputs import ImageBox
from napari_gpubio.denoise.gui.modes import Mode
from napari_gpubio.denoise.napari_io import stored_array
from napari_gpubio.gui.script import file_name, nifti_file_of


def painted(box: ImageBox, mode: Mode) -> list[Any]:
    """Input layers that no file holds as they are."""
    images = [layer for layer in (box.layer, *mode.layers()) if layer is not None and file_of(layer) is None]
    masks = [layer for layer in (box.mask_box.layer, *mode.labels()) if layer is not None]
    return images + [layer for layer in masks if saved_path(layer) is None]


def script_text(box: ImageBox, mode: Mode, saved: Mapping[str, Path], device: str) -> str:
    """Return the script.

    Parameters
    ----------
    box, mode
        Where the inputs are read from.
    saved
        Where layers that no file holds have been saved, by their name.
    device
        As the API takes it.
    """
    image, mask = box.read_image(), box.mask_box.layer
    files = {layer.name: saved.get(layer.name) or file_of(layer) for layer in (box.layer, *mode.layers())}
    files |= {layer.name: saved.get(layer.name) or saved_path(layer) for layer in mode.labels()}
    lines = [f"image = denoise.io.read_image({str(files[image.name])!r})"]
    if mask is not None:
        path = saved.get(mask.name) or saved_path(mask)
        lines.append(f"mask = denoise.io.read_mask({str(path)!r}, image)")
    own, call = mode.script_lines({name: path for name, path in files.items() if path is not None}, _part(box))
    lines += [*own, *_values(box, has_mask=mask is not None)]
    has_mask = ", mask=mask" if mask is not None or box.gaps.isChecked() else ""
    lines.append(f"result = {call}{has_mask}, voxel_size_mm=image.voxel_size_mm, device={device!r})")
    lines += _written(box, file_name(image.name))
    return "\n".join(["from napari_gpubio import denoise", "", *lines]) + "\n"


def _values(box: ImageBox, *, has_mask: bool) -> list[str]:
    """Lines that make ``values`` of ``image``."""
    part = _part(box)
    values = f"image.array{part}"
    lines = [f"values = denoise.io.from_log10({values})" if box.log.isChecked() else f"values = {values}"]
    if box.gaps.isChecked():
        lines.append(f"values, mask = denoise.io.without_gaps(values{', mask' if has_mask else ''})")
    return lines


def _written(box: ImageBox, name: str) -> list[str]:
    """Lines that write the results."""
    back = ["clean", "noise"]
    lines = ["clean, noise = result.image, result.noise"]
    if box.log.isChecked():
        lines.append("clean, noise = denoise.io.to_log10(clean), denoise.io.to_log10(noise)")
    if part := _part(box):
        lines += ["whole = image.array.astype(clean.dtype)", f"whole{part} = clean"]
        back[0] = "whole"
    lines.append(f"denoise.io.write_image({f'denoised {name}.nii.gz'!r}, {back[0]}, image)")
    lines.append(f"denoise.io.write_image({f'noise of {name}.nii.gz'!r}, {back[1]}, image)")
    return lines


def _part(box: ImageBox) -> str:
    """Which volumes of a series, as Python."""
    volumes = box.volumes
    return "" if volumes is None else f"[..., {volumes.start}:{volumes.stop}]"


def file_of(layer: Any) -> Path | None:
    """Return the NIfTI file that holds exactly what an image layer shows, or None."""
    return nifti_file_of(layer, np.asarray(stored_array(layer)))


def save_image(layer: Any, folder: Path) -> Path:
    """Write an image layer as NIfTI into a folder; the name is the layer's. Returns the path."""
    path = folder / f"{file_name(layer.name)}.nii.gz"
    write_volume(path, np.asarray(stored_array(layer)), grid_of(layer)[0])
    return path
