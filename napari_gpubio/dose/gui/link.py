"""The link between plot and image: lines that highlight voxels, and voxels that are marked on the curves."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.napari_io import affine_mm, mm_per_unit, volume_of
from napari_gpubio.core.space import apply_affine, viewer_to_world
from napari_gpubio.dose.gui import curves as readout
from napari_gpubio.dose.gui.controller import CurveController
from napari_gpubio.dose.gui.controls import ToolsBox
from napari_gpubio.dose.gui.histograms import LiveHistograms, Structure
from napari_gpubio.dose.gui.isodose import Isodose
from napari_gpubio.dose.gui.overlays import Highlight, Target
from napari_gpubio.dose.gui.plot import DvhPlot
from napari_gpubio.dose.structures.raster import dose_at_voxels, inside
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.picking import MarkerTool, Position, clicked_position

_LINE_START, _INTERVAL_START = 0.5, (0.25, 0.75)  # of the dose axis
_VOLUME_START_PERCENT = 95.0


class LinkController(QObject):
    """Acts on the tools of the plot and on clicks in the image."""

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
        self.interval: tuple[float, float] | None = None
        self.volume: float | None = None
        self.voxel: tuple[float, tuple[str, ...]] | None = None  # its dose before scaling, and the structures around it
        self._plot, self._tools, self._controller = plot, tools, controller
        self._highlight, self._isodose = highlight, isodose
        self._target: tuple[Any, ...] = ()
        self._voxel_plan = 0
        self._volume_is_relative = True
        self._describes_point = False  # whether the readout is of the curve under the mouse
        connect_all(
            [
                (plot.dose_dragged, self.move_dose_line),
                (plot.interval_dragged, self.move_interval),
                (plot.volume_dragged, self.move_volume_line),
                (plot.mouse_moved, self._on_mouse),
                (plot.curve_clicked, self.select_structure),
                (tools.tools_changed, self.update_tools),
                (controller.curves_drawn, self._on_curves),
            ]
        )

    # -- what a user does -----------------------------------------------------------------------------------------

    def move_dose_line(self, dose: float) -> None:
        """Move the line to a dose."""
        self.dose = dose
        self._highlight.set_interval(dose / self._controller.factor)
        self._draw_isodose()
        self._plot.place_line(self._plot.dose_line, dose)
        self._describe_tools()

    def move_interval(self, low: float, high: float) -> None:
        """Move the interval to two doses."""
        self.interval = low, high
        if self._tools.interval.isChecked():
            self._highlight.set_interval(low / self._controller.factor, high / self._controller.factor)
            self._describe_tools()

    def move_volume_line(self, volume: float) -> None:
        """Move the line to a volume, in % or cc as on the axis."""
        self.volume = volume
        self._plot.place_line(self._plot.volume_line, volume)
        self._describe_tools()

    def select_structure(self, number: int) -> None:
        """Highlight voxels inside the structure of a curve."""
        structure = self._controller.structure_of(number)
        if structure is not None:
            self._tools.select(structure.name, int(self._controller.curves[number].second))

    def mark_voxel(self, position: Any) -> None:
        """Mark the voxel at a viewer position (z, y, x) on the curves."""
        live = self._controller.live
        if live is None:
            return
        dose = dose_at(live, position, self._tools.plan)
        if dose is None:
            self.voxel = None
            self._plot.place_marks([])
            self._tools.set_readout("the voxel lies outside the dose")
            return
        self.voxel, self._voxel_plan = (dose, structures_at(live, position)), self._tools.plan
        self._place_marks()
        self._describes_point = False
        self._tools.set_readout(self._voxel_text())

    def update_tools(self) -> None:
        """Draw the tools that are switched on, and highlight what they select."""
        live, tools, axes = self._controller.live, self._tools, self._controller.axes
        largest = readout.largest_dose(self._controller.curves)
        if live is None or not largest > 0:
            self._hide_all()
            return
        if tools.dose.isChecked() and self.dose is None:
            self.dose = self._controller.reference or self._between(_LINE_START, largest)
        if tools.interval.isChecked() and self.interval is None:
            self.interval = self._between(_INTERVAL_START[0], largest), self._between(_INTERVAL_START[1], largest)
        tools.volume.setEnabled(not axes.differential)
        self._plot.place_line(self._plot.dose_line, self.dose if tools.dose.isChecked() else None)
        self._plot.place_line(self._plot.interval, self.interval if tools.interval.isChecked() else None)
        self._update_volume_line()
        self._update_highlight(live)
        self._draw_isodose()
        self._describe_tools()

    def forget_lines(self) -> None:
        """Forget lines and voxel, which mean nothing in another dose."""
        self.dose = self.interval = self.volume = self.voxel = None
        self._target = ()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _between(self, share: float, largest: float) -> float:
        """A dose some share of the way along the axis."""
        if not self._controller.axes.logarithmic:
            return share * largest
        start = readout.log_start([one.dvh for one in self._controller.curves])
        return float(start ** (1 - share) * largest**share)

    def _on_curves(self) -> None:
        if self._controller.axes.relative_volume != self._volume_is_relative:
            self.volume = None  # the line was on another axis
        if self._controller.live is not None and self._voxel_plan >= len(self._controller.live.doses):
            self.voxel, self._voxel_plan = None, 0  # it was in a plan that is gone
        self.update_tools()
        self._place_marks()

    def _on_mouse(self, number: int, dose: float) -> None:
        if 0 <= number < len(self._controller.curves):
            text = readout.describe_point(self._controller.curves[number], dose, self._controller.axes)
            self._tools.set_readout(text)
            self._describes_point = True
        elif self._describes_point:
            self._describe_tools()

    def _update_volume_line(self) -> None:
        axes = self._controller.axes
        is_on = self._tools.volume.isChecked() and not axes.differential
        if is_on and self.volume is None:
            largest = max(one.dvh.volume_cc for one in self._controller.curves)
            self.volume = _VOLUME_START_PERCENT if axes.relative_volume else 0.01 * _VOLUME_START_PERCENT * largest
        self._volume_is_relative = axes.relative_volume
        self._plot.place_line(self._plot.volume_line, self.volume if is_on else None)

    def _update_highlight(self, live: LiveHistograms) -> None:
        """Highlight the chosen structures where the dose is as the tools require."""
        tools, factor = self._tools, self._controller.factor
        if not (tools.dose.isChecked() or tools.interval.isChecked()):
            self._target = ()
            self._highlight.clear()
            return
        target = live, tools.structures, tools.plan
        if tools.structures and self._target != target:
            self._target = target
            self._highlight.set_target(Target(live=live, structures=tools.structures, plan=tools.plan))
        if tools.dose.isChecked() and self.dose is not None:
            self._highlight.set_interval(self.dose / factor)
        elif self.interval is not None:
            self._highlight.set_interval(self.interval[0] / factor, self.interval[1] / factor)

    def _draw_isodose(self) -> None:
        live = self._controller.live
        if live is not None and self.dose is not None and self._tools.dose.isChecked():
            self._isodose.draw(live, self.dose / self._controller.factor, self._tools.plan)
        else:
            self._isodose.clear()

    def _describe_tools(self) -> None:
        """Write the readout of the tools that are on, else that of the marked voxel."""
        curves, axes, tools, texts = self._controller.curves, self._controller.axes, self._tools, []
        if tools.dose.isChecked() and self.dose is not None:
            texts.append(readout.describe_above(curves, self.dose, axes))
        if tools.interval.isChecked() and self.interval is not None:
            texts.append(readout.describe_interval(curves, *self.interval, axes))
        if tools.volume.isChecked() and self.volume is not None and not axes.differential:
            texts.append(readout.describe_dose_at_volume(curves, self.volume, axes))
        self._describes_point = False
        tools.set_readout("<br>".join(texts) or self._voxel_text())

    def _voxel_text(self) -> str:
        if self.voxel is None:
            return ""
        dose, names = self.voxel
        own = [one for one in self._controller.curves if one.second == bool(self._voxel_plan)]
        return readout.describe_voxel(own, dose * self._controller.factor, names, self._controller.axes)

    def _place_marks(self) -> None:
        if self.voxel is None or self._controller.live is None:
            self._plot.place_marks([])
            return
        dose, names = self.voxel
        self._plot.place_marks(
            [
                (number, dose * self._controller.factor, one.dvh.name in names)
                for number, one in enumerate(self._controller.curves)
                if one.second == bool(self._voxel_plan) and not one.dvh.is_empty
            ]
        )

    def _hide_all(self) -> None:
        for line in (self._plot.dose_line, self._plot.interval, self._plot.volume_line):
            self._plot.place_line(line, None)
        self._plot.place_marks([])
        self._target = ()
        self._highlight.clear()
        self._isodose.clear()
        self._tools.set_readout("")


class VoxelTool(MarkerTool):
    """Clicks in the image; ``voxel_clicked`` has a viewer position (z, y, x).

    ``image`` returns the layer whose voxels are clicked in 3-D, or None: then clicks mean nothing.
    """

    voxel_clicked = Signal(object)

    def __init__(self, viewer: Any, image: Callable[[], Any | None], parent: QObject | None = None) -> None:
        super().__init__(viewer, lambda: np.empty((0, 3)), lambda: 0.0, parent)
        self._image = image

    @property
    def hint(self) -> str:
        """What a click does."""
        return "" if self._image() is None else "Click: the dose there"

    def clicked(self, event: Any) -> None:
        """Emit the position of a click."""
        image = self._image()
        position = None if image is None else clicked_position(event, image)
        if position is not None:
            self.voxel_clicked.emit(position)

    def target_of(self, _event: Any, anchor: Position) -> Callable[[Any], Any]:
        """Nothing is dragged here."""
        return lambda _: anchor


def dose_at(live: LiveHistograms, position: Any, plan: int = 0) -> float | None:
    """Return the dose of a plan at a viewer position (z, y, x), or None outside its grid."""
    to_world = np.eye(4)
    to_world[:3, 3] = _world_mm(live.request.plans[plan].layer, position)
    out = np.empty((1, 1, 1), np.float32)
    constant, one = live.is_constant(plan), np.ones((1, 1, 1), np.uint8)
    dose_at_voxels(live.doses[plan], one, to_world, [False, True], out, constant=constant)
    return None if np.isnan(out[0, 0, 0]) else float(out[0, 0, 0])


def structures_at(live: LiveHistograms, position: Any) -> tuple[str, ...]:
    """Return the names of the structures at a viewer position (z, y, x)."""
    return tuple(
        one.name
        for layer in live.request.layers
        for one in live.structures
        if one.layer == layer and _contains(one, live, position)
    )


def _contains(structure: Structure, live: LiveHistograms, position: Any) -> bool:
    if structure.label is None:
        place = np.eye(4)
        place[:3, 3] = _world_mm(live.request.plans[0].layer, position)
        return bool(inside(live.contours[structure.name], place, (1, 1, 1))[0, 0, 0])
    volume, to_index = volume_of(structure.layer), np.linalg.inv(affine_mm(structure.layer))
    index = np.round(apply_affine(to_index, _world_mm(structure.layer, position))).astype(int)
    if (index < 0).any() or (index >= volume.shape).any():
        return False
    return int(volume[tuple(index)]) == structure.label


def _world_mm(layer: Any, position: Any) -> npt.NDArray[np.float64]:
    """World mm (x, y, z) of a viewer position, which counts in the units of a layer."""
    return viewer_to_world(np.asarray(position, np.float64)[-3:] * mm_per_unit(layer))
