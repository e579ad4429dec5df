"""The dock widget "Connectome": a matrix of the regions of an atlas; a click on a cell shows its fibers."""

import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from napari.layers import Labels
from qtpy.QtCore import QSignalBlocker
from qtpy.QtWidgets import QCheckBox, QFormLayout

from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.graphs import replaced_fields
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import file_name
from napari_gpubio.diffusion.gui.records import add_maps, pictures
from napari_gpubio.diffusion.gui.source import source_of
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.fibers.gui.connectome.sources import CELL, Counted, FiberSource, GeodesicSource
from napari_gpubio.fibers.operations.geodesics import ShootGeodesics
from napari_gpubio.gui.connections import Connections, connect_all
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import Label
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.matrix_plot import MatrixPlot
from napari_gpubio.gui.number_table import Number
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.gui.results import ResultBox, Saving
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tractograms.connectome.model import COUNT, LENGTH, SCORE
from napari_gpubio.tractograms.gui.fibers import fiber_layer, fiber_offers, fibers_of
from napari_gpubio.tractograms.gui.region_box import AtlasSource, why_no_regions
from napari_gpubio.tractograms.napari_io import matrix_layer
from napari_gpubio.tractograms.operations.connectome import MakeConnectome, MatrixSettings

if TYPE_CHECKING:
    import napari.viewer

STATISTICS = {"sum": "sum", "mean": "mean", "min": "smallest", "max": "largest"}
_SIDE_PIXELS = 340


