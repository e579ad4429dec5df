"""Records of what the program does: an operation holds its settings, and for each input the operation that made it.

A record is frozen and has no data in it, nor a device. Two of them are equal exactly if they make the same: `id` is a
hash of the settings and of the ids of the inputs. Since an input is an operation and not a layer, nothing that happens
to a layer can change a result.

An operation is a frozen dataclass whose fields are inputs (`given`), settings (`napari_gpubio.core.parameters.param`)
and parts (`part`): other settings, one of several classes of settings, files, or tuples.
"""

import dataclasses
import functools
import hashlib
import importlib
import os
import re
import threading
import types
import typing
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from napari_gpubio.core.device import Device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import SAMPLED_PREFIX, file_checksum
from napari_gpubio.core.settings import Settings, Words, hints, kind_of, record_fields, shown_value
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import words_of as words_of
from napari_gpubio.core.volumes import stem_of
from napari_gpubio.verbs import OF_ENGINES, engine_of

T = TypeVar("T")
S = TypeVar("S", bound=Settings)
Upgrade = Callable[[dict[str, Any]], dict[str, Any]]
_INPUT = "operation input"
_DIGITS, _SHOWN = 24, 60  # of an id, and characters of a value in a sentence
UNREAD = "not opened: "  # begins the path of a file that a session names and may not read
CHECKSUM = re.compile(r"(sha256|sampled):[0-9a-f]{64}|[0-9a-f]{32}")
_VERB = re.compile(r"[a-z][a-z0-9-]*")
_verbs: dict[str, type["Operation"]] = {}


@dataclass(frozen=True)
class File:
    """A file that is read: what it is by its content, and where it was last seen, which makes no difference.

    Parameters
    ----------
    path
        Of the file.
    checksum
        Of its content, as `napari_gpubio.core.operations.file_checksum` tells it.
    """

    path: str = dataclasses.field(compare=False)
    checksum: str

    @property
    def place(self) -> str:
        """Where it was last seen, whether it may be read or not."""
        return self.path.removeprefix(UNREAD)

    def __post_init__(self) -> None:
        if not isinstance(self.path, str) or not self.path or "\0" in self.path:
            raise InvalidInput(f"the path of a file is {str(self.path)[:_SHOWN]!r}; give its name")
        _check_checksum(self.checksum)


def file(path: str | os.PathLike[str], checksum: str = "") -> File:
    """Return a file as it is now.

    Parameters
    ----------
    path
        Of the file.
    checksum
        That it had earlier.

    Raises
    ------
    InvalidInput
        If it is missing, or has changed since it had the checksum.
    """
    now = file_checksum(path, whole=bool(checksum) and not checksum.startswith(SAMPLED_PREFIX))
    if checksum and now != checksum:
        raise InvalidInput(
            f"{Path(path).name} has changed: its checksum was {checksum[:15]} and is {now[:15]}; restore it, or begin "
            "with the new file"
        )
    return File(path=os.fspath(path), checksum=now)


@dataclass(frozen=True)
class Held:
    """An array that no file holds, such as painted labels, by its checksum; see `Store.hold`."""

    checksum: str

    def __post_init__(self) -> None:
        _check_checksum(self.checksum)


def _check_checksum(text: Any) -> None:
    """An empty one would be that of every other file."""
    if not isinstance(text, str) or not CHECKSUM.fullmatch(text):
        raise InvalidInput(f"the checksum is {str(text)[:_SHOWN]!r}, which is none; take it from the file or the array")


@dataclass(frozen=True)
class Output(Generic[T]):
    """One of the results of an operation: what a layer shows, and what the input of another operation refers to.

    Parameters
    ----------
    of
        The operation.
    name
        One of its `Operation.makes`.

    Raises
    ------
    InvalidInput
        If it has no such result.
    """

    of: "Operation"
    name: str

    def __post_init__(self) -> None:
        if self.name not in self.of.makes:
            known = ", ".join(self.of.makes)
            raise InvalidInput(f"{self.of.verb} has no result {str(self.name)[:_SHOWN]!r}; it has {known}")

    @property
    def kind(self) -> type:
        """What it is."""
        return self.of.makes[self.name]

    def value_in(self, made: Any) -> Any:
        """Return this one of all that the operation made."""
        return made if made is None or len(self.of.makes) == 1 else self.of.result(made, self.name)

    def to_plain(self) -> dict[str, str]:
        """Return it as JSON holds it: the operation by its id."""
        return {"operation": self.of.id, "output": self.name}

    @property
    def id(self) -> str:
        """Name that no other output has."""
        return f"{self.of.id}.{self.name}"


@dataclass(frozen=True)
class InputInfo:
    """What a form and a command line must know of an input."""

    label: str
    help: str
    kind: type
    optional: bool
    many: bool


