"""Volumes as values of operations, and the operations that every engine takes them from: a file, or a held array."""

import dataclasses
from collections.abc import Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import GriddedArray
from napari_gpubio.core.files import atomic_write, check_folder
from napari_gpubio.core.layer_files import RECORD, describe, described_files, read_described
from napari_gpubio.core.ome_zarr import SUFFIX, read_ome_zarr, write_ome_zarr
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import (
    File,
    Held,
    Operation,
    Output,
    Reading,
    Ref,
    file,
    given,
)
from napari_gpubio.core.operations.runs import run
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.parameters import param
from napari_gpubio.core.quantity import GUIDE, HALVES, QUANTITY, Quantity, log10_of
from napari_gpubio.core.reading import note, reads_file, without_notes
from napari_gpubio.core.settings import part
from napari_gpubio.core.space import checked_affine, same_grid, voxel_sizes_mm
from napari_gpubio.core.steps import Step
from napari_gpubio.core.volumes import (
    NIFTI_SUFFIXES,
    fits_grid,
    has_orientation,
    nifti_affine,
    nifti_array,
    open_nifti,
)

Array = npt.NDArray[Any]
Row = tuple[float, float, float, float]
_ENDINGS = (SUFFIX, *NIFTI_SUFFIXES)
_NO_IMAGES = ("label", "vector", "symmetric matrix", "displacement vector", "general matrix")  # intents of NIfTI


@dataclass(frozen=True, eq=False, kw_only=True)
class Volume(GriddedArray, array="array"):
    """A plane, a volume, or a series of volumes, with its place and meaning.

    Parameters
    ----------
    array
        Shape (X, Y), (X, Y, Z) or (X, Y, Z, N), in the order of its file.
    affine
        Voxel to world, mm.
    name
        As people know it, such as that of its file.
    quantity
        What the numbers mean, if that is known.
    halves
        The linear values of two halves of the data, shape (2, ...), if they are known.
    guide
        The linear values without noise, as theory has them, if they are known.
    header
        Of the file, as nibabel has it, or None: for files that are written in its likeness.
    oriented
        Whether the file says which side is left; its place is an assumption if it does not.
    """

    array: Array
    affine: npt.NDArray[np.float64]
    name: str = "volume"
    quantity: Quantity | None = None
    halves: Array | None = None
    guide: Array | None = None
    header: Any = None
    oriented: bool = True

    @property
    def voxel_size_mm(self) -> tuple[float, ...]:
        """Edge lengths of a voxel along the axes of the array."""
        return tuple(map(float, voxel_sizes_mm(self.affine)))

    def like(self, array: Array, **changes: Any) -> "Volume":
        """Return another array in the place of this one; what was known of the numbers is not known of its."""
        return dataclasses.replace(self, array=array, **{"quantity": None, "halves": None, "guide": None, **changes})


def array_on_grid(volume: Volume, image: Volume) -> Array:
    """Return the array of a volume that lies on the grid of an image.

    Raises
    ------
    InvalidInput
        If it lies elsewhere. Where one of both has no orientation, it need only have as many voxels.
    """
    shapes = [one.array.shape + (1,) * (3 - one.array.ndim) for one in (volume, image)]  # a plane is one layer
    if not fits_grid(
        volume.name, shapes[0], volume.affine, shapes[1], image.affine, is_oriented=lambda: volume.oriented
    ):
        raise InvalidInput(
            f"{volume.name} has shape {volume.array.shape[:3]} and {image.name} {image.array.shape[:3]}, or it lies "
            "elsewhere; resample it to the image's grid"
        )
    return volume.array


@reads_file
def open_volume(path: str | Path) -> Volume:
    """Read a volume with its header, and what a file beside it says; further axes of length 1 are dropped.

    Raises
    ------
    InvalidInput
        If the file is missing, damaged, of another kind or too large for the memory.
    """
    path = Path(path)
    if path.is_dir():
        image = read_ome_zarr(path)
        place, oriented = image.affine, image.is_oriented
        return Volume(array=image.array, affine=place, name=path.name, quantity=image.quantity, oriented=oriented)
    opened = open_nifti(path)
    array = nifti_array(opened, path)
    intent = opened.header.get_intent()[0] if hasattr(opened.header, "get_intent") else ""
    if intent in _NO_IMAGES:
        note(f"its header says that it holds a {intent}, not an image; its values are taken as those of an image")
    if array.ndim > 3:
        array = array.reshape(array.shape[:3] + tuple(n for n in array.shape[3:] if n > 1))
    is_nifti = path.name.lower().endswith(NIFTI_SUFFIXES)
    about = read_described(path, array.shape).get("metadata", {}) if is_nifti else {}
    known = {name: about.get(name) for name in (QUANTITY, HALVES, GUIDE)}
    return Volume(
        array=array,
        affine=nifti_affine(opened),
        name=path.name,
        header=opened.header,
        oriented=has_orientation(path),
        **known,
    )


