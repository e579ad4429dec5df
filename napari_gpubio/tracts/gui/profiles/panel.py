"""The dock widget "Bundle profiles": numbers of the bundles on screen, and an image along each, while they change."""

import dataclasses
import threading
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Image
from qtpy.QtWidgets import QFormLayout, QWidget

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import affine_mm, carried, is_oriented, save_layer, saved_path, volume_of
from napari_gpubio.core.steps import Step
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Connections, connect_all, single_shot
from napari_gpubio.gui.forms import ParamForm
from napari_gpubio.gui.layers import LayerBox, LayerListener
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.gui.ranked_table import RankedColumn, RankedTable
from napari_gpubio.gui.results import ResultBox
from napari_gpubio.gui.script import call_text
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tracts.bundles import Profile, Table, profile, summary
from napari_gpubio.tracts.bundles.settings import ProfileSettings
from napari_gpubio.tracts.gui.fibers import NO_FIBERS, fiber_offers, fibers_of
from napari_gpubio.tracts.gui.profiles.plot import Band, ProfilePlot
from napari_gpubio.tracts.gui.script import checked, fiber_lines, script_text
from napari_gpubio.tracts.io.dwi import read_volume
from napari_gpubio.tracts.model import Tractogram
from napari_gpubio.tracts.places import check_place

if TYPE_CHECKING:
    import napari.viewer

COLUMNS = (
    RankedColumn("bundle", "Bundle", "Layer of its fibers"),
    RankedColumn("fibers", "Fibers", "Fibers that are shown"),
    RankedColumn("volume_mm3", "Volume (mm³)", "Of the voxels that fibers pass"),
    RankedColumn("length_mm_mean", "Length (mm)", "Mean length"),
    RankedColumn("length_mm_sd", "± SD", "Standard deviation of the length"),
    RankedColumn("image_mean", "Image", "Mean of the image along all fibers"),
    RankedColumn("image_sd", "± SD", "Standard deviation of the image along all fibers"),
)
FOLLOW_MS = 200  # after a change
NO_IMAGE = "there is no image to average; open one, or fit tensors and take their FA"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """Result of a run: the table and the profiles of the bundles."""

    table: Table
    profiles: Mapping[str, Profile]
    quantity: str
    notes: tuple[str, ...]


