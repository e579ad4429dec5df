"""Exact Jacobians: detected photons are traced again, which gives how their measurement depends on each voxel.

A photon is known by its number, and (seed, number) is all that it takes to trace it once more: no seeds are saved. On
its way it adds up, for the voxels that it meets, the derivatives of its own weight (Hayakawa et al. 2001, Opt. Lett.
26:1335; Yao et al. 2018, Biomed. Opt. Express 9:4588). With the path L and n scattering events in a voxel, and averages
over detected photons by their weight w ::

    d ln I / d mu_a = -<L>
    d ln I / d mu_s = <n / mu_s - L>    (g kept)
    d T / d mu_a = -(<t L> - <t> <L>)
    d ln S / d mu_a = -sum w exp(-i omega t) L / S,    S = sum w exp(-i omega t)

A derivative by mu_s' = mu_s (1 - g) is that by mu_s over (1 - g). Nothing is assumed of the tissue: they hold next to a
source, in clear layers, in time gates. What scattering would do in a voxel with mu_s = 0 no photon shows, because none
is scattered there: that derivative is NaN (-L alone, the light that would be lost, is not it); a small mu_s, such as
0.01 per mm, makes it known. It is NaN, too, where scattering depends on the direction (fibers).

Standard errors come from 16 independent groups of photons, those whose numbers leave the same remainder.
"""

import dataclasses
import threading
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.device import CPU, Device, choose_device
from napari_gpubio.core.drivers import Runs, how_made
from napari_gpubio.core.errors import GpuUnavailable, InvalidInput
from napari_gpubio.core.memory import Memory, fuller
from napari_gpubio.core.steps import Step, driven
from napari_gpubio.core.timing import RunClock
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.result import LightResult
from napari_gpubio.optics.detectors import DetectedPhotons, detector_names
from napari_gpubio.probes.jacobians.assembly import assembled
from napari_gpubio.probes.jacobians.model import COEFFICIENTS, Jacobians
from napari_gpubio.probes.kernels.replay.measurements import Arrivals, measurements
from napari_gpubio.probes.kernels.replay.problem import DetectorPart, ReplayProblem

Doubles = npt.NDArray[np.float64]


def replay_steps(
    result: LightResult,
    *,
    of: Sequence[str] = ("mua", "mus"),
    mean_time: bool = False,
    gates_ns: Sequence[float] | None = None,
    frequency_mhz: float | None = None,
    detectors: Sequence[int | str] | None = None,
    device: str | Device = "auto",
    stop: threading.Event | None = None,
) -> Generator[Step, None, Jacobians]:
    """Trace the detected photons of a result again, step by step, and return Jacobians of what they measure.

    Parameters
    ----------
    result
        Of `simulate`, with detected photons; it may come from a file.
    of
        Coefficients: ``"mua"``, ``"mus"``, ``"musp"``. The logarithm of the detected intensity is always derived.
    mean_time
        Also derive the mean time of flight.
    gates_ns
        Edges of time gates, increasing: also derive the logarithm of the intensity in each of them.
    frequency_mhz
        Modulation frequency: also derive the logarithm of the amplitude and the phase of the modulated light. With
        exp(-i omega t) a later arrival has a more negative phase.
    detectors
        Indices or names; None: all of them.
    device
        As for `simulate`; ``"auto"`` takes the kind of processor that made the result, since photons go exactly the
        same way on that kind only.
    stop
        Set it to stop early: the detectors that are done by then are returned, and ``complete`` is False.

    Returns
    -------
    Jacobians
        Bits do not depend on chunks, threads or GPUs.

    Raises
    ------
    InvalidInput
        If there are no detected photons, a detector has none, gates do not increase, the frequency is not positive, the
        processor is of another kind than the run's, a photon goes another way than in the run, or there is too little
        memory.

    Examples
    --------
    >>> from napari_gpubio import light, optics, probes
    >>> head = optics.phantom.load_head_phantom()
    >>> source = optics.phantom.default_source(head)
    >>> place = optics.Detector(position_mm=source.position_mm, radius_mm=10.0)
    >>> settings = light.LightSettings(photons=1000)
    >>> result = light.simulate(head, source, settings, detectors=[place], device="cpu")
    >>> jacobians = probes.replay(result)
    >>> jacobians.of("mua").values.shape == (1, *head.shape)
    True
    """
    clock, chosen = RunClock(0.0), device_for(result, device)
    problem, launched, notes = _problem(
        result, of, mean_time=mean_time, gates_ns=gates_ns, frequency_mhz=frequency_mhz, detectors=detectors
    )
    on_host = fuller(problem.memory_of_jacobians(len(of)), *(() if chosen.is_gpu else (problem.memory(CPU),)))
    on_host.check("the simulation", "take fewer detectors, gates or coefficients, or larger voxels")
    done: dict[int, DetectorPart] = {}
    with Runs(problem, chosen) as runs:
        lines = map(problem.arrivals.of, range(problem.arrivals.detectors))
        for count in runs.pieces([(one.start, one.stop) for one in lines], stop):
            done |= dict(runs.take())
            yield Step(count, problem.items, "photons traced again")
    parameters = how_made(
        chosen,
        clock.seconds,
        method="replay",
        of=list(of),
        mean_time=mean_time,
        gates_ns=None if gates_ns is None else [float(edge) for edge in gates_ns],
        frequency_mhz=frequency_mhz,
        photons_launched=launched,
        photons_detected=problem.items,
        settings=dataclasses.asdict(result.settings),
    )
    return assembled(result, problem, done, tuple(of), notes, parameters)


