"""The preview: the slice on screen, denoised as soon as it is seen, in a layer of its own."""

import dataclasses
import threading
import time
from collections.abc import Callable, Generator
from functools import partial
from typing import Any

import numpy as np
from qtpy.QtCore import QObject, Signal

from napari_gpubio.core.errors import GpuBioError
from napari_gpubio.core.napari_io import FOLLOWS, KEY, carried
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.gui.inputs import PANEL
from napari_gpubio.denoise.gui.run import Draft, without_previews
from napari_gpubio.denoise.kernels.anlm.problem import Triple
from napari_gpubio.denoise.napari_io import LayerVolume, key_of, place_of_part
from napari_gpubio.denoise.parts import Array, Box, Filtering, Noise, Part
from napari_gpubio.gui.connections import Connections, Debouncer
from napari_gpubio.gui.front import front_of
from napari_gpubio.gui.jobs import LatestJob, Outcome
from napari_gpubio.gui.views import camera_of

_WORD = "denoise preview"
_STARTING = "preview … (the first one may have to compile the filter)"
QUICK_SECONDS = 0.04  # that the window waits for a first preview: drawing twice, and beside the filter, takes longer
_PLANNED = 0.6  # of that time, for other things may be running
NO_SLICE = "the preview is of a slice; switch the view to 2-D"
_OBLIQUE = "no preview: the image is tilted, so a slice on screen is not one of its own; press Run"


