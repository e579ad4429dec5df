"""The slice on screen and what has to be read around it: where it lies in the image, and how it is denoised."""

import dataclasses
import threading
import time
from collections.abc import Generator
from typing import Any

import numpy as np

from napari_gpubio.core.steps import Step
from napari_gpubio.denoise.gui.request import Request, after
from napari_gpubio.denoise.napari_io import Array, Box, LayerVolume, Part, place_of_part

Triple = tuple[int, int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """A slice of an image, or a part of it, in stored axes.

    Parameters
    ----------
    axis
        The stored axis across the slice.
    part
        The slice itself: one voxel thick along the axis.
    reach
        How many voxels around it are read.
    volume
        Which volume of a series is on screen; 0 of a single one.
    """

    axis: int
    part: Box
    reach: Triple
    volume: int = 0

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

    def middle(self, place: tuple[float, ...], shape: tuple[int, ...], reach: Triple, cost: float) -> "Shown":
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
class Preview:
    """A denoised slice, ready to be shown.

    Parameters
    ----------
    request
        What was asked for.
    data
        With the axes of the image's layer.
    place
        Where it lies: keywords of a layer.
    is_whole
        Whether it is all of the slice.
    speed
        How many voxels were denoised in a second.
    """

    request: Request
    data: Array
    place: dict[str, Any]
    is_whole: bool
    speed: float


def preview_steps(
    request: Request, shown: Shown, stop: threading.Event, *, is_whole: bool
) -> Generator[Step, None, Preview | None]:
    """Denoise a slice; None if it was stopped."""
    yield Step(0, 1, "preview")
    image, begun = request.image, time.perf_counter()
    box = shown.around(image.shape)
    part = Part(box, slice(shown.volume, shown.volume + 1), shown.axes)
    block = request.cut(part)
    values, mask = block.linear()
    before = block.before(values)
    denoised = np.asarray(values if before is None else before)
    if np.any(denoised) and (mask is None or mask.any()):
        result = yield from block.filter_steps(values, mask, stop)
        if not result.complete:
            return None
        denoised = result.image
    inner = tuple(slice(p.start - b.start, p.stop - b.start) for p, b in zip(shown.part, box, strict=True))
    data = image.shown(after(request, part.back(denoised)[inner]))
    speed = shown.cost(image.shape) / (time.perf_counter() - begun)
    return Preview(request=request, data=data, place=_place(image, shown), is_whole=is_whole, speed=speed)


def shown_slice(image: LayerVolume, index: tuple[float, ...], across: int, reach: Triple) -> Shown | None:
    """Return the slice at an index of the image's layer, or None if it lies outside.

    Parameters
    ----------
    image
        The image.
    index
        In the layer's axes.
    across
        The layer's axis across the slice, counted from its end: -3, -2 or -1.
    reach
        How many voxels around the slice are read, along the stored axes.
    """
    axis = image.stored_axis(across)
    at, volume = round(index[across]), round(index[0]) if len(index) == 4 else 0
    if not 0 <= at < image.shape[axis] or (len(index) == 4 and not 0 <= volume < image.shape[3]):
        return None
    part = [slice(0, n) for n in image.shape[:3]]
    part[axis] = slice(at, at + 1)
    return Shown(axis, (part[0], part[1], part[2]), reach, volume)


def _place(image: LayerVolume, shown: Shown) -> dict[str, Any]:
    first = [shown.part[image.stored_axis(axis)].start for axis in (-3, -2, -1)]
    is_series = len(image.shape) == 4
    return place_of_part(image.place, (shown.volume, *first) if is_series else tuple(first))
