"""Compile CUDA source text with g++ and launch its kernels on NumPy arrays.

A launch checks what CUDA does not: the number of arguments, the type of every scalar and array against the kernel's
own parameters, contiguity, and the limits on blocks and shared memory.
"""

import contextlib
import ctypes
import functools
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core import files, kernels

HEADER = Path(__file__).with_name("cuda_on_cpu.h")
SCHEDULER = HEADER.with_name("scheduler.cpp")
_SCHEDULER_OBJECT = "scheduler.o"
NATURAL, REVERSED = 0, -1
CACHE = "NAPARI_GPUBIO_TEST_CACHE"
_KERNEL = re.compile(
    r"(?P<template>template\s*<[^;{}]*>\s*)?"
    r'(?:extern\s*"C"\s*)?(?:static\s+|inline\s+)*__global__\s+(?:__launch_bounds__\s*\([^;{}]*?\)\s*)?'
    r"void\s+(?:__launch_bounds__\s*\([^;{}]*?\)\s*)?(?P<name>\w+)\s*\("
)
_DYNAMIC_SHARED = re.compile(
    r"extern\s+__shared__\s+(?:__align__\s*\(\s*\d+\s*\)\s*)?([A-Za-z_][\w ]*?)\s+(\w+)\s*\[\s*\]\s*;"
)
_FLAGS = ("-shared", "-fPIC", "-Wall", "-Wextra", "-Wdouble-promotion", "-Wno-unknown-pragmas")
_QUIET = ("-Wno-unused-function", "-Wno-unused-parameter", "-Wno-maybe-uninitialized", "-Wno-psabi")
_MAX_SHARED, _MAX_SHARED_OPT_IN = 48 * 1024, 227 * 1024
_launching = threading.RLock()  # the scheduler of a library has one state for all threads
_order = NATURAL


class CompileError(RuntimeError):
    """The compiler refused the source; the message is its own."""


class LaunchError(RuntimeError):
    """A kernel ran into a deadlock, a divergent barrier or a write past its shared memory."""


def why_not() -> str | None:
    """One sentence with the reason why CUDA sources cannot run on this CPU, or None where they can."""
    if not sys.platform.startswith("linux"):
        return "CUDA kernels run on the CPU on Linux only"
    if shutil.which("g++") is None:
        return "g++ is not installed: sudo apt-get install -y g++"
    return None


def can_fuse() -> bool:
    """Whether this processor has the fused multiply-add that ``fused=True`` compiles to."""
    try:
        facts = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    return bool(re.search(r"^flags\s*:.*\bfma\b", facts, re.MULTILINE))


@contextlib.contextmanager
def thread_order(seed: int) -> Iterator[None]:
    """Run every launch in the block with another order of threads: `NATURAL`, `REVERSED`, or a number for a shuffle."""
    global _order
    before, _order = _order, seed
    try:
        yield
    finally:
        _order = before


def load(path: Path, *, defines: tuple[str, ...] = (), sanitize: bool = False, fused: bool = False) -> "CpuModule":
    """Compile one of the project's ``.cu`` files: the text and the defines that CuPy would be given.

    ``sanitize`` adds g++'s checks for undefined behavior, which print ``runtime error`` to stderr. With ``fused``,
    products and sums are fused, as on a GPU without ``--fmad=false``; explicitly rounded operations stay as they are.
    """
    options = kernels.options(defines=defines)
    return compile_text(kernels.source(path), options=options, name=path.name, sanitize=sanitize, fused=fused)


def compile_text(
    text: str, *, options: Sequence[str] = (), name: str = "kernel.cu", sanitize: bool = False, fused: bool = False
) -> "CpuModule":
    """Compile CUDA source text with its includes spliced in, or take it from the cache; see `load`.

    Of NVRTC's options g++ gets ``-D``, ``-U`` and ``-std``.
    """
    flags = [*_FLAGS, *_QUIET]
    # g++ takes a third less time for -O1, which makes the same numbers; but it fuses products from -O2 on
    flags += ["-O2", "-mfma", "-ffp-contract=fast"] if fused else ["-O1", "-ffp-contract=off"]
    flags += ["-fsanitize=undefined", "-fno-sanitize=vptr"] if sanitize else []
    macros = gxx_options(options)
    flags += [word for word in macros if word.startswith("-std=")]
    return _compile(text, tuple(flags), tuple(word for word in macros if not word.startswith("-std=")), name)


