"""Pages that are made of the program itself: its verbs, its API, what `check` found, and results of benchmarks.

They are written into ``docs/generated`` before Sphinx reads the pages, and rewritten only where they have changed.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import measured
from sphinx.application import Sphinx

import napari_gpubio
from napari_gpubio import ENGINES, cli
from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.report import Exit
from napari_gpubio.verbs import APPS, LEVELS, OF_ENGINES

PARTS = (*ENGINES, "workflows")
AFTER_NAPOLEON = 900
SHORT_TYPES = (  # of fields, as Sphinx writes them
    (re.compile(r"numpy\.ndarray\[tuple\[\w+, \.\.\.\], numpy\.dtype\[Any\]\]"), "array"),
    (re.compile(r"numpy\.ndarray\[tuple\[\w+, \.\.\.\], numpy\.dtype\[numpy\.(\w+)\]\]"), r"array of \1"),
    (re.compile(r"(?:collections\.abc|typing|pathlib)\.(?=\w)"), ""),
    (re.compile(r"(?<![~\w.])(?=napari_gpubio\.)"), "~"),
)
OF_ALL_VERBS = {"help", "help_all", "force", "json", "quiet", "verbose", "record", "device"}


def setup(app: Sphinx) -> dict[str, bool]:
    """Have the pages written when a build begins."""
    app.connect("builder-inited", write_pages)
    app.connect("autodoc-process-docstring", shorten_types, priority=AFTER_NAPOLEON)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_pages(app: Sphinx) -> None:
    """Write all pages."""
    folder = Path(app.srcdir) / "generated"
    pages = {**api_pages(), **verb_pages(), **window_pages(), **measured.pages()}
    for name, text in pages.items():
        path = folder / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for old in folder.rglob("*.md"):
        if str(old.relative_to(folder).with_suffix("")) not in pages and "gallery" not in old.parts:
            old.unlink()
    scripts = {path.stem for path in (Path(app.srcdir) / "gallery").glob("plot_*.py")}
    for old in (folder / "gallery").rglob("*plot_*.*"):  # of a script that is no longer there
        if not any(script in old.name for script in scripts):
            old.unlink()


def window_pages() -> dict[str, str]:
    """Return the pages of the dock widgets, which the window shows, too."""
    files = sorted((Path(napari_gpubio.__file__).parent / "gui" / "help").glob("*.md"))
    start = (
        "# Panels\n\nWhat each dock widget is for. In the window, the button *?* at its top or F1 shows the same.\n\n"
    )
    pages = {f"window/{path.stem}": path.read_text(encoding="utf-8") for path in files}
    return {**pages, "window/index": start + listed([path.stem for path in files])}


def listed(names: list[str], *, depth: int = 1) -> str:
    """Return a table of contents."""
    return "\n".join(["```{toctree}", f":maxdepth: {depth}", "", *names, "```", ""])


# ----------------------------------------------------------------------------------------------------------------- API


def api_pages() -> dict[str, str]:
    """Return a page for each part, with its public names and those of its public modules."""
    pages = {f"api/{part}": "\n".join(api_page(part)) for part in PARTS}
    start = (
        "# Python API\n\nEach part is a module: `from napari_gpubio import fibers`. What is not here is not public.\n\n"
    )
    return {**pages, "api/index": start + listed([*PARTS])}


def api_page(part: str) -> Iterator[str]:
    """Yield the lines of a part's page."""
    module = importlib.import_module(f"napari_gpubio.{part}")
    yield f"# {part}\n"
    names = list(getattr(module, "__all__", ()))
    modules = [name for name in names if isinstance(getattr(module, name), types.ModuleType)]
    yield from documented(module.__name__, [name for name in names if name not in modules])
    for name in modules:
        inner = getattr(module, name)
        public = getattr(inner, "__all__", None) or own_names(inner)
        yield f"\n## {part}.{name}\n"
        values = {one: getattr(inner, one) for one in public if not inspect.ismodule(getattr(inner, one))}
        yield from documented(inner.__name__, [one for one, value in values.items() if not is_among(value, module)])


def shorten_types(_app: Sphinx, _what: str, _name: str, _value: Any, _options: Any, lines: list[str]) -> None:
    """Write types as a person would, such as "array of float32"."""
    for i, line in enumerate(lines):
        if line.lstrip().startswith((":type ", ":vartype ")):
            for pattern, short in SHORT_TYPES:
                line = pattern.sub(short, line)
            lines[i] = line


def is_among(value: Any, module: types.ModuleType) -> bool:
    """Whether a module offers a class or function itself, too: it is described there."""
    return callable(value) and any(getattr(module, name) is value for name in getattr(module, "__all__", ()))


