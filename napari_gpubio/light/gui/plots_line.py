"""The line that a user draws in the viewer, along which fluence is plotted."""

from collections.abc import Generator
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Shapes
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.space import slice_steps_mm, viewer_to_world, world_to_viewer
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.jobs import Job
from napari_gpubio.light.model import Domain

NAME = "profile line"
COLOR = "#4cc9f0"
WIDTH = 0.008  # share of the longest side of the volume
Ends = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class ProfileLine(QObject):
    """Follows a layer of shapes; the last line in it is the one that counts.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    changed = Signal()

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._followed: Any | None = None
        self._known: Any = None
        self._warming: Job | None = None

    @property
    def layer(self) -> Any | None:
        """The layer of the line, or None."""
        return next((x for x in self._viewer.layers if carried(x, "profile_line")), None)

    def ends_mm(self, domain: Domain) -> Ends | None:
        """Both ends of the line, world mm, or None if there is no line."""
        ends = self._ends()
        if ends is None:
            return None
        start, end = viewer_to_world(ends, domain.affine, domain.shape)
        return start, end

    def draw(self, domain: Domain) -> None:
        """Let the user draw: make the layer if there is none, and choose its line tool."""
        layer = self.layer
        if layer is None:
            step = slice_steps_mm(domain.affine, domain.shape)
            # the first voxel's center, so that every slice of the volume is at an integer here too
            origin = world_to_viewer(domain.affine[:3, 3], domain.affine, domain.shape)
            layer = self._viewer.add_shapes(
                ndim=3,
                name=NAME,
                scale=step,
                translate=origin,
                edge_color=COLOR,
                edge_width=WIDTH * max(domain.shape),
                blending="translucent_no_depth",
                metadata={KEY: {"profile_line": True}},
            )
        self._viewer.layers.selection.active = layer
        layer.mode = "add_line"

    def attach(self) -> None:
        """Follow the viewer's layers."""
        for event in self._events():
            event.connect(self._on_layers)
        self._on_layers()
        self._warming = Job(_warm_up, self)
        self._warming.start()

    def detach(self) -> None:
        """Hear no more of the viewer."""
        for event in self._events():
            event.disconnect(self._on_layers)
        self._follow(None)
        if self._warming is not None:
            self._warming.abandon()
            self._warming = None

    def _events(self) -> list[Any]:
        return [self._viewer.layers.events.inserted, self._viewer.layers.events.removed]

    def _on_layers(self, *_: Any) -> None:
        self._follow(self.layer)

    def _follow(self, layer: Any | None) -> None:
        if layer is self._followed:
            return
        if self._followed is not None:
            self._followed.events.set_data.disconnect(self._on_data)
        self._followed = layer
        if layer is not None:
            layer.events.set_data.connect(self._on_data)
        self._on_data()

    def _on_data(self, *_: Any) -> None:
        """Say that the line has changed; napari tells of another slice in the same way."""
        ends = self._ends()
        now = None if ends is None else ends.tobytes()
        if now != self._known:
            self._known = now
            self.changed.emit()

    def _ends(self) -> npt.NDArray[np.float64] | None:
        """Both ends in the viewer's world (z, y, x), shape (2, 3)."""
        layer = self._followed
        if layer is None or not len(layer.data):
            return None
        line = np.asarray(layer.data[-1], np.float64)
        return np.array([layer.data_to_world(point) for point in (line[0], line[-1])])[:, -3:]


def _warm_up(_stop: Event) -> Generator[Step, None, None]:
    """Have napari load what shapes need, seconds on a new machine, before the user draws and would have to wait."""
    yield Step(0, 1, "loading shapes")
    Shapes(ndim=3)