def save_volume(volume: Volume, path: str | Path, record: Mapping[str, Any] | None = None) -> None:
    """Write a volume in the likeness of the file that it came from, whose affine, units and time step are kept.

    Parameters
    ----------
    volume
        Of any shape that there is.
    path
        Ends in ``.nii`` or ``.nii.gz``: what the numbers mean, and the record, go into a JSON file beside it. Or in
        ``.ome.zarr``, a folder that is new or empty.
    record
        The operation that made it, as plain data.

    Raises
    ------
    InvalidInput
        If the name ends otherwise, the folder is missing, or the file cannot be written.
    """
    import nibabel as nib

    path = Path(path)
    check_volume_path(path)
    if path.name.lower().endswith(SUFFIX):
        write_ome_zarr(path, np.asarray(volume.array), volume.affine, quantity=volume.quantity, record=record)
        return
    values, affine, header = np.asarray(volume.array), None, None if volume.header is None else volume.header.copy()
    if not isinstance(header, nib.Nifti1Header):  # of another format, whose image is in mm here
        affine, header = volume.affine, nib.Nifti1Header()
        header.set_xyzt_units("mm")
    header.set_data_dtype(values.dtype)
    kind = nib.Nifti2Image if isinstance(header, nib.Nifti2Header) else nib.Nifti1Image
    if record is not None:
        header["descrip"] = f"{volume.name}, napari-gpubio {__version__}".encode("ascii", "replace")[:79]
    with atomic_write(path) as file_:
        nib.save(kind(values, affine, header), file_)
    about = {QUANTITY: volume.quantity, RECORD: record}
    if about := {name: value for name, value in about.items() if value is not None}:
        describe(path, about)


def check_volume_path(path: Path) -> None:
    """Raise InvalidInput if a volume cannot be written to a path, by its ending or its folder."""
    if not path.name.lower().endswith(_ENDINGS):
        ends = f"{', '.join(NIFTI_SUFFIXES)} or {SUFFIX}"
        raise InvalidInput(f"{path.name} does not end in {ends}; give it one of these endings")
    check_folder(path)


def record_beside(path: str | Path) -> Mapping[str, Any] | None:
    """Return the record that `save_volume` left beside a file, if the file is still the one that it is of."""
    found = read_described(path, ()).get("metadata", {}).get(RECORD)
    return found if isinstance(found, Mapping) else None


@dataclass(frozen=True)
class OpenDescribed(Reading):
    """Base of what opens a volume with what lies beside it."""

    file: File = part("File", "NIfTI image: a plane, a volume or a series.")
    beside: tuple[File, ...] = part("Beside it", "Files that say more of it.", default=())

    @classmethod
    def at(cls, path: str | Path, **options: Any) -> Any:
        """Return the operation that opens a file as it is now, with what lies beside it."""
        path, others = Path(path), list[Path]()
        if path.name.lower().endswith(NIFTI_SUFFIXES) and read_described(path, ()):
            others = [one for one in described_files(path).values() if one != path and one.is_file()]
        return super().at(path, beside=tuple(map(file, others)), **options)


@dataclass(frozen=True)
class OpenVolume(OpenDescribed, verb="open-volume", makes={"volume": Volume}):
    """Open a volume with what lies beside it: its meaning, both halves of its data, and its guide."""

    def read(self, data: Any) -> Volume:
        """Read it."""
        return open_volume(data.file)


