"""HDF5 files of other programs, read in a process of its own.

A file whose bytes were changed can keep the HDF5 library busy for ever, or end the process (seen with 2.0, in files
with texts of variable length). So a process of its own reads it, which ends itself when its time is over::

    python -m napari_gpubio.core.hdf5 FILE SECONDS PATTERN...
"""

import faulthandler
import importlib.util
import io
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file

Array = npt.NDArray[Any]
MOST_VALUES = 100_000
_SECONDS = 3.0  # of reading; what is wanted takes milliseconds
_START_SECONDS = 60.0  # more, until Python and h5py are loaded: a first time, from a network drive
_LATE, _REFUSED = 1, 2  # exit status; the first is that of faulthandler
_HAS_TIMER = hasattr(signal, "setitimer")  # not on Windows
_MODULE = "napari_gpubio.core.hdf5"
_GROUPS, _SIZES = "groups", "sizes"  # beside the arrays, whose names begin with a slash
_NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)  # of a console, on Windows
# What h5py and NumPy raise on a damaged file; a type that NumPy lacks is a TypeError.
DAMAGE = (OSError, RuntimeError, ValueError, TypeError, KeyError, OverflowError, MemoryError, RecursionError)


@dataclass(frozen=True, eq=False, kw_only=True)
class Hdf5Content:
    """What was found in a file, by path (``/nirs/probe``).

    Parameters
    ----------
    groups
        Paths of groups.
    arrays
        Datasets; texts of variable length are NumPy's texts.
    sizes
        Number of values of datasets of more than `MOST_VALUES`, which were not read.
    """

    groups: tuple[str, ...] = ()
    arrays: Mapping[str, Array]
    sizes: Mapping[str, int]


def read_hdf5(path: str | Path, patterns: Sequence[str], *, seconds: float = _SECONDS) -> Hdf5Content:
    """Read some datasets and groups of a file in a process of its own, which takes a quarter of a second.

    Parameters
    ----------
    path
        The file.
    patterns
        Paths in it, ``*`` standing for any part of one name: ``/nirs*/probe/wavelengths``.
    seconds
        How long the reading itself may take.

    Raises
    ------
    InvalidInput
        If h5py is not installed, the file is missing, damaged or no HDF5, or its reading does not end.
    """
    file = existing_file(path)
    if not _is_installed("h5py"):
        raise InvalidInput(
            f'{file.name} is HDF5, which needs the package h5py; run: pip install "napari-gpubio[snirf]"'
        )
    command = [sys.executable, "-m", _MODULE, str(file.resolve()), str(seconds), *patterns]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
            timeout=seconds + _START_SECONDS, creationflags=_NO_WINDOW,
        )  # fmt: skip
        status = done.returncode
    except subprocess.TimeoutExpired:
        status = _LATE
    if status == _LATE or (_HAS_TIMER and status == -signal.SIGALRM):
        raise InvalidInput(
            f"{file.name} was not read within {seconds:g} s, since its HDF5 structure is damaged and leads nowhere: "
            "export it again"
        )
    if status:
        why = done.stdout.decode("utf-8", "replace")[:200] if status == _REFUSED else f"the library failed, {status}"
        raise InvalidInput(
            f"{file.name} cannot be read as HDF5 ({why}); it is damaged or of another kind: export it again"
        )
    return _unpacked(done.stdout)


def _is_installed(package: str) -> bool:
    if package in sys.modules:
        return sys.modules[package] is not None
    return importlib.util.find_spec(package) is not None


def _unpacked(packed: bytes) -> Hdf5Content:
    with np.load(io.BytesIO(packed), allow_pickle=False) as found:
        arrays = {name: found[name] for name in found.files}
    groups, sizes = arrays.pop(_GROUPS), arrays.pop(_SIZES)
    return Hdf5Content(
        groups=tuple(map(str, groups)),
        arrays={name: array for name, array in arrays.items() if name not in sizes},
        sizes={str(name): int(arrays[name]) for name in sizes},
    )


# -- in the process of its own ----------------------------------------------------------------------------------------


def load_hdf5(path: Path, patterns: Sequence[str]) -> Hdf5Content:
    """Read in this process, which may never come back; errors are those of h5py and NumPy."""
    import h5py

    groups, arrays, sizes = [], {}, {}
    with h5py.File(path, "r") as root:
        for pattern in patterns:
            for name, found in _matching(root, pattern.strip("/").split("/"), "", h5py):
                if isinstance(found, h5py.Group):
                    groups.append(name)
                elif found.shape is not None and found.size > MOST_VALUES:
                    sizes[name] = int(found.size)
                elif found.shape is not None:
                    arrays[name] = _plain(found[()])
    return Hdf5Content(groups=tuple(groups), arrays=arrays, sizes=sizes)


def _matching(group: Any, parts: Sequence[str], place: str, h5py: Any) -> Iterator[tuple[str, Any]]:
    """Paths and what is there: groups and datasets."""
    names = [name for name in group if fnmatchcase(name, parts[0])] if "*" in parts[0] else parts[:1]
    for name in names:
        found, path = group.get(name), f"{place}/{name}"
        if len(parts) > 1 and isinstance(found, h5py.Group):
            yield from _matching(found, parts[1:], path, h5py)
        elif len(parts) == 1 and isinstance(found, h5py.Group | h5py.Dataset):
            yield path, found


def _plain(values: Any) -> Array:
    """An array that needs no pickle."""
    array = np.asarray(values)
    if not array.dtype.hasobject:
        return array
    texts = [item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in array.ravel()]
    return np.array(texts, np.str_).reshape(array.shape)


def main(arguments: Sequence[str]) -> int:
    """Write what is found to the standard output; end when the time is over, even inside of the library."""
    path, seconds, *patterns = arguments
    try:
        import h5py  # noqa: F401 - before the time is taken
    except ImportError as error:
        return _refuse(error)
    _end_after(float(seconds))
    try:
        found = load_hdf5(Path(path), patterns)
    except DAMAGE as error:
        return _refuse(error)
    stream = io.BytesIO()
    packed: dict[str, Any] = {**found.arrays, **{name: np.array(size) for name, size in found.sizes.items()}}
    packed |= {_GROUPS: np.array(found.groups, np.str_), _SIZES: np.array(list(found.sizes), np.str_)}
    np.savez(stream, allow_pickle=False, **packed)
    sys.stdout.buffer.write(stream.getvalue())
    return 0


def _end_after(seconds: float) -> None:
    """End this process after some seconds, also if a library holds Python's lock."""
    if _HAS_TIMER:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
    else:  # which reads the stack of a running thread, and may fail at that
        faulthandler.dump_traceback_later(seconds, exit=True)


def _refuse(error: Exception) -> int:
    sys.stdout.buffer.write(str(error).encode())
    return _REFUSED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
