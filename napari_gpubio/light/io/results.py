"""A whole result in one file, from which everything can be shown again and a stopped run be resumed.

The file is NumPy's ``.npz`` (a zip of ``.npy`` arrays) with one text more, ``result.json``: what was simulated, with
what settings, on which device, and the numbers that came out. `numpy.load` opens it too.
"""

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, free_memory_bytes
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, existing_file
from napari_gpubio.core.volumes import damaged
from napari_gpubio.light.detectors import DetectedPhotons
from napari_gpubio.light.io import description
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.voxels.partial import Partial

Array = npt.NDArray[Any]
FORMAT, VERSION = "napari-gpubio light result", 1
_TEXT = "result.json"
_VOLUMES = ("gates", "gates_error", "fluence_error")
_VOLUMES_ON_REQUEST = ("half_fluences", "escaped_weight")
_PHOTON_ARRAYS = (
    "photon", "detector", "weight", "path_mm", "scatterings", "position_mm", "direction", "time_ns",
)  # fmt: skip
_DOMAIN_ARRAYS = ("labels", "mua_per_mm", "mus_per_mm")
_FAST = 1  # level of DEFLATE; higher ones take several times as long and gain little on noisy numbers
# What zipfile, numpy, json and our own checks raise on a damaged file.
_READ_ERRORS = (
    OSError, EOFError, ValueError, TypeError, LookupError, AttributeError, NotImplementedError, MemoryError,
    RecursionError, struct.error, zlib.error, zipfile.BadZipFile, RuntimeError,
)  # fmt: skip


def save_result(path: str | Path, result: LightResult, *, resumable: bool = True, compress: bool = False) -> None:
    """Save a result in one file; an older file is replaced only when the new one is complete.

    Parameters
    ----------
    path
        Ends in ``.npz``.
    result
        What a simulation gave, complete or not.
    resumable
        Save the tallies too, from which the run can be resumed and results be merged; they are two thirds of the file
        or more.
    compress
        Make the file three times smaller or more, and the saving four to ten times slower: half a second or a minute
        and a half, for a head or for a large grid with ten time gates.

    Raises
    ------
    InvalidInput
        If the name ends otherwise, the folder does not exist or may not be written, or the disk is full.
    """
    if Path(path).suffix.lower() != ".npz":
        raise InvalidInput(f"{Path(path).name} does not end in .npz; give it this ending")
    told = {"format": FORMAT, "version": VERSION, **description.describe(result)}
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    text = json.dumps({**told, "parameters": description.as_json(result.parameters)}, indent=1, allow_nan=False)
    with (
        atomic_write(path) as part,
        zipfile.ZipFile(part, "w", method, compresslevel=_FAST) as archive,
    ):
        archive.writestr(_TEXT, text)
        for name, array in _arrays(result, resumable=resumable):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, np.asarray(array), allow_pickle=False)


def load_result(path: str | Path) -> LightResult:
    """Load a result that `save_result` saved.

    Raises
    ------
    InvalidInput
        If the file is missing, incomplete, damaged, no result, of another version, or too large for the memory.
    """
    path = existing_file(path)
    with _reading(path), zipfile.ZipFile(path) as archive:
        described = _described(archive, path)
        _check_memory(archive, path)
        arrays = {name.removesuffix(".npy"): _array(archive, name) for name in archive.namelist() if name != _TEXT}
        return _result(described, arrays)


def _arrays(result: LightResult, *, resumable: bool) -> Iterator[tuple[str, Array]]:
    """Every array of a result, with its name in the file."""
    for owner, prefix, names in (
        (result.domain, "domain", _DOMAIN_ARRAYS),
        (result.source, "source", ("pattern",)),
        (result, "result", _VOLUMES + _VOLUMES_ON_REQUEST),
        (result.detected, "detected", _PHOTON_ARRAYS),
    ):
        for name in names:
            if getattr(owner, name) is not None:
                yield f"{prefix}/{name}", getattr(owner, name)
    if resumable and result.state is not None:
        for name, array in result.state.to_arrays().items():
            yield f"state/{name}", array


def _result(described: Mapping[str, Any], arrays: Mapping[str, Array]) -> LightResult:
    detected = {name: arrays[f"detected/{name}"] for name in _PHOTON_ARRAYS}
    labels, state = tuple(described["detected"]["labels"]), _within(arrays, "state")
    on_request: dict[str, Any] = {name: arrays.get(f"result/{name}") for name in _VOLUMES_ON_REQUEST}
    return LightResult(
        domain=description.domain_from(described, _within(arrays, "domain")),
        source=description.source_from(described, arrays.get("source/pattern")),
        settings=description.settings_from(described),
        detectors=description.detectors_from(described),
        **{name: arrays[f"result/{name}"] for name in _VOLUMES},
        **on_request,
        energy=description.energy_from(described),
        absorbed=description.absorbed_from(described),
        detected=description.made(DetectedPhotons, {**described["detected"], **detected, "labels": labels}),
        launched=described["launched"],
        complete=described["complete"],
        parameters=described["parameters"],
        state=Partial.from_arrays(state) if state else None,
    )


def _within(arrays: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    return {name.removeprefix(f"{prefix}/"): a for name, a in arrays.items() if name.startswith(f"{prefix}/")}


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Name the file in what is raised, and say of other errors that it is damaged."""
    try:
        yield
    except InvalidInput as error:
        if path.name in str(error):
            raise
        raise InvalidInput(f"{path.name} cannot be used: {error}") from error
    except _READ_ERRORS as error:
        raise damaged(path, error) from error


def _described(archive: zipfile.ZipFile, path: Path) -> dict[str, Any]:
    described = json.loads(archive.read(_TEXT)) if _TEXT in archive.namelist() else {}
    if not isinstance(described, dict) or described.get("format") != FORMAT:
        raise InvalidInput(f"{path.name} is not a result of light transport; give a file that save_result has written")
    if described.get("version") != VERSION:
        raise InvalidInput(
            f"{path.name} has version {described.get('version')} of its format and only version {VERSION} can be read "
            "here; update napari-gpubio"
        )
    return described


def _check_memory(archive: zipfile.ZipFile, path: Path) -> None:
    needed, free = sum(member.file_size for member in archive.infolist()), free_memory_bytes(CPU)
    if needed > free:
        raise InvalidInput(
            f"{path.name} needs {needed / 2**20:.0f} MB of memory and {free / 2**20:.0f} MB are free; "
            "close other programs"
        )


def _array(archive: zipfile.ZipFile, name: str) -> Array:
    with archive.open(name) as stream:
        array: Array = np.lib.format.read_array(stream, allow_pickle=False)
        stream.read()  # to the end, where the checksum is compared
        return array
