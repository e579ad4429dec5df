"""Trajectories on request: chosen photons of a result are traced again, and the way that each went is noted.

Nothing has to be decided before a run: photons are known by their numbers; see `napari_gpubio.probes.jacobians.replay`.
"""

import dataclasses
import threading
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio import __version__
from napari_gpubio.core.device import Device
from napari_gpubio.core.drivers import Runs
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import Memory
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.light.kernels.voxels.problem import LIGHT_MM_PER_NS
from napari_gpubio.light.result import LightResult
from napari_gpubio.probes.jacobians.replay import detectors_of, device_for, problem_of
from napari_gpubio.probes.kernels.replay.trails import VERTEX_NUMBERS, TrailProblem, TrailRecord
from napari_gpubio.probes.trajectory_model import Trajectories

_MOST = 1 << 24  # photons of one call, and vertices of a photon


def trajectories_steps(
    result: LightResult,
    photons: int | Sequence[int] | npt.NDArray[Any] | None = None,
    *,
    detectors: Sequence[int | str] | None = None,
    most_photons: int = 1000,
    most_vertices: int = 1000,
    crossings: bool = False,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, Trajectories]:
    """Trace chosen photons again, step by step, and note their paths.

    Parameters
    ----------
    result
        Of `simulate`; it may come from a file.
    photons
        Indices of the photons; or a number: the first so many of the run.
    detectors
        Indices or names: photons that these have detected, instead; so it is with those of all detectors if nothing is
        chosen.
    most_photons
        Of detected photons, so many are taken: those with the smallest indices.
    most_vertices
        Vertices of a photon that are kept.
    crossings
        Whether every face between voxels that a photon crosses is a vertex, too.
    device
        See `napari_gpubio.probes.replay_steps`.
    stop
        Set it to stop early: the photons that are done are returned.

    Raises
    ------
    InvalidInput
        If both choices are given, there is no such photon, a number is out of range, the processor is of another
        kind than the run's, or a detected photon goes another way than in the run.
    """
    voxels, chosen = problem_of(result), device_for(result, device)
    for name, value in (("most_vertices", most_vertices), ("most_photons", most_photons)):
        if not (isinstance(value, (int, np.integer)) and 1 <= value <= _MOST):
            raise InvalidInput(f"{name} is {value}; it must be a whole number from 1 to {_MOST:,}")
    items = _chosen(result, photons, detectors, most_photons)
    problem = TrailProblem(
        voxels=voxels, chosen=items, photons=result.detected, room=int(most_vertices), crossings=crossings
    )
    Memory(results=len(items) * problem.bytes_per_item).check("the simulation", "take fewer photons or vertices")
    found: dict[int, TrailRecord] = {}
    with Runs(problem, chosen) as runs:
        for done in runs.chunks(stop):
            found |= dict(runs.take())
            yield Step(done, problem.items, "photons traced again")
    parameters = {
        "software": f"napari-gpubio {__version__}",
        "settings": dataclasses.asdict(result.settings),
        "most_vertices": most_vertices,
        "crossings": crossings,
        "device": chosen.describe(),
    }
    return _assembled(problem, found, parameters)


trajectories = driven(trajectories_steps)


def _chosen(
    result: LightResult,
    photons: int | Sequence[int] | npt.NDArray[Any] | None,
    detectors: Sequence[int | str] | None,
    most: int,
) -> npt.NDArray[np.uint64]:
    """Indices of the photons to trace, increasing."""
    if photons is not None and detectors is not None:
        raise InvalidInput("photons and detectors choose photons in different ways; give one of them")
    launched = result.settings.photons
    if isinstance(photons, (int, np.integer)):
        if not 1 <= photons <= min(launched, _MOST):
            raise InvalidInput(
                f"photons is {photons}; the run has {launched}: give 1 to {min(launched, _MOST)}, or their indices"
            )
        return np.arange(photons, dtype=np.uint64)
    if photons is not None:
        numbers = np.unique(np.asarray(photons))
        if not numbers.size or numbers.dtype.kind not in "iu" or int(numbers[0]) < 0 or int(numbers[-1]) >= launched:
            raise InvalidInput(f"photons must be some indices between 0 and {launched - 1}, the photons of the run")
        return numbers.astype(np.uint64)
    if not len(result.detected):
        raise InvalidInput(
            "the result has no detected photons; choose others: photons=100 (the first 100), or photons=[0, 1, 2]"
        )
    indices = detectors_of(result, detectors)
    return result.detected.photon[np.isin(result.detected.detector, indices)][:most]


def _assembled(problem: TrailProblem, found: dict[int, TrailRecord], parameters: Mapping[str, Any]) -> Trajectories:
    records = [found[start] for start in sorted(found)]
    lines = [start + np.arange(len(found[start].counts)) for start in sorted(found)]
    done = np.concatenate([np.zeros(0, np.int64), *lines]).astype(np.int64)
    counts = np.concatenate([np.zeros(0, np.int64), *(record.counts for record in records)])
    numbers = np.concatenate([np.zeros((0, VERTEX_NUMBERS), np.float32), *(record.numbers for record in records)])
    return Trajectories(
        domain=problem.voxels.domain,
        photon=problem.chosen[done],
        starts=np.concatenate([[0], np.cumsum(np.minimum(counts, problem.room))]),
        position_mm=problem.voxels.domain.grid_to_world(numbers[:, :3]),
        weight=numbers[:, 3].copy(),
        time_ns=numbers[:, 4].astype(np.float64) / LIGHT_MM_PER_NS,
        kind=np.concatenate([np.zeros(0, np.uint8), *(record.kinds for record in records)]),
        vertex_counts=counts,
        parameters=parameters,
    )
