"""Voxel phantoms of the layers: their sizes, and the worker that makes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from qtpy.QtCore import QObject, Signal
from qtpy.QtWidgets import QCheckBox, QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.napari_io import LayerData, carried
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.forms import Label, aligned_form, muted_label, row_label, row_of, text_button
from napari_gpubio.gui.jobs import LatestJob, Outcome, one_step
from napari_gpubio.gui.views import camera_of
from napari_gpubio.layered.beams import Beam
from napari_gpubio.layered.model import LayeredMedium
from napari_gpubio.layered.settings import LayeredSettings
from napari_gpubio.light.layered_phantom import ended_mm, plan_phantom, proposed_sizes, voxel_case, voxel_phantom
from napari_gpubio.light.napari_io import phantom_layer


class PhantomBox(QWidget):
    """Sizes of a voxel phantom, and how the layers fit in; ``requested`` carries whether to simulate it too."""

    requested = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._medium: LayeredMedium | None = None
        self._grid: LayeredSettings | None = None
        self._thicknesses: list[float] = []  # for which sizes were proposed
        self._proposed: tuple[float, ...] = ()
        self.height_box, self.across_box, self.width_box = (
            NumberBox(0.0, 1e6, 0.0, 6, self, step=0.01) for _ in range(3)
        )
        tip = "Light that leaves through one side re-enters at the opposite one, as if everything were infinitely wide"
        self._cyclic = QCheckBox("laterally infinite (cyclic sides)", self, toolTip=tip)
        self._note = muted_label(self)
        sizes = row_of(self.height_box, Label("high", self), self.across_box, Label("wide", self))
        sizes.setStretch(2, 1)
        width = row_of(self.width_box, Label("in x and in y", self))
        width.setStretch(1, 1)
        form = aligned_form(self)
        form.addRow(row_label("Voxel (mm)", "Height of a voxel in depth, and its width across", self), sizes)
        form.addRow(row_label("Width (mm)", "Extent of the phantom in x and y", self), width)
        form.addRow("", self._cyclic)
        form.addRow(self._note)
        tip = "Add a labels layer with these optical properties"
        make = text_button("Make voxel phantom", tip, self, lambda: self.requested.emit(False))
        tip = "Add it, and choose it in Voxels, with the same beam and photons"
        simulate = text_button("… and simulate it", tip, self, lambda: self.requested.emit(True))
        buttons = row_of(make, simulate)
        buttons.setStretch(1, 1)
        form.addRow(buttons)
        for box in (self.height_box, self.across_box, self.width_box):
            box.edited.connect(lambda _: self._show_note())

    @property
    def cyclic(self) -> bool:
        """Whether the sides are to be cyclic."""
        return self._cyclic.isChecked()

    @property
    def note(self) -> str:
        """What becomes of the layers."""
        return self._note.text()

    def show_inputs(self, medium: LayeredMedium | None, grid: LayeredSettings | None) -> None:
        """Describe the layers (None while they are invalid) on a grid that the phantom should cover.

        Sizes are proposed for other thicknesses, and until they are typed.
        """
        self._medium, self._grid = medium, grid
        if medium is not None and grid is not None:
            thicknesses = [layer.thickness_mm for layer in medium.layers]
            if thicknesses != self._thicknesses or self._shown() == self._proposed:
                self._thicknesses = thicknesses
                self._propose(medium, grid)
        self._show_note()

    @property
    def sizes(self) -> dict[str, Any]:
        """The sizes, as `voxel_phantom` takes them; a last layer without end ends where the grid does."""
        height, across, width = self._shown()
        depth = None if self._medium is None or self._grid is None else ended_mm(self._medium, self._grid, height)
        return {"voxel_mm": height, "across_mm": across, "width_mm": width, "depth_mm": depth}

    def _shown(self) -> tuple[float, ...]:
        return tuple(box.value() for box in (self.height_box, self.across_box, self.width_box))

    def _propose(self, medium: LayeredMedium, grid: LayeredSettings) -> None:
        """Show the sizes that fit the layers and the map."""
        boxes = (self.height_box, self.across_box, self.width_box)
        for box, value in zip(boxes, proposed_sizes(medium, grid), strict=True):
            box.show_value(value)
        self._proposed = self._shown()

    def _show_note(self) -> None:
        if self._medium is None:
            self._note.setText("")
            return
        try:
            plan = plan_phantom(self._medium, **self.sizes)
        except GpuBioError as error:
            self._note.setText(str(error))
            return
        x, y, z = plan.shape
        self._note.setText(" ".join([f"{x} × {y} × {z} voxels.", *plan.notes]))


MADE = "Added {!r} with its optical properties; choose Voxels above to simulate it."


@dataclass(frozen=True, kw_only=True)
class PhantomRequest:
    """Arguments of `voxel_phantom` and `voxel_case`, read in the GUI thread."""

    medium: LayeredMedium
    sizes: Mapping[str, Any]
    source: str
    beam: Beam | None
    photons: int
    seed: int
    cyclic: bool


class PhantomController(QObject):
    """Makes phantoms.

    ``make_room`` is called before a phantom is added, ``simulate`` with its layer if it is to be simulated.
    """

    noted = Signal(str)
    error_occurred = Signal(str)

    def __init__(
        self,
        viewer: Any,
        read: Callable[[], PhantomRequest],
        make_room: Callable[[], None],
        simulate: Callable[[Any], None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._read, self._make_room, self._simulate = viewer, read, make_room, simulate
        self._simulates = False
        self._job = LatestJob(self, self._on_made)

    def make(self, *, simulate: bool = False) -> None:
        """Add the layers as labels with their optical properties, and optionally simulate them."""
        try:
            request = self._read()
            plan_phantom(request.medium, **request.sizes)  # problems are shown before anything is made
        except GpuBioError as error:
            self.error_occurred.emit(str(error))
            return
        self._simulates = simulate
        self._job.submit(one_step("making the phantom …", partial(_made, request)))

    def abandon(self) -> None:
        """End what runs, and show nothing of it."""
        self._job.abandon()

    def _on_made(self, outcome: Outcome) -> None:
        if outcome.error:
            self.error_occurred.emit(outcome.error)
            return
        data, keywords, _ = outcome.result
        self._make_room()
        layer = self._viewer.add_labels(data, **keywords)
        _show_from_the_side(self._viewer, layer)
        if self._simulates:
            self._simulate(layer)
        else:
            self.noted.emit(" ".join([MADE.format(layer.name), *carried(layer, "case").notes]))


def _made(request: PhantomRequest) -> LayerData:
    medium = request.medium
    domain = voxel_phantom(medium, source=request.source, **request.sizes)
    case = voxel_case(
        domain,
        beam=request.beam,
        photons=request.photons,
        seed=request.seed,
        cyclic=request.cyclic,
        name=f"{medium.name or 'layers'} in voxels",
    )
    return phantom_layer(case)


def _show_from_the_side(viewer: Any, layer: Any) -> None:
    """Show a phantom in the slice through the beam, x across and depth downwards."""
    if viewer.dims.ndim != 3:
        return
    viewer.dims.order = (1, 0, 2)
    viewer.dims.set_point(1, 0.0)
    viewer.reset_view()
    every, own = (np.ptp(extent, axis=0)[[0, 2]] for extent in (viewer.layers.extent.world, layer.extent.world))
    camera = camera_of(viewer)
    camera.center = layer.extent.world.mean(axis=0)[[1, 0, 2]]
    camera.zoom *= float((every / own).min())
