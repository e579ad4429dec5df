"""What bounds a structure in each of its slabs: segments, in no order."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.dose.structures.contours import ContourStructure
from napari_gpubio.dose.structures.slabs import slab_bounds

Array = npt.NDArray[np.float64]


class Outlines(NamedTuple):
    """The outlines of all slabs, one after another, in the structure's frame, mm.

    Parameters
    ----------
    segments
        Shape (N, 4): x and y of one end, x and y of the other. What lies inside those of a slab by the even-odd rule
        belongs to the structure, so their order and direction mean nothing.
    counts
        How many of them each slab has, at least one, shape (slabs,).
    low, high
        Where the slabs begin and end along the normal, shape (slabs,).
    """

    segments: Array
    counts: npt.NDArray[np.int64]
    low: Array
    high: Array


def slab_outlines(structure: ContourStructure, caps: str = "half") -> Outlines:
    """Each contour as it was drawn, half way to its neighbors; see `slab_bounds`."""
    loops = [loop for plane in structure.planes for loop in plane.loops]
    points = np.concatenate(loops)
    following = np.concatenate([part for loop in loops for part in (loop[1:], loop[:1])])
    counts = np.array([sum(map(len, plane.loops)) for plane in structure.planes])
    return Outlines(np.concatenate([points, following], axis=1), counts, *slab_bounds(structure, caps))
