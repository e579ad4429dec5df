"""The layers that the plot draws over the image, and that of the highlighted voxels.

One image layer holds the dose at the voxels of a structure. Which of them are highlighted is a matter of its contrast
limits and of a colormap of steps, so that dragging a line sets two numbers of the graphics card and touches no voxel,
in 2-D as in 3-D.
"""

import math
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Shapes
from napari.utils.colormaps import Colormap
from qtpy.QtCore import QObject, Signal
from qtpy.QtGui import QColor

from napari_gpubio.core.label_volumes import label_volume
from napari_gpubio.core.napari_io import FOLLOWS, KEY, Box, affine_mm, beside, carried, volume_of
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.steps import Step
from napari_gpubio.core.world_aligned import WorldAligned
from napari_gpubio.dose.gui.histograms import LiveHistograms, Structure
from napari_gpubio.dose.gui.inputs import PANEL
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.settings import LOGARITHMIC
from napari_gpubio.dose.structures.raster import dose_at_voxels, inside
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Follower
from napari_gpubio.gui.jobs import LatestJob, Outcome

Array = npt.NDArray[Any]
HIGHLIGHT = "dose highlight"
CLEAR, COLOR = [0.0, 0.0, 0.0, 0.0], list(QColor(theme.SELECTED).getRgbF())
_STEP, BAND = [0, 0.5, 1], [0, 0.25, 0.75, 1]
_ABOVE = Colormap([CLEAR, COLOR], controls=_STEP, interpolation="zero", name="dose above")
_BETWEEN = Colormap([CLEAR, COLOR, CLEAR], controls=BAND, interpolation="zero", name="dose interval")
_LIMITS_WIDTH = 1e-3  # of the contrast limits about a single dose, as a share of all doses
_COLORMAP_ENTRIES = 1024
_HIGHLIGHT_OPACITY = 0.75


