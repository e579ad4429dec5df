"""The dock widget "Fiber uncertainty": how far noise in a scan moves fibers tracked in its tensors or FODs."""

import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtWidgets import QFormLayout

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.layer_files import RECORD
from napari_gpubio.core.napari_io import KEY, carried, volume_layer
from napari_gpubio.core.operations.files import record_of_output
from napari_gpubio.core.operations.records import Operation
from napari_gpubio.core.operations.states import Shown
from napari_gpubio.core.settings import field_names
from napari_gpubio.core.steps import Step
from napari_gpubio.core.text import file_name
from napari_gpubio.diffusion.fods.model import FodField
from napari_gpubio.diffusion.fods.napari_io import fods_of
from napari_gpubio.diffusion.gui.records import output_of, remember
from napari_gpubio.diffusion.gui.source import HINT, scan_in, why_no_fods, why_no_scan
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.napari_io import scan_of
from napari_gpubio.diffusion.operations import Deconvolve
from napari_gpubio.diffusion.tensors.settings import FitSettings
from napari_gpubio.fibers.gui.fiber_display import settings_of
from napari_gpubio.fibers.gui.tracing import BundleSettings
from napari_gpubio.fibers.operations import BootstrapFods, BootstrapTensors
from napari_gpubio.fibers.operations.uncertainty import Certainty
from napari_gpubio.fibers.seeds import AtPoints
from napari_gpubio.fibers.settings import METHODS
from napari_gpubio.fibers.uncertainty import (
    Bootstrap,
    BootstrapSettings,
    FodBootstrapSettings,
    ProfileInterval,
    bootstrap_steps,
    profile_interval,
)
from napari_gpubio.gui import theme
from napari_gpubio.gui.connections import connect_all
from napari_gpubio.gui.forms import Folded, Label, ParamForm
from napari_gpubio.gui.layers import LayerBox, unwrapped
from napari_gpubio.gui.looks import pictures_of
from napari_gpubio.gui.number_table import Number
from napari_gpubio.gui.panel import EnginePanel, heading
from napari_gpubio.gui.results import ResultBox, Saving
from napari_gpubio.gui.streamlines import Streamlines
from napari_gpubio.tractograms.gui.fibers import fiber_layer, fibers_of, turned_to_last
from napari_gpubio.tractograms.gui.numbers import READABLE, value_text
from napari_gpubio.tractograms.gui.profiles.plot import Band, ProfilePlot
from napari_gpubio.tractograms.model import Tractogram

if TYPE_CHECKING:
    import napari.viewer

IN_FODS = [kind for kind, one in METHODS.items() if one.works_in == "FODs"]
NO_TRACKS = "there are no fibers that were tracked here; click in the Fiber tracking panel first"
NO_SCAN = "there is no diffusion scan whose noise could be drawn again; open the one that the fibers were tracked in"
NO_FODS = "there are no FODs in which these fibers were tracked; deconvolve the scan in the Fiber orientations panel"
OTHER_FIT = (
    "The fibers of this fit are not those of the layer, whose tensors were fitted with another mask or settings."
)
_ESTIMATES, _BIASES = "Mean, without bias (95 % interval)", "Bias: what noise adds to the fit's numbers"
MAP: dict[str, Any] = {"colormap": "inferno", "blending": "additive", "contrast_limits": (0.0, 1.0)}
OTHER_FODS = "The fibers in these FODs are not those of the layer, which were tracked in other ones."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inputs:
    """What a run is made of: a layer of fibers, the settings and seeds of these, a scan, and FODs (None: tensors)."""

    layer: Any
    made: BundleSettings
    seeds_mm: Any
    scan: DiffusionScan
    fibers: Tractogram
    fods: FodField | None
    resampling: FodBootstrapSettings
    fit: FitSettings

    def operation(self) -> BootstrapTensors | BootstrapFods:
        """Return it as an operation, in a worker; InvalidInput if FODs are of no deconvolution that is known."""
        made, seeds = self.made, self.made.seeds
        if not isinstance(seeds, AtPoints):
            seeds = AtPoints(seed=tuple(map(tuple, np.atleast_2d(self.seeds_mm).tolist())))
        how: dict[str, Any] = {"directions": made.directions, "method": made.method, "resampling": self.resampling}
        how |= {"scan": output_of(self.scan), "seeds": seeds}
        if self.fods is None:
            return BootstrapTensors(fit=self.fit, **how)
        of = output_of(self.fods).of
        if not isinstance(of, Deconvolve):
            raise InvalidInput("the FODs come from no deconvolution that is known; deconvolve the scan again")
        return BootstrapFods(mask=of.mask, response=of.response, deconvolution=of.settings, **how)


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    """Result of a run: the bootstrap of the fibers of a layer, and the interval of their profile if it has one."""

    inputs: Inputs
    found: Bootstrap
    profile: ProfileInterval | None
    operation: BootstrapTensors | BootstrapFods | None = None

    @property
    def layer(self) -> Any:
        """The layer of the fibers."""
        return self.inputs.layer


