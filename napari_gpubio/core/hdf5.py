"""HDF5 files of other programs, read in a process of its own; what they say of other files is never followed.

A file whose bytes were changed can keep the HDF5 library busy for ever, or end the process (seen with 2.0, in files
with texts of variable length). So a process of its own reads it, which ends itself when its time is over::

    python -m napari_gpubio.core.hdf5 FILE SECONDS PATTERN...

A file may also say that a group or the numbers of a dataset lie in another file, and the library opens any that the
user may read. `opened_hdf5`, the only door, refuses that.
"""

import faulthandler
import importlib.util
import io
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import existing_file
from napari_gpubio.core.short_repr import ShortRepr

Array = npt.NDArray[Any]
MAX_VALUES = 100_000
_MAX_BYTES = 64 << 20  # of a dataset whose values are long
_SECONDS = 3.0  # of reading; what is wanted takes milliseconds
_START_SECONDS = 60.0  # more, until Python and h5py are loaded: a first time, from a network drive
_LATE, _REFUSED, _ELSEWHERE = 1, 2, 3  # exit status; the first is that of faulthandler
_MAX_LINKS_IN_CHAIN = 32
_HAS_TIMER = hasattr(signal, "setitimer")  # not on Windows
_MODULE = "napari_gpubio.core.hdf5"
_GROUPS, _SIZES = "groups", "sizes"  # beside the arrays, whose names begin with a slash
_NEVER = "which is never read: save all in one file"
_NO_WINDOW = getattr(subprocess, "CREATE_NO_WINDOW", 0)  # of a console, on Windows
# What h5py and NumPy raise on a damaged file; a type that NumPy lacks is a TypeError.
DAMAGE = (OSError, RuntimeError, ValueError, TypeError, KeyError, OverflowError, MemoryError, RecursionError)


@dataclass(frozen=True, eq=False, kw_only=True)
class Hdf5Content(ShortRepr):
    """What was found in a file, by path (``/nirs/probe``).

    Parameters
    ----------
    groups
        Paths of groups.
    arrays
        Datasets; texts of variable length are NumPy's texts.
    sizes
        Number of values of datasets of more than `MAX_VALUES`, or 64 MB, which were not read.
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
        If h5py is not installed, the file is missing, damaged or no HDF5, what is wanted lies in another file, or its
        reading does not end.
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
    if status == _ELSEWHERE:
        raise InvalidInput(f"{file.name}: {done.stdout.decode('utf-8', 'replace')}")
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
    """Read in this process, which may never come back; errors are those of h5py and NumPy, and of `opened_hdf5`."""
    import h5py

    groups, arrays, sizes = [], {}, {}
    with opened_hdf5(path) as find:
        for pattern in patterns:
            for name in _matching(find, pattern.strip("/").split("/")):
                found = find(name)
                if isinstance(found, h5py.Group):
                    groups.append(name)
                elif found.shape is not None and (found.size > MAX_VALUES or found.nbytes > _MAX_BYTES):
                    sizes[name] = int(found.size)
                elif found.shape is not None:
                    arrays[name] = _plain(found[()])
    return Hdf5Content(groups=tuple(groups), arrays=arrays, sizes=sizes)


@contextmanager
def opened_hdf5(path: Path) -> Iterator[Callable[[str], Any]]:
    """Open a file in this process, and give a function that finds a group or dataset by its path, or None.

    The function raises InvalidInput for one that lies in another file: by a link, or because its numbers do.
    """
    import h5py

    with h5py.File(path, "r") as root:
        yield lambda place: _found(root, place, h5py, _MAX_LINKS_IN_CHAIN)


def _found(root: Any, place: str, h5py: Any, links: int) -> Any:
    """The group or dataset at a path from the root; each name on the way is looked at before it is followed."""
    at, names = root, [name for name in place.split("/") if name not in ("", ".")]
    for number, name in enumerate(names):
        link = at.get(name, getlink=True) if isinstance(at, h5py.Group) else None
        if isinstance(link, h5py.ExternalLink):
            raise InvalidInput(f"{place} leads to another file, {link.filename!r}, {_NEVER}")
        if isinstance(link, h5py.SoftLink):
            before = "" if link.path.startswith("/") else "/".join(names[:number])
            target = "/".join([before, link.path, *names[number + 1 :]])
            return _found(root, target, h5py, links - 1) if links else None
        at = at.get(name) if isinstance(link, h5py.HardLink) else None
    if isinstance(at, h5py.Dataset) and (at.is_virtual or at.external):
        raise InvalidInput(f"the numbers of {place} lie in another file, {_NEVER}")
    return at if isinstance(at, h5py.Group | h5py.Dataset) else None


def _matching(find: Callable[[str], Any], parts: Sequence[str], place: str = "") -> Iterator[str]:
    """Paths of groups and datasets."""
    import h5py

    if not parts:
        yield place
        return
    names = [n for n in find(place) if fnmatchcase(n, parts[0])] if "*" in parts[0] else parts[:1]
    for path in (f"{place}/{name}" for name in names):
        if isinstance(found := find(path), h5py.Group) or (found is not None and len(parts) == 1):
            yield from _matching(find, parts[1:], path)


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
        return _refuse(error, _ELSEWHERE if isinstance(error, InvalidInput) else _REFUSED)
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


def _refuse(error: Exception, status: int = _REFUSED) -> int:
    sys.stdout.buffer.write(str(error).encode("utf-8", "replace"))
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
