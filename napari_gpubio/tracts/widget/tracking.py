"""The dock widget "Fiber tracking": click a seed, see its fibers, drag it."""

import dataclasses
import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from qtpy.QtCore import QTimer
from qtpy.QtWidgets import QFileDialog, QFormLayout, QWidget

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.space import viewer_to_world, voxel_sizes_mm, world_to_viewer
from napari_gpubio.core.steps import Step
from napari_gpubio.tracts.io.tractograms import read_tractogram
from napari_gpubio.tracts.layers import KEY, field_of, grid_of, map_layer, save_layer, saved_path, scan_of, volume_of
from napari_gpubio.tracts.model import DiffusionScan, TensorField, Tractogram
from napari_gpubio.tracts.settings import Directions, TrackSettings
from napari_gpubio.tracts.widget.bundle_layers import BundleLayers
from napari_gpubio.tracts.widget.bundles import Bundle, BundleList
from napari_gpubio.tracts.widget.context_box import ContextBox
from napari_gpubio.tracts.widget.request import PartialFibers, Position, Region, Request, Traced, thinned, traced_steps
from napari_gpubio.tracts.widget.results import ResultBox
from napari_gpubio.tracts.widget.seed_box import SeedBox
from napari_gpubio.tracts.widget.seed_tool import SeedTool, volume_to_click
from napari_gpubio.tracts.widget.tracking_script import tracking_script
from napari_gpubio.viewer.forms import ParamForm
from napari_gpubio.viewer.jobs import LatestJob, Outcome
from napari_gpubio.viewer.layer_box import LayerBox
from napari_gpubio.viewer.panel import EnginePanel, heading
from napari_gpubio.viewer.view_box import ViewBox

PREVIEW_FIBERS = 200
RETRACK_MS = 300
WIDGET_DIRECTIONS = Directions(count=10, cone_half_angle_deg=15.0)


