"""The dock widget "Bundle profiles": numbers of the bundles on screen, and an image along each, while they change."""

import dataclasses
import textwrap
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from napari.layers import Image
from qtpy.QtWidgets import QHeaderView, QWidget

from napari_gpubio.core.device import Device, choose_device
from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import affine_mm, is_oriented, volume_of
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.operations.volumes import Volume, source_of
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.gui.records import path_of
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Connections, connect_all, single_shot
from napari_gpubio.gui.forms import ParamForm
from napari_gpubio.gui.layers import LayerBox, LayerListener
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.gui.ranked_table import RankedTable
from napari_gpubio.gui.results import ResultBox
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.gui.typed_rows import Column
from napari_gpubio.tractograms.bundles.profile import REVERSED
from napari_gpubio.tractograms.bundles.settings import ProfileSettings
from napari_gpubio.tractograms.gui.fibers import (
    NO_FIBERS,
    fiber_offers,
    fiber_output,
    fibers_of,
    shown_fibers,
    shown_text,
)
from napari_gpubio.tractograms.gui.profiles.plot import Band, ProfilePlot, way_of
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.operations import Measured, ProfileBundles
from napari_gpubio.tractograms.operations.bundles import measured_steps
from napari_gpubio.tractograms.places import check_place

if TYPE_CHECKING:
    import napari.viewer

_MARGIN = 8  # pixels beside a title
_ARROWS = "QHeaderView::up-arrow, QHeaderView::down-arrow { subcontrol-position: top center; width: 8px; height: 6px; }"
_TITLE_CHARACTERS = 9  # of a line in the title of a column
FOLLOW_MS = 200  # after a change
NO_IMAGE = "there is no image to average; open one, or fit tensors and take their FA"


