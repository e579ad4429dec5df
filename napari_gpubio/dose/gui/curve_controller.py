"""Keeps histograms, plot, tables and choices in step; another scale or other axes need no counting."""

from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.napari_io import carried
from napari_gpubio.dose.gui.axes import NO_REFERENCE, Axes, interval_edges, log_start
from napari_gpubio.dose.gui.axes_box import AxesBox, plain
from napari_gpubio.dose.gui.constraint_box import ConstraintBox
from napari_gpubio.dose.gui.metric_table import MetricTable
from napari_gpubio.dose.gui.plot import DvhPlot
from napari_gpubio.dose.gui.readout import Shown
from napari_gpubio.dose.gui.request import Counted, Structure
from napari_gpubio.dose.gui.scale_box import ScaleBox
from napari_gpubio.dose.gui.whole_dose import Reading, WholeDose
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.gui.debounce import Debouncer

if TYPE_CHECKING:
    from napari_gpubio.dose.metrics.curve import DvhResult

_NO_COLOR = "#9a9a9a"
_Look = tuple[Dvh, float, str, bool]  # histogram, factor, color, whether of the second plan


class CurveController(QObject):
    """Draws the histograms of a run as they are scaled, and tells their metrics and verdicts.

    ``drawn`` says that the curves or the axes are others, ``noted`` carries what has to be known of them,
    ``error_occurred`` why they cannot be told.

    Parameters
    ----------
    plot, axes_box, scale_box, table, constraints
        The parts of the panel.
    """

    drawn = Signal()
    noted = Signal(str)
    error_occurred = Signal(str)

    def __init__(
        self,
        plot: DvhPlot,
        axes_box: AxesBox,
        scale_box: ScaleBox,
        table: MetricTable,
        constraints: ConstraintBox,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.counted: Counted | None = None
        self.results: tuple[DvhResult, ...] = ()
        self.curves: tuple[Shown, ...] = ()
        self.axes = Axes()
        self._plot, self._axes_box, self._scale_box = plot, axes_box, scale_box
        self._table, self._constraints = table, constraints
        self._debouncer = Debouncer(self._refresh, self)  # many strokes and moves of a slider, one picture
        self._recount = False
        self._colors: list[str] = []  # of all structures; napari takes a while for many
        self._made: dict[_Look, Shown] = {}  # what is on screen, so that a curve that stays is the same to all
        self.whole = WholeDose(self)
        self.reading = Reading()
        for part in (axes_box, scale_box, table, constraints):
            part.changed.connect(self.redraw)
        self.whole.found.connect(self.redraw)

    @property
    def factor(self) -> float:
        """What doses are multiplied by."""
        return self._scale_box.factor

    @property
    def reference(self) -> float | None:
        """The prescription."""
        return self._scale_box.reference

    def show(self, counted: Counted | None) -> None:
        """Show another run, or none."""
        before, self.counted, self._colors = self.counted, counted, []
        if before is not None and before is not counted:
            before.close()
        self._recount = True
        self._refresh()

    def repaint(self) -> None:
        """Labels were painted: draw the histograms as they are now, soon."""
        self._recount = True
        self._debouncer.ask()

    def recolor(self) -> None:
        """Labels have other colors: draw the same histograms in these, soon."""
        self._colors = []
        self._debouncer.ask()

    def redraw(self) -> None:
        """Another scale or other axes: draw the same histograms, soon."""
        self._debouncer.ask()

    def plan(self, second: bool = False) -> tuple[Dvh, ...]:  # noqa: FBT002
        """The scaled histograms of a plan."""
        return tuple(one.dvh for one in self.curves if one.second == second)

    def structure_of(self, number: int) -> Structure | None:
        """Where a curve comes from."""
        if self.counted is None or not self.curves:
            return None
        return self.counted.structures[number % len(self.counted.structures)]

    def finish(self) -> None:
        """Free everything."""
        self._debouncer.forget()
        self.whole.finish()
        if self.counted is not None:
            self.counted.close()
        self.counted, self.results, self.curves, self._made = None, (), (), {}

    # -- the inside -----------------------------------------------------------------------------------------------

    def _refresh(self) -> None:
        self._debouncer.forget()
        if self._recount:
            self._recount = False
            try:
                self.results = () if self.counted is None else self.counted.results()
            except InvalidInput as error:  # painted beyond a dose where that is refused
                self.error_occurred.emit(str(error))
                return
        self.curves = self._shown()
        unit = "" if self.counted is None else self.counted.doses[0].unit
        wanted = self._axes_box.axes(self.reference, unit)
        self.axes = plain(wanted)
        self._show_units(unit)
        dvhs = [one.dvh for one in self.curves]
        start = log_start(dvhs) if self.axes.logarithmic else 0.0
        edges = interval_edges(dvhs, self.axes) if self.axes.differential else np.empty(0)
        self._plot.show_curves(self.curves, self.axes, start, edges)
        self._plot.show_prescription(self.reference)
        self.reading = self._read_with()
        self._table.show_curves(self.curves, self.reading)
        plans = [self.plan()] + ([self.plan(second=True)] if len(self.results) > 1 else [])
        self._constraints.show_dvhs(plans if self.curves else [], self.reading)
        self.noted.emit(self._notes(missing_reference=wanted.relative_dose and self.reference is None))
        self.drawn.emit()

    def _read_with(self) -> Reading:
        """The prescription, and the whole dose where a metric needs it."""
        asked = [*self._table.metrics, *(one.metric for one in self._constraints.constraints)]
        if self.counted is None or not any(metric.needs_everything for metric in asked):
            self.whole.forget()
            return Reading(reference=self.reference)
        found = tuple(one.scaled(self.factor) for one in self.whole.ask(self.counted))
        return Reading(reference=self.reference, everything=found, missing=self.whole.missing)

    def _shown(self) -> tuple[Shown, ...]:
        if self.counted is None:
            self._made = {}
            return ()
        if not self._colors:
            self._colors = [color_of(one, self.counted) for one in self.counted.structures]
        wanted = [
            (dvh, self.factor, color, bool(number))
            for number, result in enumerate(self.results)
            for dvh, color in zip(result, self._colors, strict=True)
        ]
        self._made = {key: self._made.get(key) or _scaled(*key) for key in wanted}
        return tuple(self._made[key] for key in wanted)

    def _show_units(self, unit: str) -> None:
        if unit:
            for part in (self._axes_box, self._scale_box, self._table):
                part.show_unit(unit)
        self._scale_box.show_top(max((one.dvh.largest for one in self.curves if not one.dvh.is_empty), default=0.0))

    def _notes(self, *, missing_reference: bool) -> str:
        notes = [NO_REFERENCE] if missing_reference else []
        told = [] if self.counted is None else self.counted.request.layers_with_doses
        notes += [note for layer in told for note in carried(layer, "notes") or ()]
        notes += [note for one in self.curves for note in one.dvh.notes]
        return " ".join(_sentence(note) for note in dict.fromkeys(notes))  # each once


def _scaled(dvh: Dvh, factor: float, color: str, second: bool) -> Shown:
    return Shown(dvh=dvh.scaled(factor), color=color, second=second)


def _sentence(note: str) -> str:
    """A note with a capital and a full stop; a file's name keeps its letters."""
    begins_with_file = "." in note.split(" ", 1)[0]
    return f"{note if begins_with_file else note[:1].upper() + note[1:]}."


def color_of(structure: Structure, counted: Counted) -> str:
    """The color of a structure in its layer, as ``#rrggbb``; gray where it cannot be read."""
    if structure.label is None:
        color = counted.contours[structure.name].color
        return _NO_COLOR if color is None else _hex(np.asarray(color, np.float64))
    try:
        rgba: Any = structure.layer.colormap.map(structure.label)
    except (KeyError, IndexError, ValueError):
        return _NO_COLOR
    return _hex(np.asarray(rgba, np.float64).reshape(-1)[:3] * 255)


def _hex(rgb: Any) -> str:
    return "#" + "".join(f"{round(float(part)):02x}" for part in rgb)