@dataclass(frozen=True)
class HeldVolume(Reading, verb="held-volume", makes={"volume": Volume}):
    """A volume that no file holds, such as painted labels or an array from Python."""

    array: Held = part("Voxels", "Their values.")
    affine: tuple[Row, Row, Row, Row] = part("Affine", "Voxel to world, row by row.", unit="mm")
    name: str = param("volume", "Name", "As people know it.", compare=False)
    quantity: tuple[str, str, str] = part(
        "Quantity", "Name, unit and scale of what the numbers mean.", default=("", "", "linear")
    )
    halves: Held | None = part("Halves", "Linear values of two halves of the data.", default=None)
    guide: Held | None = part("Guide", "Linear values without noise.", default=None)

    @classmethod
    def of(cls, volume: Volume, store: Store = STORE) -> "HeldVolume":
        """Return the operation of a volume as it is now, whose array is copied."""
        arrays = {name: getattr(volume, name) for name in ("array", "halves", "guide")}
        values: dict[str, Any] = {name: None if one is None else store.hold(one) for name, one in arrays.items()}
        values["affine"] = np.asarray(volume.affine, float)
        return cls(name=volume.name, quantity=_meaning(volume.quantity), **values)

    def check(self) -> None:
        """Raise InvalidInput if the affine or the quantity is none."""
        checked_affine(self.affine)
        if any(self.quantity[:2]):
            self._quantity()

    def _quantity(self) -> Quantity | None:
        name, unit, scale = self.quantity
        return Quantity(name, unit, cast("Any", scale)) if name else None

    def read(self, data: Any) -> Volume:
        """Take it from where it is held."""
        return Volume(
            array=data.array,
            affine=np.array(self.affine),
            name=self.name,
            quantity=self._quantity(),
            halves=data.halves,
            guide=data.guide,
        )


@dataclass(frozen=True, kw_only=True)
class LogOf(Operation, verb="log10-of", makes={"volume": Volume}):
    """Take the decimal logarithms of a volume, as layers show light; NaN where there is nothing."""

    volume: Ref[Volume] = given("Volume", "Values whose meaning is known.")

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, Volume]:
        """Take them."""
        yield Step(0, 1, "logarithms")
        return log10_volume(data.volume)


def log10_volume(volume: Volume) -> Volume:
    """Return the decimal logarithms of a volume; its halves and its guide stay linear.

    Raises
    ------
    InvalidInput
        If it does not say what it means, or holds logarithms.
    """
    known = volume.quantity
    if known is None or known.is_log:
        raise InvalidInput(
            f"{volume.name} holds {'values' if known is None else known.text}; give linear values of known meaning"
        )
    return Volume(
        array=log10_of(volume.array), affine=volume.affine, name=volume.name, halves=volume.halves, guide=volume.guide,
        quantity=dataclasses.replace(known, scale="log10"),
    )  # fmt: skip


def _meaning(quantity: Quantity | None) -> tuple[str, str, str]:
    """Name, unit and scale of what numbers mean."""
    return ("", "", "linear") if quantity is None else (quantity.name, quantity.unit, quantity.scale)


def source_of(volume: Volume, path: Path | None, store: Store = STORE) -> Output[Volume]:
    """Return where a volume comes from: a file, if it holds exactly that, or else the array as it is now.

    Parameters
    ----------
    volume
        As a layer shows it.
    path
        The file that it was read from, as far as that is known.
    store
        Gets what was read, or a copy of the array.
    """
    if path is not None and path.is_file():
        with suppress(InvalidInput), without_notes():  # a file that has become something else since
            opened = OpenVolume.at(path)
            if is_same(run(opened, device="cpu", store=store), volume):
                return opened.output()
    return HeldVolume.of(volume, store).output()


def is_same(known: Volume, shown: Volume) -> bool:
    """Whether a volume that is known is what is shown: place, numbers, and their meaning if it has any."""
    if known.array.ndim == 2:  # a layer has a plane as a volume of one, as thick as its pixels are long
        known, thickness = known.like(known.array[..., np.newaxis], quantity=known.quantity), known.affine.copy()
        thickness[:3, 2] = shown.affine[:3, 2]
        known = dataclasses.replace(known, affine=thickness)
    if not same_grid(known.array.shape, known.affine, shown.array.shape, shown.affine):
        return False
    pairs = ((known.array, shown.array), (known.halves, shown.halves), (known.guide, shown.guide))
    is_linear = shown.quantity is None or not shown.quantity.is_log
    means_same = is_linear if known.quantity is None else _meaning(known.quantity) == _meaning(shown.quantity)
    return means_same and all(is_equal(*both) for both in pairs)


def is_equal(one: Array | None, other: Array | None) -> bool:
    """Whether two arrays are there and have the same numbers, or neither is."""
    if one is None or other is None:
        return one is other
    real = one.dtype.kind == "f" and other.dtype.kind == "f"
    if one.dtype != other.dtype:
        return False
    return np.array_equal(one, other) or (real and np.array_equal(one, other, equal_nan=True))  # which takes longer


register_kind(
    Volume,
    counts=lambda one: (one.array, one.affine, one.quantity, one.halves, one.guide),
    endings=_ENDINGS,
    write=lambda volume, path, record: save_volume(volume, path, record),
    opens=OpenVolume,
    shows="napari_gpubio.core.operations.layer_sources:layers_of_volume",
)
