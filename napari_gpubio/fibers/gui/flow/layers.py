"""The layers that show what flows, and by which routes: a result takes the place of the one before."""

from typing import Any

import numpy as np
from napari.layers import Image, Labels
from qtpy.QtCore import QObject

from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.layer_sources import layer_of
from napari_gpubio.core.operations.records import Output
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.fibers.gui.flow.inputs import Moved
from napari_gpubio.fibers.gui.flow.sources import COMPARED, SOURCE
from napari_gpubio.gui.lines import Lines
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tractograms.gui.fibers import fiber_layer
from napari_gpubio.tractograms.model import Tractogram

_ROUTE = "route"  # name of the filter that leaves one route
_BRIGHTEST = 99.0  # percent of the voxels that mass goes through
_LOOKS = {
    SOURCE: {"colormap": "inferno", "blending": "additive", "gamma": 0.6},
    COMPARED: {"colormap": "bop blue", "blending": "additive", "gamma": 0.6},
}


class FlowLayers(QObject):
    """The layers of the last results, by what they show: maps, losses, density, routes, fibers along.

    Parameters
    ----------
    viewer
        The napari viewer.
    parent
        The panel, with which undo keeps which layers these are.
    """

    kept = ("_shown",)

    def __init__(self, viewer: Any, parent: QObject) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._shown: dict[str, Any] = {}  # never changed in place

    def show_kept(self) -> None:
        """Do nothing: the layers themselves come back with the viewer's."""

    def detach(self) -> None:
        """Hold no layer."""
        self._shown = {}

    def find(self, which: str) -> Any | None:
        """Return the layer of a result, or None if the viewer has none."""
        layer = self._shown.get(which)
        return layer if layer is not None and layer in self._viewer.layers else None

    def there(self) -> list[Any]:
        """Return the layers that the viewer has."""
        return [layer for layer in self._shown.values() if layer in self._viewer.layers]

    def show_mass(self, which: str, moved: Moved | None) -> None:
        """Show the mass of a source in its layer, or in a new one; none: take the layer away."""
        if moved is None:
            if (layer := self.find(which)) is not None:
                self._viewer.layers.remove(layer)
            self._shown = {name: one for name, one in self._shown.items() if name != which}
            return
        mass, flow = moved.flow.mass, moved.flow
        there = mass[mass > 0]
        limits = 0.0, float(np.percentile(there, _BRIGHTEST)) if len(there) else 1.0
        volume = Volume(array=mass, affine=flow.affine, name=f"flow of {flow.name}")
        self.show_image(which, volume, moved.operation.output("mass"), contrast_limits=limits, **_LOOKS[which])

    def show_losses(self, moved: Moved) -> None:
        """Show where the mass of a source ends."""
        flow, output = moved.flow, moved.operation.output("losses")
        volume = Volume(array=flow.flow.losses(1), affine=flow.affine, name=f"losses of {flow.name}")
        self.show_image("losses", volume, output, colormap="magma", blending="additive")

    def show_image(self, which: str, volume: Volume, output: Output[Any], **look: Any) -> None:
        """Show a volume in the layer of the one before, if that is there and of its grid, or in a new one."""
        data, keywords, _ = layer_of(volume, output, **look)
        layer = self.find(which)
        if layer is not None and layer.data.shape == data.shape:
            layer.data, layer.metadata[KEY] = data, keywords["metadata"][KEY]
            layer.name = volume.name
            return
        active, layers = self._viewer.layers.selection.active, self._viewer.layers
        layer = self._viewer.add_image(data, **keywords)
        layers.move(len(layers) - 1, sum(isinstance(one, Image | Labels) for one in layers) - 1)
        if active is not None:
            layers.selection.active = active
        self._shown = {**self._shown, which: layer}

    def show_lines(
        self, which: str, name: str, fibers: Tractogram, lines: Lines, output: Output[Any], color_by: str
    ) -> None:
        """Show fibers in the layer of those before, if that is there, or in a new one."""
        layer = self.find(which)
        record = {RECORD: record_of_output(output)}
        if layer is not None:
            layer.set_filter(_ROUTE, None)
            layer.set_lines(lines)
            layer.metadata[KEY] = {"tractogram": fibers, **record}
            layer.name = name
        else:
            look = {"line_width": 3.0} if which == "routes" else {}
            layer = fiber_layer(fibers, name, beside=self._viewer.layers, lines=lines, metadata=record, **look)
            self._viewer.add_layer(layer)
            self._shown = {**self._shown, which: layer}
        if len(fibers) > 1:
            layer.color_by = color_by

    def show_route(self, row: int) -> None:
        """Show the fibers of one route alone, or of all if the row is below 0."""
        for which in ("routes", "along"):
            layer = self.find(which)
            if isinstance(layer, Streamlines) and "route" in layer.lines.per_fiber:
                layer.set_filter(_ROUTE, None if row < 0 else layer.lines.per_fiber["route"] == row + 1)
