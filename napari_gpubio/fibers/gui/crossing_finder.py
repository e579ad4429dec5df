"""How much of the way of fibers that were traced in tensors crosses others, as FODs of their grid tell."""

import threading
from collections.abc import Generator
from typing import Any

from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.steps import Step
from napari_gpubio.diffusion.fods.napari_io import fods_of
from napari_gpubio.diffusion.gui.records import fods_on
from napari_gpubio.fibers.crossings import crossing_notes
from napari_gpubio.fibers.gui.fiber_display import CROSSINGS, keep_crossings, settings_of
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.tractograms.gui.fibers import fibers_of
from napari_gpubio.tractograms.model import Tractogram


class CrossingFinder(QObject):
    """Looks for crossings in a worker, and lets the layer of the fibers carry what was found.

    ``found``: a layer carries it; ``note_occurred``: a sentence why nothing could be found.

    Parameters
    ----------
    viewer
        The napari viewer, whose layers may have FODs.
    parent
        The panel, which calls `abandon` when it goes.
    """

    found = Signal()
    note_occurred = Signal(str)

    def __init__(self, viewer: Any, parent: QObject) -> None:
        super().__init__(parent)
        self._viewer = viewer
        self._job = LatestJob(self, self._on_found)
        self.cancel, self.abandon = self._job.cancel, self._job.abandon

    @property
    def is_busy(self) -> bool:
        """Whether it looks for crossings."""
        return self._job.is_busy

    def find(self, layer: Any | None, device: str) -> None:
        """Look for crossings of the fibers of a layer, if they were traced in tensors and this is not known yet."""
        settings = None if layer is None else settings_of(layer)
        fibers = None if layer is None else fibers_of(layer)
        if settings is None or fibers is None or settings.method.works_in != "tensors":
            return
        known = fods_on(self._viewer.layers, fibers)
        fods = None if known is None else fods_of(known)
        if fods is None or carried(layer, CROSSINGS) is not None:
            return

        def make(_: threading.Event) -> Generator[Step, None, tuple[Any, Tractogram, tuple[str, ...]]]:
            yield Step(0, 1, "looking for crossings")
            return layer, fibers, crossing_notes(fibers, fods, device)

        self._job.submit(make)

    def _on_found(self, outcome: Outcome) -> None:
        if outcome.result is None:
            if outcome.error:
                self.note_occurred.emit(outcome.error)
            return
        layer, fibers, notes = outcome.result
        if fibers_of(layer) is fibers:
            keep_crossings(layer, notes)
            self.found.emit()
