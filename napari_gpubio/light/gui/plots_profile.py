"""Plot of fluence along a line, beside diffusion theory, and the line that is drawn in the viewer."""

from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Shapes
from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QComboBox, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import IN_MM, KEY, carried
from napari_gpubio.core.space import slice_steps_mm, viewer_to_world, world_to_viewer
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Connections
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.jobs import Job, one_step
from napari_gpubio.light.gui.displayed import Displayed
from napari_gpubio.light.gui.plots_axes import Pane
from napari_gpubio.light.profile import Profile, depth_profile, detector_profile, line_profile, theory_curve
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.statistics import label_name
from napari_gpubio.optics.model import OUTSIDE, Domain

NAME = "profile line"
WIDTH = 0.008  # share of the longest side of the volume
Ends = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]


class ProfileLine(QObject):
    """Follows a shapes layer; the last line in it is the profile's."""

    changed = Signal()

    def __init__(self, viewer: Any, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._followed: Any | None = None
        self._known: Any = None
        self._warming: Job | None = None
        layers = viewer.layers.events
        events = (layers.inserted, layers.removed)
        self._connections = Connections(lambda: [(event, self._on_layers) for event in events], self._on_layers)

    @property
    def layer(self) -> Any | None:
        """The layer of the line, or None."""
        return next((x for x in self._viewer.layers if carried(x, "profile_line")), None)

    def ends_mm(self) -> Ends | None:
        """Both ends of the line, world mm, or None if there is no line."""
        ends = self._ends()
        if ends is None:
            return None
        start, end = viewer_to_world(ends)
        return start, end

    def draw(self, domain: Domain) -> None:
        """Let the user draw: make the layer if there is none, and choose its line tool."""
        layer = self.layer
        if layer is None:
            step = slice_steps_mm(domain.affine)
            # the first voxel's center, so that every slice of the volume is at an integer here too
            origin = world_to_viewer(domain.affine[:3, 3])
            layer = self._viewer.add_shapes(
                ndim=3,
                name=NAME,
                scale=step,
                translate=origin,
                edge_color=theme.ACCENT,
                edge_width=WIDTH * max(domain.shape),
                blending="translucent_no_depth",
                metadata={KEY: {"profile_line": True}},
                **IN_MM,
            )
        self._viewer.layers.selection.active = layer
        layer.mode = "add_line"

    def attach(self) -> None:
        """Follow the viewer's layers."""
        self._connections.attach()
        self._warming = Job(one_step("loading shapes", _load_shapes), self)
        self._warming.start()

    def detach(self) -> None:
        """Stop following the viewer."""
        self._connections.detach()
        self._follow(None)
        if self._warming is not None:
            self._warming.abandon()
            self._warming = None

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
        """Report that the line has changed; napari emits the same event for another slice."""
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


def _load_shapes() -> None:
    """Have napari load what shapes need, seconds on a new machine, before the user draws and would have to wait."""
    Shapes(ndim=3)


Array = npt.NDArray[Any]
EMPTY = "No result yet: place a source and press Run."
DEPTH, DRAWN = "depth", "drawn"
DRAW = "Draw a line in a slice of the volume; drag its ends later with the layer's select tool."
X_TEXTS = {DEPTH: "Depth along the source's direction (mm)", DRAWN: "Distance along the line (mm)"}


class ProfilePlot(Pane):
    """Fluence along a line that the user chooses, beside diffusion theory."""

    title, empty = "Along", EMPTY
    x_text, y_text = X_TEXTS[DEPTH], "Fluence"

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.profile: Profile | None = None
        self.line = ProfileLine(viewer, self)
        self._choice = ElidedComboBox(self)
        self._choice.setToolTip("Along which line fluence is shown")
        self._choice.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self.add_choice(self._choice)
        self._offer(())
        self._choice.activated.connect(self._on_chosen)
        self.line.changed.connect(self._on_line)

    def plot_result(self, displayed: Displayed[LightResult] | None) -> None:
        """Plot a result's fluence in the unit of its display."""
        detectors = () if displayed is None else displayed.result.detectors
        self._offer(tuple(detector.name for detector in detectors))
        super().plot_result(displayed)

    def choose(self, along: str | int) -> None:
        """Choose the line: `DEPTH`, `DRAWN`, or the index of a detector, to which it runs from the source."""
        index = self._choice.findData(along)
        if index >= 0:
            self._choice.setCurrentIndex(index)
            self._on_chosen()

    def _offer(self, detectors: tuple[str, ...]) -> None:
        entries: list[tuple[str, str | int]] = [
            ("the source's direction", DEPTH),
            ("a line drawn in the viewer", DRAWN),
        ]
        entries += [(f"source → {name or f'detector {i + 1}'}", i) for i, name in enumerate(detectors)]
        if entries == [(self._choice.itemText(i), self._choice.itemData(i)) for i in range(self._choice.count())]:
            return
        chosen = self._choice.currentData()
        self._choice.clear()
        for text, data in entries:
            self._choice.addItem(text, data)
        self._choice.setCurrentIndex(max(0, self._choice.findData(chosen)))

    def _on_chosen(self, *_: Any) -> None:
        displayed = self._displayed
        if self._choice.currentData() == DRAWN and displayed is not None and self.line.ends_mm() is None:
            self.line.draw(displayed.result.domain)
        self._draw_again()

    def _on_line(self) -> None:
        if self._choice.currentData() == DRAWN:
            self._draw_again()

    # -- the plot -------------------------------------------------------------------------------------------------

    def _draw_again(self, *_: Any) -> None:
        self.profile = None
        super()._draw_again()

    def draw(self, displayed: Displayed[LightResult]) -> str:
        """Draw the fluence along the line in the unit of the display, with diffusion theory where it holds."""
        result, unit = displayed.result, displayed.options.unit
        profile = self.profile = self._read(result, self._choice.currentData())
        if profile is None:
            return DRAW
        names = {medium.label: label_name(result.domain, medium.label) for medium in result.domain.media}
        x_text = X_TEXTS.get(self._choice.currentData(), "Distance from the source (mm)")
        self.plot.name_axes(x_text, f"Fluence ({unit.name})")
        self.plot.add_tissues(profile.distance_mm, profile.labels, names)
        values, error = unit.factor * profile.fluence, unit.factor * profile.error
        name = "simulation ± standard error"
        self.plot.add_curve(profile.distance_mm, values, error=error, color=theme.CURVES[0], name=name)
        theory, why_not = self._draw_theory(result, profile, unit.factor)
        drawn = np.concatenate([values, theory])
        self.plot.frame(profile.distance_mm, float(np.min(drawn, where=drawn > 0, initial=np.inf)))
        return why_not

    def _read(self, result: LightResult, along: str | int) -> Profile | None:
        if along == DEPTH:
            return depth_profile(result)
        if along == DRAWN:
            ends = self.line.ends_mm()
            return None if ends is None else line_profile(result, *ends)
        return detector_profile(result, int(along))

    def _draw_theory(self, result: LightResult, profile: Profile, factor: float) -> tuple[Array, str]:
        """Draw diffusion theory where it holds, and return it; empty, and why, if there is none."""
        try:
            theory = theory_curve(result, profile.points_mm)
        except InvalidInput as error:
            return np.empty(0), str(error)
        shown = np.where(theory.valid & (profile.labels != OUTSIDE), factor * theory.fluence, np.nan)
        self.plot.add_curve(profile.distance_mm, shown, color=theme.CURVES[1], name=theory.text, dashed=True)
        return shown, ""
