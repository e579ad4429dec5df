"""Copy as Python: from the file of the image to the file of the denoised image."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np
from napari.layers import Labels

from napari_gpubio.core.layer_files import guide_path, half_paths, write_image
from napari_gpubio.core.napari_io import saved_path, stored_array
from napari_gpubio.core.quantity import guide_of, halves_of
from napari_gpubio.core.volumes import read_array, write_volume
from napari_gpubio.denoise.gui.inputs import ImageBox
from napari_gpubio.denoise.gui.modes import FluenceMode, Mode
from napari_gpubio.denoise.napari_io import array_of, holds_log, layer_grid
from napari_gpubio.denoise.noise import is_across_volumes
from napari_gpubio.denoise.settings import DenoiseSettings
from napari_gpubio.gui.script import call_text, file_name, nifti_file_of


def painted(box: ImageBox, mode: Mode) -> list[Any]:
    """Input layers that no file holds as they are."""
    layers = [
        given for given in (box.layer, *mode.inputs().values()) if given is not None and not isinstance(given, float)
    ]
    mask = [] if box.mask_box.layer is None else [box.mask_box.layer]
    unsaved = [
        layer for layer in layers if _file_of(layer) is None or (layer is box.layer and not _has_halves(layer, mode))
    ]
    return unsaved + [layer for layer in mask if not saved_path(layer)]


def script_text(box: ImageBox, mode: Mode, saved: Mapping[str, Path], device: str) -> str:
    """Return the script; ``saved`` says where layers that no file holds have been saved, by their name."""
    image, mask, part = box.read_image(), box.mask_box.layer, _part(box)
    lines = [f"image = denoise.io.read_image({_path(box.layer, saved)})"]
    if mask is not None:
        lines.append(f"mask = denoise.io.read_mask({str(saved.get(mask.name) or saved_path(mask))!r}, image)")
    call = f"result = denoise.{mode.verb}(values, settings={call_text('denoise', mode.form.value())}"
    for keyword, given in mode.inputs().items():
        if isinstance(given, float):
            call += f", {keyword}={given!r}"
            continue
        is_image = keyword != "labels"
        read = f"denoise.io.read_on_grid({_path(given, saved)}, image){part if is_image and given.ndim == 4 else ''}"
        lines.append(f"{keyword} = {f'denoise.io.from_log10({read})' if is_image and holds_log(given) else read}")
        call += f", {keyword}={keyword}"
    if found := _noise_of_all(box, mode, has_mask=mask is not None):
        lines += found
        call += ", noise=noise"
    if _takes_halves(mode):
        file = saved.get(image.name) or _file_of(box.layer) or Path(image.name)
        first, second = half_paths(file)
        lines.append(f"values = denoise.io.read_on_grid({str(first)!r}, image){part}")
        lines.append(f"second = denoise.io.read_on_grid({str(second)!r}, image){part}")
        call += ", second=second"
        if mode.has_own_guide:
            lines.append(f"guide = denoise.io.read_on_grid({str(guide_path(file))!r}, image){part}")
            call += ", guide=guide"
    else:
        values = f"image.array{part}"
        lines.append(f"values = {f'denoise.io.from_log10({values})' if box.log.isChecked() else values}")
    if box.gaps.isChecked():
        lines.append(f"values, mask = denoise.io.without_gaps(values{', mask' if mask is not None else ''})")
    has_mask = ", mask=mask" if mask is not None or box.gaps.isChecked() else ""
    lines.append(f"{call}{has_mask}, voxel_size_mm=image.voxel_size_mm, device={device!r})")
    lines += _written(box, file_name(image.name))
    return "\n".join(["from napari_gpubio import denoise", "", *lines]) + "\n"


def _noise_of_all(box: ImageBox, mode: Mode, *, has_mask: bool) -> list[str]:
    """Lines that find the noise of a series across all of its volumes, where only some of them are denoised."""
    settings = mode.form.value()
    if box.volumes is None or not isinstance(settings, DenoiseSettings) or "noise" in mode.inputs():
        return []
    if not is_across_volumes(settings, box.read_image().shape):
        return []
    series, mask = "image.array", "mask" if has_mask else "None"
    if box.log.isChecked():
        series = f"denoise.io.from_log10({series})"
    if not box.gaps.isChecked():
        return [f"noise = denoise.noise.estimate({series}, mask={mask})"]
    return [
        f"series, inside = denoise.io.without_gaps({series}, {mask})",
        "noise = denoise.noise.estimate(series, mask=inside)",
    ]


def _takes_halves(mode: Mode) -> TypeGuard[FluenceMode]:
    """Whether both halves of the photons come with the image."""
    return isinstance(mode, FluenceMode) and mode.has_own_halves


def _has_halves(layer: Any, mode: Mode) -> bool:
    """Whether halves and guide lie beside the file of an image, as the layer carries them, if a mode takes them."""
    file, halves = _file_of(layer), halves_of(layer)
    if not _takes_halves(mode) or file is None or halves is None:
        return not _takes_halves(mode)
    beside = dict(zip(half_paths(file), halves, strict=True))
    if mode.has_own_guide:
        beside[guide_path(file)] = guide_of(layer)
    return all(path.is_file() and np.array_equal(read_array(path)[0], held) for path, held in beside.items())


def _written(box: ImageBox, name: str) -> list[str]:
    """Lines that write the results; volumes that were not denoised and gaps stay as they were."""
    lines, is_log = ["clean, noise = result.image, result.noise"], box.log.isChecked()
    if is_log:
        lines.append("clean, noise = denoise.io.to_log10(clean), denoise.io.to_log10(noise)")
    keeps_gaps = box.gaps.isChecked() and not is_log
    if box.volumes is not None or keeps_gaps:
        lines.append(f"clean = denoise.io.in_place(image.array, clean, {box.volumes}, keeps_gaps={keeps_gaps})")
    lines.append(f"denoise.io.write_image({f'denoised {name}.nii.gz'!r}, clean, image)")
    lines.append(f"denoise.io.write_image({f'noise of {name}.nii.gz'!r}, noise, image)")
    return lines


def _part(box: ImageBox) -> str:
    """Which volumes of a series, as Python."""
    volumes = box.volumes
    return "" if volumes is None else f"[..., {volumes.start}:{volumes.stop}]"


def _path(layer: Any, saved: Mapping[str, Path]) -> str:
    return repr(str(saved.get(layer.name) or _file_of(layer)))


def _file_of(layer: Any) -> Path | None:
    """The NIfTI file that holds exactly what a layer shows, or None."""
    if isinstance(layer, Labels):
        return saved_path(layer)
    return nifti_file_of(layer, np.asarray(stored_array(layer)))


def save_image(layer: Any, folder: Path) -> Path:
    """Write an image layer as NIfTI into a folder under the layer's name, with the halves and guide that it carries.

    A plane, of an image or of labels, is a volume of one layer there. Returns the path.
    """
    path = folder / f"{file_name(layer.name)}.nii.gz"
    if layer.ndim == 2:
        write_volume(path, array_of(layer), layer_grid(layer)[0])
        return path
    data, attributes, _ = layer.as_layer_data_tuple()
    write_image(str(path), data, attributes)
    return path
