"""Copy as Python: a script that builds the very record of a result, with all that it needs, and runs it."""

import itertools
import keyword
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.operations.arrays import write_array
from napari_gpubio.core.operations.graphs import ancestry, changed_fields
from napari_gpubio.core.operations.records import File, Held, Operation, Output
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.settings import Settings
from napari_gpubio.core.text import one_line

_HERE = "napari_gpubio.core.operations"
_LOOKS = "napari_gpubio.gui.looks"
_VIEWER = "viewer = napari.current_viewer() or napari.Viewer()"
_WIDTH = 100


def script(
    *outputs: Operation | Output[Any],
    device: str = "auto",
    folder: Path | None = None,
    names: Mapping[str, str] | None = None,
    store: Store = STORE,
    save: Mapping[Any, str] | None = None,
    shows: Sequence[Shown] = (),
    writes_arrays: bool = True,
) -> str:
    """Return Python that makes results: a line for each operation that they need, with what differs from the defaults.

    Parameters
    ----------
    *outputs
        What is wanted.
    device
        To run it on.
    folder
        Where arrays that no file holds are written to; the working folder by default.
    names
        Of results, by the ids of their operations, such as those of layers.
    store
        Holds these arrays.
    save
        Files that the script is to write results to, by the names of those of the first operation, or by the results of
        others; none by default, where it ends with what is wanted.
    shows
        Layers that the script is to show in napari.
    writes_arrays
        Whether these arrays are written; else they are only named, as those of a session are.
    """
    wanted = [one if isinstance(one, Output) else one.output() for one in outputs]
    writer = _Writer(folder or Path(), store if writes_arrays else None, names or {})
    saved = {path: one if isinstance(one, Output) else wanted[0].of.output(one) for one, path in (save or {}).items()}
    lines = [writer.line(one) for one in ancestry(*(one.of for one in (*wanted, *saved.values(), *outputs_of(shows))))]
    for path, one in saved.items():
        lines.append(f"{writer.use('save', _HERE)}({writer.reference(one)}, {path!r}, device={device!r})")
    if outputs and not saved:
        run = writer.use("run", _HERE)
        asked = [writer.result(one) for one in outputs]
        made = [f"{run}({one}, device={device!r})" for one in asked]
        lines.append(f"result = {made[0]}" if len(made) == 1 else "results = [\n    " + ",\n    ".join(made) + ",\n]")
    if shows:
        lines += [_VIEWER, *(writer.showing(one, device) for one in shows), "napari.run()"]
    napari = ["import napari"] if shows else []
    return "\n".join([*napari, *writer.imports(), "", *lines, ""])


def outputs_of(shows: Iterable[Shown]) -> list[Output[Any]]:
    """Return the results that layers show or are colored by."""
    return [one for shown in shows for one in (shown.output, *dict(shown.display).values()) if isinstance(one, Output)]


def names_of_held(*operations: Operation) -> list[str]:
    """Return the names of what operations need and no file holds, each once."""
    held = [one for one in ancestry(*operations) if any(map(_is_held, vars(one).values()))]
    return list(dict.fromkeys(one_line(one.title) for one in held))


def _is_held(value: Any) -> bool:
    return isinstance(value, Held) or (isinstance(value, tuple) and any(isinstance(one, Held) for one in value))


class _Writer:
    """Code of records; remembers names and imports."""

    def __init__(self, folder: Path, store: Store | None, names: Mapping[str, str]) -> None:
        self._folder, self._store, self._given = folder, store, names
        self._names: dict[str, str] = {}
        self._used: dict[tuple[str, str], str] = {}  # modules and names, and how they are called here

    def use(self, name: str, module: str) -> str:
        """Import a name; where another module has it, too, under another one."""
        if (module, name) not in self._used:
            self._used[module, name] = _free(name, self._used.values())
        return self._used[module, name]

    def imports(self) -> list[str]:
        lines = ["import numpy as np"] if self._used.pop(("numpy", "np"), None) else []
        for module, names in itertools.groupby(sorted(self._used), key=lambda one: one[0]):
            each = [name if (used := self._used[module, name]) == name else f"{name} as {used}" for _, name in names]
            lines.append(f"from {module} import {', '.join(each)}")
        return lines

    def line(self, operation: Operation) -> str:
        """The assignment of an operation to a name of its own."""
        wish = _identifier(self._given.get(operation.id, "") or operation.title)
        name = _free(wish, self._names.values())
        code = f"{name} = {self._record(operation)}"
        self._names[operation.id] = name
        return code

    def reference(self, output: Output[Any]) -> str:
        name = self._names[output.of.id]
        return name if output == output.of.output() else f"{name}.output({output.name!r})"

    def result(self, wanted: Operation | Output[Any]) -> str:
        """What is run: all that an operation makes, or one of its results."""
        if isinstance(wanted, Output) and len(wanted.of.makes) > 1:
            return f"{self._names[wanted.of.id]}.output({wanted.name!r})"
        return self.reference(wanted if isinstance(wanted, Output) else wanted.output())

    def showing(self, shown: Shown, device: str) -> str:
        """The line that shows a layer."""
        look = [f"{name}={self._code(value)}" for name, value in shown.display]
        show, made = self.use("show_result", _LOOKS), self.reference(shown.output)
        return f"{show}({', '.join(['viewer', made, repr(shown.name), f'device={device!r}', *look])})"

    def _record(self, record: Any) -> str:
        cls = type(record)
        given = [f"{f.name}={self._code(getattr(record, f.name))}" for f in changed_fields(record)]
        name = self.use(cls.__name__, cls.__module__)
        short = f"{name}({', '.join(given)})"
        if not isinstance(record, Operation) or len(short) < _WIDTH:
            return short
        return f"{name}(\n    " + ",\n    ".join(given) + ",\n)"

    def _code(self, value: Any) -> str:
        if isinstance(value, Output):
            return self.reference(value)
        if isinstance(value, File):
            return f"{self.use('file', _HERE)}({value.place!r}, {value.checksum!r})"
        if isinstance(value, Held):
            path = self._folder / f"{value.checksum}.npy"
            if self._store is not None and not path.exists():
                with atomic_write(path) as part, part.open("wb") as stream:
                    write_array(stream, self._store.array(value))
            self.use("np", "numpy")
            return f"{self.use('STORE', _HERE)}.hold(np.load({os.fspath(path)!r}))"
        if isinstance(value, Settings):
            return self._record(value)
        if isinstance(value, tuple):
            return f"({', '.join(map(self._code, value))}{',' * (len(value) == 1)})"
        return repr(value)


def _free(wish: str, taken: Collection[str]) -> str:
    """A name that is not taken."""
    return next(name for n in itertools.count(1) if (name := wish if n == 1 else f"{wish}_{n}") not in taken)


def _identifier(text: str) -> str:
    """A text as the name of a variable, which no text can leave."""
    plain = re.sub(r"\W+", "_", one_line(text).casefold(), flags=re.ASCII).strip("_")[:40]
    plain = plain if plain[:1].isalpha() else f"step_{plain}" if plain else "step"
    return f"{plain}_" if keyword.iskeyword(plain) or plain in _RESERVED else plain


_RESERVED = ("np", "file", "run", "save", "result", "results", "viewer", "napari", "STORE")
