"""The integer tallies of a voxel simulation, and the result that they make."""

import dataclasses
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.steps import drive
from napari_gpubio.light.kernels.voxels.problem import (
    BEFORE,
    DETECTED_NUMBERS,
    ENERGY_PARTS,
    ESCAPED,
    FIRST_MEDIUM,
    LIGHT_MM_PER_NS,
    MISSED,
    ROULETTE,
    SPECULAR,
    TRUNCATED,
    VoxelProblem,
)
from napari_gpubio.light.result import EnergyBalance, LightResult
from napari_gpubio.optics.batches import BatchPart, Ranges, Tally, Words, joined, mean_error
from napari_gpubio.optics.detectors import DetectedPhotons
from napari_gpubio.optics.estimates import Estimate

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
_VOLUMES = ("sums", "squares", "exits")
VOXELS_AT_ONCE = 1 << 18  # of which volumes are made: enough for a call of compiled code, little memory
_VOXELS_OF_PART = 1 << 24  # of all gates and halves, between two steps: half a second on one core


@dataclass(eq=False)
class OpenBatch(BatchPart, ShortRepr):
    """A batch of which not all photons are done."""

    path: Words  # as `VoxelTally.sums`
    energy: Words  # the energy tally, shape (ENERGY_PARTS,)


@dataclass(eq=False)
class DetectedList(ShortRepr):
    """Detected photons, in any order."""

    photons: Words  # their indices, shape (N,)
    numbers: npt.NDArray[np.float32]  # what `list_photon` notes of each, shape (N, DETECTED_NUMBERS + rows)
    dropped: int = 0  # photons that are not in the list, because it was full

    @classmethod
    def none(cls, problem: VoxelProblem) -> "DetectedList":
        """Return an empty list."""
        return cls(np.zeros(0, np.uint64), np.zeros((0, DETECTED_NUMBERS + problem.media_rows), np.float32))

    def add(self, other: "DetectedList", most: int) -> None:
        """Add photons; of more than ``most``, those with the smallest indices are kept."""
        photons = np.concatenate([self.photons, other.photons])
        numbers = np.concatenate([self.numbers, other.numbers])
        self.dropped += other.dropped
        if len(photons) > most:
            kept = np.argsort(photons)[:most]
            self.dropped += len(photons) - most
            photons, numbers = photons[kept], numbers[kept]
        self.photons, self.numbers = photons, numbers


