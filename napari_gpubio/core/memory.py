"""How much memory a computation takes, known before it begins: a sum of named parts; and memory of mapped files."""

import mmap
from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_gpubio.core.device import CPU, Device, free_memory_bytes
from napari_gpubio.core.errors import InvalidInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes that a computation takes on a device at its fullest moment, besides what its caller holds before.

    Compiled code and the libraries' own needs, some 100 MB in a process that has just begun, are not in it.

    Parameters
    ----------
    inputs
        What is given, as the kernels take it.
    tallies
        What is added up while the work goes on.
    results
        What the caller gets.
    scratch
        What else there is for a while.

    Examples
    --------
    >>> Memory(inputs=3 << 20, results=1 << 20).megabytes
    4.0
    """

    inputs: int = 0
    tallies: int = 0
    results: int = 0
    scratch: int = 0

    @property
    def total(self) -> int:
        """All of them, bytes."""
        return self.inputs + self.tallies + self.results + self.scratch

    @property
    def megabytes(self) -> float:
        """All of them, MiB."""
        return self.total / 2**20

    def check(self, what: str, advice: str, device: Device = CPU) -> None:
        """Raise InvalidInput if there is not so much: ``what`` needs it, and what to do instead."""
        if self.total > (free := free_memory_bytes(device)):
            raise InvalidInput(
                f"{what} needs about {self.megabytes:.0f} MB and {free / 2**20:.0f} MB are free; {advice}"
            )


def fuller(*moments: Memory) -> Memory:
    """Return the moment at which most is taken."""
    return max(moments, key=lambda moment: moment.total)


def map_of(frames: Any) -> mmap.mmap | None:
    """Return the mapped file whose memory an array uses, or None if it is in memory."""
    while isinstance(frames, np.ndarray):
        if isinstance(frames, np.memmap) and frames.mode == "c":  # its changes are nowhere else
            return None
        frames = frames.base
    return frames if isinstance(frames, mmap.mmap) else None


def forget_pages(frames: Any) -> None:
    """Let the system take back the memory of what was read of a mapped file; it is read again where it is used again.

    Pages of the file that this process has looked at count as its memory until then. Other arrays are left alone, as
    are all on Windows, which takes such pages back by itself.
    """
    if hasattr(mmap, "MADV_DONTNEED") and (mapped := map_of(frames)) is not None:
        mapped.madvise(mmap.MADV_DONTNEED)
