"""The dock widget "Fiber uncertainty": how far noise in a scan moves fibers that were tracked in it."""

import threading
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtWidgets import QFormLayout, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.napari_io import KEY, volume_layer
from napari_gpubio.core.steps import Step
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.forms import Folded, ParamForm
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.number_table import Number
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.gui.results import ResultBox
from napari_gpubio.gui.script import file_name
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tracts.gui.fibers import fiber_layer, fibers_of
from napari_gpubio.tracts.gui.layers import settings_of
from napari_gpubio.tracts.gui.numbers import READABLE, value_text
from napari_gpubio.tracts.gui.profiles.plot import Band, ProfilePlot
from napari_gpubio.tracts.gui.request import BundleSettings
from napari_gpubio.tracts.gui.script import region_seeds, seeds_name
from napari_gpubio.tracts.gui.source import HINT, why_no_scan
from napari_gpubio.tracts.gui.uncertainty.script import MAP, probability_name, uncertainty_script
from napari_gpubio.tracts.model import DiffusionScan, Tractogram
from napari_gpubio.tracts.napari_io import scan_of
from napari_gpubio.tracts.tensors.settings import FitSettings
from napari_gpubio.tracts.uncertainty import (
    Bootstrap,
    BootstrapSettings,
    ProfileInterval,
    bootstrap_steps,
    profile_interval,
)

if TYPE_CHECKING:
    import napari.viewer

NO_TRACKS = "there are no fibers that were tracked here; click in the Fiber tracking panel first"
NO_SCAN = "there is no diffusion scan whose noise could be drawn again; open the one that the fibers were tracked in"
OTHER_FIT = (
    "The fibers of this fit are not those of the layer, whose tensors were fitted with another mask or settings."
)


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    """Result of a run: the bootstrap of the fibers of a layer, and the interval of their FA profile if it has one."""

    layer: Any
    scan_layer: Any
    fibers: Tractogram
    found: Bootstrap
    profile: ProfileInterval | None


class UncertaintyPanel(EnginePanel):
    """Track again and again in tensors that the scan could as well have given."""

    warms = ("tracts", "gui")

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None) -> None:
        super().__init__(viewer, run_text="Bootstrap", parent=parent)
        self._result: Repeated | None = None
        self.fibers_box = LayerBox(viewer, _why_not_tracked, empty="track fibers in a diffusion scan", parent=self)
        self.scan_box = LayerBox(viewer, why_no_scan, empty=HINT, parent=self)
        self.form, self.fit_form = ParamForm(BootstrapSettings(), parent=self), ParamForm(FitSettings(), parent=self)
        self.plot = ProfilePlot(self)
        self.results = ResultBox("Choose fibers and press Bootstrap: their numbers get intervals.", self)
        self._fill()
        files = self.results.files
        connect_all(((files.status_changed, self.show_status), (files.error_occurred, self.show_error)))
        for part in (self.fibers_box, self.scan_box, self.results):
            self.own(part)

    def _fill(self) -> None:
        top = QFormLayout()
        top.addRow("Fibers", self.fibers_box)
        top.addRow("Scan", self.scan_box)
        self.inputs.addLayout(top)
        self.inputs.addWidget(self.form)
        folded = Folded("Tensor fit", self)
        folded.fold(self.fit_form)
        self.inputs.addWidget(folded)
        self.inputs.addWidget(heading("How certain they are", self))
        self.inputs.addWidget(self.results)
        self.results.content.addWidget(self.plot)
        self.plot.hide()  # until there is a profile
        add = self.results.add_button
        add("Show repeats", "Make a layer of the fibers of the repeats that were kept", self.show_repeats)
        add("Save table…", "Save the intervals as CSV", self._ask_to_save)

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Repeated]:
        """Read the inputs and return the bootstrap."""
        layer = self.fibers_box.needed(NO_TRACKS)
        scan_layer = self.scan_box.needed(NO_SCAN)
        scan, fibers = scan_of(scan_layer), fibers_of(layer)
        if scan is None or fibers is None:
            raise InvalidInput(NO_SCAN if scan is None else NO_TRACKS)
        resampling, fit = self.form.value(), self.fit_form.value()
        return _steps(layer, scan_layer, scan, fibers, resampling, fit, self.device, stop)

    def show_preview(self, preview: Any) -> None:
        """Show the intervals of the repeats so far."""
        if not isinstance(preview, Bootstrap):
            return  # the fit and the fibers of it come first
        self.results.show_numbers(_rows(preview), [("warning", note) for note in _sentences(preview.notes)])

    def show_result(self, result: Repeated) -> None:
        """Show the intervals, the map of visits, and the fibers colored by it."""
        self._result, found = result, result.found
        findings = [("warning", note) for note in _sentences(found.notes)]
        if not found.complete:
            findings.append(("warning", f"It was stopped after {found.repeats:,} repeats."))
        if not _are_same(found.fibers, result.fibers):
            findings.append(("warning", OTHER_FIT))
        self.results.show_numbers(_rows(found), findings)
        self.plot.setVisible(result.profile is not None)
        if (profile := result.profile) is not None:
            band, name = Band(profile.estimate, profile.low, profile.high), result.layer.name
            self.plot.draw({name: band}, {name: theme.REGIONS[0]}, "FA, 95 % interval")
        self._show_map(result)

    def _show_map(self, result: Repeated) -> None:
        """Show how probable each voxel is, in place of a map of these fibers that is there."""
        name = probability_name(result.layer.name)
        if name in self.viewer.layers:
            self.viewer.layers.remove(name)
        data, keywords, _ = volume_layer(result.found.probability, result.found.fibers.affine, name, **MAP)
        image = self.viewer.add_image(data, **keywords)
        if result.layer in self.viewer.layers:
            result.layer.color_by_image(image)
            layers = self.viewer.layers
            layers.move(layers.index(image.name), layers.index(result.layer.name))  # fibers stay above it
            layers.selection.active = result.layer

    def show_repeats(self) -> None:
        """Make a layer of the fibers of the repeats."""
        assert self._result is not None  # the button needs a result
        kept = self._result.found.kept
        if not len(kept):
            self.show_error("no fibers of repeats were kept; raise “Keep fibers of” and press Bootstrap")
            return
        layer = fiber_layer(kept, f"{self._result.layer.name} repeats", beside=self.viewer.layers)
        self.viewer.add_layer(layer)
        self.show_status(f"{len(kept):,} fibers of the first {self.form.value().kept_repeats:,} repeats")

    def _ask_to_save(self) -> None:
        assert self._result is not None  # the button needs a result
        found, name = self._result.found, f"{file_name(self._result.layer.name)} intervals.csv"
        self.results.files.ask_to_write("Save the intervals", "CSV (*.csv)", name, lambda: _table_writer(found))

    # -- the script -----------------------------------------------------------------------------------------------

    def script(self, saved: Mapping[str, Path]) -> str:
        """Return a script that does the same bootstrap and shows its map and the colored fibers."""
        layer, scan_layer = self._layers()
        return uncertainty_script(
            layer, scan_layer, list(self.viewer.layers), self.form.value(), self.fit_form.value(), self.device, saved
        )

    def painted_layers(self) -> list[Any]:
        """The fibers, if their seeds are of labels that no file holds."""
        layer, _ = self._layers()
        seeds = region_seeds(layer, list(self.viewer.layers))
        return [layer] if any("np.load" in line for line in seeds) else []

    def save_painted(self, layer: Any, folder: Path) -> Path:
        """Save the seeds of fibers into a folder."""
        path = folder / seeds_name(layer)
        with atomic_write(path) as part, part.open("wb") as file:
            np.save(file, _seeds_of(layer))
        return path

    def _layers(self) -> tuple[Any, Any]:
        """The layers of fibers and scan of the result, or of the inputs as they stand."""
        if self._result is not None:
            return self._result.layer, self._result.scan_layer
        return self.fibers_box.needed(NO_TRACKS), self.scan_box.needed(NO_SCAN)

    def teardown(self) -> None:
        """End runs and let go of the fibers."""
        super().teardown()
        self._result = None


