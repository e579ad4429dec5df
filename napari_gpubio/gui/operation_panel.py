"""A dock widget for any operation: its form, Run, results as layers, and whether they are what the form says now."""

import functools
import threading
from collections.abc import Callable, Generator
from typing import Any, ClassVar, NamedTuple

import numpy as np
from qtpy.QtWidgets import QCheckBox

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.operations.graphs import replaced_fields
from napari_gpubio.core.operations.layer_sources import layer_of
from napari_gpubio.core.operations.records import Operation, input_infos
from napari_gpubio.core.operations.runs import run_steps
from napari_gpubio.core.operations.states import stale
from napari_gpubio.core.operations.volumes import Volume
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import file_name
from napari_gpubio.gui.connections import Debouncer
from napari_gpubio.gui.forms import muted_label, notes_text, row_of
from napari_gpubio.gui.operation_form import OperationForm
from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.gui.run_parts import Pieces


class Made(NamedTuple):
    """An operation, and what it made."""

    operation: Operation
    result: Any


class OperationPanel(EnginePanel):
    """Base of the dock widgets of operations; a subclass says of which one by `of`.

    Results are layers that carry their operation. They stay as they are whatever becomes of the form and its layers:
    where the form says something else by now, a line tells what. With *live*, an edit of the form runs it, and nothing
    else does.
    """

    of: ClassVar[type[Operation]]
    marks_stale = False  # a line of its own does
    kept = ("_made",)

    def __init__(self, viewer: Any) -> None:
        super().__init__(viewer)
        self.form = OperationForm(viewer, self.of, self, header=self.header)
        self._made: Operation | None = None  # what the layers show
        self._layers: dict[tuple[str, Any], Any] = {}  # of the results, by their names and what they are of
        self.stale_label = muted_label(self)
        self.live_box = QCheckBox("live", self, toolTip="Run again after each edit of these rows")
        self.inputs.addWidget(self.form)
        self.inputs.addWidget(self.stale_label)
        self.inputs.addLayout(row_of(None, self.live_box))
        self._debouncer = Debouncer(self._run_live, self)
        self.form.changed.connect(self._on_change)
        self.own(self.form)
        self._show_state()

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Made]:
        """Read the form and return the run."""
        return self._steps(*self.form.read(), self.device, stop)

    def _steps(self, given: Any, settings: Any, device: str, stop: threading.Event) -> Generator[Step, None, Made]:
        yield Step(0, 1, "reading the inputs")
        draft = self.form.draft(given, settings)
        return Made(draft, (yield from run_steps(draft, device=device, stop=stop)))

    def show_result(self, made: Made) -> Pieces:
        """Show the results as layers."""
        if made.result is None:
            self.show_status("stopped")
            return
        yield from self._show_made(made)
        self._show_state()
        if notes := getattr(made.result, "notes", ()):
            self.show_note(notes_text(notes))

    def show_kept(self) -> None:
        """Say whether what undo has brought back is what the form says."""
        self._show_state()

    def _show_made(self, made: Made) -> Pieces:
        self._made = made.operation
        names = [name for name, kind in made.operation.makes.items() if issubclass(kind, Volume)]
        for name in names:
            value = made.operation.output(name).value_in(made.result)
            self._show_layer(name, value, made.operation, visible=name == names[0])
            yield

    def _show_layer(self, name: str, value: Volume, operation: Operation, *, visible: bool) -> None:
        """Show a volume in the layer of one before, of the same input and grid, if that is there, or in a new one."""
        data, keywords, kind = layer_of(value, operation.output(name))
        carries, about = keywords["metadata"][KEY], (name, self.form.subject(operation))
        layer = self._layers.get(about)
        if (
            layer is not None
            and layer in self.viewer.layers
            and layer.data.shape == data.shape
            and np.array_equal(carried(layer, "affine"), carries["affine"])
        ):
            layer.data = data
            layer.metadata[KEY] = carries
            return
        active = self.viewer.layers.selection.active
        add = self.viewer.add_labels if kind == "labels" else self.viewer.add_image
        self._layers[about] = add(data, visible=visible, **keywords)
        self.viewer.layers.selection.active = active

    # -- the draft ------------------------------------------------------------------------------------------------

    def _on_change(self, *_: Any) -> None:
        self._show_state()
        if self.live_box.isChecked():
            self._debouncer.request()

    def _run_live(self) -> None:
        if self.live_box.isChecked():
            self.run_again()

    def _show_state(self) -> None:
        why = self.why_stale()
        self.stale_label.setVisible(bool(why))
        self.stale_label.setText("" if not why else f"The result was made with other settings: {'; '.join(why)}")

    def why_stale(self) -> list[str]:
        """Return why the result is not what the form would make now; [] if it is, or there is none."""
        if self._made is None:
            return []
        try:
            settings = self.form.own_settings()
        except GpuBioError as error:
            return [str(error)]
        infos = input_infos(self.of)
        others = [name for name in self.form.boxes if not self.form.shows(name, self._made)]
        inputs = [f"another {infos[name].label.lower()}" for name in others]
        return [*inputs, *stale(self._made.output(), replaced_fields(self._made, settings))]

    # -- the script -----------------------------------------------------------------------------------------------

    def operation(self) -> Operation:
        """Return the operation of the result that is shown, or of a run with the form as it stands."""
        return self.form.draft(*self.form.read()) if self._made is None else self._made

    def take_draft(self) -> Callable[[], Operation]:
        """Read the form, and return what makes an operation of it."""
        given, settings = self.form.read()
        return functools.partial(self.form.draft, given, settings)

    def show_draft(self, operation: Operation) -> bool:
        """Show an operation of the panel's own verb in its form."""
        if not isinstance(operation, self.of):
            return False
        self.form.show(operation)
        return True

    def layer_of(self, name: str) -> Any | None:
        """Return the layer of a result that was made last, or None."""
        return None if self._made is None else self._layers.get((name, self.form.subject(self._made)))

    @property
    def is_at_hand(self) -> bool:
        """Whether a result is shown, whose operation is known."""
        return self._made is not None

    def script_files(self) -> dict[str, str]:
        """Files that a script writes: the main result."""
        name, kind = next(iter(self.of.makes.items()))
        return {name: f"{file_name(f'{self.of.verb} {name}')}.nii.gz"} if issubclass(kind, Volume) else {}
