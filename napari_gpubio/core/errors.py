"""Errors for users: each message gives the problem, the value, and what to do about it."""

from collections.abc import Iterator
from contextlib import contextmanager


class GpuBioError(Exception):
    """Base of every error raised on purpose by napari-gpubio."""


def printable(text: str) -> str:
    """Return a text that every terminal and file takes; halves of characters, as in odd file names, become codes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


_BEGINNING, _END = 1500, 400  # characters that are kept of a longer message


class InvalidInput(GpuBioError, ValueError):
    """A file, an array or a parameter cannot be used as given.

    Parameters
    ----------
    message
        The sentence. Of a longer one than anybody reads, because it quotes what was given, the middle is left out.

    Attributes
    ----------
    file
        Name of the file in the sentence; None until `core.reading.reading` has seen to it.
    """

    file: str | None = None

    def __init__(self, message: object = "") -> None:
        text = printable(str(message))
        if len(text) > _BEGINNING + _END:
            text = f"{text[:_BEGINNING]} [...] {text[-_END:]}"
        super().__init__(text)


class GpuUnavailable(GpuBioError, RuntimeError):
    """A GPU was requested by name, and none works."""


class OutOfMemory(GpuBioError, MemoryError):
    """The computer has less memory than the work takes."""


@contextmanager
def memory_in_words() -> Iterator[None]:
    """Raise an `OutOfMemory` with a sentence for a MemoryError inside, which says at most how much was asked for.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.core.errors import OutOfMemory, memory_in_words
    >>> try:
    ...     with memory_in_words():
    ...         np.empty((1 << 20, 1 << 20, 1 << 10))
    ... except OutOfMemory as error:
    ...     print(str(error)[:34])
    the memory does not suffice (Unabl
    """
    try:
        yield
    except MemoryError as error:
        if isinstance(error, GpuBioError):
            raise
        why = f" ({error})" if str(error) else ""
        raise OutOfMemory(
            f"the memory does not suffice{why}; close other programs, or use a smaller volume, fewer outputs, or a "
            "machine with more memory"
        ) from error


class OutOfGpuMemory(GpuBioError, MemoryError):
    """The smallest possible piece of the work does not fit on the GPU.

    Parameters
    ----------
    needed_mb, free_mb
        What the piece needs and what the device has, in MiB.
    what
        The work, as the user knows it.
    """

    def __init__(self, needed_mb: float, free_mb: float, what: str = "the computation") -> None:
        self.needed_mb = needed_mb
        self.free_mb = free_mb
        super().__init__(
            f"{what} needs about {needed_mb:.0f} MB of GPU memory and {free_mb:.0f} MB are free. "
            "Close other programs that use the GPU, use a smaller volume, or choose device='cpu'."
        )
