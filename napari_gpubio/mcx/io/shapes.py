"""The shapes of MCX as voxel labels.

A list of shapes is drawn in its order into one grid; each writes its ``Tag`` over what was there. The rules are those
of MCX to the voxel, oddities included:

* A voxel belongs to a sphere, box, cylinder or half space (``UpperSpace``) when its center does, the surface included
  (not that of the half space). Distances are computed in single precision, as MCX does.
* Positions count from the corner of the first voxel: (0, 0, 0), or (1, 1, 1) where the file counts from 1, or the
  ``Origin`` given in the list. It holds for ``Box``, ``Cylinder`` and ``Subgrid``; spheres and half spaces always count
  from (0, 0, 0).
* ``Subgrid`` numbers voxels from 1 and takes ``Size`` + 1 of them along each axis.
* ``XLayers`` [first, last, tag] and ``XSlabs`` [first, last] number voxels from 1, both ends included, whatever the
  origin.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, free_memory_bytes
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.mcx.io.jdata import Section, checked_numbers, checked_wholes, shown

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Dim = tuple[int, int, int]
LONGEST_AXIS = 32767  # voxels; MCX keeps a voxel's index in 16 bits
MAX_TAG = 65535
_BYTES_PER_VOXEL = 12  # to draw the labels and to check them
_AXES = "XYZ"


def rasterize(shapes: Sequence[Any], dim: Sequence[int] | None, *, from_zero: bool) -> npt.NDArray[np.uint16]:
    """Draw a list of shapes into labels, shape (X, Y, Z).

    Shapes are objects with one key, such as ``{"Sphere": {"Tag": 2, "O": [30, 30, 30], "R": 15}}``. ``dim`` is the grid
    to draw into, label 0, or None if the list has a ``Grid``; positions count from 0 (``OriginType`` 1) or from 1.
    """
    start = 0.0 if from_zero else 1.0
    canvas = _Canvas(None if dim is None else empty_grid(dim), np.full(3, start, np.float32))
    for number, shape in enumerate(shapes):
        with np.errstate(over="ignore", invalid="ignore"):  # a radius of 1e300 covers all
            canvas.draw(shape, f"Shapes[{number}]")
    return canvas.grid()


def empty_grid(dim: Sequence[int], tag: int = 0) -> npt.NDArray[np.uint16]:
    """Return a grid of one label; dimensions must lie in 1 to 32767, and memory must suffice."""
    if len(dim) != 3 or min(dim) < 1 or max(dim) > LONGEST_AXIS:
        raise InvalidInput(f"the grid has {list(dim)} voxels; each dimension must lie between 1 and {LONGEST_AXIS}")
    x, y, z = (int(length) for length in dim)
    needed, free = x * y * z * _BYTES_PER_VOXEL, free_memory_bytes(CPU)
    if needed > free:
        raise InvalidInput(
            f"a grid of {x} x {y} x {z} voxels needs {needed / 2**20:.0f} MB of memory and {free / 2**20:.0f} MB are "
            "free; use a coarser grid"
        )
    return np.full((x, y, z), tag, np.uint16) if tag else np.zeros((x, y, z), np.uint16)


@dataclass
class _Canvas(ShortRepr):
    """The grid while it is drawn, and where positions count from."""

    labels: npt.NDArray[np.uint16] | None
    origin: Floats

    def grid(self) -> npt.NDArray[np.uint16]:
        if self.labels is None:
            raise InvalidInput("the size of the grid is missing; give Domain.Dim, or begin the shapes with a Grid")
        return self.labels

    def draw(self, shape: Any, place: str) -> None:
        if not isinstance(shape, Mapping) or not shape:
            raise InvalidInput(f"{place} is {shown(shape)}; give an object such as {{'Sphere': {{...}}}}")
        name = next(iter(shape))  # MCX looks at the first key only
        if name not in _COMMANDS:
            raise InvalidInput(f"{place} is a {name[:40]!r}, which is not known; known are {', '.join(_COMMANDS)}")
        _COMMANDS[name](self, Section(place, shape), name)

    def name(self, shape: Section, key: str) -> None:
        """A title."""

    def set_origin(self, shape: Section, key: str) -> None:
        self.origin = np.array(shape.numbers(key, 3, 3)).astype(np.float32)

    def new_grid(self, shape: Section, key: str) -> None:
        content = shape.section(key)
        self.labels = empty_grid(content.wholes("Size", 3), _tag(content))

    def sphere(self, shape: Section, key: str) -> None:
        content = shape.section(key)
        center, radius = _vector(content, "O"), np.float32(content.number("R"))

        def inside(x: Floats, y: Floats, z: Floats) -> Array:
            dx, dy, dz = x - center[0], y - center[1], z - center[2]
            return np.asarray(dx * dx + dy * dy + dz * dz <= radius * radius)

        self._fill(inside, _tag(content))

    def box(self, shape: Section, key: str) -> None:
        content = shape.section(key)
        low = _vector(content, "O") - self.origin
        high = low + _vector(content, "Size")

        def inside(x: Floats, y: Floats, z: Floats) -> Array:
            within = [(low[a] <= v) & (v <= high[a]) for a, v in enumerate((x, y, z))]
            return np.asarray(within[0] & within[1] & within[2])

        self._fill(inside, _tag(content))

    def subgrid(self, shape: Section, key: str) -> None:
        content = shape.section(key)
        first, size = content.wholes("O", 3), content.wholes("Size", 3)
        starts = [_index(number - 1 - float(shift)) for number, shift in zip(first, self.origin, strict=True)]
        spans = [_span(start, start + n + 1) for start, n in zip(starts, size, strict=True)]  # Size + 1, as in MCX
        self.grid()[spans[0], spans[1], spans[2]] = _tag(content)

    def cylinder(self, shape: Section, key: str) -> None:
        content = shape.section(key)
        start, end = _vector(content, "C0") - self.origin, _vector(content, "C1") - self.origin
        axis, radius = end - start, np.float32(content.number("R"))
        length = np.sqrt(axis[0] * axis[0] + axis[1] * axis[1] + axis[2] * axis[2])
        if not 0 < length < np.inf:
            raise InvalidInput(f"{shape.name}.{key} has the length {length:g}; its ends C0 and C1 must differ")
        axis = axis / length

        def inside(x: Floats, y: Floats, z: Floats) -> Array:
            dx, dy, dz = x - start[0], y - start[1], z - start[2]
            along = axis[0] * dx + axis[1] * dy + axis[2] * dz
            off = dx * dx + dy * dy + dz * dz - along * along
            return np.asarray((along >= 0) & (along <= length) & (off <= radius * radius))

        self._fill(inside, _tag(content))

    def upper_space(self, shape: Section, key: str) -> None:
        content = shape.section(key)
        a, b, c, d = np.array(content.numbers("Coef", 4, 4)).astype(np.float32)
        self._fill(lambda x, y, z: np.asarray(a * x + b * y + c * z > d), _tag(content))

    def layers(self, shape: Section, key: str) -> None:
        for row in _rows(shape.get(key), 3):
            first, last, tag = checked_wholes(row, f"a layer of {shape.name}.{key}", 3)
            self._fill_between(key, max(first, 1) - 1, last, _checked_tag(tag, f"{shape.name}.{key}"))

    def slabs(self, shape: Section, key: str) -> None:
        content = shape.section(key)
        for row in _rows(content.get("Bound"), 2):
            low, high = checked_numbers(row, f"a slab of {content.name}.Bound", 2, 2)
            self._fill_between(key, max(low - 0.5, 0.0), high, _tag(content))

    def _fill_between(self, key: str, low: float, high: float, tag: int) -> None:
        """Fill the voxels from ``low`` to ``high`` along the axis that the key begins with."""
        axis = _AXES.index(key[0])
        labels = np.moveaxis(self.grid(), axis, 0)
        low, high = sorted((low, min(high, len(labels))))
        labels[_span(_index(low), _index(high))] = tag

    def _fill(self, inside: Callable[[Floats, Floats, Floats], Array], tag: int) -> None:
        """Fill the voxels whose centers are inside, one plane across the first axis after the other."""
        labels = self.grid()
        x, y, z = (np.arange(length, dtype=np.float32) + np.float32(0.5) for length in labels.shape)
        for plane, height in zip(labels, x, strict=True):
            plane[np.broadcast_to(inside(height, y[:, None], z[None, :]), plane.shape)] = tag


_COMMANDS: dict[str, Callable[[_Canvas, Section, str], None]] = {
    "Name": _Canvas.name,
    "Origin": _Canvas.set_origin,
    "Grid": _Canvas.new_grid,
    "Sphere": _Canvas.sphere,
    "Box": _Canvas.box,
    "Subgrid": _Canvas.subgrid,
    "Cylinder": _Canvas.cylinder,
    "UpperSpace": _Canvas.upper_space,
    **{f"{axis}Layers": _Canvas.layers for axis in _AXES},
    **{f"{axis}Slabs": _Canvas.slabs for axis in _AXES},
}


def _tag(content: Section) -> int:
    return _checked_tag(content.whole("Tag", 0), content.name)


def _checked_tag(tag: int, place: str) -> int:
    if not 0 <= tag <= MAX_TAG:
        raise InvalidInput(f"{place} has the tag {tag}; labels lie between 0 and {MAX_TAG}")
    return tag


def _vector(content: Section, key: str) -> Floats:
    return np.array(content.numbers(key, 3, 3)).astype(np.float32)


def _rows(value: Any, length: int) -> list[Any]:
    """A list of lists; a single one may stand by itself."""
    if not isinstance(value, list):
        return [value]
    return [value] if len(value) == length and not isinstance(value[0], list) else value


def _index(position: float) -> int:
    """The position without its fraction; far outside it does not matter how far."""
    return int(max(-LONGEST_AXIS - 1, min(position, LONGEST_AXIS + 1)))


def _span(start: int, stop: int) -> slice:
    """Voxels from ``start`` up to ``stop``, as far as there are any."""
    return slice(max(start, 0), max(stop, 0))
