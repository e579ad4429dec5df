"""The sum and the difference of two plans as dose layers, which are then used like any other dose."""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.operations.runs import run_steps
from napari_gpubio.core.reading import NOTES, noted
from napari_gpubio.core.steps import Step
from napari_gpubio.dose.gui.histograms import Plan, unit_note
from napari_gpubio.dose.model import OF_BEAMS, Dose
from napari_gpubio.dose.napari_io import PLAN, dose_layer, of_plan
from napari_gpubio.dose.operations import DoseDifference, DoseSum
from napari_gpubio.dose.operations.layer_sources import dose_shown
from napari_gpubio.gui.forms import row_of, text_button
from napari_gpubio.gui.jobs import LatestJob, Outcome

_GRID = "as a new dose layer on the grid of the first one; a plan on another grid is interpolated linearly"
_SUM_TIP = f"The sum of both plans {_GRID}"
_DIFFERENCE_TIP = f"The first plan minus the second one {_GRID}"
_DIVERGING = "PiYG"  # of napari's colormaps, pale at 0


class CombineBox(QWidget):
    """Buttons that make a layer of the sum or the difference of two plans.

    ``layer_added`` has the name of a new layer, ``error_occurred`` a sentence.
    """

    layer_added = Signal(str)
    error_occurred = Signal(str)

    def __init__(self, viewer: Any, plans: Callable[[], tuple[Plan, ...]], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._viewer, self._plans = viewer, plans
        self._of = set[Any]()  # plans whose doses are combined
        self._note = ""  # on a unit that was taken for theirs
        self._job = LatestJob(self, self._on_finished)
        self.sum = text_button("Add layer: sum", _SUM_TIP, self, partial(self._start, _sum_of))
        self.difference = text_button(
            "Add layer: difference", _DIFFERENCE_TIP, self, partial(self._start, _difference_of)
        )
        self.setLayout(row_of(self.sum, self.difference, stretch=(1, 1)))

    @property
    def is_busy(self) -> bool:
        """Whether a layer is being made."""
        return self._job.is_busy

    def detach(self) -> None:
        """End the worker."""
        self._job.abandon()

    def _start(self, make: Callable[[Sequence[Output[Dose]]], Operation]) -> None:
        try:
            plans = self._plans()
        except InvalidInput as error:
            self.error_occurred.emit(str(error))
            return
        self._of = {carried(plan.layer, PLAN) for plan in plans}
        self._note = unit_note(plans).rstrip(".")
        self._job.submit(lambda _: _steps(plans, make))

    def _on_finished(self, outcome: Outcome) -> None:
        if outcome.error:
            self.error_occurred.emit(outcome.error)
            return
        dose, operation = outcome.result
        metadata: dict[str, Any] = {
            RECORD: record_of_output(operation.output()),
            NOTES: [self._note] * bool(self._note),
        }
        if dose.summation == OF_BEAMS and dose.unit == "Gy" and len(self._of) == 1 and None not in self._of:
            with noted() as found:
                metadata |= of_plan(dose, *self._of)
            metadata[NOTES] += found
        data, keywords, _ = dose_layer(dose, metadata=metadata, **_display(dose))
        layer = self._viewer.add_image(data, **keywords)
        self.layer_added.emit(layer.name)


def _sum_of(doses: Sequence[Output[Dose]]) -> Operation:
    return DoseSum(doses=tuple(doses))


def _difference_of(doses: Sequence[Output[Dose]]) -> Operation:
    if len(doses) < 2:
        raise InvalidInput("a difference needs two plans; choose another dose as the second plan")
    return DoseDifference(dose=doses[0], minus=doses[1])


def _steps(
    plans: tuple[Plan, ...], make: Callable[[Sequence[Output[Dose]]], Operation]
) -> Generator[Step, None, tuple[Dose, Operation]]:
    """Find out where the doses of plans come from, and combine them."""
    yield Step(0, 1, "reading the layers")
    operation = make([dose_shown(one.layer, one.unit, frame=one.frame, scale=one.scale)[0] for one in plans])
    return (yield from run_steps(operation, device="cpu")), operation


def _display(dose: Dose) -> dict[str, Any]:
    """How a dose that may be negative is shown: 0 in the middle of two colors."""
    reach = max(dose.largest, -dose.least)
    return {"colormap": _DIVERGING, "contrast_limits": (-reach, reach)} if dose.least < 0 < reach else {}
