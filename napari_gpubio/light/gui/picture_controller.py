"""Everything about a picture once it is there: its layers, its numbers, and how they are wanted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from qtpy.QtCore import QObject, Signal

from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.light.gui.display_box import DisplayBox
from napari_gpubio.light.gui.fluence_view import FluenceView
from napari_gpubio.light.gui.picture_inputs import kept_text
from napari_gpubio.light.gui.request import Look, Picture, drawing_steps
from napari_gpubio.light.gui.results import ResultBox


class PictureController(QObject):
    """Keeps the layers of the picture, its numbers and the boxes of the panel in step.

    ``status_changed`` and ``error_occurred`` carry sentences, ``renewed`` says that there are new layers, which lie
    above all others.

    Parameters
    ----------
    view
        The layers.
    box
        Says how strong the source is, and how it is drawn.
    results
        The numbers.
    colors
        Gives the colors of labels.
    refining
        Whether more photons of the picture are under way.
    """

    status_changed = Signal(str)
    error_occurred = Signal(str)
    renewed = Signal()

    def __init__(
        self,
        view: FluenceView,
        box: DisplayBox,
        results: ResultBox,
        colors: Callable[[Sequence[int]], Mapping[int, Any]],
        refining: Callable[[], bool],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.look = Look()
        self._view, self._box, self._results = view, box, results
        self._colors, self._refining = colors, refining
        self._redraw = LatestJob(self)
        self._redraw.finished.connect(self._on_redrawn)
        box.strength_changed.connect(self._on_strength)
        box.changed.connect(self._follow_look)
        box.keep_wanted.connect(self.keep)
        results.unit_changed.connect(lambda _: self._follow_look())

    @property
    def picture(self) -> Picture | None:
        """What is shown."""
        return self._view.picture

    def show(self, picture: Picture) -> None:
        """Show a picture and its numbers."""
        self._draw(picture)
        self._tell(picture)

    def tell_again(self) -> None:
        """Say that a picture is not refined any more, where its run ended without a last one."""
        if self.picture is not None and not self.picture.result.complete:
            self._tell(self.picture)

    def keep(self) -> None:
        """Leave the layers of the picture to the user; the next run makes new ones."""
        self.status_changed.emit(kept_text(self._view.keep()))

    def abandon(self) -> None:
        """End what is being drawn."""
        self._redraw.abandon()

    # -- the inside -----------------------------------------------------------------------------------------------

    def _draw(self, picture: Picture) -> None:
        if self._view.show(picture):
            self.renewed.emit()

    def _tell(self, picture: Picture) -> None:
        """Let the result part speak of a picture's result."""
        strength, result = self._box.strength, picture.result
        self._results.show_result(
            result,
            power_mw=strength.power_mw,
            energy_j=strength.energy_j,
            colors=self._colors(result.domain.labels_present),
            running=not result.complete and self._refining(),
        )

    def _on_strength(self) -> None:
        strength = self._box.strength
        self._results.offer_units(power_mw=strength.power_mw, energy_j=strength.energy_j)
        if self.picture is not None:
            self._tell(self.picture)
        self._follow_look()

    def _follow_look(self) -> None:
        """Draw the picture as it is wanted now."""
        box, picture = self._box, self.picture
        wanted = Look(unit=self._results.unit, decades=box.decades, masks=box.masks, shows_error=box.shows_error)
        if wanted == self.look:
            return
        self.look = wanted
        if picture is not None:
            self._redraw.submit(lambda _stop: drawing_steps(picture.result, wanted))

    def _on_redrawn(self, outcome: Outcome) -> None:
        if outcome.error:
            self.error_occurred.emit(outcome.error)
        elif self.picture is not None and outcome.result.result is self.picture.result:
            self._draw(outcome.result)
