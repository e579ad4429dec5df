"""The look of every dock widget: inputs that scroll, and below them messages, buttons, progress and a status line."""

from typing import Any

from qtpy.QtCore import QEvent, Qt
from qtpy.QtWidgets import QHBoxLayout, QProgressBar, QScrollArea, QSizePolicy, QVBoxLayout, QWidget

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.reading import NOTES
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Connections, single_shot
from napari_gpubio.gui.docking import CloseGuard, DockWindow, share_place
from napari_gpubio.gui.forms import InputColumn, WrappedLabel, muted_label, notes_text, text_button, tip_of
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.places import Offer, place_offers
from napari_gpubio.gui.scans import follow_scans
from napari_gpubio.gui.wheel import WheelGuard

_LONGEST_NOTES = 300  # letters of what was assumed; the tool tip has all of it
_MIN_WIDTH, _MARGINS = 300, 16  # pixels; of a panel, and of what is around its inputs


class PanelFrame(QWidget):
    """A dock widget with its messages, its width and its colors, which follow napari's theme.

    A subclass fills ``self.inputs`` (what scrolls), ``self.above_run`` (what stays in sight) and ``self.buttons``, and
    says how far its work is in the line of `show_status` and in ``self.bar``. The viewer is napari's or its public
    proxy.

    Attributes
    ----------
    offers
        What can be done where one of the chosen layers tells no place and another one, of these or of all, does.
    """

    offers = staticmethod(place_offers)

    def __init__(self, viewer: Any) -> None:
        super().__init__()
        self.viewer = viewer
        theme.use(viewer.theme)
        self._theme = viewer.theme  # whose colors it has
        follow_scans(viewer)
        self._parts: list[Any] = []
        self.inputs = QVBoxLayout()
        self.above_run = QVBoxLayout()
        self.buttons = QHBoxLayout()
        self._build()
        WheelGuard(self)
        self._guard = CloseGuard(self, shares_place=True)
        self._guard.closing.connect(self.teardown)
        self._guard.stayed.connect(self.revive)
        self._docked = single_shot(0, lambda: share_place(self), self)
        self._was_shown = False
        single_shot(0, self._follow_boxes, self).start()
        self.own(Connections(lambda: [(viewer.events.theme, self._on_theme)], self._on_theme))
        changes = viewer.layers.events
        self.own(Connections(lambda: [(event, self.show_input_notes) for event in (changes.inserted, changes.removed)]))

    def own(self, part: Any) -> Any:
        """Call ``part.attach()`` now and ``part.detach()`` when the panel goes away; returns the part."""
        self._parts.append(part)
        part.attach()
        return part

    def teardown(self) -> None:
        """Disconnect from the viewer and release it; called when the panel is closed."""
        for part in self._parts:
            part.detach()

    def revive(self) -> None:
        """Listen to the viewer again, after the user decided not to close it."""
        for part in self._parts:
            part.attach()

    # -- messages -------------------------------------------------------------------------------------------------

    def show_error(self, sentence: str) -> None:
        """Show an error message: the problem and what to do about it."""
        self._say(sentence, theme.ERROR_STYLE)

    def show_note(self, sentence: str) -> None:
        """Show a note to the user."""
        self._say(sentence, theme.NOTE_STYLE)

    def clear_message(self) -> None:
        """Remove the message."""
        self._message.hide()

    def show_status(self, text: str) -> None:
        """Show a short text in the status line."""
        self._status.setText(text)

    @property
    def status(self) -> str:
        """The text of the status line."""
        return self._status.text()

    @property
    def message(self) -> str:
        """The message that is shown, or an empty text."""
        return self._message.text() if not self._message.isHidden() else ""

    def input_notes(self) -> tuple[str, ...]:
        """What the readers of the chosen layers assumed or left out; a panel that shows it elsewhere gives nothing."""
        return tuple(note for layer in self.chosen_layers() for note in carried(layer, NOTES) or ())

    def chosen_layers(self) -> list[Any]:
        """The layers that the panel uses."""
        boxes = [box for box in self.findChildren(LayerBox) if box.isVisibleTo(self) and box.isEnabled()]
        return [box.layer for box in boxes if box.layer is not None]

    def _follow_boxes(self) -> None:
        """Show the notes of chosen layers from now on, when all inputs have been made."""
        for box in self.findChildren(LayerBox):
            box.currentIndexChanged.connect(self.show_input_notes)
        self.show_input_notes()

    def _offered(self) -> Offer | None:
        return next(self.offers(self.chosen_layers(), list(self.viewer.layers)), None)

    def _take_place(self) -> None:
        if (offer := self._offered()) is not None:
            offer.take()
            self.clear_message()
        self.show_input_notes()

    def show_input_notes(self, *_: Any) -> None:
        """Show what is assumed of the chosen layers, and offer a place to one that tells none."""
        if (offer := self._offered()) is not None:
            self.place_button.setText(offer.text)
            self.place_button.setToolTip(
                tip_of(f"{offer.text}: they have as many voxels, and only one tells its place")
            )
        self.place_button.setVisible(offer is not None)
        text = notes_text(self.input_notes())
        self._input_notes.setText(text if len(text) < _LONGEST_NOTES else f"{text[:_LONGEST_NOTES]}…")
        self._input_notes.setToolTip(tip_of(text))
        self._input_notes.setVisible(bool(text))

    def _say(self, sentence: str, style: str) -> None:
        self._message.setStyleSheet(style)
        self._message.setText(sentence)
        self._message.show()

    # -- layout and colors ----------------------------------------------------------------------------------------

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
        self._input_notes = muted_label(self)
        self._input_notes.hide()
        self.place_button = text_button("", "", self, self._take_place)
        self.place_button.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)  # names may be long
        self.place_button.hide()
        self._message = WrappedLabel("", self)
        self._message.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._message.hide()
        self.bar = QProgressBar(self, textVisible=False, maximumHeight=6)
        self._status = WrappedLabel("", self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 6, 6, 6)
        layout.addWidget(scroll, 1)
        layout.addWidget(self._input_notes)
        layout.addWidget(self.place_button)
        layout.addWidget(self._message)
        layout.addLayout(self.above_run)
        layout.addLayout(self.buttons)
        layout.addWidget(self.bar)
        layout.addWidget(self._status)
        self.setMinimumWidth(_MIN_WIDTH)
        self._refit = single_shot(0, self._fit_width, self)  # when all parts have the new style

    def _fit_width(self) -> None:
        """Be wide enough for what it holds; a part that is folded away later takes no width back."""
        bar = self._scroll.verticalScrollBar().sizeHint().width()
        inside = self._content.minimumSizeHint().width() + bar + _MARGINS
        self.setMinimumWidth(max(self.minimumWidth(), inside, self.layout().minimumSize().width()))

    def showEvent(self, event: Any) -> None:
        """Qt: the panel comes on screen; make it wide enough for what it holds, now that this is known."""
        super().showEvent(event)
        if not self._was_shown:
            self._was_shown = True
            self._docked.start()
        self._fit_width()

    def changeEvent(self, event: Any) -> None:
        """Qt: another style, whose font may be smaller; or another window in front, whose theme may be another."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange and self.isActiveWindow():
            theme.use(self._theme)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self.setMinimumWidth(_MIN_WIDTH)
            self._refit.start()

    def _on_theme(self, *_: Any) -> None:
        before, self._theme = self._theme, self.viewer.theme
        theme.use(self._theme)
        if before != self._theme:
            for part in (self, *(dock.window for dock in self.findChildren(DockWindow) if dock.window is not None)):
                theme.restyle(part, before)
