"""What both light panels say first of a result: whether it can be trusted, and how it was made; and Continue."""

from collections.abc import Sequence
from html import escape
from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from napari_gpubio.light.gui.results_table import STATUS_COLORS
from napari_gpubio.light.statistics import Finding

_LINE = "<span style='color:{}; font-size:16px'>●</span> {}"


class ResultHead(QWidget):
    """Findings, how the result was made, and a button to go on with it."""

    continue_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._findings, self._made = QLabel(self), QLabel(self)
        self._findings.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        for label in (self._findings, self._made):
            label.setWordWrap(True)
        self._continue = QPushButton("Continue", self)
        self._continue.setToolTip(
            "Go on with this result and its own inputs: to its end if it was stopped, else with as many photons more "
            "as Photons says"
        )
        self._continue.clicked.connect(lambda: self.continue_wanted.emit())
        made = QHBoxLayout()
        made.addWidget(self._made, 1)
        made.addWidget(self._continue)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self._findings)
        layout.addLayout(made)

    @property
    def text(self) -> str:
        """The findings."""
        return self._findings.text()

    def show_result(self, result: Any, findings: Sequence[Finding], *, can_go_on: bool) -> None:
        """Speak of a result of either engine.

        Parameters
        ----------
        result
            Has ``launched`` photons, and ``parameters`` with seconds and device.
        findings
            What is to be said of it.
        can_go_on
            Whether more photons of it can be traced now.
        """
        self._findings.setText("<br>".join(_LINE.format(STATUS_COLORS[f.status], escape(f.sentence)) for f in findings))
        self._made.setText(made_text(result))
        self._continue.setEnabled(can_go_on)


def made_text(result: Any) -> str:
    """Return how many photons, how long, where."""
    text = f"{result.launched:,} photons"
    seconds, device = result.parameters.get("seconds"), str(result.parameters.get("device", "")).split(" (")[0]
    if seconds:
        text += f" in {seconds:.3g} s{device and ' on ' + device}, {result.launched / seconds:,.0f}/s"
    return text
