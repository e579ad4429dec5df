"""The layers of the tracking panel: one of markers, and one of fibers for each bundle."""

from typing import Any

import numpy as np

from napari_gpubio.core.napari_io import KEY
from napari_gpubio.core.space import slice_steps_mm, world_layer_affine, world_to_viewer
from napari_gpubio.gui import theme
from napari_gpubio.gui.lines import Lines
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tracts.gui.bundles import Bundle, BundleList
from napari_gpubio.tracts.gui.request import pack_fibers
from napari_gpubio.tracts.gui.seed_tool import MARKER_MM
from napari_gpubio.tracts.model import DiffusionScan, TensorField, Tractogram

SEEDS_NAME = "seeds"


class BundleLayers:
    """Keeps the viewer's layers in step with the bundles.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: Any) -> None:
        self._viewer = viewer

    def fiber_layer(self, key: object) -> Any | None:
        """Return the layer of a bundle's (a region's, a file's) fibers, or None if there is none (any more)."""
        return next((x for x in self._viewer.layers if isinstance(x, Streamlines) and key_of(x) == key), None)

    def set_fibers(self, key: object, name: str, fibers: Tractogram, lines: Lines | None = None) -> Any:
        """Put fibers into their layer if they have one, else into a new one; ``lines``: as a worker packed them."""
        layer = self.fiber_layer(key)
        carried = {"bundle": key, "tractogram": fibers}
        if lines is None:
            lines = pack_fibers(fibers, None if layer is None else layer.paint)
        if layer is not None:
            layer.set_lines(lines)
            layer.metadata[KEY] = carried
            return layer
        affine = world_layer_affine(fibers.affine, fibers.shape)
        step = slice_steps_mm(fibers.affine, fibers.shape)
        layer = Streamlines(lines=lines, affine=affine, slider_step=step, name=name, metadata={KEY: carried})
        active = self._viewer.layers.selection.active
        self._viewer.add_layer(layer)
        if active is not None and active in self._viewer.layers:
            self._viewer.layers.selection.active = active
        self.raise_fibers()
        return layer

    def rename_and_remove(self, bundles: BundleList) -> None:
        """Remove fibers whose bundle is gone, and give the others the names of their bundles."""
        for layer in [x for x in self._viewer.layers if isinstance(x, Streamlines) and isinstance(key_of(x), int)]:
            bundle = bundles.find(key_of(layer))
            if bundle is None:
                self._viewer.layers.remove(layer.name)
            elif layer.name != bundle.name:
                layer.name = bundle.name

    def set_markers(self, bundles: list[Bundle], centers_mm: list[Any], source: DiffusionScan | TensorField) -> None:
        """Show the markers of all bundles at these world positions."""
        layer = next((x for x in self._viewer.layers if _is_seeds(x)), None)
        if not bundles:
            if layer is not None:
                layer.data = np.empty((0, 3))
            return
        step = slice_steps_mm(source.affine, source.shape)
        positions = world_to_viewer(centers_mm, source.affine, source.shape) / step
        colors = [b.color for b in bundles]
        if layer is None:
            active = self._viewer.layers.selection.active
            self._viewer.add_points(
                positions,
                name=SEEDS_NAME,
                scale=step,
                size=MARKER_MM / float(step.mean()),
                face_color=colors,
                border_color=theme.MARKER_BORDER,
                border_width=0.12,
                out_of_slice_display=True,
                symbol="o",
                blending="translucent_no_depth",  # a seed inside its bundle must stay visible
                metadata={KEY: {"seeds": True}},
            )
            if active is not None:
                self._viewer.layers.selection.active = active
            return
        layer.scale = step
        layer.data = positions
        layer.face_color = colors

    def raise_fibers(self) -> None:
        """Put fibers above images, and the markers above all."""
        layers = self._viewer.layers
        ours = [x for x in layers if isinstance(x, Streamlines)] + [x for x in layers if _is_seeds(x)]
        for layer in ours:
            layers.move(layers.index(layer.name), len(layers))


def key_of(layer: Any) -> object:
    """Return the key of a fiber layer: a number for a bundle, a text for a region or a file, None for others."""
    return layer.metadata.get(KEY, {}).get("bundle")


def _is_seeds(layer: Any) -> bool:
    return bool(layer.metadata.get(KEY, {}).get("seeds"))
