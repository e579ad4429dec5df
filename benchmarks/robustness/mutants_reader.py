"""What a reader is to the mutants, and readers of HDF5 without the start of their process."""

import dataclasses
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from napari_gpubio.core import hdf5
from robustness.mutants_changes import Mutate


@dataclasses.dataclass(frozen=True)
class Reader:
    """What reads a kind of file.

    Parameters
    ----------
    name
        Of the file that is changed.
    write
        Writes it, and what lies beside it.
    read
        Reads it, or what lies beside it and leads to it.
    change
        Makes a mutant of its bytes.
    refused
        Exceptions that mean a refusal in one sentence.
    names
        Whether the sentence must name the file; not so where the reader is given a text.
    leads
        What begins the name of a file that leads to the changed one, or does not fit it, and will do as well.
    """

    name: str
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    change: Mutate
    refused: tuple[str, ...] = ("InvalidInput",)
    names: bool = True
    leads: str = ""

    def is_named(self, refusal: str) -> bool:
        """Whether a refusal names the file, if it must."""
        return not self.names or self.name in refusal or bool(self.leads and self.leads in refusal)


def in_fork(read: Callable[[Path], Any]) -> Callable[[Path], Any]:
    """A reader of HDF5 whose process of its own is forked."""

    def forked(path: Path) -> Any:
        import h5py  # noqa: F401 - before the fork

        with mock.patch.object(hdf5.subprocess, "run", _forked):
            return read(path)

    return forked


def _forked(command: list[str], **_: Any) -> subprocess.CompletedProcess[bytes]:
    """The process of its own that reads HDF5, without the start of Python, which is most of its time."""
    arguments = command[command.index(hdf5.__name__) + 1 :]
    with tempfile.TemporaryFile() as output:
        if (child := os.fork()) == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            status = hdf5.main(arguments)
            sys.stdout.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return subprocess.CompletedProcess(command, status, output.read())
