"""Source and detector inputs: what a click places, the source in numbers, and the list of detectors."""

import dataclasses
from typing import Any

import numpy as np
from napari.layers import Image
from qtpy.QtCore import QSignalBlocker, Signal
from qtpy.QtWidgets import QCheckBox, QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.numbers import position_text, short_number
from napari_gpubio.gui import theme
from napari_gpubio.gui.fields import ElidedComboBox, NumberBox, NumberRow
from napari_gpubio.gui.forms import (
    ChoiceButtons,
    Label,
    ParamForm,
    aligned_form,
    fill_column,
    muted_label,
    row_label,
    row_of,
    text_button,
)
from napari_gpubio.gui.layers import LayerBox, why_not_array
from napari_gpubio.gui.row_table import Cell, RowTable
from napari_gpubio.gui.typed_rows import Column
from napari_gpubio.light.gui.optodes import Optodes, Placement
from napari_gpubio.optics.sources import (
    Collimated,
    Directed,
    Focusable,
    Pattern,
    PatternArea,
    Pencil,
    Rectangle,
    Sector,
    Source,
    SourceChoice,
    frame_along,
)

CHOICES = {
    "source": ("Source", "A click on the surface puts the source there; drag its marker to move it"),
    "detector": ("Detector", "A click on the surface adds a detector (as Shift+click always does); drag to move it"),
    "nothing": ("Nothing", "Clicks and drags only move the view"),
}


