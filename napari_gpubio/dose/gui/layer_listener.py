"""Hears what changes in the layers that were counted, so that curves follow: strokes, undo, fill, new labels."""

from collections.abc import Callable
from typing import Any

import numpy as np
from napari.layers import Labels
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import volume_of
from napari_gpubio.dose.gui.request import Counted, frame_at
from napari_gpubio.dose.napari_io import stored_axes

Box = tuple[slice, slice, slice]
_PLACE = ("scale", "translate", "rotate", "shear", "affine", "units")
_DEBOUNCE_MS = 150  # milliseconds after which a change that needs a new run is acted upon


class LayerListener(QObject):
    """Paints into open calculations what the user paints.

    ``painted`` carries a Labels layer and the box (z, y, x) in which it is other now; ``recolored`` says that colors
    are, ``stale`` that everything has to be counted anew: there is a new label, a layer lies elsewhere, shapes were
    drawn, or a series is at another volume.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    painted = Signal(object, object)
    recolored = Signal()
    stale = Signal()

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._counted: Counted | None = None
        self._links: list[tuple[Any, Callable[..., None]]] = []
        self._point: tuple[float, ...] = ()
        self._frames: list[int | None] = []
        self._to_check: list[Any] = []
        self._check = _timer(0, self._check_all, self)
        self._later = _timer(_DEBOUNCE_MS, self.stale.emit, self)

    def follow(self, counted: Counted | None) -> None:
        """Follow the layers of another run; what was painted while it ran is taken over."""
        self._let_go()
        self._counted = counted
        if counted is None:
            return
        for layer in counted.request.layers:
            if isinstance(layer, Labels):
                self._link(layer.events.labels_update, lambda event, layer=layer: self._on_update(layer, event))
                self._link(layer.events.set_data, lambda _=None, layer=layer: self._on_redrawn(layer))
                self._link(layer.events.data, lambda _=None, layer=layer: self._on_replaced(layer))
                self._link(layer.events.colormap, lambda *_: self.recolored.emit())
            else:
                self._link(layer.events.data, lambda *_: self._later.start())
        for plan in counted.request.plans:
            self._link(plan.layer.events.data, lambda *_: self._later.start())
        for layer in (*counted.request.layers, *(plan.layer for plan in counted.request.plans)):
            for name in _PLACE:
                self._link(getattr(layer.events, name), lambda *_: self._later.start())
        self._point = tuple(self._viewer.dims.point)
        self._to_check = [layer for layer in counted.request.layers if isinstance(layer, Labels)]
        self._check.start()

    def attach(self) -> None:
        """Follow the viewer's slider."""
        self._viewer.dims.events.current_step.connect(self._on_slider)

    def detach(self) -> None:
        """Hear no more of the viewer and its layers."""
        self._viewer.dims.events.current_step.disconnect(self._on_slider)
        self._let_go()
        self._counted = None

    def _link(self, event: Any, hear: Callable[..., None]) -> None:
        event.connect(hear)
        self._links.append((event, hear))

    def _let_go(self) -> None:
        self._check.stop()
        self._later.stop()
        for event, hear in self._links:
            event.disconnect(hear)
        self._links, self._to_check = [], []

    # -- events ---------------------------------------------------------------------------------------------------

    def _on_update(self, layer: Any, event: Any) -> None:
        """A stroke: napari tells the box on the canvas, the axes that are not displayed are looked at as a whole."""
        if layer.ndim != 3:
            self._on_redrawn(layer)
            return
        box = [slice(0, length) for length in layer.data.shape]
        shown = [axis - (self._viewer.dims.ndim - layer.ndim) for axis in self._viewer.dims.displayed]
        for axis, first, length in zip(shown, event.offset, event.data.shape, strict=False):
            box[axis] = slice(max(int(first), 0), min(int(first) + length, box[axis].stop))
        self._take_over(layer, (box[0], box[1], box[2]))

    def _on_redrawn(self, layer: Any) -> None:
        """Undo, redo and fill tell no box; napari speaks in the same way of another slice."""
        point = tuple(self._viewer.dims.point)
        if layer.ndim == 3 and point != self._point:
            self._point = point
            return
        if layer not in self._to_check:
            self._to_check.append(layer)
        self._check.start()

    def _on_replaced(self, layer: Any) -> None:
        """Another array: the same volume is looked through, another is counted anew."""
        if self._counted is not None and volume_shape(layer) != self._known_shape(layer):
            self._later.start()
        else:
            self._on_redrawn(layer)

    def _on_slider(self, *_: Any) -> None:
        """A series goes on to another volume."""
        if self._counted is None:
            return
        for plan in self._counted.request.plans:
            if plan.frame is not None and frame_at(plan.layer, self._viewer.dims.point) != plan.frame:
                self.stale.emit()
                return

    def _check_all(self) -> None:
        layers, self._to_check = self._to_check, []
        for layer in layers:
            nz, ny, nx = layer.data.shape[-3:]
            self._take_over(layer, (slice(0, nz), slice(0, ny), slice(0, nx)))

    # -- painting -------------------------------------------------------------------------------------------------

    def _known_shape(self, layer: Any) -> tuple[int, ...]:
        assert self._counted is not None
        return tuple(self._counted.lives[0].labels(self._volume_of(layer)).shape)

    def _volume_of(self, layer: Any) -> int:
        assert self._counted is not None
        return next(volume for volume, other in self._counted.label_layers().items() if other == layer)

    def _take_over(self, layer: Any, box: Box) -> None:
        """Paint what differs in a box of a layer (z, y, x)."""
        counted = self._counted
        if counted is None or not counted.complete:
            return
        axes, volume = stored_axes(layer), self._volume_of(layer)
        stored = volume_of(layer)
        if stored.shape != self._known_shape(layer):
            self._later.start()
            return
        own = tuple(box[axis] for axis in axes)
        try:
            found = [
                live.follow(stored[own], start=[part.start for part in own], volume=volume) for live in counted.lives
            ]
        except InvalidInput:  # a label that is too large for what was counted
            self._later.start()
            return
        if found[0] is None:
            return
        if self._is_new(np.asarray(stored[found[0]]), volume):
            self._later.start()
        part = [slice(0, 0)] * 3
        for stored_axis, axis in enumerate(axes):
            part[axis] = found[0][stored_axis]
        self.painted.emit(layer, (part[0], part[1], part[2]))

    def _is_new(self, labels: Any, volume: int) -> bool:
        """Whether there is a label that is not counted yet."""
        assert self._counted is not None
        known = {one.label for one in self._counted.structures if one.volume == volume}
        return bool(set(np.unique(labels).tolist()) - known - {0})


def volume_shape(layer: Any) -> tuple[int, ...]:
    """Shape of a layer's volume as its file has it."""
    shape = layer.data.shape[-3:]
    return tuple(shape[axis] for axis in stored_axes(layer))


def _timer(milliseconds: int, act: Callable[[], Any], parent: QObject) -> QTimer:
    timer = QTimer(parent)
    timer.setSingleShot(True)
    timer.setInterval(milliseconds)
    timer.timeout.connect(act)
    return timer