class TrackingPanel(EnginePanel):
    """Track fibers from clicked seeds.

    Parameters
    ----------
    viewer
        The napari viewer.
    """

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None) -> None:  # noqa: F821
        super().__init__(viewer, run_text="Track", parent=parent)
        self.bundles = BundleList()
        self._preview = LatestJob(self)
        self._rerun, self._voxel_edge = False, 0.0
        self._partial = PartialFibers("")
        self._retrack = QTimer(self)
        self._retrack.setSingleShot(True)
        self._retrack.setInterval(RETRACK_MS)
        self._fill()
        self.layers = BundleLayers(viewer)
        self.tool = SeedTool(viewer, self._marker_positions, self._clicked_layer, self)
        self._connect()
        self._on_source()

    # -- the inside of the panel ----------------------------------------------------------------------------------

    def _fill(self) -> None:
        self.source_box = LayerBox(
            self.viewer,
            _is_source,
            empty="open a diffusion scan, or File › Open Sample",
            parent=self,
        )
        self.seed_box = SeedBox(self.viewer, self)
        self.directions_form = ParamForm(WIDGET_DIRECTIONS, parent=self)
        self.settings_form = ParamForm(TrackSettings(), parent=self)
        self.results = ResultBox(self)
        self.view_box = ViewBox(self.viewer, self)
        self.context_box = ContextBox(self)
        top = QFormLayout()
        top.addRow("Tensors", self.source_box)
        self.inputs.addLayout(top)
        for title, parts in (
            ("Seeds", (self.seed_box, self.directions_form)),
            ("Fibers", (self.settings_form,)),
            ("Result", (self.results,)),
            ("View", (self.view_box, self.context_box)),
        ):
            self.inputs.addWidget(heading(title, self))
            for part in parts:
                self.inputs.addWidget(part)
        self._show_fitting_rows()

    def _connect(self) -> None:
        self.source_box.currentIndexChanged.connect(self._on_source)
        self.tool.placed.connect(self._on_placed)
        self.tool.grabbed.connect(self._on_grabbed)
        self.tool.dragged.connect(self._on_dragged)
        self.tool.dropped.connect(self._on_dropped)
        self.tool.picked.connect(self._on_picked)
        self.tool.missed.connect(lambda: self.show_note("The click met no voxel of the tensors; click in the brain."))
        self.seed_box.placing_changed.connect(self._on_placing)
        self.seed_box.chosen.connect(self._on_chosen)
        self.seed_box.renamed.connect(self._on_renamed)
        self.seed_box.add_wanted.connect(self._on_add)
        self.seed_box.remove_wanted.connect(self._on_remove)
        self.seed_box.undo_wanted.connect(self._on_undo)
        for form in (self.settings_form, self.directions_form, self.seed_box.form):
            form.changed.connect(self._on_settings)
        self._retrack.timeout.connect(self.run_again)
        self.results.save_wanted.connect(self._on_save)
        self.results.open_wanted.connect(self._on_open)
        self.context_box.changed.connect(self._show_context)
        self._preview.finished.connect(self._on_preview)

    def _on_settings(self) -> None:
        """Follow the settings: the fibers on screen are traced again, once the user pauses."""
        self._show_fitting_rows()
        if self.results.layer is not None:
            self._retrack.start()

    def _show_fitting_rows(self) -> None:
        """Show only the inputs that matter for the chosen method and directions."""
        form, method = self.settings_form, self.settings_form.widget("method").value
        geodesic = method != "eudx"
        form.set_row_visible("metric", visible=geodesic)
        form.set_row_visible("sharpening", visible=geodesic and form.widget("metric").value == "sharpened")
        form.set_row_visible("max_drift", visible=geodesic)
        form.set_row_visible("interpolation", visible=method == "hamiltonian")
        form.set_row_visible("texture", visible=method == "vanaart2011")
        kind = self.directions_form.widget("kind").value
        self.directions_form.set_row_visible("count", visible=kind != "principal")
        self.directions_form.set_row_visible("cone_half_angle_deg", visible=kind == "cone")

    # -- the data -------------------------------------------------------------------------------------------------

    @property
    def source(self) -> DiffusionScan | TensorField | None:
        """The chosen layer's tensors, or its diffusion scan, or None."""
        layer = self.source_box.layer
        if layer is None:
            return None
        return field_of(layer) or scan_of(layer)

    @property
    def field(self) -> TensorField | None:
        """The chosen tensors, or None while there is only a scan."""
        return self.source if isinstance(self.source, TensorField) else None

    def _layer_of(self, scan: DiffusionScan) -> Any:
        return next((x for x in self.viewer.layers if scan_of(x) is scan), self.source_box.layer)

    def _on_source(self, *_: Any) -> None:
        source = self.source
        if source is not None:
            edge = float(voxel_sizes_mm(source.affine).min())
            if edge != self._voxel_edge:  # another grid; on the same one the user's own step stays
                self._voxel_edge = edge
                self.settings_form.widget("step_mm").value = max(round(0.2 * edge, 2), 0.01)
        self._show_bundles()

    def _clicked_layer(self) -> Any | None:
        """Layer whose volume a click means."""
        if self.field is not None:
            return volume_to_click(self.viewer, self.field) or self.source_box.layer
        return self.source_box.layer

    def _world(self, position: Any) -> Position:
        source = self.source
        if source is None:
            raise InvalidInput("there are no tensors; open a diffusion scan, or File › Open Sample")
        x, y, z = viewer_to_world(position, source.affine, source.shape)
        return float(x), float(y), float(z)

    def _marker_positions(self) -> Any:
        if self.source is None or not len(self.bundles):
            return []
        return world_to_viewer([b.centre_mm for b in self.bundles], self.source.affine, self.source.shape)

    # -- seeds ----------------------------------------------------------------------------------------------------

    def place_seed(self, centre_mm: Position, *, new: bool = False) -> None:
        """Put the current bundle's seed (or a new one's) at a world position in mm, and track it."""
        if new or self.bundles.current is None:
            self.bundles.add(centre_mm)
        else:
            self.bundles.move(centre_mm)
        self.seed_box.use_ball()
        self._show_bundles()
        self._go_to(centre_mm)
        self.run_again()

    def _go_to(self, centre_mm: Position) -> None:
        """Move the slices on screen, and the plane in 3-D, to a world position."""
        if self.source is None:
            return
        position = world_to_viewer(centre_mm, self.source.affine, self.source.shape)
        axes = range(self.viewer.dims.ndim - 3, self.viewer.dims.ndim)
        self.viewer.dims.set_point(list(axes), [float(p) for p in position])
        self._show_context()

    def _show_context(self) -> None:
        """Show FA as the user wants it in 3-D."""
        layer = None if self.field is None else volume_to_click(self.viewer, self.field)
        current = self.bundles.current
        if layer is not None and self.source is not None and current is not None:
            seed = world_to_viewer(current.centre_mm, self.source.affine, self.source.shape)
            self.context_box.apply(layer, seed)

    def _on_placed(self, position: Any, new: bool) -> None:
        try:
            self.place_seed(self._world(position), new=new)
        except GpuBioError as error:
            self.show_error(str(error))

    def _on_grabbed(self, index: int) -> None:
        self.bundles.choose(index)
        self._show_bundles()

    def _on_dragged(self, position: Any) -> None:
        if self.source is None or self.bundles.current is None:
            return
        centre = self._world(position)
        others = [b.centre_mm for b in self.bundles]
        others[self.bundles.current_index] = centre
        self.layers.show_seeds(list(self.bundles), others, self.source)
        if self.field is not None:
            self._preview.submit(self._preview_steps(dataclasses.replace(self.bundles.current, centre_mm=centre)))

    def _on_dropped(self, position: Any) -> None:
        self._preview.cancel()
        self._on_placed(position, False)

    def _preview_steps(self, bundle: Bundle) -> Any:
        """Fewer fibers of the same fan, to follow the mouse."""
        smaller = thinned(self._request(bundle), PREVIEW_FIBERS)
        return lambda stop: traced_steps(smaller, stop)

    def _on_preview(self, outcome: Outcome) -> None:
        if outcome.result is not None:
            self._show_fibers(outcome.result)

    def _on_placing(self, placing: bool) -> None:
        self.tool.placing = placing

    def _on_chosen(self, index: int) -> None:
        self.bundles.choose(index)
        self._show_bundles()

    def _on_renamed(self, name: str) -> None:
        was = self.bundles.current
        if was is None or was.name == name:
            return
        try:
            self.bundles.rename(name)
        except InvalidInput as error:
            self.show_error(str(error))
        else:
            self.layers.rename(was.name, name.strip())
        self._show_bundles()

    def _on_add(self) -> None:
        """Put a new bundle at the middle of what is shown; the user then drags it or clicks."""
        if self.source is None:
            self.show_error("there are no tensors; open a diffusion scan, or File › Open Sample")
            return
        middle = np.asarray(self.viewer.dims.point)[-3:]
        self.place_seed(self._world(middle), new=True)

    def _on_remove(self) -> None:
        if self.bundles.current is not None:
            self.layers.remove(self.bundles.current.name)
            self.bundles.remove()
            self._show_bundles()

    def _on_undo(self) -> None:
        before = {b.name: b.centre_mm for b in self.bundles}
        self.bundles.undo()
        after = {b.name: b.centre_mm for b in self.bundles}
        for name in before.keys() - after.keys():
            self.layers.remove(name)
        self._show_bundles()
        if self.bundles.current is not None and any(before.get(n) != c for n, c in after.items()):
            self.run_again()

    def _show_bundles(self) -> None:
        self.seed_box.show_bundles(self.bundles)
        if self.source is not None:
            self.layers.show_seeds(list(self.bundles), [b.centre_mm for b in self.bundles], self.source)
        current = self.bundles.current
        self.results.show_layer(None if current is None else self.layers.fibers_of(current.name))

    # -- running --------------------------------------------------------------------------------------------------

    def run_again(self) -> None:
        """Run with the inputs as they stand; if a run is under way, end it first."""
        if self.running:
            self._rerun = True
            self.stop()
        else:
            self.run()

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Traced]:
        """Read the inputs and return the tracking of the current bundle."""
        request = self._request(self.bundles.current)
        self._partial = PartialFibers(request.name)
        return traced_steps(request, stop)

    def show_preview(self, preview: Any) -> None:
        """Show what a long run has traced so far."""
        fibers = self._partial.add(preview)
        if fibers is not None:
            self.results.show_layer(self.layers.show_fibers(self._partial.name, fibers))

    def _request(self, bundle: Bundle | None) -> Request:
        source = self.source
        if source is None:
            raise InvalidInput("there are no tensors; open a diffusion scan, or File › Open Sample › napari-gpubio")
        labels = self.seed_box.label_layer
        if labels is None and bundle is None:
            raise InvalidInput("there is no seed; click in the brain, or choose a label region to seed from")
        return Request(
            name=bundle.name if labels is None and bundle is not None else f"{labels.name} {self.seed_box.label}",
            source=source,
            seeds=self.seed_box.settings,
            centre_mm=None if bundle is None else bundle.centre_mm,
            region=None
            if labels is None
            else Region(volume_of(labels), grid_of(labels)[0], self.seed_box.label, labels.name),
            directions=self.directions_form.value(),
            settings=self.settings_form.value(),
            device=self.device,
        )

    def show_result(self, result: Traced) -> None:
        """Show the fibers, and the tensors if they were fitted."""
        if isinstance(result.request.source, DiffusionScan):
            self._add_maps(result.field, self._layer_of(result.request.source), result.request.device)
        if self._rerun:
            self._rerun = False
            self.run()
            return
        self._show_fibers(result)
        self._show_context()
        launched = result.fibers.parameters.get("launched", 0)
        if not len(result.fibers):
            shortest = result.request.settings.min_length_mm
            self.show_note(
                f"None of {launched} fibers is longer than {shortest:g} mm. Move the seed into white matter, "
                "or lower 'Stop below FA' or 'Shortest'."
            )

    def _show_fibers(self, traced: Traced) -> None:
        layer = self.layers.show_fibers(traced.request.name, traced.fibers)
        self.results.show_layer(layer)
        self.results.show_numbers(traced.fibers)

    def _add_maps(self, field: TensorField, scan_layer: Any, device: str) -> None:
        recipe = (
            f"scan = tracts.read_dwi({str(field.path)!r})",
            f"field = tracts.fit_tensors(scan, device={device!r})",
        )
        for name in ("FA", "DEC"):
            data, keywords, _ = map_layer(field, name, scan_layer.name)
            keywords["metadata"][KEY]["recipe"] = recipe
            layer = self.viewer.add_image(data, **keywords)
            if name == "FA":
                self.source_box.choose(layer)
        scan_layer.visible = False
        self.layers.bring_to_front()
        if field.notes:
            self.show_note(". ".join(field.notes) + ".")

    def _on_picked(self, layer: Any, fiber: int) -> None:
        layer.select_fiber(fiber)
        self.results.show_fiber(layer, fiber)

    def _on_save(self) -> None:
        layer = self.results.layer
        fibers = None if layer is None else layer.metadata.get(KEY, {}).get("tractogram")
        if fibers is None:
            self.show_error("there are no fibers to save; click a seed first")
            return
        path, _ = QFileDialog.getSaveFileName(
            self, "Save fibers", f"{layer.name}.trk", "Tractograms (*.trk *.tck *.trx *.vtk)"
        )
        if path:
            self.save(fibers, path)

    def _on_open(self) -> None:
        path, _ = QFileDialog.getOpenFileName(self, "Open fibers", "", "Tractograms (*.trk *.trk.gz *.tck *.trx *.vtk)")
        if path:
            self.open_fibers(path)

    def open_fibers(self, path: str) -> None:
        """Show the fibers of a file in a layer of their own; what goes wrong is shown as a sentence."""
        source = self.source
        try:
            reference = None if source is None else (source.affine, source.shape)
            fibers = read_tractogram(path, reference=reference)
        except GpuBioError as error:
            self.show_error(str(error))
            return
        self.results.show_layer(self.layers.show_fibers(Path(path).name, fibers))
        self.results.show_numbers(fibers)

    def save(self, fibers: Tractogram, path: str) -> None:
        """Write fibers to a file; what goes wrong is shown as a sentence."""
        try:
            fibers.save(path)
        except (GpuBioError, OSError) as error:
            self.show_error(f"The fibers could not be saved: {error}")

    def script(self, saved: Mapping[str, Path]) -> str:
        """Return a script that tracks the current bundle as the panel would."""
        labels = self.seed_box.label_layer
        labels_path = None if labels is None else saved.get(labels.name) or saved_path(labels)
        return tracking_script(self._request(self.bundles.current), self.source_box.layer, labels_path)

    def painted_layers(self) -> list[Any]:
        """The label layer to seed from, if no file holds it as it is."""
        labels = self.seed_box.label_layer
        return [labels] if labels is not None and saved_path(labels) is None else []

    def save_painted(self, layer: Any, folder: Path) -> Path:
        """Save a label layer as NIfTI into a folder."""
        return save_layer(layer, folder)

    def teardown(self) -> None:
        """End runs, give the mouse back and free what is kept on a GPU."""
        self._retrack.stop()
        super().teardown()
        self._preview.abandon()
        self.tool.teardown()
        self.seed_box.teardown()
        self.view_box.teardown()
        if self.field is not None:
            self.field.cache.clear()
        self.source_box.teardown()


def _is_source(layer: Any) -> bool:
    """Whether a layer can be tracked in: a scan, or a map of tensors that can be clicked in 3-D too."""
    return scan_of(layer) is not None or (field_of(layer) is not None and not getattr(layer, "rgb", False))


def _region(layer: Any, label: int) -> Region:
    return Region(volume_of(layer), grid_of(layer)[0], label, layer.name)