class PlaceBar(QWidget):
    """What a click places."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.choices = ChoiceButtons(CHOICES, self)  # ``source``, ``detector`` or ``nothing``
        self.choices.choose("source")
        row = row_of(Label("A click places", self), self.choices)
        row.setStretch(0, 0)
        row.setStretch(1, 1)
        self.setLayout(row)


_NOT_SHOWN = (  # fields that files may have, and which have no row of their own
    "width_axis", "height_axis", "sector_deg", "launch_angles_deg", "launch_angles_are_discrete", "weight",
)  # fmt: skip
_EMPTY = "Click the surface of the labels, in 2-D or 3-D, to place the source."


@dataclasses.dataclass(frozen=True, slots=True)
class KeptSource:
    """Kind and sizes of a source, that of the file they came from, the roll, and the image of its pattern."""

    source: Any
    given: Source
    turn_deg: float = 0.0
    pattern_layer: Any | None = None


class SourceBox(QWidget):
    """The source in numbers; 2-D images of the viewer can be its pattern."""

    changed = Signal()  # kind, sizes, pattern, turn
    moved = Signal(object)  # position, world mm
    turned = Signal(object)  # direction
    deepened = Signal(float)
    normal_requested = Signal(bool)
    flip_requested = Signal()
    chosen = Signal(int)  # the source that is active from now on
    kept = ("_given",)

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.form = ParamForm(SourceChoice(), parent=self)
        self.form.set_row_visible("entry", visible=False)
        self._given: Source = Pencil()  # that of a file, for launch angles and a sector, which have no controls
        self.pattern_box = LayerBox(
            viewer,
            lambda layer: why_not_array(layer, Image, (2,), "a 2-D image is needed"),
            empty="open a 2-D image",
            parent=self,
        )
        self._build()
        self._show_fitting_rows()
        self.show_optodes(Optodes())

    def source_at(self, placement: Placement) -> Source:
        """Return the source with the sizes on show at a place, for drawing it; a pattern stays blank.

        Light of one that was put on the surface enters through that, unless a file says otherwise.
        """
        plain = self._shown
        more: dict[str, Any] = {"position_mm": placement.position_mm, "direction": placement.direction}
        if placement.touches and isinstance(plain, Directed) and plain.entry == "auto":
            more["entry"] = "smooth"
        sector = self._given_sector(plain)
        if sector is not None:
            more["sector_deg"] = sector
        if sector is not None or isinstance(plain, Rectangle):
            u, v, _ = frame_along(placement.direction)
            turn = np.deg2rad(self.turn_box.value())
            more["width_axis"] = tuple(np.cos(turn) * u + np.sin(turn) * v)
        return dataclasses.replace(plain, **more)

    @property
    def _shown(self) -> Source:
        """The source with the sizes on show, at no place."""
        return self.form.value().source

    def _given_sector(self, source: Source) -> tuple[float, float] | None:
        """The sector of a file, if a source may have one."""
        given = self._given
        return given.sector_deg if isinstance(source, Sector) and isinstance(given, Sector) else None

    def show_kept(self) -> None:
        """Do nothing: what is kept has no controls."""

    def complete_source(self, placement: Placement) -> Source:
        """Return the source with all that a run needs; `InvalidInput` if its pattern has no suitable image."""
        source = self._with_angles(self.source_at(placement))
        if not isinstance(source, PatternArea):
            return source
        layer = self.pattern_box.layer
        if layer is None:
            raise InvalidInput("a source of kind 'pattern' needs an image; open a 2-D image and choose it as Image")
        return source.changed_to(Pattern, pattern=np.asarray(layer.data))

    def set_source(self, source: Source) -> None:
        """Show the kind and the sizes of another source; an image of its pattern is for the caller to choose."""
        u, v, _ = frame_along(source.direction)
        along = source.frame()[0]
        self.turn_box.show_value(float(np.rad2deg(np.arctan2(along @ v, along @ u))))
        self._given = source
        usual: dict[str, Any] = {f.name: f.default for f in dataclasses.fields(source) if f.name in _NOT_SHOWN}
        shown: Any = dataclasses.replace(source, **usual)
        shown = shown.changed_to(PatternArea) if isinstance(shown, Pattern) else shown
        self.form.set_value(SourceChoice(source=shown))

    def keep(self) -> KeptSource:
        """Return kind and sizes on show, for `begin_with`."""
        try:
            shown = self._shown
        except InvalidInput:  # sizes that do not fit each other
            shown = Pencil()
        return KeptSource(shown, self._given, self.turn_box.value(), self.pattern_layer)

    def begin_with(self, kept: KeptSource | None) -> None:
        """Show kind and sizes that were kept, or those to begin with."""
        kept = kept or KeptSource(Pencil(), Pencil())
        self._given = kept.given
        self.turn_box.show_value(kept.turn_deg)
        if kept.pattern_layer is not None:
            self.pattern_box.choose(kept.pattern_layer)
        self.form.set_value(SourceChoice(source=kept.source))

    def _with_angles(self, source: Source) -> Source:
        """The source with the launch angles of a file, while it is of that kind, without a focus and a spread."""
        given = self._given
        if not isinstance(given, Collimated) or type(source) is not type(given):
            return source
        if given.launch_angles_deg is None or source.bent_by:
            return source
        return dataclasses.replace(
            source,
            launch_angles_deg=given.launch_angles_deg,
            launch_angles_are_discrete=given.launch_angles_are_discrete,
        )

    def show_optodes(self, optodes: Optodes, start: Placement | None = None) -> None:
        """Show where the active source is, and the list of sources if there are several.

        ``start``: where its light starts, if that is not where it was put.
        """
        placement = optodes.source
        self._hint.setVisible(placement is None)
        self._place.setVisible(placement is not None)
        self._which_row.setVisible(len(optodes.sources) > 1)
        with QSignalBlocker(self._which):
            self._which.clear()
            self._which.addItems([source.name for source in optodes.sources])
            self._which.setCurrentIndex(optodes.active if optodes.sources else -1)
        if placement is None:
            return
        self.position_box.show_values((start or placement).position_mm)
        self.direction_box.show_values(placement.direction)
        self.depth_box.show_value(placement.depth_mm)
        with QSignalBlocker(self._normal):
            self._normal.setChecked(placement.follows_normal)

    def choose_pattern(self, pattern: Any) -> bool:
        """Choose an image that is a pattern; returns whether there is one."""
        return self.pattern_box.choose_where(lambda layer: np.array_equal(np.asarray(layer.data, np.float64), pattern))

    @property
    def pattern_layer(self) -> Any | None:
        """The image that is the source's pattern, if the source is of that kind."""
        return self.pattern_box.layer if self._has_pattern else None

    @property
    def _has_pattern(self) -> bool:
        return bool(self.form.widget("source").value == Pattern.kind)

    def warn(self, sentence: str, note: str = "") -> None:
        """Show what is wrong with where the source is, or else a note; empty texts take it away."""
        self._warning.setStyleSheet(theme.text_style(theme.WARNING) if sentence else theme.MUTED_STYLE)
        sentence = sentence or note
        self._warning.setText(sentence)
        self._warning.setVisible(bool(sentence))

    @property
    def warning(self) -> str:
        """The sentence that is shown, or an empty text."""
        return self._warning.text()

    def attach(self) -> None:
        """Follow the viewer's images."""
        self.pattern_box.attach()

    def detach(self) -> None:
        """Stop following the viewer."""
        self.pattern_box.detach()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self._hint = muted_label(self, _EMPTY)
        self._given_note = muted_label(self)
        place = (self._hint, self._place_part())
        numbers = (self._which_part(), self.form, self._extra_part(), self._given_note, *place)
        self._warning = muted_label(self)
        self._warning.hide()
        fill_column(self, *numbers, self._warning, spacing=3)
        self.form.changed.connect(self._on_form)
        self.pattern_box.currentIndexChanged.connect(self._on_pattern)

    def _which_part(self) -> QWidget:
        self._which_row, self._which = QWidget(self), ElidedComboBox(self)
        self._which.currentIndexChanged.connect(self.chosen)
        tip = "Which of the loaded sources is on"
        aligned_form(self._which_row).addRow(row_label("Source", tip, self), self._which)
        return self._which_row

    def _extra_part(self) -> QWidget:
        part = QWidget(self)
        self._extra = aligned_form(part)
        self.turn_box = NumberBox(-180.0, 180.0, 0.0, 1, self, step=5.0, arrows=True)
        self.turn_box.edited.connect(lambda _: self.changed.emit())
        tip = "Rotation of the rectangle or the sector about the direction of the light, or the axis of a line."
        self._extra.addRow(row_label("Roll (°)", tip, self), self.turn_box)
        tip = "A 2-D image layer: its values are the irradiance; columns run along the width, rows along the height."
        self._extra.addRow(row_label("Image", tip, self), self.pattern_box)
        return part

    def _place_part(self) -> QWidget:
        self._place = QWidget(self)
        form = aligned_form(self._place)
        self.position_box = NumberRow(1.0, 3, ("x: right", "y: anterior", "z: superior"), self)
        self.direction_box = NumberRow(0.1, 4, ("x: right", "y: anterior", "z: superior"), self)
        self.depth_box = NumberBox(-1e4, 1e4, 0.0, 3, self, step=0.5, arrows=True)
        tip = "The light enters at right angles to the surface, wherever the source is placed"
        self._normal = QCheckBox("along inward normal", self, toolTip=tip)
        flip = text_button("Flip", "Reverse the direction", self, self.flip_requested.emit)
        flip.setMaximumWidth(52)
        form.addRow(
            row_label("Position (mm)", "Where the light starts: x right, y anterior, z superior.", self),
            self.position_box,
        )
        form.addRow(
            row_label("Direction", "Direction of emission: x right, y anterior, z superior.", self), self.direction_box
        )
        form.addRow("", row_of(self._normal, flip))
        tip = (
            "Depth below the surface along the direction, as of an implanted fiber; negative: in front of the surface."
        )
        form.addRow(row_label("Depth (mm)", tip, self), self.depth_box)
        self.position_box.edited.connect(self.moved)
        self.direction_box.edited.connect(self.turned)
        self.depth_box.edited.connect(self.deepened)
        self._normal.toggled.connect(self.normal_requested)
        return self._place

    def _on_form(self) -> None:
        self._show_fitting_rows()
        self.changed.emit()

    def _on_pattern(self, *_: Any) -> None:
        if self._has_pattern:  # else an image that is opened changes nothing
            self.changed.emit()

    def _show_fitting_rows(self) -> None:
        """Show only what the kind has beside its sizes, and what a file gives it."""
        try:
            source = self._shown
        except InvalidInput:  # sizes that do not fit each other, which the warning says
            return
        sector = self._given_sector(source)
        self._extra.setRowVisible(0, isinstance(source, Rectangle) or sector is not None)
        self._extra.setRowVisible(1, isinstance(source, PatternArea))
        note = " ".join([*_sector_notes(sector), *self._angle_notes(source)])
        self._given_note.setText(note)
        self._given_note.setVisible(bool(note))

    def _angle_notes(self, source: Source) -> tuple[str, ...]:
        given = self._given
        angles = given.launch_angles_deg if isinstance(given, Collimated) else None
        if angles is None or type(source) is not type(given):
            return ()
        if isinstance(source, Collimated) and source.bent_by:
            return ("The launch angles of the opened file are left out while there is a focus or a spread.",)
        more = "; a focus or a spread replaces them" if isinstance(source, Focusable) else ""
        return (f"Launch angles of the opened file: {len(angles)} from {angles[0]:g}° to {angles[-1]:g}°{more}.",)


