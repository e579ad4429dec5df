"""The part of the panel that tells the numbers of a result and switches between before and after."""

from typing import Any

from qtpy.QtCore import Qt, Signal
from qtpy.QtWidgets import QButtonGroup, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from napari_gpubio.denoise.gui.numbers import texts
from napari_gpubio.denoise.gui.request import Denoised
from napari_gpubio.denoise.gui.results import AFTER, BEFORE, NOISE, RESIDUAL, SCALE
from napari_gpubio.gui.forms import aligned_form, row_label
from napari_gpubio.gui.panel import heading

KEY_TEXT = "B"
_FLIPS = f"{KEY_TEXT} flips between before and after"
_TIPS = {
    BEFORE: "The image as it was",
    AFTER: "The denoised image",
    RESIDUAL: "The image minus the denoised one: noise, and no anatomy if all is well",
    NOISE: "Standard deviation of the noise",
    SCALE: "Standard deviation of the window that was chosen in each voxel, mm",
}
_NOISE_TIP = "Median over voxels with more signal than noise"
_TIMES_TIP = "10 to the power of gain / 10: so many times as many would do the same unfiltered"


class ResultBox(QWidget):
    """Numbers, before / after, and Keep; hidden until there is a result."""

    look_wanted = Signal(str)
    keep_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._buttons: dict[str, QPushButton] = {}
        self._group = QButtonGroup(self)
        self._numbers: dict[str, QLabel] = {}
        self._noise_label, self._gain_label = row_label("", _NOISE_TIP, self), row_label("", "", self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(heading(f"Result  ({KEY_TEXT}: before / after)", self))
        layout.addLayout(self._switch())
        layout.addLayout(self._table())
        keep = QPushButton("Keep these layers", self)
        keep.setToolTip("The next run makes new layers, instead of changing these")
        keep.clicked.connect(lambda: self.keep_wanted.emit())
        layout.addWidget(keep)
        self.hide()

    def show_look(self, part: str) -> None:
        """Say which layer is seen."""
        if part in self._buttons:
            self._buttons[part].setChecked(True)

    def show_numbers(self, done: Denoised) -> None:
        """Tell the numbers of a result."""
        words = done.request.recipe.words
        for name, text in texts(done.numbers, done.request.image, words.times, words.about).items():
            self._numbers[name].setText(text)
        self._noise_label.setText("Noise / signal" if done.request.image.values.is_log else "Noise σ")
        self._gain_label.setText(words.gain)
        for widget in (self._gain_label, self._numbers["gain"]):
            widget.setToolTip(words.gain_tip)
        self._numbers["times"].setToolTip(f"{_TIMES_TIP}. {words.gain_tip}")
        what = f"{words.noise[:1].upper()}{words.noise[1:]}"
        self._buttons[NOISE].setToolTip(f"{what}, as it was found or given\n{_FLIPS}")
        self._buttons[SCALE].setVisible(done.scale is not None)
        self.show()

    def text(self, name: str) -> str:
        """A number as it is told: ``noise``, ``before``, ``gain`` or ``times``."""
        return self._numbers[name].text()

    def _switch(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(1)
        for part, tip in _TIPS.items():
            button = QPushButton(part.capitalize(), self)
            button.setCheckable(True)
            button.setToolTip(f"{tip}\n{_FLIPS}")
            button.clicked.connect(lambda _=False, part=part: self.look_wanted.emit(part))
            self._group.addButton(button)
            self._buttons[part] = button
            row.addWidget(button)
        return row

    def _table(self) -> Any:
        form = aligned_form(None)
        for name, title, tip in (
            ("noise", self._noise_label, _NOISE_TIP),
            ("before", "Signal / noise before", _NOISE_TIP),
            ("gain", self._gain_label, ""),
            ("times", "As good as", _TIMES_TIP),
        ):
            label = QLabel("", self)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            label.setToolTip(tip)
            form.addRow(row_label(title, tip, self) if isinstance(title, str) else title, label)
            self._numbers[name] = label
        return form