def gxx_options(options: Sequence[str]) -> list[str]:
    """Keep ``-D``, ``-U`` and ``-std`` of NVRTC's options, also where option and value are two words."""
    words = [str(word) for word in options]
    joined = [
        "-D" + words[i + 1] if word in ("-D", "--define-macro") else word
        for i, word in enumerate(words)
        if not (i and words[i - 1] in ("-D", "--define-macro"))
    ]
    kept = [re.sub(r"^--define-macro=", "-D", re.sub(r"^--std=", "-std=", word)) for word in joined]
    kept = [word for word in kept if re.match(r"-[DU]\w|-std=", word)]
    return kept if any(word.startswith("-std=") for word in kept) else ["-std=c++17", *kept]


@functools.lru_cache(maxsize=256)
def _compile(text: str, flags: tuple[str, ...], macros: tuple[str, ...], name: str) -> "CpuModule":
    pointer = cache_folder() / f"{Path(name).stem}-{_key(text, *flags, *macros)}.txt"
    library = pointer.with_name(pointer.read_text(encoding="utf-8")) if pointer.is_file() else None
    if library is None or not library.is_file():
        expanded = _expanded(text, flags, macros, name)  # macros that change nothing lead to the same library
        library = pointer.with_name(f"{Path(name).stem}-{_key(expanded, *flags)}.so")
        if not library.is_file():
            _build(expanded, flags, library)
        with tempfile.TemporaryDirectory(dir=pointer.parent) as work:
            part = Path(work) / pointer.name
            part.write_text(library.name, encoding="utf-8")
            part.replace(pointer)
    found = json.loads(_record(library).read_text(encoding="utf-8"))
    return CpuModule(ctypes.CDLL(str(library)), tuple(found["kernels"]), found["warnings"])


def _record(library: Path) -> Path:
    """The file with a library's kernels and the compiler's warnings."""
    return library.with_suffix(".json")


def _key(*words: str) -> str:
    """Hash of these words, of what is compiled in front of every kernel, and of the compiler's version."""
    ours = (HEADER.read_text(encoding="utf-8"), SCHEDULER.read_text(encoding="utf-8"), _version())
    return hashlib.sha256("\0".join([*words, *ours]).encode()).hexdigest()[:24]


@functools.cache
def _version() -> str:
    return _run(["g++", "--version"], "").stdout


def _expanded(text: str, flags: tuple[str, ...], macros: tuple[str, ...], name: str) -> str:
    """The text without its comments and its own macros; those of CUDA are still to be expanded."""
    standard = [flag for flag in flags if flag.startswith("-std=")]
    command = ["g++", "-E", "-x", "c++", "-DGPUBIO_ON_CPU=1", *standard, *macros, "-"]
    plain = _run(command, f'#line 1 "{name}"\n{text}').stdout
    return _DYNAMIC_SHARED.sub(r"DYN_SHARED(\1, \2);", plain)


def _kernel_names(expanded: str) -> list[str]:
    plain = re.sub(r"^#.*", "", expanded, flags=re.MULTILINE)
    return [found["name"] for found in _KERNEL.finditer(plain) if not found["template"]]


def _launchers(names: Sequence[str]) -> str:
    return "\n".join(
        f'extern "C" const char* launch_{n}(const unsigned* g, const unsigned* b, size_t s, int o, void** a) '
        f"{{ return cuda_on_cpu::launch({n}, g, b, s, o, a); }}\n"
        f'extern "C" const char* signature_{n}() {{ return cuda_on_cpu::signature({n}); }}'
        for n in names
    )


def cache_folder() -> Path:
    """Folder for what compilers made, kept from one run of the tests to the next."""
    chosen = os.environ.get(CACHE)
    folder = Path(chosen) if chosen else files.user_cache() / "tests"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@functools.cache
