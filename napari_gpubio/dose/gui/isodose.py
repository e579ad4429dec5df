"""The isodose: a line across the displayed slice of a dose, and in 3-D a surface, where it has the dose of the line.

In 2-D an image layer shows the distance of each voxel of the slice from the line, and a colormap draws what is near.
The distances are computed when napari asks for a slice, so that dragging costs one slice, not one volume. In 3-D the
layer shows the dose itself as napari's isosurface, of which dragging sets the threshold.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from napari.utils.colormaps import Colormap
from qtpy.QtCore import QObject

from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.dose.gui.input_box import PANEL
from napari_gpubio.dose.gui.plot import LINK
from napari_gpubio.dose.gui.request import Counted
from napari_gpubio.dose.napari_io import place_of, stored_axes

Array = npt.NDArray[Any]
NAME = WORD = "isodose"
FAR = np.float32(1e3)  # voxels: where there is no line
_HALF_WIDTH = 0.35  # of the line, voxels
_CLEAR = [0.0, 0.0, 0.0, 0.0]
_LINE = [int(LINK[n : n + 2], 16) / 255 for n in (1, 3, 5)] + [1.0]
_NEAR = Colormap([_CLEAR, _LINE, _CLEAR], controls=[0, 0.25, 0.75, 1], interpolation="zero", name="isodose")
_SURFACE = Colormap([_LINE, _LINE], name="isodose surface")
_OPACITY = 0.45  # of the surface, so that lit voxels shine through
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
        if flat.ndim != 2:  # a volume: napari turns to 3-D before the layer is another one
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
        Shape (M, N), float32; positive where the dose is higher. Interpolated linearly between neighbors along an
        axis it vanishes close to where the dose has the level: exactly there where the slope changes little.
    """
    doses = np.asarray(part, np.float32)
    slope = np.hypot(_steepest(doses), _steepest(doses.T).T)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (doses - np.float32(level)) / slope
    return np.clip(np.nan_to_num(found, nan=FAR, posinf=FAR, neginf=-FAR), -FAR, FAR)


def _steepest(doses: Array) -> Array:
    """The larger step to the two neighbors along the first axis."""
    step = np.abs(np.diff(doses, axis=0))
    none = np.zeros_like(doses[:1])
    return np.maximum(np.concatenate([none, step]), np.concatenate([step, none]))


class Isodose(QObject):
    """Keeps the one layer of the line or the surface.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._shown: tuple[Counted, int, bool] | None = None  # the run, the plan, and whether it is a surface
        self._level = 0.0

    @property
    def layer(self) -> Any | None:
        """The layer, or None."""
        return next((layer for layer in self._viewer.layers if carried(layer, PANEL) == WORD), None)

    def show(self, counted: Counted, level: float, plan: int = 0) -> None:
        """Draw the isodose of a dose (as it was counted) of a plan."""
        wanted = counted, plan, self._viewer.dims.ndisplay == 3
        layer = self.layer
        self._level = level
        if layer is None or self._shown != wanted:
            self.clear()
            self._shown = wanted
            self._add(*wanted)
        elif wanted[2]:
            layer.iso_threshold = level
        elif layer.data.level != level:
            layer.data.level = level
            layer.refresh(thumbnail=False, extent=False, highlight=False)

    def clear(self) -> None:
        """Take it away."""
        self._shown = None
        if (layer := self.layer) is not None:
            self._viewer.layers.remove(layer.name)

    def attach(self) -> None:
        """Follow the viewer into 3-D and back."""
        self._viewer.dims.events.ndisplay.connect(self._on_ndisplay)

    def detach(self) -> None:
        """Hear no more of the viewer, and take it away."""
        self._viewer.dims.events.ndisplay.disconnect(self._on_ndisplay)
        self.clear()

    def _on_ndisplay(self, *_: Any) -> None:
        if self._shown is not None:
            counted, plan, _ = self._shown
            self.show(counted, self._level, plan)

    def _add(self, counted: Counted, plan: int, is_surface: bool) -> None:
        grid = counted.request.plans[plan].layer
        axes, selection = stored_axes(grid), self._viewer.layers.selection
        doses = counted.doses[plan].values.transpose([axes.index(n) for n in range(3)])
        selected, active = list(selection), selection.active
        self._viewer.add_image(
            name=NAME,
            blending="translucent_no_depth",
            metadata={KEY: {PANEL: WORD}},
            **(self._surface(doses) if is_surface else self._line(doses)),
            **place_of(grid),
        )
        self._viewer.layers.selection = selected
        if active is not None:
            self._viewer.layers.selection.active = active

    def _line(self, doses: Array) -> dict[str, Any]:
        data = Distances(doses, self._level)
        return {"data": data, "colormap": _NEAR, "contrast_limits": _LIMITS, "interpolation2d": "linear"}

    def _surface(self, doses: Array) -> dict[str, Any]:
        low, high = float(doses.min()), float(doses.max())
        return {
            "data": np.asarray(doses, np.float32),
            "colormap": _SURFACE,
            "contrast_limits": (low, high if high > low else low + 1.0),
            "rendering": "iso",
            "iso_threshold": self._level,
            "opacity": _OPACITY,
        }
