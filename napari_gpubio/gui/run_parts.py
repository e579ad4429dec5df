"""What a run of a panel has: the form that reads its inputs, the display of what it gives, and its script."""

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from qtpy.QtWidgets import QWidget

from napari_gpubio.core.files import write_text
from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.core.operations.scripts import names_of_held, outputs_of, script
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.file_dialogs import save_path

Pieces = Generator[None, None, None]  # of what is shown; see `turns`


class RunForm:
    """Reads the inputs of a run: for the run, and for a script that does the same."""

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Any]:
        """Read the inputs (in the GUI thread) and return the generator to run; InvalidInput is shown as a sentence."""
        raise NotImplementedError

    def operation(self) -> Operation:
        """Return the operation that a script is of, where it shows no layers; InvalidInput if there can be none."""
        raise NotImplementedError

    def script_layers(self) -> Sequence[Shown]:
        """Layers that a script shows in napari."""
        return ()

    @property
    def is_at_hand(self) -> bool:
        """Whether `operation` need not look for anything, such as that of a result that is shown."""
        return True

    def script_files(self) -> Mapping[Any, str]:
        """Files that a script of an operation writes, by the names of its results, or by those of others."""
        return {}

    def take_draft(self) -> Callable[[], Operation] | None:
        """Read the inputs, in the GUI thread, and return what makes an operation of them, which may take a moment.

        None where the panel has no operation; InvalidInput if the inputs cannot be used.
        """
        return None

    def show_draft(self, operation: Operation) -> bool:  # noqa: ARG002 - for those that can
        """Show an operation as the inputs, if the panel can; returns whether it does."""
        return False


class RunDisplay:
    """Shows what a run gives."""

    def show_preview(self, preview: Any) -> None:
        """Show a partial result."""

    def show_result(self, result: Any) -> Pieces | None:
        """Show what the generator returned; several layers in pieces, between which the window has its turn."""
        raise NotImplementedError

    def keep_result(self, result: Any) -> None:
        """Take from the result of a run what is worth keeping although newer inputs are about to be run."""


class ShownBy(RunDisplay):
    """Shows the result of a run by a function, and by another one what it has so far, if at all."""

    def __init__(self, show: Callable[[Any], Any], preview: Callable[[Any], Any] | None = None) -> None:
        self._show, self._preview = show, preview

    def show_preview(self, preview: Any) -> None:
        """Show a partial result."""
        if self._preview is not None:
            self._preview(preview)

    def show_result(self, result: Any) -> Pieces | None:
        """Show what the generator returned."""
        found = self._show(result)
        return found if isinstance(found, Generator) else None


def script_text(
    parent: QWidget, form: RunForm, device: str, outputs: Sequence[Operation | Output[Any]], shows: Sequence[Shown]
) -> str:
    """Return the script of results; arrays that no file holds are saved beside it, where the user wants it."""
    wanted = [*outputs, *outputs_of(shows)]
    held = names_of_held(*(one.of if isinstance(one, Output) else one for one in wanted))
    title = f"Save the script, and {', '.join(held)} beside it"
    chosen = save_path(parent, title, "Python (*.py)", name="script.py") if held else None
    if held and chosen is None:
        return ""
    how: dict[str, Any] = {"device": device, "save": form.script_files(), "shows": shows}
    if chosen is None:
        return script(*outputs, **how)
    text = script(*outputs, folder=chosen.parent, **how)
    write_text(chosen, text)
    return text