def given(label: str, help: str, *, optional: bool = False) -> Any:  # noqa: A002 - the field's own word
    """Give an operation an input, of the type ``Ref[Kind]``, ``Ref[Kind] | None``, or ``tuple[Ref[Kind], ...]``.

    Parameters
    ----------
    label, help
        Short name and one sentence, both shown to the user.
    optional
        Whether it may be left out: it is None then, or ().
    """
    missing = Left() if optional else dataclasses.MISSING
    return dataclasses.field(default=missing, metadata={_INPUT: (label, help)})


class Left:
    """Default of an optional input, which becomes None or ()."""


def input_infos(cls: type) -> Mapping[str, InputInfo]:
    """Inputs of a class of operations by their fields."""
    return _input_infos(cls)


@functools.cache
def _input_infos(cls: type) -> Mapping[str, InputInfo]:
    return {
        field.name: InputInfo(
            label=field.metadata[_INPUT][0],
            help=field.metadata[_INPUT][1],
            kind=_reference(hints(cls)[field.name], f"{cls.__name__}.{field.name}"),
            optional=isinstance(field.default, Left),
            many=typing.get_origin(hints(cls)[field.name]) is tuple,
        )
        for field in dataclasses.fields(cls)
        if _INPUT in field.metadata
    }


def _reference(hint: Any, where: str) -> type:
    """Kind of an input by its type."""
    members = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        members = typing.get_args(members[0])
    kinds = [typing.get_args(one)[0] for one in members if typing.get_origin(one) is Output]
    if len(kinds) != 1:
        raise TypeError(f"{where} is {hint}; an input is Ref[Kind], Ref[Kind] | None or tuple[Ref[Kind], ...]")
    kind: type = kinds[0]
    return kind


class Summary(NamedTuple):
    """What a command prints of a result: lines of text, for ``--json`` numbers by names, and the exit status."""

    lines: tuple[str, ...] = ()
    numbers: Mapping[str, Any] = {}
    status: int = 0


class Operation(Settings):
    """Base of all operations, which are frozen dataclasses.

    A subclass says in its class line its ``verb``, which is its name in files and on the command line, what it
    ``makes`` (its results by name, the main one first) and the ``version`` of its fields. ``upgrades`` turn the fields
    of a version, as plain data, into those of the next. The results are attributes of what its steps return, or if
    there is but one, that itself.
    """

    are_parts = False
    verb: ClassVar[str] = ""  # of a base of others
    makes: ClassVar[Mapping[str, type]]
    version: ClassVar[int]
    upgrades: ClassVar[Mapping[int, Upgrade]] = {}
    examples: ClassVar[tuple[str, ...]] = ()  # commands, for its help
    keeps_parts: ClassVar[str] = ""  # why a stopped run writes no files, if it does not
    needs_no_file: ClassVar[bool] = False  # whether a command may write none, since it tells its result
    continues: ClassVar[str] = ""  # a result whose file keeps what is done, so that the same command goes on with it
    words: ClassVar[Mapping[str, Words]] = {}  # of fields, where a command says them in a way of their own

    def __init_subclass__(cls, verb: str = "", makes: Mapping[str, type] | None = None, version: int = 1) -> None:
        super().__init_subclass__()
        cls.verb, cls.version = verb, version
        if makes is not None:
            cls.makes = types.MappingProxyType(dict(makes))
        cls.__eq__, cls.__hash__, cls.__repr__ = Operation.__eq__, Operation.__hash__, Operation.__repr__  # type: ignore[method-assign]
        if not verb:  # a base of others
            return
        if not _VERB.fullmatch(verb) or not cls.makes or [*cls.upgrades] != [*range(1, version)]:
            raise TypeError(f"{cls.__name__} needs a verb in small letters, results, and upgrades from each version")
        known = _verbs.setdefault(verb, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(f"{known.__name__} and {cls.__name__} are both {verb!r}")
        _verbs[verb] = cls

    def __post_init__(self) -> None:
        for name, info in input_infos(type(self)).items():
            object.__setattr__(self, name, _checked_input(name, getattr(self, name), info))
        super().__post_init__()
        for _, ref in self.inputs():  # so that a long ancestry is never walked by recursion
            assert ref.of.id

    def steps(self, data: Any, *, device: Device, stop: threading.Event | None) -> Generator[Step, None, Any]:
        """Do it, step by step; returns what it makes.

        Parameters
        ----------
        data
            Has the values of inputs under the names of their fields: a value, None, or a tuple of them; and of parts
            that are files a path, of held arrays the array.
        device, stop
            As of every ``x_steps``. Of one that `continues`, there is also ``known``: what was done before, or None.
        """
        raise NotImplementedError

    def steps_into(
        self, data: Any, files: Mapping[str, Path], *, device: Device, stop: threading.Event | None
    ) -> Generator[Step, None, Any]:
        """Do it and write results to files as they are made, which need not fit into memory.

        Not every operation can; the command line uses it of those that do.

        Parameters
        ----------
        data, device, stop
            As of `steps`.
        files
            Where results go, by their names.

        Returns
        -------
        What is known of them: ``notes``, and whether they are ``complete``.
        """
        raise NotImplementedError

    @classmethod
    def writes_files(cls) -> bool:
        """Whether it has `steps_into`."""
        return cls.steps_into is not Operation.steps_into

    def has(self, name: str) -> bool:  # noqa: ARG002 - for those that have some results with some settings only
        """Whether it makes a result with these settings."""
        return True

    def result(self, made: Any, name: str) -> Any:
        """Return a result of several by its name, from what the steps return: its attribute."""
        return getattr(made, name)

    def summary(self, result: Any) -> Summary:  # noqa: ARG002 - for those that have one
        """What the command line prints of a result."""
        return Summary()

    @property
    def title(self) -> str:
        """What people call it: the name of what is read, or its verb."""
        return self.verb

    def output(self, name: str = "") -> Output[Any]:
        """Return one of its results, the main one by default."""
        return Output(self, name or next(iter(self.makes)))

    def inputs(self) -> Iterator[tuple[str, Output[Any]]]:
        """Fields with what they refer to."""
        for name, info in input_infos(type(self)).items():
            value = getattr(self, name)
            yield from ((name, one) for one in (value if info.many else (value,)) if one is not None)

    @functools.cached_property
    def id(self) -> str:
        """Hash of the record; where files lie is not in it, but what is in them."""
        fields = [(f.name, _content(getattr(self, f.name))) for f in record_fields(self) if f.compare]
        text = repr((self.verb, self.version, fields))  # exact for every number
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operation) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"<{self.verb} {self.id}>"


