"""From integer tallies to fluence with its error, the energy balance and detected photons."""

from collections.abc import Mapping
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from napari_gpubio.core.parallel import cpu_threads
from napari_gpubio.light.detectors import DetectedPhotons
from napari_gpubio.light.kernels.voxels.fold import row_energy
from napari_gpubio.light.kernels.voxels.photon import (
    BEFORE,
    DETECTED_NUMBERS,
    ESCAPED,
    LEDGER,
    MISSED,
    ROULETTE,
    SPECULAR,
    TRUNCATED,
)
from napari_gpubio.light.kernels.voxels.problem import FIRST_MEDIUM, LIGHT_MM_PER_NS, VoxelProblem
from napari_gpubio.light.kernels.voxels.tally import Partial
from napari_gpubio.light.result import EnergyBalance, Estimate, LightResult
from napari_gpubio.light.spread import FEWEST_BATCHES, freedom, mean_error

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]


@nb.njit(parallel=True, nogil=True, cache=True)
def _mean_and_error(
    total, whole, squares, nx, ny, nz, per_photon, batches, batch_size, rest_photons, free, mean, error
):
    """Fluence and its standard error of one gate, without the rim; the error as in `light.spread`.

    Parameters
    ----------
    total, whole
        Tally of all photons, and of those in whole batches, flat with the rim.
    squares
        Sum of the squares of the batches' tallies, two words.
    per_photon
        Fluence per photon of one quantum.
    batches, batch_size, rest_photons
        Number of whole batches, photons of one of them, and photons that are left over.
    free
        Their `freedom`.
    """
    photons = batches * batch_size + rest_photons
    rest_per_whole = rest_photons / max(1.0, np.float64(batches * batch_size))
    for i in nb.prange(nx):
        for j in range(ny):
            for k in range(nz):
                cell = ((i + 1) * (ny + 2) + j + 1) * (nz + 2) + k + 1
                mean[i, j, k] = np.float64(total[cell]) * per_photon
                if batches < FEWEST_BATCHES:
                    error[i, j, k] = np.nan
                    continue
                square = np.float64(squares[cell, 1]) * 2.0**64 + np.float64(squares[cell, 0])
                spread = max(0.0, square - np.float64(whole[cell]) ** 2 / batches) / batch_size
                off = np.float64(total[cell] - whole[cell]) - rest_per_whole * np.float64(whole[cell])
                spread += off**2 / max(batch_size, rest_photons)
                error[i, j, k] = np.sqrt(spread / free * photons) * per_photon


def assemble(problem: VoxelProblem, partial: Partial, parameters: Mapping[str, Any]) -> LightResult:
    """Turn the tallies of the photons that are done into a result."""
    launched = partial.photons
    gates, gates_error, fluence_error, halves = _volumes(problem, partial, launched)
    energy, absorbed = _energy(problem, partial, launched)
    return LightResult(
        domain=problem.domain,
        source=problem.source,
        settings=problem.settings,
        detectors=tuple(problem.detectors),
        gates=gates,
        gates_error=gates_error,
        fluence_error=fluence_error,
        half_fluences=halves,
        escaped_weight=_escaped(problem, partial, launched),
        energy=energy,
        absorbed=absorbed,
        detected=_detected(problem, partial, launched),
        launched=launched,
        complete=launched == problem.settings.photons,
        parameters=parameters,
        state=partial,
    )


# -- fluence ----------------------------------------------------------------------------------------------------------


def _volumes(problem: VoxelProblem, partial: Partial, launched: int) -> tuple[Floats, Floats, Floats, Floats | None]:
    shape, flat = (problem.halves, problem.gates, problem.cells), (-1, problem.cells)
    whole = np.ascontiguousarray(partial.sums).reshape(shape)  # those of no photons are no whole array
    total = whole
    for batch in partial.open.values():
        total = total + batch.tally.reshape(shape)
    squares = np.ascontiguousarray(partial.squares).reshape(problem.square_gates, problem.cells, 2)
    means = np.empty((problem.gates, *problem.size), np.float32)
    errors = np.empty((problem.gates, *problem.size), np.float32)
    for g in range(problem.gates):
        tallies = _added(total[:, g]), _added(whole[:, g]), squares[g]
        _one_volume(problem, partial, launched, *tallies, means[g], errors[g])
    fluence_error = errors[0]
    if problem.gates > 1:
        fluence_error = np.empty(problem.size, np.float32)
        everything = _added(total.reshape(flat)), _added(whole.reshape(flat)), squares[-1]
        _one_volume(problem, partial, launched, *everything, np.empty(problem.size, np.float32), fluence_error)
    halves = _halves(problem, total, launched) if problem.halves > 1 else None
    return np.moveaxis(means, 0, -1), np.moveaxis(errors, 0, -1), fluence_error, halves


