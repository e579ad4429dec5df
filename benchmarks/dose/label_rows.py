"""Rows c and d: the big case of labels, its memory, and painting."""

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import PoolBytes, Row, row, skipped, timed_on
from speed import Job, Plan

from dose.plan import BIG_SHAPE, SMALL_BIG_SHAPE, big_case, target_text
from dose.resident import Resident, pinned
from dose.speed_rows import DEFAULT, FINE, ONE_EACH, repeats
from napari_gpubio.core.drivers import open_run
from napari_gpubio.dose.kernels.histogram.problem import Problem, make_problem
from napari_gpubio.dose.live import LiveDvh
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.run import dvh
from napari_gpubio.dose.settings import DvhSettings
from napari_gpubio.dose.structures.labels import LabelStructures

CUBE, BRUSH = 256, 20  # voxels along each axis


# ------------------------------------------------------------------------------------------------- rows c: the big case
def big_rows(plan: Plan) -> Iterator[Job]:
    """Labels of 512 x 512 x 400 voxels, 30 organs, a dose of 1 mm."""
    shape = "x".join(map(str, _shape(plan)))
    yield Job(f"c {shape}, resident, counting", partial(_big_resident, DEFAULT, plan))
    yield Job(f"c {shape}, resident, counting, accuracy 0.01 %", partial(_big_resident, FINE, plan))
    for memory in ("pinned", "pageable"):
        yield Job(f"c {shape}, from {memory} memory to counts", partial(_big_upload, memory, plan))
    yield Job(f"c {shape}, whole call", partial(_big_whole, plan))
    yield Job(f"c {shape}, memory", partial(_big_memory, plan))


def _shape(plan: Plan) -> tuple[int, int, int]:
    return SMALL_BIG_SHAPE if plan.quick else BIG_SHAPE


def _big_resident(settings: DvhSettings, plan: Plan, name: str) -> Row:
    dose, labels = big_case(_shape(plan))
    with Resident(dose, [labels], settings, plan.device) as resident:
        timing, kernels = resident.timed("count", plan.repeats), resident.kernel_seconds(plan.repeats)
    target = target_text(plan.device.kind, "big, resident")
    inside = float((labels.labels > 0).mean())
    return row(
        name, plan.device, timing, labels.labels.size, "voxels", target=target, kernel_seconds=kernels, inside=inside
    )


def _big_upload(memory: str, plan: Plan, name: str) -> Row:
    """From arrays that are checked and laid out to integers on the host, one sample a voxel."""
    if not plan.device.is_gpu:
        return skipped(name, "needs a GPU: --device cuda:0")
    dose, labels = big_case(_shape(plan))
    problem = _in_memory(make_problem(dose, [labels], ONE_EACH), memory)

    def work() -> None:
        run = open_run(problem, plan.device)
        run.advance(0, problem.items)
        run.snapshot()
        run.close()

    timing = timed_on(plan.device, work, plan.repeats)
    voxels = int(np.prod(_shape(plan)))
    target = target_text(plan.device.kind, "big, pinned") if memory == "pinned" else ""
    return row(name, plan.device, timing, voxels, "voxels", target=target)


def _in_memory(problem: Problem, memory: str) -> Problem:
    if memory != "pinned":
        return problem
    (work,) = problem.works
    grid = problem.grid._replace(source=pinned(problem.grid.source))
    pinned_work: Any = dataclasses.replace(work, labels=pinned(work.labels))  # type: ignore[union-attr,type-var]
    return dataclasses.replace(problem, grid=grid, works=(pinned_work,))


def _big_whole(plan: Plan, name: str) -> Row:
    """Checks of the arrays included, as a user has it."""
    dose, labels = big_case(_shape(plan))

    def work() -> None:
        own = Dose(values=dose.values, affine=dose.affine, unit=dose.unit)
        dvh(own, LabelStructures(labels=labels.labels, affine=labels.affine), device=plan.device)

    timing = timed_on(plan.device, work, plan.repeats)
    return row(name, plan.device, timing, labels.labels.size, "voxels")


