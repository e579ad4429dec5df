"""A disk on which no file can grow."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(room: int = 1024) -> Iterator[None]:
    """Let no file of this process grow beyond ``room`` bytes; writing more fails as on a full disk (POSIX only)."""
    import resource

    _, hard = before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
