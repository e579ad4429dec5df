"""Sessions: layers, each with the operation that made it, drafts of panels, and views; saved, reopened, rerun.

A session is a folder, or a zip archive of it: ``session.json`` with the graph of operations, what is shown and how, and
the drafts; ``arrays/`` with what no file holds, by checksum; ``files/`` with those that were embedded. Nothing in it is
code, and opening one runs nothing.
"""

import atexit
import dataclasses
import functools
import json
import math
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from napari_gpubio.core.archives import opened_npz, opened_zip, read_npy
from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import (
    SAMPLED_PREFIX,
    atomic_folder,
    atomic_write,
    file_checksum,
    files_that_count,
    fingerprint,
    sample_folders,
)
from napari_gpubio.core.foreign import existing_json
from napari_gpubio.core.operations.arrays import array_checksum, write_array
from napari_gpubio.core.operations.files import (
    MAX_BYTES,
    check_format,
    from_graph,
    graph,
    is_remote,
    path_at,
    path_from,
    with_paths,
)
from napari_gpubio.core.operations.graphs import ancestry, held_in, own_values
from napari_gpubio.core.operations.kinds import digest
from napari_gpubio.core.operations.records import UNREAD, File, Held, Operation, Output
from napari_gpubio.core.operations.runs import run
from napari_gpubio.core.operations.states import Shown, State
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.reading import reading
from napari_gpubio.core.steps import Step

FORMAT, VERSION = "napari-gpubio session", 1
_TEXT, _ARRAYS, _FILES = "session", "arrays", "files"
_MAX_ROWS, _SHOWN, _DEEPEST = 10_000, 60, 4
_EMBEDDED_PREFIX = "embedded: "
_NOT_IN_FILE_NAMES = re.compile(r'[/\\:*?"<>|\0]')
_ROW: dict[str, type] = {"name": str, "device": str, "digest": str, "complete": bool, "software": str}
_PLAIN = (str, int, float, bool, type(None))


# -- saving -----------------------------------------------------------------------------------------------------------


def save_session(path: str | Path, state: State, store: Store = STORE, *, embed: Collection[File] = ()) -> None:
    """Write a session; an older one stays until the new one is complete.

    Parameters
    ----------
    path
        Ends in ``.zip`` for an archive; else a folder that is new or empty.
    state, store
        What is saved, and where its arrays are.
    embed
        Files that are copied into it, so that it needs nothing else.

    Raises
    ------
    InvalidInput
        If it cannot be written, or a file that is to be embedded is not what it was.
    """
    path = Path(path)
    every = [*(one.output.of for one in state.shown), *(draft for _, draft in state.drafts)]
    home = path.parent.absolute()
    places = {one.id: _places(one, embed) for one in ancestry(*every)}
    data = _data_of(state, every, home, places)
    text = json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)
    arrays = {checksum: store.array(Held(checksum)) for checksum in sorted(held_in(every))}
    files = dict(pair for own in places.values() for path, inside in own.items() for pair in _embedded(path, inside))
    for one in (one for made in ancestry(*every) for one in own_values(made, File) if one in embed):
        if file_checksum(one.path, whole=not one.checksum.startswith(SAMPLED_PREFIX)) != one.checksum:
            raise InvalidInput(f"{Path(one.path).name} has changed and cannot be embedded as it was; restore it")
    if path.suffix.lower() == ".zip":
        with (
            atomic_write(path) as part,
            zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive,  # files before 1980
        ):
            archive.writestr(f"{_TEXT}.json", text.encode(errors="surrogatepass"))
            for checksum, array in arrays.items():
                with archive.open(f"{_ARRAYS}/{checksum}.npy", "w", force_zip64=True) as stream:
                    write_array(stream, array)
            for inside, source in files.items():
                archive.write(source, inside)
        return
    with atomic_folder(path) as folder:
        (folder / _ARRAYS).mkdir()
        (folder / f"{_TEXT}.json").write_text(text, encoding="utf-8", errors="surrogatepass")
        for checksum, array in arrays.items():
            with (folder / _ARRAYS / f"{checksum}.npy").open("wb") as stream:
                write_array(stream, array)
        for inside, source in files.items():
            (folder / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / inside)


def _data_of(
    state: State, every: list[Operation], home: Path, places: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    rows = [
        {"operation": one.output.of.id, "output": one.output.name}
        | {field.name: getattr(one, field.name) for field in dataclasses.fields(one)[1:-1]}
        | {"display": dict(one.display)}
        for one in state.shown
    ]
    drafts = {panel: draft.id for panel, draft in state.drafts}
    operations = graph(*every)
    for id_, own in places.items():
        path_of = functools.partial(_path_in, home, own)
        operations["operations"][id_] = with_paths(operations["operations"][id_], path_of)
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph": operations,
        "shown": rows,
        "drafts": drafts,
        "view": dict(state.view),
    }


