"""The dock widget "Diffusion tensors": from a diffusion scan to tensors, maps and ellipsoids."""

import dataclasses
import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtWidgets import (
    QCheckBox,
    QFormLayout,
    QGridLayout,
    QGroupBox,
    QHBoxLayout,
    QWidget,
)

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.napari_io import KEY, carried, save_layer, saved_path, volume_of
from napari_gpubio.core.space import apply_affine, viewer_to_world
from napari_gpubio.core.steps import Step
from napari_gpubio.gui import theme
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.file_dialogs import open_path
from napari_gpubio.gui.forms import ParamForm, notes_text, text_button
from napari_gpubio.gui.labels import Label
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.gui.script import call_text
from napari_gpubio.gui.views import ViewBox
from napari_gpubio.tracts.gui.noise.box import NoiseBox
from napari_gpubio.tracts.gui.request import Mask
from napari_gpubio.tracts.gui.script import (
    Recipe,
    fit_script,
    is_map,
    maps_script,
    save_unsaved,
    scan_recipe,
    unsaved,
)
from napari_gpubio.tracts.gui.source import mask_in, scan_in, why_no_mask, why_no_scan
from napari_gpubio.tracts.io.dwi import read_dwi, read_volume
from napari_gpubio.tracts.io.tensor_images import read_tensors
from napari_gpubio.tracts.model import DiffusionScan, TensorField
from napari_gpubio.tracts.napari_io import (
    ellipsoid_layer,
    field_of,
    map_layer,
    scan_layers,
    scan_of,
    shows_signal_of,
)
from napari_gpubio.tracts.tensors.gradient_check import GradientCheck, check_gradients
from napari_gpubio.tracts.tensors.maps import nearby_voxels, scalar_map, slice_voxels
from napari_gpubio.tracts.tensors.run import fit_steps
from napari_gpubio.tracts.tensors.settings import FitSettings

if TYPE_CHECKING:
    import napari.viewer

MAPS = ("FA", "MD", "AD", "RD", "DEC", "S0")
SHOWN_AT_FIRST = ("FA", "DEC")
PLACES = {"slice": "in the current slice", "point": "around the center of the view"}


@dataclasses.dataclass(frozen=True, slots=True)
class Fitted:
    """Result of one run.

    ``recipe``: the lines of a script that make the tensors, or the reason why there are none; ``mask``: the
    mask that they read, if no file holds it.
    """

    scan: DiffusionScan
    field: TensorField
    check: GradientCheck
    study: str
    recipe: Recipe
    mask: Mask | None


