"""What types of results can do: how they are compared, written, opened and shown."""

import dataclasses
import hashlib
import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from napari_gpubio.core.exchange import Described
from napari_gpubio.core.memory import map_of
from napari_gpubio.core.operations.arrays import CHECKSUM_DIGITS, array_checksum
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.verbs import OF_ENGINES

T = TypeVar("T")


@dataclass(frozen=True)
class Kind(Generic[T]):
    """What a type of results can do.

    Parameters
    ----------
    type
        The type.
    counts
        Its parts that make it what it is: arrays, numbers and texts, and tuples, mappings and dataclasses of these;
        iterators of what is too large for the memory.
    endings
        Of the files that it is written to.
    write
        Writes a value to a path, perhaps by steps; the last argument is the operation's record as plain data.
    beside
        The files that are written beside one, by what they are.
    opens
        Operation that opens such a file, or several, of which the first that `Reading.opens` a path is taken: its
        ``at`` takes the path, and what its other fields are.
    shows
        Where the function is that makes layers of it, as ``module:name``, so that nothing of napari is imported before:
        it takes the value, the `Output` that it is, the name, and where there are several pictures of it, which one;
        it returns napari's layer data. Empty where it is shown in no layer.
    kept_at
        Where what is done is kept before the file is whole: the file itself, or one beside it. It may refuse a path to
        which nothing can be written, before the run.
    unfinished
        Reads what a run has left there before it came to its end; None if it did.
    is_folder
        Whether a value is written as a folder of files; what is done is kept in it.
    """

    type: type[T]
    counts: Callable[[T], tuple[Any, ...]]
    endings: tuple[str, ...] = ()
    write: Callable[[T, Path, Mapping[str, Any]], object] | None = None
    beside: Callable[[Path], Mapping[str, Path]] = lambda _: {}
    opens: Any = None  # a class of operations, or several
    shows: str = ""
    kept_at: Callable[[Path], Path] = lambda path: path
    unfinished: Callable[[Path], Any] | None = None
    is_folder: bool = False

    @property
    def opening(self) -> tuple[Any, ...]:
        """Operations that open such files."""
        return self.opens if isinstance(self.opens, tuple) else () if self.opens is None else (self.opens,)


class MadeOf(Described):
    """Base of results that are made of one other, whose notes they have, and of which all was done, or not.

    A subclass says in its class line in which field that is: ``class Peaks(MadeOf, main="fixels")``.
    """

    _main: ClassVar[str]

    def __init_subclass__(cls, main: str = "", **more: Any) -> None:
        super().__init_subclass__(**more)
        if main:
            cls._main = main

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found or assumed, in sentences."""
        found: tuple[str, ...] = getattr(getattr(self, self._main), "notes", ())
        return found

    @property
    def complete(self) -> bool:
        """Whether all of it was done."""
        return bool(getattr(self, self._main).complete)


@dataclass(frozen=True)
class Conversion:
    """What a verb does that needs one kind of result and gets a file of another.

    Parameters
    ----------
    operation
        A class of operations, whose main result is the kind that is needed.
    field
        Its input that the file is opened for.
    takes
        Whether a file is of the other kind.
    """

    operation: type[Operation]
    field: str
    takes: Callable[[Path], bool]


_kinds: dict[type, Kind[Any]] = {}


_conversions: dict[type, Conversion] = {}


def register_kind(type_: type, counts: Callable[[Any], tuple[Any, ...]], **can: Any) -> None:
    """Make a type of results known, with what it can do; see `Kind`."""
    _kinds[type_] = Kind(type_, counts, **can)


def register_conversion(conversion: Conversion) -> None:
    """Let verbs that need the main result of an operation take the files of its input."""
    _conversions[next(iter(conversion.operation.makes.values()))] = conversion


def conversion_to(type_: type) -> Conversion | None:
    """Return what makes a type of results of files of another, or None."""
    return _conversions.get(type_)


def known_kinds() -> tuple[Kind[Any], ...]:
    """Return all types of results with what they can do, of the engines that are imported."""
    return tuple(_kinds.values())


def known_conversions() -> tuple[Conversion, ...]:
    """Return all conversions, of the engines that are imported."""
    return tuple(_conversions.values())


def kind_registered(type_: type) -> Kind[Any]:
    """Return what a type of results, or a type that it is a kind of, can do.

    Raises
    ------
    TypeError
        If nobody has registered it.
    """
    found = _known(type_)
    if found is None and (engine := _engine_of(type_)) is not None:  # nobody has needed its verbs before
        importlib.import_module(f"napari_gpubio.{engine}.operations")
        found = _known(type_)
    if found is None:
        raise TypeError(f"{type_.__name__} is no registered kind of result")
    return found


def _known(type_: type) -> Kind[Any] | None:
    return next((_kinds[base] for base in type_.__mro__ if base in _kinds), None)


def _engine_of(type_: type) -> str | None:
    """The engine whose type it is, if it has verbs."""
    package, _, rest = type_.__module__.partition(".")
    engine = rest.partition(".")[0]
    return engine if package == "napari_gpubio" and engine in OF_ENGINES else None


def digest(value: Any) -> str:
    """Return the checksum of all that makes a value what it is; notes on it do not count."""
    found = hashlib.sha256()
    for one in _leaves(kind_registered(type(value)).counts(value)):
        found.update(array_checksum(one).encode() if isinstance(one, np.ndarray) else repr(one).encode())
        found.update(b"\0")
    return found.hexdigest()[:CHECKSUM_DIGITS]


def _leaves(value: Any) -> Iterator[Any]:
    """Arrays, numbers and texts of a value, with the names under which they stand."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            yield str(key)
            yield from _leaves(value[key])
    elif isinstance(value, (tuple, list)):
        yield len(value)
        for one in value:
            yield from _leaves(one)
    elif isinstance(value, Iterator):
        for one in value:
            yield from _leaves(one)
    elif isinstance(value, np.generic):
        yield value.item()
    else:
        yield value


def sizes_of(value: Any) -> dict[int, int]:
    """Return the bytes of each array of a result that is in memory, by the identity of the array that owns them."""
    arrays = (one for one in _leaves(value) if isinstance(one, np.ndarray) and map_of(one) is None)
    return {id(owner): owner.nbytes for owner in map(_owner_of, arrays)}


def _owner_of(array: Any) -> Any:
    """The array whose memory an array is a view of, or itself."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array
