"""What the tracking panel shows in the viewer: a layer of markers, one of fibers for each bundle, fitted maps."""

from typing import Any

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.napari_io import IN_MM, KEY
from napari_gpubio.core.space import slice_steps_mm, world_to_viewer
from napari_gpubio.gui import theme
from napari_gpubio.gui.lines import Lines
from napari_gpubio.gui.panel import RunDisplay
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tracts.gui.bundles import Bundle, BundleList
from napari_gpubio.tracts.gui.request import Traced, pack_fibers
from napari_gpubio.tracts.gui.results import notes_text
from napari_gpubio.tracts.model import DiffusionScan, TensorField, Tractogram
from napari_gpubio.tracts.napari_io import map_layer, scan_of

MARKER_MM = 4.0  # diameter of a marker


class FiberDisplay(QObject, RunDisplay):
    """Shows results of tracking and keeps the viewer's layers in step with the bundles."""

    fibers_shown = Signal(object)  # their layer
    tensors_shown = Signal(object)  # the layer of their FA
    note_occurred = Signal(str)

    def __init__(self, viewer: Any, bundles: BundleList, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.viewer = viewer
        self._bundles = bundles

    # -- results of runs ------------------------------------------------------------------------------------------

    def show_preview(self, traced: Traced) -> None:
        """Show the fibers that a run has traced so far, unless their bundle is gone."""
        name, key = traced.request.name, traced.request.key
        if isinstance(key, int):
            bundle = self._bundles.find(key)
            if bundle is None:
                return
            name = bundle.name
        if traced.fibers is not None:
            self.fibers_shown.emit(self.set_fibers(key, name, traced.fibers, traced.lines))

    def show_result(self, traced: Traced) -> None:
        """Show the fibers, and the tensors if they were fitted."""
        self.keep_result(traced)
        if traced.fibers is None:
            self.note_occurred.emit(
                "The fit was stopped before its end, so there are no tensors yet. Press Track to fit again."
            )
            return
        self.show_preview(traced)
        if not len(traced.fibers):
            launched, shortest = traced.fibers.parameters.get("launched", 0), traced.request.settings.min_length_mm
            self.note_occurred.emit(
                f"None of {launched} fibers is longer than {shortest:g} mm. Move the seed into white matter, "
                "or lower 'Stop below FA' or 'Shortest'."
            )

    def keep_result(self, traced: Traced) -> None:
        """Show tensors that were fitted, even if other fibers have been requested since."""
        field, source = traced.field, traced.request.source
        if not isinstance(source, DiffusionScan) or not field.complete:
            return
        for name in ("FA", "DEC"):
            data, keywords, _ = map_layer(field, name, traced.request.study)
            keywords["metadata"][KEY]["recipe"] = (
                f"scan = tracts.io.read_dwi({str(field.path)!r})",
                f"field = tracts.fit_tensors(scan, device={traced.request.device!r})",
            )
            layer = self.viewer.add_image(data, **keywords)
            if name == "FA":
                self.tensors_shown.emit(layer)
        for layer in self.viewer.layers:
            if scan_of(layer) is source:
                layer.visible = False
        self._raise_fibers()
        if field.notes:
            self.note_occurred.emit(notes_text(field.notes))

    # -- fibers ---------------------------------------------------------------------------------------------------

    def fiber_layer(self, key: object) -> Any | None:
        """Return the layer of a bundle's (a region's, a file's) fibers, or None if there is none (any more)."""
        return next((x for x in self.viewer.layers if isinstance(x, Streamlines) and key_of(x) == key), None)

    def set_fibers(self, key: object, name: str, fibers: Tractogram, lines: Lines | None = None) -> Any:
        """Put fibers into their layer if they have one, else into a new one; ``lines``: as a worker packed them."""
        layer, carried = self.fiber_layer(key), {"bundle": key, "tractogram": fibers}
        if lines is None:
            lines = pack_fibers(fibers, None if layer is None else layer.paint)
        if layer is not None:
            layer.set_lines(lines)
            layer.metadata[KEY] = carried
            return layer
        step = slice_steps_mm(fibers.affine)
        active = self.viewer.layers.selection.active
        layer = Streamlines(lines=lines, slider_step=step, name=name, metadata={KEY: carried}, **IN_MM)
        self.viewer.add_layer(layer)
        if active is not None and active in self.viewer.layers:
            self.viewer.layers.selection.active = active
        self._raise_fibers()
        return layer

    def rename_and_remove_fibers(self) -> None:
        """Remove fibers whose bundle is gone, and give the others the names of their bundles."""
        for layer in [x for x in self.viewer.layers if isinstance(x, Streamlines) and isinstance(key_of(x), int)]:
            bundle = self._bundles.find(key_of(layer))
            if bundle is None:
                self.viewer.layers.remove(layer.name)
            elif layer.name != bundle.name:
                layer.name = bundle.name

    def _raise_fibers(self) -> None:
        """Put fibers above images, and the markers above all."""
        layers = self.viewer.layers
        for layer in [x for x in layers if isinstance(x, Streamlines)] + [x for x in layers if _is_seeds(x)]:
            layers.move(layers.index(layer.name), len(layers))

    # -- markers --------------------------------------------------------------------------------------------------

    def set_markers(self, bundles: list[Bundle], source: DiffusionScan | TensorField | None) -> None:
        """Show the markers of bundles in the space of a scan or of tensors."""
        layer = next((x for x in self.viewer.layers if _is_seeds(x)), None)
        if layer is not None and not bundles:
            layer.data = np.empty((0, 3))
        if source is None or not bundles:
            return
        step = slice_steps_mm(source.affine)
        positions = world_to_viewer([b.center_mm for b in bundles]) / step
        colors = [b.color for b in bundles]
        if layer is not None:
            layer.scale, layer.data, layer.face_color = step, positions, colors
            return
        active = self.viewer.layers.selection.active
        self.viewer.add_points(
            positions,
            name="seeds",
            scale=step,
            size=MARKER_MM / float(step.mean()),
            face_color=colors,
            border_color=theme.MARKER_BORDER,
            border_width=0.12,
            projection_mode="rescale_spherical",  # a ball, cut by the slice
            symbol="o",
            blending="translucent_no_depth",  # a seed inside its bundle must stay visible
            metadata={KEY: {"seeds": True}},
            **IN_MM,
        )
        if active is not None:
            self.viewer.layers.selection.active = active


def key_of(layer: Any) -> object:
    """Return the key of a fiber layer: a number for a bundle, a text for a region or a file, None for others."""
    return layer.metadata.get(KEY, {}).get("bundle")


def _is_seeds(layer: Any) -> bool:
    return bool(layer.metadata.get(KEY, {}).get("seeds"))
