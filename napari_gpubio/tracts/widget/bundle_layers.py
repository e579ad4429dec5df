"""The layers of the tracking panel: one of markers, and one of fibers for each bundle."""

from typing import Any

import numpy as np

from napari_gpubio.core.space import world_layer_affine, world_to_viewer
from napari_gpubio.tracts.layers import KEY
from napari_gpubio.tracts.model import DiffusionScan, TensorField, Tractogram
from napari_gpubio.tracts.widget.bundles import Bundle
from napari_gpubio.viewer.streamlines import Streamlines

SEEDS_NAME = "seeds"
NOT_SHOWN = ("seed", "stop_reason_back")  # numbers that are kept and saved but mean little as a colour


class BundleLayers:
    """Keeps the viewer's layers in step with the bundles.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer

    def fibers_of(self, name: str) -> Any | None:
        """Return the layer of a bundle's fibers, or None if there is none (any more)."""
        for layer in self._viewer.layers:
            if isinstance(layer, Streamlines) and layer.metadata.get(KEY, {}).get("bundle") == name:
                return layer
        return None

    def show_fibers(self, name: str, fibers: Tractogram) -> Any:
        """Show a bundle's fibers, in its layer if it has one, else in a new one."""
        points = fibers.points[:, ::-1]
        per_fiber = {n: v for n, v in fibers.per_fiber.items() if n not in NOT_SHOWN and np.ndim(v) == 1}
        per_point = {n: v for n, v in fibers.per_point.items() if np.ndim(v) == 1}
        carried = {"bundle": name, "tractogram": fibers}
        layer = self.fibers_of(name)
        if layer is not None:
            layer.set_streamlines(points, fibers.offsets, per_fiber, per_point)
            layer.metadata[KEY] = carried
            return layer
        layer = Streamlines(
            points,
            fibers.offsets,
            per_fiber=per_fiber,
            per_point=per_point,
            affine=world_layer_affine(fibers.affine, fibers.shape),
            name=name,
            metadata={KEY: carried},
        )
        active = self._viewer.layers.selection.active
        self._viewer.add_layer(layer)
        if active is not None and active in self._viewer.layers:
            self._viewer.layers.selection.active = active
        self.bring_to_front()
        return layer

    def rename(self, old: str, new: str) -> None:
        """Follow a bundle's new name."""
        layer = self.fibers_of(old)
        if layer is not None:
            layer.metadata[KEY] = {**layer.metadata[KEY], "bundle": new}
            layer.name = new

    def remove(self, name: str) -> None:
        """Take a bundle's fibers away."""
        layer = self.fibers_of(name)
        if layer is not None:
            self._viewer.layers.remove(layer.name)

    def show_seeds(self, bundles: list[Bundle], centres_mm: list[Any], source: DiffusionScan | TensorField) -> None:
        """Show the markers of all bundles at these world positions."""
        layer = next((x for x in self._viewer.layers if _is_seeds(x)), None)
        if not bundles:
            if layer is not None:
                layer.data = np.empty((0, 3))
            return
        positions = world_to_viewer(centres_mm, source.affine, source.shape)
        colors = [b.color for b in bundles]
        if layer is None:
            active = self._viewer.layers.selection.active
            self._viewer.add_points(
                positions,
                name=SEEDS_NAME,
                size=4.0,
                face_color=colors,
                border_color="black",
                border_width=0.12,
                out_of_slice_display=True,
                symbol="o",
                blending="translucent_no_depth",  # a seed inside its bundle must stay visible
                metadata={KEY: {"seeds": True}},
            )
            if active is not None:
                self._viewer.layers.selection.active = active
            return
        layer.data = positions
        layer.face_color = colors

    def bring_to_front(self) -> None:
        """Put fibers above images, and the markers above all."""
        layers = self._viewer.layers
        ours = [x for x in layers if isinstance(x, Streamlines)] + [x for x in layers if _is_seeds(x)]
        for layer in ours:
            layers.move(layers.index(layer.name), len(layers))


def _is_seeds(layer: Any) -> bool:
    return bool(layer.metadata.get(KEY, {}).get("seeds"))
