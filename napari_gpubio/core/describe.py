"""What a result says of itself to people: facts, pictures and tables.

From this one description are derived what notebooks show (`napari_gpubio.core.pages`), plots (`.plots`), tables and
arrays for other programs (`.exchange`), and the sections of a report. A part says what it tells of each of its types in
its module ``descriptions``, which is imported when one of them is described::

    @describes(TensorField)
    def _tensors(field):
        yield Fact("voxels", 1234)
        yield Slices("FA", field.tensors, field.affine, shows=fa_of)
"""

import dataclasses
import functools
import importlib
import importlib.util
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.numbers import number_text, short_number
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.core.text import one_line

Array = npt.NDArray[Any]
Style = Literal["gray", "heat", "log", "labels", "color"]
_SEARCHED = 64  # along each axis, for the middle of a volume
_SHOWN = 200  # characters of a fact
_ROOT = __name__.partition(".")[0]


@dataclass(frozen=True)
class Fact:
    """A name with a value, its unit, and its standard error if it is known."""

    name: str
    value: Any
    unit: str = ""
    error: float = math.nan

    @property
    def text(self) -> str:
        """Value, error and unit, for people."""
        value = self.value.item() if isinstance(self.value, np.generic) else self.value
        if isinstance(value, bool):
            value = "yes" if value else "no"
        if isinstance(value, int | float):
            value = number_text(float(value), self.error)
        return one_line(f"{value} {self.unit}".strip())[:_SHOWN]


