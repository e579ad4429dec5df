"""The one way to do operations, after those that they need; results are kept, and written to files."""

import threading
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.graphs import ancestry
from napari_gpubio.core.operations.kinds import kind_registered
from napari_gpubio.core.operations.records import File, Held, Operation, Output, Reading, file, input_infos, words_of
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.settings import record_fields
from napari_gpubio.core.steps import Step, drive, driven

_WAITING_SECONDS = 0.1


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