def documented(module: str, names: list[str]) -> Iterator[str]:
    """Yield what has autodoc write a module's docstring and some of its names."""
    yield "```{eval-rst}"
    yield f".. automodule:: {module}\n"
    for name in sorted(names, key=str.lower):
        value = getattr(importlib.import_module(module), name)
        kind = "autoclass" if inspect.isclass(value) else "autofunction" if callable(value) else "py:data"
        yield f".. {kind}:: {module}.{name}"
        yield "   :members:\n" if kind == "autoclass" else ""
    yield "```"


def own_names(module: types.ModuleType) -> list[str]:
    """Return the public functions and classes that a module without ``__all__`` defines."""
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__ and callable(value)
    ]


# --------------------------------------------------------------------------------------------------------------- verbs


def verb_pages() -> dict[str, str]:
    """Return a page for each part that has verbs, and one for the verbs of the program itself."""
    pages = {f"verbs/{part}": "\n".join(verbs_page(part, OF_ENGINES[part])) for part in OF_ENGINES}
    statuses = [f"| {int(one)} | {one.meaning} |" for one in Exit]
    statuses_table = ["## Exit status\n", "| status | when |\n|---|---|", *statuses, ""]
    pages["verbs/program"] = "\n".join([*verbs_page("The program itself", own_verbs()), *statuses_table])
    pages["verbs/bids"] = "\n".join(verbs_page("BIDS datasets", APPS, f"in out {LEVELS[0]}"))
    start = (
        "# Commands\n\nEvery operation of the program is a verb of `napari-gpubio`, with the same settings as its form "
        "in the window and its function in Python. Inputs are files, or records (`.json`) of operations.\n\n"
    )
    return {**pages, "verbs/index": start + listed(["program", "bids", *OF_ENGINES])}


def own_verbs() -> tuple[str, ...]:
    """Return the verbs that belong to no part."""
    of_parts = {verb for verbs in OF_ENGINES.values() for verb in verbs}
    return tuple(verb for verb in subparsers(cli.make_parser(["info"])) if verb not in of_parts)


def subparsers(parser: argparse.ArgumentParser) -> dict[str, Any]:
    """Return the parser of each verb."""
    (action,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
    return dict(action.choices)


def verbs_page(title: str, verbs: tuple[str, ...], given: str = "") -> Iterator[str]:
    """Yield the lines of the page of some verbs, which are known by their name, or with what is given to them."""
    yield f"# {title}\n"
    for verb in verbs:
        parser = subparsers(cli.make_parser([verb, *given.split()])).get(verb)
        if parser is None:  # of arrays that no file holds
            continue
        if getattr(parser, "prepare", None) is not None:
            try:
                parser.prepare(parser, ["--help-all"])
            except (TypeError, GpuBioError):  # a record only: no option can say what it is of
                continue
        yield f"({'app' if given else 'verb'}-{verb})="
        yield f"## {verb}\n"
        yield (parser.description or "").strip() + "\n"
        for group in parser._action_groups:
            yield from options_table(group)
        lines = (parser.epilog or "").splitlines()
        if examples := [line.strip() for line in lines if line.startswith("  napari-gpubio ")]:
            yield "\n".join(["```console", *(f"$ {line}" for line in examples), "```", ""])


def options_table(group: argparse._ArgumentGroup) -> Iterator[str]:
    """Yield a table of the options of a group, but for those that all verbs have."""
    shown = [one for one in group._group_actions if one.dest not in OF_ALL_VERBS and one.help != argparse.SUPPRESS]
    if not shown:
        return
    yield f"| {(group.title or '').split(' (')[0]} | | default |\n|---|---|---|"
    for one in shown:
        names = ", ".join(one.option_strings) or str(one.metavar or one.dest)
        if one.choices:
            values = " ".join(str(choice) for choice in one.choices)
        else:
            values = " ".join(one.metavar) if isinstance(one.metavar, tuple) else str(one.metavar or "")
        of_what = "" if one.nargs == 0 or not one.option_strings else values
        about = (one.help or "") % vars(one)
        usual = re.search(r" \(default: (.*)\)$", about) or re.search(r"([^ ,]+) \(default\)", about)
        default = (
            as_code(usual[1])
            if usual
            else ""
            if one.default in (None, False, argparse.SUPPRESS)
            else as_code(one.default)
        )
        text = about.split(" (default:")[0].replace("|", "\\|")
        text = text.rpartition(": ")[0] if one.choices and one.metavar == "WORD" else text
        yield f"| `{names}` {as_code(of_what)} | {text} | {default} |"
    yield ""


def as_code(value: Any) -> str:
    """Return a value as it is given on a command line."""
    text = " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return f"`{text}`" if text else ""
