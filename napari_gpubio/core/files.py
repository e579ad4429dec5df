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


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path``; rename it to ``path`` when the block ends well.

    If the block raises, the temporary file is removed and an older file at ``path`` stays as it was.
    The temporary name keeps the target's suffixes, because many libraries choose the format by them.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise InvalidInput(f"the folder {target.parent} does not exist; create it or choose another place")
    suffix = "".join(target.suffixes[-2:])
    # a free name, but not mkstemp's file: that is readable by its owner only, whatever the umask says
    part = target.parent / f".part-{secrets.token_hex(8)}{suffix}"
    part.touch(exist_ok=False)
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
