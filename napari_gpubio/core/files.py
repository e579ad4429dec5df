"""Where the sample files and the machine code lie, and how a file is written without ever leaving half of one."""

import csv
import functools
import getpass
import hashlib
import logging
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs

from napari_gpubio.core.errors import InvalidInput, memory_in_words

logger = logging.getLogger(__name__)
CACHE = "NAPARI_GPUBIO_CACHE"  # names a folder for what can be made again
_MIN_FREE_CACHE_BYTES = 64 << 20
_ENGINE_NAMED = re.compile(rb"\bnapari_gpubio\.(\w+)")
_PACKAGE = Path(__file__).resolve().parent.parent
_GZIP, _BLOCK = b"\x1f\x8b\x08", 1 << 20  # how such a file begins, with the only method there is; bytes
_DICOM = b"DICM"
WHOLE_BYTES = 64 << 20  # larger files are known by their size and samples, until somebody asks for all of it
TIFF_FRAMES = (".tif", ".tiff", ".btf", ".tf8", ".lsm", ".stk")  # of files that are frames of a folder
SAMPLED_PREFIX = "sampled:"
_SAMPLE, _SAMPLES = 1 << 16, 64  # bytes of one, and how many
_checksums: dict[tuple[str, int, int, int], str] = {}  # of files, by path, size, time and inode
_PART = ".part-"  # a temporary file's name goes on with its computer and process
_parts_in_use: set[str] = set()  # names of those of this process
_OWNER = re.compile(rf"{re.escape(_PART)}[0-9a-f]+-(\d{{1,9}})-")


def sample_folders() -> tuple[Path, Path]:
    """Return where the samples are: in an installed package, or in a source tree."""
    return _PACKAGE / "sample_data", _PACKAGE.parent / "sample_data"


def sample_path(name: str) -> Path:
    """Path of a file of ``sample_data``, in an installed package as in a source tree.

    Raises
    ------
    InvalidInput
        If there is no such sample.
    """
    for root in sample_folders():
        if (path := root / name).exists():
            return path
    raise InvalidInput(f"there is no sample file {name!r}; reinstall napari-gpubio if it should be there")


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that is there and not empty.

    Raises
    ------
    InvalidInput
        If it does not exist, is a folder, a pipe, a device or a socket, cannot be reached, or has no bytes.
    """
    file = Path(path)
    shown = str(file)[:200]
    try:
        if file.is_dir():
            raise InvalidInput(f"{shown} is a folder; give the file in it")
        if is_stream(file):
            raise InvalidInput(f"{shown} is a pipe, a device or a socket; give a file on a disk")
        if not file.is_file():
            raise InvalidInput(f"{shown} does not exist; check the name and the folder")
        if file.stat().st_size == 0:
            raise InvalidInput(f"{shown} is empty (0 bytes); copy or export it again")
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise InvalidInput(f"{shown} cannot be opened ({error.strerror}); check the path") from error
    return file


def leads_somewhere(path: Path) -> bool:
    """Return whether there is something but a folder or an empty file at a path; not so if the system does not tell."""
    try:
        found = path.stat()
    except OSError:  # nothing, a name that is too long, a folder that may not be entered
        return False
    return not stat.S_ISDIR(found.st_mode) and not (stat.S_ISREG(found.st_mode) and found.st_size == 0)


def check_folder(path: Path) -> None:
    """Check that the folder of a file to be written is there.

    Raises
    ------
    InvalidInput
        If it is missing or cannot be reached.
    """
    try:
        if path.parent.is_dir():
            return
    except OSError as error:  # a network folder whose server is gone, a folder that may not be entered
        raise InvalidInput(
            f"the folder {path.parent} cannot be reached ({error.strerror}); connect it again or choose another place"
        ) from error
    raise InvalidInput(f"the folder {path.parent} does not exist; create it or choose another place")


def flush_to_disk(path: Path) -> None:
    """Wait until the disk has a file, so that renaming it, which some systems do only then, takes no time."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())


