"""From the fluence of all optodes at one wavelength to the rows of its Jacobian, label sums, and their errors.

What a detector detects of a source, N, comes from the shells around both; see
`napari_gpubio.light.reciprocity`. Errors are those of a jackknife over the independent groups of photons of
both optodes: with P the sum of products of a label, each ratio P / N is found again without one group after another.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.light.reciprocity import Shell, widest_between
from napari_gpubio.optics.model import Domain
from napari_gpubio.probes.forward.model import Pair
from napari_gpubio.probes.forward.result import WavelengthModel
from napari_gpubio.probes.jacobians.model import error_of_groups
from napari_gpubio.probes.kernels.pairs.store import FluenceStore, Rows

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
CLOSEST = 1.25  # separation over the radius of the narrowest shell
MAX_ERROR = 0.5  # of N, beyond which no light is said to have reached a detector


class Detected(NamedTuple):
    """N of pairs, shape (P,), and with one group of the source or of the detector for all, shape (P, G)."""

    whole: Floats
    by_source: Floats
    by_detector: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Products(ShortRepr):
    """What products are made of: the pairs, as indices of optodes, and the columns of the rows.

    Parameters
    ----------
    domain
        The head at this wavelength.
    pairs
        Sources and detectors of the probe.
    sources
        Number of sources; the detectors are the optodes behind them.
    places_mm
        Where the optodes are, world.
    shells
        Of each optode, from the narrowest to the widest.
    squares
        Square of the refractive index of each label.
    chosen
        Places of the columns among the tissue's voxels, shape (V,); None: all of them.
    threshold
        See `ForwardSettings`.
    """

    domain: Domain
    pairs: tuple[Pair, ...]
    sources: int
    places_mm: Floats
    shells: Sequence[tuple[Shell, ...]]
    squares: Floats
    chosen: npt.NDArray[np.int64] | None
    threshold: float

    def ends(self, pair: Pair) -> tuple[int, int]:
        """Both optodes of a pair."""
        return pair.source, self.sources + pair.detector

    def apart_mm(self, pair: Pair) -> float:
        """Distance between source and detector."""
        source, detector = self.ends(pair)
        return float(np.linalg.norm(self.places_mm[source] - self.places_mm[detector]))

    def is_close(self, pair: Pair) -> bool:
        """Whether there is no room for shells between source and detector; False where a shell is not known."""
        shells = [self.shells[end] for end in self.ends(pair)]
        return any(one and self.apart_mm(pair) < CLOSEST * one[0].outer_mm for one in shells)


def wavelength_model(products: Products, store: FluenceStore, wavelength_nm: float) -> WavelengthModel:
    """Make all rows of a wavelength; pairs with an optode that is not done get no row, and NaN."""
    p, groups, labels = products, store.values.shape[1], len(store.voxels.slices)
    done = np.array([all(end in store.done for end in p.ends(pair)) for pair in p.pairs], np.bool_)
    chosen = [pair for pair, is_done in zip(p.pairs, done, strict=True) if is_done]
    shape = (len(p.pairs), labels)
    paths, errors = np.full(shape, np.nan), np.full(shape, np.nan)
    deviations = np.zeros((len(p.pairs), 2 * groups, labels), np.float32)
    whole, error = np.full(len(p.pairs), np.nan), np.full(len(p.pairs), np.nan)
    reached, close = np.zeros(len(p.pairs), np.bool_), np.array([p.is_close(pair) for pair in p.pairs], np.bool_)
    if chosen:
        detected = detected_by_pairs(p, store, chosen)
        whole[done] = detected.whole
        error[done] = _error(_left_out(detected.by_source), _left_out(detected.by_detector), detected.whole)
        with np.errstate(invalid="ignore"):
            reached[done] = ~close[done] & (detected.whole > 0) & (error[done] <= MAX_ERROR * detected.whole)
        paths[done], deviations[done] = _label_paths(p, store, chosen, detected)
        errors[done] = error_of_groups(deviations[done].astype(np.float64))
        dark = done & ~reached
        paths[dark], errors[dark], deviations[dark] = 0.0, np.inf, 0.0
    store.choose(p.chosen, 1.0 / p.squares)
    starts, columns, values, kept = _rows(p, store, whole, reached)
    return WavelengthModel(
        wavelength_nm=wavelength_nm,
        row_starts=starts,
        columns=columns,
        values=values,
        kept=kept,
        detected=whole,
        detected_error=error,
        label_paths_mm=paths,
        label_errors_mm=errors,
        label_deviations_mm=deviations,
        close=close,
        reached=reached,
        done=done,
    )


def detected_by_pairs(products: Products, store: FluenceStore, pairs: Sequence[Pair]) -> Detected:
    """N of some pairs, the mean of that of the shells around both of its optodes."""
    groups = store.values.shape[1]
    found = Detected(np.zeros(len(pairs)), np.zeros((len(pairs), groups)), np.zeros((len(pairs), groups)))
    around: dict[tuple[int, int], list[tuple[int, int, bool]]] = {}  # shell to pairs, their other end, which is which
    for number, pair in enumerate(pairs):
        ends = products.ends(pair)
        apart = products.apart_mm(pair)
        for own, other in (ends, ends[::-1]):
            shells = products.shells[own]
            level = next(i for i, shell in enumerate(shells) if shell is widest_between(shells, apart))
            around.setdefault((own, level), []).append((number, other, own == ends[0]))
    for (own, level), wanted in around.items():
        shell = products.shells[own][level]
        voxels = store.voxels.positions(shell.voxels)
        near = store.near(voxels, own)
        weights = shell.detected(np.concatenate([near.mean(axis=0, keepdims=True), near]).T).T
        sums = store.shell_sums(voxels, np.array([other for _, other, _ in wanted]), weights)
        for (number, _, is_source), one in zip(wanted, sums, strict=True):
            of_other, of_own = one[:, 0], one[:, 1:].mean(axis=0)
            found.whole[number] += of_other.mean() / 2
            found.by_source[number] += (of_own if is_source else of_other) / 2
            found.by_detector[number] += (of_other if is_source else of_own) / 2
    return found


def _label_paths(
    products: Products, store: FluenceStore, pairs: Sequence[Pair], detected: Detected
) -> tuple[Floats, Floats]:
    """Mean paths in each label, shape (P, L), and how far each group has moved them, shape (P, 2 G, L)."""
    ends = np.array([products.ends(pair) for pair in pairs])
    sources, first = np.unique(ends[:, 0], return_inverse=True)
    detectors, second = np.unique(ends[:, 1], return_inverse=True)
    scale = products.domain.voxel_volume_mm3 / products.squares
    by_source, by_detector = (sums[first, second] * scale for sums in store.label_sums(sources, detectors))
    with np.errstate(divide="ignore", invalid="ignore"):
        paths = by_source.mean(axis=1) / detected.whole[:, None]
        rows = [
            _deviations(paths, _left_out(sums) / _left_out(numbers)[:, :, None])
            for sums, numbers in ((by_source, detected.by_source), (by_detector, detected.by_detector))
        ]
    found = np.concatenate(rows, axis=1)
    return paths, np.nan_to_num(found * np.sqrt((found.shape[1] - 1) / found.shape[1]), posinf=0.0, neginf=0.0)


def _left_out(by_group: Floats) -> Floats:
    """Means without one group after another, from the values of each group, shape (P, G, ...)."""
    groups = by_group.shape[1]
    return (by_group.sum(axis=1, keepdims=True) - by_group) / (groups - 1)


def _deviations(whole: Floats, without: Floats) -> Floats:
    """Rows of a jackknife, whose squares add up to the variance, shape (P, G, ...)."""
    groups = without.shape[1]
    return np.sqrt((groups - 1) / groups) * (whole[:, None] - without)


def _error(without_source: Floats, without_detector: Floats, whole: Floats) -> Floats:
    rows = [_deviations(whole, without) for without in (without_source, without_detector)]
    return np.asarray(np.sqrt(np.square(np.concatenate(rows, axis=1)).sum(axis=1)))


def _rows(
    products: Products, store: FluenceStore, detected: Floats, reached: Array
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32], Floats]:
    """Rows of all pairs, mean path lengths in voxels, mm: starts, columns, values, and kept shares of their sums.

    They may take most of the memory, so they are made twice: first to know their lengths, then where they stay.
    """
    lengths, kept = np.zeros(len(products.pairs), np.int64), np.zeros(len(products.pairs))
    by_source = list(_rows_by_source(products, detected, reached))
    for numbers, rows in by_source:
        lengths[numbers] = store.row_lengths(rows)
    starts = np.concatenate([[0], lengths.cumsum()])
    columns, values = np.empty(starts[-1], np.int32), np.empty(starts[-1], np.float32)
    for numbers, rows in by_source:
        own = slice(starts[numbers[0]], starts[numbers[-1] + 1])  # rows in between are empty
        kept[numbers] = store.write_rows(rows, columns[own], values[own])
    return starts, columns, values, kept


def _rows_by_source(
    products: Products, detected: Floats, reached: Array
) -> Iterator[tuple[npt.NDArray[np.int64], Rows]]:
    """Numbers of the pairs that light has reached, those of a source together, and their rows."""
    ends = np.array([products.ends(pair) for pair in products.pairs])
    for source, numbers in groupby(range(len(ends)), key=lambda number: int(ends[number, 0])):
        own = np.fromiter(numbers, np.int64)
        if (own := own[reached[own]]).size:
            scales = products.domain.voxel_volume_mm3 / detected[own]
            yield own, Rows(source, ends[own, 1], scales, products.threshold)
