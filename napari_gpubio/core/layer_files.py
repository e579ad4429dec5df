"""Files of volume layers that keep what the numbers mean: NIfTI with a JSON file beside it, or one ``.npz``.

The JSON file holds, under ``KEY``, the quantity, names and optical properties of labels, parameters and display; what
other programs have written there stays. Standard error, halves and guide lie beside it as NIfTI files of their own,
named in it, so that other programs can open them. It also has the checksums of all of them, by which parts of another
save, or of a volume that another program has changed since, are known and left out.
"""

import json
import logging
import math
from collections.abc import Generator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.archives import array_names, opened_npz
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, check_folder, file_checksum, flush_to_disk
from napari_gpubio.core.foreign import existing_json, json_of
from napari_gpubio.core.napari_io import (
    KEY,
    LayerData,
    LayerReader,
    Paths,
    listed,
    reader_if,
    series_layer,
    stored_volume,
    volume_layer,
)
from napari_gpubio.core.quantity import GUIDE, HALVES, QUANTITY, STANDARD_ERROR, UNIT, Quantity, ascii_unit
from napari_gpubio.core.reading import reads_file
from napari_gpubio.core.space import checked_affine
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, nifti_steps, read_array, volume_image

logger = logging.getLogger(__name__)
Array = npt.NDArray[Any]
STRUCTURES, MEDIA = "structures", "media"  # names of labels; their optical properties, as plain data
OUTSIDE_N = "outside_n"  # index of refraction around them
RECORD = "record"  # of the operation that made a volume, as plain data
NPZ = ".npz"
_PLAIN = (UNIT, "meaning", "factor", STRUCTURES, MEDIA, OUTSIDE_N, "hidden", "parameters", RECORD)
_HALF_NAMES = ("half_1", "half_2")
_COMPANIONS = (STANDARD_ERROR, *_HALF_NAMES, GUIDE)
_KIND, _AXIS, _DISPLAY, _COLORS = "kind", "first_axis", "display", "colors"
_COLORMAPS = ("gray", "inferno", "magma", "plasma", "turbo", "viridis")  # that every napari knows by name
_BLENDINGS = ("opaque", "translucent", "translucent_no_depth", "additive", "minimum", "multiplicative")
_CHECKSUMS, _BEFORE = "checksums", "before"
_MAX_LABEL_DIGITS = 10
_VOLUME_ARRAYS = ("volume", "affine", "about")


def sidecar_path(path: str | Path) -> Path:
    """Return the name of the JSON file beside a NIfTI file: ``a.json`` for ``a.nii.gz``.

    Raises
    ------
    InvalidInput
        If the file's name does not end in ``.nii`` or ``.nii.gz``.
    """
    path = Path(path)
    return path.with_name(f"{_stem(path)}.json")


def _stem(path: Path) -> str:
    for suffix in reversed(NIFTI_SUFFIXES):
        if path.name.lower().endswith(suffix):
            return path.name[: -len(suffix)]
    raise InvalidInput(f"{path.name} does not end in .nii or .nii.gz; give it one of these endings")


# -- writing ----------------------------------------------------------------------------------------------------------


def write_image(path: str, data: Any, attributes: dict[str, Any]) -> list[str]:
    """Write an image or labels layer with all that it says of its numbers (napari's writer contribution).

    Parameters
    ----------
    path
        Ends in ``.nii``, ``.nii.gz`` or ``.npz``.
    data, attributes
        Of the layer, as napari gives them.

    Returns
    -------
    paths
        The file of the layer.

    Raises
    ------
    InvalidInput
        If the layer has fewer than three dimensions, or a file cannot be written.
    """
    array, affine = stored_volume(data, attributes)
    held = attributes.get("metadata", {}).get(KEY)
    held = held if isinstance(held, dict) else {}
    about = _about(held, attributes)
    arrays = {name: values for name, values in companions(held).items() if values.shape == array.shape}
    if Path(path).suffix.lower() == NPZ:
        _write_npz(Path(path), array, affine, about, arrays)
    else:
        write_described(path, array, affine, about, arrays)
    return [path]


