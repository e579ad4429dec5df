"""The integer tallies of a voxel simulation: what a run hands over, what is merged, saved and resumed.

Everything is integers (but for the list of detected photons), so sums do not depend on their order.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.parallel import cpu_threads
from napari_gpubio.light.kernels.voxels.fold import fold_batch
from napari_gpubio.light.kernels.voxels.photon import DETECTED_NUMBERS
from napari_gpubio.light.kernels.voxels.problem import VoxelProblem
from napari_gpubio.light.scheduling import Ranges, joined, missing_ranges

Words = npt.NDArray[np.uint64]


@dataclass(eq=False)
class OpenBatch:
    """A batch of which not all photons are done.

    Parameters
    ----------
    done
        Ranges (start, stop) of the photons that are done.
    tally
        As `Partial.sums`.
    ledger
        Shape (LEDGER,).
    """

    done: Ranges
    tally: Words
    ledger: Words

    @property
    def photons(self) -> int:
        """Number of photons done."""
        return sum(stop - start for start, stop in self.done)


@dataclass(eq=False)
class CaughtPhotons:
    """Detected photons, in any order.

    Parameters
    ----------
    photons
        Their indices, shape (N,).
    numbers
        What `trace` lists of each, shape (N, DETECTED_NUMBERS + rows).
    dropped
        Photons that are not in the list, because it was full.
    """

    photons: Words
    numbers: npt.NDArray[np.float32]
    dropped: int = 0

    @classmethod
    def none(cls, problem: VoxelProblem) -> "CaughtPhotons":
        """Return an empty list."""
        return cls(np.zeros(0, np.uint64), np.zeros((0, DETECTED_NUMBERS + problem.media_rows), np.float32))

    def add(self, other: "CaughtPhotons", most: int) -> None:
        """Add photons; of more than ``most``, those with the smallest indices are kept."""
        photons = np.concatenate([self.photons, other.photons])
        numbers = np.concatenate([self.numbers, other.numbers])
        self.dropped += other.dropped
        if len(photons) > most:
            kept = np.argsort(photons)[:most]
            self.dropped += len(photons) - most
            photons, numbers = photons[kept], numbers[kept]
        self.photons, self.numbers = photons, numbers


@dataclass(eq=False)
class Partial:
    """Tallies of some photons of a problem.

    Parameters
    ----------
    sums
        Tally of the whole batches, shape (halves * gates * cells,).
    squares
        Sums of the squares of the batches' tallies, 128 bits as two words; see `fold_batch`.
    batches
        For each whole batch, all of them of the same length: the ledger, then the energy that each media row absorbed.
    open
        Batches of which not all photons are done.
    exits
        Escaped weight by voxel, empty unless asked for.
    caught
        Detected photons.
    batch_size
        Photons of a batch.
    key
        Fingerprint of the problem but for the number of photons; see `VoxelProblem.key`.
    """

    batch_size: int
    key: str
    sums: Words
    squares: Words
    exits: Words
    caught: CaughtPhotons
    batches: dict[int, Words] = field(default_factory=dict)
    open: dict[int, OpenBatch] = field(default_factory=dict)

    @classmethod
    def empty(cls, problem: VoxelProblem) -> "Partial":
        """Return the tallies of no photons, to be written."""
        return cls(
            batch_size=problem.batch_size,
            key=problem.key,
            sums=np.zeros(problem.tally_size, np.uint64),
            squares=np.zeros((problem.square_gates * problem.cells, 2), np.uint64),
            exits=np.zeros(problem.exit_cells, np.uint64),
            caught=CaughtPhotons.none(problem),
        )

    @classmethod
    def none(cls, problem: VoxelProblem) -> "Partial":
        """Return the tallies of no photons, for others to be added to: zeros without memory, which nobody can write."""
        return cls(
            batch_size=problem.batch_size,
            key=problem.key,
            sums=np.broadcast_to(np.uint64(0), problem.tally_size),
            squares=np.broadcast_to(np.uint64(0), (problem.square_gates * problem.cells, 2)),
            exits=np.zeros(problem.exit_cells, np.uint64),
            caught=CaughtPhotons.none(problem),
        )

    @property
    def photons(self) -> int:
        """Number of photons done."""
        return len(self.batches) * self.batch_size + sum(batch.photons for batch in self.open.values())

    @property
    def photons_up_to(self) -> int:
        """One more than the largest index of a photon that is done."""
        whole = [(batch + 1) * self.batch_size for batch in self.batches]
        return max([0, *whole, *(part.done[-1][1] for part in self.open.values())])

    def copy(self) -> "Partial":
        """Return a copy that further photons do not change."""
        return Partial(
            batch_size=self.batch_size,
            key=self.key,
            sums=self.sums.copy(),
            squares=self.squares.copy(),
            exits=self.exits.copy(),
            caught=dataclasses.replace(self.caught),
            batches=dict(self.batches),
            open=dict(self.open),
        )

    def add(self, other: "Partial", problem: VoxelProblem) -> None:
        """Add the tallies of other photons of the same problem; a batch that becomes whole is folded.

        Arrays of the other may become this one's, so it is not to be changed afterwards.
        """
        if self.batches:
            self.sums += other.sums
            self._add_squares(other.squares)
        else:  # these are zero, and to write large new arrays takes longer than a million photons
            self.sums, self.squares = other.sums, other.squares
        self.exits += other.exits
        self.batches |= other.batches
        for batch, part in other.open.items():
            self.merge_open(batch, part)
            if self.open[batch].photons == self.batch_size:
                self._close(batch, problem)
        self.caught.add(other.caught, problem.settings.max_detected)

    def merge_open(self, batch: int, part: OpenBatch) -> None:
        """Add a part of a batch to what there is of it."""
        if batch not in self.open:
            self.open[batch] = part
            return
        mine, done = self.open[batch], joined(self.open[batch].done + part.done)
        self.open[batch] = OpenBatch(done, mine.tally + part.tally, mine.ledger + part.ledger)

    def _add_squares(self, squares: Words) -> None:
        low = self.squares[:, 0] + squares[:, 0]
        self.squares[:, 1] += squares[:, 1] + (low < squares[:, 0])
        self.squares[:, 0] = low

    def _close(self, batch: int, problem: VoxelProblem) -> None:
        part = self.open.pop(batch)
        if not self.sums.flags.writeable:  # those of `none`
            self.sums, self.squares = self.sums.copy(), self.squares.copy()
        tally = part.tally.copy()  # somebody's copy may share it, and folding clears it
        energy = np.zeros(problem.media_rows, np.uint64)
        with cpu_threads():
            fold_batch(
                tally, problem.cells, problem.gates, problem.halves, self.sums, self.squares, problem.rows,
                problem.media, problem.mua, problem.energy_scale, energy,
            )  # fmt: skip
        self.batches[batch] = np.concatenate([part.ledger, energy])

    def missing(self, problem: VoxelProblem) -> Ranges:
        """Ranges (start, stop) of photons that are not done, each within one batch, in order."""
        done = {batch: [problem.batch_range(batch)] for batch in self.batches}
        return missing_ranges(problem, done | {batch: part.done for batch, part in self.open.items()})

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything as named arrays, for a file."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "batch_size": np.array(self.batch_size),
            "key": np.array(self.key),
            "sums": self.sums,
            "squares": self.squares,
            "exits": self.exits,
            "caught_photons": self.caught.photons,
            "caught_numbers": self.caught.numbers,
            "batch_indices": np.array(sorted(self.batches), np.int64),
            "batch_numbers": np.array([self.batches[batch] for batch in sorted(self.batches)], np.uint64),
            "open_indices": np.array(sorted(self.open), np.int64),
            "dropped": np.array(self.caught.dropped),
        }
        for batch, part in self.open.items():
            arrays |= {
                f"open_{batch}_done": np.array(part.done, np.int64),
                f"open_{batch}_tally": part.tally,
                f"open_{batch}_ledger": part.ledger,
            }
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> "Partial":
        """Undo `to_arrays`.

        Raises
        ------
        InvalidInput
            If an array is missing.
        """
        try:
            return cls(
                batch_size=int(arrays["batch_size"]),
                key=str(arrays["key"]),
                sums=arrays["sums"],
                squares=arrays["squares"],
                exits=arrays["exits"],
                caught=CaughtPhotons(arrays["caught_photons"], arrays["caught_numbers"], int(arrays["dropped"])),
                batches=dict(zip(arrays["batch_indices"].tolist(), arrays["batch_numbers"], strict=True)),
                open={
                    batch: OpenBatch(
                        done=[(start, stop) for start, stop in arrays[f"open_{batch}_done"].tolist()],
                        tally=arrays[f"open_{batch}_tally"],
                        ledger=arrays[f"open_{batch}_ledger"],
                    )
                    for batch in arrays["open_indices"].tolist()
                },
            )
        except KeyError as error:
            raise InvalidInput(f"the saved state lacks {error}; it was not written by this version") from error
