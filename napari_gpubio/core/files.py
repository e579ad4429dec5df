"""Where the sample files are, and how a file is written without ever leaving half of one."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from napari_gpubio.core.errors import InvalidInput

_PACKAGE = Path(__file__).resolve().parent.parent


def sample_path(name: str) -> Path:
    """Path of a file of ``sample_data``, in an installed package as in a source tree.

    Raises
    ------
    InvalidInput
        If there is no such sample.
    """
    for root in (_PACKAGE / "sample_data", _PACKAGE.parent / "sample_data"):
        if (path := root / name).exists():
            return path
    raise InvalidInput(f"there is no sample file {name!r}; reinstall napari-gpubio if it should be there")


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that is there and not empty.

    Raises
    ------
    InvalidInput
        If it does not exist, is a folder, cannot be reached, or has no bytes.
    """
    file = Path(path)
    shown = str(file)[:200]
    try:
        if file.is_dir():
            raise InvalidInput(f"{shown} is a folder; give the file in it")
        if not file.is_file():
            raise InvalidInput(f"{shown} does not exist; check the name and the folder")
        if file.stat().st_size == 0:
            raise InvalidInput(f"{shown} is empty (0 bytes); copy or export it again")
    except OSError as error:  # a name that is too long, a folder that may not be entered
        raise InvalidInput(f"{shown} cannot be opened ({error.strerror}); check the path") from error
    return file


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path``; rename it to ``path`` when the block ends well.

    If the block raises, the temporary file is removed and an older file at ``path`` stays as it was.
    The temporary name keeps the target's suffixes, because many libraries choose the format by them.

    Raises
    ------
    InvalidInput
        If the folder is missing, or the system refuses to write (disk full, no permission).
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder {target.parent} does not exist; create it or choose another place")
    suffix = "".join(target.suffixes[-2:])
    # a free name, but not mkstemp's file: that is readable by its owner only, whatever the umask says
    part = target.parent / f".part-{secrets.token_hex(8)}{suffix}"
    try:
        part.touch(exist_ok=False)
        yield part
        part.replace(target)
    except OSError as error:
        raise InvalidInput(
            f"{target.name} could not be written ({error.strerror or error}); free space or choose another folder. "
            "What was there before is unchanged"
        ) from error
    finally:
        part.unlink(missing_ok=True)