_ZARR = ("zarr.json", ".zgroup")  # which one of them every folder of Zarr has


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path``; rename it to ``path`` when the block ends well.

    If the block raises, the temporary file is removed and an older file at ``path`` stays as it was.
    The temporary name keeps the target's suffixes, because many libraries choose the format by them. A symbolic link
    stays one: what it points to is written. Into a stream, such as /dev/stdout, the file is copied when it is complete.
    Temporary files of processes that were killed are removed.

    Raises
    ------
    InvalidInput
        If the folder is missing, or the system refuses to write (disk full, no permission).
    """
    name, part = Path(path).name, None
    try:
        to_stream = is_stream(path)
        target = _end_of_links(Path(path)) if not to_stream else Path(tempfile.gettempdir(), name)
        check_folder(target)
        suffix = "".join(target.suffixes[-2:])
        part = _part_in(target.parent, suffix)
        part.touch(exist_ok=False)
        with memory_in_words():
            yield part
        if to_stream:
            with part.open("rb") as written, Path(path).open("wb") as stream:
                shutil.copyfileobj(written, stream)
        else:
            part.replace(target)
    except OSError as error:
        raise InvalidInput(
            f"{name} could not be written ({error.strerror or error}); free space or choose another folder. "
            "What was there before is unchanged"
        ) from error
    finally:
        if part is not None:
            _remove_part(part)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file (UTF-8), whole or not at all; InvalidInput if it cannot be written."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")


def write_rows(path: str | os.PathLike[str], rows: Iterable[Iterable[Any]], *, marked: bool = False) -> None:
    """Write rows of cells as comma-separated values, numbers with all their digits.

    Parameters
    ----------
    path
        The file, which is written whole or not at all.
    rows
        The first one has the names of the columns.
    marked
        Whether a byte order mark tells spreadsheets that it is UTF-8, without which they garble mm².

    Raises
    ------
    InvalidInput
        If the file cannot be written.
    """
    with atomic_write(path) as part, part.open("w", newline="", encoding="utf-8-sig" if marked else "utf-8") as file:
        csv.writer(file).writerows(rows)


@contextmanager
def atomic_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary folder beside ``path``; rename it to ``path`` when the block ends well, as `atomic_write` does.

    Raises
    ------
    InvalidInput
        If there is already something at ``path`` but an empty folder, the folder that it is to lie in is missing, or
        the system refuses to write.
    """
    target, part = Path(path), None
    try:
        check_folder(target)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InvalidInput(f"{target.name} exists and is no empty folder; choose a new name, or empty it")
        part = _part_in(target.parent, "")
        part.mkdir()
        with memory_in_words():
            yield part
        if target.exists():
            target.rmdir()  # an empty one, over which Windows renames nothing
        part.rename(target)
    except OSError as error:
        raise InvalidInput(
            f"{target.name} could not be written ({error.strerror or error}); free space or choose another folder"
        ) from error
    finally:
        if part is not None:
            _remove_part(part)


def _part_in(folder: Path, suffix: str) -> Path:
    """A free name in a folder, marked as this process's; what killed processes left there is removed.

    It is not mkstemp's: that file is readable by its owner only, whatever the umask is.
    """
    part = folder / f"{_PART}{_computer()}-{os.getpid()}-{secrets.token_hex(8)}{suffix}"
    _parts_in_use.add(part.name)
    _remove_orphans(folder)
    return part


