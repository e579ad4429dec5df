"""The shared part of every dock widget: inputs on top; device, Run / Stop, progress, messages, Copy as Python below."""

import functools
import logging
import threading
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

from qtpy.QtCore import QEvent, Qt, Signal
from qtpy.QtWidgets import (
    QApplication,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.steps import Step
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Connections, single_shot
from napari_gpubio.gui.docking import CloseGuard, DockWindow, share_place
from napari_gpubio.gui.file_dialogs import save_path
from napari_gpubio.gui.forms import InputColumn, WrappedLabel
from napari_gpubio.gui.jobs import Job, MakeSteps, Outcome
from napari_gpubio.gui.processors import BackgroundWarmup, DevicePicker
from napari_gpubio.gui.progress import PreviewPacer
from napari_gpubio.gui.scans import follow_scans
from napari_gpubio.gui.script import checksum
from napari_gpubio.gui.wheel import WheelGuard

logger = logging.getLogger(__name__)


class RunForm:
    """Reads the inputs of a run: for the run, and for a script that does the same."""

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Any]:
        """Read the inputs (in the GUI thread) and return the generator to run; InvalidInput is shown as a sentence."""
        raise NotImplementedError

    def script(self, saved: Mapping[str, Path]) -> str:
        """Return a Python script that does what the inputs describe; ``saved``: files of painted layers, by name."""
        raise NotImplementedError

    def painted_layers(self) -> list[Any]:
        """Input layers that no file holds as they are; a script needs them saved beside it."""
        return []

    def save_painted(self, layer: Any, folder: Path) -> Path:
        """Save a painted layer into a folder and return the path."""
        raise NotImplementedError


class RunDisplay:
    """Shows what a run gives."""

    def show_preview(self, preview: Any) -> None:
        """Show a partial result."""

    def show_result(self, result: Any) -> None:
        """Show what the generator returned."""
        raise NotImplementedError

    def keep_result(self, result: Any) -> None:
        """Take from the result of a run what is worth keeping although newer inputs are about to be run."""


_LEAST_WIDTH, _MARGINS = 300, 16  # pixels; of a panel, and of what is around its inputs


class _ShownBy(RunDisplay):
    """Shows the result of a run by a function, and nothing before."""

    def __init__(self, show: Callable[[Any], Any]) -> None:
        self._show = show

    def show_result(self, result: Any) -> None:
        """Show what the generator returned."""
        self._show(result)