def _prepared(flags: tuple[str, ...]) -> Path:
    """Folder with the header, precompiled for these flags, and with the compiled scheduler."""
    folder = cache_folder() / f"header-{_key(*flags)}"
    if not folder.is_dir():
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            part = Path(work) / "part"
            part.mkdir()
            shutil.copy(HEADER, part)
            shutil.copy(SCHEDULER, part)
            _run(["g++", *flags, "-w", "-x", "c++-header", HEADER.name, "-o", f"{HEADER.name}.gch"], "", part)
            hidden = ["-fvisibility=hidden", "-c", SCHEDULER.name, "-o", _SCHEDULER_OBJECT]
            _run(["g++", *(flag for flag in flags if flag != "-shared"), *hidden], "", part)
            with contextlib.suppress(OSError):  # another process was quicker
                part.rename(folder)
    return folder


def _build(expanded: str, flags: tuple[str, ...], library: Path) -> None:
    folder, names = _prepared(flags), _kernel_names(expanded)
    unit = f'{expanded}\n#line 1 "launchers"\n{_launchers(names)}\n'
    include = ["-Winvalid-pch", "-include", str(folder / HEADER.name)]
    with tempfile.TemporaryDirectory(dir=library.parent) as work:
        part = Path(work) / "unit.so"
        objects = ["-x", "c++", "-", "-x", "none", str(folder / _SCHEDULER_OBJECT)]
        built = _run(["g++", *flags, *include, *objects, "-o", str(part)], unit)
        found = Path(work) / "unit.json"
        found.write_text(json.dumps({"kernels": names, "warnings": built.stderr}), encoding="utf-8")
        found.replace(_record(library))
        part.replace(library)


def _run(command: list[str], text: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False, timeout=300, cwd=folder)
    if done.returncode:
        raise CompileError(done.stderr)
    return done


class CpuModule:
    """The kernels of one source file, as `cupy.RawModule` gives them, and what g++ warned of."""

    def __init__(self, library: ctypes.CDLL, names: tuple[str, ...], warnings: str) -> None:
        self._library = library
        self.kernels = names
        self.warnings = warnings

    def get_function(self, name: str) -> "CpuKernel":
        """Return a kernel by its name."""
        if name not in self.kernels:
            raise KeyError(f"no kernel {name!r}; there are {', '.join(self.kernels) or 'none'}")
        return CpuKernel(name, self._library)


class CpuKernel:
    """One kernel, called as ``kernel(grid, block, args, shared_mem=0)``.

    Attributes
    ----------
    signature
        A word for each parameter: ``f4``, ``i4``, ``u8``, ``s16`` (a struct of 16 bytes); ``p`` in front for a
        pointer, ``q`` for a pointer to const.
    max_dynamic_shared_size_bytes
        As in CuPy: to be raised before a launch asks for more than 48 KiB.
    """

    def __init__(self, name: str, library: ctypes.CDLL) -> None:
        self.name = name
        self.max_dynamic_shared_size_bytes = _MAX_SHARED
        self._launch = library[f"launch_{name}"]
        self._launch.restype = ctypes.c_char_p
        describe = library[f"signature_{name}"]
        describe.restype = ctypes.c_char_p
        with _launching:  # the text lies in one place of the library
            self.signature: tuple[str, ...] = tuple(describe().decode().split())

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], shared_mem: int = 0, *, stream: Any = None
    ) -> None:
        """Launch on NumPy arrays and NumPy scalars and wait for the end.

        Raises
        ------
        TypeError
            If an argument does not fit the kernel's parameter.
        ValueError
            If a GPU would refuse the launch, or an array is not C-contiguous.
        LaunchError
            If threads got stuck at barriers, or wrote past dynamic shared memory.
        """
        dims, threads = _three(grid, "grid"), _three(block, "block")
        self._check_launch(dims, threads, shared_mem)
        values = self._values(args)
        pointers = (ctypes.c_void_p * max(1, len(values)))(*(ctypes.addressof(v) for v in values))
        with _launching:
            error = self._launch(
                (ctypes.c_uint * 3)(*dims),
                (ctypes.c_uint * 3)(*threads),
                ctypes.c_size_t(shared_mem),
                ctypes.c_int(_order),
                pointers,
            )
        if error:
            raise LaunchError(f"{self.name}: {error.decode()}")

    def _check_launch(self, grid: tuple[int, ...], block: tuple[int, ...], shared_mem: int) -> None:
        if min(*grid, *block) < 1 or grid[0] >= 2**31 or max(grid[1:]) > 65535:
            raise ValueError(f"{self.name}: CUDA refuses a grid of {grid} blocks of {block} threads")
        if block[0] * block[1] * block[2] > 1024 or block[2] > 64:
            raise ValueError(f"{self.name}: CUDA refuses a block of {block} threads")
        if not 0 <= shared_mem <= min(self.max_dynamic_shared_size_bytes, _MAX_SHARED_OPT_IN):
            raise ValueError(
                f"{self.name}: {shared_mem} bytes of shared memory are over the limit; "
                "raise kernel.max_dynamic_shared_size_bytes (at most 227 KiB)"
            )

    def _values(self, args: Sequence[Any]) -> list[Any]:
        if len(args) != len(self.signature):
            raise TypeError(f"{self.name} has {len(self.signature)} parameters and was given {len(args)}")
        pairs = zip(self.signature, args, strict=True)
        return [_value(self.name, i, word, arg) for i, (word, arg) in enumerate(pairs)]


