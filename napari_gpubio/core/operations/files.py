"""Operations as JSON and back, and the JSON Schema of that; strict both ways, and older versions are upgraded.

A file holds every field, so that a default that changes one day changes no old file. Each operation stands after what
it needs, so there can be no cycle.
"""

import dataclasses
import json
import os
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, sample_folders, sample_path
from napari_gpubio.core.foreign import existing_json
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations.graphs import ancestry
from napari_gpubio.core.operations.records import (
    CHECKSUM,
    UNREAD,
    File,
    Held,
    Operation,
    Output,
    input_infos,
    verb_named,
    verbs,
)
from napari_gpubio.core.parameters import param_info
from napari_gpubio.core.settings import (
    LARGEST,
    alternatives,
    hints,
    is_union,
    kind_of,
    part_info,
    plain_fields,
)

RECORD_ENDING = ".json"
FORMAT, VERSION = "napari-gpubio operations", 1
MAX_OPERATIONS, MAX_BYTES = 10_000, 64 << 20  # of one file
_SHOWN, _BEGINNING = 60, 4096  # characters, and bytes
_SAMPLE = "sample: "  # begins the path of a file that comes with the program


def to_data(operation: Operation) -> dict[str, Any]:
    """Return an operation as plain data; its inputs by the ids of their operations."""
    return {"verb": operation.verb, "version": operation.version, **plain_fields(operation)}


def graph(*operations: Operation) -> dict[str, Any]:
    """Return operations and all that they need as plain data."""
    made = {one.id: to_data(one) for one in ancestry(*operations)}
    return {"format": FORMAT, "version": VERSION, "operations": made}


def check_format(data: Any, what: str, name: str, version: int) -> None:
    """Raise InvalidInput unless data are what is called ``what``: an object with this format and version."""
    if not isinstance(data, Mapping) or data.get("format") != name:
        raise InvalidInput(f"this is no {what}; its format would be {name!r}")
    if type(data.get("version")) is not int or data["version"] != version:
        raise InvalidInput(
            f"the {what} has version {_shown(data.get('version'))} and this program reads {version}; update "
            "napari-gpubio"
        )


def from_graph(data: Any) -> dict[str, Operation]:
    """Return operations by their names in what `graph` wrote, in its order.

    Raises
    ------
    InvalidInput
        If it is something else or of a newer program, with the path of what cannot be used.
    """
    check_format(data, "record of operations", FORMAT, VERSION)
    rows, made = data.get("operations"), dict[str, Operation]()
    if not isinstance(rows, Mapping) or len(rows) > MAX_OPERATIONS or len(data) != 3:
        raise InvalidInput(
            f"beside format and version a record has operations, an object with at most {MAX_OPERATIONS} entries"
        )
    for name, row in rows.items():
        made[name] = _operation(name, row, made)
    return made


def record_of_output(output: Output[Any]) -> dict[str, Any]:
    """Return a result as layers and files carry it: the graph of its operation, with full paths, and its name."""
    return {**with_paths(graph(output.of), lambda one: _in_full(one["path"])), "output": output.name}


def _in_full(path: str) -> str:
    return path if path.startswith(UNREAD) else os.fspath(Path(path).absolute())


def output_of_record(data: Any) -> Output[Any] | None:
    """Return the result that a record is of; None if it is damaged, or of another version of the program."""
    if not isinstance(data, Mapping):
        return None
    try:
        made = [*from_graph({name: value for name, value in data.items() if name != "output"}).values()]
        return made[-1].output(str(data.get("output")))
    except (InvalidInput, IndexError):
        return None


def write_record(path: str | Path, *operations: Operation) -> None:
    """Write operations with all that they need as JSON; an older file stays until the new one is complete.

    What lies below the folder of the record is named from there, so that both can be moved together.
    """
    home = Path(path).parent.absolute()
    data = with_paths(graph(*operations), lambda one: path_from(home, one["path"]))
    text = json.dumps(data, indent=1, allow_nan=False, ensure_ascii=False)
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8", errors="surrogatepass")


def read_record(path: str | Path) -> Operation:
    """Read the operation that a record is of, its last one; also a record that describes the image beside it.

    Raises
    ------
    InvalidInput
        If the file cannot be read or is no record.
    """
    return read_outputs(path)[0].of


def read_outputs(path: str | Path) -> tuple[Output[Any], ...]:
    """Read the results of the operation that a record is of: all, or the one that it names; errors as `read_record`."""
    data, about = existing_json(path, MAX_BYTES), None
    if isinstance(data, Mapping) and isinstance(about := data.get(KEY), Mapping):
        data = about.get(RECORD)
    return outputs_in(data, Path(path).parent)


def outputs_in(data: Any, home: Path) -> tuple[Output[Any], ...]:
    """Return the results that a record is of, with paths from a folder; InvalidInput if it is damaged."""
    name = data.get("output") if isinstance(data, Mapping) else None
    plain = data if name is None else {key: value for key, value in data.items() if key != "output"}
    made = [*from_graph(with_paths(plain, lambda one: os.fspath(path_at(home, one["path"])))).values()]
    if not made:
        raise InvalidInput("the record holds no operation; write it again with --record")
    return tuple(made[-1].output(one) for one in (made[-1].makes if name is None else (str(name),)))


