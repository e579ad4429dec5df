"""The medium of an MCX file: properties, unit and labels, to and from a `Domain`.

MCX counts in voxels, and its coefficients are per mm. Its volume becomes a domain whose affine is ``diag(unit)`` with
the offset of half a voxel, so that the grid's corner is the world's origin: MCX's position p (from 0, in voxels) is the
world position p x unit, and ``domain.world_to_grid(p * unit) == p * unit``.
"""

import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.foreign import existing_map
from napari_gpubio.core.reading import note, reads_file
from napari_gpubio.core.volumes import NIFTI_SUFFIXES, check_declared_size, one_volume, read_volume
from napari_gpubio.mcx.io.bjdata import decode_bjdata
from napari_gpubio.mcx.io.jdata import (
    Section,
    checked_numbers,
    decode_array,
    encode_array,
    is_array,
    load_json,
    shown,
)
from napari_gpubio.mcx.io.media import (
    FORMATS,
    LABELS,
    VoxelFormat,
    check_format,
    domain_of,
    packed_properties,
    values_of,
)
from napari_gpubio.mcx.io.shapes import empty_grid, rasterize
from napari_gpubio.optics.model import Domain, Medium
from napari_gpubio.optics.phase import MAX_POINTS, TabulatedPhaseFunction

Array = npt.NDArray[Any]
MAX_ROWS = 4000  # media and detectors that MCX takes
_SAME_SIZE = 1e-5  # how much the edges of a voxel may differ, relative
_PROPERTIES = ("mua", "mus", "g", "n")
_MEDIUM_KEYS = dict(zip(_PROPERTIES, ("mua_per_mm", "mus_per_mm", "g", "n"), strict=True))
_REFUSED = {
    "MieScatter": "polarized light, which this engine does not trace; give mua, mus, g and n of each medium in Media "
    "instead, for unpolarized light",
    "VoxelSize": "edges of its own for every layer of voxels; resample the volume to equal voxels",
}