def write_described_steps(
    path: str | Path,
    array: Array,
    affine: Array,
    about: Mapping[str, Any],
    arrays: Mapping[str, Array],
    *,
    beside: Mapping[str, Any] | None = None,
) -> Generator[Step, None, Path]:
    """Write a volume as NIfTI, what it says of its numbers beside it, and its standard error, halves and guide.

    Parameters
    ----------
    path
        Ends in ``.nii`` or ``.nii.gz``.
    array, affine
        Shape (X, Y, Z) or (X, Y, Z, N), and voxel to world mm.
    about
        Plain data; under ``QUANTITY`` a quantity.
    arrays
        ``standard_error``, ``half_1``, ``half_2``, ``guide`` or some of them, of the volume's shape.
    beside
        Further keys of the JSON file; keys of other programs in it stay.

    Returns
    -------
    Path
        The JSON file. All files are there in the end, or those that were there before. A save that is killed while it
        renames them may lose standard error, halves or guide, which the reader then says, but mixes nothing.
    """
    path, sidecar = Path(path), sidecar_path(path)
    check_folder(path)
    text, was = _text_beside(path)
    named = {name: f"{_stem(path)}_{name}.nii.gz" for name in _COMPANIONS}
    sums: dict[str, str] = {}
    ours = {**_plain(about), **{name: named[name] for name in arrays}, _CHECKSUMS: sums}
    with ExitStack() as renaming:  # what was entered last is renamed first, and nothing before all of it is written
        last = renaming.enter_context(atomic_write(sidecar))
        parts = list[Path]()
        volumes = [(named[name], values, f"{name} of {path.name}") for name, values in arrays.items()]
        for name, values, words in (*volumes, (path.name, array, _header_text(about.get(QUANTITY)))):
            parts.append(renaming.enter_context(atomic_write(path.with_name(name))))
            yield from nifti_steps(parts[-1], name, volume_image(values, affine), words)
            sums[name] = file_checksum(parts[-1], whole=True)
        first = renaming.enter_context(atomic_write(sidecar))
        for part, more in ((first, {_BEFORE: was}), (last, {})):  # if this ends in between, `_description` knows which
            held = {**text, **(beside or {}), KEY: {**ours, **more}}
            part.write_text(json.dumps(held, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        for part in parts:
            flush_to_disk(part)
    for name in _COMPANIONS:  # of the volume that was here before
        if name not in arrays and was.get(name) == named[name]:
            path.with_name(named[name]).unlink(missing_ok=True)
    return sidecar


write_described = driven(write_described_steps)


def describe(path: Path, about: Mapping[str, Any]) -> None:
    """Write beside a volume that is there what it says of its numbers; keys of other programs stay."""
    sidecar = sidecar_path(path)
    ours = {**_plain(about), _CHECKSUMS: {path.name: file_checksum(path, whole=True)}}
    with atomic_write(sidecar) as part:
        text = json.dumps({**_read_json(sidecar), KEY: ours}, indent=1, ensure_ascii=False)
        part.write_text(text + "\n", encoding="utf-8")


def _text_beside(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the JSON file beside a volume holds, and the description of the volume that is there now."""
    text = _read_json(sidecar_path(path))
    was = dict(_description(path, text.get(KEY)))
    known = was.get(_CHECKSUMS)
    with suppress(OSError, InvalidInput):  # no file, or none that can be read
        was[_CHECKSUMS] = {path.name: file_checksum(path, whole=True), **(known if isinstance(known, dict) else {})}
    return text, was


def _description(path: Path, ours: Any) -> dict[str, Any]:
    """The description that belongs to a volume: that of the one before, if a save ended before it was replaced."""
    ours = ours if isinstance(ours, dict) else {}
    before = ours.get(_BEFORE)
    is_before = isinstance(before, dict) and _is_other(path, ours) and not _is_other(path, before)
    return {name: value for name, value in (before if is_before else ours).items() if name != _BEFORE}


def _is_other(path: Path, ours: Mapping[str, Any]) -> bool:
    """Whether a file is not the one that a description was written with, or is missing."""
    known = ours.get(_CHECKSUMS)
    if not isinstance(known, dict) or path.name not in known:
        return False  # of an older version, which did not say
    try:
        return file_checksum(path, whole=True) != known[path.name]
    except InvalidInput:  # there is none, or an empty one
        return True


def _header_text(quantity: Any) -> str:
    """What a NIfTI header can hold of a quantity: ASCII."""
    if not isinstance(quantity, Quantity):
        return ""
    name = f"{'log10 ' if quantity.is_log else ''}{quantity.name}"
    return f"{name}, {ascii_unit(quantity.unit)}" if quantity.unit else name


def _write_npz(path: Path, array: Array, affine: Array, about: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    text = np.array(json.dumps(_plain(about), ensure_ascii=False))
    held: dict[str, Any] = {"volume": array, "affine": affine, "about": text, **arrays}
    with atomic_write(path) as part, part.open("wb") as stream:
        np.savez_compressed(stream, **held)


def _about(held: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """What a layer says of its numbers."""
    is_image = "contrast_limits" in attributes
    found: dict[str, Any] = {_KIND: "image" if is_image else "labels"}
    found |= {name: held[name] for name in (QUANTITY, *_PLAIN) if held.get(name) not in (None, {}, "")}
    display: dict[str, Any] = {}
    if "opacity" in attributes:
        display["opacity"] = float(attributes["opacity"])
    if "blending" in attributes:
        display["blending"] = str(attributes["blending"])
    if is_image:
        display["contrast_limits"] = [float(limit) for limit in attributes["contrast_limits"]]
        display["colormap"] = plain_colormap(attributes.get("colormap"))
    if display:
        found[_DISPLAY] = display
    if not is_image and (colors := plain_label_colors(attributes.get("colormap"))):
        found[_COLORS] = colors
    names = list(attributes.get("axis_labels") or ())
    if len(names) == 4:
        found[_AXIS] = str(names[0])
    return found


def plain_label_colors(colormap: Any) -> dict[str, list[float]]:
    """Colors of labels that were chosen for each, as JSON holds them; none of another colormap."""
    colors = getattr(colormap, "color_dict", None) or {}
    return {str(label): [round(float(part), 4) for part in color] for label, color in colors.items()}


def plain_colormap(colormap: Any) -> Any:
    """The name of a colormap that every napari knows, or all of another one, such as one that fades."""
    get = colormap.get if isinstance(colormap, Mapping) else partial(getattr, colormap)
    name = colormap if isinstance(colormap, str) else str(get("name", ""))
    colors = None if isinstance(colormap, str) else get("colors", None)
    if name in _COLORMAPS or colors is None:
        return name
    return {
        "name": name,
        "colors": np.round(np.asarray(colors, np.float64), 4).tolist(),
        "controls": np.asarray(get("controls", None), np.float64).tolist(),
        "interpolation": str(get("interpolation", "linear")),
    }


def described_files(path: str | Path) -> dict[str, Path]:
    """Return all files that `write_described` may write for a volume, by what they are."""
    beside = {name.replace("_", " "): f"{_stem(Path(path))}_{name}.nii.gz" for name in _COMPANIONS}
    files = {what: Path(path).with_name(name) for what, name in beside.items()}
    return {"volume": Path(path), "JSON file": sidecar_path(path), **files}


def companions(held: Mapping[str, Any]) -> dict[str, Array]:
    """Return standard error, halves (their first axis) and guide by the names that their files and arrays have."""
    found = {name: np.asarray(held[name]) for name in (STANDARD_ERROR, GUIDE) if held.get(name) is not None}
    halves = held.get(HALVES)
    return found if halves is None else found | dict(zip(_HALF_NAMES, np.asarray(halves), strict=True))


def _plain(about: Mapping[str, Any]) -> dict[str, Any]:
    """What JSON can hold of it."""
    quantity = about.get(QUANTITY)
    found = {**about, QUANTITY: quantity.to_data()} if isinstance(quantity, Quantity) else dict(about)
    if isinstance(names := about.get(STRUCTURES), Mapping):
        found[STRUCTURES] = {str(label): str(name) for label, name in names.items()}
    elif STRUCTURES in found:
        del found[STRUCTURES]
    plain: dict[str, Any] = json.loads(json.dumps(found, default=str))
    return plain


# -- reading ----------------------------------------------------------------------------------------------------------


def read_described(path: str | Path, shape: tuple[int, ...]) -> dict[str, Any]:
    """Return keywords of the layer of a NIfTI file from what lies beside it: empty where there is nothing of ours.

    Parameters
    ----------
    path
        The NIfTI file.
    shape
        Of its array, which standard error, halves and guide must have.

    Returns
    -------
    keywords
        Of `core.napari_io.volume_layer`: ``kind``, ``metadata``, contrast limits and colormap as they were.
    """
    path = Path(path)
    ours = _description(path, _read_json(sidecar_path(path)).get(KEY))
    if not ours:
        return {}
    if RECORD in ours and _is_other(path, ours):  # another program has written the volume since
        del ours[RECORD]
    arrays: dict[str, Array] = {}
    for name in _COMPANIONS:
        if ours.get(name) != f"{_stem(path)}_{name}.nii.gz":
            continue
        try:
            values = _companion(path, ours, path.with_name(ours[name]))
        except InvalidInput as error:
            logger.warning("%s of %s is left out: %s", name, path.name, error)
            continue
        if values.size == np.prod(shape):
            arrays[name] = values.reshape(shape)
    return _keywords(ours, arrays, path.name)


def _companion(volume: Path, ours: Mapping[str, Any], path: Path) -> Array:
    """What lies beside a volume; InvalidInput if it cannot be read or was not saved with this volume."""
    values, _ = read_array(path)
    for file in (volume, path):
        if _is_other(file, ours):
            raise InvalidInput(f"{file.name} was changed after both were saved together; save or run it again")
    return values


def _keywords(ours: Mapping[str, Any], arrays: Mapping[str, Array], file: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {name: ours[name] for name in _PLAIN if name in ours}
    try:
        if QUANTITY in ours:
            metadata[QUANTITY] = Quantity.from_data(ours[QUANTITY])
    except InvalidInput as error:
        logger.warning("what the numbers of %s mean is left out: %s", file, error)
    if isinstance(names := metadata.get(STRUCTURES), dict):
        metadata[STRUCTURES] = {int(label): str(name) for label, name in names.items() if _is_label(label)}
    metadata |= {name: arrays[name] for name in (STANDARD_ERROR, GUIDE) if name in arrays}
    if all(name in arrays for name in _HALF_NAMES):
        metadata[HALVES] = np.stack([arrays[name] for name in _HALF_NAMES])
    keywords: dict[str, Any] = {"metadata": metadata}
    display = ours.get(_DISPLAY)
    keywords |= _blend(display) if isinstance(display, dict) else {}
    if ours.get(_KIND) == "labels":
        keywords["kind"] = "labels"
        keywords |= label_colors(ours.get(_COLORS))
    elif isinstance(display, dict):
        keywords |= _display(display)
    if isinstance(ours.get(_AXIS), str):
        keywords[_AXIS] = ours[_AXIS]
    return keywords


def _display(display: Mapping[str, Any]) -> dict[str, Any]:
    limits = display.get("contrast_limits")
    found: dict[str, Any] = {}
    if isinstance(limits, list) and len(limits) == 2 and all(map(_is_number, limits)) and limits[0] < limits[1]:
        found["contrast_limits"] = tuple(limits)
    colormap = display.get("colormap")
    if (isinstance(colormap, str) and colormap in _COLORMAPS) or is_colormap(colormap):
        found["colormap"] = colormap
    return found


def _blend(display: Mapping[str, Any]) -> dict[str, Any]:
    """How a layer lies over those below it."""
    found: dict[str, Any] = {}
    opacity: Any = display.get("opacity")
    if _is_number(opacity):
        found["opacity"] = min(max(float(opacity), 0.0), 1.0)
    if display.get("blending") in _BLENDINGS:
        found["blending"] = display["blending"]
    return found


def is_colormap(colormap: Any) -> bool:
    """Whether plain data is a colormap as it was written: colors, and where they are, from 0 to 1."""
    if not isinstance(colormap, dict) or set(colormap) != {"name", "colors", "controls", "interpolation"}:
        return False
    colors, controls, kind = colormap["colors"], colormap["controls"], colormap["interpolation"]
    if not (isinstance(colors, list) and isinstance(controls, list) and kind in ("linear", "zero")):
        return False
    if not (isinstance(colormap["name"], str) and all(map(_is_part, controls))):
        return False
    if len(controls) < 2 or len(controls) != len(colors) + (kind == "zero"):
        return False
    has_colors = all(isinstance(one, list) and len(one) == 4 and all(map(_is_part, one)) for one in colors)
    return bool(has_colors and controls == sorted(controls) and controls[0] == 0 and controls[-1] == 1)


def _is_part(value: Any) -> bool:
    return _is_number(value) and 0.0 <= value <= 1.0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _is_label(text: str) -> bool:
    return text.isdecimal() and len(text) <= _MAX_LABEL_DIGITS


def label_colors(colors: Any) -> dict[str, Any]:
    """Colors of labels as napari takes them: ``None`` is every other label."""
    if not isinstance(colors, dict) or "None" not in colors:
        return {}
    found = {}
    for label, color in colors.items():
        is_color = isinstance(color, list) and len(color) == 4 and all(map(_is_number, color))
        if is_color and (label == "None" or _is_label(label)):
            found[None if label == "None" else int(label)] = tuple(min(max(float(part), 0.0), 1.0) for part in color)
    return {"colormap": found} if None in found else {}


def described_layer(array: Array, affine: Array, name: str, keywords: Mapping[str, Any], path: Path) -> LayerData:
    """Return the layer of a volume (X, Y, Z) or of volumes (X, Y, Z, N) that was read with `read_described`.

    Raises
    ------
    InvalidInput
        If the array is neither.
    """
    if array.ndim not in (3, 4) or array.dtype.kind not in "biuf" or not array.size:
        raise InvalidInput(
            f"{path.name} holds {array.dtype} of shape {array.shape}; a layer of numbers (x, y, z) or (x, y, z, n) is "
            "needed: save it again"
        )
    given = {**keywords, "metadata": {"path": str(path), **keywords.get("metadata", {})}}
    first_axis = given.pop(_AXIS, "volume")
    if array.ndim == 4:
        given.pop("kind", None)
        return series_layer(array, affine, name, first_axis, **given)
    if given.get("kind") == "labels" and array.dtype.kind == "f":
        raise InvalidInput(f"{path.name} should hold labels but holds {array.dtype} numbers; save it again")
    return volume_layer(array, affine, name, **given)


def get_reader(path: Paths) -> LayerReader | None:
    """Return the reader of volumes in ``.npz`` files (napari's reader contribution), or None for other files."""
    return reader_if(_is_volume, path, read_layers)


def read_layers(path: Paths) -> list[LayerData]:
    """Read volumes that `write_image` wrote as ``.npz``.

    Raises
    ------
    InvalidInput
        If a file is damaged or no such volume.
    """
    return [_read_npz(one) for one in listed(path)]


@reads_file
def _read_npz(path: Path) -> LayerData:
    with opened_npz(path) as archive:
        if missing := [name for name in _VOLUME_ARRAYS if name not in archive.names]:
            raise InvalidInput(f"it has no array {missing[0]!r}; save the layer again")
        archive.check_size()
        array, ours = archive.array("volume"), str(archive.array("about"))
        affine = checked_affine(archive.array("affine"))
        arrays = {name: archive.array(name) for name in _COMPANIONS if name in archive.names}
        about = json_of(ours, path.name)
        keywords = _keywords(about if isinstance(about, dict) else {}, arrays, path.name)
        return described_layer(array, affine, path.stem, keywords, path)


def _is_volume(path: Path) -> bool:
    return path.suffix.lower() == NPZ and array_names(path) >= set(_VOLUME_ARRAYS)


def _read_json(path: Path) -> dict[str, Any]:
    """What a JSON file holds; nothing if there is none, or no object in it."""
    if not path.is_file():
        return {}
    try:
        found = existing_json(path)
    except (InvalidInput, OSError) as error:
        logger.warning("%s is left aside: %s", path.name, error)
        return {}
    return found if isinstance(found, dict) else {}