def _sector_notes(sector: tuple[float, float] | None) -> tuple[str, ...]:
    if sector is None:
        return ()
    start, end = (short_number(angle, 4) for angle in sector)
    return (f"Sector of the opened file: azimuths from {start}° to {end}°, measured from the roll.",)


_SENSITIVITY = (
    "Where a change in absorption changes the signal of the chosen detector: simulates light from the detector with as "
    "many photons as the result has, and combines both; shares by label are added to the numbers"
)
_NO_DETECTORS = "No detectors. Choose Detector above and click the surface (or Shift+click), or load an optode montage."


class _DetectorTable(RowTable):
    columns = (
        Column("name", "Detector"),
        Column("radius_mm", "Radius (mm)"),
        Column("separation_mm", "From source (mm)", editable=False),
    )
    most_rows, selects_many = 6, True


class DetectorBox(QWidget):
    """Detectors: names, radii, distances."""

    changed = Signal(int, object)  # which one, and what of it
    remove_requested = Signal(object)  # set of indices
    load_requested = Signal()
    sensitivity_requested = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._build()
        self.show_optodes(Optodes())

    def show_optodes(self, optodes: Optodes) -> None:
        """Show the list as it is."""
        count = len(optodes.detectors)
        self._table.set_rows([_row(optodes, number) for number in range(count)])
        self._table.setVisible(count > 0)
        self._empty.setVisible(count == 0)
        for button in (self._remove, self._sensitivity):
            button.setEnabled(count > 0)
        self._name_sensitivity_button()

    def _build(self) -> None:
        self._table = _DetectorTable(self)
        self._table.itemChanged.connect(self._on_edited)
        self._table.itemSelectionChanged.connect(self._name_sensitivity_button)
        self._empty = muted_label(self, _NO_DETECTORS)
        tip = "Remove the chosen detectors, or the last one"
        self._remove = text_button("Remove", tip, self, lambda: self.remove_requested.emit(self._chosen()))
        tip = "Read sources and detectors of a SNIRF file, and snap them to the surface"
        load = text_button("Load optodes…", tip, self, self.load_requested.emit)
        self._sensitivity = text_button(
            "", _SENSITIVITY, self, lambda: self.sensitivity_requested.emit(max(self._chosen()))
        )
        fill_column(self, self._empty, self._table, row_of(load, self._remove), self._sensitivity)

    def _chosen(self) -> set[int]:
        rows = {index.row() for index in self._table.selectedIndexes()}
        return rows or {self._table.rowCount() - 1}

    def _name_sensitivity_button(self) -> None:
        """Name the detector whose sensitivity the button finds: the chosen one, or the last."""
        row = max(self._chosen())
        item = self._table.item(row, 0) if row >= 0 else None
        name = "a detector" if item is None else item.text() or f"detector {row + 1}"
        self._sensitivity.setText(f"Sensitivity to {name}")

    def _on_edited(self, item: Any) -> None:
        self.changed.emit(item.row(), {self._table.columns[item.column()].field: item.text().strip()})


def _row(optodes: Optodes, number: int) -> list[Cell]:
    detector, separation = optodes.detectors[number], optodes.separation_mm(number)
    tip = f"at {position_text(detector.position_mm)}; double-click to rename"
    return [
        Cell(detector.name, tip, is_editable=True),
        Cell(f"{detector.radius_mm:g}", is_editable=True),
        Cell("–" if separation is None else f"{separation:.1f}"),
    ]