@dataclass(frozen=True)
class McxFrame:
    """How the file counts: edge of a voxel, mm, and whether the corner of the first is at 0 or, as by default, at 1."""

    unit_mm: float
    from_zero: bool

    def position_mm(self, position: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """World position of a position in the file."""
        return (np.asarray(position, np.float64) - (0.0 if self.from_zero else 1.0)) * self.unit_mm

    @property
    def affine(self) -> npt.NDArray[np.float64]:
        """Voxel to world."""
        matrix = np.diag([self.unit_mm] * 3 + [1.0])
        matrix[:3, 3] = 0.5 * self.unit_mm
        return matrix


def read_frame(domain: Section) -> McxFrame:
    """Take unit and origin from the section Domain; voxels must be cubes."""
    unit = domain.number("LengthUnit", 1.0)
    steps = domain.numbers("Step", 3, 3, (1.0, 1.0, 1.0))
    if len(set(steps)) > 1:
        raise InvalidInput(f"Domain.Step is {list(steps)}; MCX has cubic voxels only, give three equal numbers")
    unit = steps[0] if unit == 1.0 else unit  # as MCX does
    if not 1e-9 <= unit <= 1e6:
        raise InvalidInput(f"Domain.LengthUnit is {unit:g}; give the edge length of a voxel in mm")
    return McxFrame(unit, domain.flag("OriginType", default=False))


def read_domain(root: Section, frame: McxFrame, folder: Path) -> tuple[Domain, tuple[str, ...]]:
    """Read media and volume, and notes about them; ``VolumeFile`` counts from ``folder``, where the file is."""
    section = root.section("Domain")
    for key, what in _REFUSED.items():
        if section.get(key) is not None:
            raise InvalidInput(f"Domain.{key} requests {what}")
    outside_n, media = _read_media(section)
    volume, notes = _read_volume(root, section, frame, folder)
    check_dimensions(volume.shape[:3])
    form, table = section.text("MediaFormat", "byte").lower(), _read_phase_function(section)
    if form not in FORMATS:
        own = Domain(labels=volume, affine=frame.affine, media=media, outside_n=outside_n)
        return dataclasses.replace(own, phase_function=table), notes
    own, more = domain_of(volume, form, media, outside_n, frame.unit_mm)
    if table is not None:
        own = dataclasses.replace(own, g=None, phase_function=table)  # MCX does not look at g then
    return dataclasses.replace(own, affine=frame.affine), (*notes, *more)


def read_labels(root: Section, folder: Path) -> tuple[Array, Array]:
    """Read the labels alone, and their affine, to look at them; errors as `read_domain`."""
    section = root.section("Domain")
    frame, form = read_frame(section), section.text("MediaFormat", "byte").lower()
    volume, _ = _read_volume(root, section, frame, folder)
    if form in FORMATS:
        volume = domain_of(volume, form, _read_media(section)[1], 1.0, frame.unit_mm)[0].labels
    return volume, frame.affine


def check_dimensions(shape: Sequence[int]) -> None:
    """Check that MCX traces a grid in three dimensions: with one axis of length 1 it does so in two.

    There, directions stay in the plane, and no light leaves through the two large faces. Of a single voxel a note says
    that MCX does so, too.

    Raises
    ------
    InvalidInput
        If one or two axes have the length 1.
    """
    flat = [axis for axis, length in zip("xyz", shape, strict=True) if length == 1]
    if len(flat) == 3:
        note("MCX traces a single voxel in two dimensions, y and z; here light goes in all three")
    elif flat:
        size = " x ".join(map(str, shape))
        raise InvalidInput(
            f"the domain has {size} voxels, one along {' and '.join(flat)}, which MCX traces in two dimensions; this "
            f"engine has no such mode: repeat the slice along {flat[0]}, as far as light spreads, to trace it in three"
        )


def _read_phase_function(domain: Section) -> TabulatedPhaseFunction | None:
    """The cosines of InverseCDF with the ends -1 and 1, which MCX adds."""
    node = domain.get("InverseCDF")
    if node is None or (isinstance(node, list) and not node):
        return None
    values = decode_array(node, "Domain.InverseCDF").ravel().tolist() if is_array(node) else node
    numbers = np.array(checked_numbers(values, "Domain.InverseCDF", 1, MAX_POINTS - 2))
    for place, (before, number) in enumerate(zip([-1.0, *numbers], numbers, strict=False)):
        if not before <= number <= 1.0:
            raise InvalidInput(
                f"Domain.InverseCDF[{place}] is {number:g}; cosines must increase from -1 to 1, and the one before is "
                f"{before:g}"
            )
    return TabulatedPhaseFunction(cosines=np.concatenate([[-1.0], numbers, [1.0]]))


def _read_media(domain: Section) -> tuple[float, tuple[Medium, ...]]:
    """Refractive index of row 0 (outside), and the media of the other rows."""
    rows = domain.get("Media")
    if not isinstance(rows, list) or len(rows) < 2:
        raise InvalidInput(f"Domain.Media is {shown(rows)}; give a list: the outside, then the medium of each label")
    numbers = [_row(row, f"Domain.Media[{label}]") for label, row in enumerate(rows)]
    media = [
        Medium(label=label, name=_words(rows[label], "name"), source=_words(rows[label], "source"), **properties)
        for label, properties in enumerate(numbers)
        if label
    ]
    return numbers[0]["n"], tuple(media)


def _row(row: Any, place: str) -> dict[str, float]:
    if isinstance(row, list):
        values: tuple[float, ...] = checked_numbers(row, place, 4, 4)
    elif isinstance(row, dict):
        values = tuple(Section(place, row).number(key) for key in _PROPERTIES)
    else:
        raise InvalidInput(f"{place} is {shown(row)}; give mua, mus, g and n")
    return {_MEDIUM_KEYS[key]: value for key, value in zip(_PROPERTIES, values, strict=True)}


def _words(row: Any, key: str) -> str:
    """A text that this package writes beside the four numbers; MCX does not look at it."""
    return Section("", row).text(key, "") if isinstance(row, dict) else ""


def _read_volume(root: Section, domain: Section, frame: McxFrame, folder: Path) -> tuple[Array, tuple[str, ...]]:
    file, shapes = domain.text("VolumeFile", ""), root.get("Shapes")
    dim = None if domain.get("Dim") is None else domain.wholes("Dim", 3)
    form = domain.text("MediaFormat", "byte").lower()
    if file and shapes is not None:
        raise InvalidInput("the file has both Domain.VolumeFile and Shapes; MCX takes one of them, remove the other")
    if file:
        return read_volume_file(inside(folder, file, "Domain.VolumeFile"), form, dim, from_zero=frame.from_zero)
    if is_array(shapes):
        return volume_of_array(shapes, form), ()
    if isinstance(shapes, list):
        return _drawn(shapes, form, dim, from_zero=frame.from_zero), ()
    raise InvalidInput(
        f"Shapes is {shown(shapes)}; give a list of shapes or an array with _ArraySize_, or name a Domain.VolumeFile"
    )


def _drawn(shapes: list[Any], form: str, dim: Sequence[int] | None, *, from_zero: bool) -> Array:
    """Labels of a list of shapes, which cannot draw other values."""
    check_format(form)
    if form not in LABELS:
        raise InvalidInput(
            f"Domain.MediaFormat is {form!r}, and shapes draw labels; give {' or '.join(LABELS)}, or an array with "
            "the values of each voxel"
        )
    return rasterize(shapes, dim, from_zero=from_zero)


def inside(folder: Path, file: str, key: str) -> Path:
    """Return the path of a file in or below a folder; an input from elsewhere could name any file of this computer.

    A link in the folder may lead out of it, as those of git-annex do; a note says where to.

    Parameters
    ----------
    folder
        Where the input file is.
    file
        What it names.
    key
        The place of the name in the input file, for the sentence.

    Raises
    ------
    InvalidInput
        If the path leads out of the folder, or is none.
    """
    with suppress(OSError, ValueError, RuntimeError):  # no name of a file; a loop of links
        if "\\" in file and os.sep == "/" and not (folder / file).exists():
            file = file.replace("\\", "/")
            note(f"{key} is a path of Windows, which is taken as {shown(file)}")
        path, root = Path(os.path.abspath(folder / file)), Path(os.path.abspath(folder))  # noqa: PTH100 - keeps links
        target = path.resolve()
        if path.is_relative_to(root) or target.is_relative_to(root.resolve()):
            if not target.is_relative_to(root.resolve()):
                note(f"{key} {shown(file)} is a link that leads out of the folder, to {target}")
            return path
    raise InvalidInput(f"{key} is {shown(file)}, outside the folder of the JSON file; copy it there and give its name")


def frame_of(domain: Domain) -> McxFrame:
    """Return how a written file counts: from 0, in voxels, which must be cubes."""
    sizes = domain.voxel_sizes_mm
    if np.ptp(sizes) > _SAME_SIZE * sizes.max():
        text = " x ".join(f"{size:g}" for size in sizes)
        raise InvalidInput(f"the voxels are {text} mm; MCX has cubic voxels only: resample the labels first")
    return McxFrame(float(sizes.mean()), from_zero=True)


def write_domain(domain: Domain, frame: McxFrame) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the sections Domain and Shapes; scattering tensors, too high labels and single slices are refused.

    Of properties voxel by voxel the labels are not written, but in which voxels there is tissue.
    """
    check_dimensions(domain.shape)
    if domain.is_anisotropic:
        raise InvalidInput("scattering tensors cannot be written for MCX; write Domain.with_tensors(None) instead")
    highest = max(medium.label for medium in domain.media)
    if highest >= MAX_ROWS:
        raise InvalidInput(f"the highest label is {highest}; MCX takes fewer than {MAX_ROWS}: renumber the labels")
    rows = [{"mua": 0.0, "mus": 0.0, "g": 1.0, "n": domain.outside_n}] + [
        {"mua": 0.0, "mus": 0.0, "g": 1.0, "n": 1.0, "name": "unused"} for _ in range(highest)
    ]
    for medium in domain.media:
        row = {key: getattr(medium, name) for key, name in _MEDIUM_KEYS.items()}
        rows[medium.label] = row | {key: getattr(medium, key) for key in ("name", "source") if getattr(medium, key)}
    form, volume = "byte" if domain.labels.dtype == np.uint8 else "short", domain.labels
    if domain.is_continuous:
        form, volume = packed_properties(domain)
        rows = [rows[0], rows[domain.labels_present[0]]]
    section = {
        "OriginType": 1,
        "LengthUnit": frame.unit_mm,
        "MediaFormat": form,
        "Dim": list(domain.shape),
        "Media": rows,
    }
    if domain.phase_function is not None:
        section["InverseCDF"] = _written_phase_function(domain.phase_function)
    return section, encode_array(volume)


def _written_phase_function(table: TabulatedPhaseFunction) -> list[float]:
    """The cosines between the ends, which must be -1 and 1."""
    cosines = table.cosines
    if len(cosines) < 3 or (cosines[0], cosines[-1]) != (-1.0, 1.0):
        raise InvalidInput(
            f"the phase function has {len(cosines)} cosines from {cosines[0]:g} to {cosines[-1]:g}; MCX needs three at "
            "least, from -1 to 1: let the first and the last step reach there"
        )
    return [float(cosine) for cosine in cosines[1:-1]]


@reads_file
def read_volume_file(
    path: Path, form: str, dim: Sequence[int] | None, *, from_zero: bool
) -> tuple[Array, tuple[str, ...]]:
    """Read a volume: raw values, NIfTI (``.nii``, ``.nii.gz``), JNIfTI (``.jnii``, ``.bnii``), or shapes (``.json``).

    ``form`` is MCX's name of what is in a voxel (``MediaFormat``); raw values need ``dim``, others must agree with it.
    Returns labels, shape (X, Y, Z), or the values of each voxel, see `values_of`, and notes.
    """
    check_format(form)
    path, name = existing_file(path), path.name.lower()
    notes: tuple[str, ...] = ()
    if name.endswith(".json"):
        return _shapes_file(path, form, dim, from_zero=from_zero), notes
    if name.endswith(NIFTI_SUFFIXES):
        volume = read_volume(path)[0]
        notes = (f"The affine of {path.name} is not used: MCX counts in voxels.",)
    elif name.endswith((".jnii", ".bnii")):
        volume = _jnifti(path)
        if form not in FORMATS:
            volume = one_volume(volume, path.name)
    elif name.endswith((".hdr", ".img", ".inp")):
        raise InvalidInput(f"{path.name} cannot be read here; convert it to NIfTI (.nii, .nii.gz)")
    else:
        return _raw(path, form, dim), notes
    values = values_of(volume, form, path.name) if form in FORMATS else _whole(volume, form, path.name)
    if dim is not None and values.shape[:3] != tuple(dim):
        raise InvalidInput(f"{path.name} has shape {volume.shape} and Domain.Dim is {list(dim)}; make them the same")
    return values, notes


def volume_of_array(node: Mapping[str, Any], form: str) -> Array:
    """Return the volume of an array in the JSON; the result and the errors are those of `read_volume_file`.

    Labels have three dimensions; other values have a last one where there are several.
    """
    check_format(form)
    volume = decode_array(node, "Shapes")
    if form in FORMATS:
        return values_of(volume, form, "Shapes")
    return one_volume(_whole(volume, form, "Shapes"), "Shapes")


def _whole(volume: Array, form: str, what: str) -> Array:
    """Labels, which must be integers; MCX reads those of a NIfTI file as integers, whatever their type."""
    if what == "Shapes" and volume.dtype.kind == "f":
        raise InvalidInput(f"{what} has values of type {volume.dtype} and MediaFormat is {form!r}; give integers")
    return volume


def _raw(path: Path, form: str, dim: Sequence[int] | None) -> Array:
    """Raw values, the first axis fastest."""
    if dim is None:
        raise InvalidInput(f"Domain.Dim is missing; {path.name} has raw values and does not contain its dimensions")
    empty_grid(dim)
    kind = FORMATS.get(form) or VoxelFormat(LABELS[form], 1)
    count = math.prod(dim) * kind.count
    needed = count * np.dtype(kind.dtype).itemsize
    check_declared_size(path, 0, needed)
    if (size := path.stat().st_size) != needed:
        raise InvalidInput(
            f"{path.name} has {size} bytes; Domain.Dim {list(dim)} in the format {form!r} needs {needed}: correct one "
            "of them"
        )
    values = np.fromfile(path, kind.dtype).reshape((kind.count, *dim), order="F")
    return np.moveaxis(values, 0, -1) if form in FORMATS else values[0]


def _shapes_file(path: Path, form: str, dim: Sequence[int] | None, *, from_zero: bool) -> Array:
    shapes = Section("", load_json(path)).get("Shapes")
    if not isinstance(shapes, list):
        raise InvalidInput(f"{path.name}: Shapes is {shown(shapes)}; give a list of shapes")
    return _drawn(shapes, form, dim, from_zero=from_zero)


def _jnifti(path: Path) -> Array:
    """The array of a JNIfTI file, as text or binary."""
    is_binary = path.name.lower().endswith(".bnii")
    root = decode_bjdata(existing_map(path), path.name) if is_binary else load_json(path)
    data = Section("", root if isinstance(root, dict) else {}).get("NIFTIData")
    if isinstance(data, np.ndarray):
        return data.astype(data.dtype.newbyteorder("="))
    if not is_array(data):
        raise InvalidInput(f"{path.name}: NIFTIData is {shown(data)}; an array with _ArraySize_ is needed")
    return decode_array(data, "NIFTIData")
