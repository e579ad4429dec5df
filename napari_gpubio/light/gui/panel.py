"""The dock widget "Light transport": light in voxels or in layers, with one Run, one device and one set of plots."""

import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QSignalBlocker
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.steps import Step
from napari_gpubio.gui.forms import ChoiceButtons
from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.light.gui.layers import LayerMode
from napari_gpubio.light.gui.mode import Mode
from napari_gpubio.light.gui.plots import LAYERS, VOXELS, PlotController
from napari_gpubio.light.gui.voxels import VoxelMode

if TYPE_CHECKING:
    import napari.viewer

MODES = {
    VOXELS: ("Voxels", "Light in a segmented volume, from a source that is placed on its surface"),
    LAYERS: ("Layers", "Light in planar layers under a beam, as MCML has it; results over depth and radius"),
}


class LightPanel(EnginePanel):
    """Simulate light in voxels or in layers; switching loses nothing typed.

    ``mode`` is the one to begin with, ``voxels`` or ``layers``; the other one is made when it is first chosen.
    """

    warms = ("light",)

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None, *, mode: str = VOXELS) -> None:
        super().__init__(viewer, run_text="Run", parent=parent)
        self.plots = PlotController(viewer, self)
        self._modes: dict[str, Mode[Any]] = {}
        self._current = mode
        self._running_mode: Mode[Any] | None = None
        self.switch = ChoiceButtons(MODES, self)
        self.switch.changed.connect(self.set_mode)
        self.inputs.addWidget(self.switch)
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
        left, entered = self._modes.get(self._current), self._mode(mode)
        self._current = mode
        with QSignalBlocker(self.switch):
            self.switch.choose(mode)
        self.plots.set_mode(mode)
        if left is not None and left is not entered:
            left.hide()
            left.leave()
            self.clear_message()
            self.show_status("")
            entered.enter()
        entered.show()

    def _mode(self, name: str) -> Mode[Any]:
        """The mode of a name, made if need be."""
        if name not in self._modes:
            made: Mode[Any]
            if name == VOXELS:
                made = VoxelMode(self, self.plots)
            else:
                made = LayerMode(self, self.plots, self._simulate_phantom)
            self._modes[name] = made
            made.setVisible(name == self._current)
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

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Any]:
        """Read the inputs of the mode on screen and return its run."""
        mode = self._mode(self._current)
        steps = mode.make_steps(stop)
        self._running_mode = mode
        return steps

    def show_preview(self, preview: Any) -> None:
        """Show what a run has so far, in the mode that began it."""
        if self._running_mode is not None:
            self._running_mode.display(preview)

    def show_result(self, result: Any) -> None:
        """Show what a run gave, in the mode that began it."""
        if self._running_mode is not None:
            self._running_mode.display_run(result)

    # -- the script -----------------------------------------------------------------------------------------------

    def script(self, saved: Mapping[str, Path]) -> str:
        """Return a script that simulates what the mode on screen describes."""
        return self._mode(self._current).script(saved)

    def painted_layers(self) -> list[Any]:
        """Input layers that a script needs saved beside it."""
        return self._mode(self._current).painted_layers()

    def save_painted(self, layer: Any, folder: Path) -> Path:
        """Save an input layer into a folder."""
        return self._mode(self._current).save_painted(layer, folder)

    def teardown(self) -> None:
        """End runs, give the mouse back and let the layers go."""
        for mode in self._modes.values():
            for job in mode.jobs():
                job.abandon()
        super().teardown()
