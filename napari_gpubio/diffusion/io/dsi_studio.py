"""Fiber directions of DSI Studio: ``.fib.gz``, ``.fib`` and ``.fz``, MATLAB files of version 4, mostly in gzip.

The layout follows DSI Studio's documentation ("Load/Save FIB files in MATLAB") and source. ``dimension`` and
``voxel_size`` (mm) have three numbers; ``fa0``, ``fa1``, ... a number for each voxel, the first index fastest, 0 where
the voxel has no such fiber; ``index0``, ... the column of ``odf_vertices`` (3, V) that is its direction, counted from
0.
A file may have the directions themselves instead, ``dir0``, ... (3 for each voxel).

Directions are in the axes of the voxels. Their order is LPS: the first index grows to the left, the second to the back,
the third upward. ``trans`` takes voxels to world mm (RAS). Without it the volume lies as DSI Studio itself puts it: the
last voxel of the first two axes at 0, the first voxel of the third one at 0.

What ``.fz`` adds is less well documented, and read as follows: where there is a ``mask``, other volumes may hold the
values of its voxels only, in their order; ``NAME.slope`` and ``NAME.inter`` give ``value * slope + inter``.
"""

import mmap
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.archives import unpacked_gzip
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file, is_gzip
from napari_gpubio.core.foreign import existing_map
from napari_gpubio.core.reading import note
from napari_gpubio.core.space import checked_affine
from napari_gpubio.core.volumes import check_expansion, damaged

Array = npt.NDArray[Any]
Affine = npt.NDArray[np.float64]
Content = Mapping[str, Array]
Bytes = bytes | bytearray | mmap.mmap
DSI_STUDIO_SUFFIXES = (".fib.gz", ".fib", ".fz")
_MAX_FIBERS = 20  # DSI Studio writes 5 or fewer
_OF_FIBERS = [f"{kind}{n}" for kind in ("fa", "index", "dir") for n in range(_MAX_FIBERS)]
_SCALES = [f"{name}.{part}" for name in _OF_FIBERS for part in ("slope", "inter")]
_WANTED = ("dimension", "voxel_size", "trans", "odf_vertices", "mask", *_OF_FIBERS, *_SCALES)
_CODES = ("f8", "f4", "i4", "i2", "u2", "u1")
_TYPES = {10 * n + kind: (code, kind == 0) for n, code in enumerate(_CODES) for kind in range(3)}  # 1: text, 2: sparse
_BIG_ENDIAN = 1000  # is added to the number of a type
_HEAD_BYTES, _LONGEST_NAME, _MAX_MATRICES = 20, 1000, 100_000


def read_dsi_studio(path: Path) -> tuple[Array, Array, Affine]:
    """Read the directions of a file; what is assumed and left out is noted.

    A fiber (``fa1``, ``index1``) that cannot be read is left out, and so are directions whose index points nowhere.

    Returns
    -------
    directions
        Axes of the voxels, shape (X, Y, Z, n, 3), float32.
    amplitudes
        Its ``fa``, which is QA after most reconstructions, shape (X, Y, Z, n).
    affine
        Voxel to world, mm.

    Raises
    ------
    InvalidInput
        If the file is damaged, grows as only a zip bomb does, lacks a part, or has no fiber that can be read.
    """
    content = matrices(unpacked(existing_file(path)), path, _WANTED)
    shape = checked_dimension(content, path.name)
    affine = affine_of(content, shape, path.name)
    mask = _mask(content, shape, path.name)
    fibers, failure = [], InvalidInput(f"{path.name} has no fa0, so it has no fibers; reconstruct it again")
    for n in (n for n in range(_MAX_FIBERS) if f"fa{n}" in content):
        try:
            fibers.append(_fiber(content, n, shape, mask, path.name))
        except InvalidInput as error:
            failure = error
            note(f"fiber {n} was left out: {error}")
    if not fibers:
        raise failure
    return np.stack([part[0] for part in fibers], axis=3), np.stack([part[1] for part in fibers], axis=3), affine