def _path_in(home: Path, places: Mapping[str, str], row: Mapping[str, Any]) -> str:
    """Path of a file as a session has it: inside, or as seen from the folder of the session."""
    inside = places.get(row["path"])
    return path_from(home, row["path"]) if inside is None else f"{_EMBEDDED_PREFIX}{inside}"


def _places(operation: Operation, embed: Collection[File]) -> dict[str, str]:
    """Names in a session of the files of an operation that are embedded, by their paths; they lie as they lay."""
    files = [one for one in own_values(operation, File) if one in embed]
    if not files:
        return {}
    home, beside = fingerprint(*(one.checksum for one in files)), Path(files[0].path).absolute().parent
    found = dict[str, str]()
    for number, one in enumerate(files):
        path = Path(one.path).absolute()
        parts = path.relative_to(beside).parts if path.is_relative_to(beside) else (str(number), path.name)
        found[one.path] = "/".join((_FILES, home, *(_NOT_IN_FILE_NAMES.sub("_", part) for part in parts)))
    return found


def _embedded(path: str, inside: str) -> Iterator[tuple[str, Path]]:
    """Names of a file, or of those of a folder, in a session, and where they are."""
    where = Path(path)
    if where.is_dir():
        for child in files_that_count(where):
            yield (
                "/".join((inside, *(_NOT_IN_FILE_NAMES.sub("_", one) for one in child.relative_to(where).parts))),
                child,
            )
    else:
        yield inside, where


# -- opening ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Opened:
    """A session that was opened.

    Parameters
    ----------
    state
        What was saved.
    missing
        Files that are not where they were, or have changed, or that lie elsewhere and were not allowed; by path, why.
        What needs them cannot be run.
    """

    state: State
    missing: Mapping[str, str]


def is_session(path: str | Path) -> bool:
    """Whether a folder or an archive says that it is a session; it may be damaged all the same."""
    path, name = Path(path), f"{_TEXT}.json"
    if path.is_dir():
        return (path / name).is_file()
    try:
        with opened_zip(path) as archive:
            return name in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def open_session(path: str | Path, store: Store = STORE, *, allow: Collection[str | Path] = ()) -> Opened:
    """Read a session; nothing is run, and nothing in it is code.

    Parameters
    ----------
    path
        A folder or an archive.
    store
        Gets its arrays.
    allow
        Further folders and files that it may name. Without, those are the program's samples, and the folder in which it
        lies and what is below that. Links that lead elsewhere are not followed, and files of the network never read.

    Raises
    ------
    InvalidInput
        If it is damaged or of a newer program.
    """
    path = Path(path)
    folder = path if path.is_dir() else _unpacked(path)
    with reading(path):
        data = existing_json(folder / f"{_TEXT}.json", MAX_BYTES)
        roots = [path.parent, folder, *sample_folders(), *map(Path, allow)]
        return _opened(data, folder, path.parent.absolute(), [root.resolve() for root in roots], store)


def _unpacked(path: Path) -> Path:
    """Folder with what an archive has in the places of a session; it goes when the program ends."""
    with opened_npz(path) as archive:
        archive.check_size()
        text = archive.text(f"{_TEXT}.json").decode(errors="replace")
        named = {*re.findall(f'"{_EMBEDDED_PREFIX}([^"]*)"', text)}
        needed = [name for name in archive.members if _is_needed(name, text, named)]
        size = sum(archive.members[name].file_size for name in needed)
        room = shutil.disk_usage(_temporary_folder()).free
        if size > room:
            raise InvalidInput(f"it unpacks to {size / 2**20:.0f} MB and the disk has {room / 2**20:.0f} MB; make room")
        folder = Path(tempfile.mkdtemp(dir=_temporary_folder()))
        try:
            for name in needed:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                archive.unpack(name, folder / name)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    return folder


def _is_needed(name: str, text: str, named: Collection[str]) -> bool:
    """Whether a member of an archive has the place and name of what a session may need, whose text names files."""
    home, *rest = name.split("/")
    if not rest or not all(map(_is_plain_name, rest)):
        return name == f"{_TEXT}.json"
    if (home, len(rest)) == (_ARRAYS, 1):
        return rest[0].removesuffix(".npy") in text
    return home == _FILES and any("/".join((home, *rest[:n])) in named for n in range(1, len(rest) + 1))


