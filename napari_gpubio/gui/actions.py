"""What can be done next with a result on screen: buttons that join engines, which know nothing of each other.

The panel of light offers the actions on its result; what they do is written in
`napari_gpubio.workflows`, which is loaded by its name here, so that neither this kit nor an engine imports it.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import QHBoxLayout, QWidget

from napari_gpubio.core.operations.records import Operation, Output
from napari_gpubio.gui.forms import text_button

if TYPE_CHECKING:
    from napari_gpubio.gui.panel import EnginePanel

MADE_OF = "made_of"  # under which a layer that an action made carries the result that it was made of
FindOutput = Callable[[], Output[Any] | None]
_TABLE = "napari_gpubio.workflows.gui.buttons"  # has ACTIONS, in the order of their buttons


@dataclass(frozen=True, slots=True, eq=False)
class ResultContext:
    """What an action is given.

    Parameters
    ----------
    panel
        That shows the result; it runs what the action needs.
    result
        The engine's result.
    layers
        The viewer's layers that belong to it, by what they are (``fluence``, ``labels``); None where there is none.
    options
        How the result is displayed, as the engine has it.
    set_aside
        Hides the result's own layer until there is another result.
    operation
        Returns the operation of the result, which may take a moment, or None.
    record
        Called with the name of a file, and what returns the result that a script writes to it, or None where it is no
        more to be had; scripts that the panel copies contain it while the result is on screen.
    """

    panel: "EnginePanel"
    result: Any
    layers: Mapping[str, Any]
    options: Any
    set_aside: Callable[[], object]
    operation: Callable[[], Operation | None]
    record: Callable[[str, FindOutput], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultAction:
    """One button.

    Parameters
    ----------
    text, tip
        Of the button.
    start
        Called in the GUI thread; a `GpuBioError` is shown by the panel.
    """

    text: str
    tip: str
    start: Callable[[ResultContext], object]


class ActionBar(QWidget):
    """A row of buttons, one for each action on a fluence; ``requested`` carries the action.

    The owner shows it while there is a result.
    """

    requested = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        for action in importlib.import_module(_TABLE).ACTIONS:
            row.addWidget(text_button(action.text, action.tip, self, partial(self.requested.emit, action)))
        self.hide()
