"""The labels layer that is simulated: its tissue, its labels and colors, followed while it is painted."""

from collections.abc import Callable, Generator, Mapping
from threading import Event
from typing import Any

from qtpy.QtCore import QObject, QTimer, Signal

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.light.gui.tissue import Tissue, labels_in
from napari_gpubio.light.model import Domain
from napari_gpubio.light.napari_io import domain_of

PAINTED_MS = 400  # after the last stroke
_EVENTS = ("data", "labels_update", "paint")


class LabelSource(QObject):
    """Follows one labels layer.

    ``chosen`` comes with another layer, ``counted`` when its labels are known (in a worker, because volumes are large),
    ``painted`` a moment after the user has painted, ``recolored`` when labels have other colors.
    """

    chosen = Signal()
    counted = Signal(object)
    painted = Signal()
    recolored = Signal()
    error_occurred = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.layer: Any | None = None
        self.tissue: Tissue | None = None
        self._count = LatestJob(self)
        self._count.finished.connect(self._on_counted)
        self._later = QTimer(self)
        self._later.setSingleShot(True)
        self._later.setInterval(PAINTED_MS)
        self._later.timeout.connect(self._on_painted)

    @property
    def domain(self) -> Domain | None:
        """What the layer carries: optical properties that came with it, or None."""
        return None if self.layer is None else domain_of(self.layer)

    def follow(self, layer: Any | None) -> None:
        """Follow another layer, or none."""
        if layer is self.layer:
            return
        self._let_go()
        self.layer = layer
        if layer is not None:
            for event, slot in self._slots():
                event.connect(slot)
        self._read()
        self.chosen.emit()

    def select(self, label: int) -> None:
        """Make a label the current one of the layer, as if the user had picked it."""
        if self.layer is not None:
            self.layer.selected_label = label

    def colors(self, labels: Any) -> Mapping[int, Any]:
        """Color of each label on screen, RGBA from 0 to 1."""
        return {} if self.layer is None else {label: self.layer.get_color(label) for label in labels}

    def teardown(self) -> None:
        """End what runs and let the layer go."""
        self._later.stop()
        self._count.abandon()
        self._let_go()
        self.layer = self.tissue = None

    # -- the inside -----------------------------------------------------------------------------------------------

    def _let_go(self) -> None:
        if self.layer is not None:
            for event, slot in self._slots():
                event.disconnect(slot)

    def _read(self) -> None:
        """Look at the layer's volume as it is now."""
        self.tissue = None
        self._count.cancel()
        if self.layer is None:
            return
        try:
            self.tissue = Tissue.of(self.layer)
        except GpuBioError as error:
            self.error_occurred.emit(str(error))
            return
        self._count.submit(_counting(self.tissue))

    def _slots(self) -> list[tuple[Any, Callable[..., None]]]:
        """Events of the layer, and what they call."""
        events = self.layer.events
        known = [(getattr(events, name), self._on_data) for name in _EVENTS if hasattr(events, name)]
        return [*known, (events.colormap, self._on_colors)]

    def _on_data(self, *_: Any) -> None:
        self._later.start()

    def _on_colors(self, *_: Any) -> None:
        self.recolored.emit()

    def _on_painted(self) -> None:
        self._read()
        self.painted.emit()

    def _on_counted(self, outcome: Outcome) -> None:
        if outcome.error:
            self.error_occurred.emit(outcome.error)
        else:
            self.counted.emit(outcome.result)


def _counting(tissue: Tissue) -> Callable[[Event], Generator[Step, None, tuple[int, ...]]]:
    def steps(_stop: Event) -> Generator[Step, None, tuple[int, ...]]:
        yield Step(0, 1, "counting labels")
        return labels_in(tissue.labels)

    return steps
