"""Result files of both engines: NumPy's ``.npz`` with one text more, ``result.json``, as `numpy.load` opens it too."""

import dataclasses
import json
import math
import reprlib
import zipfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.archives import Archive, opened_npz
from napari_gpubio.core.by_planes import blocks_of
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.foreign import json_of
from napari_gpubio.core.steps import Step
from napari_gpubio.optics.estimates import Estimate

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Made = TypeVar("Made", bound="DataclassInstance")
Array = npt.NDArray[Any]
_TEXT = "result.json"
_FAST = 1  # level of DEFLATE; higher ones take several times as long and gain little on noisy numbers
_PIECES, _PIECE = 16, 4096  # numbers of an array that are tried
_BLOCK = 16 << 20  # bytes between two steps: half a second where they are compressed
# What is left of them, at most, where compression pays. It takes ten times as long as writing; no longer where most
# numbers are equal, such as in gates and places that no light has come to.
_LEFT = {True: 0.9, None: 0.2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of result file: its format and version as the text has them, what it is a result of, and its writer."""

    format: str
    version: int
    title: str
    writer: str


VOXELS = Kind(format="napari-gpubio light result", version=1, title="light transport", writer="light.io.save_result")
LAYERS = Kind(
    format="napari-gpubio layered light result", version=1, title="light in layers", writer="layered.io.save_result"
)

JACOBIANS = Kind(format="napari-gpubio Jacobians", version=1, title="Jacobians of light", writer="save_jacobians")
TRAJECTORIES = Kind(
    format="napari-gpubio trajectories", version=1, title="trajectories of photons", writer="save_trajectories"
)


def write_archive_steps(
    path: str | Path,
    kind: Kind,
    header: Mapping[str, Any],
    arrays: Iterable[tuple[str, Array]],
    *,
    compress: bool | None,
) -> Generator[Step, None, None]:
    """Write a result file: ``header``, which JSON can hold, as its text, and named arrays, with a step every 16 MB.

    ``compress``: arrays that a sample says become smaller by a tenth, or if None those that do so as fast as they are
    written, to a fifth.

    Raises
    ------
    InvalidInput
        If the name does not end in ``.npz``, the folder does not exist or may not be written, or the disk is full.
    """
    if Path(path).suffix.lower() != ".npz":
        raise InvalidInput(f"{Path(path).name} does not end in .npz; give it this ending")
    named = {name: np.asarray(array) for name, array in arrays}
    done = announced = 0
    total = sum(array.nbytes for array in named.values())
    about = {"format": kind.format, "version": kind.version, "arrays": list(named), **header}
    text = json.dumps(about, indent=1, allow_nan=False)
    methods = {False: zipfile.ZIP_STORED, True: zipfile.ZIP_DEFLATED}
    with (
        atomic_write(path) as part,
        zipfile.ZipFile(part, "w", methods[bool(compress)], compresslevel=_FAST) as archive,
    ):
        archive.writestr(_TEXT, text)
        for name, array in named.items():
            archive.compression = methods[_pays(array, compress)]
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
                order: Literal["C", "F"] = "F" if array.flags.fnc else "C"  # as the header says
                for block in blocks_of(array, order, _BLOCK // max(1, array.itemsize)):
                    stream.write(block)
                    done += len(block)
                    if announced + _BLOCK <= done < total:
                        announced = done
                        yield Step(done >> 20, total >> 20, f"MB of {Path(path).name} saved")


def _pays(array: Array, compress: bool | None) -> bool:  # noqa: FBT001 - as it was given
    """Whether an array is to be compressed; see `write_archive`."""
    if compress is False or array.size <= _PIECES * _PIECE:
        return bool(compress)
    step = (array.size - _PIECE) // (_PIECES - 1)
    some = b"".join(array.flat[n * step : n * step + _PIECE].tobytes() for n in range(_PIECES))
    return len(zlib.compress(some, _FAST)) <= _LEFT[compress] * len(some)


@contextmanager
def opened_archive(path: str | Path, kind: Kind) -> Iterator[tuple[dict[str, Any], dict[str, Array]]]:
    """Read a result file: its text as a dictionary, and its arrays by name.

    What is made of them belongs inside the block, so that `InvalidInput` names the file.

    Raises
    ------
    InvalidInput
        If the file is missing, incomplete, damaged, no such result, of another version, or too large for the memory.
    """
    with opened_npz(path) as archive:
        yield _read(archive, Path(path), kind)


def header_of(path: str | Path, kind: Kind) -> dict[str, Any]:
    """Return the text of a result file as a dictionary; an empty one if it is no such file."""
    try:
        with opened_npz(path) as archive:
            return _checked(json_of(archive.text(_TEXT) or "null", Path(path).name), Path(path), kind)
    except InvalidInput:
        return {}


def within(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """Return the arrays whose names begin with ``prefix/``, without it."""
    return {name.removeprefix(f"{prefix}/"): a for name, a in arrays.items() if name.startswith(f"{prefix}/")}


def entry(described: Mapping[str, Any], name: str, kind: type | tuple[type, ...]) -> Any:
    """Return what the text (or the file, of an array) has under a name.

    Raises
    ------
    InvalidInput
        If it has nothing there, or something of another kind.
    """
    if isinstance(value := described.get(name), kind):
        return value
    what = f"its {name!r} is {reprlib.repr(value)}" if name in described else f"it lacks {name!r}"
    raise InvalidInput(f"{what}; it was changed, or not written by this version: save the result again")


def _read(archive: Archive, path: Path, kind: Kind) -> tuple[dict[str, Any], dict[str, Array]]:
    header = _checked(json_of(archive.text(_TEXT) or "null", path.name), path, kind)
    archive.check_size()
    arrays = {name: archive.array(name) for name in archive.names}
    listed = entry({"arrays": [], **header}, "arrays", list)  # older files have no list
    if missing := [name for name in listed if name not in list(arrays)]:  # hidden by a damaged table of contents
        raise InvalidInput(f"it lacks {missing[0]}; it is incomplete or damaged: copy or download it again")
    return header, arrays


def _checked(header: Any, path: Path, kind: Kind) -> dict[str, Any]:
    """The text of a file, if it is that of a result of this kind and version."""
    header = header if isinstance(header, dict) else {}
    if (own := header.get("format")) != kind.format:
        known = (VOXELS, LAYERS, JACOBIANS, TRAJECTORIES)
        others = [f"a result of {other.title}, " for other in known if own == other.format]
        raise InvalidInput(
            f"{path.name} is {''.join(others)}not a result of {kind.title}; give a file that {kind.writer} has written"
        )
    if header.get("version") != kind.version:
        raise InvalidInput(
            f"{path.name} has version {header.get('version')} of its format and only version {kind.version} can be "
            "read here; update napari-gpubio"
        )
    return header


def as_json(value: Any) -> Any:
    """Return a value made of what JSON knows: NaN and infinity become None, other things their text."""
    if isinstance(value, Mapping):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_json(part) for part in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return as_json(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def fields_of(thing: Any) -> dict[str, Any]:
    """Return the fields of a dataclass instance as they are; dataclasses.asdict would copy arrays."""
    return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}


def made_from(kind: type[Made], values: Any) -> Made:
    """Return a dataclass instance from its fields; what is not described has its default.

    Raises
    ------
    InvalidInput
        If a field is missing, something is described that this version does not know, or a value is out of range.
    """
    if not isinstance(values, dict):
        raise InvalidInput(f"its {kind.__name__} is {reprlib.repr(values)}; it was changed: save the result again")
    fields = {field.name: field for field in dataclasses.fields(kind) if field.init}
    if unknown := sorted(set(values) - set(fields)):
        raise InvalidInput(f"{unknown[0]!r} of its {kind.__name__} is not known here; update napari-gpubio")
    for name, field in fields.items():
        if name not in values and field.default is field.default_factory is dataclasses.MISSING:
            raise InvalidInput(f"its {kind.__name__} lacks {name!r}; it was changed: save the result again")
    try:
        return kind(**values)
    except (TypeError, ValueError, OverflowError) as error:  # what NumPy makes of text or lists in place of numbers
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"its {kind.__name__} is damaged ({error}); save the result again") from error


def estimate_from(described: Mapping[str, Any], name: str) -> Estimate:
    """Return an estimate that was described; None is NaN."""
    part = entry(described, name, dict)
    return Estimate(*(math.nan if part.get(key) is None else float(entry(part, key, Real)) for key in Estimate._fields))


def about_run(described: Mapping[str, Any]) -> dict[str, Any]:
    """What the results of both engines say of their run."""
    kinds = {"launched": int, "complete": bool, "parameters": dict}
    return {name: entry(described, name, kind) for name, kind in kinds.items()}
