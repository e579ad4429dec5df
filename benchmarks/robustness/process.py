"""What a process holds: memory and threads, after everything that can be given back was given back."""

import ctypes
import gc
import os
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass(frozen=True, slots=True)
class Held:
    """Resident memory (MB) and threads of this process."""

    megabytes: float
    threads: int


def held() -> Held:
    """Return what this process holds once garbage was collected and free memory went back to the system (Linux)."""
    for _ in range(3):  # objects with finalizers free others
        gc.collect()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # a C library without it
            ctypes.CDLL("libc.so.6").malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return Held(megabytes=pages * _PAGE / 2**20, threads=len(list(Path("/proc/self/task").iterdir())))


def growth(early: Held, late: Held) -> dict[str, Any]:
    """Memory and threads early and late, and by how many percent the memory grew."""
    return {
        "early": asdict(early),
        "late": asdict(late),
        "growth_percent": 100.0 * (late.megabytes / early.megabytes - 1.0),
    }
