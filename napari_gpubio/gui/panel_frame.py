"""The look of every dock widget: between a header and what is said of the result and the run, inputs scroll."""

import weakref
from functools import partial
from typing import Any

from napari.settings import get_settings
from qtpy.compat import isalive
from qtpy.QtCore import QEvent, Qt
from qtpy.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QFormLayout,
    QHBoxLayout,
    QLabel,  # noqa: TID251 - those of others, too
    QProgressBar,
    QScrollBar,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from napari_gpubio.core.napari_io import notes_of
from napari_gpubio.gui import theme
from napari_gpubio.gui.accessible import name_controls
from napari_gpubio.gui.canvas_keys import bind_canvas_keys
from napari_gpubio.gui.connections import Connection, Connections, Debouncer, single_shot
from napari_gpubio.gui.docking import CloseGuard, DockWindow, dock_of, raise_dock, share_place
from napari_gpubio.gui.focus import FocusRing, is_folded_away, order_by_place
from napari_gpubio.gui.forms import InputColumn, WrappedLabel, muted_label, notes_text, row_of, text_button, tip_of
from napari_gpubio.gui.front import front_of
from napari_gpubio.gui.guards import KeyGuard, WheelGuard
from napari_gpubio.gui.help_window import HelpButton
from napari_gpubio.gui.history import HistoryButtons, history_of
from napari_gpubio.gui.input_scroll import InputScroll
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.picking import is_edited
from napari_gpubio.gui.places import Offer, place_offers
from napari_gpubio.gui.scans import follow_scans
from napari_gpubio.gui.switcher import Switcher, fold_tabs, name_of
from napari_gpubio.gui.views import fit_unmoved
from napari_gpubio.gui.window_state import parts_of

_LONGEST_NOTES = 300  # letters of what was assumed; the tool tip has all of it
_BAR_STEPS = 1000
_MIN_WIDTH, _MARGINS = 300, 16  # pixels; of a panel, and of what is around its inputs
_NAMING_MS = 100  # after the inputs were laid out last, until new ones have names
_LAID_OUT_MS = 50  # after a panel came on screen, until the canvas beside it has its size
_MAX_PIXELS = 16_777_215  # Qt's, of a part without a limit
_CURSOR = "crosshair"  # over the canvas while a click places or chooses something


