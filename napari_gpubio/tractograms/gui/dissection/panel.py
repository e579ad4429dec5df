"""The dock widget "Dissect fibers": keep the fibers that pass, avoid and end in regions, while those are moved."""

import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from qtpy.QtCore import QSignalBlocker
from qtpy.QtWidgets import QHBoxLayout

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import IN_MM, KEY, volume_layer
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.layer_sources import record_of
from napari_gpubio.core.operations.records import Operation, Output, Reading
from napari_gpubio.core.operations.runs import value_of
from napari_gpubio.core.operations.stores import STORE
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import file_name
from napari_gpubio.gui.connections import Connections
from napari_gpubio.gui.fields import NumberBox
from napari_gpubio.gui.forms import Label, row_of, text_button
from napari_gpubio.gui.jobs import one_step
from napari_gpubio.gui.layers import LayerBox
from napari_gpubio.gui.lines import Lines
from napari_gpubio.gui.number_table import Number
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.gui.results import ResultBox
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tractograms import maps, operations
from napari_gpubio.tractograms.bundles import with_clusters
from napari_gpubio.tractograms.bundles.clusters import CLUSTER
from napari_gpubio.tractograms.dissection import Condition, Dissector
from napari_gpubio.tractograms.gui.dissection.rules import NUMBER, Pairs, Rule, RuleList, dissection_of, rules_of
from napari_gpubio.tractograms.gui.dissection.shape_tool import ShapeTool
from napari_gpubio.tractograms.gui.fibers import (
    NO_FIBERS,
    fiber_layer,
    fiber_offers,
    fiber_output,
    fibers_of,
    pack_fibers,
    shown_fibers,
    slider_step,
    turned_to_last,
    why_no_fibers,
)
from napari_gpubio.tractograms.gui.region_box import layer_with_region
from napari_gpubio.tractograms.model import Tractogram
from napari_gpubio.tractograms.operations.dissection import Dissect, FindClusters

if TYPE_CHECKING:
    import napari.viewer

SPHERE_MM, BOX_MM = 20.0, 20.0  # a new one's diameter, and its edges
CLUSTERS_MM = 15.0
RULES = "dissection"  # name of the filter that leaves the fibers that fit
COLOR = "#ffd54f"  # of spheres and boxes


@dataclass(frozen=True, slots=True, eq=False)
class Dissected(ShortRepr):
    """Which fibers of a layer are kept, shape (F,), or None for all of them."""

    layer: Any
    fibers: Tractogram
    kept: npt.NDArray[np.bool_] | None
    rules: Pairs
    condition: Condition | None
    notes: tuple[str, ...] = ()

    @property
    def fitting(self) -> npt.NDArray[np.bool_]:
        """Which fibers fit the rules, shape (F,)."""
        return np.ones(len(self.fibers), bool) if self.kept is None else self.kept

    @property
    def others(self) -> npt.NDArray[np.bool_]:
        """Which fibers the other filters of the layer leave, shape (F,)."""
        is_there = fibers_of(self.layer) is self.fibers
        others: npt.NDArray[np.bool_] = self.layer.passing(but=RULES) if is_there else np.ones(len(self.fibers), bool)
        return others

    @property
    def shown(self) -> npt.NDArray[np.bool_]:
        """Which fibers are on screen and count, shape (F,)."""
        is_there = fibers_of(self.layer) is self.fibers
        return self.layer.shown if is_there else self.fitting

    @property
    def dissected(self) -> Tractogram:
        """The fibers that the rules choose from: those that the other filters leave."""
        return self.fibers if self.others.all() else self.fibers.select(self.others)