def _three(size: Sequence[int], what: str) -> tuple[int, int, int]:
    if not 1 <= len(size) <= 3:
        raise ValueError(f"{what} is {size!r}; give 1 to 3 numbers")
    x, y, z = (*(int(n) for n in size), 1, 1)[:3]
    return x, y, z


def _value(kernel: str, index: int, word: str, arg: Any) -> Any:
    """Memory that holds one argument as the kernel takes it: a pointer, or the value itself."""
    try:
        return _pointer(word, arg) if word[0] in "pq" else _scalar(word, arg)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{kernel}, argument {index}: {error}") from None


def _scalar(word: str, arg: Any) -> Any:
    if not isinstance(arg, (np.generic, np.ndarray)):
        raise TypeError(f"the kernel takes {word} and got a Python {type(arg).__name__}, which CuPy would widen")
    is_struct = word[0] == "s" and arg.size == 1 and f"s{arg.dtype.itemsize}" == word
    if not is_struct and (isinstance(arg, np.ndarray) or _word(arg.dtype) != word):
        raise TypeError(f"the kernel takes {word} and got {type(arg).__name__} of {arg.dtype}")
    return ctypes.create_string_buffer(arg.tobytes(), arg.dtype.itemsize)


def _pointer(word: str, arg: Any) -> Any:
    if arg is None:
        return ctypes.c_void_p(None)
    if not isinstance(arg, np.ndarray):
        raise TypeError(f"the kernel takes an array ({word}) and got {type(arg).__name__}")
    if not _fits(word[1:], arg):
        raise TypeError(f"the kernel takes an array of {word[1:]} and got {arg.dtype}")
    if not arg.flags.c_contiguous:
        raise ValueError("the array is not C-contiguous")
    if word[0] == "p" and not arg.flags.writeable:
        raise ValueError("the array is read-only and the kernel's pointer is not const")
    return ctypes.c_void_p(arg.ctypes.data)


def _word(dtype: np.dtype[Any]) -> str:
    return f"{dtype.kind if dtype.kind in 'biuf' else 's'}{dtype.itemsize}"


def _fits(target: str, array: npt.NDArray[Any]) -> bool:
    """Whether a pointer to ``target`` may point at the array: the same kind and size, integers of either sign."""
    have = _word(array.dtype)
    if target[0] == "?":
        return True
    if target[0] == "s":  # float4* over float32 data, or a structured array
        return array.nbytes % int(target[1:]) == 0 and int(target[1:]) % array.dtype.itemsize == 0
    whole = "biu" if target[1:] == "1" else "iu"
    return have == target or (have[0] in whole and target[0] in whole and have[1:] == target[1:])