def _steps(
    layer: Streamlines,
    scan_layer: Any,
    scan: DiffusionScan,
    fibers: Tractogram,
    resampling: BootstrapSettings,
    fit: FitSettings,
    device: str,
    stop: threading.Event,
) -> Generator[Step, None, Repeated]:
    made = _made(layer)
    found = yield from bootstrap_steps(
        scan, _seeds_of(layer), made.directions, made.tracking, resampling, fit=fit, device=device, stop=stop
    )
    return Repeated(layer, scan_layer, fibers, found, _profile(found))


def _profile(found: Bootstrap) -> ProfileInterval | None:
    try:
        return profile_interval(found)
    except InvalidInput:
        return None  # too few fibers have one


def _rows(found: Bootstrap) -> list[Number]:
    """The intervals of all numbers."""
    rows = []
    for name in found.numbers:
        estimate, *ends = found.interval(name)
        low, high = (value_text(name, end) for end in ends)
        title = "fibers" if name == "fibers" else READABLE.get(name, name.replace("_", " "))
        text = f"{value_text(name, estimate)} ({low} – {high})"
        rows.append(Number(group="Mean of the fibers (95 % interval)", name=title, text=text))
    rows.append(Number(group="Run", name="repeats", text=f"{found.repeats:,}"))
    return rows


def _sentences(notes: tuple[str, ...]) -> list[str]:
    return [f"{note[:1].upper()}{note[1:]}." for note in notes]


def _are_same(one: Tractogram, other: Tractogram) -> bool:
    return np.array_equal(one.offsets, other.offsets) and np.allclose(one.points, other.points, atol=1e-3)


def _table_writer(found: Bootstrap) -> Any:
    def write(path: Path) -> None:
        with atomic_write(path) as part:
            part.write_text(found.table(), encoding="utf-8")

    return write


def _made(layer: Any) -> BundleSettings:
    settings = settings_of(layer)
    if settings is None:
        raise InvalidInput(NO_TRACKS)
    return settings


def _seeds_of(layer: Any) -> Any:
    """The seed points of a layer's fibers, (S, 3), world mm."""
    return layer.metadata[KEY]["seeds_mm"]


def _why_not_tracked(layer: Any) -> str | None:
    """Why the fibers of a layer cannot be tracked again; an empty text for layers of another kind."""
    if not isinstance(layer, Streamlines):
        return ""
    if settings_of(layer) is None or fibers_of(layer) is None:
        return "not tracked here"
    return None
