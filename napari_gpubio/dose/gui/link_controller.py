"""The link between plot and image: lines that light voxels, voxels that are marked on the curves."""

from typing import Any

import numpy as np
from qtpy.QtCore import QObject

from napari_gpubio.core.napari_io import volume_of
from napari_gpubio.core.space import viewer_to_world
from napari_gpubio.dose.gui import readout
from napari_gpubio.dose.gui.curve_controller import CurveController
from napari_gpubio.dose.gui.highlight import Highlight, Target
from napari_gpubio.dose.gui.isodose import Isodose
from napari_gpubio.dose.gui.plot import DvhPlot
from napari_gpubio.dose.gui.request import Counted, Structure
from napari_gpubio.dose.gui.tools_box import ToolsBox
from napari_gpubio.dose.napari_io import index_to_world, mm_per_unit, stored_axes
from napari_gpubio.dose.structures.raster import dose_at_voxels, inside

_HALF, _BAND = 0.5, (0.25, 0.75)  # of the largest dose: where tools begin
_VOLUME = 95.0  # %: where the line at a volume begins


class LinkController(QObject):
    """Answers to the tools of the plot and to clicks in the image.

    Parameters
    ----------
    plot, tools
        The parts of the panel.
    controller
        Gives the curves.
    highlight
        Lights voxels.
    isodose
        Draws the line of a dose.
    """

    def __init__(
        self,
        plot: DvhPlot,
        tools: ToolsBox,
        controller: CurveController,
        highlight: Highlight,
        isodose: Isodose,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.dose: float | None = None
        self.band: tuple[float, float] | None = None
        self.volume: float | None = None
        self.voxel: tuple[float, tuple[str, ...]] | None = None  # its dose as counted, and where it lies
        self._plot, self._tools, self._controller = plot, tools, controller
        self._highlight, self._isodose = highlight, isodose
        self._aimed: tuple[Any, ...] = ()
        self._voxel_plan = 0
        plot.dose_dragged.connect(self.drag_dose)
        plot.band_dragged.connect(self.drag_band)
        plot.volume_dragged.connect(self.drag_volume)
        plot.hovered.connect(self._on_hovered)
        plot.curve_clicked.connect(self.choose_curve)
        tools.changed.connect(self.refresh)
        controller.drawn.connect(self._on_drawn)

    # -- what a user does -----------------------------------------------------------------------------------------

    def drag_dose(self, dose: float) -> None:
        """The line is at a dose now."""
        self.dose = dose
        self._highlight.light(dose / self._controller.factor)
        self._draw_isodose()
        self._plot.show_dose_line(dose)
        self._tell()

    def drag_band(self, low: float, high: float) -> None:
        """The interval is another one now."""
        self.band = low, high
        if self._tools.band.isChecked():
            self._highlight.light(low / self._controller.factor, high / self._controller.factor)
            self._tell()

    def drag_volume(self, volume: float) -> None:
        """The line is at a volume now, as on the axis."""
        self.volume = volume
        self._plot.show_volume_line(volume)
        self._tell()

    def choose_curve(self, number: int) -> None:
        """Light voxels inside the structure of a curve."""
        structure = self._controller.structure_of(number)
        if structure is not None:
            self._tools.choose_plan(int(self._controller.curves[number].second))
            self._tools.choose(structure.name)

    def pick(self, position: Any) -> None:
        """Mark the voxel at a viewer position (z, y, x) on the curves."""
        counted = self._controller.counted
        if counted is None:
            return
        dose = dose_at(counted, position, self._tools.plan)
        if dose is None:
            self.voxel = None
            self._plot.show_marks([])
            self._say("the voxel lies outside the dose")
            return
        self.voxel, self._voxel_plan = (dose, structures_at(counted, position)), self._tools.plan
        self._mark()
        self._say(self._voxel_text())

    def refresh(self) -> None:
        """Show the tools that are on, and light what they say."""
        counted, tools = self._controller.counted, self._tools
        top = max((one.dvh.largest for one in self._controller.curves if not one.dvh.is_empty), default=0.0)
        if counted is None or not top > 0:
            self._hide()
            return
        if tools.dose.isChecked() and self.dose is None:
            self.dose = self._controller.reference or _HALF * top
        if tools.band.isChecked() and self.band is None:
            self.band = _BAND[0] * top, _BAND[1] * top
        tools.volume.setEnabled(not self._controller.axes.differential)
        self._plot.show_dose_line(self.dose if tools.dose.isChecked() else None)
        self._plot.show_band(self.band if tools.band.isChecked() else None)
        self._show_volume_line()
        if tools.dose.isChecked() or tools.band.isChecked():
            self._aim(counted)
        else:
            self._aimed = ()
            self._highlight.clear()
        self._draw_isodose()
        self._tell()

    def clear(self) -> None:
        """Forget lines and voxels, for another dose."""
        self.dose = self.band = self.volume = self.voxel = None
        self._aimed = ()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _on_drawn(self) -> None:
        if self._controller.axes.relative_volume != self._is_relative and self.volume is not None:
            self.volume = None  # the line was on another axis
        if self._controller.counted is not None and self._voxel_plan >= len(self._controller.counted.doses):
            self.voxel, self._voxel_plan = None, 0  # it was in a plan that is gone
        self.refresh()
        self._mark()

    _is_relative = True

    def _show_volume_line(self) -> None:
        axes = self._controller.axes
        on = self._tools.volume.isChecked() and not axes.differential
        if on and self.volume is None:
            largest = max(one.dvh.volume_cc for one in self._controller.curves)
            self.volume = _VOLUME if axes.relative_volume else 0.01 * _VOLUME * largest
        self._is_relative = axes.relative_volume
        self._plot.show_volume_line(self.volume if on else None)

    def _aim(self, counted: Counted) -> None:
        """Let the highlight be of the chosen structures, and of what the tools say."""
        structures = self._tools.structures
        aimed = counted, structures, self._tools.plan
        if structures and self._aimed != aimed:
            self._aimed = aimed
            self._highlight.aim(Target(counted=counted, structures=structures, plan=self._tools.plan))
        factor = self._controller.factor
        if self._tools.dose.isChecked() and self.dose is not None:
            self._highlight.light(self.dose / factor)
        elif self._tools.band.isChecked() and self.band is not None:
            self._highlight.light(self.band[0] / factor, self.band[1] / factor)

    def _draw_isodose(self) -> None:
        counted = self._controller.counted
        if counted is not None and self.dose is not None and self._tools.dose.isChecked():
            self._isodose.show(counted, self.dose / self._controller.factor, self._tools.plan)
        else:
            self._isodose.clear()

    def _tell(self) -> None:
        """Tell what the tools say that are on, else of the voxel that is marked."""
        curves, axes, tools, told = self._controller.curves, self._controller.axes, self._tools, []
        if tools.dose.isChecked() and self.dose is not None:
            told.append(readout.above_text(curves, self.dose, axes))
        if tools.band.isChecked() and self.band is not None:
            told.append(readout.between_text(curves, *self.band, axes))
        if tools.volume.isChecked() and self.volume is not None and not axes.differential:
            told.append(readout.at_volume_text(curves, self.volume, axes))
        self._say("<br>".join(told) or self._voxel_text())

    def _voxel_text(self) -> str:
        if self.voxel is None:
            return ""
        dose, names = self.voxel
        own = [one for one in self._controller.curves if one.second == bool(self._voxel_plan)]
        return readout.voxel_text(own, dose * self._controller.factor, names, self._controller.axes)

    def _say(self, text: str) -> None:
        self._tools.say(text)

    def _hide(self) -> None:
        self._plot.show_dose_line(None)
        self._plot.show_band(None)
        self._plot.show_volume_line(None)
        self._plot.show_marks([])
        self._aimed = ()
        self._highlight.clear()
        self._isodose.clear()
        self._tools.say("")

    def _mark(self) -> None:
        if self.voxel is None or self._controller.counted is None:
            self._plot.show_marks([])
            return
        dose, names = self.voxel
        self._plot.show_marks(
            [
                (number, dose * self._controller.factor, one.dvh.name in names)
                for number, one in enumerate(self._controller.curves)
                if one.second == bool(self._voxel_plan) and not one.dvh.is_empty
            ]
        )

    def _on_hovered(self, number: int, dose: float) -> None:
        if 0 <= number < len(self._controller.curves):
            self._say(readout.hover_text(self._controller.curves[number], dose, self._controller.axes))
        elif "get ≥" in self._tools.readout.text():
            self._tell()


def dose_at(counted: Counted, position: Any, plan: int = 0) -> float | None:
    """The dose of a plan at a viewer position (z, y, x), or None outside its grid."""
    layer = counted.request.plans[plan].layer
    index = _index(layer, position)
    to_world = index_to_world(layer)
    to_world[:3, 3] += to_world[:3, :3] @ index
    out = np.empty((1, 1, 1), np.float32)
    dose_at_voxels(counted.doses[plan], np.ones((1, 1, 1), np.uint8), to_world, [False, True], out)
    return None if np.isnan(out[0, 0, 0]) else float(out[0, 0, 0])


def structures_at(counted: Counted, position: Any) -> tuple[str, ...]:
    """The structures at a viewer position (z, y, x)."""
    names = []
    for layer in counted.request.layers:
        own = [one for one in counted.structures if one.layer == layer]
        names += [one.name for one in own if _is_in(one, counted, position)]
    return tuple(names)


def _is_in(structure: Structure, counted: Counted, position: Any) -> bool:
    if structure.label is None:
        dose, plan = counted.doses[0], counted.request.plans[0].layer
        shown = np.asarray(position, np.float64)[-3:] * mm_per_unit(plan)
        place = np.eye(4)
        place[:3, 3] = viewer_to_world(shown, dose.affine, dose.values.shape)
        return bool(inside(counted.contours[structure.name], place, (1, 1, 1))[0, 0, 0])
    volume, axes = volume_of(structure.layer), stored_axes(structure.layer)
    index = np.round(_index(structure.layer, position)).astype(int)[list(axes)]
    if (index < 0).any() or (index >= volume.shape).any():
        return False
    return int(volume[tuple(index)]) == structure.label


def _index(layer: Any, position: Any) -> Any:
    """Index (z, y, x) of a viewer position in a layer."""
    point = np.zeros(layer.ndim)
    point[-3:] = np.asarray(position, np.float64)[-3:]
    return np.asarray(layer.world_to_data(point), np.float64)[-3:]