replay = driven(replay_steps)


def replay_memory(
    result: LightResult,
    *,
    of: Sequence[str] = ("mua", "mus"),
    mean_time: bool = False,
    gates_ns: Sequence[float] | None = None,
    frequency_mhz: float | None = None,
    detectors: Sequence[int | str] | None = None,
    device: str | Device = "auto",
) -> Memory:
    """Memory that a replay takes on each device that works on it, part by part; parameters as of `replay_steps`.

    Besides the list of photons. Most where detected light has come to all of the volume.
    """
    problem, _, _ = _problem(
        result, of, mean_time=mean_time, gates_ns=gates_ns, frequency_mhz=frequency_mhz, detectors=detectors
    )
    traced = problem.memory(chosen := device_for(result, device))
    return traced if chosen.is_gpu else fuller(problem.memory_of_jacobians(len(of)), traced)


def _problem(
    result: LightResult,
    of: Sequence[str],
    *,
    mean_time: bool,
    gates_ns: Sequence[float] | None,
    frequency_mhz: float | None,
    detectors: Sequence[int | str] | None,
) -> tuple[ReplayProblem, int, tuple[str, ...]]:
    """What is to be traced, photons launched for it, and notes."""
    check_request(of, gates_ns, frequency_mhz)
    voxels = problem_of(result)
    photons, launched, notes = usable_photons(result)
    wanted = detectors_of(result, detectors)
    arrivals = Arrivals(photons, wanted, launched)
    _check_detected(result, wanted, arrivals)
    problem = ReplayProblem(
        voxels=voxels,
        photons=photons,
        arrivals=arrivals,
        detectors=wanted,
        measurements=measurements(
            arrivals, mean_time=mean_time, gates_ns=tuple(gates_ns or ()), frequency_mhz=frequency_mhz
        ),
        by_mua="mua" in of,
        by_mus="mus" in of or "musp" in of,
    )
    return problem, launched, notes


# -- what is traced ---------------------------------------------------------------------------------------------------


def problem_of(result: LightResult) -> VoxelProblem:
    """Return the simulation of a result as photons see it.

    Raises
    ------
    InvalidInput
        If the tallies of the result are of another simulation than its domain, source, settings and detectors, or its
        photons have served several patterns.
    """
    if "photon_sharing" in result.parameters:
        raise InvalidInput("the result is of one of several patterns that shared photons; simulate this pattern alone")
    size = 0 if result.state is None else result.state.batch_size
    source, *others = result.sources
    problem = VoxelProblem(
        result.domain, source, result.settings, result.detectors, batch_size=size, others=tuple(others)
    )
    if result.state is not None and result.state.key != problem.key:
        raise InvalidInput(
            "the result's tallies are of another simulation than its domain, source, settings and detectors, or of "
            "another version of napari-gpubio; simulate again"
        )
    return problem


def device_for(result: LightResult, device: str | Device) -> Device:
    """Return where photons of a result are traced again: on the kind of processor that traced them.

    Raises
    ------
    InvalidInput
        If another kind is requested, or that kind is not here.
    """
    made_on = str(result.parameters.get("device", ""))
    kind = next((kind for kind in ("cpu", "cuda") if made_on.startswith(kind)), None)
    chosen = choose_device(device)
    if kind is None or chosen.kind == kind:
        return chosen
    why = f"the result was made on {made_on}; photons go exactly the same way on the same kind of processor only"
    if device != "auto":
        raise InvalidInput(f"{why}: trace them again there (leave the device out), or simulate on {chosen}")
    if kind == "cpu":
        return CPU
    try:
        return choose_device("cuda")
    except GpuUnavailable as error:
        raise InvalidInput(f"{why}, and no GPU can be used here ({error}); simulate again on the CPU") from error


