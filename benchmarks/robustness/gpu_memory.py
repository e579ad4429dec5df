"""GPU memory that runs out at every allocation of every engine: each run completes, or says so; the next one works.

CuPy's allocator is wrapped: it raises CuPy's out-of-memory error at the n-th allocation of a run, for n = 1, 2, ...
until a run gets through without one. A run must give the bits of the undisturbed run, or raise `OutOfGpuMemory` or
`InvalidInput`; the run after it, undisturbed, must give these bits. Both where
only the n-th allocation fails, and where all from the n-th on do, as on a GPU that is full.

It needs a GPU, NumPy, SciPy, Numba, and CuPy only.
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import header, header_lines, line, publish, result_path, table

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput, OutOfGpuMemory
from robustness.engines import ENGINES, Engine

_MOST = 2000  # allocations of a run that are tried
_ON_GPU = [name for name in ENGINES if name != "multi-exposure fit"]  # which has a CPU backend only


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", type=Path, help="where to write; default: benchmarks/results, by date")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--engines", nargs="+", choices=_ON_GPU, default=_ON_GPU, metavar="ENGINE")


def run(arguments: argparse.Namespace) -> None:
    device = choose_device(arguments.device)
    facts, rows = header(quick=False) | {"device": device.describe()}, []
    for name in arguments.engines:
        for lasting in (False, True):
            row = campaign(ENGINES[name], device, lasting=lasting)
            rows.append({"engine": name, "which": "from n on" if lasting else "n-th", **row})
            print(rows[-1], flush=True)
    path = result_path(arguments.json, "robustness_gpu_memory", facts["date"], device)
    publish(path, {**facts, "rows": rows}, report_text(facts, rows))


class Failing:
    """An allocator that fails once at a number, or from it on, as CuPy's pool does when the GPU is full."""

    def __init__(self, allocate: Any) -> None:
        self._allocate = allocate
        self.reset(0, lasting=False)

    def reset(self, fail_at: int, *, lasting: bool) -> None:
        """Count anew; 0 never fails."""
        self.count, self.failed = 0, 0
        self._fail_at, self._lasting = fail_at, lasting

    def __call__(self, size: int) -> Any:
        """Allocate, or fail."""
        import cupy

        self.count += 1
        if self._fail_at and (self.count == self._fail_at or (self._lasting and self.count > self._fail_at)):
            self.failed += 1
            raise cupy.cuda.memory.OutOfMemoryError(size, 0)
        return self._allocate(size)


@contextmanager
def failing() -> Iterator[Failing]:
    """Put a failing allocator in the place of CuPy's pool."""
    import cupy

    allocator = Failing(cupy.get_default_memory_pool().malloc)
    cupy.cuda.set_allocator(allocator)
    try:
        yield allocator
    finally:
        cupy.cuda.set_allocator(cupy.get_default_memory_pool().malloc)


def campaign(engine: Engine, device: Device, *, lasting: bool) -> dict[str, Any]:
    """Fail at every allocation; returns how often runs came out how."""
    with failing() as allocator:
        right = engine.fingerprint(engine.result(str(device)))  # also compiles the kernels
        found: Counter[str] = Counter()
        examples: dict[str, str] = {}
        for number in range(1, _MOST):
            allocator.reset(number, lasting=lasting)
            how, words = _outcome(engine, device, right)
            if not allocator.failed:
                break
            allocator.reset(0, lasting=False)
            after, more = _outcome(engine, device, right)
            for what, said in ((how, words), (f"next: {after}", more)):
                found[what] += 1
                examples.setdefault(what, f"allocation {number}: {said}")
    return {"allocations": number - 1, "found": dict(found), "examples": examples}


def _outcome(engine: Engine, device: Device, right: str) -> tuple[str, str]:
    """How a run came out, and its words."""
    try:
        result = engine.result(str(device))
    except (OutOfGpuMemory, InvalidInput) as error:
        return "said", str(error)
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        return type(error).__name__.upper(), str(error)[:300]
    return ("same bits", "") if engine.fingerprint(result) == right else ("OTHER BITS", "")


def report_text(facts: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The results to read."""
    columns = ("engine", "fails", "allocations", "disturbed runs", "runs after them")
    lines = []
    for r in rows:
        after = {w.removeprefix("next: "): n for w, n in r["found"].items() if w.startswith("next: ")}
        disturbed = {w: n for w, n in r["found"].items() if not w.startswith("next: ")}
        lines.append(line(r["engine"], r["which"], r["allocations"], *(_counts(c) for c in (disturbed, after))))
    kept = all(w.removeprefix("next: ").islower() and w != "next: said" for r in rows for w in r["found"])
    outcome = f"Completed with the same bits or said so, and right afterwards: {'all' if kept else 'NOT all'}."
    words = [f"* {r['engine']}, {w}: {said}" for r in rows for w, said in r["examples"].items() if w != "same bits"]
    head = [
        "# Out of GPU memory at every allocation",
        "",
        *header_lines(facts),
        f"Device: {facts['device']}. {outcome}",
    ]
    return "\n".join([*head, "", *table(columns, lines), "", *(word for word in words if not word.endswith(": ")), ""])


def _counts(found: dict[str, int]) -> str:
    return ", ".join(f"{count} {what}" for what, count in found.items()) or "none"
