"""Writing what is shown: the figure, the curves, the metrics, everything known, and a DICOM DVH sequence."""

import csv
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from qtpy.QtCore import QPointF, QRectF, QSize, QSizeF, Qt
from qtpy.QtGui import QImage, QPainter
from qtpy.QtSvg import QSvgGenerator
from qtpy.QtWidgets import QFileDialog, QMenu, QPushButton, QWidget

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.napari_io import carried
from napari_gpubio.dose.gui.axes import interval_edges, log_start
from napari_gpubio.dose.gui.curve_controller import CurveController
from napari_gpubio.dose.gui.metric_table import MetricTable
from napari_gpubio.dose.gui.plot import IN_A_FIGURE, PAPER, DvhPlot
from napari_gpubio.dose.gui.plot_legend import draw_legend, legend_width
from napari_gpubio.dose.gui.readout import Shown
from napari_gpubio.dose.io.dicom_rt import read_rtstruct
from napari_gpubio.dose.io.dvh_files import write_curves_csv, write_dvh_sequence, write_json
from napari_gpubio.dose.metrics.curve import DvhResult
from napari_gpubio.dose.metrics.metric import Metric
from napari_gpubio.dose.napari_io import NUMBERS, RTDOSE

NOTHING = "there are no histograms to write; press Run first"
NO_RTDOSE = (
    "a DICOM DVH sequence is written into a copy of the RTDOSE file and refers to the numbers of the RTSTRUCT file; "
    "choose both, or write CSV or JSON"
)
SCALED = "the doses are scaled by {:g}, and a DVH sequence belongs to the doses of its file; set the scale to 1"
_PLOT = QSize(800, 640)  # of a figure, without the legend beside it, pixels
_DICOM = "DICOM (*.dcm *)"
_MARGIN = 16  # above, below and right of the legend, pixels
_FINER = 2  # times, has a picture of pixels


