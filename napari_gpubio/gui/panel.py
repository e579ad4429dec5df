"""The shared part of every dock widget: inputs that are run on a device, with Stop, progress and Copy as Python."""

import functools
import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QApplication, QMessageBox, QPushButton, QWidget

from napari_gpubio.core.errors import GpuBioError, InvalidInput
from napari_gpubio.core.numbers import seconds_text
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.steps import Step
from napari_gpubio.core.timing import RunClock
from napari_gpubio.gui.connections import Connections
from napari_gpubio.gui.forms import Label, text_button
from napari_gpubio.gui.history import history_of
from napari_gpubio.gui.jobs import Job, LatestJob, MakeSteps, Outcome, one_step
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.panel_frame import PanelFrame
from napari_gpubio.gui.processors import BackgroundWarmup, DevicePicker
from napari_gpubio.gui.progress import PreviewPacer
from napari_gpubio.gui.run_parts import RunDisplay, RunForm, ShownBy, script_text
from napari_gpubio.gui.stale_line import StaleLine
from napari_gpubio.gui.turns import Turns

logger = logging.getLogger(__name__)
_RUNS_WHEN_WARM = "The run starts by itself as soon as the CPU engine is prepared."


class EnginePanel(PanelFrame, RunForm, RunDisplay):
    """Base of the dock widgets.

    A subclass fills ``self.inputs`` (a vertical layout), and is the form and the display of its runs, or sets
    ``self.run_form`` and ``self.run_display`` to parts that are. The viewer is napari's or its public proxy.
    """

    marks_stale = True  # whether a result says that the inputs have changed since; not where parts of the panel do
    runs_after_undo = False  # whether its results are made again rather than kept
    warms: tuple[str, ...] = ()  # the engines whose CPU backends are compiled while the panel is open
    warms_first: tuple[str, ...] = ()  # those of their warm-ups that a run needs; it waits for no others
    run_finished = Signal()
    warmed = Signal()  # some or all of the CPU backend has been compiled, or could not be
    device_changed = Signal()

    def __init__(self, viewer: Any, *, run_text: str = "Run") -> None:
        super().__init__(viewer)
        self._run_text = run_text
        self._job: Job | None = None
        self._pacer, self._showing = PreviewPacer(self), Turns(self)
        self._rerun = False
        self._refusal = ""  # the message of the last Run, if it was refused
        self._begun, self._clock = 0.0, RunClock()
        self.run_form: RunForm = self
        self.run_display: RunDisplay = self
        self._current_display: RunDisplay = self  # that of the run under way
        self._has_preview = False  # of it is shown
        self._other: tuple[MakeSteps, RunDisplay] | None = None  # what runs next instead of the inputs
        self._warmup = self._awaited = self._connected(BackgroundWarmup((*self.warms_first, *self.warms), self))
        self._runs_when_warm = False
        self._needed: tuple[str, ...] = ()  # what the run that waits, or the last one, needs compiled
        self._warmup_status = ""
        self._finding = LatestJob(self, self._on_found)  # the operation that a script is of
        self._is_behind = False  # what is run after a change, since layers changed while another panel was in front
        self._busy_note = ""  # which ends with the run under way
        self.stale_line = StaleLine(self.draft_to_compare, self)
        changes = viewer.layers.events
        come_and_go = (changes.inserted, changes.removed)
        self.own(Connections(lambda: [(event, self.stale_line.compare_soon) for event in come_and_go]))
        self.result_head.addWidget(self.stale_line)
        history_of(viewer).changed.connect(self._on_step)
        self._add_buttons()
        _open.add(self)

    def _add_buttons(self) -> None:
        self._device = DevicePicker(self)
        self._device.currentIndexChanged.connect(lambda *_: self.device_changed.emit())
        self.run_button = QPushButton(self._run_text, self)
        self.run_button.clicked.connect(lambda: self.stop() if self.running or self.waiting else self.run())
        tip = "Copy a Python script that does exactly this to the clipboard"
        self.script_button = text_button("Copy as Python", tip, self, self.copy_script)
        for widget, stretch in ((self.run_button, 2), (self._device, 1), (self.script_button, 1)):
            self.buttons.addWidget(widget, stretch)

    # -- running --------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Whether anything runs or is about to, whose result the panel will show."""
        return self.running or self.waiting

    @property
    def running(self) -> bool:
        """Whether a run is under way, or its result is about to be shown."""
        return self._job is not None or self._showing.is_under_way

    @property
    def waiting(self) -> bool:
        """Whether a run will start as soon as the CPU backend is compiled."""
        return self._runs_when_warm

    @property
    def warmup_process(self) -> Any:
        """The process that compiles the CPU backend that a run needs or will need (a `QProcess`), or None."""
        return self._awaited.process

    @property
    def device(self) -> str:
        """The chosen device, as the API takes it."""
        return str(self._device.currentData())

    def choose_device(self, device: str) -> None:
        """Choose a device of the list by its name; a name that is not there is added, and checked when it is used."""
        self._device.choose(device)

    def run(self) -> None:
        """Start a run with the inputs as they stand."""
        if self.running:
            return
        self.clear_message()
        if not self._waits_for_warmup():
            self._start_run()

    def _start_run(self) -> None:
        try:
            stop = threading.Event()
            other, self._other = self._other, None
            make, display = other or (self.run_form.make_steps, self.run_display)
            if other is None:
                self.check_inputs()
            steps = make(stop)
            for box in self.findChildren(LayerBox):
                box.settle()
        except GpuBioError as error:
            self.show_error(str(error))
            self._refusal = self.message
            return
        self._current_display, self._has_preview = display, False
        if other is None:
            self.stale_line.begin(with_inputs=self.marks_stale)
        self._pacer.begin_run()
        self._job = Job(lambda _: steps, self, pacer=self._pacer)
        self._job.stop_event = stop
        self._job.stepped.connect(self.show_step)
        self._job.finished.connect(self._on_finished)
        self._begun, self._clock = time.perf_counter(), RunClock()
        self._set_running(running=True)
        self.show_progress("starting …")
        self._job.start()

    def run_other(
        self,
        make: MakeSteps,
        show: Callable[[Any], Any],
        *,
        preview: Callable[[Any], Any] | None = None,
        warms: tuple[str, ...] = (),
    ) -> None:
        """Run something else than the inputs, with this panel's progress and Stop; a run under way is not disturbed.

        Parameters
        ----------
        make
            Returns the steps, given the event that ends them.
        show
            Called with what they return.
        preview
            Called with what they have so far; None: nothing is shown of it.
        warms
            What it needs compiled, as a run of the inputs by default; Stop ends that of engines of others.
        """
        if self.running or self.waiting:
            self.note_while_running("A run is under way. Wait for it to finish, or press Stop first.")
            return
        self._other = make, ShownBy(show, preview)
        self._needed = warms or self.needs()
        if not {name.partition("/")[0] for name in warms} <= {*self.warms}:
            self._awaited = self._connected(BackgroundWarmup(warms, self))
        self.run()

    def check_inputs(self) -> None:
        """Raise InvalidInput if a chosen layer was deleted."""
        for box in self._boxes():
            box.check_there()

    def may_follow(self) -> bool:
        """Whether a change may run something: behind another panel it may not, which is said in front again."""
        if history_of(self.viewer).is_quiet:
            return self.runs_after_undo
        self._is_behind = not self.is_in_front
        return self.is_in_front

    def run_again(self, *, end_first: bool = True) -> None:
        """Follow a change with a run; one of the inputs that is under way is ended first (or waited for), not shown.

        What else runs is waited for, and shown. Behind another panel nothing runs; see `may_follow`.
        """
        if not self.may_follow():
            return
        if not self.running:
            if not self.waiting:
                self.run()
            return
        self._rerun = True
        if end_first and not self._runs_other:
            self.stop()

    def stop(self) -> None:
        """End the run; what was done is shown. A run that waits is cancelled.

        What the panel itself needs is compiled all the same, for the next run.
        """
        if self._runs_when_warm:
            self._other = None
            self._end_waiting()
            self.show_status("cancelled")
        if self._job is not None:
            self.show_progress("stopping …")
            self._job.stop()

    def note_while_running(self, sentence: str) -> None:
        """Show a note that means something until the run under way has ended."""
        self.show_note(sentence)
        self._busy_note = self.message

    def may_close(self) -> bool:
        """Ask whether to end the run under way, if there is one."""
        if not self.running:
            return True
        question = "A run is under way. Stop it, and close the panel?"
        return QMessageBox.question(self, "Close while running", question) == QMessageBox.StandardButton.Yes

    def on_key(self, key: Qt.Key) -> None:
        """Enter runs, Escape stops."""
        if key != Qt.Key.Key_Escape:
            self.run()
        elif self.running or self.waiting:
            self.stop()

    def on_front(self) -> None:
        """Say what has changed meanwhile."""
        self.stale_line.compare_soon()
        if self._is_behind:
            self._is_behind = False
            self.show_note(f"Layers have changed while another panel was in front; press {self._run_text} to follow.")

    def teardown(self) -> None:
        """Stop every run, disconnect from the viewer, and release it; called when the panel is closed."""
        _open.discard(self)
        self._device.teardown()
        self._warmup.stop()
        self._finding.abandon()
        self._end_waiting()
        self._end_run()
        super().teardown()
        self.stale_line.abandon()  # which boxes that are emptied would have compare

    def _end_run(self) -> None:
        """End the run under way; where a preview is on show, which would look like a result, show what Stop shows."""
        if self._showing.is_under_way:
            self._rerun = False
            (self._showing.end if self._guard.is_window_closing else self._showing.finish)()
        job, shows = self._job, self._has_preview and not (self._rerun or self._guard.is_window_closing)
        self._job, self._rerun = None, False
        if job is None:
            return
        outcome = job.abandon()
        self._set_running(running=False)
        if shows and outcome is not None and outcome.result is not None:
            for _ in self._current_display.show_result(outcome.result) or ():
                pass

    def revive(self) -> None:
        """Go on, after the user decided not to close the panel; what ran has ended."""
        super().revive()
        self.show_status("")

    def showEvent(self, event: Any) -> None:
        """Qt: the panel comes on screen; from now on its backends are compiled."""
        super().showEvent(event)
        self._warmup.start()

    def _set_running(self, *, running: bool) -> None:
        self.run_button.setText("Stop" if running else self._run_text)
        self.show_fraction(None if running else 0.0)

    def forget_refusal(self) -> None:
        """Remove the message of a Run that was refused, since an input has been changed; other messages stay."""
        if self.message == self._refusal:
            self.clear_message()

    def show_step(self, step: Step) -> None:
        """Show how far the run is, and what it has so far."""
        if self._job is None:
            return
        spent = self._clock.seconds  # compiling will not go on as long again
        self.show_fraction(step.fraction)
        left = spent * (1 - step.fraction) / step.fraction if step.fraction > 0 else 0.0
        estimate = f", {left:.0f} s left" if left >= 1 else ""
        self.show_progress(f"{step.message} {step.done:,} of {step.total:,}{estimate}")
        if step.preview is not None:
            self._has_preview = True
            self._pacer.show(functools.partial(self._current_display.show_preview, step.preview))

    def _on_finished(self, outcome: Outcome) -> None:
        if self._job is None:
            return
        was_stopped = self._job.stop_event.is_set()
        self._job.deleteLater()
        self._job = None
        self._set_running(running=False)
        if self.message == self._busy_note:
            self.clear_message()
        if self._rerun and not self._runs_other:
            self._rerun = False
            if outcome.result is not None:
                self._current_display.keep_result(outcome.result)
            self.run()
            return
        if outcome.error:
            self.show_status("")
            self.show_error(outcome.error)
        else:
            how = "stopped after" if was_stopped else "done in"
            self.show_status(f"{how} {seconds_text(time.perf_counter() - self._begun)}")
            if (pieces := self._current_display.show_result(outcome.result)) is not None:
                self._showing.begin(pieces, self._on_shown)
                return
            self._on_shown()
            return
        self._on_end()

    def _on_shown(self) -> None:
        if not self._runs_other:
            self.stale_line.end()
        self._on_end()

    def _on_end(self) -> None:
        self.run_finished.emit()
        if self._rerun:
            self._rerun = False
            self.run()

    @property
    def _runs_other(self) -> bool:
        """Whether what runs, or has just ended, is something else than the inputs."""
        return isinstance(self._current_display, ShownBy)

    def _on_used(self) -> None:
        super()._on_used()
        self.stale_line.compare_soon()

    def _on_step(self) -> None:
        """Compare after what was done on the canvas, and after undo."""
        if self.is_in_front:
            self.stale_line.compare_soon()

    def _follow_boxes(self) -> None:
        super()._follow_boxes()
        for box in self.findChildren(LayerBox):
            box.currentIndexChanged.connect(self.stale_line.compare_soon)

    def draft_to_compare(self) -> Callable[[], Operation] | None:
        """Read the inputs that a result is made with, and return what makes an operation of them; None during a run."""
        if self.running:
            return None
        self.check_inputs()
        return self.run_form.take_draft()

    # -- compiling the CPU backend ahead ---------------------------------------------------------------------------

    def needs(self) -> tuple[str, ...]:
        """What the next run of the inputs needs compiled: warm-ups, or all of `warms` where none are known."""
        return self.warms_first or self.warms

    def must_warm_up(self) -> bool:
        """Whether the device is a CPU, and what a run needs is not compiled yet; that begins, and `warmed` tells."""
        needed = self.needs()
        if begins := self._begins(self._warmup, needed):
            self._needed = needed
            self._show_warmup()
        return begins

    def _begins(self, warmup: BackgroundWarmup, needed: tuple[str, ...]) -> bool:
        """Begin to compile, if it is needed; returns whether it is."""
        if not self._device.uses_cpu or not warmup.lacks(needed):
            return False
        warmup.start(needed)
        return True

    def _connected(self, warmup: BackgroundWarmup) -> BackgroundWarmup:
        warmup.progressed.connect(self._on_compiled)
        warmup.finished.connect(self._on_warm)
        return warmup

    def _waits_for_warmup(self) -> bool:
        """Put a run on the CPU off until what it needs is compiled; it then starts by itself."""
        if self._other is None:
            self._needed = self.needs()
        if not self._begins(self._awaited, self._needed):
            self._end_waiting()
            return False
        self._runs_when_warm = True
        self._set_running(running=True)
        self.show_note(_RUNS_WHEN_WARM)
        self._show_warmup()
        return True

    def _show_warmup(self) -> None:
        names = self._needed if self._awaited.lacks(self._needed) else self._awaited.names
        self._warmup_status = self._awaited.progress_text(names)
        self.show_progress(self._warmup_status)

    def _on_compiled(self, _: int) -> None:
        """Start what waits once all that it needs is compiled; the rest goes on, silently where the line is taken."""
        if not self._awaited.lacks(self._needed):
            if self._runs_when_warm:
                self._clear_warmup()
                self._end_waiting()
                self._start_run()
            self.warmed.emit()
        if self.status in ("", self._warmup_status):
            self._show_warmup()

    def _clear_warmup(self) -> None:
        if self.status == self._warmup_status:  # and not that of a run which has ended meanwhile
            self.show_status("")

    def _on_warm(self, problem: str) -> None:
        self._clear_warmup()
        if problem:
            logger.warning("the CPU backend could not be compiled ahead: %s", problem)
        if self._runs_when_warm and not self._awaited.is_running:
            self._end_waiting()
            self._start_run()
        self.warmed.emit()

    def _end_waiting(self) -> None:
        """Wait no longer for engines; those of others are not needed any more."""
        if self._runs_when_warm:
            self._runs_when_warm = False
            self._set_running(running=False)
            self.clear_message()
        if self._awaited is not self._warmup:
            self._awaited.stop()
            self._awaited.deleteLater()
            self._awaited = self._warmup

    # -- the script -----------------------------------------------------------------------------------------------

    def copy_script(self) -> None:
        """Put the script on the clipboard; arrays that no file holds are saved beside it."""
        try:
            if not self.run_form.is_at_hand and (draft := self.run_form.take_draft()) is not None:
                self.show_progress("looking through the inputs …")
                self._finding.submit(one_step("inputs", draft))
                return
            shows = self.run_form.script_layers()
            text = self.script_of(*(() if shows else (self.run_form.operation(),)), shows=shows)
        except (GpuBioError, OSError) as error:
            self.show_error(f"The script could not be created: {error}")
            return
        self.put_on_clipboard(text)

    @property
    def is_copying(self) -> bool:
        """Whether a script is on its way to the clipboard."""
        return self._finding.is_busy

    def _on_found(self, outcome: Outcome) -> None:
        self.show_status("")
        try:
            if outcome.error:
                raise InvalidInput(outcome.error)
            self.put_on_clipboard(self.script_of(outcome.result))
        except (GpuBioError, OSError) as error:
            self.show_error(f"The script could not be created: {error}")

    def put_on_clipboard(self, text: str) -> None:
        """Put a script on the clipboard, unless it is empty."""
        if text:
            self.show_error("")  # that of an earlier try has ended
            QApplication.clipboard().setText(text)
            self.show_status("script copied to the clipboard")

    def script_of(self, *outputs: Operation | Output[Any], shows: Sequence[Shown] = ()) -> str:
        """Return the script of results; arrays that no file holds are saved beside it, where the user wants it."""
        return script_text(self, self.run_form, self.device, outputs, shows)


_open: "weakref.WeakSet[EnginePanel]" = weakref.WeakSet()  # that have not been closed


def panels_of(viewer: Any) -> list[EnginePanel]:
    """Return the panels of a viewer that are open, by their names."""
    return sorted((one for one in _open if one.viewer == viewer), key=lambda one: type(one).__name__)


def heading(text: str, parent: QWidget) -> Label:
    """Make the title of a part of a panel."""
    label = Label(text, parent)
    label.setStyleSheet("font-weight: 600; margin-top: 6px;")
    return label
