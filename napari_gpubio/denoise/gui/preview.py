"""The preview: the slice on screen, denoised as soon as it is looked at, in a layer of its own."""

import threading
from collections.abc import Callable, Generator
from typing import Any

from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.napari_io import KEY, carried
from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.gui.image_box import PANEL
from napari_gpubio.denoise.gui.request import Request
from napari_gpubio.denoise.gui.slab import Preview, Shown, preview_steps, shown_slice
from napari_gpubio.gui.debounce import Debouncer
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.gui.views import camera_of

_WORD = "denoise preview"
_STARTING = "preview … (the first run on a machine compiles, up to a minute)"
QUICK_SECONDS = 0.04  # that the window waits for a first picture: drawing twice, and beside the filter, takes longer
_PLANNED = 0.6  # of that time, for other things may be running
NO_SLICE = "the preview is of a slice; switch the view to 2-D"


class LivePreview(QObject):
    """Denoises the slice on screen: its middle at once, then all of it.

    Parameters
    ----------
    viewer
        The napari viewer.
    ask
        Returns what the panel is set to; raises InvalidInput where that is not possible.
    """

    status_changed = Signal(str)
    error_occurred = Signal(str)
    shown = Signal()

    def __init__(self, viewer: Any, ask: Callable[[], Request], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.live = False
        self._viewer, self._ask = viewer, ask
        self._warm, self._in_two = False, False
        self._speed = 5e5  # voxels per second, as measured by the last preview that was to be quick
        self._next: tuple[Request, Shown] | None = None  # the whole slice, once its middle is seen
        self._job = LatestJob(self)
        self._job.finished.connect(self._on_finished)
        self._debouncer = Debouncer(self.look, self)  # several axes and settings may change at once

    @property
    def layer(self) -> Any | None:
        """The layer of the preview, or None."""
        return next((layer for layer in self._viewer.layers if carried(layer, PANEL) == _WORD), None)

    @property
    def is_busy(self) -> bool:
        """Whether something is under way or will be soon."""
        return self._debouncer.is_due or self._job.is_busy

    def look(self) -> None:
        """Denoise the slice on screen."""
        self._job.cancel()
        self._next = None
        try:
            request = self._ask()
            found = self._slice(request)
        except GpuBioError as error:
            self.error_occurred.emit(str(error))
            return
        if found is None:
            self.status_changed.emit(NO_SLICE if self._viewer.dims.ndisplay == 3 else "")
            return
        whole, middle = found
        self._in_two = middle is not None
        if middle is not None:
            self._next = request, whole
        self.status_changed.emit("preview …" if self._warm else _STARTING)
        may_be_quick = self._warm and not self._job.is_busy  # with what was cancelled
        self._submit(request, middle or whole, is_whole=middle is None)
        if may_be_quick:
            self._job.wait(QUICK_SECONDS)

    def follow(self, *_: Any) -> None:
        """Denoise the slice on screen soon, if the preview is live."""
        if self.live:
            self._debouncer.ask()

    def cancel(self) -> None:
        """Show nothing more of what is under way."""
        self._debouncer.forget()
        self._next = None
        self._job.cancel()

    def clear(self) -> None:
        """Take the preview away."""
        self.cancel()
        if (layer := self.layer) is not None:
            self._viewer.layers.remove(layer.name)

    def attach(self) -> None:
        """Follow the slices on screen."""
        for event in self._events():
            event.connect(self.follow)

    def detach(self) -> None:
        """End what runs, and hear no more of the viewer."""
        for event in self._events():
            event.disconnect(self.follow)
        self._debouncer.forget()
        self._next = None
        self._job.abandon()

    def _events(self) -> list[Any]:
        events = self._viewer.dims.events
        return [events.current_step, events.order, events.ndisplay]

    def _submit(self, request: Request, shown: Shown, *, is_whole: bool) -> None:
        def steps(stop: threading.Event) -> Generator[Step, None, Preview | None]:
            return (yield from preview_steps(request, shown, stop, is_whole=is_whole))

        self._job.submit(steps)

    def _slice(self, request: Request) -> tuple[Shown, Shown | None] | None:
        """The slice on screen, and its middle if all of it takes a while; None if there is none."""
        dims, image = self._viewer.dims, request.image
        ndim = len(image.shape)
        if dims.ndisplay == 3:
            return None
        across = next(axis for axis in dims.not_displayed[::-1] if axis >= dims.ndim - 3) - dims.ndim
        index = self._index(request, dims.point)
        shown = shown_slice(image, index, across, request.recipe.reach(image.voxel_size_mm))
        if shown is None:
            return None
        cost = self._speed * _PLANNED * QUICK_SECONDS
        if shown.cost(image.shape) <= 1.3 * cost:
            return shown, None
        center = list(dims.point)
        for axis, value in zip(dims.displayed, camera_of(self._viewer).center[-2:], strict=True):
            center[axis] = value
        middle = self._index(request, center)[ndim - 3 :]
        place = [0.0, 0.0, 0.0]
        for axis in (-3, -2, -1):
            place[image.stored_axis(axis)] = middle[axis]
        near = request.recipe.near(image.voxel_size_mm)
        return shown, shown.middle((place[0], place[1], place[2]), image.shape, near, cost)

    def _index(self, request: Request, point: Any) -> tuple[float, ...]:
        """Index in the image's layer of a position of the viewer."""
        layer = self._viewer.layers[request.image.name]
        return tuple(layer.world_to_data(point))[-layer.ndim :]

    def _on_finished(self, outcome: Outcome) -> None:
        if outcome.error:
            self._next = None
            self.status_changed.emit("")
            self.error_occurred.emit(outcome.error)
        elif outcome.result is not None:
            self._show(outcome.result)
            if self._next is not None:
                (request, whole), self._next = self._next, None
                self._submit(request, whole, is_whole=True)

    def _show(self, preview: Preview) -> None:
        if not (preview.is_whole and self._in_two):  # the rest of a slice is denoised faster than its middle
            self._speed = preview.speed
        self._warm = True
        layer, image = self.layer, preview.request.image
        if layer is not None and layer.ndim == preview.data.ndim and carried(layer, "source") == image.key:
            layer.affine = preview.place["affine"]
            layer.data = preview.data
        else:
            if layer is not None:
                self._viewer.layers.remove(layer.name)
            active = self._viewer.layers.selection.active
            told = {KEY: {PANEL: _WORD, "source": image.key}}
            keywords = {**preview.place, **image.look, "name": "denoised preview", "metadata": told}
            self._viewer.add_image(preview.data, **keywords)
            self._viewer.layers.selection.active = active
        self.status_changed.emit("preview" if preview.is_whole else "preview: the middle; the rest follows …")
        self.shown.emit()
