"""What every benchmark needs: this working tree made importable, timings, rows of results, and the files they go to.

Importing it makes `napari_gpubio` importable, so import it first.
"""
# ruff: noqa: E402 - the package is made importable before it is imported

import argparse
import gc
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numba
import numpy.typing as npt

ROOT = Path(__file__).resolve().parents[1]
RESULTS = Path(__file__).with_name("results")


sys.path.insert(0, str(ROOT))  # this working tree, installed or not

from napari_gpubio import __version__
from napari_gpubio.core.device import Device, free_gpu_pool, machine

Array = npt.NDArray[Any]
Row = dict[str, Any]


# ---------------------------------------------------------------------------------------------------------------- time
@dataclass(frozen=True, slots=True)
class Timing:
    """Best wall seconds, their median, and the best of the process's CPU seconds (which other people's load leaves)."""

    seconds: float
    median: float
    cpu_seconds: float | None = None


class Stopwatch:
    """Gathers the times of several runs of the same work.

    Examples
    --------
    ``with watch.running(): work()``, several times; then ``watch.timing()``.
    """

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.busy: list[float] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Enclose one run."""
        begun, used = time.perf_counter(), time.process_time()
        yield
        self.wall.append(time.perf_counter() - begun)
        self.busy.append(time.process_time() - used)

    def timing(self) -> Timing:
        """Best, median and best processor seconds."""
        return Timing(min(self.wall), sorted(self.wall)[len(self.wall) // 2], min(self.busy))


def timed(work: Callable[[], object], repeats: int) -> Timing:
    """Time a function after one call that does not count."""
    work()
    watch = Stopwatch()
    for _ in range(repeats):
        with watch.running():
            work()
    return watch.timing()


def timed_on(device: Device, work: Callable[[], object], repeats: int) -> Timing:
    """Time a function; on a GPU its end is waited for."""
    if not device.is_gpu:
        return timed(work, repeats)
    import cupy

    def finished() -> None:
        work()
        cupy.cuda.Device(device.indices[0]).synchronize()

    with cupy.cuda.Device(device.indices[0]):
        return timed(finished, repeats)


def timed_by_events(device: Device, work: Callable[[], object], repeats: int, launches: int = 1) -> Timing:
    """Time what is launched on the current stream by the GPU's own clock; each time is the mean of some launches."""
    import cupy

    with cupy.cuda.Device(device.indices[0]):
        for _ in range(3):
            work()
        seconds = []
        for _ in range(repeats):
            first, last = cupy.cuda.Event(), cupy.cuda.Event()
            first.record()
            for _ in range(launches):
                work()
            last.record()
            last.synchronize()
            seconds.append(1e-3 * cupy.cuda.get_elapsed_time(first, last) / launches)
    return Timing(min(seconds), sorted(seconds)[len(seconds) // 2])


class PoolBytes:
    """Bytes of a GPU's pool: how many more are in use, and by how much the pool has grown, since this was made."""

    def __init__(self, device: Device) -> None:
        gc.collect()
        free_gpu_pool(device)
        self._device = device
        self._before = self._now()

    def used_and_grown(self) -> tuple[int, int]:
        """Both, now."""
        used, grown = (now - before for now, before in zip(self._now(), self._before, strict=True))
        return used, grown

    def _now(self) -> tuple[int, int]:
        import cupy

        with cupy.cuda.Device(self._device.indices[0]):
            pool = cupy.get_default_memory_pool()
            return int(pool.used_bytes()), int(pool.total_bytes())


def gpu_counts(device: Device) -> list[int]:
    """1, 2, 4, ... and all of the requested GPUs."""
    most = len(device.indices)
    return sorted({most, *(2**n for n in range(6) if 2**n < most)})


def thread_counts() -> list[int]:
    """1, 2, 4, ... and all of Numba's threads."""
    most = numba.config.NUMBA_NUM_THREADS
    return sorted({most, *(2**n for n in range(10) if 2**n <= most)})


def threads_text(count: int) -> str:
    """``"1 thread"`` or ``"4 threads"``."""
    return "1 thread" if count == 1 else f"{count} threads"


@contextmanager
def limited_threads(count: int) -> Iterator[int]:
    """Limit Numba to some threads inside the block (0: all of them); gives their number."""
    before = numba.get_num_threads()
    threads = count or numba.config.NUMBA_NUM_THREADS
    numba.set_num_threads(threads)
    try:
        yield threads
    finally:
        numba.set_num_threads(before)


def ends_after(minutes: float | None) -> float:
    """When to begin no further row, by `time.monotonic`; None: never."""
    return float("inf") if minutes is None else time.monotonic() + 60 * minutes


# ---------------------------------------------------------------------------------------------------------------- rows
def row(name: str, device: Device, timing: Timing, amount: float, unit: str, **more: Any) -> Row:
    """A line of the results; ``rate`` is ``amount`` (in ``unit``) per best second; on a CPU with the load."""
    if not device.is_gpu:
        more = {"load_average": load_average()[:1], **more}
    return {
        "name": name,
        "device": device.describe(),
        "seconds": timing.seconds,
        "median_seconds": timing.median,
        "cpu_seconds": timing.cpu_seconds,
        "amount": amount,
        "rate": amount / timing.seconds,
        "rate_per_core": amount / timing.cpu_seconds if timing.cpu_seconds and not device.is_gpu else None,
        "unit": unit + "/s",
        **more,
    }


def skipped(name: str, why: str) -> Row:
    """A line with the reason why there is no figure."""
    return {"name": name, "skipped": why}


def missing(packages: Mapping[str, Sequence[str]], name: str) -> str | None:
    """Why a peer is not there, or None if it is; packages have a module, and the distributions it may come from."""
    module, distribution, *_ = packages[name]
    return None if importlib.util.find_spec(module) is not None else f"{distribution} is not installed"


def versions(packages: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Versions of the peers that are there."""
    found = {}
    for name, (module, *distributions) in packages.items():
        for distribution in distributions if importlib.util.find_spec(module) is not None else ():
            with suppress(metadata.PackageNotFoundError):
                found.setdefault(name, metadata.version(distribution))
    return found


def compact(number: float) -> str:
    """A number of three digits with its power of ten."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(number) >= size:
            return f"{number / size:.3g} {letter}"
    return f"{number:.3g} "


def table(columns: Sequence[str], lines: Sequence[str]) -> list[str]:
    """A Markdown table of lines that are already written."""
    return ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|", *lines]


def line(*cells: object) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


def time_lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table of seconds: rows have by, voxels, seconds, median, and maybe cpu_seconds."""
    lines = []
    for row in rows:
        busy = row.get("cpu_seconds")
        each = 1e6 * (busy or row["seconds"]) / row["voxels"]
        cpu = "" if busy is None else f"{busy:.2f}"
        figures = f"{row['voxels']:,}", f"{row['seconds']:.4g}", f"{row['median']:.4g}", cpu, f"{each:.3g}"
        lines.append(line(row["by"], *figures))
    return table(("by", "voxels", "best, s", "median, s", "CPU s", "µs a voxel"), lines)


# --------------------------------------------------------------------------------------------------------------- files
def commit() -> str:
    """The commit of the working tree, with ``-dirty`` where files differ, or nothing."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        return ""
    done = subprocess.run([git, "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


def load_average() -> list[float]:
    """How many processes needed a core in the last 1, 5 and 15 minutes, where the system reports it."""
    return [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else []


def header(quick: bool) -> dict[str, Any]:
    """Machine, versions and date."""
    return {
        "napari_gpubio": __version__,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
        "quick": quick,
        "load_average": load_average(),
        "machine": machine(),
    }


def header_lines(head: dict[str, Any]) -> list[str]:
    """Machine, versions and date, to read."""
    facts = ", ".join(f"{name} {value}" for name, value in head["machine"].items())
    commit_text = f", commit {head['commit']}" if head["commit"] else ""
    return [
        f"napari-gpubio {head['napari_gpubio']}{commit_text}, {head['date']}{', quick run' if head['quick'] else ''}.",
        f"{facts}. Load average at the start {head['load_average']}.",
    ]


def argument_parser(description: str | None) -> argparse.ArgumentParser:
    """Arguments of a benchmark: where its results are written."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    return parser


def result_path(given: Path | None, benchmark: str, date: str, device: Device | None = None) -> Path:
    """Return the given file, else ``results/<benchmark>_<cpu or cuda>_<date>.json``."""
    kind = "" if device is None else "_cuda" if device.is_gpu else "_cpu"
    return given or RESULTS / f"{benchmark}{kind}_{date}.json"


def save(path: Path, everything: dict[str, Any], text: str) -> None:
    """Write the JSON file and, beside it, the tables to read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text_json = json.dumps(everything, indent=1, default=lambda number: number.item())  # NumPy's numbers as Python's
    path.write_text(text_json + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(text, encoding="utf-8")


def publish(path: Path, everything: dict[str, Any], text: str) -> None:
    """Write and print the results."""
    save(path, everything, text)
    print(text, written(path), sep="\n")


def written(path: Path) -> str:
    """What `save` wrote, to print."""
    return f"written: {path} and {path.with_suffix('.md').name}"


class Report:
    """Parts of a benchmark of quality: everything for the JSON file, and tables to read; written after each part."""

    def __init__(self, path: Path, title: str, facts: dict[str, Any], *lines: str) -> None:
        self.path, self.everything = path, facts
        self._lines = [f"# {title}", "", *header_lines(facts), *lines]

    def add(self, name: str, title: str, found: Any, *lines: str) -> None:
        """Add a part and write everything."""
        self.everything[name] = found
        self.everything["load_average_end"] = load_average()
        self._lines += ["", f"## {title}", "", *lines]
        print("\n".join(["", f"## {title}", *lines]), flush=True)
        save(self.path, self.everything, "\n".join(self._lines) + "\n")

    def run(self, parts: Mapping[str, Callable[[], object]], is_over: Callable[[], bool] = lambda: False) -> None:
        """Do the parts, each of which adds to this; one that fails is reported, and the others go on."""
        for name, work in parts.items():
            if is_over():
                self.add(name, name, None, "No time left.")
                continue
            try:
                work()
            except Exception as error:  # noqa: BLE001 - a machine is lent for minutes
                traceback.print_exc()
                self.add(f"{name} failed", name, None, f"Failed: {type(error).__name__}: {error}")
        print(written(self.path))
