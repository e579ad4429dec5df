"""Diffusion scans, tensor maps, fibers and their files as napari layers, without importing napari."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD, STRUCTURES, described_layer, read_described
from napari_gpubio.core.mif import MIF_SUFFIXES, MifImage, read_mif
from napari_gpubio.core.napari_io import (
    FOLLOWS,
    IN_MM,
    KEY,
    LayerData,
    LayerReader,
    Paths,
    carried,
    carried_as,
    read_each,
    reader_if,
    series_layer,
    volume_layer,
)
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.layer_sources import PART, register_finder
from napari_gpubio.core.operations.records import Output
from napari_gpubio.core.quantity import Quantity, is_unit, quantity_metadata
from napari_gpubio.core.reading import NOTES, note
from napari_gpubio.core.space import slice_steps_mm, world_order
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, VOLUME_SUFFIXES, open_nifti, stem_of
from napari_gpubio.diffusion.fods.napari_io import fixel_layer, fod_layers
from napari_gpubio.diffusion.io.atlases import shown_atlas
from napari_gpubio.diffusion.io.dwi import MAX_NEGATIVE, find_gradient_files, has_own_table, read_any_array, read_dwi
from napari_gpubio.diffusion.io.fixel_folders import fixel_folder_of
from napari_gpubio.diffusion.io.fixels import read_fixels
from napari_gpubio.diffusion.io.fods import read_fods
from napari_gpubio.diffusion.io.kinds import Kind, kind_of
from napari_gpubio.diffusion.io.tensor_images import read_tensors
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.diffusion.noise.model import DenoisedScan
from napari_gpubio.diffusion.regions import Atlas
from napari_gpubio.diffusion.tensors.ellipsoid_mesh import by_depth, ellipsoids, nearby_voxels, slice_voxels
from napari_gpubio.diffusion.tensors.scalar_maps import scalar_map

Array = npt.NDArray[Any]
_DIFFUSIVITY = {"contrast_limits": (0.0, 3e-3), "colormap": "magma"}
_DISPLAY: dict[str, dict[str, Any]] = {
    "FA": {"contrast_limits": (0.0, 1.0), "colormap": "gray"},
    **dict.fromkeys(("MD", "AD", "RD"), _DIFFUSIVITY),
    "DEC": {"rgb": True},
    "S0": {"colormap": "gray"},
}
DENOISED_PARTS = ("noise σ", "denoised", "residual")  # the layers of a denoised scan, from the bottom to the top
_SIGNAL_UNIT = "a.u."
_NEAR = 4  # voxels: ellipsoids around a position
_LABELS = 1002  # NIfTI's intent of labels
_RESIDUAL_SIGMAS = 3.0  # at the limits of the gray of a residual
MAP_UNITS = {"FA": "", "MD": "mm²/s", "AD": "mm²/s", "RD": "mm²/s", "DEC": "", "S0": "signal"}


register_finder(("scan", "field", "fods", "fixels", "glyphs_of"), "napari_gpubio.diffusion.gui.records:finder")


def scan_layer(scan: DiffusionScan, name: str, *, visible: bool = True) -> LayerData:
    """Return the layer of a diffusion scan: its volumes along the first axis, the scan itself in the metadata."""
    return series_layer(
        scan.data,
        scan.affine,
        name,
        "volume",
        contrast_limits=_signal_limits(scan.b0_mean()),
        colormap="gray",
        metadata={"scan": scan, NOTES: list(scan.notes)},
        visible=visible,
    )


def scan_layers(scan: DiffusionScan, name: str) -> list[LayerData]:
    """Return the layers that a diffusion scan opens as: its volumes, hidden, below the mean of those at b = 0."""
    mean = scan.b0_mean()
    b = "b = 0" if scan.is_b0.any() else f"b = {scan.bvals.min():.0f}"
    shown = volume_layer(
        mean,
        scan.affine,
        f"{name} {b} mean",
        contrast_limits=_signal_limits(mean),
        colormap="gray",
        metadata={"mean_of": scan},
    )
    return [scan_layer(scan, name, visible=False), shown]


def _signal_limits(values: Array) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return 0.0, (float(np.percentile(finite, 99.5)) if finite.size else 0.0) or 1.0


def denoised_layer(result: DenoisedScan, raw: DiffusionScan, part: str, study: str) -> LayerData:
    """Return one of the layers of a scan that was denoised.

    Parameters
    ----------
    result
        What denoising has left.
    raw
        The scan that was denoised.
    part
        ``"denoised"``: the scan, which is shown with the limits of the raw one; ``"noise σ"``, ``"residual"``: hidden.
    study
        Beginning of the layer's name.

    Raises
    ------
    InvalidInput
        If the scan has another shape than the result.
    """
    name, about = f"{study} {part}", {"parameters": dict(result.parameters)}
    if part == "denoised":
        data, keywords, kind = scan_layer(result.scan, name)
        keywords["contrast_limits"] = _signal_limits(raw.b0_mean())
        keywords["metadata"][KEY] |= about
        return data, keywords, kind
    quantity = "noise standard deviation" if part == "noise σ" else "residual"
    about |= quantity_metadata(Quantity(quantity, _SIGNAL_UNIT))
    hidden: dict[str, Any] = {"metadata": about, "visible": False}
    if part == "noise σ":
        limits = _signal_limits(result.noise[result.mask])
        return volume_layer(result.noise, raw.affine, name, contrast_limits=limits, colormap="magma", **hidden)
    limit = float(f"{_RESIDUAL_SIGMAS * np.median(result.noise[result.mask]):.2g}") or 1.0
    hidden["metadata"]["residual_of"] = result.scan
    shown = {"contrast_limits": (-limit, limit), "colormap": "gray"}
    return series_layer(result.residual(raw), raw.affine, name, "volume", **shown, **hidden)


def map_layer(field: TensorField, map_name: str, study: str, *, visible: bool = True) -> LayerData:
    """Return the layer of one scalar map; the tensor field travels with it.

    Parameters
    ----------
    field
        The tensors.
    map_name
        ``"FA"``, ``"MD"``, ``"AD"``, ``"RD"``, ``"DEC"`` or ``"S0"``.
    study
        Beginning of the layer's name.
    visible
        Whether it is shown at once.
    """
    unit = MAP_UNITS[map_name]
    name = f"{study} {map_name}" + (f" ({unit})" if unit else "")
    values = scalar_map(field, map_name)
    keywords = dict(_DISPLAY[map_name])
    if map_name == "DEC":
        values = values.clip(0, 1)
        middle = [(n - 1) / 2 for n in np.array(field.shape)[list(world_order(field.affine))][::-1]]
        # as a volume it would hide everything in 3-D
        keywords |= {"depiction": "plane", "plane": {"position": middle, "normal": (1, 0, 0), "thickness": 1}}
    return volume_layer(
        values,
        field.affine,
        name,
        metadata=_map_metadata(field, map_name, study),
        visible=visible,
        **keywords,
    )


def layers_of_tensors(field: TensorField, output: Output[Any], name: str, part: Any = "FA") -> list[LayerData]:
    """Return a picture of tensors that are a result; see `Kind.shows`.

    Parameters
    ----------
    field, output, name
        The tensors, what made them, and the name of the layer.
    part
        The map, or which ellipsoids: ``("slice", axis, index)``, or ``("near", i, j, k)``: around a voxel position.
    """
    made = map_layer(field, part, name) if isinstance(part, str) else ellipsoids_of(field, part)
    return [of_result(made, output)]


def ellipsoids_of(field: TensorField, part: tuple[Any, ...], *, across: int | None = None) -> LayerData:
    """Return the layer of some ellipsoids, as `layers_of_tensors` names them; InvalidInput if no tensor is there.

    ``across``: the world axis across the slice that they are seen in; None: that of their own slice, or z.
    """
    match part:
        case ("slice", 0 | 1 | 2, int()) | ("near", int() | float(), int() | float(), int() | float()):
            kind, *numbers = part
        case _:
            raise InvalidInput(f"the ellipsoids are {str(part)[:60]}, which are none; save them again")
    voxels = slice_voxels(field, *numbers) if kind == "slice" else nearby_voxels(np.array(numbers), _NEAR)
    if across is None:
        across = int(np.argmax(np.abs(field.affine[:3, numbers[0]]))) if kind == "slice" else 2
    data, keywords, layer = ellipsoid_layer(field, voxels, across)
    keywords["metadata"][KEY][PART] = part
    return data, keywords, layer


def layers_of_scan(scan: DiffusionScan, output: Output[Any], name: str) -> list[LayerData]:
    """Return the layer of a diffusion scan that is a result; see `Kind.shows`."""
    return [of_result(scan_layer(scan, name), output)]


def of_result(layer: LayerData, output: Output[Any]) -> LayerData:
    """Let a layer carry what made its result."""
    layer[1]["metadata"][KEY][RECORD] = record_of_output(output)
    return layer


def _map_metadata(field: TensorField, map_name: str, study: str) -> dict[str, Any]:
    about = {"field": field, PART: map_name, "study": study, "parameters": dict(field.parameters)}
    unit = MAP_UNITS[map_name]
    return about | quantity_metadata(Quantity(map_name, unit if is_unit(unit) else ""))


def ellipsoid_layer(field: TensorField, voxels: Array, across: int) -> LayerData:
    """Return the surface layer of the ellipsoids of some voxels, shape (N, 3); InvalidInput if no tensor is there.

    ``across``: see `by_depth`; napari draws a surface in 2-D without depth, triangle by triangle.
    """
    vertices, faces, colors = ellipsoids(field, voxels)
    faces = by_depth(vertices, faces, across)
    step = slice_steps_mm(field.affine)
    keywords = {
        "name": "ellipsoids",
        "vertex_colors": colors,
        "scale": step,
        **IN_MM,
        "shading": "none",
        "metadata": {KEY: {"field": field, FOLLOWS: True}},
    }
    return (vertices[:, ::-1] / step, faces[:, ::-1]), keywords, "surface"


def field_of(layer: Any) -> TensorField | None:
    """Return the tensor field that a layer carries, or None."""
    return carried_as(layer, "field", TensorField)


def scan_of(layer: Any) -> DiffusionScan | None:
    """Return the diffusion scan that a layer carries, or None."""
    return carried_as(layer, "scan", DiffusionScan)


def shows_signal_of(layer: Any, scan: DiffusionScan) -> bool:
    """Return whether a layer shows the signal of a scan: all of its volumes, or their mean at b = 0."""
    return scan_of(layer) is scan or carried(layer, "mean_of") is scan


# -- images ------------------------------------------------------------------------------------------------------------


def get_reader(path: Paths) -> LayerReader | None:
    """Return the reader of images and scans (napari's reader contribution), or None if a name does not fit."""
    endings = (*VOLUME_SUFFIXES, *MIF_SUFFIXES)
    return reader_if(lambda file: file.name.lower().endswith(endings) and file.is_file(), path, read_layers)


def read_layers(path: Paths) -> list[LayerData]:
    """Read images as layers: a diffusion scan where a gradient table fits it (see `scan_layers`), else an image.

    Raises
    ------
    InvalidInput
        If a file cannot be read.
    """
    return read_each(path, _read_one)


def _read_one(path: Path) -> list[LayerData]:
    folder, is_mif = fixel_folder_of(path), path.name.lower().endswith(MIF_SUFFIXES)
    name = stem_of(path) if folder is None else folder.name
    image: Any = read_mif(path) if is_mif else open_nifti(path)
    if scan := _scan_of_file(path, image):
        return scan_layers(scan, name)
    array, affine = read_any_array(path)
    about: dict[str, Any] = {"metadata": {"path": str(path)}}
    if array.dtype.kind == "c":
        note("the values are complex; their magnitude and their phase (radians) are shown")
        parts = {"magnitude": np.abs(array), "phase": np.angle(array)}
        return [_image_layer(part, affine, f"{name} {what}", **about) for what, part in parts.items()]
    if not is_mif and image.get_data_dtype().names and _squeezed(array).ndim == 4:
        return [volume_layer(_squeezed(array), affine, name, rgb=True, **about)]
    if path.name.lower().endswith(NIFTI_SUFFIXES) and (keywords := read_described(path, _squeezed(array).shape)):
        try:
            return [described_layer(_squeezed(array), affine, name, keywords, path)]
        except InvalidInput as error:
            note(f"it is shown without what the JSON file beside it says: {error}")
    intent = 0 if is_mif or "intent_code" not in image.header else int(image.header["intent_code"])
    kind = kind_of(_without_last_ones(array), path.name, intent=intent) if folder is None else Kind("peaks")
    try:
        if layers := _layers_of_kind(path, kind, name):
            return layers
    except InvalidInput as error:  # numbers that looked like them, and are not
        note(f"it is shown as an image, not as {kind.name}: {error}")
    if kind.name == "colors":
        return [volume_layer(array, affine, name, rgb=True, **about)]
    is_one = kind.name == "volume"
    if is_one and (atlas := shown_atlas(path, _squeezed(array), affine, is_said=intent == _LABELS)) is not None:
        return [atlas_layer(atlas, name)]
    return [_image_layer(array, affine, name, **about)]


def _layers_of_kind(path: Path, kind: Kind, name: str) -> list[LayerData]:
    """The layers of tensors, peaks or FODs; none for other kinds of images."""
    layers: list[LayerData] = []
    if kind.name == "tensors":
        field = read_tensors(path)
        layers = [map_layer(field, "FA", name, visible=False), map_layer(field, "DEC", name)]
    elif kind.name == "peaks":
        layers = [fixel_layer(read_fixels(path), name)]
    elif kind.name == "fods":
        layers = fod_layers(read_fods(path), name)
    if kind.note:  # it is that kind, then
        note(kind.note)
    return layers


def _scan_of_file(path: Path, image: Any) -> DiffusionScan | None:
    """The scan of a file of several volumes with a gradient table; a table that does not fit is noted."""
    shape = np.shape(image.data) if isinstance(image, MifImage) else image.shape
    has_table = getattr(image, "gradients", None) is not None or any(find_gradient_files(path))
    if math.prod(shape[3:]) == 1 or not has_table:
        return None
    try:
        scan = read_dwi(path)
    except InvalidInput as error:
        note(f"it is shown as an image, not as a diffusion scan: {error}")
        return None
    if has_own_table(path) or _may_be_signals(scan.data, path.name):
        return scan
    note("it is shown as an image, not as a diffusion scan: the folder's gradient table has as many rows by chance")
    return None


def _may_be_signals(data: Array, name: str) -> bool:
    """Whether volumes may be signals: neither masks, nor tensors, peaks and the like, nor negative in many places."""
    if kind_of(data, name).name != "series" or (data.min() == 0 and data.max() <= 1):
        return False
    return bool(np.count_nonzero(data < 0) <= MAX_NEGATIVE * data.size)


def _without_last_ones(array: Array) -> Array:
    last = max([axis for axis, n in enumerate(array.shape) if n > 1], default=0)
    return array.reshape(array.shape[: max(last + 1, 3)])


def _squeezed(array: Array) -> Array:
    """An array (X, Y, Z, ...) without further axes of length 1."""
    first = (*array.shape, 1, 1)[:3]
    return array.reshape(*first, *[n for n in array.shape[3:] if n > 1])


def _image_layer(array: Array, affine: Array, name: str, **keywords: Any) -> LayerData:
    array = _squeezed(array)
    if array.ndim == 3:
        return volume_layer(array, affine, name, **keywords)
    return series_layer(array, affine, name, "volume", **keywords)


def atlas_layer(atlas: Atlas, name: str) -> LayerData:
    """Return the labels layer of an atlas, which tells the names of its labels under the mouse."""
    names = {label: atlas.name_of(label) for label in atlas.voxel_counts}
    return volume_layer(
        atlas.labels,
        atlas.affine,
        name,
        kind="labels",
        features={"index": list(names), "name": list(names.values())},
        metadata={STRUCTURES: names, "path": str(atlas.path or ""), NOTES: list(atlas.notes)},
    )


def layers_of_atlas(atlas: Atlas, output: Output[Any], name: str) -> list[LayerData]:
    """Return the labels layer of an atlas that is a result; see `Kind.shows`."""
    return [of_result(atlas_layer(atlas, name), output)]


# -- tractograms -----------------------------------------------------------------------------------------------------
