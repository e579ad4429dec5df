"""A connectome: which regions each fiber connects, from which every matrix is made."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.archives import opened_npz
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.exchange import Tabular
from napari_gpubio.core.files import atomic_write, existing_file, write_rows
from napari_gpubio.core.foreign import json_of
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
Statistic = Literal["sum", "mean", "min", "max"]
LENGTH = "length_mm"
COUNT = "count"
SCORE = "alignment_fa"  # of geodesics


@dataclass(frozen=True, eq=False, kw_only=True)
class RegionMatrices(Tabular):
    """Base of all that has matrices of the regions of an atlas.

    Parameters
    ----------
    labels
        Of the regions, shape (R,).
    names
        Of the regions.
    voxels
        Volume of each region in voxels, shape (R,).
    """

    labels: npt.NDArray[np.int64]
    names: tuple[str, ...]
    voxels: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def save_csv(self, path: str | Path, matrix: npt.NDArray[np.float64]) -> None:
        """Write a matrix as CSV, with the names of the regions in the first row and column; NaN is left empty."""
        cells = (("" if np.isnan(value) else f"{value:.9g}" for value in values) for values in matrix)
        rows = [[name, *row] for name, row in zip(self.names, cells, strict=True)]
        write_rows(path, [["", *self.names], *rows])

    def place_of(self, label: int) -> int:
        """Return the row of a label; InvalidInput if there is no such label."""
        found = np.flatnonzero(self.labels == label)
        if not len(found):
            raise InvalidInput(f"the connectome has no label {label}; it has {self.labels[:20].tolist()}")
        return int(found[0])


@dataclass(frozen=True, eq=False, kw_only=True)
class Connectome(RegionMatrices):
    """The regions of an atlas, and the pairs of them that fibers connect.

    Parameters
    ----------
    labels
        Of the regions, shape (R,).
    names
        Of the regions.
    voxels
        Volume of each region in voxels, shape (R,).
    pairs
        Places in ``labels`` that are connected, shape (P, 2), the lower first; -1 where an end belongs to no region.
        One for each fiber, unless all regions that a fiber passes count.
    fibers
        Index of the fiber of each pair, shape (P,).
    numbers
        Numbers of the fibers, each (F,), ``length_mm`` among them.
    complete
        False if only a part of the fibers was looked at.
    parameters
        How it was made, as JSON can hold it.
    best
        Of geodesics: the best fibers of each pair, with their index as ``fiber`` in ``per_fiber``. Files leave it out.
    notes
        What FODs tell about the way of geodesics, as sentences. Files leave them out.
    """

    pairs: npt.NDArray[np.int32]
    fibers: npt.NDArray[np.int64]
    numbers: Mapping[str, Array]
    complete: bool = True
    parameters: Mapping[str, Any] = field(default_factory=dict)
    best: Tractogram | None = None
    notes: tuple[str, ...] = ()

    @property
    def assigned(self) -> int:
        """Number of pairs with a region at both ends."""
        return int(np.count_nonzero((self.pairs >= 0).all(axis=1)))

    def matrix(
        self,
        of: str = COUNT,
        *,
        statistic: Statistic | None = None,
        per_node_volume: bool = False,
        per_length: bool = False,
        weights: npt.ArrayLike | None = None,
    ) -> npt.NDArray[np.float64]:
        """Return a matrix of the regions, symmetric, shape (R, R).

        Parameters
        ----------
        of
            What each fiber adds: ``"count"`` is 1, else the name of one of the ``numbers``.
        statistic
            How the fibers of an edge are put together; by default the sum of counts, and the mean of all else.
        per_node_volume
            Whether each fiber's value is divided by the mean volume of its two regions, in voxels (Hagmann et al.
            2008; MRtrix's scale_invnodevol).
        per_length
            Whether it is divided by the fiber's length (scale_invlength).
        weights
            Of the fibers, shape (F,), as SIFT2 gives them: they multiply sums, and weight means.

        Returns
        -------
        ndarray
            0 where a sum has no fibers, NaN where another statistic has none.

        Raises
        ------
        InvalidInput
            If there is no such number, or the weights are not one for each fiber.
        """
        statistic = statistic or ("sum" if of == COUNT else "mean")
        used = (self.pairs >= 0).all(axis=1)
        fibers, count = self.fibers[used], len(self)
        if of != COUNT and of not in self.numbers:
            raise InvalidInput(f"the fibers have no number {of!r}; they have {', '.join((COUNT, *self.numbers))}")
        values = np.ones(len(fibers)) if of == COUNT else np.asarray(self.numbers[of], np.float64)[fibers]
        pairs = self.pairs[used].astype(np.int64)
        if per_node_volume:
            values = values * 2.0 / self.voxels[pairs].sum(axis=1)
        if per_length:
            values = values / np.asarray(self.numbers[LENGTH], np.float64)[fibers]
        each = self._weights(weights)[fibers]
        cells = pairs[:, 0] * count + pairs[:, 1]
        upper = _statistics(cells, values, each, count * count, statistic).reshape(count, count)
        lower = np.tril_indices(count, -1)
        upper[lower] = upper.T[lower]
        return upper

    def fibers_of(self, one: int, other: int) -> npt.NDArray[np.int64]:
        """Return the indices of the fibers between two labels; InvalidInput if the atlas has no such label."""
        places = sorted(self.place_of(label) for label in (one, other))
        return np.asarray(self.fibers[(self.pairs == places).all(axis=1)])

    def fibers_at(self, label: int) -> npt.NDArray[np.int64]:
        """Return the indices of the fibers with an end at a label; InvalidInput if the atlas has no such label."""
        return np.unique(self.fibers[(self.pairs == self.place_of(label)).any(axis=1)])

    def save(self, path: str | Path, *, compress: bool = True) -> None:
        """Write everything as npz, which `load` reads; without compression it takes a tenth of the time."""
        numbers: dict[str, Any] = {f"number {name}": values for name, values in self.numbers.items()}
        about = {"names": list(self.names), "parameters": dict(self.parameters), "complete": self.complete}
        with atomic_write(path) as part, part.open("wb") as file:
            (np.savez_compressed if compress else np.savez)(
                file, labels=self.labels, voxels=self.voxels, pairs=self.pairs, fibers=self.fibers,
                about=np.array(json.dumps(about)), **numbers,
            )  # fmt: skip

    @classmethod
    def load(cls, path: str | Path) -> "Connectome":
        """Read what `save` wrote; InvalidInput if it is something else."""
        path = existing_file(path)
        try:
            with opened_npz(path) as file:
                file.check_size()
                about = json_of(str(file.array("about")), path.name)
                numbers = {n.removeprefix("number "): file.array(n) for n in file.names if n.startswith("number ")}
                found = cls(
                    labels=file.array("labels"), voxels=file.array("voxels"), pairs=file.array("pairs"),
                    fibers=file.array("fibers"), numbers=numbers,
                    names=tuple(map(str, about["names"])), parameters=about["parameters"], complete=about["complete"],
                )  # fmt: skip
        except InvalidInput:
            raise
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{path.name} is no connectome of this program; make it anew") from error
        if problem := found.problem():
            raise InvalidInput(f"{path.name}: {problem}; the file is damaged: make it anew")
        return found

    @classmethod
    def unfinished(cls, path: str | Path) -> "Connectome | None":
        """Read what `save` wrote of a run that was stopped or killed; None of a complete one, which is made anew."""
        found = cls.load(path)
        return None if found.complete else found

    def problem(self) -> str:
        """Return what makes it no connectome, as a sentence; empty if it is one."""
        return next((sentence for is_right, sentence in self._facts() if not is_right), "")

    def _facts(self) -> Iterator[tuple[bool, str]]:
        """Whether it is right, and a sentence if not; each rests on those before it."""
        regions, pairs, fibers = len(self.names), self.pairs, self.fibers
        lengths = self.numbers.get(LENGTH, np.empty(()))
        count = lengths.size
        yield isinstance(self.parameters, dict) and isinstance(self.complete, bool), "its description is not its own"
        yield lengths.ndim == 1, f"its fibers have no {LENGTH}"
        yield _whole(self.labels, self.voxels, pairs, fibers), "labels, voxels, pairs or fibers are no integers"
        yield self.labels.shape == self.voxels.shape == (regions,), f"{regions} names are not those of all labels"
        yield pairs.shape == (*fibers.shape, 2) and fibers.ndim == 1, f"pairs of shape {pairs.shape} do not fit fibers"
        yield _within(pairs, -1, regions), "a pair has a region that is none of its names"
        yield _within(fibers, 0, count), f"a pair has a fiber that is none of {count:,}"
        yield _fit(self.numbers.values(), count), "not every fiber has each number"
        yield bool(np.isfinite(lengths).all()), "a fiber has no finite length"

    def _weights(self, weights: npt.ArrayLike | None) -> npt.NDArray[np.float64]:
        count = len(self.numbers[LENGTH])
        if weights is None:
            return np.ones(count)
        given = np.asarray(weights, np.float64)
        if given.shape != (count,):
            raise InvalidInput(f"the weights have shape {given.shape}; give one for each of the {count:,} fibers")
        return given


def _whole(*arrays: Array) -> bool:
    return all(array.dtype.kind in "iu" for array in arrays)


def _within(values: Array, low: int, end: int) -> bool:
    return bool(values.size == 0 or (values.min() >= low and values.max() < end))


def _fit(numbers: Iterable[Array], count: int) -> bool:
    return all(values.shape == (count,) and values.dtype.kind in "biuf" for values in numbers)


def _statistics(cells: Array, values: Array, weights: Array, count: int, statistic: str) -> npt.NDArray[np.float64]:
    """A statistic of the values of each cell, shape (count,)."""
    if statistic in ("min", "max"):
        extreme = np.full(count, np.inf if statistic == "min" else -np.inf)
        (np.minimum if statistic == "min" else np.maximum).at(extreme, cells, values)
        return np.where(np.isinf(extreme), np.nan, extreme)
    total = np.bincount(cells, values * weights, minlength=count)
    if statistic == "sum":
        return np.asarray(total)
    share = np.bincount(cells, weights, minlength=count)
    return np.divide(total, share, out=np.full(count, np.nan), where=share > 0)