class DissectionPanel(EnginePanel):
    """Choose fibers by regions and numbers."""

    offers = staticmethod(fiber_offers)
    kept = ("_result",)

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer, run_text="Dissect")
        self._dissector: Dissector | None = None
        self._result: Dissected | None = None
        self.fibers_box = LayerBox(
            viewer, why_no_fibers, empty="open a tractogram, or track fibers",
            prefers=lambda: turned_to_last(viewer.layers), parent=self,
        )  # fmt: skip
        self.rules = RuleList(viewer, self)
        self.tool = ShapeTool(viewer, self.rules.rules, self)
        self.within = NumberBox(1.0, 200.0, CLUSTERS_MM, 1, self)
        self.results = ResultBox("Add a region: the fibers that pass there stay on screen.", self)
        self._counted = Connections(self._layer_pairs)
        self._fill()
        self.fibers_box.currentIndexChanged.connect(self._on_fibers)
        self.rules.changed.connect(self._on_rules)
        for part in (self.fibers_box, self.rules, self.results, self._counted, self.tool):
            self.own(part)
        self._on_fibers()

    def _fill(self) -> None:
        self.header.addRow("Fibers", self.fibers_box)
        self.inputs.addWidget(heading("Keep the fibers that", self))
        self.inputs.addWidget(self.rules)
        buttons = (
            text_button(
                "Add region", "A label, an atlas region, or a drawn shape", self, lambda: self.add_rule(Rule())
            ),
            text_button(
                "Add sphere", "A sphere at the middle of the view; drag its middle to move it", self, self.add_sphere
            ),
            text_button("Add box", "A box at the middle of the view; drag its middle to move it", self, self.add_box),
            text_button("Add number", "Length, FA, or another number", self, lambda: self.add_rule(Rule(role=NUMBER))),
        )
        for place, button in enumerate(buttons):
            self.rules.buttons.addWidget(button, *divmod(place, 3))
        self.inputs.addLayout(self._cluster_row())
        self.inputs.addWidget(heading("Result", self))
        self.result_head.addWidget(self.results.head)
        self.inputs.addWidget(self.results)
        self.results.add_button("Keep as bundle", "Make a layer of the fibers that are kept", self.keep_bundle)
        self.results.add_button("Density map", "Make an image of how many fibers pass each voxel", self.add_density)
        self.results.add_button("End-point map", "Make an image of how many fibers end in each voxel", self.add_ends)
        self.results.add_button("Mask", "Make labels of the voxels that the fibers pass", self.add_mask)

    def _cluster_row(self) -> QHBoxLayout:
        self.within.setSuffix(" mm")
        self.within.setToolTip("Fibers of a cluster are at most so far from its middle one: mean distance of points")
        tip = "Group similar fibers, the largest cluster being 1"
        button = text_button("Find clusters", tip, self, self.find_clusters)
        return row_of(button, Label("within", self), self.within, stretch=(0, 0, 1))

    # -- rules ----------------------------------------------------------------------------------------------------

    def add_rule(self, rule: Rule) -> None:
        """Add a rule at the end."""
        self.rules.add(rule)

    def add_sphere(self) -> None:
        """Add a sphere at the crosshair, and a rule of it."""
        step, active = self._step(), self.viewer.layers.selection.active  # which stays active
        layer = self.viewer.add_points(
            [self._crosshair() / step],
            name="sphere",
            scale=step,
            size=SPHERE_MM / float(step.mean()),
            face_color=f"{COLOR}28",
            border_color=COLOR,
            border_width=0.02,  # of its diameter
            projection_mode="rescale_spherical",  # a ball, cut by the slice
            **IN_MM,
        )
        self.viewer.layers.selection.active = active
        self.add_rule(Rule(layer=layer, key=0))

    def add_box(self) -> None:
        """Add a square in the slice on screen, of some thickness, and a rule of it."""
        step, axis = self._step(), self.viewer.dims.order[-3] - self.viewer.dims.ndim
        active = self.viewer.layers.selection.active
        corners = np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]]) * BOX_MM / 2
        layer = self.viewer.add_shapes(
            [(self._crosshair() + np.insert(corners, axis % 3, 0.0, axis=1)) / step],
            shape_type="rectangle",
            name="box",
            scale=step,
            face_color=f"{COLOR}28",
            edge_color=COLOR,
            edge_width=0.3,
            **IN_MM,
        )
        self.viewer.layers.selection.active = active
        row = self.rules.add(Rule(layer=layer, key=layer.name))
        row.region_box.size_box.setValue(BOX_MM)

    def find_clusters(self) -> None:
        """Give each fiber the number of its cluster, and add a rule of it."""
        layer, within = self.fibers_box.layer, float(self.within.value())
        fibers = None if layer is None else fibers_of(layer)
        if layer is None or fibers is None:
            self.show_error(NO_FIBERS)
            return
        paint = layer.paint

        def find() -> tuple[Tractogram, Lines]:
            found = with_clusters(fibers, within)
            return found, pack_fibers(found, paint)

        self.run_other(one_step("clusters", find), lambda found: self._show_clusters(layer, fibers, within, *found))

    def _show_clusters(
        self, layer: Streamlines, before: Tractogram, within: float, fibers: Tractogram, lines: Lines
    ) -> None:  # fmt: skip
        if layer not in self.viewer.layers or fibers_of(layer) is not before:
            return
        filters = layer.filters
        layer.set_lines(lines)
        if (known := record_of(layer)) is not None:
            found = FindClusters(fibers=known, within_mm=within)
            STORE.keep(found, "cpu", fibers)
            layer.metadata[KEY][RECORD] = record_of_output(found.output())
        layer.metadata[KEY] |= {"tractogram": fibers, "clusters_mm": within}
        layer.filters, layer.color_by = filters, CLUSTER
        self.rules.show_numbers(layer.per_fiber)
        numbers = fibers.per_fiber[CLUSTER]
        self.add_rule(Rule(role=NUMBER, measure=CLUSTER, low=1.0, high=float(numbers.max())))
        self.show_status(f"{int(numbers.max()):,} clusters; the largest has {np.count_nonzero(numbers == 1):,} fibers")

    def _crosshair(self) -> Any:
        """The viewer's point, (z, y, x) in mm."""
        return np.asarray(self.viewer.dims.point, np.float64)[-3:]

    def _step(self) -> Any:
        """At which distances the sliders stop, (z, y, x) in mm."""
        step = slider_step(self.viewer.layers)
        return np.ones(3) if step is None else step

    def _show_numbers(self) -> None:
        """Offer the numbers of the chosen fibers, and show what is assumed of these."""
        layer = self.fibers_box.layer
        self.rules.show_numbers({} if layer is None else layer.per_fiber)
        self.show_input_notes()

    def _on_fibers(self, *_: Any) -> None:
        self._show_numbers()
        if self._result is not None and self._result.layer != self.fibers_box.layer:
            self._result = None  # of other fibers
            self.results.clear()
        if self.rules.rows and self.fibers_box.layer is not None:
            self.show_note(f"Press {self.run_button.text()}, and the rules choose among these fibers, too.")

    def _on_rules(self) -> None:
        self.show_input_notes()
        if self.fibers_box.layer is None:
            self.show_note(f"Now open a tractogram: {NO_FIBERS}.")
            return
        self.run_again(end_first=True)

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Dissected]:
        """Read the rules and return the dissection."""
        layer = self.fibers_box.needed(NO_FIBERS)
        condition, rules = self.rules.condition(), self.rules.regions()
        return _steps(layer, self._dissector_of(layer.metadata[KEY]["tractogram"]), rules, condition, stop)

    def _dissector_of(self, fibers: Tractogram) -> Dissector:
        if self._dissector is None or self._dissector.fibers is not fibers:
            self._dissector = Dissector(fibers, device=self.device)
        return self._dissector

    def show_result(self, result: Dissected) -> None:
        """Show the fibers that are kept, and how many they are."""
        self._result = result
        if result.layer in self.viewer.layers and fibers_of(result.layer) is result.fibers:
            result.layer.set_filter(RULES, result.kept)
        self._counted.attach()
        self._show_counts_of_fibers()

    def show_kept(self) -> None:
        """Show a dissection that undo has brought back, or none."""
        self._counted.attach()
        if self._result is None:
            self.results.clear()
        self._show_counts_of_fibers()

    def _layer_pairs(self) -> list[Any]:
        """The event of other filters, which hide some of the fibers that fit."""
        return [] if self._result is None else [(self._result.layer.events.shown, self._show_counts_of_fibers)]

    def _show_counts_of_fibers(self, *_: Any) -> None:
        """Show how many fibers there are, of those that other filters leave."""
        result = self._result
        if result is None:
            return
        total, kept = len(result.fibers), int(np.count_nonzero(result.shown))
        rows = [
            Number(group="Kept", name="fibers", text=f"{kept:,}"),
            Number(group="Kept", name="of all", text=f"{kept / max(total, 1):.1%}"),
        ]
        findings = [("warning", note) for note in result.notes]
        if hidden := int(np.count_nonzero(result.fitting & ~result.shown)):
            findings.append(("ok", f"Other filters hide {hidden:,} more fibers that fit; hidden ones do not count."))
        elif not kept:
            findings.append(("warning", "No fiber fits all rules; remove one, or move a region."))
        self.results.show_numbers(rows, findings)

    def keep_bundle(self) -> None:
        """Make a layer of the fibers that are kept."""
        fibers, result = self._kept(), self._result
        if fibers is None or result is None:
            return
        is_dissected = np.array_equal(result.shown, result.fitting & result.others)  # and no script shows others
        about = {RECORD: record_of_output(self._remembered(result).output("fibers"))} if is_dissected else {}
        layer = fiber_layer(fibers, self._name(), beside=self.viewer.layers, metadata=about)
        self.viewer.add_layer(layer)
        self.show_status(f"kept {len(layer.lines):,} fibers as {layer.name!r}")

    def _remembered(self, result: Dissected) -> Dissect:
        """The operation of the result that is shown, which need not be done again."""
        operation = self.operation()
        kept = result.fitting[result.others]
        made = operations.Dissected(result.dissected, kept, result.condition, None, self.device, complete=True)
        STORE.keep(operation, "cpu", made)
        return operation

    def add_density(self) -> None:
        """Make an image of how many of the fibers that are kept pass each voxel."""
        self._map("count", partial(self._show_counts, what="density (fibers)"))

    def add_ends(self) -> None:
        """Make an image of how many ends of the fibers that are kept lie in each voxel."""
        self._map("ends", partial(self._show_counts, what="ends"))

    def add_mask(self) -> None:
        """Make labels of the voxels that the fibers that are kept pass."""
        self._map("count", self._show_mask)

    def _map(self, kind: str, show: Callable[[Any, Tractogram, str], None]) -> None:
        """Make a map of the fibers that are kept, and show it; ``kind``: as of `maps.density`."""
        fibers, device, name = self._kept(), self.device, self._name()
        if fibers is None:
            return
        count = partial(maps.density, fibers, kind, device=device)
        self.run_other(one_step("map", count), lambda counts: show(counts, fibers, name))

    def _show_counts(self, counts: Any, fibers: Tractogram, name: str, what: str) -> None:
        shown: dict[str, Any] = {
            "colormap": "inferno",
            "blending": "additive",
            "contrast_limits": (0, max(counts.max(), 1)),
        }
        data, keywords, _ = volume_layer(counts, fibers.affine, f"{name} {what}", **shown)
        self.viewer.add_image(data, **keywords)

    def _show_mask(self, counts: Any, fibers: Tractogram, name: str) -> None:
        data, keywords, _ = volume_layer((counts > 0).astype(np.uint8), fibers.affine, f"{name} mask", kind="labels")
        self.viewer.add_labels(data, **keywords)

    def _kept(self) -> Tractogram | None:
        """The fibers that are shown, if there are some; else that is said."""
        result = self._result
        if result is None or not result.shown.any():
            self.show_error("there is nothing to keep: add a rule that some fibers fit")
            return None
        return result.fibers.select(result.shown)

    def _name(self) -> str:
        """A name for what the rules leave: those of the regions."""
        rows = zip(self.rules.rules(), self.rules.rows, strict=True)
        names = [row.region_box.name_box.currentText() for rule, row in rows if rule.layer is not None]
        return " & ".join(names) or "dissected fibers"

    # -- the script -----------------------------------------------------------------------------------------------

    def operation(self) -> Dissect:
        """Return the operation of the result that is shown, or of the rules as they stand."""
        result = self._result
        layer = self.fibers_box.needed(NO_FIBERS) if result is None else result.layer
        fibers = shown_fibers(layer, but=RULES) if result is None else result.dissected
        return dissection_of(fiber_output(layer, fibers), self.rules.regions() if result is None else result.rules)

    def take_draft(self) -> Callable[[], Dissect]:
        """Read the rules, and return what makes an operation of them."""
        layer, rules = self.fibers_box.needed(NO_FIBERS), self.rules.regions()
        fibers = shown_fibers(layer, but=RULES)
        return lambda: dissection_of(fiber_output(layer, fibers), rules)

    def show_draft(self, operation: Operation) -> bool:
        """Show the rules of a dissection; regions that no layer has, and fibers that are only read, become layers."""
        if not isinstance(operation, Dissect):
            return False
        (fibers,) = (ref for name, ref in operation.inputs() if name == "fibers")
        try:
            with QSignalBlocker(self.fibers_box):  # nothing is run
                if not self._choose_fibers(fibers):
                    return False
            rules = rules_of(operation, partial(layer_with_region, self.viewer))
        except InvalidInput:
            return False
        self._show_numbers()
        self._result = None  # which was of other rules
        self.results.clear()
        self.rules.show_rules(rules)
        return operation.grid is None

    def _choose_fibers(self, fibers: Output[Any]) -> bool:
        """Choose the layer of fibers; where none has them, they are read, or are still to be made (False)."""
        if self.fibers_box.choose_where(lambda layer: fiber_output(layer, fibers_of(layer)) == fibers):
            return True
        if not isinstance(fibers.of, Reading):
            return False
        about = {RECORD: record_of_output(fibers)}
        layer = fiber_layer(value_of(fibers), fibers.of.title, beside=self.viewer.layers, metadata=about)
        self.viewer.add_layer(layer)
        return self.fibers_box.choose_where(lambda one: one == layer)

    def script_files(self) -> dict[str, str]:
        """The file that a script writes."""
        return {"fibers": f"{file_name(self._name())}.trx"}

    def teardown(self) -> None:
        """End runs and let go of the fibers."""
        super().teardown()
        self._dissector = self._result = None


def _steps(
    layer: Any,
    dissector: Dissector,
    rules: Pairs,
    condition: Condition | None,
    stop: threading.Event,
) -> Generator[Step, None, Dissected]:
    if condition is None:
        yield Step(1, 1, "no rules")
        return Dissected(layer, dissector.fibers, None, rules, None)
    kept = yield from dissector.select_steps(condition, stop=stop)
    return Dissected(layer, dissector.fibers, kept, rules, condition, tuple(dissector.notes))
