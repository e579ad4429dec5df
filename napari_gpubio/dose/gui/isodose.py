"""The isodose in the image: a line in 2-D, a surface in 3-D.

The line is an image layer with the distance of each voxel of the slice from the line; a colormap draws what
is near. Distances are computed when napari requests a slice, so that dragging costs one slice, not one volume. In 3-D
the layer holds the dose itself as napari's isosurface, and dragging sets the threshold.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from napari.utils.colormaps import Colormap
from qtpy.QtCore import QObject

from napari_gpubio.core.napari_io import beside
from napari_gpubio.dose.gui.histograms import LiveHistograms
from napari_gpubio.dose.gui.overlays import BAND, CLEAR, COLOR, Overlay
from napari_gpubio.gui.connections import Connections

Array = npt.NDArray[Any]
ISODOSE = "isodose"
_NEAR = Colormap([CLEAR, COLOR, CLEAR], controls=BAND, interpolation="zero", name="isodose")
_SURFACE = Colormap([COLOR, COLOR], name="isodose surface")
_FAR = np.float32(1e3)  # voxels: where there is no line
_HALF_WIDTH = 0.35  # of the line, voxels
_LINE_LIMITS = (-2 * _HALF_WIDTH, 2 * _HALF_WIDTH)  # of which the colormap draws the middle half
_SURFACE_OPACITY = 0.45  # highlighted voxels shine through


class Isodose(Overlay):
    """Draws the isodose of a plan: a line in 2-D, a surface in 3-D."""

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(viewer, ISODOSE, parent)
        self._drawn: tuple[LiveHistograms, int, bool] | None = None  # the run, the plan, whether it is a surface
        self._level = 0.0
        self.followers = (Connections(lambda: [(viewer.dims.events.ndisplay, self._on_ndisplay)]),)

    def draw(self, live: LiveHistograms, level: float, plan: int = 0) -> None:
        """Draw the isodose of a dose (before scaling) of a plan."""
        is_surface = self._viewer.dims.ndisplay == 3
        layer = self.layer
        self._level = level
        if layer is None or self._drawn != (live, plan, is_surface):
            self.clear()
            self._drawn = live, plan, is_surface
            doses, place = beside(live.request.plans[plan].layer, live.doses[plan].values, linear=True)
            self._add_layer(**(self._surface(doses) if is_surface else self._line(doses)), **place)
        elif is_surface:
            layer.iso_threshold = level
        elif layer.data.level != level:
            layer.data.level = level
            layer.refresh(thumbnail=False, extent=False, highlight=False)

    def clear(self) -> None:
        """Remove the layer."""
        self._drawn = None
        self._remove_layer()

    def detach(self) -> None:
        """Stop following the viewer, and remove the layer."""
        super().detach()
        self.clear()

    def _on_ndisplay(self, *_: Any) -> None:
        if self._drawn is not None:
            live, plan, _is_surface = self._drawn
            self.draw(live, self._level, plan)

    def _line(self, doses: Any) -> dict[str, Any]:
        data = Distances(doses, self._level)
        return {"data": data, "colormap": _NEAR, "contrast_limits": _LINE_LIMITS, "interpolation2d": "linear"}

    def _surface(self, doses: Any) -> dict[str, Any]:
        data = np.asarray(doses, np.float32)
        low, high = float(np.nanmin(data)), float(np.nanmax(data))
        return {
            "data": np.nan_to_num(data, nan=low),
            "colormap": _SURFACE,
            "contrast_limits": (low, high if high > low else low + 1.0),
            "rendering": "iso",
            "iso_threshold": self._level,
            "opacity": _SURFACE_OPACITY,
        }


class Distances:
    """Distances from an isodose in slices of a dose (z, y, x): an array as far as napari needs one."""

    ndim = 3
    dtype = np.dtype(np.float32)

    def __init__(self, doses: Any, level: float) -> None:
        self.doses, self.level = doses, level

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the doses."""
        return tuple(self.doses.shape)

    def __getitem__(self, key: Any) -> Array:
        part = np.asarray(self.doses[key])
        flat = np.squeeze(part)  # napari requests a slab of one slice
        if flat.ndim != 2:  # a volume: napari turns to 3-D before the layer is replaced
            return np.full(part.shape, _FAR, np.float32)
        return isodose_distances(flat, self.level).reshape(part.shape)


def isodose_distances(part: npt.ArrayLike, level: float) -> Array:
    """Return the distance of each voxel of a slice (M, N) from an isodose, in voxels and to first order; float32.

    It is positive where the dose is higher, and at most 1000. Interpolated linearly between neighbors along an axis it
    vanishes close to where the dose has the level: exactly there where the slope changes little.
    """
    doses = np.asarray(part, np.float32)
    slope = np.hypot(_steepest_step(doses), _steepest_step(doses.T).T)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (doses - np.float32(level)) / slope
    far = float(_FAR)
    return np.asarray(np.clip(np.nan_to_num(found, nan=far, posinf=far, neginf=-far), -far, far), np.float32)


def _steepest_step(doses: Array) -> Array:
    """The larger step to the two neighbors along the first axis."""
    step = np.abs(np.diff(doses, axis=0))
    none = np.zeros_like(doses[:1])
    return np.maximum(np.concatenate([none, step]), np.concatenate([step, none]))