class UncertaintyPanel(EnginePanel):
    """Track again and again in tensors or FODs that the scan could as well have given."""

    warms = ("diffusion", "fibers", "gui")
    kept = ("_results",)

    def __init__(self, viewer: "napari.viewer.Viewer") -> None:
        super().__init__(viewer, run_text="Bootstrap")
        self._results: dict[Any, Repeated] = {}  # by the layer of their fibers
        self.fibers_box = LayerBox(
            viewer, _why_not_tracked, empty="track fibers in a diffusion scan",
            prefers=lambda: turned_to_last(viewer.layers), parent=self,
        )  # fmt: skip
        self.scan_box = LayerBox(viewer, why_no_scan, empty=HINT, parent=self)
        self.fod_box = LayerBox(viewer, _why_not_deconvolved, empty="deconvolve the scan", parent=self)
        self.form, self.fit_form = ParamForm(BootstrapSettings(), parent=self), ParamForm(FitSettings(), parent=self)
        self.plot = ProfilePlot(self)
        self.results = ResultBox("Choose fibers and press Bootstrap: their numbers get intervals.", self)
        self._fill()
        files = self.results.files
        connect_all(((files.status_changed, self.show_status), (files.error_occurred, self.show_error)))
        self.fibers_box.currentIndexChanged.connect(self._on_fibers)
        for part in (self.fibers_box, self.scan_box, self.fod_box, self.results):
            self.own(part)

    def _fill(self) -> None:
        top = QFormLayout()
        self.header.addRow("Fibers", self.fibers_box)
        top.addRow("Scan", self.scan_box)
        self._fod_label = Label("FODs", self)
        top.addRow(self._fod_label, self.fod_box)
        self.inputs.addLayout(top)
        self.inputs.addWidget(self.form)
        self._folded_fit = Folded("Tensor fit", self)
        self._folded_fit.fold(self.fit_form)
        self.inputs.addWidget(self._folded_fit)
        self._show_inputs()
        self.inputs.addWidget(heading("How certain they are", self))
        self.inputs.addWidget(self.results)
        self.result_head.addWidget(self.results.head)
        self.results.content.addWidget(self.plot)
        self.plot.hide()  # until there is a profile
        add = self.results.add_button
        add("Show repeats", "Make a layer of the fibers of the repeats that were kept", self.show_repeats)
        self.results.add_saving("Save table…", "Save the intervals as CSV", "CSV (*.csv)", self._table)

    @property
    def _result(self) -> Repeated | None:
        """The result of the chosen fibers."""
        layer = self.fibers_box.layer
        return None if layer is None else self._results.get(unwrapped(layer))

    def _on_fibers(self, *_: Any) -> None:
        """Show the numbers of other fibers, if there are some."""
        self._show_inputs()
        result = self._result
        self._show_numbers()
        self.stale_line.show_of(None if result is None else result.inputs.operation)

    def _show_inputs(self) -> None:
        """Show FODs for fibers that were tracked in them, and what counts only in tensors for others."""
        in_fods = _in_fods(self.fibers_box.layer)
        self._fod_label.setVisible(in_fods)
        self.fod_box.setVisible(in_fods)
        self._folded_fit.setVisible(not in_fods)
        self.form.set_row_visible("leverage", visible=not in_fods)

    def _resampling(self, layer: Any) -> FodBootstrapSettings:
        """The settings of the repeats, of which those in FODs have fewer."""
        chosen: BootstrapSettings = self.form.value()
        if not _in_fods(layer):
            return chosen
        return FodBootstrapSettings(**{name: getattr(chosen, name) for name in field_names(FodBootstrapSettings)})

    # -- running --------------------------------------------------------------------------------------------------

    def make_steps(self, stop: threading.Event) -> Generator[Step, None, Repeated]:
        """Read the inputs and return the bootstrap."""
        return _steps(self._read_inputs(), self.device, stop)

    def _read_inputs(self) -> Inputs:
        layer, scan = self.fibers_box.needed(NO_TRACKS), scan_of(self.scan_box.needed(NO_SCAN))
        fibers, made = fibers_of(layer), settings_of(layer)
        if scan is None or fibers is None or made is None:
            raise InvalidInput(NO_SCAN if scan is None else NO_TRACKS)
        return Inputs(
            layer=layer,
            made=made,
            seeds_mm=layer.metadata[KEY]["seeds_mm"],
            scan=scan,
            fibers=fibers,
            fods=fods_of(self.fod_box.needed(NO_FODS)) if _in_fods(layer) else None,
            resampling=self._resampling(layer),
            fit=FitSettings() if _in_fods(layer) else self.fit_form.value(),
        )

    def show_preview(self, preview: Any) -> None:
        """Show the intervals of the repeats so far."""
        if not isinstance(preview, Bootstrap):
            return  # the fit and the fibers of it come first
        self.results.show_numbers(_rows(preview), _findings(preview))

    def show_result(self, result: Repeated) -> None:
        """Show the intervals, the map of visits, and the fibers colored by it."""
        there = {layer: one for layer, one in self._results.items() if layer in self.viewer.layers}
        self._results = {**there, unwrapped(result.layer): result}
        self._show_map(result)
        if self._result is result:
            self._show_numbers()
        else:
            self.show_status(f"{self.status}; choose {result.layer.name} again to see its intervals")
            self._on_fibers()

    def show_kept(self) -> None:
        """Show intervals that undo has brought back, or none."""
        self._on_fibers()

    def _show_numbers(self) -> None:
        """Show the intervals of the chosen fibers."""
        result = self._result
        self.plot.setVisible(result is not None and result.profile is not None)
        if result is None:
            self.results.clear()
            return
        found, inputs = result.found, result.inputs
        findings = _findings(found)
        if hidden := int(np.count_nonzero(~result.layer.shown)):
            findings.append(("ok", f"All fibers were tracked again, also the {hidden:,} that a filter hides."))
        if not found.complete:
            findings.append(("warning", f"It was stopped after {found.repeats:,} repeats."))
        if not _are_same(found.fibers, inputs.fibers):
            findings.append(("warning", OTHER_FIT if inputs.fods is None else OTHER_FODS))
        self.results.show_numbers(_rows(found), findings)
        if (profile := result.profile) is not None:
            band, name = Band(profile.estimate, profile.low, profile.high), result.layer.name
            self.plot.draw({name: band}, {name: theme.REGIONS[0]}, f"{_profiled(found)[1]} without bias, 95 % interval")

    def _show_map(self, result: Repeated) -> None:
        """Show how probable each voxel is, in place of a map of these fibers that is there."""
        name = probability_name(result.layer.name)
        data, keywords, _ = volume_layer(result.found.probability, result.found.fibers.affine, name, **MAP)
        if result.operation is not None:
            keywords["metadata"][KEY][RECORD] = record_of_output(result.operation.output())
        image = next((layer for layer in self.viewer.layers if layer.name == name), None)
        place = keywords["metadata"][KEY]["affine"]
        if image is not None and np.shape(image.data) == data.shape and np.array_equal(carried(image, "affine"), place):
            image.data, image.metadata = data, keywords["metadata"]
        else:
            if image is not None:
                self.viewer.layers.remove(name)
            image = self.viewer.add_image(data, **keywords)
        if result.layer in self.viewer.layers:
            result.layer.color_by_image(image)
            layers = self.viewer.layers
            layers.move(layers.index(image.name), layers.index(result.layer.name))  # fibers stay above it
            layers.selection.active = result.layer

    def show_repeats(self) -> None:
        """Make a layer of the fibers of the repeats."""
        assert self._result is not None  # the button needs a result
        kept = self._result.found.kept
        if not len(kept):
            self.show_error("no fibers of repeats were kept; raise “Keep fibers of” and press Bootstrap")
            return
        layer = fiber_layer(kept, f"{self._result.layer.name} repeats", beside=self.viewer.layers)
        self.viewer.add_layer(layer)
        self.show_status(f"{len(kept):,} fibers of the first {self.form.value().kept_repeats:,} repeats")

    def _table(self) -> Saving:
        assert self._result is not None  # the button needs a result
        return f"{file_name(self._result.layer.name)} intervals.csv", self._result.found.save_table

    # -- the script -----------------------------------------------------------------------------------------------

    def script_layers(self) -> list[Shown]:
        """Return the map of visits, and the fibers of the fit colored by it, of the result or of a run now."""
        inputs = self._read_inputs() if self._result is None else self._result.inputs
        made, name = inputs.operation(), probability_name(inputs.layer.name)
        colored = {**dict(pictures_of([(inputs.layer, made.output("fibers"))])[0].display), "image": name}
        return [
            Shown(made.output(), name, display=tuple(MAP.items())),
            Shown(made.output("fibers"), inputs.layer.name, display=tuple(colored.items())),
        ]

    def take_draft(self) -> Callable[[], BootstrapTensors | BootstrapFods]:
        """Read the inputs, and return what makes an operation of them."""
        return self._read_inputs().operation

    def show_draft(self, operation: Operation) -> bool:
        """Show a bootstrap, if layers have its scan and fibers that were tracked in this way."""
        if not isinstance(operation, BootstrapTensors | BootstrapFods):
            return False
        chosen = {name: getattr(operation.resampling, name) for name in field_names(type(operation.resampling))}
        self.form.set_value(replace(self.form.value(), **chosen))
        if isinstance(operation, BootstrapTensors):
            self.fit_form.set_value(operation.fit)
        has_scan = self.scan_box.choose_where(lambda layer: output_of(scan_in(layer)) == operation.scan)

        def fits(layer: Any) -> bool:
            made = settings_of(layer)
            wanted = operation.method, operation.directions, operation.seeds
            return made is not None and (made.method, made.directions, made.seeds) == wanted

        return self.fibers_box.choose_where(fits) and has_scan

    def teardown(self) -> None:
        """End runs and let go of the fibers."""
        super().teardown()
        self._results = {}


