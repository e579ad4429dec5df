"""Dose-volume histograms on any device: a dose, structures and settings in, curves out."""

import dataclasses
import threading
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

from napari_gpubio import __version__
from napari_gpubio.core.chunks import advance_in_chunks, within_memory
from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.settings import plain_fields
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.dose.metrics.curve import Dvh, DvhResult
from napari_gpubio.dose.model import Dose, Structures, listed
from napari_gpubio.dose.settings import BySpacing, DvhSettings
from napari_gpubio.dose.structures.labels import whole_grid

if TYPE_CHECKING:
    from napari_gpubio.dose.kernels.histogram.problem import Problem
    from napari_gpubio.dose.kernels.histogram.tally import Tally

_FIRST_CPU_TASKS = 512  # milliseconds
_PARTS = 4  # samples along an edge of a dose voxel: an isodose may surround few voxels, of a volume of millions


def dvh_steps(
    dose: Dose,
    structures: Structures | Iterable[Structures],
    settings: DvhSettings | None = None,
    *,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, DvhResult]:
    """Make dose-volume histograms of all structures in one pass, step by step.

    Dose is interpolated linearly between voxel centers at samples of the structures and counted in integers, so the
    result does not depend on the number of threads, chunks or GPUs, nor on the device.

    Parameters
    ----------
    dose
        On a grid of its own.
    structures
        Contours, labels or points, or several of them in any mixture; they may overlap. Also a whole
        `napari_gpubio.dose.io.StructureSet`.
    settings
        Accuracy and conventions; see `DvhSettings`.
    device
        See `napari_gpubio.core.device.choose_device`.
    stop
        Set it to stop early; ``complete`` is then False.

    Raises
    ------
    InvalidInput
        If a structure cannot be counted, or leaves the dose grid where that is refused.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.dose import Dose, LabelStructures, dvh
    >>> dose = Dose(values=np.full((8, 8, 8), 2.0), affine=np.eye(4), unit="Gy")
    >>> organ = LabelStructures(labels=np.ones((8, 8, 8), np.uint8), affine=np.eye(4), structures={1: "organ"})
    >>> float(dvh(dose, organ, device="cpu")["organ"].dose_at_percent(95))
    2.0
    """
    from napari_gpubio.dose.kernels.histogram.problem import make_problem
    from napari_gpubio.dose.kernels.histogram.tally import make_dvhs

    settings, clock = (settings or DvhSettings()).resolved(dose), RunClock()
    problem = make_problem(dose, listed(structures), settings)
    chosen = choose_device(device)
    if not chosen.is_gpu:
        problem.memory(chosen).check("counting this dose", "take a coarser dose grid, or close other programs")
    complete, tally = yield from _count(problem, chosen, stop)
    return DvhResult(
        dvhs=make_dvhs(problem, tally, settings, dose.unit),
        parameters=provenance(dose, settings, chosen, clock.seconds),
        complete=complete,
    )


dvh = driven(dvh_steps)


def needed_memory(
    dose: Dose,
    structures: Structures | Iterable[Structures],
    settings: DvhSettings | None = None,
    *,
    device: str | Device = "auto",
) -> Memory:
    """Memory that `dvh` takes besides the dose and the structures, part by part; see it for the arguments.

    Lists of the rows of contours are made for it, which takes as long as they take in `dvh`.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.dose import Dose, LabelStructures, needed_memory
    >>> dose = Dose(values=np.full((8, 8, 8), 2.0), affine=np.eye(4), unit="Gy")
    >>> organ = LabelStructures(labels=np.ones((8, 8, 8), np.uint8), affine=np.eye(4), structures={1: "organ"})
    >>> needed_memory(dose, organ, device="cpu").inputs == 4 * 8**3  # the dose in single precision
    True
    """
    from napari_gpubio.dose.kernels.histogram.problem import make_problem

    problem = make_problem(dose, listed(structures), (settings or DvhSettings()).resolved(dose))
    return problem.memory(choose_device(device))


def provenance(dose: Dose, settings: DvhSettings, device: Device, seconds: float) -> dict[str, Any]:
    """How histograms were made, as results carry it."""
    return {
        "software": f"napari-gpubio {__version__}",
        "histograms": plain_fields(settings),
        "dose": dose.name,
        "quantity": dose.quantity,
        "unit": dose.unit,
        "device": device.describe(),
        "seconds": round(seconds, 4),
        **({"notes": list(dose.notes)} if dose.notes else {}),
    }


def _count(
    problem: "Problem", device: Device, stop: threading.Event | None
) -> Generator[Step, None, tuple[bool, "Tally"]]:
    """Count all tasks; returns whether the end was reached and what was counted."""
    runs, done = make_runs(problem, device), 0
    try:
        first = problem.items if device.is_gpu else _FIRST_CPU_TASKS
        for done in advance_in_chunks(runs, problem.items, stop=stop, first_chunk=-(-first // len(runs))):
            yield Step(done, problem.items, "counting dose")
        tally = runs[0].snapshot()
        for other in runs[1:]:
            tally.merge(other.snapshot())
        return done == problem.items, tally
    finally:
        for run in runs:
            run.close()


def make_runs(problem: "Problem", device: Device) -> list[Any]:
    """One `Run` of the right backend for each processor."""
    if not device.is_gpu:
        from napari_gpubio.dose.kernels.histogram import cpu

        return [cpu.Run(problem, device=CPU)]
    from napari_gpubio.dose.kernels.histogram import gpu

    return [_on_gpu(gpu.Run, problem, Device("cuda", (i,))) for i in device.indices]


def _on_gpu(run: Any, problem: "Problem", device: Device) -> Any:
    needed = problem.memory(device).total
    return within_memory(lambda: run(problem, device=device), device, needed, "counting this dose")


def whole_dose_steps(
    dose: Dose,
    settings: DvhSettings | None = None,
    *,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, Dvh]:
    """Make the histogram of a whole dose, step by step.

    The accuracy of the settings is a share of a structure's volume, and an isodose is a small share of a whole dose; so
    samples lie no farther apart than a quarter of the shortest edge of a voxel.

    Parameters
    ----------
    dose
        Of which all of the grid is counted.
    settings, device, stop
        See `napari_gpubio.dose.dvh_steps`.

    Examples
    --------
    >>> import numpy as np
    >>> from napari_gpubio.dose import Dose, whole_dose
    >>> dose = Dose(values=np.full((8, 8, 8), 2.0), affine=np.eye(4), unit="Gy")
    >>> whole_dose(dose, device="cpu").volume_cc
    0.512
    """
    chosen = settings or DvhSettings()
    finest = float(dose.voxel_sizes_mm.min()) / _PARTS
    spacing = min(chosen.spacing_mm or finest, finest)
    everything = whole_grid(dose.values.shape, dose.affine)
    fine = dataclasses.replace(chosen, sampling=BySpacing(spacing_mm=spacing))
    result = yield from dvh_steps(dose, everything, fine, device=device, stop=stop)
    return result.dvhs[0]


whole_dose = driven(whole_dose_steps)
