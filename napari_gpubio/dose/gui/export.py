"""Writing what is on screen: the figure, the curves, the metrics, everything known, and a DICOM DVH sequence."""

import dataclasses
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from qtpy.QtCore import QPointF, QRectF, QSize, QSizeF, Qt, Signal
from qtpy.QtGui import QImage, QPainter
from qtpy.QtSvg import QSvgGenerator
from qtpy.QtWidgets import QMenu, QPushButton, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write, write_rows
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations.files import graph
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.dose.gui.controller import CurveController
from napari_gpubio.dose.gui.curves import Curve, interval_edges, log_start
from napari_gpubio.dose.gui.histograms import LiveHistograms
from napari_gpubio.dose.gui.legend import draw_legend, legend_width
from napari_gpubio.dose.gui.metric_table import CurveMetricTable
from napari_gpubio.dose.gui.plot import FIGURE_DETAIL, DvhPlot
from napari_gpubio.dose.io.dvh_files import write_curves_csv, write_dvh_sequence, write_json, write_surfaces_csv
from napari_gpubio.dose.io.rtstruct import read_rtstruct
from napari_gpubio.dose.metrics.curve import DvhResult
from napari_gpubio.dose.metrics.metric import Metric
from napari_gpubio.dose.napari_io import NUMBERS, RTDOSE
from napari_gpubio.dose.surfaces import surface_histograms
from napari_gpubio.gui import theme
from napari_gpubio.gui.file_dialogs import open_path, save_path, with_path
from napari_gpubio.gui.results import ResultFiles

NO_HISTOGRAMS = "there are no histograms to write; press Run first"
NO_RTDOSE = (
    "a DICOM DVH sequence is written into a copy of the RTDOSE file and refers to the numbers of the RTSTRUCT file; "
    "choose both, or write CSV or JSON"
)
NO_GRAY = "the doses are in {}, and a DICOM DVH sequence holds doses in Gy only; write CSV or JSON"
_GRAY = "Gy"
SCALED = "the doses are scaled by {:g}, and a DVH sequence belongs to the doses of its file; set the scale to 1"
_DICOM = "DICOM (*.dcm *)"
_PLOT = QSize(800, 640)  # of a figure, without the legend beside it, pixels
_LEGEND_MARGIN_PIXELS = 16
_PNG_SCALE = 2  # pixels of a PNG for each of the figure


