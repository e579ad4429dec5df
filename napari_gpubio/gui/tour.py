"""A tour of the first click, over the real window: sample brain, panel, seed, fibers, and where to go from there.

It is shown by napari's own tour of its viewer, which is not public and may be missing in another version: a sentence
says so then.
"""

from typing import Any

from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.gui.switcher import PLUGIN, Switcher, open_panel

_PANEL = "Fiber tracking"
_SAMPLE = "brain_phantom"
_CLICK_MM = (0.0, -5.0, 22.0)  # in the corpus callosum


def start_tour(viewer: Any) -> Any:
    """Open the sample brain and the panel if they are not there, and begin the tour; returns it.

    Raises
    ------
    InvalidInput
        If this version of napari has no tour.
    """
    try:
        from napari._qt.widgets.qt_viewer_tour import GuidedTour
    except ImportError as error:
        raise InvalidInput("this version of napari has no tours; see The first minutes on the site") from error
    viewer = getattr(viewer, "__wrapped__", viewer)  # napari's proxy, which keeps its window private
    window = viewer.window._qt_window
    if (running := getattr(window, "_viewer_tour", None)) is not None:
        return running
    if not len(viewer.layers):
        viewer.open_sample(PLUGIN, _SAMPLE)
    panel = open_panel(viewer, _PANEL)
    tour = GuidedTour(_steps(window, panel), window)
    window._viewer_tour = tour
    tour.finished.connect(lambda: setattr(window, "_viewer_tour", None))
    tour.start()
    return tour


def _steps(window: Any, panel: Any) -> list[Any]:
    from napari._qt.widgets.qt_viewer_tour import TourAnchor, TourStep

    def place_seed() -> bool:
        if not panel.results.head.isVisible():  # no fibers yet
            panel.place_seed(_CLICK_MM)
        return False

    def step(target: QWidget, title: str, body: str, anchor: Any = TourAnchor.LEFT, **more: Any) -> Any:
        return TourStep(lambda: target, title, body, anchor, skip=lambda: not target.isVisible(), **more)

    canvas = window._qt_viewer.canvas.native
    return [
        step(
            canvas,
            "The brain",
            "Layers lie where their scans do. Letters name the sides of the body.",
        ),
        step(panel.findChild(Switcher), "Panels", "One place for all panels; this list goes from one to another."),
        step(panel.source_box, "What is tracked in", "A scan, its tensors, FODs or fixels. A scan is fitted first."),
        step(
            canvas,
            "A click",
            "A click puts a seed, and the fibers that pass there follow. Drag the marker; Shift+click adds a bundle.",
            ensure_visible=place_seed,
        ),
        step(panel.results.head, "Numbers", "How many fibers, how long. Ctrl+click a fiber for its own numbers."),
        step(
            panel.run_button, "Run", "Computes in the background; then it reads Stop. Everything can be undone: Ctrl+Z."
        ),
        step(
            panel.script_button,
            "As a script",
            "The same as a Python script, to the last bit. The Session panel keeps all of what is on screen.",
        ),
    ]
