"""The isodose: a line across the displayed slice of the dose, wherever it has the dose of the vertical line.

One image layer shows the distance of each voxel of the slice from the line, and a colormap draws what is near. The
distances are computed when napari asks for a slice, so that dragging costs one slice, not one volume.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from napari.utils.colormaps import Colormap
from qtpy.QtCore import QObject

from napari_gpubio.core.layers import KEY, carried
from napari_gpubio.dose.layer_places import place_of, stored_axes
from napari_gpubio.dose.widget.input_box import PANEL
from napari_gpubio.dose.widget.plot import LINK
from napari_gpubio.dose.widget.request import Counted

Array = npt.NDArray[Any]
NAME = WORD = "isodose"
FAR = np.float32(1e3)  # voxels: where there is no line
_HALF_WIDTH = 0.35  # of the line, voxels
_CLEAR = [0.0, 0.0, 0.0, 0.0]
_LINE = [int(LINK[n : n + 2], 16) / 255 for n in (1, 3, 5)] + [1.0]
_NEAR = Colormap([_CLEAR, _LINE, _CLEAR], controls=[0, 0.25, 0.75, 1], interpolation="zero", name="isodose")
_LIMITS = (-2 * _HALF_WIDTH, 2 * _HALF_WIDTH)  # of which the colormap draws the middle half


class Distances:
    """Distances from an isodose in slices of a dose: an array as far as napari needs one.

    Parameters
    ----------
    doses
        With the axes of the layer (z, y, x).
    level
        The dose of the line.
    """

    ndim = 3
    dtype = np.dtype(np.float32)

    def __init__(self, doses: Array, level: float) -> None:
        self.doses, self.level = doses, level
        self.shape: tuple[int, ...] = doses.shape

    def __getitem__(self, key: Any) -> Array:
        part = np.asarray(self.doses[key])
        flat = np.squeeze(part)  # napari asks for a slab of one slice
        if flat.ndim != 2:  # a volume in 3-D, where lit voxels show the surface
            return np.full(part.shape, FAR, np.float32)
        return distances(flat, self.level).reshape(part.shape)


def distances(part: npt.ArrayLike, level: float) -> Array:
    """Return how far each voxel of a slice is from the line of a dose, in voxels and to first order.

    Parameters
    ----------
    part
        Doses, shape (M, N).
    level
        The dose of the line.

    Returns
    -------
    array
        Shape (M, N), float32; positive where the dose is higher. Interpolated linearly between neighbours along an
        axis it vanishes close to where the dose has the level: exactly there where the slope changes little.
    """
    doses = np.asarray(part, np.float32)
    slope = np.hypot(_steepest(doses), _steepest(doses.T).T)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (doses - np.float32(level)) / slope
    return np.clip(np.nan_to_num(found, nan=FAR, posinf=FAR, neginf=-FAR), -FAR, FAR)


def _steepest(doses: Array) -> Array:
    """The larger step to the two neighbours along the first axis."""
    step = np.abs(np.diff(doses, axis=0))
    none = np.zeros_like(doses[:1])
    return np.maximum(np.concatenate([none, step]), np.concatenate([step, none]))


class Isodose(QObject):
    """Keeps the one layer of the line.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._counted: Counted | None = None

    @property
    def layer(self) -> Any | None:
        """The layer, or None."""
        return next((layer for layer in self._viewer.layers if carried(layer, PANEL) == WORD), None)

    def show(self, counted: Counted, level: float) -> None:
        """Draw the line of a dose (as it was counted) of the first plan."""
        layer = self.layer
        if layer is None or self._counted is not counted:
            self.clear()
            self._counted = counted
            self._add(counted, level)
        elif layer.data.level != level:
            layer.data.level = level
            layer.refresh(thumbnail=False, extent=False, highlight=False)

    def clear(self) -> None:
        """Take the line away."""
        self._counted = None
        if (layer := self.layer) is not None:
            self._viewer.layers.remove(layer.name)

    def attach(self) -> None:
        """Nothing to listen to."""

    def detach(self) -> None:
        """Take the line away."""
        self.clear()

    def _add(self, counted: Counted, level: float) -> None:
        grid = counted.request.plans[0].layer
        axes, selection = stored_axes(grid), self._viewer.layers.selection
        doses = counted.doses[0].values.transpose([axes.index(n) for n in range(3)])
        selected, active = list(selection), selection.active
        self._viewer.add_image(
            Distances(doses, level),
            name=NAME,
            colormap=_NEAR,
            contrast_limits=_LIMITS,
            blending="translucent_no_depth",
            interpolation2d="linear",
            metadata={KEY: {PANEL: WORD}},
            **place_of(grid),
        )
        self._viewer.layers.selection = selected
        if active is not None:
            self._viewer.layers.selection.active = active