@functools.cache
def _temporary_folder() -> str:
    folder = tempfile.mkdtemp(prefix="napari-gpubio-session-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _is_plain_name(name: str) -> bool:
    """Whether a name is that of a file or folder in the one before it, on every system."""
    return name not in ("", ".", "..") and not _NOT_IN_FILE_NAMES.search(name)


def _opened(data: Any, folder: Path, home: Path, roots: Sequence[Path], store: Store) -> Opened:
    check_format(data, "session", FORMAT, VERSION)
    missing: dict[str, str] = {}

    def found(row: Mapping[str, Any]) -> str:
        try:
            return os.fspath(_found(File(**row), folder, home, roots))
        except (InvalidInput, OSError, ValueError) as error:
            missing[str(row["path"])] = str(error)
            return f"{UNREAD}{home / row['path']}"  # so that nothing that is run reads it

    made = from_graph(with_paths(data.get("graph"), found))
    for checksum in sorted(held_in([*made.values()])):
        array = read_npy(folder / _ARRAYS / f"{checksum}.npy")
        if array_checksum(array) != checksum:
            raise InvalidInput(f"its array {checksum[:8]} is not what it was when it was saved; open another copy")
        store.hold(array)
    rows, drafts = data.get("shown"), _mapping(data, "drafts")
    if not isinstance(rows, list) or len(rows) > _MAX_ROWS:
        raise InvalidInput(f"its layers are no list of at most {_MAX_ROWS}")
    strange = next((panel for panel, one in drafts.items() if not isinstance(one, str) or one not in made), None)
    if strange is not None:
        raise InvalidInput(f"the draft of {strange[:_SHOWN]!r} is not among its operations")
    shown = tuple(_shown(row, made) for row in rows)
    state = State(shown, tuple((panel, made[one]) for panel, one in drafts.items()), _plain_items(data, "view"))
    return Opened(state, missing)


def _found(one: File, folder: Path, home: Path, roots: Sequence[Path]) -> Path:
    """Where a file is now; InvalidInput if it is not there, has changed, or may not be read."""
    path = one.path.removeprefix(_EMBEDDED_PREFIX)
    if is_remote(path):
        raise InvalidInput("it lies in the network; copy it, and open the copy")
    found = folder / path if path != one.path else path_at(home, one.path)
    real = found.resolve()
    inside = (*real.iterdir(), *files_that_count(real)) if real.is_dir() else ()
    every = [real, *(child.resolve() for child in inside)]
    if not all(any(one == root or one.is_relative_to(root) for root in roots) for one in every):
        raise InvalidInput("it lies outside the session's folder; allow it, or move it there")
    if not real.exists():
        raise InvalidInput("it is not there; put it back, or choose where it is now")
    if file_checksum(real, whole=not one.checksum.startswith(SAMPLED_PREFIX)) != one.checksum:
        raise InvalidInput("it has changed since the session was saved; restore it")
    return real


def _mapping(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    if not isinstance(value, dict) or len(value) > _MAX_ROWS:
        raise InvalidInput(f"its {name} is {str(value)[:_SHOWN]}; it must be an object")
    return value


def _plain_items(data: Mapping[str, Any], name: str) -> tuple[tuple[str, Any], ...]:
    """Names and plain values, lists of them as tuples."""
    return tuple((key, _plain_value(value, f"{name}.{key[:_SHOWN]}")) for key, value in _mapping(data, name).items())


def _plain_value(value: Any, where: str, depth: int = 0) -> Any:
    if isinstance(value, list) and depth < _DEEPEST:
        return tuple(_plain_value(one, where, depth + 1) for one in value)
    if not isinstance(value, _PLAIN) or (isinstance(value, float) and not math.isfinite(value)):
        raise InvalidInput(
            f"its {where} is {str(value)[:_SHOWN]}; it must be a text, a finite number or a list of them"
        )
    return value


def _shown(row: Any, made: Mapping[str, Operation]) -> Shown:
    known = {"operation": str, "output": str, "display": dict} | _ROW
    if (
        not isinstance(row, dict)
        or {*row} != {*known}
        or any(type(row[key]) is not kind for key, kind in known.items())
    ):
        raise InvalidInput(f"one of its layers is {str(row)[:_SHOWN]}, which is damaged")
    if row["operation"] not in made:
        raise InvalidInput(f"the operation of its layer {row['name'][:_SHOWN]!r} is not in it")
    output: Output[Any] = Output(made[row["operation"]], row["output"])
    return Shown(output=output, display=_plain_items(row, "display"), **{key: row[key] for key in _ROW})


def rerun(
    state: State, *, device: str | Device = "auto", progress: Callable[[Step], object] | None = None
) -> Iterator[tuple[Shown, str]]:
    """Make every complete result of a state again, from nothing.

    Yields
    ------
    shown, digest
        The layer, and the digest of what came out now: of one kind of device the same.
    """
    store = Store()
    store.adopt_arrays(STORE)
    for one in state.shown:
        if one.complete:
            yield one, digest(run(one.output, device=device, store=store, progress=progress))
