"""All that is irradiated: the histogram of the whole dose, which indices of a plan are made of."""

from collections.abc import Generator
from dataclasses import dataclass
from threading import Event

from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.steps import Step
from napari_gpubio.dose.gui.readout import Shown
from napari_gpubio.dose.gui.request import Counted
from napari_gpubio.dose.metrics.curve import Dvh
from napari_gpubio.dose.metrics.metric import Metric, MetricValue, evaluate_metric
from napari_gpubio.dose.run import whole_dose_steps
from napari_gpubio.gui.jobs import LatestJob, Outcome

COUNTING = "the whole dose is being counted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What metrics are read with.

    Parameters
    ----------
    reference
        The prescription.
    everything
        Histograms of the whole dose of each plan; empty where they are not known.
    missing
        Why they are not.
    """

    reference: float | None = None
    everything: tuple[Dvh, ...] = ()
    missing: str = COUNTING

    def answer(self, metric: Metric, one: Shown) -> MetricValue:
        """What a metric says of a curve."""
        if metric.needs_everything and not self.everything:
            return MetricValue(reason=self.missing, is_refused=self.missing != COUNTING)
        return evaluate_metric(metric, one.dvh, self.reference, everything=self.of_plan(second=one.second))

    def of_plan(self, *, second: bool) -> Dvh | None:
        """The histogram of the whole dose of a plan."""
        return self.everything[int(second)] if self.everything else None


class WholeDose(QObject):
    """Counts the whole dose of a run once it is asked for; ``found`` says that it is there, or why it is not."""

    found = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.missing = COUNTING
        self._counted: Counted | None = None
        self._dvhs: tuple[Dvh, ...] = ()
        self._job = LatestJob(self)
        self._job.finished.connect(self._on_found)

    @property
    def is_counting(self) -> bool:
        """Whether it will be there soon."""
        return self._counted is not None and not self._dvhs and self.missing == COUNTING

    def ask(self, counted: Counted) -> tuple[Dvh, ...]:
        """The histograms of each plan; nothing until they are counted."""
        if self._counted is not counted:
            self.forget()
            self._counted = counted
            self._job.submit(lambda stop: _steps(counted, stop))
        return self._dvhs

    def forget(self) -> None:
        """Let go of a run."""
        self._job.cancel()
        self._counted, self._dvhs, self.missing = None, (), COUNTING

    def finish(self) -> None:
        """End what runs."""
        self._job.abandon()
        self.forget()

    def _on_found(self, outcome: Outcome) -> None:
        self._dvhs, self.missing = outcome.result or (), outcome.error or COUNTING
        self.found.emit()


def _steps(counted: Counted, stop: Event) -> Generator[Step, None, tuple[Dvh, ...]]:
    request, found = counted.request, []
    for dose in counted.doses:
        found.append((yield from whole_dose_steps(dose, request.settings, device=request.device, stop=stop)))
    return tuple(found)
