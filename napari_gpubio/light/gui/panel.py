"""The dock widget "Light transport": light in voxels or in layers, with one Run, one device and one set of plots."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QSignalBlocker

from napari_gpubio.core.operations.records import Operation
from napari_gpubio.gui.forms import ChoiceButtons
from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.layered.operations import SimulateLayers
from napari_gpubio.light.gui.layer_mode import LayerMode
from napari_gpubio.light.gui.mode import LightMode
from napari_gpubio.light.gui.plots import LAYERS, VOXELS, PlotController
from napari_gpubio.light.gui.voxel_mode import VoxelMode
from napari_gpubio.light.operations import Simulate

if TYPE_CHECKING:
    import napari.viewer

MODES = {
    VOXELS: ("Voxels", "Light in a segmented volume, from a source placed on its surface"),
    LAYERS: ("Layers", "Light in planar layers under a beam, as in MCML; results by depth and radius"),
}


class LightPanel(EnginePanel):
    """Simulate light in voxels or in layers; switching loses nothing typed.

    ``mode`` is the one to begin with, ``voxels`` or ``layers``; the other one is made when it is first chosen.
    """

    warms = ("layered", "light")

    def __init__(self, viewer: "napari.viewer.Viewer", *, mode: str = VOXELS) -> None:
        super().__init__(viewer)
        self.plots = PlotController(viewer, self)
        self._modes: dict[str, LightMode[Any]] = {}
        self._current = mode
        self.switch = ChoiceButtons(MODES, self)
        self.switch.changed.connect(self.set_mode)
        self.header.addRow(self.switch)
        self.own(self.plots)
        self.set_mode(mode)

    @property
    def voxels(self) -> VoxelMode:
        """The mode of voxels."""
        mode = self._mode(VOXELS)
        assert isinstance(mode, VoxelMode)
        return mode

    @property
    def layers(self) -> LayerMode:
        """The mode of layers."""
        mode = self._mode(LAYERS)
        assert isinstance(mode, LayerMode)
        return mode

    @property
    def mode(self) -> str:
        """The mode on screen."""
        return self._current

    def set_mode(self, mode: str) -> None:
        """Bring another mode on screen."""
        left, self._current = self._modes.get(self._current), mode
        entered = self._mode(mode)
        with QSignalBlocker(self.switch):
            self.switch.choose(mode)
        self.run_form = self.run_display = entered
        self.plots.set_mode(mode)
        if left is not None and left is not entered:
            left.hide()
            left.leave()
            left.made_with = self.stale_line.made_with
            self.clear_message()
            self.show_status("")
            entered.enter()
            self.stale_line.show_of(entered.made_with)
        entered.show()

    def needs(self) -> tuple[str, ...]:
        """What the mode on screen needs compiled."""
        return ("light/light in voxels",) if self._current == VOXELS else ("layered",)

    def take_draft(self) -> Callable[[], Operation] | None:
        """Read the inputs of the mode on screen, and return what makes an operation of them."""
        return self.run_form.take_draft()

    def show_draft(self, operation: Operation) -> bool:
        """Show a run as the inputs of its mode; returns whether layers show all of it."""
        mode = {Simulate: VOXELS, SimulateLayers: LAYERS}.get(type(operation))
        if mode is None:
            return False
        self.set_mode(mode)
        return self.run_form.show_draft(operation)

    def _mode(self, name: str) -> LightMode[Any]:
        """The mode of a name, made if need be."""
        if name not in self._modes:
            made: LightMode[Any]
            if name == VOXELS:
                made = VoxelMode(self, self.plots)
            else:
                made = LayerMode(self, self.plots, self._simulate_phantom)
            self._modes[name] = made
            made.setVisible(name == self._current)
            if name == self._current:  # before its parts come, which begin a quick run of what a file brought
                self.run_form = self.run_display = made
            self.inputs.addWidget(made)
            for part in made.parts():
                self.own(part)
            if name != self._current:
                made.leave()
        return self._modes[name]

    def _simulate_phantom(self, layer: Any) -> None:
        """Show a voxel phantom of layers in the mode of voxels."""
        self.set_mode(VOXELS)
        self.voxels.labels_box.choose(layer)

    def teardown(self) -> None:
        """End runs, give the mouse back and let the layers go."""
        for mode in self._modes.values():
            for job in mode.jobs():
                job.abandon()
        super().teardown()