@dataclass(eq=False, kw_only=True)
class VoxelTally(Tally, ShortRepr):
    """Tallies of some photons of a voxel simulation.

    Parameters
    ----------
    sums
        Weight times path in the whole batches, shape (halves * gates * cells,).
    squares
        Sums of the squares of the batches' tallies, 128 bits as two words; see `Fold`.
    exits
        Escaped weight by voxel, empty unless requested.
    detected
        Detected photons.
    batches
        For each whole batch, all of them of the same length: the energy tally, then what each media row absorbed.
    open
        Batches of which not all photons are done.
    """

    sums: Words
    squares: Words
    exits: Words
    detected: DetectedList
    batches: dict[int, Words] = field(default_factory=dict)
    open: dict[int, OpenBatch] = field(default_factory=dict)

    @classmethod
    def empty(cls, problem: VoxelProblem) -> "VoxelTally":
        """Return the tallies of no photons, to be written."""
        none = cls.none(problem)
        for name in _VOLUMES:
            setattr(none, name, np.zeros(getattr(none, name).shape, np.uint64))
        return none

    @classmethod
    def none(cls, problem: VoxelProblem) -> "VoxelTally":
        """Return the tallies of no photons, for others to be added to: read-only zeros that take no memory."""
        return cls(
            batch_size=problem.batch_size,
            key=problem.key,
            sums=np.broadcast_to(np.uint64(0), problem.tally_size),
            squares=np.broadcast_to(np.uint64(0), (problem.square_size, 2)),
            exits=np.broadcast_to(np.uint64(0), problem.exit_cells),
            detected=DetectedList.none(problem),
        )

    def done(self) -> dict[int, Ranges]:
        """Ranges of photons that are done, for each batch that has been begun."""
        size = self.batch_size
        whole = {batch: [(batch * size, (batch + 1) * size)] for batch in self.batches}
        return whole | {batch: part.done for batch, part in self.open.items()}

    def copy(self) -> "VoxelTally":
        """Return a copy that further photons do not change."""
        copy = self.shared()
        for name in _VOLUMES:
            if (array := getattr(self, name)).flags.writeable:  # those of `none` never change
                setattr(copy, name, array.copy())
        return copy

    def shared(self) -> "VoxelTally":
        """Return the same tallies, to which more can be added where the arrays of this one are not changed any more."""
        return dataclasses.replace(
            self, detected=dataclasses.replace(self.detected), batches=dict(self.batches), open=dict(self.open)
        )

    def merge(self, other: "VoxelTally", problem: VoxelProblem) -> None:
        """Add the tallies of other photons of the same problem; a batch that becomes whole is folded.

        Arrays of the other may become this one's, so it is not to be changed afterwards.
        """
        if self.batches:
            self.sums += other.sums
            self._add_squares(other.squares)
        else:  # these are zero, and to write large new arrays takes longer than a million photons
            self.sums, self.squares = other.sums, other.squares
        if self.exits.flags.writeable:
            self.exits += other.exits
        else:
            self.exits = other.exits
        self.batches |= other.batches
        for batch, part in other.open.items():
            self.merge_open(batch, part)
            if self.open[batch].photons == self.batch_size:
                self._close(batch, problem)
        self.detected.add(other.detected, problem.settings.max_detected)

    def merge_open(self, batch: int, part: OpenBatch) -> None:
        """Add a part of a batch to what there is of it."""
        if batch not in self.open:
            self.open[batch] = part
            return
        mine, done = self.open[batch], joined(self.open[batch].done + part.done)
        self.open[batch] = OpenBatch(done, mine.path + part.path, mine.energy + part.energy)

    def _add_squares(self, squares: Words) -> None:
        low = self.squares[:, 0] + squares[:, 0]
        self.squares[:, 1] += squares[:, 1] + (low < squares[:, 0])
        self.squares[:, 0] = low

    def _close(self, batch: int, problem: VoxelProblem) -> None:
        from napari_gpubio.light.kernels.voxels.fold import fold

        part = self.open.pop(batch)
        self.sums, self.squares = self.sums.copy(), self.squares.copy()  # they may be a run's, or those of `none`
        path = part.path.copy()  # a copy of this tally may share it, and folding clears it
        self.batches[batch] = np.concatenate([part.energy, fold(problem, path, self.sums, self.squares)])

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as named arrays, for a file."""
        arrays: dict[str, npt.NDArray[Any]] = super().to_arrays() | {
            "sums": self.sums,
            "squares": self.squares,
            "exits": self.exits,
            "detected_photons": self.detected.photons,
            "detected_numbers": self.detected.numbers,
            "batch_indices": np.array(sorted(self.batches), np.int64),
            "batch_numbers": np.array([self.batches[batch] for batch in sorted(self.batches)], np.uint64),
            "open_indices": np.array(sorted(self.open), np.int64),
            "dropped": np.array(self.detected.dropped),
        }
        for batch, part in self.open.items():
            arrays |= {
                f"open_{batch}_done": np.array(part.done, np.int64),
                f"open_{batch}_path": part.path,
                f"open_{batch}_energy": part.energy,
            }
        return arrays

    @classmethod
    def _fields_of(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
        return {
            "sums": arrays["sums"],
            "squares": arrays["squares"],
            "exits": arrays["exits"],
            "detected": DetectedList(arrays["detected_photons"], arrays["detected_numbers"], int(arrays["dropped"])),
            "batches": dict(zip(arrays["batch_indices"].tolist(), arrays["batch_numbers"], strict=True)),
            "open": {
                batch: OpenBatch(
                    done=[(start, stop) for start, stop in arrays[f"open_{batch}_done"].tolist()],
                    path=arrays[f"open_{batch}_path"],
                    energy=arrays[f"open_{batch}_energy"],
                )
                for batch in arrays["open_indices"].tolist()
            },
        }


class LaunchedWeights(NamedTuple):
    """Weight that photons started with, where that is not 1 each: in each whole batch, in order, and in the rest."""

    batches: npt.NDArray[np.float64]
    rest: float

    @property
    def total(self) -> float:
        """Weight of all of them."""
        return float(self.batches.sum()) + self.rest


def assemble(
    problem: VoxelProblem, tally: VoxelTally, parameters: Mapping[str, Any], weights: LaunchedWeights | None = None
) -> LightResult:
    """Turn the tallies of the photons that are done into a result; of energy, per launched weight where it is given."""
    return drive(assemble_parts(problem, tally, parameters, weights))


def assemble_parts(
    problem: VoxelProblem, tally: VoxelTally, parameters: Mapping[str, Any], weights: LaunchedWeights | None = None
) -> Generator[Any, None, LightResult]:
    """As `assemble`, of a large volume part by part."""
    launched = tally.photons
    gates, gates_error, fluence_error, halves = yield from _volumes(problem, tally, launched)
    energy, absorbed = _energy(problem, tally, launched, weights)
    return LightResult(
        domain=problem.domain,
        source=problem.sources,
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


def _volumes(
    problem: VoxelProblem, tally: VoxelTally, launched: int
) -> Generator[None, None, tuple[Floats, Floats, Floats, Floats | None]]:
    """Fluence of the gates and its error, shape (X, Y, Z, G), error of all gates together, and the half buffers.

    Some planes at a time, since sums of tallies take twice as much as the fluence.
    """
    from napari_gpubio.core.jit import run_blocks
    from napari_gpubio.light.kernels.voxels.fold import write_fluence

    size, gates = problem.size, problem.gates
    means, errors = (np.empty((gates, *size), np.float32) for _ in range(2))
    halves = np.empty((2, gates, *size), np.float32) if problem.halves > 1 else None
    fluence_error = errors[0] if gates == 1 else np.empty(size, np.float32)
    shape = (problem.halves, gates, *problem.padded)
    whole, squares = tally.sums.reshape(shape), tally.squares.reshape(problem.square_gates, *problem.padded, 2)
    rest = [batch.path.reshape(shape) for batch in tally.open.values()]

    def write(planes: slice, gates: slice, part: int, mean: Floats, error: Floats) -> None:
        around = slice(planes.start, planes.stop + 2)  # with the rim
        in_whole = _added(whole[:, gates, around])
        total = sum((_added(path[:, gates, around]) for path in rest), start=in_whole)
        tallies = total, in_whole, np.ascontiguousarray(squares[part, around]).ravel()
        write_fluence(problem, len(tally.batches), launched, tallies, (mean, error))

    def write_planes(first: int, stop: int) -> None:
        step = max(1, VOXELS_AT_ONCE // (size[1] * size[2]))
        for planes in (slice(x, min(x + step, stop)) for x in range(first, stop, step)):
            for g in range(gates):
                write(planes, slice(g, g + 1), g, means[g, planes], errors[g, planes])
                if halves is not None:
                    inside = (slice(None), g, slice(planes.start + 1, planes.stop + 1), slice(1, -1), slice(1, -1))
                    both = sum((path[inside] for path in rest), start=whole[inside])
                    factor = 2.0 * problem.fluence_of_quantum(launched)
                    np.multiply(both, factor, out=halves[:, g, planes], casting="same_kind")
            if gates > 1:
                error = fluence_error[planes]
                write(planes, slice(None), -1, np.empty_like(error), error)

    of_part = _VOXELS_OF_PART // (gates * problem.halves)
    least, together = (max(1, voxels // (size[1] * size[2])) for voxels in (VOXELS_AT_ONCE, of_part))
    for begin in range(0, size[0], together):
        if begin:
            yield
        count = min(together, size[0] - begin)
        run_blocks(lambda first, stop, begin=begin: write_planes(begin + first, begin + stop), count, least=least)
    moved = None if halves is None else np.moveaxis(halves, 1, -1)
    return np.moveaxis(means, 0, -1), np.moveaxis(errors, 0, -1), fluence_error, moved


def _added(parts: Array) -> Words:
    """Sum over halves and gates, flat; where there is but one it is not copied, which takes time."""
    return (np.ascontiguousarray(parts) if parts.shape[:2] == (1, 1) else parts.sum(axis=(0, 1))).ravel()


def _escaped(problem: VoxelProblem, tally: VoxelTally, launched: int) -> Floats | None:
    if not problem.exit_cells:
        return None
    inside = tally.exits.reshape(problem.padded)[1:-1, 1:-1, 1:-1]
    out = np.empty(problem.size, np.float32)
    return np.divide(inside, problem.energy_scale * max(1, launched), out=out, casting="same_kind")


# -- energy -----------------------------------------------------------------------------------------------------------


def _energy(
    problem: VoxelProblem, tally: VoxelTally, launched: int, weights: LaunchedWeights | None
) -> tuple[EnergyBalance, dict[int, Estimate]]:
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
        value, scale = (per_batch.sum() + left) / max(1, launched), 1.0
        if weights is not None and weights.total > 0:  # a ratio, whose error is that of what is left over from it
            scale = launched / weights.total
            value *= scale
            per_batch, left = per_batch - value * weights.batches, left - value * weights.rest
        error = scale * mean_error(per_batch, left, problem.batch_size, launched - len(batches) * problem.batch_size)
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