def usable_photons(result: LightResult) -> tuple[DetectedPhotons, int, tuple[str, ...]]:
    """Detected photons that are a fair sample, the photons launched for them, and notes.

    A list that was full holds those with the smallest numbers. All detected photons before the last of them are in it,
    so they are what a run of as many photons as that number would have detected.

    Raises
    ------
    InvalidInput
        If there are none.
    """
    found = result.detected
    if not result.detectors:
        raise InvalidInput("the result has no detectors; simulate with detectors to have photons that can be replayed")
    if not len(found):
        reason = "its list had no room for them (max_detected)" if found.dropped else "no photon reached a detector"
        raise InvalidInput(f"the result has no detected photons: {reason}; simulate more photons, or larger detectors")
    if not found.dropped:
        return found, result.launched, ()
    last = int(found.photon[-1])
    kept: dict[str, Any] = {name: rows[:-1] for name, rows in vars(found).items() if isinstance(rows, np.ndarray)}
    if len(found) < 2 or last == 0:
        raise InvalidInput(
            f"the list of detected photons holds {len(found)} and {found.dropped:,} were dropped; simulate again with "
            "a larger max_detected"
        )
    launched = _launched_before(result, last)
    note = (
        f"The list of detected photons was full: {found.dropped:,} were dropped. The {len(found) - 1:,} that are used "
        f"are all that the first {launched:,} photons gave, without bias."
    )
    return dataclasses.replace(found, **kept), launched, (note,)


def _launched_before(result: LightResult, photon: int) -> int:
    """Photons that were launched with a smaller number; without tallies, as if all of them were."""
    if result.state is None:
        return min(photon, result.launched)
    ranges = (one for ranges in result.state.done().values() for one in ranges)
    return sum(max(0, min(stop, photon) - start) for start, stop in ranges)


def detectors_of(result: LightResult, wanted: Sequence[int | str] | None) -> tuple[int, ...]:
    """Indices of detectors, given indices or names.

    Raises
    ------
    InvalidInput
        If there is no such detector, or one is named twice.
    """
    names = detector_names(result.detectors)
    if wanted is None:
        return tuple(range(len(names)))
    found = []
    for one in [wanted] if isinstance(wanted, (str, int, np.integer)) else wanted:
        index = names.index(one) if isinstance(one, str) and one in names else one
        if not isinstance(index, (int, np.integer)) or not 0 <= index < len(names):
            raise InvalidInput(f"there is no detector {one!r}; there are {', '.join(names)} (or 0 to {len(names) - 1})")
        found.append(int(index))
    if not found or len(set(found)) < len(found):
        raise InvalidInput(f"detectors is {list(wanted)}; give each detector once, or None for all of them")
    return tuple(found)


def check_request(of: Sequence[str], gates_ns: Sequence[float] | None, frequency_mhz: float | None) -> None:
    """Raise InvalidInput if there are no such coefficients, gates do not increase, or the frequency is not positive."""
    if isinstance(of, str) or not of or any(name not in COEFFICIENTS for name in of):
        raise InvalidInput(f"of is {of!r}; give some of {', '.join(COEFFICIENTS)}")
    if gates_ns is not None:
        edges = _numbers(gates_ns)
        if (
            edges.ndim != 1
            or edges.size < 2
            or not np.isfinite(edges).all()
            or edges[0] < 0
            or (np.diff(edges) <= 0).any()
        ):
            raise InvalidInput(
                f"gates_ns is {gates_ns!r}; give at least two edges in ns, from 0 up, each later than the last"
            )
    if frequency_mhz is not None and not (np.isfinite(frequency_mhz) and frequency_mhz > 0):
        raise InvalidInput(f"frequency_mhz is {frequency_mhz}; it must be greater than 0")


def _numbers(values: Any) -> Doubles:
    """An array, empty where something is not a number."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        return np.zeros(0)


def _check_detected(result: LightResult, wanted: Sequence[int], arrivals: Arrivals) -> None:
    names, counts = detector_names(result.detectors), np.diff(arrivals.starts)
    weights = [arrivals.weight[arrivals.of(d)].sum() for d in range(len(wanted))]
    empty = [names[d] for d, count, weight in zip(wanted, counts, weights, strict=True) if not (count and weight > 0)]
    if not empty:
        return
    rest = [names[d] for d in wanted if names[d] not in empty]
    others = f", or leave it out: detectors={rest}" if rest else ""
    raise InvalidInput(
        f"no photon has reached {', '.join(empty)}; simulate more photons, make the detector larger{others}"
    )