class TensorPanel(EnginePanel):
    """Fit tensors; show scalar maps and ellipsoids."""

    warms = ("tracts",)

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None) -> None:
        super().__init__(viewer, run_text="Fit", parent=parent)
        self.shell_boxes: dict[int, QCheckBox] = {}
        self._fill()
        self.scan_box.currentIndexChanged.connect(self._on_scan)
        for part in (self.scan_box, self.mask_box, self.view_box, self.noise_box):
            self.own(part)
        self._on_scan()

    def _fill(self) -> None:
        hint = "open a scan (NIfTI + bval + bvec)"
        self.scan_box = LayerBox(self.viewer, why_no_scan, empty=hint, parent=self)
        self.mask_box = LayerBox(self.viewer, why_no_mask, nothing="automatic brain mask", parent=self)
        opening = QHBoxLayout()
        for text, tip, act in (
            ("Open scan…", "NIfTI with bval and bvec beside it, or MRtrix .mif", self._ask_for_scan),
            ("Open tensors…", "A tensor image from MRtrix, FSL, or DIPY", self._ask_for_tensors),
        ):
            opening.addWidget(text_button(text, tip, self, act))
        self.view_box = ViewBox(self.viewer, self)
        self.inputs.addWidget(self.view_box)
        top = QFormLayout()
        top.addRow(opening)
        top.addRow("Scan", self.scan_box)
        top.addRow("Mask", self.mask_box)
        self._shells = QHBoxLayout()
        top.addRow("b (s/mm²)", self._shells)
        self.inputs.addLayout(top)
        self.noise_box = NoiseBox(self, self.scan_box)
        self.inputs.addWidget(self.noise_box)
        self.form = ParamForm(FitSettings(), parent=self)
        self.inputs.addWidget(self.form)
        self.inputs.addWidget(self._map_choices())
        self.inputs.addWidget(self._glyph_controls())
        tip = "Open the Fiber tracking panel as a tab beside this one"
        self.inputs.addWidget(text_button("Track fibers…", tip, self, self.open_tracking))
        self.check_label = Label(self)
        self.check_label.setWordWrap(True)
        self.check_label.hide()
        self.inputs.addWidget(self.check_label)

    def _map_choices(self) -> QWidget:
        box = QGroupBox("Maps", self)
        grid = QGridLayout(box)
        self.map_boxes: dict[str, QCheckBox] = {}
        for place, name in enumerate(MAPS):
            self.map_boxes[name] = QCheckBox(name, box)
            self.map_boxes[name].setChecked(name in SHOWN_AT_FIRST)
            grid.addWidget(self.map_boxes[name], place // 3, place % 3)
        self.map_boxes["DEC"].setToolTip(
            "Direction-encoded color: red left–right, green anterior–posterior, blue superior–inferior"
        )
        return box

    def _glyph_controls(self) -> QWidget:
        box = QGroupBox("Ellipsoids", self)
        self._place = ElidedComboBox(box)
        for name, text in PLACES.items():
            self._place.addItem(text, name)
        row = QHBoxLayout(box)
        row.addWidget(self._place, 1)
        row.addWidget(text_button("Show", "Draw the tensors as ellipsoids", box, self.show_ellipsoids))
        return box

    def _on_scan(self, *_: Any) -> None:
        """Offer the shells of the chosen scan."""
        while (item := self._shells.takeAt(0)) is not None:
            item.widget().hide()  # it is deleted only in the event loop
            item.widget().deleteLater()
        self.shell_boxes = {}
        self.clear_message()
        scan = scan_of(self.scan_box.layer) if self.scan_box.layer is not None else None
        if scan is None:
            return
        for shell in scan.shells():
            box = QCheckBox(str(shell), self)
            box.setChecked(True)
            box.setToolTip(f"{np.count_nonzero(scan.shell_of == shell)} volumes near b = {shell} s/mm²")
            self._shells.addWidget(box)
            self.shell_boxes[shell] = box
        if not scan.is_b0.any():
            tip = "No volume is near b = 0, which tissue responses and S0 need: take those of the lowest shell"
            text = f"b ≤ {scan.lowest_bval:g} is b = 0"
            button = text_button(text, tip, self, self.take_lowest_shell)
            button.setObjectName("lowest_shell")
            self._shells.addWidget(button)

    def take_lowest_shell(self) -> None:
        """Take the volumes of the chosen scan's lowest shell as b = 0, in all panels."""
        scan = scan_in(self.scan_box.layer)
        taken = scan.with_b0_limit(scan.lowest_bval)
        for layer in self.viewer.layers:
            for name in ("scan", "mean_of"):
                if carried(layer, name) is scan:
                    layer.metadata[KEY][name] = taken
        self._on_scan()

    @property
    def settings(self) -> FitSettings:
        """The fit's settings as the panel shows them."""
        chosen = tuple(shell for shell, box in self.shell_boxes.items() if box.isChecked())
        everything = len(chosen) == len(self.shell_boxes)
        return dataclasses.replace(self.form.value(), shells=() if everything else chosen)

    # -- opening --------------------------------------------------------------------------------------------------

    def _ask_for_scan(self) -> None:
        if path := open_path(self, "Open a diffusion scan", "Scans (*.nii *.nii.gz *.mgz *.mif *.mif.gz *.mih)"):
            self.open_scan(path)

    def open_scan(self, path: str | Path) -> None:
        """Add a diffusion scan's layer; what goes wrong is shown as a sentence."""
        try:
            for data, keywords, _ in scan_layers(read_dwi(path), Path(path).name.split(".")[0]):
                layer = self.viewer.add_image(data, **keywords)
                self.scan_box.choose(layer)
        except GpuBioError as error:
            self.show_error(str(error))

    def _ask_for_tensors(self) -> None:
        if path := open_path(self, "Open a tensor image", "Tensors (*.nii *.nii.gz *.mif *.mif.gz)"):
            self.open_tensors(path)

    def open_tensors(self, path: str | Path) -> None:
        """Add the maps of a tensor image; what goes wrong is shown as a sentence."""
        try:
            field = read_tensors(path)
        except GpuBioError as error:
            self.show_error(str(error))
            return
        self._add_maps(field, field.path.name.split(".")[0] if field.path else "tensors", None)
        if field.notes:
            self.show_note(notes_text(field.notes))

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Fitted]:
        """Read the inputs and return the fit."""
        scan, study = self._chosen_scan()
        settings, device = self.settings, self.device
        if not settings.shells and not any(box.isChecked() for box in self.shell_boxes.values()):
            raise InvalidInput("no b-value is chosen; tick b = 0 and at least one shell")
        mask = mask_in(self.mask_box.layer, scan)
        maps = [name for name, box in self.map_boxes.items() if box.isChecked()]
        recipe, painted = self._recipe(), None if mask is None else self._painted_mask(mask, scan)

        def steps() -> Generator[Step, None, Fitted]:
            field = yield from fit_steps(scan, mask, settings, device=device, stop=stop)
            yield Step(1, 1, "checking the gradient table")
            for name in maps:
                scalar_map(field, name)  # made here, kept with the field, and only shown in the GUI thread
            return Fitted(scan, field, check_gradients(field), study, recipe, painted)

        return steps()

    def _chosen_scan(self) -> tuple[DiffusionScan, str]:
        """Return the scan and the name of its layer; InvalidInput if none is chosen."""
        layer: Any = self.scan_box.layer
        return scan_in(layer), str(layer.name)

    def show_result(self, result: Fitted) -> None:
        """Add the maps; show the notes of the fit and the result of the gradient check."""
        self._add_maps(result.field, result.study, result.recipe, result.mask)
        for layer in self.viewer.layers:
            if shows_signal_of(layer, result.scan):
                layer.visible = False
        self.check_label.setText(result.check.message)
        self.check_label.setStyleSheet("" if result.check.ok else theme.ERROR_STYLE)
        self.check_label.show()
        notes = list(result.field.notes)
        if not result.field.complete:
            notes.insert(0, "The fit was stopped early: only part of the volume has tensors")
        if notes:
            self.show_note(notes_text(notes))

    def _add_maps(self, field: TensorField, study: str, recipe: Recipe | None, mask: Mask | None = None) -> None:
        for name in MAPS:
            if self.map_boxes[name].isChecked() and not (name == "S0" and field.s0 is None):
                data, keywords, _ = map_layer(field, name, study)
                keywords["metadata"][KEY].update(recipe=recipe, mask=mask)
                self.viewer.add_image(data, **keywords)

    # -- ellipsoids -----------------------------------------------------------------------------------------------

    @property
    def field(self) -> TensorField | None:
        """The tensors of the active layer, or else of the newest layer that has some."""
        active = self.viewer.layers.selection.active
        layers = ([active] if active is not None else []) + list(reversed(self.viewer.layers))
        return next((field_of(layer) for layer in layers if is_map(layer)), None)

    def show_ellipsoids(self) -> None:
        """Draw the tensors of the slice on screen, or around the middle of the view."""
        field = self.field
        if field is None:
            self.show_error("there are no tensors to draw; fit a scan first")
            return
        world = viewer_to_world(np.asarray(self.viewer.dims.point))
        center = apply_affine(np.linalg.inv(field.affine), world)
        voxels, code = nearby_voxels(center, 4), f"tracts.tensors.nearby_voxels({center.tolist()!r}, 4)"
        if self._place.currentData() == "slice":
            axis, index = self._slice(field, center)
            voxels, code = slice_voxels(field, axis, index), f"tracts.tensors.slice_voxels(field, {axis}, {index})"
        try:
            data, keywords, _ = ellipsoid_layer(field, voxels)
        except GpuBioError as error:
            self.show_error(str(error))
            return
        for layer in [x for x in self.viewer.layers if carried(x, "ellipsoids")]:
            self.viewer.layers.remove(layer.name)
        source = next(x for x in self.viewer.layers if is_map(x) and field_of(x) is field)
        keywords["metadata"][KEY].update(ellipsoids=code, recipe=carried(source, "recipe"))
        self.viewer.add_surface(data, **keywords)
        self.clear_message()

    def _slice(self, field: TensorField, center: Any) -> tuple[int, int]:
        """Voxel axis and index of the slice on screen (of the last one, in 3-D)."""
        world_axis = 2 - (self.viewer.dims.order[-3] - (self.viewer.dims.ndim - 3))
        axis = int(np.argmax(np.abs(field.affine[world_axis, :3] / field.voxel_sizes_mm)))
        return axis, int(np.clip(round(float(center[axis])), 0, field.shape[axis] - 1))

    def open_tracking(self) -> None:
        """Open the panel "Fiber tracking" as a tab beside this one."""
        self.viewer.window.add_plugin_dock_widget("napari-gpubio", "Fiber tracking", tabify=True)

    # -- the script -----------------------------------------------------------------------------------------------

    def script(self, saved: Mapping[str, Path]) -> str:
        """Return a script that shows the maps that are on screen, or fits as the panel would if there are none."""
        layers = list(self.viewer.layers)
        if any(map(is_map, layers)):
            return maps_script(layers, saved)
        chosen = [name for name, box in self.map_boxes.items() if box.isChecked()]
        recipe, (scan, study) = self._recipe(), self._chosen_scan()
        mask = None if self.mask_box.layer is None else self._painted_mask(volume_of(self.mask_box.layer) > 0, scan)
        files = {} if mask is None else dict.fromkeys([mask.name], next(iter(saved.values())))
        return fit_script(recipe, chosen, study, layers, files)

    def painted_layers(self) -> list[Any]:
        """The layers that come with a mask that no file holds, or else the painted mask itself."""
        layers, mask = list(self.viewer.layers), self.mask_box.layer
        if any(map(is_map, layers)):
            return unsaved([layer for layer in layers if is_map(layer)])
        return [mask] if mask is not None and saved_path(mask, read_volume) is None else []

    def save_painted(self, layer: Any, folder: Path) -> Path:
        """Save a mask as NIfTI into a folder."""
        if is_map(layer):
            return save_unsaved(layer, self.viewer.layers, folder)
        return save_layer(layer, folder)

    def _painted_mask(self, mask: Any, scan: DiffusionScan) -> Mask | None:
        """The mask, if no file holds it as it is."""
        is_saved = saved_path(self.mask_box.layer, read_volume) is not None
        return None if is_saved else Mask(mask, scan.affine)

    def _recipe(self) -> Recipe:
        """The lines of a script that make the tensors, or the reason why there are none."""
        scan, _ = self._chosen_scan()
        made = scan_recipe(scan, self.scan_box.layer)
        if isinstance(made, str):
            return made
        lines = [*made]
        mask, mask_text = self.mask_box.layer, "None"
        if mask is not None:
            file = saved_path(mask, read_volume)
            path = Mask(volume_of(mask) > 0, scan.affine).name if file is None else str(file)
            lines.append(f"mask = tracts.io.read_mask({path!r}, scan.shape, scan.affine)")
            mask_text = "mask"
        settings = call_text("tracts", self.settings)
        return (*lines, f"field = tracts.fit_tensors(scan, {mask_text}, {settings}, device={self.device!r})")
