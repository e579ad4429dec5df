"""What the help of a verb says and how: on one screen with ``--help``, all of it with ``--help-all``."""

import argparse
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Sequence
from typing import Any

from napari_gpubio.core.settings import Settings, kind_of

PROGRAM = "napari-gpubio"
_MAX_NAMED = 6  # alternatives in a short help
_COLUMN = 32


class Switch(argparse.BooleanOptionalAction):
    """An option with and without ``no-``; its help shows what is of use: both where the default is True."""

    def __init__(self, *arguments: Any, usual: bool, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self.usual = usual


class Formatter(argparse.HelpFormatter):
    """Paragraphs and commands are broken to fit, and the column of options is wide enough for most."""

    def __init__(self, prog: str, **keywords: Any) -> None:
        super().__init__(prog, **{**keywords, "max_help_position": _COLUMN})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(f"{indent}{line}" for one in text.splitlines() for line in _fitted(one, width) or [""])

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if isinstance(action, Switch):
            flag = action.option_strings[0]
            return flag.replace("--", "--[no-]", 1) if action.usual else flag
        return super()._format_action_invocation(action)

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs == argparse.ONE_OR_MORE:  # argparse writes the word twice
            return f"{action.metavar or default_metavar} ..."
        return super()._format_args(action, default_metavar)


def _fitted(line: str, width: int) -> list[str]:
    """A line in as many as it needs: a command goes on after a backslash, before an option."""
    if not line.startswith(f"  {PROGRAM} "):
        hanging = " " * (19 if line.startswith("  ") else 0)
        return textwrap.wrap(line, width, subsequent_indent=hanging, break_on_hyphens=False)
    found = [""]
    for word in re.split(r" (?=--?[a-z])", line):
        if found[-1] and len(found[-1]) + len(word) + 3 > width:
            found[-1] += " \\"
            found.append(f"      {word}")
        else:
            found[-1] += f" {word}" if found[-1] else word
    return found


def paragraphs(operation: type) -> list[str]:
    """Return the paragraphs of what a class says of itself."""
    return [" ".join(one.split()) for one in inspect.cleandoc(operation.__doc__ or "").split("\n\n")]


def commands(examples: Sequence[str]) -> str:
    """Return examples of a verb as its help has them."""
    return "\n".join(["examples:" if len(examples) > 1 else "example:", *(f"  {PROGRAM} {one}" for one in examples)])


def uses(classes: Sequence[type[Settings]]) -> str:
    """Return what the alternatives of a part are for, as far as their classes say it."""
    return "\n".join(f"  {kind_of(one):16} {one.use}" for one in classes if one.use)


def text_of(text: str, default: str, *, shows_all: bool) -> str:
    """All that is to be said of an option, or its first sentence, or clause."""
    first = re.split(r"(?<! al)[.:;] ", text, maxsplit=1)[0].rstrip(".")
    return f"{text if shows_all else first}{default}".replace("%", "%%")


def default_of(field: dataclasses.Field[Any]) -> str:
    """The default of a field in brackets, if it has one that says something."""
    nothing = (dataclasses.MISSING, None, False)  # by identity, since 0.0 == False
    if field.default in ((), "") or any(field.default is one for one in nothing):
        return ""
    value = kind_of(field.default) if isinstance(field.default, Settings) else field.default
    return f" (default: {' '.join(map(str, value)) if isinstance(value, tuple) else value})"


def one_of(text: str, kinds: Sequence[str], field: dataclasses.Field[Any], *, shows_all: bool) -> str:
    """All that is to be said of a choice, with the names of the alternatives, of many in a short help the first."""
    usual = kind_of(field.default) if isinstance(field.default, Settings) else field.default
    few = kinds if shows_all or len(kinds) <= _MAX_NAMED else [*kinds[: _MAX_NAMED - 1], "..."]
    names = ", ".join(f"{kind} (default)" if kind == usual else kind for kind in few)
    return f"{text_of(text, '', shows_all=shows_all).rstrip('.')}: {names}"
