"""Clusters of similar fibers by their mean distance (MDF, Garyfallidis et al. 2012), whatever the fibers' order.

QuickBundles depends on the order in which fibers come. Here the first leader is the longest fiber, and the fiber that
is farthest from all leaders becomes the next one until all are near one (Gonzalez 1985): every fiber is within the
threshold of its leader, and leaders are farther than that from each other.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.tractograms.bundles.resample import resample
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
CLUSTER = "cluster"


@dataclass(frozen=True, eq=False, slots=True)
class Clusters(ShortRepr):
    """Which fibers are alike; clusters are numbered from the largest on.

    Parameters
    ----------
    labels
        Cluster of each fiber, shape (F,).
    leaders
        The fiber that each cluster is grouped around, shape (C,).
    counts
        Fibers of each cluster, shape (C,).
    distances_mm
        Mean distance of each fiber from its leader, shape (F,).
    """

    labels: npt.NDArray[np.int64]
    leaders: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    distances_mm: npt.NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.leaders)


def cluster(
    fibers: Tractogram, threshold_mm: float, *, points: int = 12, directed: bool = False, most: int | None = None
) -> Clusters:
    """Group fibers by shape and place.

    Parameters
    ----------
    fibers
        Any number; it takes a time proportional to fibers x clusters.
    threshold_mm
        Fibers of a cluster are at most this far from its leader: the mean distance of corresponding points, of the
        better of the two ways to run along a fiber.
    points
        Points that a fiber is resampled to.
    directed
        Whether all fibers run the same way (from one region to another), so that none is reversed.
    most
        At most so many clusters; the last fibers then may be farther from their leader than the threshold.

    Returns
    -------
    Clusters
        The same groups whatever the order of the fibers, but for exact ties.

    Raises
    ------
    InvalidInput
        If the threshold is not above 0, or ``points`` or ``most`` is too small.
    """
    if not threshold_mm > 0:
        raise InvalidInput(f"clusters with a threshold of {threshold_mm} mm cannot be made; give a number above 0")
    if most is not None and most < 1:
        raise InvalidInput(f"at most {most} clusters cannot hold the fibers; give at least 1")
    lines = resample(fibers, points).astype(np.float32)
    found = _farthest_first(lines, fibers.lengths_mm(), threshold_mm, most or len(fibers), directed=directed)
    return _numbered(*found)


def with_clusters(fibers: Tractogram, threshold_mm: float, *, most: int | None = None) -> Tractogram:
    """Return the same fibers with the number of their cluster as ``cluster`` in ``per_fiber``, the largest being 1.

    See `cluster`, whose defaults hold.
    """
    found = cluster(fibers, threshold_mm, most=most)
    return dataclasses.replace(fibers, per_fiber={**fibers.per_fiber, CLUSTER: (found.labels + 1).astype(np.float32)})


def _farthest_first(
    lines: Array, lengths: Array, threshold: float, most: int, *, directed: bool
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Leader of each fiber, and the distance from it."""
    from napari_gpubio.core.jit import run_blocks
    from napari_gpubio.tractograms.kernels.distances import join_nearer

    nearest, owner = np.full(len(lines), np.inf, np.float32), np.full(len(lines), -1)
    leader = int(np.argmax(lengths)) if len(lines) else -1
    for _ in range(min(most, len(lines))):
        run_blocks(join_nearer, len(lines), lines, leader, directed, nearest, owner, least=4096)
        leader = int(np.argmax(nearest))
        if nearest[leader] <= threshold:
            break
    return owner, nearest


def _numbered(owner: npt.NDArray[np.int64], distances: npt.NDArray[np.float32]) -> Clusters:
    """Number the clusters from the largest on."""
    leaders, labels, counts = np.unique(owner, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return Clusters(rank[labels], leaders[order], counts[order].astype(np.int64), distances)