class PanelFrame(QWidget):
    """A dock widget with its messages, its width and its colors, which follow napari's theme.

    A subclass fills ``self.inputs`` (what scrolls), what stays in sight (``self.header``: the main input,
    ``self.result_head``, ``self.above_run``) and ``self.buttons``, and says how far its work is in the line of
    `show_progress` and by `show_fraction`. The viewer is napari's or its public proxy.

    What is said ends when its reason does: a message and the status of what was done with the next thing that the user
    does in the panel, an error also with the next success.

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
        self._pressed: QWidget | None = None  # where the mouse is down
        self._kept_parts: list[weakref.ref[Any]] | None = None
        self._foot = QWidget(self)
        self.header = QFormLayout()
        self.inputs = QVBoxLayout()
        self.result_head = QVBoxLayout()
        self.above_run = QVBoxLayout()
        self.buttons = QHBoxLayout()
        self._build()
        self._wheel = WheelGuard(self)
        self._wheel.pressed.connect(self._on_press)
        self._wheel.released.connect(self._on_release)
        self._wheel.typed.connect(self._end_message)
        keys = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Escape, Qt.Key.Key_F1)
        KeyGuard(self, {key: partial(self._act_on, key) for key in keys})
        self._guard = CloseGuard(self, shares_place=True, may_close=self.may_close)
        self._guard.closing.connect(self.teardown)
        self._guard.stayed.connect(self.revive)
        self._docked = single_shot(0, self._share_place, self)
        self._fold_tabs = single_shot(0, self._fold, self)  # when Qt has made the tabs
        self._was_shown, self._was_in_front = False, True
        self._waits_for_notes = False  # what would be said of the inputs, until the panel is on screen
        self._dock: Any = None  # that is followed
        single_shot(0, self._follow_boxes, self).start()
        bind_canvas_keys(viewer)
        self._front = front_of(viewer)
        self._cursor_later = Debouncer(self._show_cursor, self)  # napari tells of a cursor before it is in the mode
        self._wheel.used.connect(self._on_used)
        self._was_unmoved = fit_unmoved(viewer)  # and is fitted again when this panel has made the canvas narrower
        self._front.take(self)
        self.own(Connections(self._tool_pairs, self._show_tools))
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
        self._front.leave(self)
        self._ring.leave()
        for timer in (self._naming, self._fold_tabs):
            timer.stop()
        for part in self._parts:
            part.detach()

    def revive(self) -> None:
        """Listen to the viewer again, after the user decided not to close it."""
        self._front.take(self)
        for part in self._parts:
            part.attach()

    def may_close(self) -> bool:
        """Whether the user, who closes the panel, wants that."""
        return True

    # -- in front or behind ---------------------------------------------------------------------------------------

    @property
    def is_in_front(self) -> bool:
        """Whether the clicks on the canvas are this panel's, and what changes on it is followed by runs."""
        return self._front.panel is self

    def on_key(self, key: Qt.Key) -> None:
        """Act upon Enter or Escape that nothing in the panel has taken."""

    def _act_on(self, key: Qt.Key) -> None:
        if key == Qt.Key.Key_F1:
            self.help_button.open()
        else:
            self.on_key(key)

    @property
    def takes_clicks(self) -> bool:
        """Whether clicks on the canvas mean something to the panel when it is in front."""
        return bool(self._hints())

    def come_to_front(self) -> None:
        """Raise the panel, if it lies behind another tab, and take the clicks on the canvas."""
        raise_dock(self)
        self._take_front()

    def on_front(self) -> None:
        """Act upon having come to the front."""

    def _on_used(self) -> None:
        if not self.is_in_front and not self.visibleRegion().isEmpty():
            self._front.take(self)

    def _follow_dock(self) -> None:
        """Come to the front with the tab of the dock, which is all that Qt tells of; a new dock is followed anew."""
        dock = dock_of(self)
        if dock is not None and dock is not self._dock:
            self._dock = dock
            dock.visibilityChanged.connect(self._on_tab)

    def _on_tab(self, is_visible: bool) -> None:  # noqa: FBT001 - as Qt's signal has it
        self._fold_tabs.start()
        if is_visible:
            self._take_front()
        else:
            self._front.hide(self)

    def _take_front(self) -> None:
        """Take the clicks on the canvas, and the keys from a panel that may be out of sight now."""
        self._front.take(self)
        focused, others = QApplication.focusWidget(), [one for one in self._front.panels if one is not self]
        if focused is not None and any(other.isAncestorOf(focused) for other in others):
            self.setFocus(Qt.FocusReason.OtherFocusReason)

    def _tool_pairs(self) -> list[Connection]:
        viewer, request = self.viewer, lambda *_: self._cursor_later.request()
        changes = (viewer.layers.selection.events.active, viewer.cursor.events.style)
        return [(self._front.changed, self._on_front), *((event, request) for event in changes)]

    def _on_front(self) -> None:
        was, self._was_in_front = self._was_in_front, self.is_in_front
        self._show_tools()
        if self.is_in_front and not was:
            for box in self._boxes():
                box.suggest_preferred()
            if self._waits_for_notes:
                self.show_input_notes()
            self.on_front()

    def _hints(self) -> list[str]:
        tools = (tool for tool in self._front.tools if self._front.panel_of(tool) is self)
        return [hint for tool in tools if (hint := tool.hint)]

    def _show_tools(self) -> None:
        """Say whose the clicks on the canvas are, and what they do."""
        if self._front.shows(self):
            hints, front = self._hints(), self._front.panel
            own = " · ".join(hints)
            other = "" if front is None else f"Clicks on the canvas go to {name_of(front)}."
            self._tool_line.setText(own if front is self else other)
            self._tool_line.setVisible(bool(hints))
        self._show_cursor()

    def _show_cursor(self) -> None:
        """A crosshair while a click is this panel's; napari's own where it is not, and where a layer is edited."""
        if self._front.panel is not None and not self.is_in_front:
            return
        cursor, active = self.viewer.cursor, self.viewer.layers.selection.active
        if is_edited(active):
            return
        wanted = _CURSOR if self.is_in_front and self._hints() else "standard"
        if str(cursor.style) in (_CURSOR, "standard") and str(cursor.style) != wanted:
            cursor.style = wanted

    # -- messages -------------------------------------------------------------------------------------------------

    def show_error(self, sentence: str) -> None:
        """Show an error message: the problem and what to do about it; an empty one ends that of an earlier try."""
        if sentence:
            if not self._is_progress:
                self._show_text("")
            self._say(sentence, theme.ERROR_STYLE)
        else:
            self._end_error()

    def show_note(self, sentence: str) -> None:
        """Show a note to the user."""
        self._say(sentence, theme.NOTE_STYLE)

    def clear_message(self) -> None:
        """Remove the message."""
        self._message.hide()
        self._show_text(self.status)

    def show_status(self, text: str) -> None:
        """Show in the status line what was done, or nothing; it ends an error."""
        self._is_progress = False
        if text:
            self._end_error()
        self._show_text(text)

    def show_progress(self, text: str) -> None:
        """Show in the status line what is being done; it stays until it is replaced."""
        self._is_progress = True
        self._show_text(text)

    def show_fraction(self, fraction: float | None) -> None:
        """Show how far the work is, None if that is not known, with the window's next picture.

        Qt would draw the bar at once, and with it the whole window with its canvas.
        """
        self.bar.setUpdatesEnabled(False)
        self.bar.setRange(0, 0 if fraction is None else _BAR_STEPS)
        self.bar.setValue(int(_BAR_STEPS * (fraction or 0.0)))
        self.bar.setUpdatesEnabled(True)

    def _end_error(self) -> None:
        if self._message.styleSheet() == theme.ERROR_STYLE:
            self.clear_message()

    def _end_message(self, control: QWidget) -> None:
        """Forget what was said of the last action, since the user does something else."""
        part: Any = control
        while part is not self and part.focusPolicy() == Qt.FocusPolicy.NoFocus:
            part = part.parentWidget()
        if part is self or isinstance(part, (QLabel, QScrollBar, InputScroll)):
            return
        if not self._is_progress:
            self._show_text("")
        self.clear_message()

    def _show_text(self, text: str) -> None:
        self._status.setText(text)
        self._status.setVisible(bool(text) or self._message.isHidden())  # a line, lest the first one moves anything

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
        return tuple(note for layer in self.chosen_layers() for note in notes_of(layer))

    def chosen_layers(self) -> list[Any]:
        """The layers that the panel uses."""
        return [box.layer for box in self._boxes() if box.layer is not None]

    def _boxes(self) -> list[LayerBox]:
        """The lists of layers whose choice counts."""
        return [box for box in self.findChildren(LayerBox) if box.isVisibleTo(self) and box.isEnabled()]

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
        """Show what is assumed of the chosen layers, and offer a place to one that tells none; once it can be seen."""
        self._waits_for_notes = not self._front.shows(self)
        if self._waits_for_notes:
            return
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
        self._show_text(self.status)

    # -- what is pressed ------------------------------------------------------------------------------------------

    def _on_press(self, control: QWidget) -> None:
        """Hold what is pressed, and what lies below the inputs as high as it is, so that nothing moves or is covered.

        A list, and a button that opens a menu, are let go elsewhere.
        """
        if self._pressed is not None and isalive(self._pressed) and control.isAncestorOf(self._pressed):
            return  # the same press, which what is pressed had no use for
        self._pressed = control
        self._end_message(control)
        self._scroll.hold(control)
        if not isinstance(control, (QComboBox, QAbstractButton)):
            self._foot.setFixedHeight(self._foot.height())

    def _on_release(self, _control: QWidget) -> None:
        self._pressed = None
        self._foot.setMinimumHeight(0)
        self._foot.setMaximumHeight(_MAX_PIXELS)

    # -- layout and colors ----------------------------------------------------------------------------------------

    def _build(self) -> None:
        content = InputColumn(self)
        content.setLayout(self.inputs)
        content.laid_out.connect(self._fit_width)
        self._naming = single_shot(_NAMING_MS, self._name_controls, self)
        content.laid_out.connect(self._naming.start)
        content.laid_out.connect(self._forget_parts)
        self.inputs.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._content, self._scroll = content, InputScroll(content, self)
        self._ring = FocusRing(self)
        margins = self.inputs.contentsMargins()
        self.header.setContentsMargins(margins.left(), 0, margins.right(), 0)
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
        self._is_progress = False  # whether the status is of something under way
        foot = QVBoxLayout(self._foot)
        foot.setContentsMargins(0, 0, 0, 0)
        foot.addLayout(self.result_head)
        for part in (self._input_notes, self.place_button, self._message, self._status):
            foot.addWidget(part)
        self._tool_line = muted_label(self)
        self._tool_line.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(6, 6, 6, 6)
        self.help_button = HelpButton(self.viewer, self)
        self.help_button.setVisible(hasattr(self.viewer, "window"))
        if hasattr(self.viewer, "window"):
            head = Switcher(self.viewer, self), HistoryButtons(self.viewer, self), self.help_button
            layout.addLayout(row_of(*head, stretch=(1, 0, 0)))
        layout.addWidget(self._tool_line)
        layout.addLayout(self.header)
        layout.addWidget(self._scroll, 1)
        layout.addWidget(self._foot)
        layout.addLayout(self.above_run)
        layout.addLayout(self.buttons)
        layout.addWidget(self.bar)
        self.setMinimumWidth(_MIN_WIDTH)
        self._refit = single_shot(0, self._fit_width, self)  # when all parts have the new style
        self._take_font()

    @property
    def kept_parts(self) -> list["weakref.ref[Any]"]:
        """What undo keeps of the panel; see `window_state`. It is looked for again when the inputs were laid out."""
        if self._kept_parts is None:
            self._kept_parts = [weakref.ref(part) for part in parts_of(self)]
        return self._kept_parts

    def _forget_parts(self) -> None:
        self._kept_parts = None

    def _share_place(self) -> None:
        share_place(self)
        self._fold_tabs.start()

    def _fold(self) -> None:
        fold_tabs(self.window())

    def _name_controls(self) -> None:
        name_controls(self)

    def _fit_width(self) -> None:
        """Be wide enough for what it holds; a part that is folded away later takes no width back."""
        bar = self._scroll.verticalScrollBar().sizeHint().width()
        inside = self._content.minimumSizeHint().width() + bar + _MARGINS
        self.setMinimumWidth(max(self.minimumWidth(), inside, self.layout().minimumSize().width()))

    def focusNextPrevChild(self, next: bool) -> bool:  # noqa: A002, FBT001 - as Qt has it
        """Qt: Tab; what is folded away is left out."""
        order_by_place(self, self._content)
        first = None
        while super().focusNextPrevChild(next):
            control = QApplication.focusWidget()
            if control is None or control is first or not self.isAncestorOf(control) or not is_folded_away(control):
                return True
            first = first or control
        return False

    def showEvent(self, event: Any) -> None:
        """Qt: the panel comes on screen; make it wide enough for what it holds, now that this is known."""
        super().showEvent(event)
        if not self._was_shown:
            self._was_shown = True
            self._docked.start()
            single_shot(_LAID_OUT_MS, self._fill_canvas, self).start()
        self._follow_dock()
        history_of(self.viewer).watch(self.window().windowHandle())
        if not event.spontaneous():
            self._front.take(self)
            self._fold_tabs.start()
        self._fit_width()

    def _fill_canvas(self) -> None:
        if self._was_unmoved and self.viewer.dims.ndisplay == 2:
            self.viewer.reset_view(reset_camera_angle=False)

    def resizeEvent(self, event: Any) -> None:
        """Qt: another size, such as that which tabs below the panel leave when they come."""
        super().resizeEvent(event)
        self._fold_tabs.start()

    def hideEvent(self, event: Any) -> None:
        """Qt: the panel goes, for instance behind another tab; not when its window is made an icon."""
        super().hideEvent(event)
        if not event.spontaneous():
            self._front.hide(self)

    def changeEvent(self, event: Any) -> None:
        """Qt: another style, whose font may be smaller; or another window in front, whose theme may be another."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange and self.isActiveWindow():
            theme.use(self._theme)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self._take_font()
            self.setMinimumWidth(_MIN_WIDTH)
            self._refit.start()

    def _take_font(self) -> None:
        """Give napari's font size to tables and text fields, which its style sheet leaves out."""
        style = f"QLineEdit, QAbstractItemView, QHeaderView {{ font-size: {get_settings().appearance.font_size}pt; }}"
        if style != self.styleSheet():
            self.setStyleSheet(style)

    def _on_theme(self, *_: Any) -> None:
        before, self._theme = self._theme, self.viewer.theme
        theme.use(self._theme)
        if before != self._theme:
            for part in (self, *(dock.window for dock in self.findChildren(DockWindow) if dock.window is not None)):
                theme.restyle(part, before)
