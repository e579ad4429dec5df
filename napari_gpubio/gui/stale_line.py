"""The line of a panel that says what makes its result another one than a run with the inputs would give now."""

import functools
from collections.abc import Callable
from contextlib import suppress

from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.operations.differences import difference_in_words
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import single_shot
from napari_gpubio.gui.forms import WrappedLabel
from napari_gpubio.gui.jobs import LatestJob, Outcome, one_step

_COMPARE_MS = 250  # after the last request, until the result is compared
_MAX_DIFFERENCES = 3  # that are named
_NO_BREAK, _JOINER = "\N{NO-BREAK SPACE}", "\N{WORD JOINER}"  # so that no line ends before a unit, or within it

MakeOperation = Callable[[], Operation]


class StaleLine(WrappedLabel):
    """Compares, in a worker, what a result was made with and what the inputs are; it is hidden where they agree.

    Parameters
    ----------
    take_draft
        Reads the inputs and returns what makes an operation of them, or None where there is none.
    """

    def __init__(self, take_draft: Callable[[], MakeOperation | None], parent: QWidget) -> None:
        super().__init__("", parent)
        self.setStyleSheet(theme.MUTED_STYLE)
        self._take_draft = take_draft
        self._begun_with: MakeOperation | None = None  # of a run under way
        self._made_with: MakeOperation | None = None  # of the result that is shown
        self._job = LatestJob(self, self._on_compared)
        self._later = single_shot(_COMPARE_MS, self._compare, self)
        self.hide()

    @property
    def is_busy(self) -> bool:
        """Whether it is being found out if the inputs have changed."""
        return self._later.isActive() or self._job.is_busy

    @property
    def made_with(self) -> MakeOperation | None:
        """What made the result that is shown, if that is known."""
        return self._made_with

    def begin(self, *, with_inputs: bool) -> None:
        """Note the inputs of a run that begins; without them nothing is said of its result."""
        self._begun_with = None
        if with_inputs:
            with suppress(GpuBioError):  # what is missing, the run itself has said
                self._begun_with = self._take_draft()

    def end(self) -> None:
        """Take the result of the run for the one that is shown."""
        self.show_of(self._begun_with)

    def show_of(self, made_with: MakeOperation | None) -> None:
        """Compare with what made another result, which is shown now; None: there is none."""
        self._made_with = None if made_with is None else functools.cache(made_with)
        self._job.cancel()
        self._show([])
        self.compare_soon()

    def compare_soon(self, *_: object) -> None:
        """Compare again, once the inputs rest."""
        if self._made_with is not None:
            self._later.start()

    def abandon(self) -> None:
        """End what runs."""
        self._later.stop()
        self._job.abandon()

    def _compare(self) -> None:
        if self._made_with is None:
            return
        try:
            draft = self._take_draft()
        except GpuBioError as error:
            self._job.cancel()
            self._show([str(error)])
            return
        if draft is not None:
            self._job.submit(one_step("comparing", functools.partial(_differences, self._made_with, draft)))

    def _on_compared(self, outcome: Outcome) -> None:
        self._show(outcome.result or [])

    def _show(self, why: list[str]) -> None:
        more = f"; and {len(why) - _MAX_DIFFERENCES} more" if len(why) > _MAX_DIFFERENCES else ""
        text = f"Made with other inputs: {'; '.join(why[:_MAX_DIFFERENCES])}{more}"
        self.setText(text.replace(" /", f"{_NO_BREAK}/").replace("/", f"/{_JOINER}"))
        self.setVisible(bool(why))


def _differences(made_with: MakeOperation, draft: MakeOperation) -> list[str]:
    """Why a result is not what the inputs would make now; [] if it is."""
    return difference_in_words(made_with(), draft())
