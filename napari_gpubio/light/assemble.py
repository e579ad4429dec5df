"""Fluence with its error, the energy balance and detected photons from integer tallies."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.light.detectors import DetectedPhotons
from napari_gpubio.light.kernels.voxels.problem import FIRST_MEDIUM, LIGHT_MM_PER_NS, VoxelProblem
from napari_gpubio.light.kernels.voxels.structs import (
    BEFORE,
    DETECTED_NUMBERS,
    ENERGY_PARTS,
    ESCAPED,
    MISSED,
    ROULETTE,
    SPECULAR,
    TRUNCATED,
    Spread,
)
from napari_gpubio.light.kernels.voxels.tally import VoxelTally
from napari_gpubio.light.result import EnergyBalance, Estimate, LightResult
from napari_gpubio.light.tallies import FEWEST_BATCHES, freedom, mean_error

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]


def assemble(problem: VoxelProblem, tally: VoxelTally, parameters: Mapping[str, Any]) -> LightResult:
    """Turn the tallies of the photons that are done into a result."""
    launched = tally.photons
    gates, gates_error, fluence_error, halves = _volumes(problem, tally, launched)
    energy, absorbed = _energy(problem, tally, launched)
    return LightResult(
        domain=problem.domain,
        source=problem.source,
        settings=problem.settings,
        detectors=tuple(problem.detectors),
        gates=gates,
        gates_error=gates_error,
        fluence_error=fluence_error,
        half_fluences=halves,
        escaped_weight=_escaped(problem, tally, launched),
        energy=energy,
        absorbed=absorbed,
        detected=_detected(problem, tally, launched),
        launched=launched,
        complete=launched == problem.settings.photons,
        parameters=parameters,
        state=tally,
    )


# -- fluence ----------------------------------------------------------------------------------------------------------


def _volumes(problem: VoxelProblem, tally: VoxelTally, launched: int) -> tuple[Floats, Floats, Floats, Floats | None]:
    shape, flat = (problem.halves, problem.gates, problem.cells), (-1, problem.cells)
    whole = np.ascontiguousarray(tally.sums).reshape(shape)  # those of no photons are no whole array
    total = whole
    for batch in tally.open.values():
        total = total + batch.path.reshape(shape)
    squares = np.ascontiguousarray(tally.squares).reshape(problem.square_gates, problem.cells, 2)
    means = np.empty((problem.gates, *problem.size), np.float32)
    errors = np.empty((problem.gates, *problem.size), np.float32)
    for g in range(problem.gates):
        tallies = _added(total[:, g]), _added(whole[:, g]), squares[g]
        _one_volume(problem, tally, launched, tallies, (means[g], errors[g]))
    fluence_error = errors[0]
    if problem.gates > 1:
        fluence_error = np.empty(problem.size, np.float32)
        everything = _added(total.reshape(flat)), _added(whole.reshape(flat)), squares[-1]
        _one_volume(problem, tally, launched, everything, (np.empty(problem.size, np.float32), fluence_error))
    halves = _halves(problem, total, launched) if problem.halves > 1 else None
    return np.moveaxis(means, 0, -1), np.moveaxis(errors, 0, -1), fluence_error, halves


def _added(parts: Array) -> Array:
    """Sum over the first axis; the part itself where there is but one, for a copy of it takes its time."""
    return parts[0] if len(parts) == 1 else parts.sum(axis=0)


def _one_volume(
    problem: VoxelProblem,
    tally: VoxelTally,
    launched: int,
    tallies: tuple[Array, Array, Array],
    out: tuple[Floats, Floats],
) -> None:
    """Write fluence and its error from the tallies of all photons, of those in whole batches, and their squares."""
    from napari_gpubio.light.kernels.voxels.fold import write_fluence

    batches, size = len(tally.batches), problem.batch_size
    rest = launched - batches * size
    _, ny, nz = problem.size
    spread = Spread(
        *tallies,
        ny=ny,
        nz=nz,
        per_photon=1.0 / (problem.scale * problem.domain.voxel_volume_mm3 * max(1, launched)),
        batches=batches,
        batch_size=size,
        rest_photons=rest,
        in_batches=max(1.0, float(batches * size)),
        largest=max(size, rest),
        freedom=float(freedom(batches, size, rest)) if batches >= FEWEST_BATCHES else float("nan"),
        mean=out[0],
        error=out[1],
    )
    write_fluence(spread)


def _halves(problem: VoxelProblem, total: Array, launched: int) -> Floats:
    """Fluence of even and of odd photons, shape (2, X, Y, Z, G)."""
    inside = total.reshape(2, problem.gates, *problem.padded)[:, :, 1:-1, 1:-1, 1:-1]
    quantum = 2.0 / (problem.scale * problem.domain.voxel_volume_mm3 * max(1, launched))
    return np.moveaxis((inside * quantum).astype(np.float32), 1, -1)


def _escaped(problem: VoxelProblem, tally: VoxelTally, launched: int) -> Floats | None:
    if not problem.exit_cells:
        return None
    inside = tally.exits.reshape(problem.padded)[1:-1, 1:-1, 1:-1]
    return (inside / (problem.energy_scale * max(1, launched))).astype(np.float32)


# -- energy -----------------------------------------------------------------------------------------------------------


def _energy(problem: VoxelProblem, tally: VoxelTally, launched: int) -> tuple[EnergyBalance, dict[int, Estimate]]:
    from napari_gpubio.light.kernels.voxels.fold import absorbed_by_rows

    units = np.full(ENERGY_PARTS + problem.media_rows, 1.0 / problem.energy_scale)
    units[ENERGY_PARTS:] = 1.0 / (problem.scale * problem.absorbed_scale)
    columns = len(units)
    whole = [tally.batches[batch] for batch in sorted(tally.batches)]
    batches = np.array(whole, np.uint64).reshape(-1, columns).astype(np.int64) * units
    rest = np.zeros(columns)
    for part in tally.open.values():
        rest += np.concatenate([part.energy, absorbed_by_rows(problem, part.path)]).astype(np.int64) * units

    def estimate(numbers: Array) -> Estimate:
        """Fraction per photon of a column, or of several columns together."""
        per_batch, left = batches[:, numbers].sum(axis=1), rest[numbers].sum()
        value = (per_batch.sum() + left) / max(1, launched)
        error = mean_error(per_batch, left, problem.batch_size, launched - len(batches) * problem.batch_size)
        return Estimate(float(value), float(error))

    rows = ENERGY_PARTS + np.arange(problem.media_rows)
    balance = EnergyBalance(
        specular=estimate(np.array([SPECULAR])),
        missed=estimate(np.array([MISSED])),
        absorbed=estimate(np.array([BEFORE, *rows])),
        escaped=estimate(np.array([ESCAPED])),
        truncated=estimate(np.array([TRUNCATED])),
        roulette=estimate(np.array([ROULETTE])),
    )
    labels = enumerate(problem.label_of_row, ENERGY_PARTS + FIRST_MEDIUM)
    return balance, {label: estimate(np.array([column])) for column, label in labels}


# -- detected photons -------------------------------------------------------------------------------------------------


def _detected(problem: VoxelProblem, tally: VoxelTally, launched: int) -> DetectedPhotons:
    detected = tally.detected
    order = np.argsort(detected.photons)
    numbers = detected.numbers[order]
    return DetectedPhotons(
        photon=detected.photons[order],
        detector=numbers[:, 0].astype(np.int32),
        weight=numbers[:, 1],
        path_mm=numbers[:, DETECTED_NUMBERS + FIRST_MEDIUM :],
        scatterings=numbers[:, 2].astype(np.int32),
        position_mm=problem.domain.grid_to_world(numbers[:, 3:6]),
        direction=problem.domain.direction_to_world(numbers[:, 6:9]),
        time_ns=numbers[:, 9].astype(np.float64) / LIGHT_MM_PER_NS,
        labels=problem.label_of_row,
        launched=launched,
        dropped=detected.dropped,
    )
