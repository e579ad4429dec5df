"""Inputs of the tracking panel: bundles and their seeds, and what fibers are seen against in 3-D."""

import dataclasses
from collections.abc import Callable
from typing import Any

from napari.layers import Labels
from qtpy.QtCore import QSignalBlocker, Qt, Signal
from qtpy.QtWidgets import (
    QAbstractItemView,
    QFormLayout,
    QGridLayout,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QWidget,
)

from napari_gpubio.core.numbers import position_text
from napari_gpubio.core.parameters import param_info
from napari_gpubio.core.settings import kind_of
from napari_gpubio.fibers.directions import Cone, Directions, FromFod, Isotropic
from napari_gpubio.fibers.gui.bundles import BundleList, Position
from napari_gpubio.fibers.gui.tracing import BundleSettings
from napari_gpubio.fibers.seeds import AtPoints, InRegion, SeedSettings
from napari_gpubio.fibers.settings import Method, TensorGeodesic
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import Follower
from napari_gpubio.gui.fields import ElidedComboBox
from napari_gpubio.gui.forms import ParamForm, WrappedLabel, fill_column, muted_label, text_button
from napari_gpubio.gui.tables import color_chip
from napari_gpubio.gui.views import show_as_plane
from napari_gpubio.tractograms.gui.region_box import RegionBox

_WHOLE_BRAIN = (
    "Seed from all white matter: the largest part of the mask where FA is 0.2 or more, FODs have a main direction, or "
    "fixels are large"
)


