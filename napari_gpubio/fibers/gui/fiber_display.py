"""What the tracking panel shows in the viewer: a layer of markers, one of fibers for each bundle, fitted maps."""

from typing import Any

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import FOLLOWS, IN_MM, KEY, carried
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.reading import NOTES
from napari_gpubio.core.space import slice_steps_mm, world_to_viewer
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.gui.records import add_maps
from napari_gpubio.diffusion.gui.source import Trackable
from napari_gpubio.diffusion.model import DiffusionScan, TensorField
from napari_gpubio.fibers.gui.bundles import Bundle, BundleList
from napari_gpubio.fibers.gui.tracing import BundleSettings, Traced
from napari_gpubio.fibers.seeds import AtPoints
from napari_gpubio.gui import theme
from napari_gpubio.gui.forms import notes_text
from napari_gpubio.gui.layers import set_marks
from napari_gpubio.gui.lines import Lines
from napari_gpubio.gui.looks import options_of
from napari_gpubio.gui.run_parts import RunDisplay
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tractograms.gui.fibers import fiber_layer, pack_fibers
from napari_gpubio.tractograms.model import Tractogram

MARKER_DIAMETER_MM = 4.0  # as far as slices are concerned
CROSSINGS = "crossings"  # in a layer of fibers: notes on the crossings on their way, once a worker has found them
_RING_PIXELS = (5, 16)  # on the canvas; vispy makes a ring at least half as thick as the first number


