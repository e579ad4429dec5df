"""Points and lines that stay out of napari's sliders.

napari's sliders span all layers. An arrow that sticks out of the head would lengthen them, and their steps would no
longer fall on the slices of the volume; so these layers say that they span the volume.
"""

from typing import Any

import numpy as np
from napari.layers import Points, Vectors


class _SpansVolume:
    """A layer whose extent is given instead of found in its data."""

    volume_extent: Any = np.zeros((2, 3))  # first and last voxel center in the layer's data coordinates

    @property
    def _extent_data(self) -> Any:
        return np.array(self.volume_extent)

    @property
    def _extent_data_augmented(self) -> Any:
        return self._extent_data


class Marks(_SpansVolume, Points):
    """Markers of sources and detectors."""

    _type_string = "points"  # a copy, or what is saved, is an ordinary layer


class Beams(_SpansVolume, Vectors):
    """Arrows and outlines of sources and detectors."""

    _type_string = "vectors"