class SeedBox(QWidget, Follower):
    """Bundles and how they are seeded: from the click, or from a label that is chosen."""

    def __init__(self, viewer: Any, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        tip = (
            "On: click to move the current bundle's seed, Shift+click to start a new bundle, drag a marker to move it, "
            "Ctrl+click to pick a fiber. Off: click to pick a fiber."
        )
        self.placing = QPushButton("Click to seed", self, checkable=True, checked=True, toolTip=tip)
        self.add = text_button("New", "Start a new bundle at the center of the view (or Shift+click)", self)
        self.duplicate = text_button(
            "Duplicate",
            "Start a bundle with the same seeds and load its settings below; change one to compare the two",
            self,
        )
        self.remove = text_button("Remove", "Remove the current bundle and its fibers (Ctrl+Z brings them back)", self)
        self.load = text_button(
            "Load settings", "Load the settings that made the current bundle into the fields below", self
        )
        buttons = QGridLayout()
        for place, button in enumerate((self.placing, self.add, self.duplicate, self.remove, self.load)):
            buttons.addWidget(button, *divmod(place, 3))
        self.names = QListWidget(self, maximumHeight=72)
        self.names.setEditTriggers(QAbstractItemView.EditTrigger.DoubleClicked)
        self.names.setToolTip("Bundles, each with its own seed, fibers, and settings")
        self.summary = muted_label(self)
        self.summary.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.crossings = WrappedLabel("", self)
        self.crossings.setStyleSheet(theme.NOTE_STYLE)
        self.region_box = RegionBox(viewer, kinds=(Labels,), nothing="the clicked seed", parent=self)
        self.followers = (self.region_box,)
        self.form = ParamForm(SeedSettings(), parent=self)
        self.whole_brain = text_button("Whole brain", _WHOLE_BRAIN, self)
        form = QFormLayout()
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow("Seed from", self.region_box)
        form.addRow("", self.whole_brain)
        self.launch = muted_label(self)
        form.addRow("", self.launch)
        self.region_box.changed.connect(self._show_fitting_rows)
        fill_column(self, buttons, self.names, self.summary, self.crossings, form, self.form)
        self._show_fitting_rows()

    def _show_fitting_rows(self) -> None:
        """Show only the inputs that matter for a click, or for a region."""
        of_region = self.region_box.layer is not None
        for name in ("radius_mm", "points"):
            self.form.set_row_visible(name, visible=not of_region)
        self.form.set_row_visible("per_voxel", visible=of_region)

    @property
    def label(self) -> int:
        """The label to seed from; 0 while there is none."""
        return int(self.region_box.key or 0)

    def seeds_at(self, center_mm: Position | None) -> AtPoints | InRegion:
        """Return the seeds around a click, or of the region where there is none; InvalidInput if they are of no use."""
        form: SeedSettings = self.form.value()
        if center_mm is None:
            return InRegion(per_voxel=form.per_voxel)
        if form.points == 1 or form.radius_mm == 0:
            return AtPoints(seed=(center_mm,))
        return AtPoints(seed=(center_mm,), radius_mm=form.radius_mm, points=form.points)

    def show_seeds(self, seeds: Any) -> None:
        """Show seeds of an operation: how many they are, and how far around a click."""
        names: tuple[str, ...] = ("per_voxel",)
        if isinstance(seeds, AtPoints):  # a single point has no radius
            names = ("points",) if seeds.points == 1 else ("radius_mm", "points")
        self.form.set_value(dataclasses.replace(self.form.value(), **{name: getattr(seeds, name) for name in names}))

    def seed_from_click(self) -> None:
        """Seed from the click again."""
        self.region_box.layer_box.setCurrentIndex(0)

    def list_bundles(self, bundles: BundleList, settings_of: Callable[[object], BundleSettings | None]) -> None:
        """Show the list as it is; ``settings_of``: what a key's fibers were traced with, if there are any."""
        with QSignalBlocker(self.names):
            self.names.clear()
            for bundle in bundles:
                item = QListWidgetItem(color_chip(bundle.color), bundle.name)
                settings = settings_of(bundle.key)
                traced = "not traced yet" if settings is None else summary_of(settings)
                item.setToolTip(f"Seed at {position_text(bundle.center_mm)}\n{traced}\nDouble-click to rename")
                item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
                self.names.addItem(item)
            self.names.setCurrentRow(bundles.current_index)
        for button in (self.remove, self.duplicate):
            button.setEnabled(len(bundles) > 0)

    def show_settings(self, settings: BundleSettings | None, *, differ: bool, crossings: str = "") -> None:
        """Show what the current fibers were traced with; ``differ``: the form shows something else.

        ``crossings``: how much of their way crosses other fibers, if that is known.
        """
        self.crossings.setVisible(bool(crossings))
        self.crossings.setText(crossings)
        self.summary.setVisible(settings is not None)
        self.summary.setText("" if settings is None else f"Traced with: {summary_of(settings)}")
        self.load.setEnabled(differ)


def summary_of(settings: BundleSettings) -> str:
    """Return in one line how fibers were traced."""
    seeds, directions, tracking = settings.seeds, settings.directions, settings.method
    metric = f", {kind_of(tracking.metric)} metric" if isinstance(tracking, TensorGeodesic) else ""
    one = ", one direction a voxel" if tracking.works_in == "tensors" else ""
    parts = [f"{kind_of(tracking)}{metric}{one}"]
    if isinstance(seeds, InRegion):
        each = "a seed" if seeds.per_voxel == 1 else f"{seeds.per_voxel:,} seeds"
        parts.append(f"{each} in each voxel of {settings.region}")
    else:
        parts.append("1 seed" if seeds.points == 1 else f"{seeds.points:,} seeds within {seeds.radius_mm:g} mm")
    parts.append(f"{_fan_text(directions)}{'' if directions.both_ways else ', one way'}")
    return "; ".join([*parts, *_changes(tracking)])


def _fan_text(directions: Directions) -> str:
    match directions:
        case Cone():
            return f"{directions.count:,} directions each in a cone of {directions.half_angle_deg:g}°"
        case Isotropic():
            return f"{directions.count:,} directions each all around"
        case FromFod():
            return f"{directions.count:,} fibers each in directions of the FOD"
    return "the principal direction"


def _changes(tracking: Method) -> list[str]:
    """The settings of tracking that are not the defaults, and the step, which depends on the scan."""
    shown = {"step_mm"} | {
        field.name
        for field in dataclasses.fields(tracking)
        if param_info(field) is not None and getattr(tracking, field.name) != field.default
    }
    texts = []
    for field in dataclasses.fields(tracking):
        if field.name in shown and (info := param_info(field)) is not None:
            value = getattr(tracking, field.name)
            if value is None:
                continue
            number = f"{value:g}" if isinstance(value, float) else str(value)
            texts.append(f"{info.label[:1].lower()}{info.label[1:]} {number}{' ' if info.unit else ''}{info.unit}")
    return texts


CHOICES = {  # a plane is drawn in half the time of a volume, and hides no fibers
    "axial": "axial plane, through the seed or source",
    "coronal": "coronal plane, through the seed or source",
    "sagittal": "sagittal plane, through the seed or source",
    "volume": "volume",
}
_ACROSS = {"axial": 0, "coronal": 1, "sagittal": 2}  # axes of the viewer, (z, y, x)


class ContextBox(QWidget):
    """What fibers are seen against in 3-D: the FA volume, or a plane of it."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._box = ElidedComboBox(self, entries=CHOICES)
        self._box.currentIndexChanged.connect(lambda *_: self.changed.emit())
        form = QFormLayout(self)
        form.setContentsMargins(0, 0, 0, 0)
        form.addRow("3-D backdrop", self._box)

    def choose(self, name: str) -> None:
        """Choose a context by its name; see `CHOICES`."""
        self._box.setCurrentIndex(self._box.findData(name))

    def set_depiction(self, layer: Any, seed: Any) -> None:
        """Show an image layer as chosen; ``seed`` is a viewer position (z, y, x)."""
        name = self._box.currentData()
        if name == "volume":
            layer.depiction = "volume"
        else:
            show_as_plane(layer, seed, _ACROSS[name])
