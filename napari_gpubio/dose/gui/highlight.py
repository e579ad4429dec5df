"""The voxels of a structure whose dose is in an interval, lit in the image.

One image layer holds the dose at the voxels of a structure. Which of them are lit is a matter of its contrast limits
and of a colormap of steps, so that dragging a line sets two numbers of the graphics card and touches no voxel, in 2-D
as in 3-D.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Labels
from napari.utils.colormaps import Colormap
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.napari_io import KEY, carried, volume_of
from napari_gpubio.core.steps import Step
from napari_gpubio.dose.gui.input_box import PANEL
from napari_gpubio.dose.gui.plot import LINK
from napari_gpubio.dose.gui.request import Counted, Structure
from napari_gpubio.dose.model import Dose
from napari_gpubio.dose.napari_io import index_to_world, place_of, stored_axes
from napari_gpubio.dose.structures.raster import dose_at_voxels, inside
from napari_gpubio.gui.jobs import LatestJob, Outcome

Array = npt.NDArray[Any]
Box = tuple[slice, slice, slice]
WORD, NAME = "dose highlight", "dose highlight"
_EVERYTHING: Box = (slice(None), slice(None), slice(None))
_CLEAR = [0.0, 0.0, 0.0, 0.0]
_LIT = [int(LINK[n : n + 2], 16) / 255 for n in (1, 3, 5)] + [1.0]
ABOVE = Colormap([_CLEAR, _LIT], controls=[0, 0.5, 1], interpolation="zero", name="dose above")
BETWEEN = Colormap([_CLEAR, _LIT, _CLEAR], controls=[0, 0.25, 0.75, 1], interpolation="zero", name="dose interval")
_WIDTH = 1e-3  # of the contrast limits about a single dose, as a share of all doses
_ENTRIES = 1024  # of the colormap on the graphics card


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Target:
    """What is lit: structures of one layer, in the dose of a plan."""

    counted: Counted
    structures: tuple[Structure, ...]
    plan: int = 0

    @property
    def layer(self) -> Any:
        """The layer of the structures."""
        return self.structures[0].layer

    @property
    def grid(self) -> Any:
        """The layer on whose voxels it is lit: the labels themselves, or the dose under contours."""
        return self.layer if isinstance(self.layer, Labels) else self.counted.request.plans[self.plan].layer

    @property
    def dose(self) -> Dose:
        """Of the plan."""
        return self.counted.doses[self.plan]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sheet:
    """The dose at the voxels of a target, NaN elsewhere, with the axes of its layer (z, y, x)."""

    target: Target
    doses: Array


class Highlight(QObject):
    """Keeps the one layer of lit voxels; ``shown`` says that it is up to date.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    shown = Signal()
    error_occurred = Signal(str)

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._sheet: Sheet | None = None
        self._wanted: Target | None = None
        self._interval: tuple[float, float | None] | None = None
        self._job = LatestJob(self)
        self._job.finished.connect(self._on_made)

    @property
    def layer(self) -> Any | None:
        """The layer, or None."""
        return next((layer for layer in self._viewer.layers if carried(layer, PANEL) == WORD), None)

    def aim(self, target: Target) -> None:
        """Light other structures, as soon as their doses are known."""
        self._wanted = target
        self._job.submit(lambda _stop: _sheet_steps(target))

    def light(self, low: float, high: float | None = None) -> None:
        """Light doses from ``low`` (up to ``high``), in units of the dose as it was counted."""
        self._interval = low, high
        if (layer := self.layer) is not None and self._sheet is not None:
            self._set_limits(layer, self._sheet)

    def touch(self, layer: Any, box: Box) -> None:
        """Take over labels that were painted in a box of a layer (z, y, x)."""
        own, sheet = self.layer, self._sheet
        if own is None or sheet is None or sheet.target.layer != layer:
            return
        if layer.ndim != 3 or layer.data.shape != sheet.doses.shape:
            self.aim(sheet.target)
            return
        _fill(sheet.target, sheet.doses, box)
        own.refresh()

    def clear(self) -> None:
        """Take the layer away."""
        self._job.cancel()
        self._sheet = self._wanted = None
        if (layer := self.layer) is not None:
            self._viewer.layers.remove(layer.name)

    def attach(self) -> None:
        """Nothing to listen to."""

    def detach(self) -> None:
        """End what runs, and take the layer away."""
        self._job.abandon()
        self.clear()

    def _on_made(self, outcome: Outcome) -> None:
        if outcome.error:
            self.error_occurred.emit(outcome.error)
        elif self._wanted is not None and outcome.result.target is self._wanted:
            self._show(outcome.result)
            self.shown.emit()

    def _show(self, sheet: Sheet) -> None:
        layer, place = self.layer, place_of(sheet.target.grid)
        self._sheet = sheet
        if layer is not None and layer.data.shape == sheet.doses.shape:
            layer.affine = place["affine"]
            layer.data = sheet.doses
        else:
            if layer is not None:
                self._viewer.layers.remove(layer.name)
            layer = self._add(sheet, place)
        self._set_limits(layer, sheet)

    def _add(self, sheet: Sheet, place: dict[str, Any]) -> Any:
        selected = list(self._viewer.layers.selection)
        active = self._viewer.layers.selection.active
        layer = self._viewer.add_image(
            sheet.doses,
            name=NAME,
            colormap=ABOVE,
            contrast_limits=(0.0, 1.0),
            blending="translucent_no_depth",
            rendering="translucent",
            interpolation2d="nearest",
            interpolation3d="nearest",
            opacity=0.75,
            metadata={KEY: {PANEL: WORD}},
            **place,
        )
        self._viewer.layers.selection = selected
        if active is not None:
            self._viewer.layers.selection.active = active
        return layer

    def _set_limits(self, layer: Any, sheet: Sheet) -> None:
        if self._interval is None:
            return
        dose = sheet.target.dose
        colormap, limits = _limits(*self._interval, dose.largest - min(0.0, dose.least))
        if layer.colormap.name != colormap.name:
            layer.colormap = colormap
        layer.contrast_limits = limits