class ExportButton(QPushButton):
    """A menu of everything that can be written.

    Parameters
    ----------
    controller, table
        What is shown.
    complain
        Shows a sentence.
    say
        Shows a short text.
    """

    def __init__(
        self,
        controller: CurveController,
        table: MetricTable,
        complain: Callable[[str], None],
        say: Callable[[str], None],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("Export", parent)
        self._controller, self._table, self._complain, self._say = controller, table, complain, say
        menu = QMenu(self)
        for title, name, kind, write in (
            ("Figure (PNG)…", "dvh.png", "PNG (*.png)", self.write_png),
            ("Figure (SVG)…", "dvh.svg", "SVG (*.svg)", self.write_svg),
            ("Curves (CSV)…", "curves.csv", "CSV (*.csv)", self.write_curves),
            ("Metrics (CSV)…", "metrics.csv", "CSV (*.csv)", self.write_metrics),
            ("Everything (JSON)…", "dvh.json", "JSON (*.json)", self.write_everything),
        ):
            menu.addAction(title, lambda n=name, k=kind, w=write: self._ask(n, k, w))
        menu.addAction("DICOM DVH sequence…", self._ask_dicom)
        self.setMenu(menu)
        self.setToolTip("Write the figure, curves, metrics, or everything")

    def write_png(self, path: Path) -> None:
        """Write the plot as it is shown, dark on white."""
        image = QImage(_FINER * self._figure_size(), QImage.Format.Format_RGB32)
        image.fill(Qt.GlobalColor.white)
        self._draw(image, _FINER)
        with atomic_write(path) as part:
            if not image.save(str(part), "PNG"):
                raise InvalidInput(f"{path.name} could not be written; choose another folder")

    def write_svg(self, path: Path) -> None:
        """Write the plot as it is shown, dark on white."""
        size = self._figure_size()
        with atomic_write(path) as part:
            drawing = QSvgGenerator()
            drawing.setFileName(str(part))
            drawing.setSize(size)
            drawing.setViewBox(QRectF(QPointF(0, 0), QSizeF(size)))
            drawing.setTitle("Dose-volume histogram")
            self._draw(drawing)

    def write_curves(self, path: Path) -> None:
        """Write every point of the curves as they are scaled; those of a second plan into a file of their own."""
        self._require()
        for second, target in self._targets(path):
            write_curves_csv(target, self._controller.plan(second=second))

    def write_metrics(self, path: Path) -> None:
        """Write the table; a cell without a value says why."""
        self._require()
        with atomic_write(path) as part, part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["structure", "plan", *map(str, self._metrics())])
            for one in self._controller.curves:
                cells = [self._controller.reading.answer(metric, one).cell for metric in self._metrics()]
                writer.writerow([one.dvh.name, 2 if one.second else 1, *cells])

    def write_everything(self, path: Path) -> None:
        """Write curves as they are scaled, how they were made, and the metrics (null where there is no value)."""
        self._require()
        for second, target in self._targets(path):
            made = self._controller.results[int(second)]
            told = {
                **made.parameters,
                "scaled_by": self._controller.factor,
                "prescription": self._controller.reference,
                "metrics": [self._described(one) for one in self._controller.curves if one.second == second],
            }
            write_json(
                target, DvhResult(dvhs=self._controller.plan(second=second), parameters=told, complete=made.complete)
            )

    def write_dicom(self, path: Path, rtdose: Path | None = None, rtstruct: Path | None = None) -> None:
        """Write a copy of the RTDOSE file of the first plan with these histograms.

        Parameters
        ----------
        path
            The new file.
        rtdose, rtstruct
            The files of dose and structures; None: as the layers tell.
        """
        layer = self._require().request.plans[0].layer
        source = rtdose or carried(layer, RTDOSE)
        numbers = self._numbers() if rtstruct is None else _numbers_in(rtstruct)
        if source is None or not numbers:
            raise InvalidInput(NO_RTDOSE)
        if self._controller.factor != 1:
            raise InvalidInput(SCALED.format(self._controller.factor))
        write_dvh_sequence(path, self._controller.plan(), numbers, source)

    # -- the inside -----------------------------------------------------------------------------------------------

    def _numbers(self) -> Mapping[str, int]:
        """Numbers of structures in their RTSTRUCT file, by name, as far as the layers tell."""
        found: dict[str, int] = {}
        for layer in self._require().request.layers:
            found |= carried(layer, NUMBERS) or {}
        return found

    def _figure_size(self) -> QSize:
        """Pixels of a figure: the plot keeps its size, however many names stand beside it."""
        self._require()
        return QSize(math.ceil(self._beside().right()) + _MARGIN, _PLOT.height())

    def _beside(self) -> QRectF:
        """The place of the legend."""
        height = _PLOT.height() - 2 * _MARGIN
        return QRectF(_PLOT.width(), _MARGIN, legend_width(self._controller.curves, height), height)

    def _draw(self, device: Any, finer: int = 1) -> None:
        """Draw the plot anew on something to paint on, with so many pixels for each of the figure."""
        controller = self._controller
        figure = DvhPlot(PAPER, "w", IN_A_FIGURE)
        figure.resize(_PLOT)
        dvhs = [one.dvh for one in controller.curves]
        figure.show_curves(controller.curves, controller.axes, log_start(dvhs), interval_edges(dvhs, controller.axes))
        figure.show_prescription(controller.reference)
        figure.grab()  # lays it out
        painter = QPainter(device)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.scale(finer, finer)
        figure.render(painter, QRectF(0, 0, figure.width(), figure.height()))
        draw_legend(painter, self._beside(), controller.curves, PAPER)
        painter.end()
        figure.close()

    def _require(self) -> Any:
        if self._controller.counted is None or not self._controller.curves:
            raise InvalidInput(NOTHING)
        return self._controller.counted

    def _targets(self, path: Path) -> list[tuple[bool, Path]]:
        """Which plan goes into which file."""
        both = [(False, path), (True, path.with_stem(f"{path.stem} (2nd plan)"))]
        return both[: len(self._controller.results)]

    def _metrics(self) -> list[Metric]:
        """The columns of the table, as its head names them."""
        unit = self._controller.axes.unit
        return [metric.in_unit(unit) for metric in self._table.metrics]

    def _described(self, one: Shown) -> dict[str, Any]:
        """The row of a structure."""
        found = {str(metric): self._controller.reading.answer(metric, one) for metric in self._metrics()}
        return {
            "structure": one.dvh.name,
            "values": {title: None if answer.reason else answer.value for title, answer in found.items()},
            "not_evaluated": {title: answer.reason for title, answer in found.items() if answer.reason},
        }

    def _ask_dicom(self) -> None:
        """Ask for the files of dose and structures, as far as the layers do not tell them, and for the new one."""
        if self._controller.counted is None:
            self._complain(NOTHING)
            return
        chosen: list[Path | None] = []
        layer = self._controller.counted.request.plans[0].layer
        for title, known in (("RTDOSE", carried(layer, RTDOSE)), ("RTSTRUCT", self._numbers())):
            text = "" if known else QFileDialog.getOpenFileName(self, f"{title} file of this plan", "", _DICOM)[0]
            chosen.append(Path(text) if text else None)
        self._ask("rtdose_dvh.dcm", _DICOM, lambda path: self.write_dicom(path, *chosen))

    def _ask(self, name: str, kind: str, write: Callable[[Path], None]) -> None:
        path, _ = QFileDialog.getSaveFileName(self, "Export", name, kind)
        if not path:
            return
        try:
            write(Path(path))
        except GpuBioError as error:
            self._complain(str(error))
        else:
            self._say(f"written: {Path(path).name}")


def _numbers_in(rtstruct: Path) -> dict[str, int]:
    """Numbers of the structures of an RTSTRUCT file, by name."""
    found = read_rtstruct(rtstruct)
    return {one.name: number for one, number in zip(found.structures, found.numbers, strict=True)}
