"""The events of the walk: what a random person does next in a napari window, each by real mouse and keys."""

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

from person import Person, inside
from qtpy.QtCore import QPoint
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QMenu,
    QScrollBar,
    QTabBar,
    QWidget,
)
from rules import Allowed, Ledger, edited, panel_of

from napari_gpubio.gui.front import front_of
from napari_gpubio.gui.switcher import Switcher, name_of

Place = tuple[int, int]
_CONTROLS = (QAbstractButton, QLineEdit, QComboBox, QAbstractSpinBox, QAbstractSlider, QAbstractItemView, QTabBar)
CANVAS_KEYS = (
    "Left", "Right", "Up", "Down", "Return", "Escape", "Prior", "Next", "space", "Home", "Delete", "Tab",
    *"0123456789abcdefgijklmnopqrstuvxyz", "period", "comma", "minus", "plus", "ctrl+shift+z", "ctrl+z",
)  # fmt: skip
LINKED = "Linked views"  # whose three canvases a processor draws slowly
TEXTS = ("4.5", "0", "-1", "12", "1e4", "200", "0.9", "abc", "")


class Walk:
    """Chooses events and makes them.

    Parameters
    ----------
    person
        Who has the mouse.
    ledger
        Knows the panels and layers.
    seed
        Of the choices.
    """

    def __init__(self, person: Person, ledger: Ledger, seed: int) -> None:
        self.person, self._ledger, self._random = person, ledger, random.Random(seed)
        self._viewer = person.viewer
        self._window = person.viewer.window._qt_window
        self._canvas = person.viewer.window._qt_viewer.canvas.native
        self._steps: dict[Callable[[Allowed], str], int] = {
            self._click_canvas: 16, self._drag_canvas: 8, self._wheel_canvas: 6, self._press_key: 12,
            self._use_control: 34, self._wheel_panel: 4, self._switch_panel: 8, self._select_layer: 4,
            self._delete_layer: 2, self._rename_layer: 2, self._hide_layer: 3, self._undo: 5, self._close_panel: 1,
            self._napari_button: 1,
        }  # fmt: skip

    def step(self) -> tuple[str, Allowed]:
        """Make one event; returns what it was, and who was told to act."""
        allowed = Allowed(self._ask(self._ledger.busy))
        act = self._random.choices([*self._steps], [*self._steps.values()])[0]
        text = act(allowed)
        time.sleep(0.05)
        allowed.panels |= self._ask(self._front_now)
        return text, allowed

    def close_dialogs(self) -> list[str]:
        """Answer what has opened with Escape, until nothing is open; returns its titles."""
        titles = []
        for _ in range(6):
            title = self._ask(_open_title)
            if not title:
                break
            titles.append(title)
            self.person.key("Escape") if "QMenu" not in title else self._escape()
        return titles

    # -- the canvas -------------------------------------------------------------------------------------------------

    def _click_canvas(self, allowed: Allowed) -> str:
        at, keys = self._place_on_canvas(), self._random.choice(((), (), (), ("shift",), ("ctrl",)))
        self._tell_canvas(allowed)
        self.person.click_at(at, keys=keys)
        return f"click {'+'.join((*keys, ''))}{at} on the canvas"

    def _drag_canvas(self, allowed: Allowed) -> str:
        start, end = self._place_on_canvas(), self._place_on_canvas()
        self._tell_canvas(allowed)
        self.person.drag(start, end, steps=self._random.choice((2, 5, 8)))
        return f"drag {start} to {end} on the canvas"

    def _wheel_canvas(self, allowed: Allowed) -> str:
        at, notches = self._place_on_canvas(), self._random.choice((-3, -1, 1, 2))
        hold = self._random.random() < 0.4
        self._tell_canvas(allowed)
        self.person.wheel(at, notches, keys=("ctrl",) if hold else ())
        return f"{'ctrl+' if hold else ''}wheel {notches} at {at} on the canvas"

    def _press_key(self, allowed: Allowed) -> str:
        key = self._random.choice(CANVAS_KEYS)
        where = self._ask(self._tell_focus(allowed))
        allowed.everything |= key.endswith("+z")
        self.person.key(key)
        return f"key {key} in {where}"

    def _undo(self, allowed: Allowed) -> str:
        key = self._random.choice(("ctrl+z", "ctrl+z", "ctrl+shift+z"))
        allowed.everything = True
        self.person.key(key)
        return f"key {key}"

    def _tell_canvas(self, allowed: Allowed) -> None:
        allowed.panels |= self._ask(self._front_now)
        allowed.layers += self._ask(lambda: edited(self._viewer))

    def _tell_focus(self, allowed: Allowed) -> Callable[[], str]:
        def tell() -> str:
            focused = QApplication.focusWidget()
            panel = panel_of(focused)
            if panel is None:
                allowed.panels |= self._front_now()
                allowed.layers += [*edited(self._viewer), *self._viewer.layers.selection]
            else:
                allowed.panels.add(name_of(panel))
            return "nothing" if focused is None else _words(focused)

        return tell

    def _place_on_canvas(self) -> Place:
        """A place on napari's canvas, mostly near its middle."""
        across, down = (min(max(self._random.gauss(0.5, 0.17), 0.03), 0.97) for _ in range(2))
        size = self._ask(self._canvas.size)
        at = self._ask(lambda: self._canvas.mapToGlobal(QPoint(int(across * size.width()), int(down * size.height()))))
        return at.x(), at.y()

    # -- panels -----------------------------------------------------------------------------------------------------

    def _use_control(self, allowed: Allowed) -> str:
        found = self._ask(self._controls)
        if not found:
            return self._switch_panel(allowed)
        widget, text, kind, panel = self._random.choice(found)
        allowed.panels.add(panel)
        allowed.everything |= text.endswith(("(Undo)", "(Redo)"))
        acts: Sequence[tuple[type, Callable[[QWidget], str]]] = (
            (QComboBox, self._choose), (QAbstractSpinBox, self._type_into), (QLineEdit, self._type_into),
            (QAbstractSlider, self._slide), (QAbstractItemView, self._in_table), (QTabBar, self._click_in),
            (QAbstractButton, self._click_in), (QWidget, self._click_in),
        )  # fmt: skip
        how = next(act for of, act in acts if issubclass(kind, of))(widget)
        return f"{how} {text} of {panel}"

    def _controls(self) -> list[tuple[QWidget, str, type, str]]:
        """What can be seen and used of the panels on screen, and of their windows."""
        found = []
        for name, panel in self._ledger.panels().items():
            for widget in panel.findChildren(QWidget):
                is_control = isinstance(widget, _CONTROLS) or hasattr(widget, "getPlotItem")
                if not is_control or isinstance(widget, (QScrollBar, Switcher)) or not widget.isEnabled():
                    continue
                if _is_seen(widget) and not _is_called(widget, LINKED):
                    found.append((widget, _words(widget), type(widget), name))
        return sorted(found, key=lambda one: (one[3], one[1]))

    def _choose(self, box: Any) -> str:
        self.person.click_at(self._middle(box))
        row = self._random.randrange(max(self._ask(box.count), 1))

        def place() -> Place | None:
            view = box.view()
            if not view.isVisible():
                return None
            index = box.model().index(row, box.modelColumn())
            view.scrollTo(index)
            return inside(view.viewport(), view.visualRect(index))

        at = self._ask(place)
        if at is None:
            return "open"
        self.person.click_at(at)
        return f"choose row {row} in"

    def _type_into(self, box: Any) -> str:
        text, end = self._random.choice(TEXTS), self._random.choice(("Tab", "Return", "Escape", ""))
        self.person.click_at(self._middle(box))
        self.person.key("ctrl+a")
        if text:
            self.person.type(text)
        if end:
            self.person.key(end)
        return f"type {text!r} {end} into"

    def _slide(self, slider: Any) -> str:
        at = self._middle(slider)
        by = self._random.randint(-60, 60)
        self.person.drag(at, (at[0] + by, at[1]), steps=4)
        return f"drag by {by}"

    def _in_table(self, view: Any) -> str:
        at = self._somewhere(view.viewport())
        self.person.click_at(at)
        if self._random.random() < 0.5:
            return f"click {at} in"
        key = self._random.choice((*TEXTS[:-1], "Delete", "Down", "ctrl+c", "ctrl+v", "ctrl+z"))
        if key in TEXTS:
            self.person.type(key)
            self.person.key("Return")
        else:
            self.person.key(key)
        return f"click {at}, {key} in"

    def _click_in(self, widget: QWidget) -> str:
        at = self._middle(widget) if isinstance(widget, QAbstractButton) else self._somewhere(widget)
        self.person.click_at(at)
        return f"click {at} on"

    def _wheel_panel(self, allowed: Allowed) -> str:
        found = self._ask(self._controls)
        if not found:
            return self._wheel_canvas(allowed)
        widget, text, _, panel = self._random.choice(found)
        allowed.panels.add(panel)
        notches = self._random.choice((-4, -2, 2, 4))
        self.person.wheel(self._middle(widget), notches)
        return f"wheel {notches} over {text} of {panel}"

    def _switch_panel(self, allowed: Allowed) -> str:
        switcher = self._ask(lambda: next(filter(_is_seen, self._window.findChildren(Switcher)), None))
        if switcher is None:
            return self._open_from_menu(allowed)
        self.person.click_at(self._middle(switcher))
        menu = self._ask(switcher.menu)
        time.sleep(0.1)
        actions = self._ask(lambda: [one for one in menu.actions() if menu.isVisible() and one.text() != LINKED])
        if not actions:
            return "click on the switcher"
        action = self._random.choice(actions)
        name = self._ask(action.text)
        allowed.panels.add(name)
        self.person.click_at(self._ask(lambda: inside(menu, menu.actionGeometry(action))))
        return f"switch to {name}"

    def _open_from_menu(self, allowed: Allowed) -> str:
        allowed.panels.add("Fiber tracking")
        self.person.menu("Plugins", "napari-gpubio", "Fiber tracking")
        return "open Fiber tracking from the menu"

    def _close_panel(self, allowed: Allowed) -> str:
        """Close a panel by the button of its dock."""
        panel = self._ask(lambda: front_of(self._viewer).panel)
        button = None if panel is None else self._ask(lambda: _close_button(panel))
        if button is None:
            return self._switch_panel(allowed)
        name = self._ask(lambda: name_of(panel))
        allowed.panels.add(name)
        self.person.click_at(self._middle(button))
        return f"close {name}"

    # -- napari's list of layers and its buttons --------------------------------------------------------------------

    def _select_layer(self, allowed: Allowed) -> str:
        layer, at = self._row()
        if layer is None:
            return self._switch_panel(allowed)
        allowed.panels |= self._ask(self._front_now)
        self.person.click_at(at)
        return f"select {self._ask(lambda: layer.name)!r}"

    def _delete_layer(self, allowed: Allowed) -> str:
        layer, at = self._row()
        if layer is None or self._ask(lambda: len(self._viewer.layers)) < 4:
            return self._switch_panel(allowed)
        self.person.click_at(at)
        chosen = self._ask(lambda: list(self._viewer.layers.selection))
        names = [one.name for one in chosen]
        allowed.layers += chosen
        if self._random.random() < 0.5:
            self.person.key("Delete")
            return f"delete {names} by key"
        button = self._ask(lambda: self._window._qt_viewer.layerButtons.deleteButton)
        self.person.click_at(self._middle(button))
        return f"delete {names} by button"

    def _rename_layer(self, allowed: Allowed) -> str:
        layer, at = self._row()
        if layer is None:
            return self._switch_panel(allowed)
        old = self._ask(lambda: layer.name)
        self.person.click_at(at)
        self.person.click_at(at)
        if not self._ask(lambda: isinstance(QApplication.focusWidget(), QLineEdit)):
            return f"click twice on {old!r}"
        self.person.key("ctrl+a")
        self.person.type(f"renamed {self._random.randrange(100)}")
        self.person.key("Return")
        return f"rename {old!r}"

    def _hide_layer(self, allowed: Allowed) -> str:
        layer, at = self._row()
        if layer is None:
            return self._switch_panel(allowed)
        self.person.click_at(at)
        allowed.panels |= self._ask(self._front_now)
        self.person.key("v")
        return f"show or hide {self._ask(lambda: layer.name)!r}"

    def _row(self) -> tuple[Any, Place]:
        """A layer and where it is in the list."""
        view = self._window._qt_viewer.layers
        model = view.model()
        count = self._ask(model.rowCount)
        if not count:
            return None, (0, 0)
        row = self._random.randrange(count)

        def place() -> tuple[Any, Place]:
            index = model.index(row, 0)
            view.scrollTo(index)
            return self._viewer.layers[len(self._viewer.layers) - 1 - row], inside(
                view.viewport(), view.visualRect(index)
            )

        return self._ask(place)

    def _napari_button(self, allowed: Allowed) -> str:
        """A tool of napari's for the active layer, or back to pan and zoom."""
        controls = self._window._qt_viewer.controls

        def modes() -> list[QAbstractButton]:
            buttons = controls.findChildren(QAbstractButton)
            return [one for one in buttons if one.isCheckable() and one.isEnabled() and _is_seen(one)]

        found = self._ask(modes)
        if not found:
            return self._select_layer(allowed)
        button = self._random.choice(found)
        allowed.layers += self._ask(lambda: list(self._viewer.layers.selection))
        self.person.click_at(self._middle(button))
        return f"napari's {self._ask(button.toolTip)[:30]!r}"

    # -- helpers ----------------------------------------------------------------------------------------------------

    def _ask(self, function: Callable[[], Any]) -> Any:
        return self.person.ask(function)

    def _front_now(self) -> set[str]:
        panel = front_of(self._viewer).panel
        return set() if panel is None else {name_of(panel)}

    def _middle(self, widget: QWidget) -> Place:
        """The middle of what is seen of a widget."""
        return self._ask(lambda: inside(widget, widget.visibleRegion().boundingRect()))

    def _somewhere(self, widget: QWidget) -> Place:
        across, down = self._random.random(), self._random.random()

        def place() -> Place:
            seen = widget.visibleRegion().boundingRect()
            at = widget.mapToGlobal(seen.topLeft() + QPoint(int(across * seen.width()), int(down * seen.height())))
            return at.x(), at.y()

        return self._ask(place)

    def _escape(self) -> None:
        self.person.press("Escape")