def _big_memory(plan: Plan, name: str) -> Row:
    dose, labels = big_case(_shape(plan))
    declared = make_problem(dose, [labels], DEFAULT).memory(plan.device).total
    if plan.device.is_gpu:
        pool = PoolBytes(plan.device)
        dvh(dose, labels, device=plan.device)
        grown = pool.used_and_grown()[1]
    elif (on_host := _host_growth(lambda: dvh(dose, labels, device=plan.device))) is None:
        return skipped(name, "this system does not tell the most memory that a process had")
    else:
        grown = on_host
    inputs = dose.values.nbytes + labels.labels.nbytes
    text = f"{grown / 1e6:.0f} MB beyond inputs of {inputs / 1e6:.0f} MB; target < 1 GB"
    return {"name": name, "declared": declared, "bytes": grown, "inputs": inputs, "text": text}


def _host_growth(work: Callable[[], object]) -> int | None:
    """Bytes by which the most memory of this process exceeded what it had before; Linux only."""
    status, clear = Path("/proc/self/status"), Path("/proc/self/clear_refs")
    if not status.exists() or not clear.exists():
        return None
    work()  # compiles
    clear.write_text("5", encoding="ascii")  # the most so far becomes what there is now
    before = _kilobytes(status, "VmRSS")
    work()
    return 1024 * (_kilobytes(status, "VmHWM") - before)


def _kilobytes(status: Path, what: str) -> int:
    return next(int(line.split()[1]) for line in status.read_text(encoding="ascii").splitlines() if what in line)


# -------------------------------------------------------------------------------------------------- rows d: painting
def paint_rows(plan: Plan) -> Iterator[Job]:
    """A brush stroke in labels of 256^3 voxels with a dose of as many, from the stroke to all curves."""
    for size in (BRUSH, 2 * BRUSH):
        yield Job(f"d {CUBE}^3, a box of {size}^3 voxels", partial(_paint, size, plan))
        yield Job(f"d {CUBE}^3, a ball {size} voxels wide, looked for", partial(_stroke, size, plan))


def _paint(size: int, plan: Plan, name: str) -> Row:
    dose, labels = big_case((CUBE, CUBE, CUBE))
    rng = np.random.default_rng(1)
    with LiveDvh(dose, labels, device=plan.device) as live:

        def work() -> None:
            x, y, z = (int(n) for n in rng.integers(0, CUBE - size, 3))
            live.paint((x, y, z), np.full((size,) * 3, rng.integers(1, 30), np.uint8))
            live.dvhs()

        timing = timed_on(plan.device, work, repeats(plan))
    return row(name, plan.device, timing, size**3, "voxels", target=target_text(plan.device.kind, "painting"))


def _stroke(size: int, plan: Plan, name: str) -> Row:
    """A stroke of a round brush as napari tells it: somewhere in the columns below a square of the canvas."""
    dose, labels = big_case((CUBE, CUBE, CUBE))
    rng, own = np.random.default_rng(1), labels.labels.copy()
    across = np.arange(size) - 0.5 * (size - 1)
    ball = across[:, None, None] ** 2 + across[:, None] ** 2 + across**2 <= 0.25 * size**2
    with LiveDvh(dose, labels, device=plan.device) as live:

        def work() -> None:
            x, y, z = (int(n) for n in rng.integers(0, CUBE - size, 3))
            own[x : x + size, y : y + size, z : z + size][ball] = rng.integers(0, 30)
            live.follow(own[:, y : y + size, z : z + size], start=(0, y, z))
            live.dvhs()

        timing = timed_on(plan.device, work, repeats(plan))
    amount = int(np.count_nonzero(ball))
    return row(name, plan.device, timing, amount, "voxels", target=target_text(plan.device.kind, "painting"))