def _limits(low: float, high: float | None, width: float) -> tuple[Colormap, tuple[float, float]]:
    """Colormap and contrast limits that light doses from ``low`` (up to ``high``)."""
    least = _WIDTH * (width or 1.0)
    if high is None:
        switch = low - 4 * least / _ENTRIES  # so that ``low`` itself is lit
        return ABOVE, (switch - least, switch + least)
    span = max(high - low, least)
    return BETWEEN, (low - 0.5 * span, low + 1.5 * span)


def _sheet_steps(target: Target) -> Generator[Step, None, Sheet]:
    """Make the doses of a target."""
    yield Step(0, 1, "looking at the dose in the structure")
    grid, axes = target.grid, stored_axes(target.grid)
    if isinstance(target.layer, Labels):
        doses = np.empty(np.asarray(grid.data).shape[-3:], np.float32)
        _fill(target, doses, _EVERYTHING)
        return Sheet(target=target, doses=doses)
    dose = target.dose
    within = np.zeros(dose.values.shape, bool)
    for one in target.structures:
        within |= inside(target.counted.contours[one.name], dose.affine, dose.values.shape)
    stored = np.where(within, dose.values, np.nan).astype(np.float32)
    return Sheet(target=target, doses=np.ascontiguousarray(stored.transpose([axes.index(n) for n in range(3)])))


def _fill(target: Target, doses: Array, box: Box) -> None:
    """Put the doses of labels into a box of the doses of a layer (z, y, x)."""
    layer, axes = target.layer, stored_axes(target.layer)
    volume = layer.data if layer.ndim == 3 else volume_of(layer).transpose([axes.index(n) for n in range(3)])
    labels = np.ascontiguousarray(volume[box])  # one kind of array to compile for
    wanted = np.zeros(max((one.label or 0) for one in target.structures) + 1, bool)
    wanted[[one.label for one in target.structures]] = True
    to_world = index_to_world(layer)
    to_world[:3, 3] += to_world[:3, :3] @ [part.start or 0 for part in box]
    out = np.empty(labels.shape, np.float32)
    dose_at_voxels(target.dose, labels, to_world, wanted, out)
    doses[box] = out