def _remove_part(part: Path) -> None:
    """Remove a temporary file or folder, if it is still there; if its place is gone, the next save there does this."""
    _parts_in_use.discard(part.name)
    if part.is_dir():
        shutil.rmtree(part, ignore_errors=True)
    else:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a device or a pipe, such as /dev/stdout or /dev/null: no file to be replaced."""
    path = Path(path)
    return path.exists() and not (path.is_file() or path.is_dir())


def is_gzip(path: Path) -> bool:
    """Return whether a file is compressed, whatever its name is; a pipe, which may never say so, is not."""
    return _says(path, _GZIP)


def is_dicom(path: Path) -> bool:
    """Return whether a file begins as DICOM does, whatever its name is; a pipe is not."""
    return _says(path, _DICOM, at=128)  # behind a preamble


def _says(path: Path, word: bytes, at: int = 0) -> bool:
    if is_stream(path):
        return False
    with path.open("rb") as file:
        return file.read(at + len(word))[at:] == word


def file_checksum(path: str | os.PathLike[str], *, whole: bool = False) -> str:
    """Return the SHA-256 of a file's content; of a large one of its size and 64 samples, unless the whole is wanted.

    Of a folder, that of the names and checksums of the TIFF files that lie in it: frames, beside which other files may
    come and go. Of a folder without any, all files count.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> _ = file.write_text("abc")
    >>> file_checksum(file)[:15]
    'sha256:ba7816bf'
    """
    if Path(path).is_dir():
        return _folder_checksum(Path(path), whole=whole)
    path = existing_file(path)
    state = path.stat()
    key = (os.fspath(path.absolute()), state.st_size, state.st_mtime_ns, state.st_ino)
    is_sampled = state.st_size > WHOLE_BYTES and not whole
    if key in _checksums and not (whole and _checksums[key].startswith(SAMPLED_PREFIX)):
        return _checksums[key]
    digest = hashlib.sha256()
    with path.open("rb") as file:
        if is_sampled:
            digest.update(state.st_size.to_bytes(8, "little"))
            for n in range(_SAMPLES):
                file.seek(n * (state.st_size - _SAMPLE) // (_SAMPLES - 1))
                digest.update(file.read(_SAMPLE))
        else:
            while block := file.read(_BLOCK):
                digest.update(block)
    found = f"{SAMPLED_PREFIX if is_sampled else 'sha256:'}{digest.hexdigest()}"
    return found if whole and state.st_size > WHOLE_BYTES else _checksums.setdefault(key, found)


def files_that_count(folder: Path) -> list[Path]:
    """Return the files of a folder that its checksum is of: frames of TIFF, all of Zarr, or all that lie in it."""
    if any((folder / name).is_file() for name in _ZARR):
        return sorted(path for path in folder.rglob("*") if path.is_file())
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name[0] != ".")
    return [path for path in files if path.suffix.lower() in TIFF_FRAMES] or files


def _folder_checksum(folder: Path, *, whole: bool) -> str:
    digest, prefixes = hashlib.sha256(), set[str]()
    for one in files_that_count(folder):
        checksum = file_checksum(one, whole=whole)
        prefixes.add(checksum.partition(":")[0] + ":")
        digest.update(f"{one.relative_to(folder).as_posix()}\0{checksum}\n".encode(errors="surrogatepass"))
    return f"{SAMPLED_PREFIX if SAMPLED_PREFIX in prefixes else 'sha256:'}{digest.hexdigest()}"


def fingerprint(*parts: Any) -> str:
    """Return a text that other parts do not have: arrays by type, shape and bytes, paths by content, the rest by repr.

    A file of 10 GB takes about 10 s.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.core.files import fingerprint
    >>> fingerprint(np.arange(3), "a") == fingerprint(np.arange(3), "a")
    True
    >>> fingerprint(np.arange(3)) == fingerprint(np.arange(3.0))
    False
    """
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype.str}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
        elif isinstance(part, Path):
            found.update(file_checksum(part, whole=True).encode())
        else:
            found.update(repr(part).encode())
        found.update(b"\0")
    return found.hexdigest()


def _end_of_links(path: Path) -> Path:
    if not path.is_symlink():
        return path
    with suppress(RuntimeError):  # of a link to itself, before Python 3.13
        path = path.resolve()
    if path.is_symlink():
        raise InvalidInput(f"{path.name} is a symbolic link that leads back to itself; remove it")
    return path


def _remove_orphans(folder: Path) -> None:
    """Remove temporary files and folders of processes of this computer that do not run any more or do not need them."""
    for path in folder.glob(f"{_PART}{_computer()}-*"):
        if (found := _OWNER.match(path.name)) and not _is_in_use(path.name, int(found[1])):
            _remove_part(path)  # it stays if another process has just removed it, or it is somebody else's


def _is_in_use(name: str, process: int) -> bool:
    import psutil  # here, for the command line's start does not need it

    return name in _parts_in_use if process == os.getpid() else psutil.pid_exists(process)


@functools.cache
def _computer() -> str:
    """Word that tells this computer from others that share a folder with it."""
    return hashlib.sha256(platform.node().encode()).hexdigest()[:8]


def owner_of(path: Path) -> str:
    """Name of the engine (or of ``core``, ``gui``) that a source file belongs to; an empty text for other files."""
    path = path.resolve()
    return path.relative_to(_PACKAGE).parts[0] if path.is_relative_to(_PACKAGE) else ""


@functools.cache
def user_cache() -> Path:
    """Folder of the user's for what can be made again, or that of NAPARI_GPUBIO_CACHE; a temporary one in need."""
    named = os.environ.get(CACHE)
    own = Path(named) if named else platformdirs.user_cache_path("napari-gpubio", appauthor=False)
    if (problem := _problem_of_cache(own)) is None:
        return own
    other = Path(tempfile.gettempdir()) / f"napari-gpubio-{os.getuid() if hasattr(os, 'getuid') else getpass.getuser()}"
    if _problem_of_cache(other) is not None:
        other = Path(tempfile.mkdtemp(prefix="napari-gpubio-"))  # for this process
    logger.warning("%s; compiled functions are kept in %s", problem, other)
    return other


