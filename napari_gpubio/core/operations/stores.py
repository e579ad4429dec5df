"""Where values live: arrays by checksum, results by the operations that made them; and the one way to run one."""

import dataclasses
import hashlib
import itertools
import math
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, Generic, Literal, TypeVar
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import psutil

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import map_of
from napari_gpubio.core.operations.records import (
    File,
    Held,
    Operation,
    Output,
    Reading,
    ancestry,
    file,
    input_infos,
    words_of,
)
from napari_gpubio.core.settings import record_fields
from napari_gpubio.core.steps import Step, drive, driven

Array = npt.NDArray[Any]
T = TypeVar("T")
_DIGITS = 32
_MOST_BYTES, _SHARE = 8 << 30, 0.25  # of results that a store keeps, at most: bytes, and of the memory
_BLOCK = 64 << 20  # bytes that are read at once of an array that is not in memory
_WAITING_SECONDS = 0.1


# -- checksums --------------------------------------------------------------------------------------------------------


def array_checksum(array: Any) -> str:
    """Return the checksum of an array: type, shape, order in memory, along which samples are numbered, and content."""
    order, content = _content(array)
    digest = hashlib.sha256(f"{np.dtype(array.dtype).str}{tuple(array.shape)}{order}".encode())
    for block in content:
        digest.update(block)
    return digest.hexdigest()[:_DIGITS]


def write_array(stream: IO[bytes], array: Any) -> None:
    """Write an array as ``.npy``, of which no more than a block is in memory where it is read when it is asked for."""
    order, content = _content(array)
    about = {"descr": np.lib.format.dtype_to_descr(np.dtype(array.dtype)), "fortran_order": order == "F"}
    np.lib.format.write_array_header_1_0(stream, {**about, "shape": tuple(array.shape)})
    for block in content:
        stream.write(block)


def _order(array: Any) -> Literal["C", "F"]:
    """Order of an array in memory: the first index runs fastest (F), or not."""
    if _is_read_later(array):
        return "C"
    steps = [abs(step) for step, length in zip(array.strides, array.shape, strict=True) if length > 1]
    if array.flags.c_contiguous or len(steps) < 2:
        return "C"
    return "F" if all(one <= other for one, other in itertools.pairwise(steps)) else "C"


def _content(array: Any) -> tuple[Literal["C", "F"], Iterator[memoryview]]:
    """Order of an array in memory, and its bytes in that order, in blocks if it is not in memory."""
    order, blocks = _order(array), _blocks(array) if _is_read_later(array) else iter((array,))
    turned = (block.T if order == "F" else block for block in blocks)
    return order, (np.ascontiguousarray(one).view(np.uint8).reshape(-1).data for one in turned)


def _is_read_later(array: Any) -> bool:
    """Whether an array, such as of dask or zarr, is read when parts of it are asked for."""
    return not isinstance(array, np.ndarray) and bool(getattr(array, "shape", ())) and hasattr(array, "dtype")


