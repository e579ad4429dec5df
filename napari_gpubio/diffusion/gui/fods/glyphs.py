"""Glyphs of FODs that follow the slice and the part of it that is on screen."""

from typing import Any

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.operations.layer_sources import PART
from napari_gpubio.core.space import slice_steps_mm, viewer_to_world
from napari_gpubio.diffusion.fods.glyphs import Mesh, SlicePlane, fod_glyphs, voxels_in_slice
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.fods.napari_io import fods_of, glyph_data, glyph_layer
from napari_gpubio.gui.connections import Connections, Follower, single_shot
from napari_gpubio.gui.jobs import LatestJob, Outcome, one_step
from napari_gpubio.gui.layers import set_mesh, set_visible
from napari_gpubio.gui.views import camera_of

_PAUSE_MS = 80  # without another move, before glyphs follow
_SAME_MM = 0.5
_AROUND = 0.1  # of the screen: glyphs beyond its edges, for small moves


class SliceGlyphs(QObject, Follower):
    """Draws the FODs of the slice on screen, as long as it is switched on.

    In 3-D the glyphs of the last slice stay, as whole ones. If the user deletes their layer, no move brings it back. A
    panel owns it (`EnginePanel.own`).
    """

    error_occurred = Signal(str)
    nothing_drawn = Signal()  # there is no FOD in the part of the slice on screen

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._fods: FodField | None = None
        self._size, self._same = 1.0, False
        self._is_shown = False  # since `show` was called last
        self._is_outside = False  # hidden here, since the slice has none
        self._drawn_corners: tuple[Any, Any] = (None, None)
        self._job = LatestJob(self, self._on_mesh)
        self._pause = single_shot(_PAUSE_MS, self._draw, self)
        self._moves = Connections(self._pairs)
        self.followers = (self._moves,)

    @property
    def is_busy(self) -> bool:
        """Whether glyphs are about to change."""
        return self._pause.isActive() or self._job.is_busy

    @property
    def layer(self) -> Any | None:
        """The layer of the glyphs, if it is in the viewer."""
        return next((layer for layer in self._viewer.layers if carried(layer, "glyphs_of") is not None), None)

    def show(self, fods: FodField | None, *, size: float = 1.0, same: bool = False) -> None:
        """Draw the glyphs of FODs from now on; None takes them away."""
        self._fods, self._size, self._same, self._is_shown = fods, size, same, False
        if fods is None:
            self._pause.stop()
            self._job.cancel()
            if (layer := self.layer) is not None:
                self._viewer.layers.remove(layer.name)
            return
        self._draw()

    def detach(self) -> None:
        """Stop following."""
        super().detach()
        self._pause.stop()
        self._job.abandon()

    def _pairs(self) -> list[Any]:
        dims, camera = self._viewer.dims.events, camera_of(self._viewer).events
        return [(event, self._on_move) for event in (dims.point, dims.order, dims.ndisplay, camera.zoom, camera.center)]

    def _on_move(self, *_: Any) -> None:
        if self._fods is not None and not self._is_deleted():
            self._pause.start()

    def _is_deleted(self) -> bool:
        return self._is_shown and self.layer is None

    def _draw(self) -> None:
        fods, size, same = self._fods, self._size, self._same
        if fods is None:
            return
        plane, (low, high) = self._plane(), self._corners()
        self._drawn_corners = low, high
        flat = self._viewer.dims.ndisplay == 2

        part = ("glyphs", plane.axis, plane.position_mm, size, same, flat)

        def draw() -> tuple[FodField, Mesh | None, tuple[Any, ...]]:
            voxels, step = voxels_in_slice(fods, plane, low, high)
            if not len(voxels):
                return fods, None, part
            return fods, fod_glyphs(fods, voxels, plane=plane if flat else None, size=size * step, same=same), part

        self._job.submit(one_step("drawing glyphs", draw))

    def _plane(self) -> SlicePlane:
        """The slice on screen; the last one, in 3-D."""
        dims = self._viewer.dims
        axis = 2 - (dims.order[-3] - (dims.ndim - 3))
        return SlicePlane(axis=axis, position_mm=float(viewer_to_world(np.asarray(dims.point))[axis]))

    def _corners(self) -> tuple[Any, Any]:
        """Corners of the part of the slice that is on screen, in world mm; None in 3-D, or where it is unknown."""
        fods = self._fods
        layer = next((layer for layer in self._viewer.layers if fods_of(layer) is fods), None)
        if fods is None or layer is None or self._viewer.dims.ndisplay == 3:
            return None, None
        pixels = np.asarray(layer.corner_pixels, np.float64)
        corners = np.array([layer.data_to_world(pixel) for pixel in pixels])[:, -3:]
        low, high = corners.min(axis=0), corners.max(axis=0)
        around = _AROUND * (high - low) + slice_steps_mm(fods.affine)
        first, last = viewer_to_world(low - around), viewer_to_world(high + around)
        return first, last

    def _has_moved(self) -> bool:
        """Whether another part of the slice is on screen than the one that was drawn."""
        now, drawn = self._corners(), self._drawn_corners
        if now[0] is None or drawn[0] is None:
            return (now[0] is None) != (drawn[0] is None)
        return not np.allclose(now, drawn, atol=_SAME_MM)

    def _on_mesh(self, outcome: Outcome) -> None:
        if outcome.result is None:
            self.error_occurred.emit(outcome.error)
            return
        fods: FodField
        mesh: Mesh | None
        fods, mesh, part = outcome.result
        if fods is not self._fods or self._is_deleted():
            return
        if self._has_moved():  # napari tells the new corners with its next frame only
            self._pause.start()
        layer = self.layer
        if mesh is None:
            if layer is not None and layer.visible:
                self._is_outside = True
                set_visible(layer, False)
            self.nothing_drawn.emit()
            return
        self._is_shown = True
        try:
            self._put(layer, fods, mesh, part)
        except GpuBioError as error:
            self.error_occurred.emit(str(error))

    def _put(self, layer: Any | None, fods: FodField, mesh: Mesh, part: tuple[Any, ...]) -> None:
        """Show a mesh in the layer, or in a new one; another layer stays active."""
        if layer is not None and carried(layer, "glyphs_of") is fods:
            set_mesh(layer, *glyph_data(fods, mesh))
            layer.metadata[KEY][PART] = part
            set_visible(layer, layer.visible or self._is_outside)  # one that the user has hidden stays so
            self._is_outside = False
            return
        if layer is not None:
            self._viewer.layers.remove(layer.name)
        data, keywords, _ = glyph_layer(fods, mesh, part)
        active = self._viewer.layers.selection.active
        self._viewer.add_surface(data, **keywords)
        if active is not None and active in self._viewer.layers:
            self._viewer.layers.selection.active = active