def is_record(path: str | Path) -> bool:
    """Whether a file says near its beginning that it is a record."""
    try:
        with Path(path).open("rb") as stream:
            return FORMAT.encode() in stream.read(_BEGINNING)
    except OSError:
        return False


def with_paths(data: Any, path_of: Callable[[Mapping[str, Any]], str]) -> Any:
    """Return a graph with other paths of its files, by which operations are not known."""
    if isinstance(data, dict):
        if set(data) == {"path", "checksum"} and isinstance(data["path"], str):
            return {**data, "path": path_of(data)}
        return {key: with_paths(value, path_of) for key, value in data.items()}
    return [with_paths(one, path_of) for one in data] if isinstance(data, list) else data


def path_from(home: Path, path: str) -> str:
    """Return a path as seen from a folder, if it lies below that; with slashes, which every system takes.

    A sample of the program is named as such, since it lies elsewhere on each machine.
    """
    full = Path(path.removeprefix(UNREAD)).absolute()
    if samples := next((one for one in sample_folders() if full.is_relative_to(one)), None):
        return f"{_SAMPLE}{full.relative_to(samples).as_posix()}"
    return full.relative_to(home).as_posix() if full.is_relative_to(home) else os.fspath(full)


def is_remote(path: str) -> bool:
    """Whether a path, as `path_from` tells it, leads to the network, on any system."""
    plain = path.removeprefix(_SAMPLE).replace("\\", "/")
    return plain.startswith("//") or "://" in plain


def path_at(home: Path, path: str) -> Path:
    """Return where a path leads that `path_from` gave; InvalidInput if it is of a sample that is not there."""
    return sample_path(path.removeprefix(_SAMPLE)) if path.startswith(_SAMPLE) else home / path


# -- from plain data --------------------------------------------------------------------------------------------------


def _operation(name: str, row: Any, made: Mapping[str, Operation]) -> Operation:
    if not isinstance(row, Mapping):
        raise InvalidInput(f"operation {name[:_SHOWN]!r} is {_shown(row)}; it must be an object")
    cls = verb_named(_text(row, "verb"))
    if cls is None:
        raise InvalidInput(f"the verb {_shown(row.get('verb'))} is not known; update napari-gpubio, or check its name")
    fields = {key: value for key, value in row.items() if key not in ("verb", "version")}
    version = row.get("version")
    if type(version) is not int or version < 1:
        raise InvalidInput(f"{cls.verb}.version is {_shown(version)}; it must be a whole number from 1")
    if version > cls.version:
        raise InvalidInput(
            f"{cls.verb} has version {version} and this program knows {cls.version}; update napari-gpubio"
        )
    for step in range(version, cls.version):
        fields = cls.upgrades[step](fields)
    return cast("Operation", _record(cls, fields, cls.verb, made))


def _record(cls: type, fields: Mapping[str, Any], where: str, made: Mapping[str, Operation]) -> Any:
    known = {field.name: field for field in dataclasses.fields(cls)}
    if unknown := [key for key in fields if key not in known]:
        raise InvalidInput(f"{where} has no setting {unknown[0][:_SHOWN]!r}; it has {', '.join(known) or 'none'}")
    if missing := [name for name in known if name not in fields]:
        raise InvalidInput(f"{where} lacks {missing[0]!r}; every setting must be there, since defaults may change")
    inputs = input_infos(cls) if issubclass(cls, Operation) else {}
    values = {
        key: _refs(value, f"{where}.{key}", made, many=inputs[key].many)
        if key in inputs
        else _value(value, hints(cls)[key], f"{where}.{key}")
        for key, value in fields.items()
    }
    try:
        return cls(**values)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error}") from error


def _refs(data: Any, where: str, made: Mapping[str, Operation], *, many: bool) -> Any:
    if not many:
        return None if data is None else _ref(data, where, made)
    if not isinstance(data, list):
        raise InvalidInput(f"{where} is {_shown(data)}; it must be a list")
    return tuple(_ref(one, f"{where}[{n}]", made) for n, one in enumerate(data))


def _ref(data: Any, where: str, made: Mapping[str, Operation]) -> Output[Any]:
    name, output = _text(data, "operation"), _text(data, "output")
    if name not in made:
        raise InvalidInput(f"{where} refers to {name[:_SHOWN]!r}, which does not stand before it")
    if len(data) != 2:
        raise InvalidInput(f"{where} is {_shown(data)}; it must have an operation and an output, and nothing else")
    return Output(made[name], output)