class EnginePanel(QWidget, RunForm, RunDisplay):
    """Base of the dock widgets.

    A subclass fills ``self.inputs`` (a vertical layout), and is the form and the display of its runs, or sets
    ``self.run_form`` and ``self.run_display`` to parts that are. The viewer is napari's or its public proxy.
    """

    warms: tuple[str, ...] = ()  # the engines whose CPU backends are compiled while the panel is open
    run_finished = Signal()
    warmed = Signal()  # the CPU backend has been compiled, or could not be
    device_changed = Signal()

    def __init__(self, viewer: Any, *, run_text: str = "Run", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.viewer = viewer
        theme.use(viewer.theme)
        self._theme = viewer.theme  # whose colors it has
        follow_scans(viewer)
        self._run_text = run_text
        self._job: Job | None = None
        self._pacer = PreviewPacer(self)
        self._rerun = False
        self._refusal = ""  # the message of the last Run, if it was refused
        self._begun = 0.0
        self._parts: list[Any] = []
        self.run_form: RunForm = self
        self.run_display: RunDisplay = self
        self._current_display: RunDisplay = self  # that of the run under way
        self._other: tuple[MakeSteps, RunDisplay] | None = None  # what runs next instead of the inputs
        self.inputs = QVBoxLayout()
        self.above_run = QVBoxLayout()  # what stays in sight, whatever is scrolled
        self._build()
        WheelGuard(self)
        self._warmup = BackgroundWarmup(self.warms, self)
        self._runs_when_warm = False
        self._warmup.progressed.connect(self._show_warmup)
        self._warmup.finished.connect(self._on_warm)
        self._guard = CloseGuard(self, shares_place=True)
        self._guard.closing.connect(self.teardown)
        self._docked = single_shot(0, lambda: share_place(self), self)
        self._was_shown = False
        self._guard.stayed.connect(self.revive)
        self.own(Connections(lambda: [(viewer.events.theme, self._on_theme)], self._on_theme))

    def own(self, part: Any) -> Any:
        """Call ``part.attach()`` now and ``part.detach()`` when the panel goes away; returns the part."""
        self._parts.append(part)
        part.attach()
        return part

    # -- running --------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether a run is under way."""
        return self._job is not None

    @property
    def waiting(self) -> bool:
        """Whether a run will start as soon as the CPU backend is compiled."""
        return self._runs_when_warm

    @property
    def warmup_process(self) -> Any:
        """The process that compiles the CPU backend (a `QProcess`), or None."""
        return self._warmup.process

    @property
    def device(self) -> str:
        """The chosen device, as the API takes it."""
        return str(self._device.currentData())

    def choose_device(self, device: str) -> None:
        """Choose a device of the list by its name; a name that is not there is added, and checked when it is used."""
        index = self._device.findData(device)
        if index < 0:
            self._device.addItem(device, device)
            index = self._device.count() - 1
        self._device.setCurrentIndex(index)

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
            steps = make(stop)
        except GpuBioError as error:
            self.show_error(str(error))
            self._refusal = self.message
            return
        self._current_display = display
        self._pacer.begin_run()
        self._job = Job(lambda _: steps, self, pacer=self._pacer)
        self._job.stop_event = stop
        self._job.stepped.connect(self.show_step)
        self._job.finished.connect(self._on_finished)
        self._begun = time.perf_counter()
        self._set_running(running=True)
        self._status.setText("starting …")
        self._job.start()

    def run_other(self, make: MakeSteps, show: Callable[[Any], Any]) -> None:
        """Run something else than the inputs, with this panel's progress and Stop; a run under way is not disturbed.

        Parameters
        ----------
        make
            Returns the steps, given the event that ends them.
        show
            Called with what they return.
        """
        if self.running or self.waiting:
            self.show_note("A run is under way. Wait for its end or press Stop first.")
            return
        self._other = make, _ShownBy(show)
        self.run()

    def run_again(self, *, end_first: bool = True) -> None:
        """Run with the inputs as they stand; a run that is under way is ended first (or waited for), and not shown."""
        if not self.running:
            if not self.waiting:
                self.run()
            return
        self._rerun = True
        if end_first:
            self.stop()

    def stop(self) -> None:
        """End the run; what was done is shown. A run that waits is cancelled."""
        if self._runs_when_warm:
            self._end_waiting()
            self._status.setText("cancelled")
        if self._job is not None:
            self._status.setText("stopping …")
            self._job.stop()

    def teardown(self) -> None:
        """Stop every run, disconnect from the viewer, and release it; called when the panel is closed."""
        self._device.teardown()
        self._warmup.stop()
        self._end_waiting()
        self._rerun = False
        if self._job is not None:
            self._job.abandon()
            self._job = None
            self._set_running(running=False)
        for part in self._parts:
            part.detach()

    def revive(self) -> None:
        """Listen to the viewer again, after the user decided not to close it."""
        for part in self._parts:
            part.attach()

    def showEvent(self, event: Any) -> None:
        """Qt: the panel comes on screen; make it wide enough for what it holds, now that this is known."""
        super().showEvent(event)
        self._warmup.start()
        if not self._was_shown:
            self._was_shown = True
            self._docked.start()
        self._fit_width()

    # -- messages -------------------------------------------------------------------------------------------------

    def show_error(self, sentence: str) -> None:
        """Show an error message: the problem and what to do about it."""
        self._say(sentence, theme.ERROR_STYLE)

    def show_note(self, sentence: str) -> None:
        """Show a note to the user."""
        self._say(sentence, theme.NOTE_STYLE)

    def show_status(self, text: str) -> None:
        """Show a short text in the status line."""
        self._status.setText(text)

    def clear_message(self) -> None:
        """Remove the message."""
        self._message.hide()

    def forget_refusal(self) -> None:
        """Remove the message of a Run that was refused, since an input has been changed; other messages stay."""
        if self.message == self._refusal:
            self.clear_message()

    @property
    def status(self) -> str:
        """The text of the status line."""
        return self._status.text()

    @property
    def message(self) -> str:
        """The message that is shown, or an empty text."""
        return self._message.text() if not self._message.isHidden() else ""

    def copy_script(self) -> None:
        """Put the script on the clipboard; if inputs were painted, save it with them beside it."""
        try:
            painted = self.run_form.painted_layers()
            text = self._script_with(painted) if painted else self.run_form.script({})
        except (GpuBioError, OSError) as error:
            self.show_error(f"The script could not be created: {error}")
            return
        if text:
            QApplication.clipboard().setText(text)
            self._status.setText("script copied to the clipboard")

    def _script_with(self, painted: list[Any]) -> str:
        names = ", ".join(layer.name for layer in painted)
        title = f"Save the script, and {names} beside it"
        chosen = save_path(self, title, "Python (*.py)", name="script.py")
        return self.save_script(chosen, painted) if chosen else ""

    def save_script(self, path: Path, painted: list[Any]) -> str:
        """Write the script, and painted layers beside it with their checksums; returns the text."""
        saved = {layer.name: self.run_form.save_painted(layer, path.parent) for layer in painted}
        sums = "".join(f"# {file.name}: SHA-256 {checksum(file)}…\n" for file in saved.values())
        text = sums + self.run_form.script(saved)
        with atomic_write(path) as part:
            part.write_text(text, encoding="utf-8")
        return text

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        content = InputColumn(self)
        content.setLayout(self.inputs)
        content.laid_out.connect(self._fit_width)
        self.inputs.setAlignment(Qt.AlignmentFlag.AlignTop)
        scroll = QScrollArea(self)
        scroll.setWidget(content)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._content, self._scroll = content, scroll
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 6, 6, 6)
        layout.addWidget(scroll, 1)
        self._message = WrappedLabel("", self)
        self._message.setTextFormat(Qt.TextFormat.PlainText)
        self._message.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._message.hide()
        layout.addWidget(self._message)
        layout.addLayout(self.above_run)
        layout.addLayout(self._footer())
        layout.addWidget(self._bar)
        layout.addWidget(self._status)
        self.setMinimumWidth(_LEAST_WIDTH)
        self._refit = single_shot(0, self._fit_width, self)  # when all parts have the new style

    def _fit_width(self) -> None:
        """Be wide enough for what it holds; a part that is folded away later takes no width back."""
        bar = self._scroll.verticalScrollBar().sizeHint().width()
        inside = self._content.minimumSizeHint().width() + bar + _MARGINS
        self.setMinimumWidth(max(self.minimumWidth(), inside, self.layout().minimumSize().width()))

    def changeEvent(self, event: Any) -> None:
        """Qt: another style; its font may be smaller."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self.setMinimumWidth(_LEAST_WIDTH)
            self._refit.start()

    def _footer(self) -> QHBoxLayout:
        self._device = DevicePicker(self)
        self._device.currentIndexChanged.connect(lambda *_: self.device_changed.emit())
        self.run_button = QPushButton(self._run_text, self)
        self.run_button.clicked.connect(lambda: self.stop() if self.running or self.waiting else self.run())
        self._copy = QPushButton("Copy as Python", self)
        self._copy.setToolTip("Copy a Python script that does exactly this to the clipboard")
        self._copy.clicked.connect(self.copy_script)
        self._bar = QProgressBar(self)
        self._bar.setTextVisible(False)
        self._bar.setMaximumHeight(6)
        self._status = WrappedLabel("", self)
        row = QHBoxLayout()
        for widget, stretch in ((self.run_button, 2), (self._device, 1), (self._copy, 1)):
            row.addWidget(widget, stretch)
        return row

    def _say(self, sentence: str, style: str) -> None:
        self._message.setStyleSheet(style)
        self._message.setText(sentence)
        self._message.show()

    def _set_running(self, *, running: bool) -> None:
        self.run_button.setText("Stop" if running else self._run_text)
        self._bar.setRange(0, 0 if running else 1000)
        self._bar.setValue(0)

    def must_warm_up(self) -> bool:
        """Whether the chosen device is a CPU whose backend is not compiled yet; that begins, and ends with `warmed`."""
        if not self._device.uses_cpu or not self._warmup.is_needed:
            return False
        self._warmup.start()
        self._show_warmup()
        return True

    def _waits_for_warmup(self) -> bool:
        """Put a run on the CPU off until the backend is compiled; it then starts by itself."""
        if not self.must_warm_up():
            return False
        self._runs_when_warm = True
        self._set_running(running=True)
        self._show_warmup()
        return True

    def _show_warmup(self, *_: Any) -> None:
        if self._runs_when_warm:
            self.show_note(f"{self._warmup.progress_text}. Then the run starts.")
        else:
            self._status.setText(self._warmup.progress_text)

    def _on_warm(self, problem: str) -> None:
        self._status.setText("")
        if problem:
            logger.warning("the CPU backend could not be compiled ahead: %s", problem)
        if self._runs_when_warm:
            self._end_waiting()
            self._start_run()
        self.warmed.emit()

    def _on_theme(self, *_: Any) -> None:
        before, self._theme = self._theme, self.viewer.theme
        theme.use(self._theme)
        if before != self._theme:
            for part in (self, *(dock.window for dock in self.findChildren(DockWindow) if dock.window is not None)):
                theme.restyle(part, before)

    def _end_waiting(self) -> None:
        if self._runs_when_warm:
            self._runs_when_warm = False
            self._set_running(running=False)
            self.clear_message()

    def show_step(self, step: Step) -> None:
        """Show how far the run is, and what it has so far."""
        if self._job is None:
            return
        spent = time.perf_counter() - self._begun
        self._bar.setRange(0, 1000)
        self._bar.setValue(int(1000 * step.fraction))
        left = spent * (1 - step.fraction) / step.fraction if step.fraction > 0 else 0.0
        estimate = f", {left:.0f} s left" if left >= 1 else ""
        self._status.setText(f"{step.message} {step.done:,} of {step.total:,}{estimate}")
        if step.preview is not None:
            self._pacer.show(functools.partial(self._current_display.show_preview, step.preview))

    def _on_finished(self, outcome: Outcome) -> None:
        if self._job is None:
            return
        self._job.deleteLater()
        self._job = None
        self._set_running(running=False)
        if self._rerun:
            self._rerun = False
            if outcome.result is not None:
                self._current_display.keep_result(outcome.result)
            self.run()
            return
        if outcome.error:
            self._status.setText("")
            self.show_error(outcome.error)
        else:
            self._status.setText(f"done in {time.perf_counter() - self._begun:.2f} s")
            self._current_display.show_result(outcome.result)
        self.run_finished.emit()


def heading(text: str, parent: QWidget) -> QLabel:
    """Make the title of a part of a panel."""
    label = QLabel(text, parent)
    label.setStyleSheet("font-weight: 600; margin-top: 6px;")
    return label
