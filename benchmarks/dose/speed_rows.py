"""Rows a, b and h: the seed case, degenerate doses, threads."""

from collections.abc import Iterator
from functools import partial
from typing import Any

from common import Row, Timing, limited_threads, row, skipped, thread_counts, threads_text, timed_on
from speed import Job, Plan

from dose.plan import (
    DOSES,
    PATENT,
    PATENT_SPACING_MM,
    SMALL_BIG_SHAPE,
    big_case,
    loops_of,
    samples_of,
    seed_case,
    target_text,
    with_values,
)
from dose.resident import Resident
from napari_gpubio.core.device import CPU
from napari_gpubio.dose.kernels.histogram.problem import make_problem
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.resident import ResidentDvh
from napari_gpubio.dose.run import dvh
from napari_gpubio.dose.settings import ByAccuracy, BySpacing, DvhSettings
from napari_gpubio.dose.structures.contours import contour_structure

DEFAULT, FINE = DvhSettings(), DvhSettings(sampling=ByAccuracy(accuracy_percent=0.01))
ONE_EACH = DvhSettings(sampling=BySpacing(spacing_mm=1.0))  # the middle of each voxel of 1 mm
LIKE_THE_PATENT = DvhSettings(sampling=BySpacing(spacing_mm=PATENT_SPACING_MM), bins=100)
MANY = {"cpu": 20, "cuda": 200}  # repeats of what takes milliseconds


def repeats(plan: Plan) -> int:
    """How often a thing is timed that takes milliseconds."""
    return MANY[plan.device.kind] // (4 if plan.quick else 1)


# ------------------------------------------------------------------------------------------------ rows a: the seed case
def seed_rows(plan: Plan) -> Iterator[Job]:
    """From contours to curves, with layout and without, at the default accuracy and with as many samples as assumed."""
    for words, settings in (("default accuracy", DEFAULT), ("1.73 M samples, 100 bins", LIKE_THE_PATENT)):
        yield Job(f"a {words}, contours to curves", partial(_from_contours, settings, plan))
        yield Job(f"a {words}, structures to curves", partial(_whole_call, settings, plan))
        yield Job(f"a {words}, layout alone", partial(_layout, settings, plan))
        yield Job(f"a {words}, resident, new dose to curves", partial(_new_dose, settings, plan))
        yield Job(f"a {words}, resident, counting and curves", partial(_resident, "curves", settings, plan))
        yield Job(f"a {words}, resident, counting", partial(_resident, "count", settings, plan))


def _seed_row(name: str, timing: Timing, settings: DvhSettings, plan: Plan, **more: Any) -> Row:
    samples = samples_of(make_problem(*seed_case(), settings))
    return row(name, plan.device, timing, samples, "samples", **more)


def _from_contours(settings: DvhSettings, plan: Plan, name: str) -> Row:
    dose, structures = seed_case()
    drawn = {structure.name: loops_of(structure) for structure in structures}

    def work() -> None:
        made = [contour_structure(organ, loops) for organ, loops in drawn.items()]
        again = Dose(values=dose.values, affine=dose.affine, unit=dose.unit)
        dvh(again, made, settings, device=plan.device)

    timing = timed_on(plan.device, work, repeats(plan))
    target = target_text(plan.device.kind, "contours to curves")
    return _seed_row(name, timing, settings, plan, target=target, paper=PATENT)


def _whole_call(settings: DvhSettings, plan: Plan, name: str) -> Row:
    case = seed_case()
    timing = timed_on(plan.device, lambda: dvh(*case, settings, device=plan.device), repeats(plan))
    return _seed_row(name, timing, settings, plan)


def _layout(settings: DvhSettings, plan: Plan, name: str) -> Row:
    case = seed_case()
    timing = timed_on(CPU, lambda: make_problem(*case, settings), repeats(plan))
    return _seed_row(name, timing, settings, plan)


def _new_dose(settings: DvhSettings, plan: Plan, name: str) -> Row:
    """As a user has it: a new array of doses is checked, brought to the device, counted and made curves."""
    dose, structures = seed_case()
    with ResidentDvh(dose, structures, settings, device=plan.device) as resident:

        def work() -> None:
            resident.set_dose(Dose(values=dose.values, affine=dose.affine, unit=dose.unit))
            resident.dvhs()

        timing = timed_on(plan.device, work, repeats(plan))
    return _seed_row(name, timing, settings, plan, target=target_text(plan.device.kind, "new dose"))


def _resident(part: str, settings: DvhSettings, plan: Plan, name: str) -> Row:
    with Resident(*seed_case(), settings, plan.device) as resident:
        timing = resident.timed(part, repeats(plan))
        kernels = resident.kernel_seconds(repeats(plan)) if part == "count" else None
    target = target_text(plan.device.kind, "counting") if part == "count" else ""
    return _seed_row(name, timing, settings, plan, target=target, kernel_seconds=kernels)


# ------------------------------------------------------------------------------------------- rows b: degenerate doses
def degenerate_rows(plan: Plan) -> Iterator[Job]:
    """Doses that fall into one bin, into few, into all: contours of the seed case, and labels of the big one."""
    for kind in DOSES:
        yield Job(f"b contours, {kind}", partial(_degenerate, kind, plan))
    for kind in ("one value", "spread"):
        yield Job(f"b labels, {kind}", partial(_degenerate_labels, kind, plan))


def _degenerate(kind: str, plan: Plan, name: str) -> Row:
    dose, structures = seed_case()
    with Resident(with_values(dose, kind), structures, LIKE_THE_PATENT, plan.device) as resident:
        timing, kernels = resident.timed("count", repeats(plan)), resident.kernel_seconds(repeats(plan))
    more = {"kernel_seconds": kernels, "compared_with": "b contours, spread", "target": "target >= 0.5 x spread"}
    return _seed_row(name, timing, LIKE_THE_PATENT, plan, **more)


def _degenerate_labels(kind: str, plan: Plan, name: str) -> Row:
    dose, labels = big_case(SMALL_BIG_SHAPE)
    with Resident(with_values(dose, kind), [labels], ONE_EACH, plan.device) as resident:
        timing, kernels = resident.timed("count", repeats(plan)), resident.kernel_seconds(repeats(plan))
    more = {"kernel_seconds": kernels, "compared_with": "b labels, spread", "target": "target >= 0.5 x spread"}
    return row(name, plan.device, timing, labels.labels.size, "voxels", **more)


# --------------------------------------------------------------------------------------------------- rows h: threads
def thread_rows(plan: Plan) -> Iterator[Job]:
    """The seed case on one to all threads of the CPU, counting alone."""
    if plan.device.is_gpu:
        yield Job("h threads", lambda name: skipped(name, "needs a CPU: --device cpu"))
        return
    for count in thread_counts():
        yield Job(f"h 1.73 M samples, {threads_text(count)}", partial(_on_threads, count, plan))


def _on_threads(count: int, plan: Plan, name: str) -> Row:
    with limited_threads(count), Resident(*seed_case(), LIKE_THE_PATENT, CPU) as resident:
        timing = resident.timed("count", repeats(plan))
    more = {"compared_with": "h 1.73 M samples, 1 thread", "processors": count}
    return _seed_row(name, timing, LIKE_THE_PATENT, plan, **more)