@dataclass(frozen=True, eq=False)
class Slices(ShortRepr):
    """A volume, of which three slices are shown, or a plane.

    Parameters
    ----------
    name
        What the values are.
    values
        Shape as ``axes`` say, in the order of the file.
    affine
        Voxel to world, mm.
    unit
        Of the values.
    axes
        Names of the axes; the first three, or two of a plane, are those of the grid.
    style
        How they are shown: by gray, by heat, by heat of their logarithms, as labels, or as red, green and blue.
    shows
        What is shown of a slice, whose further axes it reduces, such as FA of tensors; None: the first of a series.
    shown_as
        What that is called.
    at
        Voxel that the slices go through; None: the middle of what is not zero.
    error
        Standard error of the values, of the same shape, if it is known.
    along
        Coordinates: for their names, the axis and the values along it.
    """

    name: str
    values: Any
    affine: Array
    unit: str = ""
    axes: tuple[str, ...] = ("x", "y", "z")
    style: Style = "gray"
    shows: Callable[[Array], Array] | None = None
    shown_as: str = ""
    at: Sequence[int] | None = None
    error: Any = None
    along: Mapping[str, tuple[str, Any]] = field(default_factory=dict)

    @property
    def grid(self) -> int:
        """Number of axes of the grid."""
        return 3 if self.axes[:3] == ("x", "y", "z") else 2

    def shown(self, where: tuple[Any, ...]) -> Array:
        """What is shown of a part of the grid, shape of that, or with red, green and blue behind it."""
        found = np.asarray(self.values[where])
        if self.shows is not None:
            return np.asarray(self.shows(found))
        more = found.ndim - (self.grid - sum(isinstance(one, int | np.integer) for one in where))
        return found.reshape(*found.shape[: found.ndim - more], -1)[..., 0] if more and self.style != "color" else found

    @functools.cached_property
    def center(self) -> tuple[int, ...]:
        """Voxel that the slices go through."""
        shape = self.values.shape[: self.grid]
        if self.at is not None:
            return tuple(int(np.clip(place, 0, size - 1)) for place, size in zip(self.at, shape, strict=True))
        steps = tuple(max(1, size // _SEARCHED) for size in shape)
        coarse = self.shown(tuple(slice(None, None, step) for step in steps))
        found = middle(coarse.any(axis=-1) if self.style == "color" else np.nan_to_num(coarse))
        return tuple(place * step for place, step in zip(found, steps, strict=True))


@dataclass(frozen=True, eq=False)
class Lines(ShortRepr):
    """Lines in world mm, such as fibers, colored by direction: line ``n`` is ``points[offsets[n]:offsets[n + 1]]``."""

    name: str
    points: Array
    offsets: Array


class Line(NamedTuple):
    """One of several curves: its name, where it runs over, its values, and their standard errors if they are known."""

    name: str
    x: Array
    y: Array
    error: Array | None = None


@dataclass(frozen=True, eq=False)
class Curves:
    """Curves over one axis; each axis has a name and a unit, and ``log`` is one whose values fall by decades."""

    name: str
    x: tuple[str, str]
    y: tuple[str, str]
    lines: tuple[Line, ...]
    log: bool = False


@dataclass(frozen=True, eq=False)
class Matrix(ShortRepr):
    """A matrix whose rows and columns have names."""

    name: str
    values: Array
    rows: Sequence[str]
    columns: Sequence[str]
    unit: str = ""


@dataclass(frozen=True, eq=False)
class Rows:
    """A table: columns, all of one length, by their names, with units where they are not in the names.

    ``ordered`` is one whose first rows are those to look at; of another, people see means and ranges.
    """

    name: str
    columns: Mapping[str, Any]
    units: Mapping[str, str] = field(default_factory=dict)
    ordered: bool = True

    @staticmethod
    def of(name: str, records: Sequence[Mapping[str, Any]]) -> "Rows":
        """Return the table of rows that have the same names."""
        return Rows(name, {key: [one.get(key) for one in records] for key in (records[0] if records else ())})

    def __len__(self) -> int:
        return max(map(len, self.columns.values()), default=0)


Item = Fact | Slices | Lines | Curves | Matrix | Rows
Describer = Callable[[Any], Iterator[Item]]
_describers: dict[type, Describer] = {}


def describes(*types: type) -> Callable[[Describer], Describer]:
    """Register what tells of the values of some types, and of those that are made of them."""

    def register(describer: Describer) -> Describer:
        _describers.update(dict.fromkeys(types, describer))
        return describer

    return register


def items_of(value: Any) -> Iterator[Item]:
    """Return what a result says of itself, for programs: errors are theirs."""
    return _describer(type(value))(value)


def description(value: Any) -> list[Item]:
    """Return what a result says of itself; what cannot be described is left out, with a fact that says why.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.diffusion import Response
    >>> [item.name for item in description(Response(coefficients=np.ones((1, 4)), bvals=(1000,)))][:2]
    ['largest order', 'coefficients']
    """
    found: list[Item] = []
    try:
        found.extend(items_of(value))
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not keep people from their results
        found.append(Fact("not shown", f"{type(error).__name__}: {error}"))
    notes = getattr(value, "notes", ())
    about = [Fact("note", note) for note in (notes if isinstance(notes, tuple) else ())]
    if not getattr(value, "complete", True):
        about.append(Fact("stopped", "before its end"))
    return [*found, *(one for one in about if one not in found)]


def _describer(kind: type) -> Describer:
    for base in kind.__mro__:
        root, _, rest = base.__module__.partition(".")
        module = f"{root}.{rest.partition('.')[0]}.descriptions"
        if root == _ROOT and base not in _describers and importlib.util.find_spec(module):
            importlib.import_module(module)
        if base in _describers:
            return _describers[base]
    return _plain_facts


def _plain_facts(value: Any) -> Iterator[Item]:
    """What a dataclass of an unknown type holds: plain values, and the shapes of arrays."""
    for one in dataclasses.fields(value) if dataclasses.is_dataclass(value) else ():
        held = getattr(value, one.name)
        if isinstance(held, str | int | float | np.generic):
            yield Fact(one.name.replace("_", " "), held)
        elif hasattr(held, "shape"):
            yield Fact(one.name.replace("_", " "), " x ".join(map(str, held.shape)))


def grid_facts(shape: Sequence[int], affine: Array) -> Iterator[Fact]:
    """Yield the size of a grid, and that of its voxels."""
    yield Fact("size", " x ".join(map(str, shape)))
    yield Fact("voxel", " x ".join(short_number(float(size), 3) for size in voxel_sizes_mm(np.asarray(affine))), "mm")


def middle(there: Any) -> tuple[int, ...]:
    """Voxel in the middle of those that are not zero, or of all if there are none."""
    places = np.argwhere(there)
    return tuple(map(int, np.median(places, axis=0))) if len(places) else tuple(n // 2 for n in np.shape(there))


def hottest(values: Any) -> tuple[int, ...]:
    """Voxel of the largest value."""
    array = np.nan_to_num(np.asarray(values))
    return tuple(map(int, np.unravel_index(int(array.argmax()), array.shape)))