def _problem_of_cache(folder: Path) -> str | None:
    """Why a folder cannot hold a cache of this user's, or None if it can."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
        free = shutil.disk_usage(folder).free
        is_others = hasattr(os, "getuid") and folder.stat().st_uid != os.getuid()
    except OSError as error:
        return f"{folder} cannot be written ({error.strerror})"
    if is_others:
        return f"{folder} belongs to another user"
    return f"the disk of {folder} is full" if free < _MIN_FREE_CACHE_BYTES else None


@functools.cache
def machine_code_folder(owner: str) -> Path:
    """Folder of the user for the machine code of an engine, named after the hash of all sources that go into it.

    Numba itself looks at one file only, and would run yesterday's code after an edit in another one.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return (Path(chosen) if chosen else user_cache()) / f"{owner or 'other'}-{hash_of_kernels(owner)}"


def hash_of_kernels(owner: str) -> str:
    """Hash of the sources of an engine's compiled functions and of those that these may call, and of Numba's version.

    Without an owner: of those of all engines.
    """
    import importlib.metadata  # here, for it is slow to import

    digest = hashlib.sha256(importlib.metadata.version("numba").encode())
    texts: dict[str, Mapping[str, bytes]] = {}
    waiting = {"core", owner} if owner else {""}
    while (folder := min(waiting - texts.keys(), default=None)) is not None:
        texts[folder] = _sources_of(folder)
        named = {name.decode() for text in texts[folder].values() for name in _ENGINE_NAMED.findall(text)}
        waiting |= {name for name in named if (_PACKAGE / name).is_dir()}
    for path, text in sorted((path, text) for folder in texts for path, text in texts[folder].items()):
        digest.update(path.encode() + b"\0" + text)
    return digest.hexdigest()[:16]


def _sources_of(folder: str) -> dict[str, bytes]:
    """Texts of the compiled functions of a folder of the package, by path."""
    found = {}
    for path in (_PACKAGE / folder).rglob("*.py"):
        text = path.read_bytes()
        if b"core.jit" in text or b"import numba" in text or "kernels" in path.parts:
            found[path.relative_to(_PACKAGE).as_posix()] = text
    return found