def _fiber(
    content: Content, n: int, shape: tuple[int, int, int], mask: npt.NDArray[np.bool_] | None, file: str
) -> tuple[Array, Array]:
    """Directions (X, Y, Z, 3) and amplitudes (X, Y, Z) of a fiber."""
    amplitudes = _volume(content, f"fa{n}", shape, mask, file).astype(np.float32)
    if f"index{n}" not in content:
        own = _matrix(content, f"dir{n}", file)
        if own.size != 3 * np.prod(shape):
            raise InvalidInput(f"dir{n} of {file} has {own.size} numbers; 3 for each of {shape} are needed")
        return np.moveaxis(own.ravel(order="F").reshape((3, *shape), order="F"), 0, -1).astype(np.float32), amplitudes
    vertices = _matrix(content, "odf_vertices", file)
    if vertices.ndim != 2 or vertices.shape[0] != 3:
        raise InvalidInput(f"odf_vertices of {file} has shape {vertices.shape}; it has (3, V): copy the file again")
    there, index = amplitudes > 0, _volume(content, f"index{n}", shape, mask, file)
    known = there & (index >= 0) & (index < vertices.shape[1]) & (index == np.floor(index))
    if there.any() and not known.any():
        raise InvalidInput(f"index{n} of {file} has none of 0 to {vertices.shape[1] - 1}, the columns of odf_vertices")
    if lost := int(np.count_nonzero(there & ~known)):
        note(f"{lost} directions of fiber {n} have an index that odf_vertices does not have; they were left out")
    directions = np.zeros((*shape, 3), np.float32)
    directions[known] = vertices.T[index[known].astype(np.int64)]
    return directions, amplitudes


def unpacked(path: Path) -> Bytes:
    """Return the bytes of a file, or those inside of a gzip file as far as its size and the memory allow.

    Of a stream that is cut off, what is there, with a note.
    """
    if not is_gzip(path):
        return existing_map(path)
    try:
        return unpacked_gzip(path, lambda size: check_expansion(path, size))
    except (OSError, zlib.error) as error:
        raise damaged(path, error) from error