class ProfilesPanel(EnginePanel):
    """Measure the bundles on screen."""

    warms = ("tracts",)
    offers = staticmethod(fiber_offers)

    def __init__(self, viewer: "napari.viewer.Viewer", parent: QWidget | None = None) -> None:
        super().__init__(viewer, run_text="Measure", parent=parent)
        self._result: Measured | None = None
        self.image_box = LayerBox(viewer, _why_no_image, empty="open an image, or fit tensors", parent=self)
        self.form = ParamForm(ProfileSettings(), parent=self)
        self.plot, self.table = ProfilePlot(self), RankedTable(COLUMNS, self)
        self.results = ResultBox("Show bundles and press Measure: their numbers follow filters and dissections.", self)
        self._again = single_shot(FOLLOW_MS, self._measure_again, self)
        self._each = Connections(self._layer_pairs)
        self._listener = LayerListener(viewer, _is_bundle, layers_changed=self._on_layers, data_changed=self._on_change)
        self._fill()
        connect_all(
            (
                (self.form.changed, self._on_change),
                (self.image_box.currentIndexChanged, self._on_change),
                (self.results.files.status_changed, self.show_status),
                (self.results.files.error_occurred, self.show_error),
            )
        )
        for part in (self.image_box, self.results, self._listener, self._each):
            self.own(part)

    def _fill(self) -> None:
        top = QFormLayout()
        top.addRow("Image", self.image_box)
        self.inputs.addLayout(top)
        self.inputs.addWidget(self.form)
        self.inputs.addWidget(heading("Bundles on screen", self))
        self.inputs.addWidget(self.results)
        self.results.content.addWidget(self.plot)
        self.results.content.addWidget(self.table)
        self.results.add_button("Copy table", "Copy the selected row, or all (Ctrl+C)", self.table.copy)
        self.results.add_button("Save table…", "Save the numbers of the bundles as CSV", self._ask_to_save_table)
        self.results.add_button("Save profiles…", "Save the profiles as CSV, a row for each node", self._ask_to_save)

    # -- following ------------------------------------------------------------------------------------------------

    def _layer_pairs(self) -> list[Any]:
        """Events of filters and dissections; bundles that are hidden or removed change no result."""
        return [(layer.events.shown, self._on_change) for layer in self._listener.layers]

    def _on_layers(self) -> None:
        self._each.attach()
        self.show_input_notes()

    def _on_change(self, *_: Any) -> None:
        """Measure again, once something has been measured and changes have come to an end."""
        if self._result is not None:
            self._again.start()

    def _measure_again(self) -> None:
        if self._bundles() and self.image_box.layer is not None:
            self.run_again(end_first=True)

    def _bundles(self) -> dict[str, Tractogram]:
        """The fibers on screen, by layer."""
        found = {layer.name: (fibers_of(layer), layer) for layer in self._listener.layers if layer.visible}
        return {name: _shown(fibers, layer) for name, (fibers, layer) in found.items() if layer.shown.any()}

    def chosen_layers(self) -> list[Any]:
        """The image, and the bundles that are shown."""
        return [*super().chosen_layers(), *(layer for layer in self._listener.layers if layer.visible)]

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Measured]:
        """Read the inputs and return the measurement."""
        bundles = self._bundles()
        if not bundles:
            raise InvalidInput(NO_FIBERS)
        image = self.image_box.needed(NO_IMAGE)
        volume, affine = np.asarray(volume_of(image)), affine_mm(image)
        for fibers in bundles.values():
            check_place(fibers, volume.shape, affine, f"the image {image.name!r}", is_oriented=is_oriented(image))
        return _steps(
            bundles,
            (volume, affine),
            image.name,
            self.form.value(),
            choose_device(self.device),
            stop,
        )

    def show_result(self, result: Measured) -> None:
        """Show the table and the profiles."""
        self._result = result
        colors = {name: theme.REGIONS[n % len(theme.REGIONS)] for n, name in enumerate(result.profiles)}
        bands = {n: Band(one.mean, one.mean - one.sd, one.mean + one.sd) for n, one in result.profiles.items()}
        self.plot.draw(bands, colors, result.quantity)
        names = {f"{result.quantity}_{what}": f"image_{what}" for what in ("mean", "sd")}
        rows = [
            {names.get(column, column): value for column, value in zip(result.table.columns, row, strict=True)}
            for row in result.table.rows
        ]
        self.table.show_rows(rows, list(colors.values()))
        self.results.show_numbers((), [("warning", note) for note in result.notes])

    # -- files ----------------------------------------------------------------------------------------------------

    def _ask_to_save_table(self) -> None:
        assert self._result is not None  # the button needs a result
        write = self._result.table.write
        self.results.files.ask_to_write("Save the table", "CSV (*.csv)", "bundles.csv", lambda: write)

    def _ask_to_save(self) -> None:
        assert self._result is not None  # the button needs a result
        table = profile_table(self._result.profiles, self._result.quantity)
        self.results.files.ask_to_write("Save the profiles", "CSV (*.csv)", "profiles.csv", lambda: table.write)

    # -- the script -----------------------------------------------------------------------------------------------

    def script(self, saved: Mapping[str, Path]) -> str:
        """Return a script that prints the table and the profiles of the bundles on screen."""
        image = self.image_box.needed(NO_IMAGE)
        path, layers, lines = saved_path(image, read_volume) or saved[image.name], list(self.viewer.layers), list[str]()
        recipes = dict.fromkeys(carried(x, "recipe") for x in self._listener.layers if carried(x, "recipe"))
        for recipe in recipes:
            lines += checked(recipe)
        lines += ["bundles = {}"]
        for layer in self._listener.layers:
            if layer.visible and layer.shown.any():
                lines += fiber_lines(layer, layers)
                lines += [f"bundles[{layer.name!r}] = fibers.select(layer.shown)"]
        call = call_text("tracts.bundles", self.form.value()).partition("(")[2].removesuffix(")")
        options = f", {call}" if call else ""
        lines += [
            f"image, affine = tracts.io.read_volume({str(path)!r})",
            f"print(tracts.bundles.summary(bundles, {{{image.name!r}: (image, affine)}}).csv())",
            "for name, bundle in bundles.items():",
            f"    print(name, tracts.bundles.profile(bundle, image, affine{options}).mean.tolist())",
        ]
        return script_text(lines, {})

    def painted_layers(self) -> list[Any]:
        """The image, if no file holds it."""
        image = self.image_box.needed(NO_IMAGE)
        return [] if saved_path(image, read_volume) else [image]

    def save_painted(self, layer: Any, folder: Path) -> Path:
        """Save the image as NIfTI into a folder."""
        return save_layer(layer, folder)

    def teardown(self) -> None:
        """End runs and let go of the fibers."""
        self._again.stop()
        super().teardown()
        self._result = None


def profile_table(profiles: Mapping[str, Profile], metric: str) -> Table:
    """Return profiles as one table, a row for each bundle and node, as the shell writes them."""
    columns = ("bundle", "node", "metric", "mean", "sd", "n")
    rows = [
        (name, node + 1, metric, float(found.mean[node]), float(found.sd[node]), int(found.counts[node]))
        for name, found in profiles.items()
        for node in range(len(found))
    ]
    return Table(columns, tuple(rows))


def _steps(
    bundles: Mapping[str, Tractogram],
    image: tuple[Any, Any],
    quantity: str,
    settings: ProfileSettings,
    device: Device,
    stop: threading.Event,
) -> Generator[Step, None, Measured]:
    profiles, notes = dict[str, Profile](), list[str]()
    for name, fibers in bundles.items():
        yield Step(len(profiles), len(bundles) + 1, "profiles")
        if stop.is_set():
            break
        profiles[name] = profile(fibers, *image, settings.nodes, settings.weighting)
        notes += [f"{name}: {note}." for note in profiles[name].notes]
    yield Step(len(bundles), len(bundles) + 1, "numbers of bundles")
    done = {name: bundles[name] for name in profiles}
    return Measured(summary(done, {quantity: image}, device=device), profiles, quantity, tuple(notes))


def _shown(fibers: Tractogram | None, layer: Streamlines) -> Tractogram:
    assert fibers is not None  # the listener accepts no others
    return fibers if layer.shown.all() else fibers.select(layer.shown)


def _is_bundle(layer: Any) -> bool:
    return isinstance(layer, Streamlines) and fibers_of(layer) is not None


def _why_no_image(layer: Any) -> str | None:
    """Why an image cannot be averaged over a bundle."""
    if not isinstance(layer, Image):
        return ""
    if layer.rgb:
        return "colors"
    if layer.ndim != len("xyz"):
        return f"{layer.ndim} axes"
    if layer.multiscale:
        return "an image pyramid"
    return None
