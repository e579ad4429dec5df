"""Small pictures of what results say of themselves, drawn by NumPy and Pillow, without a display."""

import functools
import io
import math
from collections.abc import Iterator, Sequence
from functools import singledispatch
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.describe import Curves, Lines, Matrix, Slices
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.quantity import ascii_unit
from napari_gpubio.core.space import voxel_sizes_mm, world_axes_of

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

Array = npt.NDArray[Any]
Floats = Sequence[float]
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f")  # safe for color blindness
DECADES = 6  # of logarithms
_HEIGHT, _GAP, _BAR, _TEXT = 200, 4, 14, 12  # pixels
_SMOOTH = 2  # drawn so many times larger
_MOST_LINES, _MOST_POINTS, _MOST_CURVES, _MOST_VALUES = 800, 24, 12, 600
_HEAT = ("#000004", "#1b0c41", "#4a0c6b", "#781c6d", "#a52c60", "#cf4446", "#ed6925", "#fb9b06", "#f7d13d", "#fcffa4")
_ENDS = (("L", "R"), ("P", "A"), ("I", "S"))
VIEWS = ((0, 1), (0, 2), (1, 2))  # world axes across and up: axial, coronal, sagittal


@singledispatch
def picture(item: Any) -> npt.NDArray[np.uint8]:
    """Return a picture of an item of a description, shape (height, width, 3)."""
    raise TypeError(f"there is no picture of {type(item).__name__}")


def has_picture(item: Any) -> bool:
    """Whether there is a picture of an item."""
    return picture.dispatch(type(item)) is not picture.dispatch(object)


