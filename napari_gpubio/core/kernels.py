"""From a ``.cu`` file to a callable kernel.

Included ``.cuh`` files are spliced into the text, because CuPy's disk cache does not look at the content of an
included file and would run yesterday's code. Run parameters are kernel arguments; a ``define`` is for a real
specialization only (the floating-point type, say).
"""

import functools
import re
from pathlib import Path
from typing import Any

from napari_gpubio.core.errors import GpuBioError

_INCLUDE = re.compile(r'^[ \t]*#include[ \t]+"([^"]+)"[^\n]*$', re.MULTILINE)
_CORE = Path(__file__).resolve().parent


@functools.cache
def source(path: Path) -> str:
    """Text of a ``.cu`` file with each of its ``.cuh`` files spliced in once, where it is first included."""
    return _splice(path, set())


def _splice(path: Path, seen: set[Path]) -> str:
    def replace(match: re.Match[str]) -> str:
        included = _find(match[1], path.parent)
        if included in seen:
            return ""
        seen.add(included)
        return _splice(included, seen)

    return _INCLUDE.sub(replace, path.read_text(encoding="utf-8")).replace("#pragma once\n", "")


def _find(name: str, folder: Path) -> Path:
    for root in (folder, folder.parent, _CORE):
        if (path := root / name).is_file():
            return path
    raise GpuBioError(f"kernel header {name!r} is missing; reinstall napari-gpubio")


def options(*, defines: tuple[str, ...] = (), strict: bool = False, fast: bool = False) -> tuple[str, ...]:
    """NVRTC options.

    ``strict`` keeps the operation order of the CPU backend (no fused multiply-add). ``fast`` lets the special function
    unit compute divisions, roots and the functions of ``fastmath.cuh``, a few units in the last place off.
    """
    chosen = (("--fmad=false",) if strict else ()) + (("--use_fast_math", "-DFAST_MATH") if fast else ())
    return ("-std=c++17", *(f"-D{d}" for d in defines), *chosen)


@functools.lru_cache(maxsize=64)
def _module(path: Path, opts: tuple[str, ...], device_index: int) -> Any:  # noqa: ARG001 - one module a device
    import cupy

    return cupy.RawModule(code=source(path), options=opts, backend="nvrtc")


def kernel(path: Path, name: str, *, defines: tuple[str, ...] = (), strict: bool = False, fast: bool = False) -> Any:
    """Compile (once per device) and return a kernel.

    Parameters
    ----------
    path
        The ``.cu`` file.
    name
        An ``extern "C"`` function in it.
    defines, strict, fast
        See `options`.

    Returns
    -------
    Callable as ``kernel(grid, block, args, shared_mem=)`` on the current CUDA device. Scalars in ``args`` must be
    NumPy scalars of the kernel's own type: CuPy widens Python numbers and does not check.
    """
    import cupy

    chosen = options(defines=defines, strict=strict, fast=fast)
    return _module(path, chosen, cupy.cuda.Device().id).get_function(name)
