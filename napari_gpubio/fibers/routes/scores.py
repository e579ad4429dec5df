"""Numbers of connections that tracking does not give: weakest link, distance from the classic streamlines."""

from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.fibers.routes.paths import local_costs
from napari_gpubio.fibers.settings import TensorGeodesic
from napari_gpubio.tractograms.bundles.resample import resample
from napari_gpubio.tractograms.model import Tractogram

Array = npt.NDArray[Any]
_SAMPLES = 20  # of a fiber, for its distance from others


def weakest_links(field: TensorField, fibers: Tractogram, settings: TensorGeodesic) -> npt.NDArray[np.float32]:
    """Largest local cost of each fiber, shape (F,): Riemannian length per mm at unit diffusivity 1e-3 mm^2/s.

    What Jbabdi et al. (2008) call the weakest link; fibers have at least two points.
    """
    if not len(fibers):
        return np.zeros(0, np.float32)
    points = fibers.points.astype(np.float64)
    tangents = np.gradient(points, axis=0)
    firsts, lasts = fibers.offsets[:-1], fibers.offsets[1:] - 1
    tangents[firsts], tangents[lasts] = points[firsts + 1] - points[firsts], points[lasts] - points[lasts - 1]
    tangents /= np.maximum(np.linalg.norm(tangents, axis=1, keepdims=True), 1e-12)
    costs = local_costs(field, points, tangents, settings)
    return np.maximum.reduceat(costs, firsts).astype(np.float32)


def distances_from_streamlines(fibers: Tractogram, others: Tractogram) -> npt.NDArray[np.float32]:
    """Mean distance of 20 points along each fiber from the closest point of others, mm, shape (F,); NaN if none."""
    from scipy.spatial import KDTree

    if not len(others):
        return np.full(len(fibers), np.nan, np.float32)
    found, _ = KDTree(others.points).query(resample(fibers, _SAMPLES).reshape(-1, 3), workers=-1)
    return np.asarray(found, np.float32).reshape(-1, _SAMPLES).mean(axis=1)


def route_scores(alignment_fa: Array, eudx_distance_mm: Array) -> npt.NDArray[np.float32]:
    """Plausibility of connections, 0 to 1: alignment x FA, less by a factor of e for each mm from the streamlines.

    Alignment with the tensors alone ranks poorly: a geodesic that takes a short cut is well aligned for most of its
    way. On the arrivals in fifteen bundles of a real brain the area under the ROC curve is .64 for alignment x FA, and
    .82 for this score (`benchmarks/fibers_routes.py`). Without streamlines, it is alignment x FA.
    """
    return (alignment_fa * np.exp(-np.nan_to_num(eudx_distance_mm))).astype(np.float32)