class ConnectomePanel(EnginePanel):
    """Count the fibers between the regions of an atlas."""

    warms = ("diffusion", "fibers")
    offers = staticmethod(fiber_offers)
    kept = ("_result", "_cell")

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer, run_text="Count")
        self._result: Counted | None = None
        self._cell: tuple[int, int] | None = None
        self.kind = ElidedComboBox(self)
        self.fiber_source, self.geodesic_source = FiberSource(viewer, self), GeodesicSource(viewer, self)
        self.atlas_box = LayerBox(
            viewer, partial(why_no_regions, kinds=(Labels,)), empty="open an atlas, or paint Labels", parent=self
        )
        self.quantity = ElidedComboBox(self, tip="What each fiber adds to the cell of its two regions")
        tip = "How the fibers of a cell are put together"
        self.statistic = ElidedComboBox(self, entries=STATISTICS, tip=tip)
        tip = "Divide by the mean volume of the two regions, in voxels"
        self.per_volume = QCheckBox("per volume of the regions", self, toolTip=tip)
        self.per_length = QCheckBox("per length", self, toolTip="Divide by the length of each fiber")
        self.plot, self.cell_label = MatrixPlot(self), Label(self)
        self.results = ResultBox("Choose fibers and an atlas, and press Count.", self)
        self._counted = Connections(self._layer_pairs)
        self._fill()
        connect_all(
            (
                (self.kind.currentIndexChanged, self._show_source),
                (self.quantity.currentIndexChanged, self._on_quantity),
                (self.statistic.currentIndexChanged, self._show_matrix),
                (self.per_volume.toggled, self._show_matrix),
                (self.per_length.toggled, self._show_matrix),
                (self.plot.cell_picked, self.show_cell),
                (self.plot.cell_hovered, self.cell_label.setText),
                (self.results.files.status_changed, self.show_status),
                (self.results.files.error_occurred, self.show_error),
            )
        )
        geodesics = self.geodesic_source
        boxes = self.fiber_source.box, geodesics.box, geodesics.fods_box, self.atlas_box
        for part in (*boxes, self.results, self._counted):
            self.own(part)

    def _fill(self) -> None:
        top, shown = QFormLayout(), QFormLayout()
        self.header.addRow("Atlas", self.atlas_box)
        top.addRow("Count", self.kind)
        self.inputs.addLayout(top)
        self.inputs.addWidget(self.fiber_source)
        self.inputs.addWidget(self.geodesic_source)
        self.inputs.addWidget(heading("Matrix", self))
        self.inputs.addWidget(self.results)
        self.kind.setToolTip("Fibers that are there, or geodesics that are shot from each region to the others")
        for source, text in ((self.fiber_source, "fibers of a tractogram"), (self.geodesic_source, "new geodesics")):
            self.kind.addItem(text, source)
        shown.addRow("Number", self.quantity)
        shown.addRow("Statistic", self.statistic)
        shown.addRow("", self.per_volume)
        shown.addRow("", self.per_length)
        self.plot.setMinimumHeight(_SIDE_PIXELS)
        self.cell_label.setMinimumHeight(self.cell_label.fontMetrics().height())
        self.result_head.addWidget(self.results.head)
        self.results.content.addLayout(shown)
        self.results.content.addWidget(self.plot)
        self.results.content.addWidget(self.cell_label)
        add = self.results.add_button
        add("All fibers", "Show the fibers of all cells", self.show_all)
        add("Matrix layer", "Add the matrix as an image", self.add_layer)
        save = self.results.add_saving
        save("Save matrix…", "Save the matrix as CSV, with the names of the regions", "CSV (*.csv)", self._matrix_file)
        tip = "Save the regions of every fiber as npz, from which all matrices can be made"
        save("Save connectome…", tip, "npz (*.npz)", self._connectome_file)
        self._show_source()

    @property
    def source(self) -> FiberSource | GeodesicSource:
        """What is counted: fibers of a layer, or geodesics."""
        source: FiberSource | GeodesicSource = self.kind.currentData()
        return source

    def _show_source(self, *_: Any) -> None:
        for source in (self.fiber_source, self.geodesic_source):
            source.setVisible(source is self.source)

    def _layer_pairs(self) -> list[Any]:
        """Events that change which fibers there are, and which are shown."""
        layer = None if self._result is None else self._result.layer
        events = () if layer is None else (layer.events.shown, layer.events.data)
        return [(event, self.stale_line.compare_soon) for event in events]

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Counted | None]:
        """Read the inputs and return the search for the regions of every fiber."""
        return self.source.steps(self._atlas_layer(), self.device, stop)

    def _atlas_layer(self) -> Any:
        return self.atlas_box.needed("there is no atlas; open one, or paint Labels")

    def show_result(self, result: Counted | None) -> None:
        """Show the matrix, and the fibers if they are new."""
        if result is None:
            self.show_note("The fit was stopped before it finished; press Count to fit again.")
            return
        if result.layer is None:
            self._show_geodesics(result)
        self._result = result
        self.show_all()
        self._offer_numbers(result)
        self._on_quantity()

    def show_kept(self) -> None:
        """Show a matrix that undo has brought back, or none."""
        if self._result is None:
            self._counted.detach()
            self.results.clear()
        else:
            self._offer_numbers(self._result)
            self._show_matrix()

    def _offer_numbers(self, result: Counted) -> None:
        """Follow the fibers that were counted, tell how many there are, and offer what can be shown of them."""
        self._counted.attach()
        found, chosen = result.found, self.quantity.currentData()
        chosen = chosen or (COUNT if found.best is None else SCORE)
        with QSignalBlocker(self.quantity):
            self.quantity.clear()
            self.quantity.addItem("number of fibers", COUNT)
            for name in found.numbers:
                self.quantity.addItem(name.replace("_", " "), name)
            self.quantity.setCurrentIndex(max(self.quantity.findData(chosen), 0))
        self._show_numbers(result)

    def _show_numbers(self, result: Counted) -> None:
        """Tell how many fibers were counted."""
        found, total = result.found, len(result.found.numbers[LENGTH])
        rows = [
            Number(group="Fibers", name="in all", text=f"{total:,}"),
            Number(group="Fibers", name="with a region at both ends", text=f"{found.assigned:,}"),
        ]
        findings = []
        if (count := len(result.index)) != total and result.source == result.layer:
            findings.append(("ok", f"{total:,} of {count:,} fibers are counted: those that were shown."))
        findings += [("warning", note) for note in found.notes]
        if not found.complete:
            findings.append(("warning", "It was stopped; some fibers are missing."))
        if not found.assigned:
            findings.append(("warning", "No fiber joins two regions; is the atlas of the same space as the fibers?"))
        self.results.show_numbers(rows, findings)

    def _show_geodesics(self, result: Counted) -> None:
        """Put the best fibers into the layer of this atlas, or into a new one; show tensors that were fitted."""
        if result.fitted is not None:
            field, layer = result.fitted
            scan = source_of(layer)
            if isinstance(scan, DiffusionScan):
                self.geodesic_source.box.choose(add_maps(self.viewer, field, scan, layer.name))
        name = result.name
        known = next((x for x in self.viewer.layers if isinstance(x, Streamlines) and x.name == name), None)
        if known is not None:
            self.viewer.layers.remove(known)
        about = {RECORD: record_of_output(result.operation.output("best"))} if result.found.complete else {}
        layer = fiber_layer(result.fibers, name, beside=self.viewer.layers, lines=result.lines, metadata=about)
        if len(result.fibers):
            layer.color_by = "alignment_fa"
        self.viewer.add_layer(layer)
        result.layer = layer

    def _on_quantity(self, *_: Any) -> None:
        is_count = self.quantity.currentData() == COUNT
        is_geodesic = self._result is not None and self._result.found.best is not None
        usual = "sum" if is_count else "max" if is_geodesic else "mean"  # the best route is the one that is meant
        with QSignalBlocker(self.statistic):
            self.statistic.setCurrentIndex(self.statistic.findData(usual))
        self._show_matrix()

    def matrix(self) -> npt.NDArray[np.float64]:
        """The matrix as it is shown, (R, R)."""
        assert self._result is not None  # what calls this needs a result
        return self._result.found.matrix(self.quantity.currentData(), **self._options())

    def _options(self) -> dict[str, Any]:
        return {
            "statistic": self.statistic.currentData(),
            "per_node_volume": self.per_volume.isChecked(),
            "per_length": self.per_length.isChecked(),
        }

    def _show_matrix(self, *_: Any) -> None:
        if self._result is None:
            return
        logarithmic = self.quantity.currentData() == COUNT
        self.plot.show_matrix(
            self.matrix(), self._result.found.names, self.quantity.currentText(), logarithmic=logarithmic
        )
        self.plot.frame_cell(self._cell)

    # -- cells ----------------------------------------------------------------------------------------------------

    def show_cell(self, row: int, column: int) -> None:
        """Show only the fibers between two regions, given by their places in the matrix."""
        result = self._result
        if result is None or result.layer not in self.viewer.layers or fibers_of(result.layer) is not result.fibers:
            return
        self._cell = row, column
        found = result.found
        between = found.fibers_of(int(found.labels[row]), int(found.labels[column]))
        kept = np.isin(result.index, between)
        result.layer.set_filter(CELL, kept)
        self.plot.frame_cell(self._cell)
        names = f"{found.names[row]} – {found.names[column]}"
        shown = int(np.count_nonzero(kept))
        count = f"{shown:,} fibers" if shown == len(between) else f"the best {shown:,} of {len(between):,} fibers"
        self.show_status(f"{count}: {names}")

    def show_all(self) -> None:
        """Show all fibers again."""
        self._cell = None
        self.plot.frame_cell(None)
        if self._result is not None and self._result.layer in self.viewer.layers:
            self._result.layer.set_filter(CELL, None)
        self.show_status("all fibers")

    def add_layer(self) -> None:
        """Add the matrix as an image, rows from the top."""
        assert self._result is not None  # the button needs a result
        name = f"{self._result.layer.name} {self.quantity.currentText()}"
        data, keywords, _ = matrix_layer(self.matrix(), name)
        self.viewer.add_image(data, **keywords)

    # -- files ----------------------------------------------------------------------------------------------------

    def _matrix_file(self) -> Saving:
        assert self._result is not None  # the button needs a result
        write = partial(self._result.found.save_csv, matrix=self.matrix())
        return f"{file_name(self._result.layer.name)} matrix.csv", write

    def _connectome_file(self) -> Saving:
        assert self._result is not None  # the button needs a result
        return f"{file_name(self._result.layer.name)} connectome.npz", self._result.found.save

    # -- the script -----------------------------------------------------------------------------------------------

    def script_layers(self) -> list[Shown]:
        """Return the matrix as it is shown, and its fibers, of which those of the chosen cell may be shown alone."""
        result = self._result
        made = self.source.draft(self._atlas_layer())() if result is None else result.operation
        matrix = replaced_fields(
            made, {"matrix": MatrixSettings(of=self.quantity.currentData() or COUNT, **self._options())}
        )
        layer = self.fiber_source.box.layer if isinstance(made, MakeConnectome) else None
        layer = layer if result is None else result.layer
        fibers = [] if layer is None or layer not in self.viewer.layers else pictures([layer])
        return [Shown(matrix.output(), "connectome"), *fibers]

    def take_draft(self) -> Callable[[], MakeConnectome | ShootGeodesics]:
        """Read the inputs, and return what makes an operation of them."""
        return self.source.draft(self._atlas_layer())

    def show_draft(self, operation: Operation) -> bool:
        """Show a connectome, if layers have its atlas and what it is made of."""
        if not isinstance(operation, MakeConnectome | ShootGeodesics):
            return False
        is_count = isinstance(operation, MakeConnectome)
        source: Any = self.fiber_source if is_count else self.geodesic_source
        self.kind.setCurrentIndex(self.kind.findData(source))
        has_atlas = self.atlas_box.choose_where(lambda layer: AtlasSource(layer).output() == operation.atlas)
        return has_atlas and bool(source.show_draft(operation))

    def teardown(self) -> None:
        """End runs and let go of the fibers."""
        super().teardown()
        self._result = None