class ExportButton(QPushButton):
    """A menu of everything that can be written.

    ``error_occurred`` has a sentence, ``file_written`` the name of a file.
    """

    error_occurred = Signal(str)
    file_written = Signal(str)

    def __init__(
        self,
        controller: CurveController,
        table: CurveMetricTable,
        operation: Callable[[], Operation],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("Export", parent)
        self._controller, self._table, self._operation = controller, table, operation
        self.files = ResultFiles(self)  # of what takes a while to compute
        self.files.error_occurred.connect(self.error_occurred)
        menu = QMenu(self)
        for title, name, filters, write in (
            ("Figure (PNG)…", "dvh.png", "PNG (*.png)", self.write_png),
            ("Figure (SVG)…", "dvh.svg", "SVG (*.svg)", self.write_svg),
            ("Curves (CSV)…", "curves.csv", "CSV (*.csv)", self.write_curves),
            ("Metrics (CSV)…", "metrics.csv", "CSV (*.csv)", self.write_metrics),
            ("Everything (JSON)…", "dvh.json", "JSON (*.json)", self.write_everything),
        ):
            menu.addAction(title, partial(self._save_as, name, filters, write))
        menu.addAction("Dose-surface histograms (CSV)…", self._save_surfaces)
        menu.addAction("DICOM DVH sequence…", self._save_dicom)
        self.setMenu(menu)
        self.setToolTip("Write the figure, curves, metrics, or everything")

    def write_png(self, path: Path) -> None:
        """Write the plot as it is on screen, dark on white."""
        image = QImage(_PNG_SCALE * self._figure_size(), QImage.Format.Format_RGB32)
        image.fill(Qt.GlobalColor.white)
        self._draw_figure(image, _PNG_SCALE)
        with atomic_write(path) as part:
            if not image.save(str(part), "PNG"):
                raise InvalidInput(f"{path.name} could not be written; choose another folder")

    def write_svg(self, path: Path) -> None:
        """Write the plot as it is on screen, dark on white."""
        size = self._figure_size()
        with atomic_write(path) as part:
            drawing = QSvgGenerator()
            drawing.setFileName(str(part))
            drawing.setSize(size)
            drawing.setViewBox(QRectF(QPointF(0, 0), QSizeF(size)))
            drawing.setTitle("Dose-volume histogram")
            self._draw_figure(drawing)

    def write_curves(self, path: Path) -> None:
        """Write every point of the curves as they are scaled; those of a second plan into a file of their own."""
        self._require_curves()
        for second, target in self._targets(path):
            write_curves_csv(target, self._controller.dvhs_of_plan(second=second))

    def write_metrics(self, path: Path) -> None:
        """Write the table, with cells as of `write_metrics_csv`."""
        self._require_curves()
        rows = [["structure", "plan", *map(str, self._metrics())]]
        for curve in self._controller.curves:
            cells = [self._controller.reader.read(metric, curve).cell for metric in self._metrics()]
            rows.append([curve.dvh.name, "2" if curve.second else "1", *cells])
        write_rows(path, rows)

    def write_everything(self, path: Path) -> None:
        """Write curves as they are scaled, how they were made, and the metrics (null where there is no value)."""
        record = graph(self._operation()) if self._require_curves() else {}
        for second, target in self._targets(path):
            result = self._controller.results[int(second)]
            parameters = {
                **result.parameters,
                RECORD: record,
                "scaled_by": self._controller.factor,
                "prescription": self._controller.reference,
                "metrics": [self._row_of(curve) for curve in self._controller.curves if curve.second == second],
            }
            dvhs = self._controller.dvhs_of_plan(second=second)
            write_json(target, DvhResult(dvhs=dvhs, parameters=parameters, complete=result.complete))

    def write_dicom(self, path: Path, rtdose: Path | None = None, rtstruct: Path | None = None) -> None:
        """Write a copy of the first plan's RTDOSE file with these histograms; None: the files of the layers."""
        layer = self._require_curves().request.plans[0].layer
        source = rtdose or carried(layer, RTDOSE)
        numbers = self._known_numbers() if rtstruct is None else _numbers_in(rtstruct)
        if source is None or not numbers:
            raise InvalidInput(NO_RTDOSE)
        if self._controller.factor != 1:
            raise InvalidInput(SCALED.format(self._controller.factor))
        write_dvh_sequence(path, self._controller.dvhs_of_plan(), numbers, source)

    def surface_writer(self) -> Callable[[Path], str]:
        """What writes dose-surface histograms as doses are scaled, in a worker; those of a second plan apart."""
        live, factor = self._require_curves(), self._controller.factor
        own = live.parts_now()
        targets = self._targets

        def write(path: Path) -> str:
            notes: dict[str, None] = {}
            for (_, target), dose in zip(targets(path), live.doses, strict=True):
                scaled = dose if factor == 1 else dataclasses.replace(dose, values=dose.values * factor)
                found = surface_histograms(scaled, own, live.request.settings.of_surfaces)
                write_surfaces_csv(target, found)
                notes |= dict.fromkeys(note for one in found for note in one.notes)
            return "; ".join([f"written: {path.name}", *notes])

        return write

    # -- dialogs --------------------------------------------------------------------------------------------------

    def _save_as(self, name: str, filters: str, write: Callable[[Path], None], *_: Any) -> None:
        def written(path: Path) -> None:
            write(path)
            self.file_written.emit(path.name)

        with_path(save_path(self, "Export", filters, name=name), written, self.error_occurred.emit)

    def _save_surfaces(self, *_: Any) -> None:
        self.files.ask_to_write("Export", "CSV (*.csv)", "surfaces.csv", self.surface_writer)

    def _save_dicom(self, *_: Any) -> None:
        """Open dialogs for the files of dose and structures where the layers do not know them, and for the new one."""
        if self._controller.live is None:
            self.error_occurred.emit(NO_HISTOGRAMS)
            return
        if (unit := self._controller.axes.unit) != _GRAY:
            self.error_occurred.emit(NO_GRAY.format(unit))
            return
        layer = self._controller.live.request.plans[0].layer
        known = {"RTDOSE": carried(layer, RTDOSE), "RTSTRUCT": self._known_numbers()}
        chosen: list[Path | None] = []
        for title, is_known in known.items():
            path = None if is_known else open_path(self, f"Choose the {title} file of this plan", _DICOM)
            if not is_known and path is None:
                self.error_occurred.emit(NO_RTDOSE)
                return
            chosen.append(path)
        self._save_as("rtdose_dvh.dcm", _DICOM, lambda path: self.write_dicom(path, *chosen))

    # -- the inside -----------------------------------------------------------------------------------------------

    def _require_curves(self) -> LiveHistograms:
        if self._controller.live is None or not self._controller.curves:
            raise InvalidInput(NO_HISTOGRAMS)
        return self._controller.live

    def _known_numbers(self) -> Mapping[str, int]:
        """Numbers of structures in their RTSTRUCT file by name, as far as the layers have them."""
        numbers: dict[str, int] = {}
        for layer in self._require_curves().request.layers:
            numbers |= carried(layer, NUMBERS) or {}
        return numbers

    def _targets(self, path: Path) -> list[tuple[bool, Path]]:
        """The file of each plan."""
        both = [(False, path), (True, path.with_stem(f"{path.stem} (2nd plan)"))]
        return both[: len(self._controller.results)]

    def _metrics(self) -> list[Metric]:
        """The columns of the table, as its header names them."""
        unit = self._controller.axes.unit
        return [metric.in_unit(unit) for metric in self._table.metrics]

    def _row_of(self, curve: Curve) -> dict[str, Any]:
        """The row of a structure in the table."""
        found = {str(metric): self._controller.reader.read(metric, curve) for metric in self._metrics()}
        return {
            "structure": curve.dvh.name,
            "values": {title: None if value.reason else value.value for title, value in found.items()},
            "less_than": {title: value.below for title, value in found.items() if value.is_limit},
            "not_evaluated": {title: value.reason for title, value in found.items() if value.reason},
        }

    def _figure_size(self) -> QSize:
        """Pixels of a figure: the plot keeps its size, however many names stand beside it."""
        self._require_curves()
        return QSize(math.ceil(self._legend_place().right()) + _LEGEND_MARGIN_PIXELS, _PLOT.height())

    def _legend_place(self) -> QRectF:
        height = _PLOT.height() - 2 * _LEGEND_MARGIN_PIXELS
        return QRectF(_PLOT.width(), _LEGEND_MARGIN_PIXELS, legend_width(self._controller.curves, height), height)

    def _draw_figure(self, device: Any, scale: int = 1) -> None:
        """Draw the plot and its legend on a paint device."""
        controller = self._controller
        figure = DvhPlot(theme.PRINT_TEXT, theme.WHITE, FIGURE_DETAIL)
        figure.resize(_PLOT)
        dvhs = [curve.dvh for curve in controller.curves]
        figure.draw_curves(controller.curves, controller.axes, log_start(dvhs), interval_edges(dvhs, controller.axes))
        figure.place_line(figure.prescription, controller.reference)
        figure.grab()  # lays it out
        painter = QPainter(device)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.scale(scale, scale)
        figure.render(painter, QRectF(0, 0, figure.width(), figure.height()))
        draw_legend(painter, self._legend_place(), controller.curves, theme.PRINT_TEXT)
        painter.end()
        figure.close()


def _numbers_in(rtstruct: Path) -> dict[str, int]:
    """Numbers of the structures of an RTSTRUCT file, by name."""
    found = read_rtstruct(rtstruct)
    return {one.name: number for one, number in zip(found.structures, found.numbers, strict=True)}