def png_of(image: npt.NDArray[np.uint8]) -> bytes:
    """Return a picture as PNG."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


# -- slices -----------------------------------------------------------------------------------------------------------


class Plane(NamedTuple):
    """A slice as it is seen: its values from the top, world axes across and up, and where its edges are, mm."""

    values: Array
    axes: tuple[int, int]
    extent: tuple[float, float, float, float]


def planes_of(item: Slices) -> Iterator[Plane]:
    """Yield the slices of a volume, or the plane that it is, as they are seen: the left of a body at the left."""
    affine = np.asarray(item.affine, float)
    world, sizes = world_axes_of(affine), voxel_sizes_mm(affine)
    for axes in VIEWS if item.grid == 3 else (tuple(sorted(world[:2])),):
        across, up = (world.index(axis) for axis in axes)
        cut = {0, 1, 2} - {across, up}
        values = item.shown(tuple(item.center[n] if n in cut else slice(None) for n in range(item.grid)))
        values = values.swapaxes(0, 1) if across < up else values  # rows up, columns across
        ends = []
        for voxel, axis, side in ((across, axes[0], 1), (up, axes[1], 0)):
            step = math.copysign(sizes[voxel], affine[axis, voxel])
            values = np.flip(values, side) if step < 0 else values
            places = sorted((-0.5 * step, (values.shape[side] - 0.5) * step))
            ends += [place + affine[axis, 3] for place in places]
        yield Plane(values[::-1], (axes[0], axes[1]), (ends[0], ends[1], ends[2], ends[3]))


def limits_of(planes: Sequence[Plane], style: str) -> tuple[float, float]:
    """Return what the ends of the colors stand for, of values as `scaled` returns them."""
    values = np.concatenate([scaled(one.values, style).ravel() for one in planes])
    values = values[np.isfinite(values)]
    if not len(values):
        return 0.0, 1.0
    if style == "log":
        return float(values.max()) - DECADES, float(values.max())
    low, high = np.percentile(values, (1.0, 99.7))
    low = {"heat": min(float(low), 0.0), "color": 0.0}.get(style, float(low))
    return (low, float(high)) if high > low else (low, float(values.max()) if values.max() > low else low + 1.0)


def scaled(values: Array, style: str) -> Array:
    """Return values, or their decimal logarithms, NaN where there is nothing."""
    if style != "log":
        return np.asarray(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(values > 0, np.log10(values), np.nan)


def heat(share: Array, style: str = "heat") -> npt.NDArray[np.uint8]:
    """Return the colors of shares from 0 to 1, black where they are NaN."""
    share = np.nan_to_num(np.clip(share, 0, 1))
    if style == "gray":
        return np.repeat((255 * share).astype(np.uint8)[..., np.newaxis], 3, axis=-1)
    anchors = np.array([[int(one[n : n + 2], 16) for n in (1, 3, 5)] for one in _HEAT])
    places = np.linspace(0, 1, len(anchors))
    return np.stack([np.interp(share, places, anchors[:, n]) for n in range(3)], axis=-1).astype(np.uint8)


def label_colors(labels: Array) -> npt.NDArray[np.uint8]:
    """Return a color for each label, and black for 0."""
    turns = np.asarray(labels, np.int64)[..., np.newaxis] * 0.618034 + np.array([0.0, 1 / 3, 2 / 3])
    return np.where(np.asarray(labels)[..., np.newaxis] == 0, 0, 150 + 90 * np.cos(2 * np.pi * turns)).astype(np.uint8)


def _colored(values: Array, style: str, limits: tuple[float, float]) -> npt.NDArray[np.uint8]:
    if style == "color":
        return np.asarray(255 * np.clip(np.nan_to_num(values / limits[1]), 0, 1), np.uint8)
    if style == "labels":
        return label_colors(values)
    return heat((scaled(values, style) - limits[0]) / (limits[1] - limits[0]), style)


@picture.register
def _(item: Slices) -> npt.NDArray[np.uint8]:
    from PIL import Image

    planes = [*planes_of(item)]
    limits = (0.0, 1.0) if item.style == "labels" else limits_of(planes, item.style)
    tallest = max(one.extent[3] - one.extent[2] for one in planes)
    panels = []
    for plane in planes:
        left, right, low, high = (_HEIGHT / tallest * place for place in plane.extent)
        size = max(1, round(right - left)), max(1, round(high - low))
        how = Image.Resampling.NEAREST if item.style == "labels" else Image.Resampling.BILINEAR
        panel = Image.fromarray(_colored(plane.values, item.style, limits)).resize(size, how)
        if item.grid == 3:
            _write_ends(panel, plane.axes)
        panels.append(panel)
    if item.style not in ("labels", "color"):
        panels.append(_bar(limits, item.style, ascii_unit(item.unit)))
    return joined(panels)


def joined(panels: Sequence["Image.Image"], gap: int = _GAP) -> npt.NDArray[np.uint8]:
    """Return pictures beside each other, so many black pixels apart, shape (height, width, 3)."""
    from PIL import Image

    height = max(one.height for one in panels)
    sheet = Image.new("RGB", (sum(one.width + gap for one in panels) - gap, height))
    left = 0
    for one in panels:
        sheet.paste(one, (left, (height - one.height) // 2))
        left += one.width + gap
    return np.asarray(sheet)


def _write_ends(panel: "Image.Image", axes: tuple[int, int]) -> None:
    (left, right), (low, high) = _ENDS[axes[0]], _ENDS[axes[1]]
    width, height = panel.size
    places = ((2, height / 2, "lm"), (width - 2, height / 2, "rm"), (width / 2, height - 2, "mb"), (width / 2, 2, "mt"))
    for text, (x, y, anchor) in zip((left, right, low, high), places, strict=True):
        _write(panel, (x, y), text, anchor, "#c0c0c0")


def _write(image: Any, place: tuple[float, float], text: str, anchor: str, fill: str, size: float = _TEXT) -> None:
    from PIL import ImageDraw

    draw = image if isinstance(image, ImageDraw.ImageDraw) else ImageDraw.Draw(image)
    draw.text(place, text, font=_font(size), fill=fill, anchor=anchor)


@functools.cache
def _font(size: float) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)


def _bar(limits: tuple[float, float], style: str, unit: str) -> "Image.Image":
    """The colors from top to bottom, with the numbers that they stand for."""
    from PIL import Image

    bar = Image.new("RGB", (_BAR + 62, _HEIGHT))
    colors = heat(np.linspace(1, 0, _HEIGHT - 40), style)
    bar.paste(Image.fromarray(np.repeat(colors[:, np.newaxis], _BAR, axis=1)), (2, 20))
    texts = [short_number(10**limit if style == "log" else limit, 3) for limit in limits]
    for text, y in ((texts[1], 20), (texts[0], _HEIGHT - 20)):
        _write(bar, (_BAR + 6, y), text, "lm", "#ffffff")
    _write(bar, (2, 1), unit, "lt", "#ffffff")
    return bar


# -- lines ------------------------------------------------------------------------------------------------------------


@picture.register
def _(item: Lines) -> npt.NDArray[np.uint8]:
    from PIL import Image, ImageDraw

    lines = [*few_lines(item)]
    if not lines:
        return np.zeros((_HEIGHT // 4, _HEIGHT, 3), np.uint8)
    every = np.concatenate(lines)
    low, high = every.min(axis=0) - 2.0, every.max(axis=0) + 2.0
    scale = _SMOOTH * _HEIGHT / float((high - low)[[1, 2]].max())
    panels = []
    for across, up in VIEWS:
        size = tuple(max(8 * _SMOOTH, math.ceil(scale * (high - low)[n])) for n in (across, up))
        panel = Image.new("RGB", (size[0], size[1]))
        draw = ImageDraw.Draw(panel)
        toward = ({0, 1, 2} - {across, up}).pop()
        for line in sorted(lines, key=lambda one: one[:, toward].mean() * (-1 if toward == 1 else 1)):
            pieces = np.abs(np.diff(line, axis=0))
            colors = (40 + 215 * pieces / np.maximum(np.linalg.norm(pieces, axis=1, keepdims=True), 1e-9)).astype(int)
            places = np.stack([line[:, across] - low[across], high[up] - line[:, up]], axis=1) * scale
            for n, color in enumerate(colors):
                draw.line((*places[n], *places[n + 1]), fill=tuple(map(int, color)), width=_SMOOTH)
        panel = panel.resize((panel.width // _SMOOTH, panel.height // _SMOOTH), Image.Resampling.LANCZOS)
        _write_ends(panel, (across, up))
        panels.append(panel)
    return joined(panels)


def few_lines(item: Lines) -> Iterator[Array]:
    """Yield so many lines, evenly chosen, with so many points, as can be distinguished."""
    count = len(item.offsets) - 1
    for n in np.unique(np.linspace(0, count - 1, min(count, _MOST_LINES)).astype(int)) if count else ():
        first, last = int(item.offsets[n]), int(item.offsets[n + 1])
        if last - first > 1:
            chosen = np.unique(np.linspace(first, last - 1, min(last - first, _MOST_POINTS)).astype(int))
            yield np.asarray(item.points[chosen], float)


# -- curves and matrices ----------------------------------------------------------------------------------------------


@picture.register
def _(item: Curves) -> npt.NDArray[np.uint8]:
    from PIL import Image, ImageDraw

    width, height, frame = 620, 270, (64, 24, 420, 225)
    sheet = Image.new("RGB", (_SMOOTH * width, _SMOOTH * height), "white")
    draw = ImageDraw.Draw(sheet, "RGBA")
    lines = [(one, scaled(np.asarray(one.y, float), "log" if item.log else "")) for one in item.lines[:_MOST_CURVES]]
    xs = _range([np.asarray(one.x, float) for one, _ in lines])
    ys = _range([y for _, y in lines], DECADES if item.log else None)

    def at(x: Array, y: Array) -> list[tuple[float, float]]:
        left, top, right, bottom = (_SMOOTH * edge for edge in frame)
        places = np.stack([left + (x - xs[0]) / (xs[1] - xs[0]) * (right - left),
                           bottom - (y - ys[0]) / (ys[1] - ys[0]) * (bottom - top)], axis=1)  # fmt: skip
        return [(float(a), float(np.clip(b, top, bottom))) for a, b in places]

    _draw_axes(draw, frame, xs, ys, item)
    for n, (line, y) in enumerate(lines):
        color = COLORS[n % len(COLORS)]
        known = np.flatnonzero(np.isfinite(y) & np.isfinite(np.asarray(line.x, float)))
        known = known[np.unique(np.linspace(0, len(known) - 1, min(len(known), _MOST_VALUES)).astype(int))]
        x = np.asarray(line.x, float)[known]
        if line.error is not None and not item.log:
            error = np.nan_to_num(np.asarray(line.error, float)[known])
            band = [*at(x, y[known] + error), *at(x, y[known] - error)[::-1]]
            draw.polygon(band, fill=f"{color}40") if len(band) > 3 else None
        draw.line(at(x, y[known]), fill=color, width=2 * _SMOOTH)
        _write(draw, (_SMOOTH * 428, _SMOOTH * (26 + 17 * n)), line.name[:28], "lt", color, _SMOOTH * _TEXT)
    return np.asarray(sheet.resize((width, height), Image.Resampling.LANCZOS))


def _range(values: Sequence[Array], decades: float | None = None) -> tuple[float, float]:
    """Least and largest of the finite values; with decades, no more than so many below the largest."""
    every = np.concatenate([*values, np.zeros(0)])
    every = every[np.isfinite(every)]
    if not len(every):
        return 0.0, 1.0
    low, high = float(every.min()), float(every.max())
    low = low if decades is None else max(low, high - decades)
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _draw_axes(
    draw: "ImageDraw.ImageDraw",
    frame: tuple[int, int, int, int],
    xs: Sequence[float],
    ys: Sequence[float],
    item: Curves,
) -> None:
    left, top, right, bottom = (_SMOOTH * edge for edge in frame)
    draw.rectangle((left, top, right, bottom), outline="#808080", width=_SMOOTH)
    for share in (0.0, 0.5, 1.0):
        x, y = xs[0] + share * (xs[1] - xs[0]), ys[0] + share * (ys[1] - ys[0])
        place = left + share * (right - left), bottom - share * (bottom - top)
        texts = short_number(x, 3), short_number(10**y if item.log else y, 3)
        _write(draw, (place[0], bottom + 6), texts[0], "mt", "#404040", _SMOOTH * _TEXT)
        _write(draw, (left - 8, place[1]), texts[1], "rm", "#404040", _SMOOTH * _TEXT)
    names = [f"{name} ({ascii_unit(unit)})" if unit else name for name, unit in (item.x, item.y)]
    _write(draw, ((left + right) / 2, bottom + 44), names[0], "mt", "#404040", _SMOOTH * _TEXT)
    _write(draw, (left, top - 8), names[1], "lb", "#404040", _SMOOTH * _TEXT)


@picture.register
def _(item: Matrix) -> npt.NDArray[np.uint8]:
    from PIL import Image

    values = np.asarray(item.values, float)
    known = values[np.isfinite(values)]
    limits = min(0.0, float(known.min(initial=0.0))), float(known.max(initial=0.0)) or 1.0
    share = (values - limits[0]) / (limits[1] - limits[0])
    tall = round(_HEIGHT * max(0.2, min(1.0, values.shape[0] / max(1, values.shape[1]))))
    grid = Image.fromarray(heat(share)).resize((_HEIGHT, tall), Image.Resampling.NEAREST)
    return joined([grid, _bar(limits, "heat", ascii_unit(item.unit))])