def _blocks(array: Any) -> Iterator[Array]:
    """Blocks of an array along its first axis."""
    rows = max(1, _BLOCK * len(array) // max(1, _size_of(array)))
    return (np.asarray(array[first : first + rows]) for first in range(0, len(array), rows))


def _size_of(array: Any) -> int:
    """Bytes of an array."""
    return math.prod(array.shape) * int(np.dtype(array.dtype).itemsize)


# -- kinds of results -------------------------------------------------------------------------------------------------


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


def kind_registered(type_: type) -> Kind[Any]:
    """Return what a type of results, or a type that it is a kind of, can do.

    Raises
    ------
    TypeError
        If nobody has registered it.
    """
    for base in type_.__mro__:
        if base in _kinds:
            return _kinds[base]
    raise TypeError(f"{type_.__name__} is no registered kind of result")


def digest(value: Any) -> str:
    """Return the checksum of all that makes a value what it is; what is told about it does not count."""
    found = hashlib.sha256()
    for one in _leaves(kind_registered(type(value)).counts(value)):
        found.update(array_checksum(one).encode() if isinstance(one, np.ndarray) else repr(one).encode())
        found.update(b"\0")
    return found.hexdigest()[:_DIGITS]


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


def _nbytes(value: Any) -> int:
    """Bytes of the arrays of a result that are in memory."""
    return sum(one.nbytes for one in _leaves(value) if isinstance(one, np.ndarray) and map_of(one) is None)


# -- values -----------------------------------------------------------------------------------------------------------


def _in_file(array: Array) -> Array:
    """The same array in a file, which goes when nobody has it any more, or the program ends, in whatever way."""
    order, content = _content(array)
    with tempfile.TemporaryFile(prefix="napari-gpubio-") as stream:
        for block in content:
            stream.write(block)
        stream.flush()
        return np.memmap(stream, array.dtype, "r", shape=array.shape, order=order)


class Store:
    """Arrays and results of a program; results are kept for each kind of device, whose bits differ.

    Parameters
    ----------
    budget
        Bytes of results that are kept; beyond them, what was used longest ago goes, and is made again when needed. As
        much is kept in memory of arrays; beyond that, they wait in temporary files. By default a quarter of the memory,
        and 8 GB at most.
    """

    def __init__(self, budget: int | None = None) -> None:
        usual = min(_MOST_BYTES, int(_SHARE * psutil.virtual_memory().total))
        self.budget = usual if budget is None else budget
        self.runs = 0  # how many operations were done
        self._arrays: dict[str, Any] = {}
        self._results: OrderedDict[tuple[str, str], tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()
        self._making: WeakValueDictionary[tuple[str, str], threading.Lock] = WeakValueDictionary()

    def hold(self, array: Any) -> Held:
        """Keep a copy of an array, which may be painted on later.

        An array that is read when parts of it are asked for, such as of dask or of a mapped file, and larger than the
        budget, is kept as it is: all of it is read here, block by block, for its checksum, and must not change after.
        """
        is_elsewhere = _is_read_later(array) or map_of(array) is not None
        stays = is_elsewhere and _size_of(array) > self.budget
        found = array if stays else np.asarray(array)
        checksum = array_checksum(found)
        if checksum not in self._arrays:
            kept = found if stays else found.copy(order=_order(found))
            if not stays:
                kept.flags.writeable = False
            with self._lock:
                self._arrays.setdefault(checksum, kept)
                self._put_away()
        return Held(checksum)

    def _put_away(self) -> None:
        """Move what was held first to files, until the rest is within the budget."""
        held = {name: one for name, one in self._arrays.items() if isinstance(one, np.ndarray)}
        inside = {name: one for name, one in held.items() if one.nbytes and map_of(one) is None}
        excess = sum(one.nbytes for one in inside.values()) - self.budget
        for name, array in [*inside.items()][:-1]:  # the last one is about to be used
            if excess <= 0:
                return
            try:
                self._arrays[name] = _in_file(array)
            except OSError:  # no room there either: it stays where it is
                return
            excess -= array.nbytes

    def array(self, held: Held) -> Any:
        """Return an array that is held; InvalidInput if there is none."""
        if held.checksum not in self._arrays:
            raise InvalidInput(
                f"the array {held.checksum[:8]} is not here; open the session, or load the array, that it came with"
            )
        return self._arrays[held.checksum]

    def adopt_arrays(self, other: "Store") -> None:
        """Hold what another store holds, too."""
        self._arrays |= other._arrays

    def keep(self, operation: Operation, kind: str, result: Any) -> None:
        """Keep what an operation made on a kind of device; what is read is the same on all of them."""
        size = _nbytes(result)
        with self._lock:
            self._results[_key(operation, kind)] = result, size
            total = sum(bytes_ for _, bytes_ in self._results.values())
            while total > self.budget and len(self._results) > 1:
                _, (_, freed) = self._results.popitem(last=False)
                total -= freed

    def result(self, operation: Operation, kind: str) -> Any:
        """Return what an operation made on a kind of device, or None if it is not kept."""
        with self._lock:
            if (found := self._results.get(_key(operation, kind))) is None:
                return None
            self._results.move_to_end(_key(operation, kind))
            return found[0]

    def last_result(self, operation: Operation) -> tuple[str, Any] | None:
        """Return what an operation made on whatever kind of device was used last, and that kind; None if not kept."""
        with self._lock:
            found = [(kind, made) for (id_, kind), (made, _) in self._results.items() if id_ == operation.id]
        return found[-1] if found else None

    def last_value(self, output: Output[Any]) -> Any:
        """Return a result that was made on whatever kind of device was used last; None if it is not kept."""
        kept = self.last_result(output.of)
        return None if kept is None else output.value_in(kept[1])

    def clear(self) -> None:
        """Forget all results."""
        with self._lock:
            self._results.clear()

    def making(self, operation: Operation, kind: str) -> threading.Lock:
        """Lock of whoever makes the result of an operation."""
        with self._lock:
            return self._making.setdefault(_key(operation, kind), threading.Lock())


def _key(operation: Operation, kind: str) -> tuple[str, str]:
    return operation.id, "" if isinstance(operation, Reading) else kind


STORE = Store()


def run_steps(
    output: Operation | Output[Any],
    *,
    device: str | Device = "auto",
    store: Store = STORE,
    stop: threading.Event | None = None,
    known: Any = None,
) -> Generator[Step, None, Any]:
    """Do an operation, after those that it needs and whose results are not kept; returns what it makes.

    Of an `Operation`, that is all that it makes; of an `Output`, one result.

    Parameters
    ----------
    output
        What is wanted.
    device, stop
        As of every ``x_steps``. A result of which a part was done is returned, but not kept; where it is one that
        another operation needs, nothing is made of it, and None is returned.
    store
        Where results are kept.
    known
        What an earlier run of it has left, where it `Operation.continues`.

    Raises
    ------
    InvalidInput
        As of the operations; or if a file has changed since.
    """
    wanted, chosen = (output.of if isinstance(output, Output) else output), choose_device(device)
    if isinstance(output, Output) and not wanted.has(output.name):
        raise InvalidInput(f"{wanted.verb} has no {output.name} with these settings; choose another of its results")
    needed, here = _needed(wanted, chosen.kind, store)
    for one in needed:
        made = yield from _made(one, here, chosen, store, stop, known if one == wanted else None)
        if one != wanted and not _is_base(one, made):
            return None
        here[one.id] = made
    made = here[wanted.id]
    return output.value_in(made) if isinstance(output, Output) else made


run = driven(run_steps)


def _is_base(operation: Operation, made: Any) -> bool:
    """Whether something may be made of a result: of one that was stopped only if it is read so from a file."""
    return made is not None and (isinstance(operation, Reading) or getattr(made, "complete", True))


def _needed(wanted: Operation, kind: str, store: Store) -> tuple[list[Operation], dict[str, Any]]:
    """Operations that are to be done, each after what it needs; and results that are kept, by their operations' ids."""
    kept, missing, waiting = dict[str, Any](), {wanted.id}, [wanted]
    while waiting:
        one = waiting.pop()
        if (result := store.result(one, kind)) is not None:
            kept[one.id] = result
        else:
            new = [ref.of for _, ref in one.inputs() if ref.of.id not in missing]
            missing |= {other.id for other in new}
            waiting += new
    return [one for one in ancestry(wanted) if one.id in missing and one.id not in kept], kept


def _made(
    operation: Operation,
    here: Mapping[str, Any],
    device: Device,
    store: Store,
    stop: threading.Event | None,
    known: Any,
) -> Generator[Step, None, Any]:
    """The result of an operation whose inputs are here; one at a time makes it, and others wait."""
    making = store.making(operation, device.kind)
    while not making.acquire(timeout=_WAITING_SECONDS):
        if stop is not None and stop.is_set():
            return None
        yield Step(0, 1, f"waiting for another {operation.verb}")
    try:
        if (kept := store.result(operation, device.kind)) is not None:
            return kept
        more: dict[str, Any] = {"known": known} if operation.continues else {}
        result = yield from operation.steps(_data(operation, here, store), device=device, stop=stop, **more)
        store.runs += 1
        if getattr(result, "complete", True):
            store.keep(operation, device.kind, result)
        return result
    finally:
        making.release()


def write_steps(
    operation: Operation,
    files: Mapping[str, Path],
    *,
    device: str | Device = "auto",
    store: Store = STORE,
    stop: threading.Event | None = None,
) -> Generator[Step, None, Any]:
    """Do an operation that writes results to files as they are made, after those that it needs; see `run_steps`.

    Parameters
    ----------
    operation
        One that has `Operation.steps_into`.
    files
        Where results go, by their names.
    device, store, stop
        As of `run_steps`.

    Returns
    -------
    What `Operation.steps_into` returns; None if one that it needs was stopped.
    """
    here, chosen = dict[str, Any](), choose_device(device)
    for needed in dict.fromkeys(ref.of for _, ref in operation.inputs()):
        made = yield from run_steps(needed, device=chosen, store=store, stop=stop)
        if not _is_base(needed, made):
            return None
        here[needed.id] = made
    return (yield from operation.steps_into(_data(operation, here, store), files, device=chosen, stop=stop))


def value_of(output: Output[Any], store: Store = STORE) -> Any:
    """Return a result that is kept, whatever kind of device it was made on, or else make it on the CPU."""
    kept = store.last_value(output)
    return run(output, device="cpu", store=store) if kept is None else kept


def save(
    output: Operation | Output[Any], path: str | Path, *, device: str | Device = "auto", store: Store = STORE
) -> None:
    """Write a result to a file, with its record; it is made if it is not kept.

    Raises
    ------
    InvalidInput
        As of the operations, or if the file cannot be written.
    """
    wanted = output if isinstance(output, Output) else output.output()
    write_value(run(wanted, device=device, store=store), path, wanted)


def write_value(
    value: Any, path: str | Path, output: Output[Any], progress: Callable[[Step], object] | None = None
) -> None:
    """Write a result, which an operation has made, with its record; InvalidInput if the file cannot be written."""
    from napari_gpubio.core.operations.files import record_of_output

    kind = kind_registered(type(value))
    if kind.write is None:
        raise InvalidInput(f"{words_of(kind.type)} is written to no file; write what is made of it")
    if isinstance(steps := kind.write(value, Path(path), record_of_output(output)), Generator):
        drive(steps, progress)


def _data(operation: Operation, here: Mapping[str, Any], store: Store) -> SimpleNamespace:
    """Values of an operation's inputs, files and arrays, under the names of its fields."""
    inputs, found = input_infos(type(operation)), dict[str, Any]()
    for field in record_fields(operation):
        value = getattr(operation, field.name)
        if field.name in inputs:
            refs = value if isinstance(value, tuple) else (value,)
            values = tuple(None if ref is None else ref.value_in(here[ref.of.id]) for ref in refs)
            found[field.name] = values if inputs[field.name].many else values[0]
        else:
            found[field.name] = _opened(value, store)
    return SimpleNamespace(**found)


def _opened(value: Any, store: Store) -> Any:
    """Paths of files, which have not changed, and arrays that are held; None of other settings."""
    if isinstance(value, File):
        return Path(file(value.path, value.checksum).path)
    if isinstance(value, Held):
        return store.array(value)
    if isinstance(value, tuple) and any(isinstance(one, (File, Held, tuple)) for one in value):
        return tuple(_opened(one, store) for one in value)
    return None