def _close_button(panel: QWidget) -> QWidget | None:
    """The cross in the title of the dock that a panel lies in."""
    dock = panel.parentWidget()
    while dock is not None and not hasattr(dock, "destroyOnClose"):
        dock = dock.parentWidget()
    title = None if dock is None else dock.titleBarWidget()
    button = getattr(title, "close_button", None)
    return button if button is not None and _is_seen(button) else None


def _is_seen(widget: QWidget) -> bool:
    """Whether a widget is on the screen; those behind other tabs count as visible for Qt."""
    if not widget.isVisible() or widget.visibleRegion().isEmpty():
        return False
    under = QApplication.widgetAt(widget.mapToGlobal(widget.visibleRegion().boundingRect().center()))
    return under is not None and (under is widget or widget.isAncestorOf(under))


def _is_called(widget: Any, text: str) -> bool:
    return isinstance(widget, QAbstractButton) and widget.text() == text


def _open_title() -> str:
    """The dialog, list or menu that is open; "" if nothing is."""
    for widget in (QApplication.activePopupWidget(), QApplication.activeModalWidget()):
        if widget is not None:
            return f"{type(widget).__name__} {widget.windowTitle()}"
    others = (w for w in QApplication.topLevelWidgets() if w.isVisible() and isinstance(w, QMenu))
    return next((type(w).__name__ for w in others), "")


def _words(widget: QWidget) -> str:
    """A control in words."""
    text = getattr(widget, "text", None) or getattr(widget, "currentText", None)
    shown = text() if callable(text) else ""
    name = widget.accessibleName() or widget.toolTip().split("\n")[0]
    return f"{type(widget).__name__} {str(shown)[:30]!r} ({name[:40]})"
