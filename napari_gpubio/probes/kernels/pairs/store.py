"""Fluence of many optodes by groups of photons, and its products for pairs of them; both backends share it.

Values stay on the device on which they were made, as single precision: shape (optodes, groups, voxels). The voxels are
those of the tissue, ordered by their label, so that a label is a slice. A sum over a label of the products of all
sources with all detectors is then one product of matrices, and a row of a Jacobian one product of vectors.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.optics.model import Domain

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
_ROW_VALUES, _ROW_BYTES = 1 << 24, 20  # of rows that are made together; of each value, with places and products


class Rows(NamedTuple):
    """Which rows of a Jacobian: the products of a source with some detectors, as indices of optodes, and what is kept.

    Parameters
    ----------
    source, detectors
        Optodes.
    scales
        What the products with each detector are multiplied by.
    threshold
        Smallest value that is kept, as a share of the largest of its row.
    """

    source: int
    detectors: Array
    scales: Floats
    threshold: float


class TissueVoxels:
    """Voxels of the tissue, ordered by label.

    Parameters
    ----------
    domain
        The tissue.

    Attributes
    ----------
    flat
        Indices in the domain's flat labels, shape (V,).
    cells
        Indices in the padded grid of the tallies, shape (V,).
    slices
        Where each of the labels lies that occur, in their order.
    """

    def __init__(self, domain: Domain) -> None:
        ranks = domain.ranks
        inside = np.flatnonzero(ranks)
        order = np.argsort(ranks.ravel()[inside], kind="stable")
        self.flat = inside[order]
        place = np.unravel_index(self.flat, domain.shape)
        padded = tuple(count + 2 for count in domain.shape)
        self.cells = np.ravel_multi_index(tuple(index + 1 for index in place), padded)
        ends = np.cumsum(np.bincount(ranks.ravel())[1:])
        self.slices = tuple(slice(int(a), int(b)) for a, b in zip((0, *ends[:-1]), ends, strict=True))
        self._position = np.full(ranks.size, -1, np.int64)
        self._position[self.flat] = np.arange(len(self.flat))

    def __len__(self) -> int:
        return len(self.flat)

    def positions(self, flat: Array) -> npt.NDArray[np.int64]:
        """Places of voxels, given by their indices in the domain, in this order; -1 of the outside."""
        return self._position[flat]


class FluenceStore:
    """Fluence of optodes, as NumPy (or CuPy, in the subclass of ``gpu.py``)."""

    xp: Any = np

    def __init__(self, voxels: TissueVoxels, optodes: int, groups: int) -> None:
        self.voxels = voxels
        self.done: set[int] = set()  # optodes of which all photons are
        self.values = self.xp.zeros((optodes, groups, len(voxels)), np.float32)
        self._means: Any = None
        self._chosen: Any = None  # columns of the rows; None: all voxels
        self._factors: Any = self.xp.ones(len(voxels), np.float32)

    @staticmethod
    def bytes_of(voxels: int, optodes: int, groups: int) -> int:
        """Memory that a store takes, with the means, and rows while they are made."""
        return 4 * voxels * optodes * (groups + 1) + _ROW_BYTES * max(voxels, min(_ROW_VALUES, voxels * optodes))

    def put(self, optode: int, group: int, tally: Any, fluence_of_quantum: float) -> None:
        """Keep what a group of photons of an optode has tallied: weight times path, flat, in quanta."""
        self.values[optode, group] = tally[self.voxels.cells] * fluence_of_quantum
        self._means = None

    def label_sums(self, sources: Array, detectors: Array) -> tuple[Floats, Floats]:
        """Sums over labels of products of the fluences of sources and detectors.

        Returns
        -------
        array
            Of each group of a source and the mean of a detector, shape (S, D, G, L).
        array
            Of the mean of a source and each group of a detector, shape (S, D, G, L).
        """
        first, second = self._label_sums(sources, detectors), self._label_sums(detectors, sources)
        return first, np.swapaxes(second, 0, 1)

    def _label_sums(self, grouped: Array, meaned: Array) -> Floats:
        means, groups = self.means(), self.values.shape[1]
        found = np.zeros((len(grouped), len(meaned), groups, len(self.voxels.slices)))
        for column, label in enumerate(self.voxels.slices):
            others = means[:, label][self.xp.asarray(meaned)].T
            for row, optode in enumerate(grouped.tolist()):
                found[row, :, :, column] = self.host(self.values[optode, :, label] @ others).T
        return found

    def shell_sums(self, voxels: Array, optodes: Array, weights: Floats) -> Floats:
        """Sums over some voxels of the fluence of each group of some optodes times weights, shape (W, voxels).

        Returns
        -------
        array
            Shape (optodes, G, W).
        """
        xp, groups = self.xp, self.values.shape[1]
        places = xp.asarray(optodes)[:, None, None], xp.arange(groups)[None, :, None], xp.asarray(voxels)
        return self.host(self.values[places].astype(np.float64) @ xp.asarray(weights.T))

    def near(self, voxels: Array, optode: int) -> Floats:
        """Fluence of an optode in some voxels by groups, shape (G, voxels)."""
        return self.host(self.values[optode][:, self.xp.asarray(voxels)]).astype(np.float64)

    def choose(self, chosen: Array | None, factors: Floats) -> None:
        """Choose the columns of rows.

        Parameters
        ----------
        chosen
            Their places among the voxels; None: all.
        factors
            What products are multiplied by in each label.
        """
        by_voxel = np.empty(len(self.voxels), np.float32)
        for label, factor in zip(self.voxels.slices, factors, strict=True):
            by_voxel[label] = factor
        self._chosen = None if chosen is None else self.xp.asarray(chosen)
        self._factors = self.xp.asarray(by_voxel if chosen is None else by_voxel[chosen])

    def row_lengths(self, rows: Rows) -> npt.NDArray[np.int64]:
        """How many values of each row are kept."""
        counts = [self.host(is_kept.sum(axis=1, dtype=np.int64)) for _, is_kept in self._products(rows)]
        return np.concatenate(counts)

    def write_rows(self, rows: Rows, columns: Array, values: Array) -> Floats:
        """Write the values that are kept, row after row, and their columns.

        Parameters
        ----------
        rows
            Which.
        columns, values
            Where to, shape (sum of the rows' lengths,), int32 and float32.

        Returns
        -------
        array
            Share of each row's sum that is kept.
        """
        xp, begin, shares = self.xp, 0, []
        for products, is_kept in self._products(rows):
            places = xp.flatnonzero(is_kept)
            end = begin + len(places)
            self.host((places % products.shape[1]).astype(np.int32), columns[begin:end])
            self.host(products.ravel()[places], values[begin:end])
            begin = end
            sums = products.sum(axis=1, dtype=np.float64)
            products *= is_kept
            of_kept = products.sum(axis=1, dtype=np.float64)
            shares.append(self.host(xp.where(sums > 0, of_kept / xp.where(sums > 0, sums, 1.0), 1.0)))
        return np.concatenate(shares)

    def _of_chosen(self, optodes: Array) -> Any:
        """Means of optodes in the chosen columns, shape (optodes, columns)."""
        rows = self.xp.asarray(optodes)
        return self.means()[rows] if self._chosen is None else self.means()[rows[:, None], self._chosen]

    def _products(self, rows: Rows) -> Iterator[tuple[Any, Any]]:
        """Products in the chosen columns, shape (some of the rows, columns), and which of them are kept."""
        first = self._of_chosen(np.array([rows.source]))[0] * self._factors
        at_once = max(1, _ROW_VALUES // max(1, len(first)))
        for begin in range(0, len(rows.detectors), at_once):
            some = slice(begin, begin + at_once)
            products = self._of_chosen(rows.detectors[some]) * first
            products *= self.xp.asarray(rows.scales[some, None].astype(np.float32))
            smallest = products.max(axis=1, keepdims=True) * np.float32(rows.threshold)
            yield products, (products >= smallest) & (products > 0)

    def means(self) -> Any:
        """Mean over the groups, shape (optodes, V)."""
        if self._means is None:
            optodes, _, voxels = self.values.shape
            self._means = self.xp.empty((optodes, voxels), np.float32)
            for mean, groups in zip(self._means, self.values, strict=True):
                mean[...] = groups.mean(axis=0)
        return self._means

    def host(self, array: Any, out: Array | None = None) -> Array:
        """An array of the device as NumPy, in ``out`` where it is given."""
        if out is None:
            return np.asarray(array)
        out[...] = array
        return out

    def here(self) -> AbstractContextManager[Any]:
        """What encloses work with the store's arrays."""
        return nullcontext()

    def close(self) -> None:
        """Let the device arrays go."""
        self.values = self._means = self._chosen = self._factors = None