@dataclasses.dataclass(frozen=True, slots=True)
class ShownSlice:
    """A slice of an image, or a part of it, in stored axes."""

    axis: int  # across the slice
    part: Box  # the slice itself: one voxel thick along the axis
    reach: Triple  # how many voxels around it are read
    volume: int = 0  # of a series, which is on screen

    @property
    def axes(self) -> tuple[int, int, int]:
        """Order of the axes with the thin one first: blocks of work are long along the last."""
        first, second = sorted({0, 1, 2} - {self.axis})
        return self.axis, first, second

    def around(self, shape: tuple[int, ...]) -> Box:
        """Return the slice with what is read around it, inside the volume, from even voxels on.

        Sub-bands take voxels in pairs: from an odd one on they would be other pairs than in the volume.
        """
        x, y, z = (
            slice(max(0, part.start - r) // 2 * 2, min(n, part.stop + r))
            for part, n, r in zip(self.part, shape, self.reach, strict=False)
        )
        return x, y, z

    def cost(self, shape: tuple[int, ...]) -> int:
        """How many voxels have to be denoised for it."""
        return int(np.prod([part.stop - part.start for part in self.around(shape)]))

    def middle(self, place: tuple[float, ...], shape: tuple[int, ...], reach: Triple, cost: float) -> "ShownSlice":
        """Return a square part around a voxel that costs about so much with this reach, 16 voxels wide at least.

        It begins at an even voxel, so that what is read does too and no voxel is read for that alone.
        """
        depth = 2 * reach[self.axis] + 1
        margins = [r for axis, r in enumerate(reach) if axis != self.axis]
        side = max(16, int(np.sqrt(cost / depth)) - 2 * max(margins))
        part = list(self.part)
        for axis in {0, 1, 2} - {self.axis}:
            start = int(np.clip(round(place[axis]) - side // 2, 0, max(0, shape[axis] - side))) // 2 * 2
            part[axis] = slice(start, min(shape[axis], start + side))
        return dataclasses.replace(self, part=(part[0], part[1], part[2]), reach=reach)


@dataclasses.dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Preview(ShortRepr):
    """A denoised slice, ready to be shown."""

    image: LayerVolume
    data: Array  # with the axes of the image's layer
    place: dict[str, Any]  # keywords that put a layer where it lies
    is_whole: bool  # whether it is all of the slice
    speed: float  # voxels denoised in a second


class NoiseOfWhole:
    """The noise of the series or volume that was previewed last, of which a preview sees but a part.

    A run estimates anew: numbers that were changed in place are not noticed here.
    """

    def __init__(self) -> None:
        self._known: tuple[object, Noise] | None = None

    def of(self, image: LayerVolume, filtering: Filtering, volume: int) -> Noise:
        """The noise that a run would find, see `Filtering.find_noise`."""
        array, mask = np.asarray(image.array), filtering.selection.mask
        place = array.__array_interface__["data"], array.shape, array.strides
        where = filtering.is_across_volumes or volume, filtering.settings.is_rician, filtering.selection.skip_gaps
        inside = None if mask is None else mask.array.tobytes()
        key = image.key, place, image.is_log, inside, where
        if self._known is None or self._known[0] != key:
            self._known = key, filtering.find_noise(volume)
        return self._known[1]


def preview_steps(
    draft: Draft,
    shown: ShownSlice,
    stop: threading.Event,
    *,
    is_whole: bool,
    noise_of_whole: NoiseOfWhole | None = None,
) -> Generator[Step, None, Preview | None]:
    """Denoise a slice; None if it was stopped."""
    yield Step(0, 1, "preview")
    image, filtering = draft.image, draft.filtering()
    if filtering.needs_noise:
        filtering = filtering.with_noise((noise_of_whole or NoiseOfWhole()).of(image, filtering, shown.volume))
    begun, box = time.perf_counter(), shown.around(image.shape)
    part = Part(box, slice(shown.volume, shown.volume + 1), shown.axes)
    block = filtering.cut(part)
    denoised = block.unchanged()
    if denoised is None:
        found = yield from without_previews(block.steps(device=draft.device, stop=stop))
        if not found.complete:
            return None
        denoised = found.denoised.array
    inner = tuple(slice(p.start - b.start, p.stop - b.start) for p, b in zip(shown.part, box, strict=True))
    data = image.shown(part.back(denoised)[inner])
    first = [shown.part[image.stored_axis(axis)].start for axis in (-3, -2, -1)]
    place = place_of_part(image.place, (shown.volume, *first)[-len(image.place["scale"]) :])
    speed = shown.cost(image.shape) / (time.perf_counter() - begun)
    return Preview(image=image, data=data, place=place, is_whole=is_whole, speed=speed)


def slice_at(image: LayerVolume, index: tuple[float, ...], across: int, reach: Triple) -> ShownSlice | None:
    """Return the slice at an index of the image's layer, or None if it lies outside.

    The layer's axis across the slice is counted from its end: -3, -2 or -1; ``reach`` is along the stored axes.
    """
    axis = image.stored_axis(across)
    at, volume = round(index[across]), round(index[0]) if len(index) == 4 else 0
    if not 0 <= at < image.shape[axis] or (len(index) == 4 and not 0 <= volume < image.shape[3]):
        return None
    part = [slice(0, n) for n in image.shape[:3]]
    part[axis] = slice(at, at + 1)
    return ShownSlice(axis, (part[0], part[1], part[2]), reach, volume)


class LivePreview(QObject):
    """Denoises the slice on screen: its middle at once, then all of it.

    Parameters
    ----------
    viewer
        The napari viewer.
    read_draft
        Returns what the panel is set to; raises InvalidInput where that is not possible.
    must_wait
        Whether the filter is still being compiled; a preview then starts at the next `resume`.
    """

    status_changed = Signal(str)
    error_occurred = Signal(str)
    shown = Signal()

    def __init__(
        self, viewer: Any, read_draft: Callable[[], Draft], must_wait: Callable[[], bool], parent: QObject
    ) -> None:
        super().__init__(parent)
        self.live = False
        self._viewer, self._read_draft, self._must_wait = viewer, read_draft, must_wait
        self._waits, self._warm, self._in_two = False, False, False
        self._speed = 5e5  # voxels per second, as measured by the last preview that was to be quick
        self._next: tuple[Draft, ShownSlice] | None = None  # the whole slice, once its middle is seen
        self._noise_of_whole = NoiseOfWhole()
        self._job = LatestJob(self, self._on_finished)
        self._debouncer = Debouncer(self.start, self)  # several axes and settings may change at once
        events = viewer.dims.events
        changes = (events.current_step, events.order, events.ndisplay)
        removed = viewer.layers.events.removed
        self._slices = Connections(
            lambda: [(removed, self._on_removed), *((event, self.request_update) for event in changes)]
        )
        self.attach = self._slices.attach

    @property
    def layer(self) -> Any | None:
        """The layer of the preview, or None."""
        return next((layer for layer in self._viewer.layers if carried(layer, PANEL) == _WORD), None)

    @property
    def is_busy(self) -> bool:
        """Whether something is under way or will be soon."""
        return self._debouncer.is_due or self._job.is_busy

    def start(self) -> None:
        """Denoise the slice on screen, as soon as the filter is compiled."""
        self._job.cancel()
        self._next = None
        self._waits = self._must_wait()
        if self._waits:
            return
        try:
            draft = self._read_draft()
            found = self._slice(draft)
        except GpuBioError as error:
            self.error_occurred.emit(str(error))
            return
        if found is None:
            why = _OBLIQUE if draft.image.is_oblique else NO_SLICE if self._viewer.dims.ndisplay == 3 else ""
            self.status_changed.emit(why)
            return
        whole, middle = found
        self._in_two = middle is not None
        if middle is not None:
            self._next = draft, whole
        self.status_changed.emit("preview …" if self._warm else _STARTING)
        may_be_quick = self._warm and not self._job.is_busy  # with what was cancelled
        self._submit(draft, middle or whole, is_whole=middle is None)
        if may_be_quick:
            self._job.wait(QUICK_SECONDS)

    def resume(self) -> None:
        """Start what has waited."""
        if self._waits:
            self.start()

    def request_update(self, *_: Any) -> None:
        """Denoise the slice on screen soon, if the preview is live and its panel in front."""
        if self.live and front_of(self._viewer).allows(self):
            self._debouncer.request()

    def cancel(self) -> None:
        """Show nothing more of what is under way."""
        self._debouncer.cancel()
        self._waits, self._next = False, None
        self._job.cancel()

    def remove(self) -> None:
        """Take the preview away."""
        self.cancel()
        if (layer := self.layer) is not None:
            self._viewer.layers.remove(layer.name)

    def detach(self) -> None:
        """Cancel what runs, and stop following the viewer."""
        self._slices.detach()
        self.cancel()
        self._job.abandon()

    def _submit(self, draft: Draft, shown: ShownSlice, *, is_whole: bool) -> None:
        steps = partial(preview_steps, is_whole=is_whole, noise_of_whole=self._noise_of_whole)
        self._job.submit(lambda stop: steps(draft, shown, stop))

    def _slice(self, draft: Draft) -> tuple[ShownSlice, ShownSlice | None] | None:
        """The slice on screen, and its middle if all of it takes a while; None if there is none."""
        dims, image, filtering = self._viewer.dims, draft.image, draft.filtering()
        ndim = len(image.shape)
        layer = self._layer_of(image.key)
        if dims.ndisplay == 3 or image.is_oblique or layer is None:
            return None
        reach = filtering.reach()
        if image.is_plane:
            x, y, z = (slice(0, n) for n in image.shape)
            return ShownSlice(2, (x, y, z), reach), None
        across = next(axis for axis in dims.not_displayed[::-1] if axis >= dims.ndim - 3) - dims.ndim
        index = _index(layer, dims.point)
        shown = slice_at(image, index, across, reach)
        if shown is None:
            return None
        cost = self._speed * _PLANNED * QUICK_SECONDS
        if shown.cost(image.shape) <= 1.3 * cost:
            return shown, None
        center = list(dims.point)
        for axis, value in zip(dims.displayed, camera_of(self._viewer).center[-2:], strict=True):
            center[axis] = value
        middle = _index(layer, center)[ndim - 3 :]
        place = [0.0, 0.0, 0.0]
        for axis in (-3, -2, -1):
            place[image.stored_axis(axis)] = middle[axis]
        near = filtering.reach(near=True)
        return shown, shown.middle((place[0], place[1], place[2]), image.shape, near, cost)

    def _layer_of(self, key: str | None) -> Any | None:
        return next((layer for layer in self._viewer.layers if key_of(layer) == key), None)

    def _on_removed(self, *_: Any) -> None:
        """Take the preview away with its image."""
        shown = self.layer
        if shown is not None and self._layer_of(carried(shown, "source")) is None:
            self.remove()

    def _on_finished(self, outcome: Outcome) -> None:
        if outcome.error:
            self._next = None
            self.status_changed.emit("")
            self.error_occurred.emit(outcome.error)
        elif outcome.result is not None:
            self._show_layer(outcome.result)
            if self._next is not None:
                (draft, whole), self._next = self._next, None
                self._submit(draft, whole, is_whole=True)

    def _show_layer(self, preview: Preview) -> None:
        if not (preview.is_whole and self._in_two):  # the rest of a slice is denoised faster than its middle
            self._speed = preview.speed
        self._warm = True
        layer, image = self.layer, preview.image
        if layer is not None and layer.ndim == preview.data.ndim and carried(layer, "source") == image.key:
            layer.affine = preview.place["affine"]
            layer.data = preview.data
        else:
            if layer is not None:
                self._viewer.layers.remove(layer.name)
            active = self._viewer.layers.selection.active
            metadata = {KEY: {PANEL: _WORD, "source": image.key, FOLLOWS: True}}
            keywords = {**preview.place, **image.display, "name": "denoised preview", "metadata": metadata}
            self._viewer.add_image(preview.data, **keywords)
            self._viewer.layers.selection.active = active
        self.status_changed.emit("preview" if preview.is_whole else "preview: the middle; the rest follows …")
        self.shown.emit()


def _index(layer: Any, point: Any) -> tuple[float, ...]:
    """Index in a layer of a position of the viewer."""
    return tuple(layer.world_to_data(point))[-layer.ndim :]
