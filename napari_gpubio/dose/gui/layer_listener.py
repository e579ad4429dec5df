"""Follows the layers of a run, so that curves change with them: strokes, undo, fill, new labels, other volumes."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Labels
from qtpy.QtCore import QObject, QTimer, Signal

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import volume_of
from napari_gpubio.dose.gui.request import LiveHistograms, frame_at
from napari_gpubio.dose.napari_io import stored_axes
from napari_gpubio.gui.connections import Connection, Connections

Box = tuple[slice, slice, slice]
_GEOMETRY = ("scale", "translate", "rotate", "shear", "affine", "units")
_RUN_DELAY_MS = 150  # after the last change that needs a new run


class LayerListener(QObject):
    """Passes painted labels on to the live histograms of a run.

    ``labels_painted`` is emitted with a Labels layer and the box (z, y, x) in which it has changed, ``colors_changed``
    when labels have other colors, ``run_outdated`` when a new run is needed: there is a new label, a layer was moved,
    shapes were drawn, or a series is at another volume.
    """

    labels_painted = Signal(object, object)
    colors_changed = Signal()
    run_outdated = Signal()

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._live: LiveHistograms | None = None
        self._slider = Connections(lambda: [(viewer.dims.events.current_step, self._on_slider)])
        self._layers = Connections(self._layer_connections)
        self._point: tuple[float, ...] = ()
        self._to_compare: list[Any] = []  # layers that may have changed anywhere
        self._compare_timer = _timer(0, self._compare_layers, self)
        self._run_timer = _timer(_RUN_DELAY_MS, self.run_outdated.emit, self)

    @property
    def is_busy(self) -> bool:
        """Whether a change is still to be acted upon."""
        return self._compare_timer.isActive() or self._run_timer.isActive()

    def follow_layers(self, live: LiveHistograms | None) -> None:
        """Follow the layers of another run, or of none; what was painted while it ran is applied now."""
        self._let_go()
        self._live = live
        if live is None:
            return
        self._layers.attach()
        self._point = tuple(self._viewer.dims.point)
        self._to_compare = [layer for layer in live.request.layers if isinstance(layer, Labels)]
        self._compare_timer.start()

    def attach(self) -> None:
        """Follow the viewer's slider."""
        self._slider.attach()

    def detach(self) -> None:
        """Stop following the viewer and its layers."""
        self._slider.detach()
        self._let_go()
        self._live = None

    def _layer_connections(self) -> Iterator[Connection]:
        """What the layers of the run emit."""
        for layer in () if self._live is None else self._live.request.input_layers:
            for name in _GEOMETRY:
                yield getattr(layer.events, name), self._run_later
            if isinstance(layer, Labels):
                yield layer.events.labels_update, partial(self._on_stroke, layer)
                yield layer.events.set_data, partial(self._on_redrawn, layer)
                yield layer.events.data, partial(self._on_replaced, layer)
                yield layer.events.colormap, self._on_colors
            else:
                yield layer.events.data, self._run_later

    def _let_go(self) -> None:
        self._compare_timer.stop()
        self._run_timer.stop()
        self._layers.detach()
        self._to_compare = []

    # -- events ---------------------------------------------------------------------------------------------------

    def _on_stroke(self, layer: Any, event: Any) -> None:
        """A stroke: the event has the box on the canvas; axes that are not displayed are compared as a whole."""
        if layer.ndim != 3:
            self._on_redrawn(layer)
            return
        box = [slice(0, length) for length in layer.data.shape]
        displayed = [axis - (self._viewer.dims.ndim - layer.ndim) for axis in self._viewer.dims.displayed]
        for axis, first, length in zip(displayed, event.offset, event.data.shape, strict=False):
            box[axis] = slice(max(int(first), 0), min(int(first) + length, box[axis].stop))
        self._apply_labels(layer, (box[0], box[1], box[2]))

    def _on_redrawn(self, layer: Any, *_: Any) -> None:
        """Undo, redo and fill come without a box; napari emits the same event for another slice."""
        point = tuple(self._viewer.dims.point)
        if layer.ndim == 3 and point != self._point:
            self._point = point
            return
        if layer not in self._to_compare:
            self._to_compare.append(layer)
        self._compare_timer.start()

    def _on_replaced(self, layer: Any, *_: Any) -> None:
        """Another array: one of the same shape is compared, another one needs a new run."""
        if self._live is not None and _volume_shape(layer) != _known_shape(layer, self._live):
            self._run_later()
        else:
            self._on_redrawn(layer)

    def _on_slider(self, *_: Any) -> None:
        """A series goes on to another volume."""
        if self._live is None:
            return
        for plan in self._live.request.plans:
            if plan.frame is not None and frame_at(plan.layer, self._viewer.dims.point) != plan.frame:
                self.run_outdated.emit()
                return

    def _on_colors(self, *_: Any) -> None:
        self.colors_changed.emit()

    def _run_later(self, *_: Any) -> None:
        self._run_timer.start()

    def _compare_layers(self) -> None:
        layers, self._to_compare = self._to_compare, []
        for layer in layers:
            nz, ny, nx = layer.data.shape[-3:]
            self._apply_labels(layer, (slice(0, nz), slice(0, ny), slice(0, nx)))

    # -- painting -------------------------------------------------------------------------------------------------

    def _apply_labels(self, layer: Any, box: Box) -> None:
        """Pass the labels in a box of a layer (z, y, x) on to the live histograms."""
        live = self._live
        if live is None or not live.complete:
            return
        axes, volume = stored_axes(layer), live.volume_number(layer)
        stored = volume_of(layer)
        if stored.shape != _known_shape(layer, live):
            self._run_later()
            return
        own = tuple(box[axis] for axis in axes)
        try:
            changed, *_ = (
                dvh.follow(stored[own], start=[part.start for part in own], volume=volume) for dvh in live.live_dvhs
            )
        except InvalidInput:  # a label that is too large for what was counted
            self._run_later()
            return
        if changed is None:
            return
        if _has_new_label(stored[changed], volume, live):
            self._run_later()
        part = [slice(0, 0)] * 3
        for stored_axis, axis in enumerate(axes):
            part[axis] = changed[stored_axis]
        self.labels_painted.emit(layer, (part[0], part[1], part[2]))


def _known_shape(layer: Any, live: LiveHistograms) -> tuple[int, ...]:
    """Shape of a layer's volume as it was counted."""
    return tuple(live.live_dvhs[0].labels(live.volume_number(layer)).shape)


def _has_new_label(labels: npt.ArrayLike, volume: int, live: LiveHistograms) -> bool:
    """Whether there is a label that has no curve yet."""
    known = {structure.label for structure in live.structures if structure.volume == volume}
    return bool(set(np.unique(np.asarray(labels)).tolist()) - known - {0})


def _volume_shape(layer: Any) -> tuple[int, ...]:
    """Shape of a layer's volume as its file has it."""
    shape = layer.data.shape[-3:]
    return tuple(shape[axis] for axis in stored_axes(layer))


def _timer(milliseconds: int, act: Callable[[], Any], parent: QObject) -> QTimer:
    timer = QTimer(parent)
    timer.setSingleShot(True)
    timer.setInterval(milliseconds)
    timer.timeout.connect(act)
    return timer