def matrices(data: Bytes, path: Path, wanted: Sequence[str]) -> dict[str, Array]:
    """Return the matrices of a MATLAB file of version 4 that are wanted and there, by name.

    A row or column that is cut off has the numbers that are there. What cannot be read is left out; notes tell both.
    InvalidInput if it is no such file.
    """
    if len(data) < _HEAD_BYTES or 0 not in data[:4]:  # files of other versions begin with text
        raise InvalidInput(f"{path.name} does not begin as a MATLAB file of version 4; it is no file of DSI Studio")
    found, at = dict[str, Array](), 0
    for _ in range(_MAX_MATRICES):
        if at == len(data):
            return found
        order, kind = "<", int.from_bytes(data[at : at + 4], "little")
        if kind >= _BIG_ENDIAN:
            order, kind = ">", int.from_bytes(data[at : at + 4], "big") - _BIG_ENDIAN
        if at + _HEAD_BYTES > len(data) or kind not in _TYPES:
            break
        rows, columns, imaginary, length = struct.unpack_from(f"{order}4i", data, at + 4)
        longest = min(_LONGEST_NAME, len(data) - at - _HEAD_BYTES)
        if min(rows, columns) < 0 or imaginary not in (0, 1) or not 0 < length <= longest:
            break
        start, count, (code, is_real) = at + _HEAD_BYTES + length, rows * columns, _TYPES[kind]
        name = data[at + _HEAD_BYTES : start].partition(b"\0")[0].decode("latin1")
        dtype = np.dtype(f"{order}{code}")
        at = start + count * dtype.itemsize * (1 + imaginary)
        there = max(0, min(count, (len(data) - start) // dtype.itemsize))
        if name in wanted and (imaginary or not is_real or (there < count and 1 not in (rows, columns))):
            note(f"{name} is cut off or no matrix of real numbers, and was left out")
        elif name in wanted:
            values = np.frombuffer(data, dtype, there, start).astype(dtype.newbyteorder("="), copy=False)
            found[name] = values.reshape((rows, columns) if there == count else (1, -1), order="F")
            if there < count:
                note(f"{name} ends after {there} of {count} numbers")
        if at > len(data):
            return found
    note(f"byte {at} of {len(data)} begins no matrix of MATLAB; what follows was not read")
    return found


def _matrix(content: Content, name: str, file: str) -> Array:
    if name not in content:
        raise InvalidInput(f"{file} has no {name}, so it has no directions of fibers; reconstruct it in DSI Studio")
    return content[name]


def checked_dimension(content: Content, file: str) -> tuple[int, int, int]:
    """Return the number of voxels along each axis; InvalidInput if a file does not tell it."""
    given = _matrix(content, "dimension", file).ravel()
    if len(given) != 3 or not ((given >= 1) & (given <= 1 << 20) & (given == np.floor(given))).all():
        raise InvalidInput(f"dimension of {file} is {given[:4].tolist()}; three positive integers are needed")
    x, y, z = (int(length) for length in given)
    return x, y, z


def affine_of(content: Content, shape: tuple[int, int, int], file: str) -> Affine:
    """Return voxel to world, mm, with a note where it is assumed; InvalidInput if it makes no sense."""
    if "trans" in content:
        given = content["trans"].astype(np.float64)
        if given.size != 16 or not np.isfinite(given).all():
            raise InvalidInput(f"trans of {file} has shape {given.shape} or is not finite; 4 x 4 numbers are needed")
        # MATLAB's columns are DSI Studio's rows, but files that MATLAB wrote have it upright; the last row tells.
        rows = given.ravel(order="F").reshape(4, 4)
        upright = next((matrix for matrix in (rows, rows.T) if not matrix[3, :3].any()), None)
        if upright is None:
            raise InvalidInput(f"trans of {file} is no affine, whose last row is 0, 0, 0, 1; copy the file again")
        return checked_affine(np.vstack([upright[:3], (0.0, 0.0, 0.0, 1.0)]))
    sizes = _matrix(content, "voxel_size", file).ravel().astype(np.float64)
    if len(sizes) != 3 or not ((sizes > 1e-6) & (sizes < 1e6)).all():
        raise InvalidInput(f"voxel_size of {file} is {sizes[:4].tolist()}; three lengths in mm are needed")
    affine = np.diag([-sizes[0], -sizes[1], sizes[2], 1.0])
    affine[:2, 3] = sizes[:2] * (np.array(shape[:2]) - 1)
    note("the file has no trans: its voxels were taken to be in LPS order, with the origin where DSI Studio puts it")
    return affine


def _mask(content: Content, shape: tuple[int, int, int], file: str) -> npt.NDArray[np.bool_] | None:
    """Voxels whose values a file holds, the first index fastest, or None if it holds all."""
    if "mask" not in content:
        return None
    mask = content["mask"]
    if mask.size != np.prod(shape):
        raise InvalidInput(f"mask of {file} has {mask.size} values for the dimension {shape}; copy the file again")
    return np.asarray(mask.ravel(order="F") != 0)


def _volume(
    content: Content, name: str, shape: tuple[int, int, int], mask: npt.NDArray[np.bool_] | None, file: str
) -> Array:
    """A volume (X, Y, Z), scaled; 0 outside of the mask, if its values are those of the mask."""
    values = _matrix(content, name, file).ravel(order="F")
    if f"{name}.slope" in content or f"{name}.inter" in content:
        slope, inter = (
            float(content[key].ravel()[0]) if key in content and content[key].size else default
            for key, default in ((f"{name}.slope", 1.0), (f"{name}.inter", 0.0))
        )
        values = values.astype(np.float32) * np.float32(slope) + np.float32(inter)
    count = int(np.prod(shape))
    if values.size == count:
        return values.reshape(shape, order="F")
    if mask is None or values.size != np.count_nonzero(mask):
        inside = "" if mask is None else f" or the {np.count_nonzero(mask)} of the mask"
        raise InvalidInput(f"{name} of {file} has {values.size} values for {count} voxels{inside}; copy the file again")
    volume = np.zeros(count, values.dtype)
    volume[mask] = values
    return volume.reshape(shape, order="F")