Ref = Output[T] | Operation  # of an input: an output, or an operation whose main output is meant


class Reading(Operation):
    """Base of operations that only read: they have ``read`` in the place of steps."""

    @property
    def title(self) -> str:
        """Name of the file, or of what is held."""
        found = getattr(self, "file", None)
        return stem_of(Path(found.path)) if isinstance(found, File) else getattr(self, "name", "") or self.verb

    @classmethod
    def at(cls, path: str | Path, **options: Any) -> Any:
        """Return the operation that opens a file as it is now; ``options``: its other fields."""
        make: Any = cls
        return make(file=file(path), **options)

    @classmethod
    def opens(cls, path: str) -> bool:  # noqa: ARG003 - for those of several that open a kind
        """Whether it opens a file, by its name."""
        return True

    @classmethod
    def found_in(cls, path: Path) -> Path:
        """The file that it opens of a path that a command names: that, or the only one of its kind in a folder."""
        return path

    def read(self, data: Any) -> Any:
        """Return what the operation makes; ``data`` as of `Operation.steps`."""
        raise NotImplementedError

    def steps(self, data: Any, **_: Any) -> Generator[Step, None, Any]:
        """Read it."""
        yield Step(0, 1, "reading")
        return self.read(data)


def _checked_input(name: str, value: Any, info: InputInfo) -> Any:
    if isinstance(value, Left):
        return () if info.many else None
    if not info.many:
        return None if value is None and info.optional else _checked_output(name, value, info)
    if not isinstance(value, Iterable):
        raise InvalidInput(f"{name} is {shown_value(value)}; give a list of operations")
    found = tuple(_checked_output(name, one, info) for one in value)
    if not found and not info.optional:
        raise InvalidInput(f"{name} is empty; give at least one")
    return found


def _checked_output(name: str, value: Any, info: InputInfo) -> Output[Any]:
    output = value.output() if isinstance(value, Operation) else value
    if not isinstance(output, Output):
        raise InvalidInput(f"{name} is {shown_value(value)}; give an operation that makes {info.label.lower()}")
    if not issubclass(output.kind, info.kind):
        raise InvalidInput(
            f"{name} takes {words_of(info.kind)}; the result {output.name!r} of {output.of.verb} is "
            f"{words_of(output.kind)}"
        )
    return output


def _content(value: Any) -> Any:
    """A value as its hash sees it: plain, and with the names of its fields and of its class."""
    if isinstance(value, Output):
        return "output", value.id
    if isinstance(value, tuple):
        return tuple(map(_content, value))
    if isinstance(value, (str, int, float, type(None))):
        return value
    if dataclasses.is_dataclass(value):
        return kind_of(value), [(f.name, _content(getattr(value, f.name))) for f in record_fields(value) if f.compare]
    return value


def verbs() -> Mapping[str, type[Operation]]:
    """Every operation that there is, by its verb; the engines are imported for it."""
    for engine in OF_ENGINES:
        importlib.import_module(f"napari_gpubio.{engine}.operations")
    return types.MappingProxyType(_verbs)


def verb_named(name: str) -> type[Operation] | None:
    """Return the operation with a verb, or None; the engine that has it is imported for it."""
    if name not in _verbs and (engine := engine_of(name)) is not None:
        importlib.import_module(f"napari_gpubio.{engine}.operations")
    return _verbs.get(name)
