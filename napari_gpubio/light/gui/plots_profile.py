"""Plot of fluence along a line, beside diffusion theory, and the line that is drawn in the viewer."""

from collections.abc import Generator
from threading import Event
from typing import Any

import numpy as np
import numpy.typing as npt
from napari.layers import Shapes
from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QComboBox, QVBoxLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import IN_MM, KEY, carried
from napari_gpubio.core.space import slice_steps_mm, viewer_to_world, world_to_viewer
from napari_gpubio.core.steps import Step
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Connections
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import row_of
from napari_gpubio.gui.jobs import Job
from napari_gpubio.gui.labels import Label
from napari_gpubio.light.gui.displayed import Displayed
from napari_gpubio.light.gui.plots_axes import LogPlot
from napari_gpubio.light.model import OUTSIDE, Domain
from napari_gpubio.light.profile import Profile, depth_profile, detector_profile, line_profile, theory_curve
from napari_gpubio.light.result import LightResult
from napari_gpubio.light.statistics import PER_PHOTON, label_name

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
        self._warming = Job(_warm_up, self)
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


def _warm_up(_stop: Event) -> Generator[Step, None, None]:
    """Have napari load what shapes need, seconds on a new machine, before the user draws and would have to wait."""
    yield Step(0, 1, "loading shapes")
    Shapes(ndim=3)


Array = npt.NDArray[Any]
EMPTY = "No result yet: place a source and press Run."
DEPTH, DRAWN = "depth", "drawn"
DRAW = "Draw a line in a slice of the volume; drag its ends later with the layer's select tool."
X_TEXTS = {DEPTH: "Depth along the source's direction (mm)", DRAWN: "Distance along the line (mm)"}


class ProfilePlot(QWidget):
    """Fluence along a line that the user chooses, beside diffusion theory."""

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.profile: Profile | None = None
        self.line = ProfileLine(viewer, self)
        self._result: LightResult | None = None
        self._unit = PER_PHOTON
        self._choice = ElidedComboBox(self)
        self._choice.setToolTip("Along which line fluence is shown")
        self._choice.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToContents)
        self._hint = Label(self)
        self._hint.setWordWrap(True)
        self.plot = LogPlot(X_TEXTS[DEPTH], "Fluence", self)
        row = row_of(Label("Along", self), self._choice, self._hint)
        row.setStretch(0, 0)
        row.setStretch(2, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(4, 4, 4, 0)
        layout.addLayout(row)
        layout.addWidget(self.plot, 1)
        self._offer(())
        self._choice.activated.connect(self._on_chosen)
        self.line.changed.connect(self._on_line)

    def plot_result(self, displayed: Displayed[LightResult] | None) -> None:
        """Plot a result's fluence in the unit of its display."""
        result = self._result = None if displayed is None else displayed.result
        self._unit = PER_PHOTON if displayed is None else displayed.options.unit
        self._offer(() if result is None else tuple(detector.name for detector in result.detectors))
        self._draw()

    def choose(self, along: str | int) -> None:
        """Choose the line: `DEPTH`, `DRAWN`, or the index of a detector, to which it runs from the source."""
        index = self._choice.findData(along)
        if index >= 0:
            self._choice.setCurrentIndex(index)
            self._on_chosen()

    @property
    def hint(self) -> str:
        """The sentence beside the choice."""
        return self._hint.text()

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
        domain = None if self._result is None else self._result.domain
        if self._choice.currentData() == DRAWN and domain is not None and self.line.ends_mm() is None:
            self.line.draw(domain)
        self._draw()

    def _on_line(self) -> None:
        if self._choice.currentData() == DRAWN:
            self._draw()

    # -- the plot -------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        self.plot.empty()
        self.profile = None
        if self._result is None:
            self._hint.setText(EMPTY)
            return
        try:
            self.profile = self._read(self._result, self._choice.currentData())
        except InvalidInput as error:
            self._hint.setText(str(error))
            return
        if self.profile is None:
            self._hint.setText(DRAW)
            return
        self._hint.setText("")
        self._draw_profile(self._result, self.profile)

    def _read(self, result: LightResult, along: str | int) -> Profile | None:
        if along == DEPTH:
            return depth_profile(result)
        if along == DRAWN:
            ends = self.line.ends_mm()
            return None if ends is None else line_profile(result, *ends)
        return detector_profile(result, int(along))

    def _draw_profile(self, result: LightResult, profile: Profile) -> None:
        names = {medium.label: label_name(result.domain, medium.label) for medium in result.domain.media}
        along, factor = self._choice.currentData(), self._unit.factor
        self.plot.name_axes(X_TEXTS.get(along, "Distance from the source (mm)"), f"Fluence ({self._unit.name})")
        self.plot.add_tissues(profile.distance_mm, profile.labels, names)
        values = factor * profile.fluence
        self.plot.add_curve(
            profile.distance_mm,
            values,
            error=factor * profile.error,
            color=theme.CURVES[0],
            name="simulation ± standard error",
        )
        theory = self._draw_theory(result, profile, factor)
        drawn = np.concatenate([values, theory])
        self.plot.frame(profile.distance_mm, float(np.min(drawn, where=drawn > 0, initial=np.inf)))

    def _draw_theory(self, result: LightResult, profile: Profile, factor: float) -> Array:
        """Draw diffusion theory where it holds, and return it; empty if there is none."""
        try:
            theory = theory_curve(result, profile.points_mm)
        except InvalidInput as error:
            self._hint.setText(str(error))
            return np.empty(0)
        shown = np.where(theory.valid & (profile.labels != OUTSIDE), factor * theory.fluence, np.nan)
        self.plot.add_curve(profile.distance_mm, shown, color=theme.CURVES[1], name=theory.text, dashed=True)
        return shown
