"""The slices on screen: how a place is brought into them, also while the view is in 3-D."""

from collections.abc import Callable
from typing import Any

import numpy.typing as npt
from qtpy.QtCore import QObject, QTimer


def show_slices_at(viewer: Any, position: npt.ArrayLike) -> None:
    """Move the slices to a viewer position (z, y, x); further axes in front stay."""
    axes = range(viewer.dims.ndim - 3, viewer.dims.ndim)
    viewer.dims.set_point(list(axes), [float(p) for p in position])


class SliceGuide(QObject):
    """Moves the slices to a place, and in 3-D once more when the view is in 2-D again: napari sets them anew then.

    Parameters
    ----------
    viewer
        The napari viewer.
    place
        Gives the viewer position (z, y, x) to be shown, or None.
    """

    def __init__(self, viewer: Any, place: Callable[[], npt.ArrayLike | None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._viewer, self._place = viewer, place
        self._goes_later = False
        self._later = QTimer(self)  # napari tells nobody of slices that are set while it changes the view
        self._later.setSingleShot(True)
        self._later.timeout.connect(self.go)

    def go(self) -> None:
        """Move the slices to the place, if there is one."""
        position = self._place()
        if position is not None:
            show_slices_at(self._viewer, position)
            self._goes_later = self._viewer.dims.ndisplay == 3

    def attach(self) -> None:
        """Follow the viewer from 3-D to 2-D."""
        self._viewer.dims.events.ndisplay.connect(self._on_ndisplay)

    def detach(self) -> None:
        """Hear no more of the viewer."""
        self._viewer.dims.events.ndisplay.disconnect(self._on_ndisplay)
        self._later.stop()

    def _on_ndisplay(self, *_: Any) -> None:
        if self._goes_later and self._viewer.dims.ndisplay == 2:
            self._later.start()