def _steps(inputs: Inputs, device: str, stop: threading.Event) -> Generator[Step, None, Repeated]:
    found = yield from bootstrap_steps(
        inputs.scan,
        inputs.seeds_mm,
        inputs.made.directions,
        inputs.made.method,
        inputs.resampling,
        fit=inputs.fit,
        field=inputs.fods,
        device=device,
        stop=stop,
    )
    made = None
    if found.complete:
        with suppress(InvalidInput):  # FODs of a file
            made = inputs.operation()
            remember(made.output(), Certainty(found, found.notes), device)
    return Repeated(inputs, found, _profile(found), made)


def _profile(found: Bootstrap) -> ProfileInterval | None:
    try:
        return profile_interval(found, _profiled(found)[0])
    except InvalidInput:
        return None  # too few fibers have one


def _profiled(found: Bootstrap) -> tuple[str, str]:
    """The number that points of the fibers have, and how it is written."""
    return ("fod", "FOD amplitude") if "fod" in found.fibers.per_point else ("fa", "FA")


def _rows(found: Bootstrap) -> list[Number]:
    """The intervals of all numbers, and how far those of the fit are from their estimates."""
    intervals, biases = [], []
    for name in found.numbers:
        estimate, low, high = (value_text(name, value) for value in found.interval(name))
        title = "fibers" if name == "fibers" else READABLE.get(name, name.replace("_", " "))
        of_fit, bias = value_text(name, found.of_fit(name)), value_text(name, found.bias(name))
        note = f"{of_fit} in the fit, of which {bias} is bias: what noise adds"
        intervals.append(Number(group=_ESTIMATES, name=title, text=f"{estimate} ({low} – {high})", note=note))
        biases.append(Number(group=_BIASES, name=f"bias of {title}", text=f"{bias} in {of_fit}", note=note))
    return [*intervals, *biases, Number(group="Run", name="repeats", text=f"{found.repeats:,}")]