class BundleTable(RankedTable):
    """Lists bundles with their numbers."""

    columns = (
        Column("bundle", "Bundle", "Layer of its fibers"),
        Column("fibers", "Fibers", "Fibers that are shown"),
        Column("volume_mm3", "Volume\n(mm³)", "Of the voxels that fibers pass"),
        Column("length_mm_mean", "Length\n(mm)", "Mean length"),
        Column("length_mm_sd", "± SD", "Standard deviation of the length"),
        Column("image_mean", "Image", "Mean of the image along all fibers"),
        Column("image_sd", "± SD", "Standard deviation of the image along all fibers"),
    )

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        header = self.horizontalHeader()
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)  # names give way to numbers
        header.setStyleSheet(_ARROWS)
        header.setMinimumSectionSize(24)

    def show_metric(self, name: str) -> None:
        """Write the whole name of the image above its column."""
        title = "\n".join(textwrap.wrap(name, _TITLE_CHARACTERS))
        self.horizontalHeaderItem([column.field for column in self.columns].index("image_mean")).setText(title)

    def show_rows(self, rows: Iterable[Mapping[str, float | str]], colors: Sequence[Any] = ()) -> None:
        """Show these rows, columns of numbers as narrow as can be: Qt leaves room for a mark beside each title."""
        super().show_rows(rows, colors)
        header, metrics = self.horizontalHeader(), self.horizontalHeader().fontMetrics()
        for place in range(1, self.columnCount()):
            lines = self.horizontalHeaderItem(place).text().split("\n")
            title = max(map(metrics.horizontalAdvance, lines)) + _MARGIN
            header.setSectionResizeMode(place, QHeaderView.ResizeMode.Fixed)
            header.resizeSection(place, max(title, self.sizeHintForColumn(place)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inputs:
    """What a run measures, read from the panel: fibers by the layers that show them, and an image."""

    bundles: Mapping[Any, Tractogram]
    names: tuple[str, ...]
    image: Volume
    path: Path | None
    settings: ProfileSettings

    def operation(self) -> ProfileBundles:
        """Return it as an operation, where files are looked through."""
        return ProfileBundles(
            bundles=tuple(fiber_output(layer, fibers) for layer, fibers in self.bundles.items()),
            image=source_of(self.image, self.path),
            names=self.names,
            metric=self.image.name,
            settings=self.settings,
        )


class ProfilesPanel(EnginePanel):
    """Measure the bundles on screen."""

    offers = staticmethod(fiber_offers)
    kept = ("_result",)

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer, run_text="Measure")
        self._result: tuple[Inputs, Measured] | None = None
        self.image_box = LayerBox(viewer, _why_no_image, empty="open an image, or fit tensors", parent=self)
        self.form = ParamForm(ProfileSettings(), parent=self)
        self.plot, self.table = ProfilePlot(self), BundleTable(self)
        self.results = ResultBox("Show bundles and press Measure: their numbers follow filters and dissections.", self)
        self._again = single_shot(FOLLOW_MS, self._measure_again, self)
        self._each = Connections(self._layer_pairs)
        self._listener = LayerListener(viewer, _is_bundle, layers_changed=self._on_layers, data_changed=self._on_change)
        self._fill()
        connect_all(
            (
                (self.form.changed, self._on_change),
                (self.results.files.status_changed, self.show_status),
                (self.results.files.error_occurred, self.show_error),
            )
        )
        for part in (self.image_box, self.results, self._listener, self._each):
            self.own(part)

    def _fill(self) -> None:
        self.header.addRow("Image", self.image_box)
        self.inputs.addWidget(self.form)
        self.inputs.addWidget(heading("Bundles on screen", self))
        self.inputs.addWidget(self.results)
        self.result_head.addWidget(self.results.head)
        self.results.content.addWidget(self.plot)
        self.results.content.addWidget(self.table)
        self.results.add_button("Copy table", "Copy the selected row, or all (Ctrl+C)", self.table.copy)
        save, csv = self.results.add_saving, "CSV (*.csv)"
        tip = "Save the numbers of the bundles as CSV"
        save("Save table…", tip, csv, lambda: ("bundles.csv", self._measured.summary.write))
        tip = "Save the profiles as CSV, a row for each node"
        save("Save profiles…", tip, csv, lambda: ("profiles.csv", self._measured.profiles.write))

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

    def _bundles(self) -> dict[Any, Tractogram]:
        """The fibers on screen, by layer."""
        layers = [layer for layer in self._listener.layers if layer.visible and layer.shown.any()]
        return {layer: fibers for layer in layers if (fibers := shown_fibers(layer)) is not None}

    def chosen_layers(self) -> list[Any]:
        """The image, and the bundles that are shown."""
        return [*super().chosen_layers(), *(layer for layer in self._listener.layers if layer.visible)]

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, tuple[Inputs, Measured]]:
        """Read the inputs and return the measurement."""
        return _steps(self._inputs(), choose_device(self.device), stop)

    def _inputs(self) -> Inputs:
        bundles = self._bundles()
        if not bundles:
            raise InvalidInput(NO_FIBERS)
        layer = self.image_box.needed(NO_IMAGE)
        volume = _volume_in(layer)
        for fibers in bundles.values():
            place = volume.array.shape, volume.affine, f"the image {layer.name!r}"
            check_place(fibers, *place, is_oriented=is_oriented(layer))
        return Inputs(
            bundles=bundles,
            names=tuple(one.name for one in bundles),
            image=volume,
            path=path_of(layer),
            settings=self.form.value(),
        )

    def show_result(self, made: tuple[Inputs, Measured]) -> None:
        """Show the table and the profiles."""
        self._result = made
        self._show_numbers(made)

    def show_kept(self) -> None:
        """Show numbers that undo has brought back, or none."""
        if self._result is None:
            self.results.clear()
        else:
            self._show_numbers(self._result)

    def _show_numbers(self, made: tuple[Inputs, Measured]) -> None:
        _, result = made
        colors = {name: theme.REGIONS[n % len(theme.REGIONS)] for n, name in enumerate(result.curves)}
        bands = {n: Band(one.mean, one.mean - one.sd, one.mean + one.sd) for n, one in result.curves.items()}
        layers = dict(zip(made[0].names, made[0].bundles, strict=True))
        ways = {n: way_of(one.ends) for n, one in result.curves.items() if is_oriented(layers[n])}
        is_same = len(set(ways.values())) == 1 and len(ways) == len(bands)
        self.plot.draw(bands, colors, result.metric, next(iter(ways.values())) if is_same else "")
        names = {f"{result.metric}_{what}": f"image_{what}" for what in ("mean", "sd")}
        rows = [
            {names.get(column, column): value for column, value in zip(result.summary.columns, row, strict=True)}
            for row in result.summary.rows
        ]
        self.table.show_metric(result.metric)
        self.table.show_rows(rows, list(colors.values()))
        findings = [("ok", text) for layer in made[0].bundles if (text := shown_text(layer))]
        findings += [] if is_same else [("ok", f"{name} runs {way}.") for name, way in ways.items()]
        findings += [("ok" if note.endswith(f"{REVERSED}.") else "warning", note) for note in result.notes]
        self.results.show_numbers((), findings)

    @property
    def _measured(self) -> Measured:
        assert self._result is not None  # the buttons need a result
        return self._result[1]

    # -- the script -----------------------------------------------------------------------------------------------

    def operation(self) -> ProfileBundles:
        """Return the operation of the numbers that are shown, or of a run with what is on screen."""
        return (self._inputs() if self._result is None else self._result[0]).operation()

    def script_files(self) -> dict[str, str]:
        """Files that a script writes."""
        return {"summary": "bundles.csv", "profiles": "profiles.csv"}

    def take_draft(self) -> Callable[[], ProfileBundles]:
        """Read the inputs, and return what makes an operation of them."""
        return self._inputs().operation

    def show_draft(self, operation: Operation) -> bool:
        """Show a measurement, if a layer has its image; its bundles are those on screen."""
        if not isinstance(operation, ProfileBundles):
            return False
        self.form.set_value(operation.settings)
        return self.image_box.choose_where(
            lambda layer: source_of(_volume_in(layer), path_of(layer)) == operation.image
        )

    def teardown(self) -> None:
        """End runs and let go of the fibers."""
        self._again.stop()
        super().teardown()
        self._result = None


def _steps(inputs: Inputs, device: Device, stop: threading.Event) -> Generator[Step, None, tuple[Inputs, Measured]]:
    bundles = dict(zip(inputs.names, inputs.bundles.values(), strict=True))
    how = inputs.image, inputs.image.name, inputs.settings
    return inputs, (yield from measured_steps(bundles, *how, device=device, stop=stop))


def _volume_in(layer: Any) -> Volume:
    return Volume(array=np.asarray(volume_of(layer)), affine=affine_mm(layer), name=layer.name)


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