class FiberDisplay(QObject, RunDisplay):
    """Shows results of tracking and keeps the viewer's layers in step with the bundles."""

    fibers_shown = Signal(object)  # their layer
    tensors_shown = Signal(object)  # the layer of their FA
    note_occurred = Signal(str)

    def __init__(self, viewer: Any, bundles: BundleList, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.viewer = viewer
        self._bundles = bundles
        self.is_adding = False  # while it is, napari has another active layer than the user chose
        self._known: set[object] = set()  # keys of all bundles that have been in the list

    # -- results of runs ------------------------------------------------------------------------------------------

    def show_preview(self, traced: Traced) -> None:
        """Show the fibers that a run has traced so far, unless their bundle is gone."""
        name, key = traced.draft.name, traced.draft.key
        if isinstance(key, int):
            bundle = self._bundles.find(key)
            if bundle is None:
                return
            name = bundle.name
        if traced.fibers is not None:
            layer = self.set_fibers(key, name, traced.fibers, traced.lines)
            record = None if traced.record is None else record_of_output(traced.record.output())
            first = f"{name} holds the first {len(traced.fibers):,} fibers of a run that did not finish"
            layer.metadata[KEY][NOTES] = [*traced.fibers.notes, *(() if traced.fibers.complete else (first,))]
            about = {"settings": traced.draft.settings, "seeds_mm": traced.seeds_mm, CROSSINGS: None, RECORD: record}
            layer.metadata[KEY].update(about)
            self.fibers_shown.emit(layer)

    def show_result(self, traced: Traced) -> None:
        """Show the fibers, and the tensors if they were fitted."""
        self.keep_result(traced)
        if traced.fibers is None:
            self.note_occurred.emit(
                "The fit was stopped before it finished, so there are no tensors yet. Press Track to fit again."
            )
            return
        self.show_preview(traced)
        if not len(traced.fibers):
            launched = traced.fibers.parameters.get("launched", 0)
            shortest = traced.fibers.parameters["lengths"]["min_length_mm"]
            least = "Stop below FOD" if isinstance(traced.field, FodField) else "Stop below FA"
            self.note_occurred.emit(
                f"None of the {launched:,} fibers is longer than {shortest:g} mm. Move the seed into white matter, "
                f"or lower “{least}” or “Minimum length”."
            )

    def keep_result(self, traced: Traced) -> None:
        """Show tensors that were fitted, even if other fibers have been requested since."""
        field, source = traced.field, traced.draft.source
        if not isinstance(source, DiffusionScan) or not isinstance(field, TensorField) or not field.complete:
            return
        self.tensors_shown.emit(add_maps(self.viewer, field, source, traced.draft.study))
        self.raise_fibers()
        if field.notes:
            self.note_occurred.emit(notes_text(field.notes))

    # -- fibers ---------------------------------------------------------------------------------------------------

    def fiber_layer(self, key: object) -> Any | None:
        """Return the layer of a bundle's (a region's, a file's) fibers, or None if there is none (any more)."""
        return next((x for x in self.viewer.layers if isinstance(x, Streamlines) and key_of(x) == key), None)

    def settings_of(self, key: object) -> BundleSettings | None:
        """Return the settings that made the fibers of a key, or None if there are none."""
        layer = self.fiber_layer(key)
        return None if layer is None else settings_of(layer)

    def set_fibers(self, key: object, name: str, fibers: Tractogram, lines: Lines | None = None) -> Any:
        """Put fibers into their layer if they have one, else into a new one; ``lines``: as a worker packed them."""
        layer = self.fiber_layer(key)
        if lines is None:
            lines = pack_fibers(fibers, None if layer is None else layer.paint)
        if layer is not None:
            layer.set_lines(lines)
            layer.metadata[KEY] = {**layer.metadata[KEY], "bundle": key, "tractogram": fibers}
            return layer
        layer = fiber_layer(fibers, name, beside=self.viewer.layers, lines=lines, metadata={"bundle": key})
        self._add_fibers(layer)
        return layer

    def copy_fibers(self, key: object, copy: Bundle) -> Any | None:
        """Give a bundle a copy of another one's fibers, with the same looks and settings; None if it has none."""
        layer = self.fiber_layer(key)
        if layer is None:
            return None
        metadata = {**layer.metadata[KEY], "bundle": copy.key}
        twin = fiber_layer(
            metadata["tractogram"], copy.name, beside=self.viewer.layers, metadata=metadata, **options_of(layer)
        )
        if layer.color_image is not None:
            twin.color_by_image(layer.color_image)
            twin.contrast_limits = layer.own_limits
        twin.filters = layer.filters
        self._add_fibers(twin)
        return twin

    def bundles_on_screen(self) -> list[Bundle]:
        """Return the bundles whose fibers are on screen, as far as their seeds are known."""
        found: dict[object, Bundle] = {}
        for layer in self.viewer.layers:
            key, settings = key_of(layer), settings_of(layer)
            if isinstance(key, int) and settings is not None and isinstance(settings.seeds, AtPoints):
                color = theme.REGIONS[len(found) % len(theme.REGIONS)]
                found.setdefault(key, Bundle(key=key, name=layer.name, center_mm=settings.seeds.seed[0], color=color))
        return list(found.values())

    def follow_bundles(self) -> None:
        """Take the fibers of removed bundles away, and give all their names."""
        layers = self.viewer.layers
        self._known |= {bundle.key for bundle in self._bundles}
        for layer in [x for x in layers if isinstance(x, Streamlines)]:
            key = key_of(layer)
            if key in self._known and self._bundles.find(key) is None:
                layers.remove(layer.name)
        for bundle in self._bundles:
            fibers = self.fiber_layer(bundle.key)
            if fibers is not None and fibers.name != bundle.name:
                fibers.name = bundle.name

    def _add_fibers(self, layer: Streamlines) -> None:
        """Add a layer; the one that is active in napari stays so."""
        active = self.viewer.layers.selection.active
        self.is_adding = True
        try:
            self.viewer.add_layer(layer)
            if active is not None and active in self.viewer.layers:
                self.viewer.layers.selection.active = active
        finally:
            self.is_adding = False
        self.raise_fibers()

    def raise_fibers(self) -> None:
        """Put fibers above images, and the markers above all."""
        layers = self.viewer.layers
        for layer in [x for x in layers if isinstance(x, Streamlines)] + [x for x in layers if _is_seeds(x)]:
            layers.move(layers.index(layer.name), len(layers))

    # -- markers --------------------------------------------------------------------------------------------------

    def set_markers(self, bundles: list[Bundle], source: Trackable | None, *, adds: bool = True) -> None:
        """Show the markers of bundles in the space of a scan or of tensors; ``adds``: also if there is no layer yet."""
        layer = next((x for x in self.viewer.layers if _is_seeds(x)), None)
        if layer is not None and not bundles:
            layer.data = np.empty((0, 3))
        if source is None or not bundles:
            return
        step = slice_steps_mm(source.affine)
        positions = world_to_viewer([b.center_mm for b in bundles]) / step
        colors = [b.color for b in bundles]
        if layer is not None:
            layer.scale = step
            set_marks(layer, positions)
            layer.border_color = colors
            return
        if not adds:
            return
        active = self.viewer.layers.selection.active
        self.viewer.add_points(
            positions,
            name="seeds",
            scale=step,
            size=MARKER_DIAMETER_MM / float(step.mean()),
            face_color="transparent",  # a ring, through which one sees the voxel
            border_color=colors,
            border_width=0.15,
            canvas_size_limits=_RING_PIXELS,
            projection_mode="rescale_spherical",  # a ball, cut by the slice
            symbol="o",
            blending="translucent_no_depth",  # a seed inside its bundle must stay visible
            metadata={KEY: {"seeds": True, FOLLOWS: True}},
            **IN_MM,
        )
        if active is not None:
            self.viewer.layers.selection.active = active


def settings_of(layer: Any) -> BundleSettings | None:
    """Return the settings that made the fibers of a layer, or None if it was opened from a file, or is another one."""
    found = carried(layer, "settings")
    return found if isinstance(found, BundleSettings) else None


def keep_crossings(layer: Any, notes: tuple[str, ...]) -> None:
    """Keep what was found of the crossings on the way of the fibers of a layer."""
    kept = layer.metadata[KEY]
    kept.update({CROSSINGS: notes, NOTES: [*kept.get(NOTES, ()), *notes]})


def key_of(layer: Any) -> object:
    """Return the key of a fiber layer: a number for a bundle, a text for a region or a file, None for others."""
    return carried(layer, "bundle")


def _is_seeds(layer: Any) -> bool:
    return bool(carried(layer, "seeds"))
