"""From the histograms of a run to plot, tables and notes; another scale or other axes need no new run."""

from collections.abc import Generator
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import Step
from napari_gpubio.dose.bands import DvhBand
from napari_gpubio.dose.gui.constraint_table import ConstraintTable
from napari_gpubio.dose.gui.controls import AxesBox, ScaleBox
from napari_gpubio.dose.gui.curves import (
    NO_REFERENCE,
    PENDING,
    Axes,
    Curve,
    MetricReader,
    interval_edges,
    largest_dose,
    log_start,
)
from napari_gpubio.dose.gui.histograms import LiveHistograms, Structure
from napari_gpubio.dose.gui.metric_table import CurveMetricTable
from napari_gpubio.dose.gui.plot import DvhPlot
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.run import whole_dose_steps
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Debouncer, connect_all
from napari_gpubio.gui.forms import notes_text
from napari_gpubio.gui.jobs import LatestJob, Outcome

if TYPE_CHECKING:
    from napari_gpubio.dose.metrics.curve import DvhResult

_CurveKey = tuple[Dvh, float, str, bool]  # histogram, factor, color, whether it belongs to the second plan


class CurveController(QObject):
    """Keeps the histograms of a run and draws their curves, metrics and constraints as they are scaled.

    Changes are requested by ``recount_later`` (labels were painted), ``recolor_later`` and ``redraw_later``; all
    requests of one pass through the event loop become one ``update_curves``.

    ``curves_drawn`` is emitted when curves or axes have changed, ``notes_changed`` with what is to be known of them,
    ``error_occurred`` with the reason why there are none.
    """

    curves_drawn = Signal()
    notes_changed = Signal(str)
    error_occurred = Signal(str)

    def __init__(
        self,
        plot: DvhPlot,
        axes_box: AxesBox,
        scale_box: ScaleBox,
        metric_table: CurveMetricTable,
        constraint_table: ConstraintTable,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.live: LiveHistograms | None = None
        self.results: tuple[DvhResult, ...] = ()
        self._bands: tuple[tuple[DvhBand, ...], ...] = ()  # of each plan
        self.curves: tuple[Curve, ...] = ()
        self.axes = Axes()
        self.reader = MetricReader()
        self.whole_dose = WholeDose(self)
        self._plot, self._axes_box, self._scale_box = plot, axes_box, scale_box
        self._metric_table, self._constraint_table = metric_table, constraint_table
        self._debouncer = Debouncer(self.update_curves, self)  # many strokes and moves of a slider, one picture
        self._must_recount = False
        self._colors: list[str] = []  # of all structures; napari takes a while for many
        self._known_curves: dict[_CurveKey, Curve] = {}  # on screen, so that an unchanged curve stays the same object
        connect_all(
            [
                (axes_box.axes_changed, self.redraw_later),
                (scale_box.scale_changed, self.redraw_later),
                (metric_table.metrics_changed, self.redraw_later),
                (constraint_table.constraints_changed, self.redraw_later),
                (self.whole_dose.finished, self.redraw_later),
            ]
        )

    @property
    def factor(self) -> float:
        """What doses are multiplied by."""
        return self._scale_box.factor

    @property
    def reference(self) -> float | None:
        """The prescription, or None."""
        return self._scale_box.reference

    @property
    def is_busy(self) -> bool:
        """Whether curves or metrics are about to change."""
        return self._debouncer.is_due or self.whole_dose.is_running

    def dvhs_of_plan(self, *, second: bool = False) -> tuple[Dvh, ...]:
        """Return the histograms of a plan as they are scaled."""
        return tuple(curve.dvh for curve in self.curves if curve.second == second)

    def structure_of(self, number: int) -> Structure | None:
        """Return the structure of a curve."""
        if self.live is None or not self.curves:
            return None
        return self.live.structures[number % len(self.live.structures)]

    # -- changes --------------------------------------------------------------------------------------------------

    def open_run(self, live: LiveHistograms | None) -> None:
        """Draw the curves of another run, or of none, and close the one before."""
        before, self.live, self._colors = self.live, live, []
        if before is not None and before is not live:
            before.close()
        self._must_recount = True
        self.update_curves()

    def recount_later(self) -> None:
        """Draw the histograms as they are after labels were painted."""
        self._must_recount = True
        self._debouncer.request()

    def recolor_later(self) -> None:
        """Draw the same histograms in the colors that the labels have now."""
        self._colors = []
        self._debouncer.request()

    def redraw_later(self) -> None:
        """Draw the same histograms with another scale, other axes or other metrics."""
        self._debouncer.request()

    def close_run(self) -> None:
        """Free everything."""
        self._debouncer.cancel()
        self.whole_dose.close()
        if self.live is not None:
            self.live.close()
        self.live, self.results, self._bands, self.curves, self._known_curves = None, (), (), (), {}

    def update_curves(self) -> None:
        """Read the histograms if labels were painted, and bring plot, tables and notes up to date."""
        self._debouncer.cancel()
        if self._must_recount and not self._recount():
            return
        self.curves = self._scaled_curves()
        unit = "" if self.live is None else self.live.doses[0].unit
        word = "dose" if self.live is None else self.live.doses[0].word
        self.axes = self._axes_box.axes(self.reference, unit, word)
        self._pass_on_unit(unit, word)
        self._draw_plot()
        self.reader = self._metric_reader()
        self._metric_table.update_rows(self.curves, self.reader)
        plans = [self.dvhs_of_plan(second=bool(number)) for number in range(len(self.results))]
        self._constraint_table.update_results(plans if self.curves else [], self.reader)
        self.notes_changed.emit(self._notes())
        self.curves_drawn.emit()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _recount(self) -> bool:
        """Read the histograms as they are now; returns whether that was possible."""
        self._must_recount = False
        try:
            self.results = () if self.live is None else self.live.results()
            self._bands = () if self.live is None else self.live.bands(self.results)
        except InvalidInput as error:  # painted beyond a dose where that is refused
            self.error_occurred.emit(str(error))
            return False
        return True

    def _scaled_curves(self) -> tuple[Curve, ...]:
        if self.live is None:
            self._known_curves = {}
            return ()
        if not self._colors:
            self._colors = [color_of(structure, self.live) for structure in self.live.structures]
        keys = [
            (dvh, self.factor, color, bool(plan))
            for plan, result in enumerate(self.results)
            for dvh, color in zip(result, self._colors, strict=True)
        ]
        bands = [band for plan, result in enumerate(self.results) for band in self._bands[plan] or [None] * len(result)]
        both = zip(keys, bands, strict=True)
        self._known_curves = {key: self._known_curves.get(key) or _scaled_curve(*key, band) for key, band in both}
        return tuple(self._known_curves[key] for key in keys)

    def _pass_on_unit(self, unit: str, word: str) -> None:
        if unit:
            self._axes_box.set_unit(unit, word)
            self._scale_box.set_unit(unit)
            self._metric_table.set_unit(unit)
        self._scale_box.set_largest_dose(largest_dose(self.curves))

    def _draw_plot(self) -> None:
        dvhs = [curve.dvh for curve in self.curves]
        start = log_start(dvhs) if self.axes.logarithmic else 0.0
        edges = interval_edges(dvhs, self.axes) if self.axes.differential else np.empty(0)
        self._plot.draw_curves(self.curves, self.axes, start, edges)
        self._plot.place_line(self._plot.prescription, self.reference)

    def _metric_reader(self) -> MetricReader:
        """Return the reader, with the whole dose where a metric needs it."""
        metrics = [*self._metric_table.metrics, *(one.metric for one in self._constraint_table.constraints)]
        if self.live is None or not any(metric.needs_everything for metric in metrics):
            self.whole_dose.cancel()
            return MetricReader(reference=self.reference)
        whole_doses = tuple(dvh.scaled(self.factor) for dvh in self.whole_dose.request(self.live))
        reason = self.whole_dose.missing_reason
        return MetricReader(reference=self.reference, whole_doses=whole_doses, missing_reason=reason)

    def _notes(self) -> str:
        notes = [NO_REFERENCE] if self.axes.lacks_reference else []
        if self.live is not None:
            notes += [note for dose in self.live.doses for note in dose.notes]
            notes += self.live.notes
        notes += [note for curve in self.curves for note in curve.dvh.notes]
        return notes_text(notes)


class WholeDose(QObject):
    """Counts the whole dose of a run when it is first requested: indices of a plan need all that is irradiated.

    ``finished`` is emitted when it is known, or when it is known why it cannot be counted.
    """

    finished = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.missing_reason = PENDING
        self._live: LiveHistograms | None = None
        self._dvhs: tuple[Dvh, ...] = ()
        self._job = LatestJob(self, self._on_finished)

    @property
    def is_running(self) -> bool:
        """Whether it is being counted."""
        return self._live is not None and not self._dvhs and self.missing_reason == PENDING

    def request(self, live: LiveHistograms) -> tuple[Dvh, ...]:
        """Return the histogram of each plan; nothing until they are counted."""
        if self._live is not live:
            self.cancel()
            self._live = live
            self._job.submit(lambda stop: _whole_dose_steps(live, stop))
        return self._dvhs

    def cancel(self) -> None:
        """Forget the run and its histograms."""
        self._job.cancel()
        self._live, self._dvhs, self.missing_reason = None, (), PENDING

    def close(self) -> None:
        """End the worker, and forget everything."""
        self._job.abandon()
        self.cancel()

    def _on_finished(self, outcome: Outcome) -> None:
        self._dvhs, self.missing_reason = outcome.result or (), outcome.error or PENDING
        self.finished.emit()


def color_of(structure: Structure, live: LiveHistograms) -> str:
    """The color of a structure in its layer, as ``#rrggbb``; gray where it cannot be read."""
    if structure.label is None:
        color = live.contours[structure.name].color
        return theme.MUTED if color is None else _hex(np.asarray(color, np.float64))
    try:
        rgba: Any = structure.layer.colormap.map(structure.label)
    except (KeyError, IndexError, ValueError):
        return theme.MUTED
    return _hex(np.asarray(rgba, np.float64).reshape(-1)[:3] * 255)


def _whole_dose_steps(live: LiveHistograms, stop: Event) -> Generator[Step, None, tuple[Dvh, ...]]:
    request, dvhs = live.request, []
    for dose in live.doses:
        dvhs.append((yield from whole_dose_steps(dose, request.settings, device=request.device, stop=stop)))
    return tuple(dvhs)


def _scaled_curve(dvh: Dvh, factor: float, color: str, second: bool, band: DvhBand | None) -> Curve:
    return Curve(dvh=dvh.scaled(factor), color=color, second=second, band=band and band.scaled(factor))


def _hex(rgb: Any) -> str:
    return "#" + "".join(f"{round(float(part)):02x}" for part in rgb)