def _added(parts: Array) -> Array:
    """Sum over the first axis; the part itself where there is but one, for a copy of it takes its time."""
    return parts[0] if len(parts) == 1 else parts.sum(axis=0)


def _one_volume(
    problem: VoxelProblem,
    partial: Partial,
    launched: int,
    total: Array,
    whole: Array,
    squares: Array,
    mean: Floats,
    error: Floats,
) -> None:
    batches, size = len(partial.batches), problem.batch_size
    rest = launched - batches * size
    free = freedom(batches, size, rest) if batches >= FEWEST_BATCHES else np.nan
    per_photon = 1.0 / (problem.scale * problem.domain.voxel_volume_mm3 * max(1, launched))
    with cpu_threads():
        _mean_and_error(
            total, whole, squares, *problem.size, per_photon, batches, size, rest, float(free), mean, error
        )  # fmt: skip


def _halves(problem: VoxelProblem, total: Array, launched: int) -> Floats:
    """Fluence of even and of odd photons, shape (2, X, Y, Z, G)."""
    inside = total.reshape(2, problem.gates, *problem.padded)[:, :, 1:-1, 1:-1, 1:-1]
    quantum = 2.0 / (problem.scale * problem.domain.voxel_volume_mm3 * max(1, launched))
    return np.moveaxis((inside * quantum).astype(np.float32), 1, -1)


def _escaped(problem: VoxelProblem, partial: Partial, launched: int) -> Floats | None:
    if not problem.exit_cells:
        return None
    inside = partial.exits.reshape(problem.padded)[1:-1, 1:-1, 1:-1]
    return (inside / (problem.ledger_scale * max(1, launched))).astype(np.float32)


# -- energy -----------------------------------------------------------------------------------------------------------


def _energy(problem: VoxelProblem, partial: Partial, launched: int) -> tuple[EnergyBalance, dict[int, Estimate]]:
    units = np.full(LEDGER + problem.media_rows, 1.0 / problem.ledger_scale)
    units[LEDGER:] = 1.0 / (problem.scale * problem.energy_scale)
    columns = len(units)
    whole = [partial.batches[batch] for batch in sorted(partial.batches)]
    batches = np.array(whole, np.uint64).reshape(-1, columns).astype(np.int64) * units
    rest = np.zeros(columns)
    for part in partial.open.values():
        rest += np.concatenate([part.ledger, row_energy_of(problem, part.tally)]).astype(np.int64) * units

    def estimate(numbers: Array) -> Estimate:
        """Fraction per photon of a column, or of several columns together."""
        per_batch, left = batches[:, numbers].sum(axis=1), rest[numbers].sum()
        value = (per_batch.sum() + left) / max(1, launched)
        error = mean_error(per_batch, left, problem.batch_size, launched - len(batches) * problem.batch_size)
        return Estimate(float(value), float(error))

    rows = LEDGER + np.arange(problem.media_rows)
    balance = EnergyBalance(
        specular=estimate(np.array([SPECULAR])),
        missed=estimate(np.array([MISSED])),
        absorbed=estimate(np.array([BEFORE, *rows])),
        escaped=estimate(np.array([ESCAPED])),
        truncated=estimate(np.array([TRUNCATED])),
        roulette=estimate(np.array([ROULETTE])),
    )
    labels = enumerate(problem.label_of_row, LEDGER + FIRST_MEDIUM)
    return balance, {label: estimate(np.array([column])) for column, label in labels}


def row_energy_of(problem: VoxelProblem, tally: Array) -> npt.NDArray[np.uint64]:
    """Energy that each media row has absorbed by a tally, in units of 1 / (scale * energy_scale)."""
    energy = np.zeros(problem.media_rows, np.uint64)
    with cpu_threads():
        row_energy(
            tally, problem.cells, problem.gates * problem.halves, problem.rows, problem.media, problem.mua,
            problem.energy_scale, energy,
        )  # fmt: skip
    return energy


# -- detected photons -------------------------------------------------------------------------------------------------


def _detected(problem: VoxelProblem, partial: Partial, launched: int) -> DetectedPhotons:
    caught = partial.caught
    order = np.argsort(caught.photons)
    numbers = caught.numbers[order]
    return DetectedPhotons(
        photon=caught.photons[order],
        detector=numbers[:, 0].astype(np.int32),
        weight=numbers[:, 1],
        path_mm=numbers[:, DETECTED_NUMBERS + FIRST_MEDIUM :],
        scatterings=numbers[:, 2].astype(np.int32),
        position_mm=problem.domain.grid_to_world(numbers[:, 3:6]),
        direction=problem.domain.direction_to_world(numbers[:, 6:9]),
        time_ns=numbers[:, 9].astype(np.float64) / LIGHT_MM_PER_NS,
        labels=problem.label_of_row,
        launched=launched,
        dropped=caught.dropped,
    )
