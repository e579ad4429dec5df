"""Follows the layers of a run, so that curves change with them: strokes, undo, fill, new labels, other volumes."""

from typing import Any

import numpy as np
from napari.layers import Labels
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import stored_box, volume_of
from napari_gpubio.dose.gui.histograms import LiveHistograms, frame_at
from napari_gpubio.gui.connections import Connections, Follower, single_shot
from napari_gpubio.gui.layers import Box, LayerListener

_RUN_DELAY_MS = 150  # after the last change that needs a new run


class RunListener(QObject, Follower):
    """Passes painted labels on to the live histograms of a run.

    ``labels_painted`` is emitted with a Labels layer and the box of its volume (X, Y, Z) in which it has changed,
    ``colors_changed`` when labels have other colors, ``run_outdated`` when a new run is needed: there is a new label, a
    layer was moved, shapes were drawn, or a series is at another volume.
    """

    labels_painted = Signal(object, object)
    colors_changed = Signal()
    run_outdated = Signal()

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._live: LiveHistograms | None = None
        self._layers = LayerListener(
            viewer,
            lambda layer: self._live is not None and layer in self._live.request.input_layers,
            data_changed=self._on_data,
            place_changed=lambda _: self._run_timer.start(),
            colors_changed=lambda layer: isinstance(layer, Labels) and self.colors_changed.emit(),
        )
        self._slider = Connections(lambda: [(viewer.dims.events.current_step, self._on_slider)])
        self.followers = (self._slider, self._layers)
        self._to_compare: list[Any] = []  # layers that may have changed anywhere
        self._compare_timer = single_shot(0, self._compare_layers, self)
        self._run_timer = single_shot(_RUN_DELAY_MS, self.run_outdated.emit, self)

    @property
    def is_busy(self) -> bool:
        """Whether a change is still to be acted upon."""
        return self._compare_timer.isActive() or self._run_timer.isActive()

    def follow_layers(self, live: LiveHistograms | None) -> None:
        """Follow the layers of another run, or of none; what was painted while it ran is applied now."""
        self._forget()
        self._live = live
        self._layers.refresh()
        self._to_compare = [layer for layer in self._layers.layers if isinstance(layer, Labels)]
        self._compare_timer.start()

    def detach(self) -> None:
        """Stop following the viewer and its layers."""
        self._forget()
        self._live = None
        super().detach()

    def _forget(self) -> None:
        self._compare_timer.stop()
        self._run_timer.stop()
        self._to_compare = []

    # -- events ---------------------------------------------------------------------------------------------------

    def _on_data(self, layer: Any, box: Box | None) -> None:
        """A stroke is passed on at once; where it is not known what has changed, all of the labels are compared."""
        if not isinstance(layer, Labels):
            self._run_timer.start()
        elif box is not None and layer.ndim == 3:
            self._apply_labels(layer, box)
        else:
            if layer not in self._to_compare:
                self._to_compare.append(layer)
            self._compare_timer.start()

    def _on_slider(self, *_: Any) -> None:
        """A series goes on to another volume."""
        plans = () if self._live is None else self._live.request.plans
        point = self._viewer.dims.point
        there = [plan for plan in plans if plan.frame is not None and plan.layer in self._viewer.layers]
        if any(frame_at(plan.layer, point) != plan.frame for plan in there):
            self.run_outdated.emit()

    def _compare_layers(self) -> None:
        layers, self._to_compare = self._to_compare, []
        for layer in layers:
            self._apply_labels(layer, None)

    def _apply_labels(self, layer: Any, box: Any) -> None:
        """Pass the labels in a box of a layer's axes, or all of them, on to the live histograms."""
        live = self._live
        if live is None or not live.complete:
            return
        volume, stored, own = live.volume_number(layer), volume_of(layer), (slice(None),) * 3
        if box is not None:
            own = stored_box(layer, box)
        start = [part.start or 0 for part in own]
        if stored.shape != live.live_dvhs[0].labels(volume).shape:
            self._run_timer.start()
            return
        try:
            changed, *_ = (dvh.follow(stored[own], start=start, volume=volume) for dvh in live.all_dvhs)
        except InvalidInput:  # a label that is too large for what was counted
            self._run_timer.start()
            return
        if changed is None:
            return
        live.painted.add(volume)
        known = {structure.label for structure in live.structures if structure.volume == volume}
        if set(np.unique(stored[changed]).tolist()) - known - {0}:
            self._run_timer.start()
        self.labels_painted.emit(layer, changed)