def _value(data: Any, hint: Any, where: str) -> Any:
    """Data as what a constructor takes: objects become records; it checks the rest itself."""
    if isinstance(data, Mapping):
        members = typing.get_args(hint) if is_union(hint) else (hint,)
        if own := next((one for one in (File, Held) if one in members), None):
            return _record(own, data, where, {})
        by_kind = {kind_of(cls): cls for cls in alternatives(hint)}
        if (kind := _text(data, "kind")) not in by_kind:
            known = f"; choose one of {', '.join(by_kind)}" if by_kind else ", which has no object as its value"
            raise InvalidInput(f"{where} is of the kind {kind[:_SHOWN]!r}{known}")
        rest = {key: value for key, value in data.items() if key != "kind"}
        return _record(by_kind[kind], rest, f"{where} ({kind})", {})
    if isinstance(data, list):
        return _members(data, hint, where)
    if hint is int and isinstance(data, str) and data.removeprefix("-").isascii() and data.removeprefix("-").isdigit():
        number = int(data[:_SHOWN])
        if abs(number) > LARGEST and str(number) == data:
            return number
    return data


def _members(data: list[Any], hint: Any, where: str) -> tuple[Any, ...]:
    if is_union(hint):
        hint = next((one for one in typing.get_args(hint) if typing.get_origin(one) is tuple), hint)
    if typing.get_origin(hint) is not tuple:
        raise InvalidInput(f"{where} is {_shown(data)}; it must not be a list")
    members = typing.get_args(hint)
    each = [members[0]] * len(data) if members[-1] is Ellipsis else members
    if len(each) != len(data):
        raise InvalidInput(f"{where} has {len(data)} values; give {len(each)}")
    return tuple(_value(one, kind, f"{where}[{n}]") for n, (one, kind) in enumerate(zip(data, each, strict=True)))


def _text(data: Any, key: str) -> str:
    """A text of an object of a file, or an empty one."""
    value = data.get(key) if isinstance(data, Mapping) else None
    return value if isinstance(value, str) else ""


def _shown(value: Any) -> str:
    return repr(value)[:_SHOWN]


# -- the schema -------------------------------------------------------------------------------------------------------


def schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a record of operations of any verb."""
    each = [_object(cls, {"verb": {"const": verb}, "version": {"const": cls.version}}) for verb, cls in verbs().items()]
    operations = {"type": "object", "maxProperties": MAX_OPERATIONS, "additionalProperties": {"oneOf": each}}
    fixed = {"format": {"const": FORMAT}, "version": {"const": VERSION}, "operations": operations}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_closed(fixed)}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _object(cls: type, more: dict[str, Any]) -> dict[str, Any]:
    inputs = input_infos(cls) if issubclass(cls, Operation) else {}
    fields = {
        field.name: _schema_of_input(inputs[field.name])
        if field.name in inputs
        else _schema_of_field(field, hints(cls)[field.name])
        for field in dataclasses.fields(cls)
    }
    return {"description": (cls.__doc__ or "").strip(), **_closed(more | fields)}


def _schema_of_input(info: Any) -> dict[str, Any]:
    ref = _closed({"operation": {"type": "string"}, "output": {"type": "string"}})
    one = {"type": "array", "items": ref} | ({} if info.optional else {"minItems": 1}) if info.many else ref
    return {
        "description": info.help,
        **({"anyOf": [one, {"type": "null"}]} if info.optional and not info.many else one),
    }


def _schema_of_field(field: dataclasses.Field[Any], hint: Any) -> dict[str, Any]:
    found = _schema(hint)
    if (info := param_info(field)) is not None:
        limits = {
            "minimum": info.minimum,
            "exclusiveMinimum": info.above,
            "maximum": info.maximum,
            "enum": info.choices and [*info.choices, *([None] if field.default is None else [])],
        }
        own = {key: value for key, value in limits.items() if value is not None}
        if hint is int and (info.maximum is None or info.maximum > LARGEST):
            found["anyOf"][0] |= own
        else:
            found = ({"type": "integer"} if hint is int else found) | own
    described = info or part_info(field)
    return {"description": described.help, **found} if described else found


_TYPES = {bool: "boolean", float: "number", str: "string"}


def _schema(hint: Any) -> dict[str, Any]:
    if is_union(hint) and type(None) in (members := typing.get_args(hint)):
        return {"anyOf": [*(_schema(one) for one in members if one is not type(None)), {"type": "null"}]}
    if classes := alternatives(hint):
        each = [_object(cls, {"kind": {"const": kind_of(cls)}}) for cls in classes]
        return each[0] if len(each) == 1 else {"oneOf": each}
    if hint in (File, Held):
        texts: dict[str, Any] = {field.name: {"type": "string", "minLength": 1} for field in dataclasses.fields(hint)}
        if hint is File:
            texts["path"]["pattern"] = "^[^\\u0000]*$"
        texts["checksum"]["pattern"] = f"^({CHECKSUM.pattern})$"
        return _closed(texts)
    if typing.get_origin(hint) is tuple:
        members = typing.get_args(hint)
        if members[-1] is Ellipsis:
            return {"type": "array", "items": _schema(members[0])}
        each = [_schema(one) for one in members]
        return {"type": "array", "prefixItems": each, "minItems": len(each), "maxItems": len(each)}
    if hint is int:
        return {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^-?[0-9]{16,}$"}]}
    return {"type": _TYPES[hint]}
