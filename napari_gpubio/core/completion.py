"""Scripts with which a shell completes verbs, options, and names of files."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from napari_gpubio.core.command_line import Parser

SHELLS = ("bash", "zsh", "tcsh")
HOW = (
    "print what completes verbs and options; for bash, write it to "
    "~/.local/share/bash-completion/completions/napari-gpubio"
)
_FILES = ("FILE", "FOLDER", "TABLE", "PATH")  # what help calls them


def completion(parser: argparse.ArgumentParser, verbs: Any, shell: str) -> str:
    """Return the script of a shell for a parser; ``verbs``, what its verbs were added to, get all options for it."""
    import shtab

    for verb in verbs.choices.values():
        if isinstance(verb, Parser) and verb.add_every is not None:
            verb.add_every(verb)
        for action in verb._actions:
            if action.type is Path or not action.option_strings or action.metavar in _FILES:
                action.complete = shtab.FILE
    return str(shtab.complete(parser, shell))


class PrintCompletion(argparse.Action):
    """Prints the script of a shell and ends the program; ``make`` gives the arguments of `completion` before it."""

    def __init__(self, option_strings: Sequence[str], dest: str, *, make: Callable[[], tuple[Any, Any]]) -> None:
        super().__init__(option_strings, dest, choices=SHELLS, metavar="SHELL", help=HOW)
        self._make = make

    def __call__(self, parser: argparse.ArgumentParser, _: argparse.Namespace, shell: Any, __: Any = None) -> None:
        """Print it."""
        made, verbs = self._make()
        sys.stdout.write(completion(made, verbs, shell))
        parser.exit()
