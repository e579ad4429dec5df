"""Makes voxel phantoms of the layers in a worker, and shows them from the side."""

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.napari_io import LayerData, carried
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.gui.views import camera_of
from napari_gpubio.light.layers.beams import Beam
from napari_gpubio.light.layers.model import LayeredMedium
from napari_gpubio.light.layers.napari_io import phantom_layer
from napari_gpubio.light.layers.phantom import plan_phantom, voxel_case, voxel_phantom

MADE = "Added {!r} with its optical properties. Open Plugins › Light transport to simulate it in voxels."
PLUGIN, VOXEL_PANEL = "napari-gpubio", "Light transport"


@dataclass(frozen=True, kw_only=True)
class PhantomRequest:
    """Everything that a phantom is made of, read in the GUI thread.

    Parameters
    ----------
    medium, sizes, source
        As `voxel_phantom` takes them.
    beam, photons, seed, cyclic
        As `voxel_case` takes them.
    """

    medium: LayeredMedium
    sizes: Mapping[str, Any]
    source: str
    beam: Beam | None
    photons: int
    seed: int
    cyclic: bool


class PhantomController(QObject):
    """Makes phantoms; ``noted`` and ``error_occurred`` carry sentences.

    Parameters
    ----------
    viewer
        The napari viewer.
    read
        Returns what is to be made; raises InvalidInput.
    make_room
        Called before a phantom is added.
    """

    noted = Signal(str)
    error_occurred = Signal(str)

    def __init__(
        self,
        viewer: Any,
        read: Callable[[], PhantomRequest],
        make_room: Callable[[], None],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._read, self._make_room = viewer, read, make_room
        self._simulates = False
        self._job = LatestJob(self)
        self._job.finished.connect(self._on_made)

    def make(self, *, simulate: bool = False) -> None:
        """Add the layers as labels with their optical properties, and open the panel that simulates them if wanted."""
        try:
            request = self._read()
            plan_phantom(request.medium, **request.sizes)  # what is wrong is said before anything is made
        except GpuBioError as error:
            self.error_occurred.emit(str(error))
            return
        self._simulates = simulate
        self._job.submit(lambda _stop: _making(request))

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
        self.noted.emit(" ".join([MADE.format(layer.name), *carried(layer, "case").notes]))
        if self._simulates and hasattr(self._viewer, "window"):
            self._viewer.window.add_plugin_dock_widget(PLUGIN, VOXEL_PANEL, tabify=True)


def _making(request: PhantomRequest) -> Generator[Step, None, LayerData]:
    yield Step(0, 1, "making the phantom …")
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