def _findings(found: Bootstrap) -> list[tuple[str, str]]:
    """The notes as sentences; in FODs the first one tells what was done."""
    described = found.fibers.parameters["tracking"]["kind"] in IN_FODS
    return [
        ("ok" if described and not number else "warning", f"{note[:1].upper()}{note[1:]}.")
        for number, note in enumerate(found.notes)
    ]


def _are_same(one: Tractogram, other: Tractogram) -> bool:
    return np.array_equal(one.offsets, other.offsets) and np.allclose(one.points, other.points, atol=1e-3)


def probability_name(fibers: str) -> str:
    """Name of the layer that shows how probable it is that fibers pass a voxel; ``fibers``: name of their layer."""
    return f"{fibers} visit probability"


def _why_not_tracked(layer: Any) -> str | None:
    """Why the fibers of a layer cannot be tracked again; an empty text for layers of another kind."""
    if not isinstance(layer, Streamlines):
        return ""
    settings = settings_of(layer)
    if settings is None or fibers_of(layer) is None:
        return "not tracked here"
    return "tracked in fixels" if settings.method.works_in == "fixels" else None


def _in_fods(layer: Any | None) -> bool:
    settings = None if layer is None else settings_of(layer)
    return settings is not None and settings.method.works_in == "FODs"


def _why_not_deconvolved(layer: Any) -> str | None:
    """Why FODs of a layer cannot be drawn again; an empty text for layers of another kind."""
    fods = fods_of(layer)
    if fods is None:
        return why_no_fods(layer)
    if fods.tissues:
        return "of several tissues"
    return None if "deconvolution" in fods.parameters else "not deconvolved here"
