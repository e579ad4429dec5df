"""Ellipsoids of tensors: those of a slice follow the slice on screen."""

from typing import Any

import numpy as np
from napari.layers import Surface
from qtpy.QtCore import QObject

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.operations.layer_sources import PART
from napari_gpubio.core.space import apply_affine, viewer_to_world
from napari_gpubio.diffusion.model import TensorField
from napari_gpubio.diffusion.napari_io import ellipsoids_of, field_of
from napari_gpubio.gui.connections import Connections, Follower, single_shot
from napari_gpubio.gui.jobs import LatestJob, Outcome, one_step
from napari_gpubio.gui.layers import set_mesh, set_visible

SLICE, NEAR = "slice", "near"  # which ellipsoids there are
_PAUSE_MS = 80  # without another move, before ellipsoids follow


class Ellipsoids(QObject, Follower):
    """Draws tensors as ellipsoids, in 2-D those in front over those behind.

    In 3-D those of the last slice stay. A panel owns it (`EnginePanel.own`).
    """

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._is_outside = False  # the slice on screen has no tensors, so the layer is hidden
        self._job = LatestJob(self)
        self._job.finished.connect(self._on_made)
        self._pause = single_shot(_PAUSE_MS, self._follow, self)
        dims = viewer.dims.events
        self._moves = Connections(lambda: [(event, self._on_move) for event in (dims.point, dims.order, dims.ndisplay)])
        self.followers = (self._moves,)

    @property
    def layer(self) -> Any | None:
        """The layer of the ellipsoids, if it is in the viewer."""
        return next((x for x in self._viewer.layers if isinstance(x, Surface) and field_of(x) is not None), None)

    @property
    def is_busy(self) -> bool:
        """Whether ellipsoids are about to follow."""
        return self._pause.isActive() or self._job.is_busy

    def show(self, field: TensorField, kind: str) -> None:
        """Draw the tensors of the slice on screen, or near the middle of the view; InvalidInput if there are none."""
        center = self._center(field)
        part = (SLICE, *self._slice(field)) if kind == SLICE else (NEAR, *center.tolist())
        data, keywords, _ = ellipsoids_of(field, part, across=self._across)
        while (layer := self.layer) is not None:
            self._viewer.layers.remove(layer.name)
        self._viewer.add_surface(data, **keywords)
        self._is_outside = False

    def detach(self) -> None:
        """Stop following."""
        super().detach()
        self._pause.stop()
        self._job.abandon()

    @property
    def _across(self) -> int:
        """The world axis across the slice on screen (of the last one, in 3-D)."""
        dims = self._viewer.dims
        return 2 - (dims.order[-3] - (dims.ndim - 3))

    def _center(self, field: TensorField) -> Any:
        """The middle of the view, in voxels."""
        return apply_affine(np.linalg.inv(field.affine), viewer_to_world(np.asarray(self._viewer.dims.point)))

    def _slice(self, field: TensorField) -> tuple[int, int]:
        """Voxel axis and index of the slice on screen."""
        axis = int(np.argmax(np.abs(field.affine[self._across, :3] / field.voxel_sizes_mm)))
        return axis, int(np.clip(round(float(self._center(field)[axis])), 0, field.shape[axis] - 1))

    def _on_move(self, *_: Any) -> None:
        if self.layer is not None and self._viewer.dims.ndisplay == 2:
            self._pause.start()

    def _follow(self) -> None:
        """Draw those of the slice on screen, or the same ones by their depth, unless the user has hidden them."""
        layer, across = self.layer, self._across
        field, part = field_of(layer), carried(layer, PART)
        if layer is None or field is None or part is None or not (layer.visible or self._is_outside):
            return
        new = (SLICE, *self._slice(field)) if part[0] == SLICE else part

        def make() -> Any:
            try:
                mesh, keywords, _ = ellipsoids_of(field, new, across=across)
            except InvalidInput:  # no tensor is there
                return layer, new, None, None
            return layer, new, mesh, keywords["vertex_colors"]

        self._job.submit(one_step("drawing ellipsoids", make))

    def _on_made(self, outcome: Outcome) -> None:
        if outcome.result is None or outcome.result[0] is not self.layer:
            return
        layer, part, mesh, colors = outcome.result
        self._is_outside = mesh is None
        if mesh is not None:
            set_mesh(layer, mesh, colors)
            layer.metadata[KEY][PART] = part
        set_visible(layer, mesh is not None)
