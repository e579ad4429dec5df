"""``File > Open Sample`` of real people's data: fetched while napari goes on, with progress, license and Stop."""

from typing import Any

from napari import current_viewer
from napari.utils.notifications import show_info, show_warning
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QProgressDialog

from napari_gpubio.core.napari_io import KEY, LayerData
from napari_gpubio.core.reading import NOTES
from napari_gpubio.core.real_samples import SAMPLES, RealSample, layer_steps
from napari_gpubio.core.steps import Step, drive
from napari_gpubio.gui.jobs import Job, Outcome


def stanford_layers() -> list[LayerData]:
    """Open a brain: diffusion scan, T1 and labels (napari's sample-data contribution)."""
    return _opened(SAMPLES["stanford-hardi"])


def colin_layers() -> list[LayerData]:
    """Open a head for light, with the optical properties of its tissues (napari's sample-data contribution)."""
    return _opened(SAMPLES["colin27"])


def _opened(sample: RealSample) -> list[LayerData]:
    """Layers, where there is no window; in one they come when they are there."""
    viewer = current_viewer()
    if viewer is None or not hasattr(viewer, "window"):
        return drive(layer_steps(sample))
    Download(viewer, sample)
    return []


class Download(QProgressDialog):
    """Fetches a sample, and adds its layers to a viewer."""

    def __init__(self, viewer: Any, sample: RealSample) -> None:
        super().__init__(sample.notice, "Stop", 0, len(sample.files), viewer.window._qt_window)
        self.setWindowTitle("Fetching a sample")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setMinimumDuration(0)
        self.setAutoReset(False)
        self._viewer, self._notice = viewer, sample.notice
        self.job = Job(lambda stop: layer_steps(sample, stop=stop), self)
        self.job.stepped.connect(self._show_step)
        self.job.finished.connect(self._on_finished)
        self.canceled.connect(self.job.stop)
        self.job.start()

    def _show_step(self, step: Step) -> None:
        if not self.wasCanceled():
            self.setValue(step.done)
            self.setLabelText(f"{self._notice}\n\n{step.message} {step.done} of {step.total}")

    def _on_finished(self, outcome: Outcome) -> None:
        self.canceled.disconnect(self.job.stop)
        self.close()
        if outcome.error:
            show_warning(outcome.error)
        notes = dict[str, None]()
        for data, keywords, kind in outcome.result or ():
            notes |= dict.fromkeys(keywords["metadata"][KEY].get(NOTES, ()))
            getattr(self._viewer, f"add_{kind}")(data, **keywords)
        for note in notes:
            show_info(note)