class Overlay(QObject, Follower):
    """The one layer of an overlay, found by its metadata, which hold its name."""

    def __init__(self, viewer: Any, name: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer, self._name = viewer, name

    @property
    def layer(self) -> Any | None:
        """The layer, or None."""
        return next((layer for layer in self._viewer.layers if carried(layer, PANEL) == self._name), None)

    def _add_layer(self, data: Any, **keywords: Any) -> Any:
        """Add the layer, and keep the layers that are selected."""
        selection = self._viewer.layers.selection
        selected, active = list(selection), selection.active
        metadata = {KEY: {PANEL: self._name, FOLLOWS: True}}
        layer = self._viewer.add_image(
            data, name=self._name, blending="translucent_no_depth", metadata=metadata, **keywords
        )
        self._viewer.layers.selection = selected
        if active is not None:
            self._viewer.layers.selection.active = active
        return layer

    def _remove_layer(self) -> None:
        if (layer := self.layer) is not None:
            self._viewer.layers.remove(layer.name)


# -- highlighted voxels -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Target:
    """What is highlighted: structures of one layer, in the dose of a plan."""

    live: LiveHistograms
    structures: tuple[Structure, ...]
    plan: int = 0

    @property
    def layer(self) -> Any:
        """The layer of the structures."""
        return self.structures[0].layer

    @property
    def grid(self) -> Any:
        """The layer whose voxels are highlighted: the labels themselves, or the dose under contours."""
        return self.live.request.plans[self.plan].layer if isinstance(self.layer, Shapes) else self.layer

    @property
    def dose(self) -> Dose:
        """Dose of the plan."""
        return self.live.doses[self.plan]

    @property
    def is_log(self) -> bool:
        """Whether the layer holds decimal logarithms: a colormap distinguishes too few doses for several decades."""
        return self.live.request.settings.resolved(self.dose).bin_scale == LOGARITHMIC


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TargetDoses(ShortRepr):
    """The dose (or its logarithm) at the voxels of a target, NaN elsewhere, shape (X, Y, Z) as its grid's."""

    target: Target
    doses: Array


class Highlight(Overlay):
    """Highlights the voxels of a target whose dose lies in an interval."""

    error_occurred = Signal(str)

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(viewer, HIGHLIGHT, parent)
        self._target: Target | None = None
        self._current: TargetDoses | None = None
        self._interval: tuple[float, float | None] | None = None
        self._job = LatestJob(self, self._on_finished)

    @property
    def is_busy(self) -> bool:
        """Whether doses are being looked up."""
        return self._job.is_busy

    def set_target(self, target: Target) -> None:
        """Highlight other structures, as soon as their doses are known."""
        self._target = target
        self._job.submit(lambda _stop: _target_steps(target))

    def set_interval(self, low: float, high: float | None = None) -> None:
        """Highlight doses from ``low`` (up to ``high``), in units of the dose before scaling."""
        self._interval = low, high
        if (layer := self.layer) is not None and self._current is not None:
            self._set_limits(layer, self._current)

    def update_labels(self, layer: Any, box: Box) -> None:
        """Apply labels that were painted in a box of a layer's volume (X, Y, Z)."""
        own, current = self.layer, self._current
        if own is None or current is None or current.target.layer != layer:
            return
        if layer.ndim != 3 or volume_of(layer).shape != current.doses.shape:
            self.set_target(current.target)
            return
        _fill_doses(current.target, current.doses, box)
        if isinstance(own.data, WorldAligned):
            own.data.source_changed()
        own.refresh()

    def clear(self) -> None:
        """Remove the layer."""
        self._job.cancel()
        self._current = self._target = None
        self._remove_layer()

    def detach(self) -> None:
        """End the worker, and remove the layer."""
        self._job.abandon()
        self.clear()

    def _on_finished(self, outcome: Outcome) -> None:
        if outcome.error:
            self.error_occurred.emit(outcome.error)
        elif self._target is not None and outcome.result.target is self._target:
            self._update_layer(outcome.result)

    def _update_layer(self, current: TargetDoses) -> None:
        data, place = beside(current.target.grid, current.doses, linear=False)
        layer, self._current = self.layer, current
        if layer is not None and layer.data.shape == data.shape:
            for name, value in place.items():
                setattr(layer, name, value)
            layer.data = data
        else:
            self._remove_layer()
            layer = self._add_layer(
                data,
                colormap=_ABOVE,
                contrast_limits=(0.0, 1.0),
                rendering="translucent",
                interpolation2d="nearest",
                interpolation3d="nearest",
                opacity=_HIGHLIGHT_OPACITY,
                **place,
            )
        self._set_limits(layer, current)

    def _set_limits(self, layer: Any, current: TargetDoses) -> None:
        if self._interval is None:
            return
        dose, (low, high) = current.target.dose, self._interval
        if current.target.is_log:
            low, high = _logarithm(low), None if high is None else _logarithm(high)
            colormap, limits = _colormap_and_limits(low, high, 1.0)
        else:
            colormap, limits = _colormap_and_limits(low, high, dose.largest - min(0.0, dose.least))
        if layer.colormap.name != colormap.name:
            layer.colormap = colormap
        layer.contrast_limits = limits


def _colormap_and_limits(low: float, high: float | None, width: float) -> tuple[Colormap, tuple[float, float]]:
    """Colormap and contrast limits that highlight doses from ``low`` (up to ``high``)."""
    least = _LIMITS_WIDTH * (width or 1.0)
    if high is None:
        switch = low - 4 * least / _COLORMAP_ENTRIES  # so that ``low`` itself is highlighted
        return _ABOVE, (switch - least, switch + least)
    span = max(high - low, least)
    return _BETWEEN, (low - 0.5 * span, low + 1.5 * span)


def _logarithm(dose: float) -> float:
    return math.log10(max(dose, 1e-300))


def _as_held(target: Target, doses: Array) -> Array:
    """Doses as the layer of a target holds them."""
    if not target.is_log:
        return doses
    found = np.full(doses.shape, np.nan, np.float32)
    return np.log10(doses, out=found, where=doses > 0)


def _target_steps(target: Target) -> Generator[Step, None, TargetDoses]:
    """Look up the dose at the voxels of a target."""
    yield Step(0, 1, "looking up the dose in the structure")
    if not isinstance(target.layer, Shapes):
        doses = np.empty(volume_of(target.layer).shape, np.float32)
        _fill_doses(target, doses, (slice(None), slice(None), slice(None)))
        return TargetDoses(target=target, doses=doses)
    dose = target.dose
    within = np.zeros(dose.values.shape, bool)
    for one in target.structures:
        within |= inside(target.live.contours[one.name], dose.affine, dose.values.shape)
    chosen = np.where(within, dose.values, np.nan).astype(np.float32)
    return TargetDoses(target=target, doses=_as_held(target, chosen))


def _fill_doses(target: Target, doses: Array, box: Box) -> None:
    """Write the doses of labels into a box of the doses of a layer's volume."""
    labels = np.ascontiguousarray(label_volume(target.layer)[box])  # one kind of array to compile for
    chosen = np.zeros(max((one.label or 0) for one in target.structures) + 1, bool)
    chosen[[one.label or 0 for one in target.structures]] = True
    to_world = affine_mm(target.layer).copy()
    to_world[:3, 3] += to_world[:3, :3] @ [part.start or 0 for part in box]
    out = np.empty(labels.shape, np.float32)
    constant = target.live.is_constant(target.plan)
    dose_at_voxels(target.dose, labels, to_world, chosen, out, constant=constant)
    doses[box] = _as_held(target, out)
