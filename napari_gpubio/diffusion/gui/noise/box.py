"""The group "Noise": takes the noise out of the scan that is chosen in a panel, before anything else is done to it."""

import threading
from collections.abc import Generator
from typing import Any, NamedTuple

from qtpy.QtWidgets import QCheckBox, QGroupBox, QVBoxLayout

from napari_gpubio.core.napari_io import LayerData, carried
from napari_gpubio.core.operations.runs import run_steps
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.gui.noise.plot import NoiseSummary, ResidualPlot, summary_of
from napari_gpubio.diffusion.gui.records import output_of, remember
from napari_gpubio.diffusion.gui.source import scan_in
from napari_gpubio.diffusion.model import DiffusionScan
from napari_gpubio.diffusion.napari_io import DENOISED_PARTS, denoised_layer, of_result, scan_of, shows_signal_of
from napari_gpubio.diffusion.noise.settings import NoiseSettings
from napari_gpubio.diffusion.operations.noise import Mppca
from napari_gpubio.gui.connections import Follower
from napari_gpubio.gui.docking import DockWindow
from napari_gpubio.gui.forms import ParamForm, muted_label, row_of, text_button
from napari_gpubio.gui.layers import LayerBox, set_visible
from napari_gpubio.gui.panel import EnginePanel
from napari_gpubio.gui.run_parts import Pieces

_OUTPUTS = {"noise σ": "noise", "denoised": "scan", "residual": "residual"}
_DENOISE = (
    "Take the noise out of the scan by Marchenko-Pastur PCA (MPPCA), in all voxels that have a signal. It is for raw "
    "scans: before motion or distortion correction and any resampling. MPPCA may be covered by patents; check before "
    "commercial use."
)
_RESIDUAL = (
    "Show what was taken away (raw - denoised) above the denoised scan. It must look like noise: anatomy in it is "
    "signal that was lost."
)
_PLOT = "Plot how residual / σ is distributed: noise is normal, with the deviation that the signal components leave"
_NUMBERS = (
    "σ is the standard deviation of the noise, in units of the signal. The SD of residual / σ should be near "
    "{expected:.2f}, since the noise of the signal components stays."
)
_STOPPED = "Denoising was stopped and nothing was added, since a scan that is denoised in part fits no model."


class Denoised(NamedTuple):
    """Result of one run: layers by their parts, from the bottom to the top."""

    scan: DiffusionScan
    layers: dict[str, LayerData]
    summary: NoiseSummary


class NoiseBox(QGroupBox, Follower):
    """A button that denoises the scan of a panel, its settings, and what was found.

    Parameters
    ----------
    panel
        Whose runs, device and messages it uses.
    scan_box
        Where the scan is chosen; the denoised one is chosen there afterwards.
    """

    def __init__(self, panel: EnginePanel, scan_box: LayerBox) -> None:
        super().__init__("Noise", panel)
        self._panel, self._scan_box = panel, scan_box
        self._summary: NoiseSummary | None = None
        self.button = text_button("Denoise", _DENOISE, self, self.denoise)
        self.residual = QCheckBox("Show the residual", self, toolTip=_RESIDUAL)
        self.residual.toggled.connect(self._show_residual)
        self.form = ParamForm(NoiseSettings(), parent=self)
        self.summary_label = muted_label(self)
        self.plot_button = text_button("Residual / σ…", _PLOT, self, self.open_plot)
        self.plot = DockWindow(panel.viewer, "Residual / σ", self._new_plot, self)
        column = QVBoxLayout(self)
        column.addLayout(row_of(self.button, self.residual))
        column.addWidget(self.form)
        column.addWidget(self.summary_label)
        column.addLayout(row_of(self.plot_button))
        self.summary_label.hide()
        self.plot_button.hide()

    def detach(self) -> None:
        """Take the plot away."""
        self.plot.detach()

    # -- running --------------------------------------------------------------------------------------------------

    def denoise(self) -> None:
        """Denoise the chosen scan in a worker; what goes wrong is shown as a sentence."""
        self._panel.run_other(self._make_steps, self._show, warms=("diffusion/denoising",))

    def _make_steps(self, stop: threading.Event) -> Generator[Step, None, Denoised | None]:
        layer: Any = self._scan_box.layer
        scan, settings = scan_in(layer), self.form.value()
        settings.edges(scan.shape, scan.data.shape[3])  # says at once what cannot be denoised
        return _denoised_steps(scan, str(layer.name), settings, self._panel.device, stop)

    # -- results --------------------------------------------------------------------------------------------------

    def _show(self, denoised: Denoised | None) -> Pieces:
        """Add the layers, choose the denoised scan in the place of the raw one, and tell what was found."""
        if denoised is None:
            self._panel.show_status("stopped")
            self._panel.show_note(_STOPPED)
            return
        layers = {}
        for part, (data, keywords, _) in denoised.layers.items():
            layers[part] = self._panel.viewer.add_image(data, **keywords)
            yield
        for layer in self._panel.viewer.layers:
            if shows_signal_of(layer, denoised.scan):
                set_visible(layer, False)
        set_visible(layers["residual"], self.residual.isChecked())
        self._panel.viewer.layers.selection.active = layers["denoised"]
        self._scan_box.choose(layers["denoised"])  # the panel then shows the notes of the scan
        self._tell(denoised.summary)

    def _tell(self, summary: NoiseSummary) -> None:
        self._summary = summary
        self.summary_label.setText(summary.text)
        self.summary_label.setToolTip(_NUMBERS.format(expected=summary.expected))
        self.summary_label.show()
        self.plot_button.show()
        if self.plot.window is not None:
            self.plot.window.draw(summary)

    def _show_residual(self, checked: bool) -> None:
        """Show or hide what was taken away from the chosen scan."""
        chosen = self._scan_box.layer
        scan = None if chosen is None else scan_of(chosen)
        for layer in self._panel.viewer.layers:
            if scan is not None and carried(layer, "residual_of") is scan:
                set_visible(layer, checked)

    # -- the plot -------------------------------------------------------------------------------------------------

    def open_plot(self) -> None:
        """Show the histogram of residual / σ of the last scan that was denoised."""
        self.plot.open()

    def _new_plot(self) -> ResidualPlot:
        plot = ResidualPlot()
        if self._summary is not None:
            plot.draw(self._summary)
        return plot


def _denoised_steps(
    scan: DiffusionScan, study: str, settings: NoiseSettings, device: str, stop: threading.Event
) -> Generator[Step, None, Denoised | None]:
    """Denoise a scan and make what is shown of it; None if it was stopped, since a part of a scan fits no model."""
    operation = Mppca(scan=output_of(scan), settings=settings)
    made = yield from run_steps(operation, device=device, stop=stop)
    if made is None or not made.complete:
        return None
    yield Step(1, 1, "comparing what was taken away with the noise")
    remember(operation.output(), made, device)
    layers = {
        part: of_result(denoised_layer(made.result, scan, part, study), operation.output(_OUTPUTS[part]))
        for part in DENOISED_PARTS
    }
    return Denoised(scan, layers, summary_of(made.result, scan, study))
