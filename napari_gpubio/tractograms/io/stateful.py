"""Fibers as DIPY has them, both ways: its `StatefulTractogram`."""

import math
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.core.space import voxel_sizes_mm
from napari_gpubio.core.submodules import extra
from napari_gpubio.tractograms.model import Tractogram

_WHAT = "a StatefulTractogram"


def to_stateful(fibers: Tractogram) -> Any:
    """Return fibers as a `dipy.io.stateful_tractogram.StatefulTractogram`, in world mm (RASMM).

    Points are copied; numbers of fibers and points become columns, as DIPY has them. Fibers without points, which DIPY
    does not have, are left out with a note.

    Raises
    ------
    InvalidInput
        If DIPY is not installed.

    Examples
    --------
    >>> from napari_gpubio import diffusion, fibers, tractograms
    >>> ring = fibers.track(diffusion.phantom.ring_field(), [(20.0, 0.0, 0.0)], device="cpu")
    >>> again = tractograms.io.from_stateful(tractograms.io.to_stateful(ring))
    >>> bool((again.points == ring.points).all())
    True
    """
    from nibabel.orientations import aff2axcodes
    from nibabel.streamlines import ArraySequence

    dipy = extra("dipy.io.stateful_tractogram", "dipy", _WHAT)
    if empty := int(np.count_nonzero(fibers.counts == 0)):
        note(f"{empty} of {len(fibers):,} fibers have no points and were left out")
        fibers = fibers.select(fibers.counts > 0)
    grid = fibers.affine, np.array(fibers.shape), voxel_sizes_mm(fibers.affine), "".join(aff2axcodes(fibers.affine))
    of_points = {name: _wide(values) for name, values in fibers.per_point.items()}
    return dipy.StatefulTractogram(
        ArraySequence([*fibers]),
        grid,
        dipy.Space.RASMM,
        data_per_point={name: np.split(values, fibers.offsets[1:-1]) for name, values in of_points.items()},
        data_per_streamline={name: _wide(values) for name, values in fibers.per_fiber.items()},
    )


def from_stateful(stateful: Any) -> Tractogram:
    """Return the fibers of a StatefulTractogram of DIPY, whichever space and origin it is in; it stays as it is.

    Raises
    ------
    InvalidInput
        If it is none, or DIPY is not installed.
    """
    dipy = extra("dipy.io.stateful_tractogram", "dipy", _WHAT)
    if not isinstance(stateful, dipy.StatefulTractogram):
        raise InvalidInput(f"this is a {type(stateful).__name__}; give a StatefulTractogram of DIPY")
    space, origin = stateful.space, stateful.origin
    stateful.to_rasmm()
    stateful.to_center()
    try:
        lines = [np.array(line, np.float32) for line in stateful.streamlines]  # which are moved back in place
    finally:
        stateful.to_space(space)
        stateful.to_origin(origin)
    x, y, z = (int(n) for n in stateful.dimensions)
    column = {name: np.asarray(values) for name, values in stateful.data_per_streamline.items()}
    point = {name: np.concatenate([*values] or [np.zeros((0, 1))]) for name, values in stateful.data_per_point.items()}
    return Tractogram(
        points=np.concatenate([np.zeros((0, 3), np.float32), *lines]),
        offsets=np.cumsum([0, *map(len, lines)]),
        affine=np.asarray(stateful.affine, float),
        shape=(x, y, z),
        per_fiber={name: _narrow(values) for name, values in column.items()},
        per_point={name: _narrow(values) for name, values in point.items()},
    )


def _wide(values: Any) -> Any:
    """Numbers as rows."""
    return np.asarray(values).reshape(len(values), math.prod(np.shape(values)[1:]))


def _narrow(values: Any) -> Any:
    """A single column as a list of numbers."""
    return values[:, 0] if values.shape[1:] == (1,) else values
