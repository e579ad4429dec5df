"""Arrays that operations hold: their checksums, and their bytes in files, also where they do not fit into memory."""

import hashlib
import itertools
import math
import tempfile
from collections.abc import Iterator
from typing import IO, Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
CHECKSUM_DIGITS = 32
_BLOCK = 64 << 20  # bytes that are read at once of an array that is not in memory


def array_checksum(array: Any) -> str:
    """Return the checksum of an array: type, shape, order in memory, along which samples are numbered, and content."""
    order, content = content_of(array)
    digest = hashlib.sha256(f"{np.dtype(array.dtype).str}{tuple(array.shape)}{order}".encode())
    for block in content:
        digest.update(block)
    return digest.hexdigest()[:CHECKSUM_DIGITS]


def write_array(stream: IO[bytes], array: Any) -> None:
    """Write an array as ``.npy``, of which no more than a block is in memory where it is read when it is asked for."""
    order, content = content_of(array)
    about = {"descr": np.lib.format.dtype_to_descr(np.dtype(array.dtype)), "fortran_order": order == "F"}
    np.lib.format.write_array_header_1_0(stream, {**about, "shape": tuple(array.shape)})
    for block in content:
        stream.write(block)


def order_of(array: Any) -> Literal["C", "F"]:
    """Order of an array in memory: the first index runs fastest (F), or not."""
    if is_read_later(array):
        return "C"
    steps = [abs(step) for step, length in zip(array.strides, array.shape, strict=True) if length > 1]
    if array.flags.c_contiguous or len(steps) < 2:
        return "C"
    return "F" if all(one <= other for one, other in itertools.pairwise(steps)) else "C"


def content_of(array: Any) -> tuple[Literal["C", "F"], Iterator[memoryview]]:
    """Order of an array in memory, and its bytes in that order, in blocks if it is not in memory."""
    order, blocks = order_of(array), _blocks(array) if is_read_later(array) else iter((array,))
    turned = (block.T if order == "F" else block for block in blocks)
    return order, (np.ascontiguousarray(one).view(np.uint8).reshape(-1).data for one in turned)


def is_read_later(array: Any) -> bool:
    """Whether an array, such as of dask or zarr, is read when parts of it are asked for."""
    return not isinstance(array, np.ndarray) and bool(getattr(array, "shape", ())) and hasattr(array, "dtype")


def _blocks(array: Any) -> Iterator[Array]:
    """Blocks of an array along its first axis."""
    rows = max(1, _BLOCK * len(array) // max(1, size_of(array)))
    return (np.asarray(array[first : first + rows]) for first in range(0, len(array), rows))


def size_of(array: Any) -> int:
    """Bytes of an array."""
    return math.prod(array.shape) * int(np.dtype(array.dtype).itemsize)


def array_in_file(array: Array) -> Array:
    """The same array in a file, which goes when nobody has it any more, or the program ends, in whatever way."""
    order, content = content_of(array)
    with tempfile.TemporaryFile(prefix="napari-gpubio-") as stream:
        for block in content:
            stream.write(block)
        stream.flush()
        return np.memmap(stream, array.dtype, "r", shape=array.shape, order=order)
