"""What an MCX source has in ``Pattern``: an image on a rectangle, a stack of images, or the cells of a volume."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.mcx.io.jdata import Section, decode_array, is_array

Array = npt.NDArray[Any]


def read_image(section: Section, columns: int, rows: int) -> Array:
    """The pattern as (rows, columns): rows along the second edge, columns along the first.

    Raises
    ------
    InvalidInput
        If there are more or fewer numbers, or the sizes are others than the source's.
    """
    node = section.get("Pattern")
    if is_array(node):
        return _sized(decode_array(node, "Optode.Source.Pattern"), (columns, rows)).T
    pattern = section.section("Pattern")
    sizes = pattern.whole("Nx"), pattern.whole("Ny")
    count = sizes[0] * sizes[1]
    if sizes != (columns, rows) or pattern.whole("Nz", 1) != 1:
        raise InvalidInput(
            f"Optode.Source.Pattern has Nx, Ny = {sizes}, and Param1[3], Param2[3] are {(columns, rows)}; make them "
            "the same"
        )
    return np.array(pattern.numbers("Data", count, count)).reshape(rows, columns)


def read_stack(section: Section, columns: int, rows: int) -> Array:
    """Patterns that share photons, shape (K, rows, columns): rows along the second edge, columns along the first.

    Raises
    ------
    InvalidInput
        If there are more or fewer numbers, or the sizes are others than the source's.
    """
    count, node = section.whole("SrcNum", 1), section.get("Pattern")
    if is_array(node):
        array = decode_array(node, "Optode.Source.Pattern")
        return _sized(array, (array.shape[0], columns, rows)).swapaxes(1, 2)
    pattern = section.section("Pattern")
    sizes = tuple(pattern.whole(name, 1) for name in ("Nx", "Ny", "Nz"))
    if sizes not in ((count, columns, rows), (columns, rows, 1), (columns, rows, count)):
        raise InvalidInput(
            f"Optode.Source.Pattern has Nx, Ny, Nz = {sizes}, and SrcNum, Param1[3], Param2[3] are "
            f"{(count, columns, rows)}; make them the same"
        )
    size = count * columns * rows
    return np.moveaxis(np.reshape(pattern.numbers("Data", size, size), (rows, columns, count)), 2, 0)


def read_cells(section: Section, shape: tuple[int, int, int]) -> Array:
    """The pattern of a volume, shape (X, Y, Z).

    Raises
    ------
    InvalidInput
        If there are several patterns, or the sizes are others than the source's.
    """
    if section.whole("SrcNum", 1) != 1:
        raise InvalidInput("Optode.Source.SrcNum requests several patterns at once; write one file for each")
    node = section.get("Pattern")
    if is_array(node):
        array = decode_array(node, "Optode.Source.Pattern")
        if array.shape != shape:
            raise InvalidInput(f"Optode.Source.Pattern has shape {array.shape}, and Param1 is {shape}; make them equal")
        return array
    pattern = section.section("Pattern")
    sizes, count = (pattern.whole("Nx"), pattern.whole("Ny"), pattern.whole("Nz")), math.prod(shape)
    if sizes != shape:
        raise InvalidInput(f"Optode.Source.Pattern has Nx, Ny, Nz = {sizes}, and Param1 is {shape}; make them the same")
    return np.array(pattern.numbers("Data", count, count)).reshape(shape, order="F")


def _sized(array: Array, shape: tuple[int, ...]) -> Array:
    if array.size != math.prod(shape) or [n for n in array.shape if n > 1] != [n for n in shape if n > 1]:
        raise InvalidInput(
            f"Optode.Source.Pattern has shape {array.shape}, and Param1[3], Param2[3] are {shape}; make them the same"
        )
    return array.reshape(shape)
