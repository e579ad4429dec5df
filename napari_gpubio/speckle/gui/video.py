"""Maps as a video.

An animated GIF needs no further package, and loses little: its 256 colors are those of the color map. With the package
imageio-ffmpeg an mp4 can be written as well. PNG files are for other programs.
"""

import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont
from qtpy.QtWidgets import QWidget

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.files import atomic_write
from napari_gpubio.core.napari_io import carried
from napari_gpubio.core.numbers import short_number
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.steps import Step
from napari_gpubio.gui.file_dialogs import save_path
from napari_gpubio.speckle.gui.panel_layers import LIVE_MAP, PANEL
from napari_gpubio.speckle.gui.run import StackResult

Array = npt.NDArray[Any]
MP4, GIF, PNG = ".mp4", ".gif", ".png"
NO_MP4 = (
    "mp4 needs ffmpeg; add it with pip install imageio-ffmpeg (68 MB, ffmpeg's own license) and start napari again, or "
    "write a .gif"
)
_COLORS = 254  # of a map: black and white are kept for what lies around it
_BLACK, _WHITE = 254, 255
_MIN_GIF_MS = 20  # viewers slow a faster animation down
_STRIP, _BAR = 30, 8  # pixels below the image for the bar and its numbers, and of the bar


@dataclass(frozen=True, eq=False, kw_only=True)
class Video(ShortRepr):
    """Maps (T, Y, X), and how they are displayed."""

    maps: Any
    limits: tuple[float, float]  # values of the first and the last color
    colors: Array  # RGB from 0 to 1, (n, 3), evenly from the first to the last color
    title: str
    times_s: Array | None
    rate_hz: float


def has_mp4() -> bool:
    """Whether the optional package for mp4 is installed."""
    try:
        import imageio_ffmpeg  # noqa: F401
    except ImportError:
        return False
    return True


def write_steps(path: Path, video: Video, stop: threading.Event) -> Generator[Step, None, str]:
    """Write a video of the kind that the file's ending names; returns a sentence on what was written.

    Raises
    ------
    InvalidInput
        If the ending is unknown, its package is missing, or the file cannot be written; nothing is left then.
    """
    writers = {MP4: _write_mp4, GIF: _write_gif, PNG: _write_png}
    suffix = path.suffix.lower()
    if suffix not in writers:
        raise InvalidInput(f"{path.name} is no video; let it end with .mp4, .gif or .png")
    if suffix == MP4 and not has_mp4():
        raise InvalidInput(NO_MP4)
    if suffix == PNG:
        return (yield from _write_png(path, video, stop))
    with atomic_write(path) as part:
        summary = yield from writers[suffix](part, video, stop)
        if stop.is_set():
            raise InvalidInput(f"stopped; {path.name} was not written")
    return f"{path.name} written: {len(video.maps):,} maps, {summary}"


# -- kinds of files ---------------------------------------------------------------------------------------------------


def _write_gif(part: Path, video: Video, stop: threading.Event) -> Generator[Step, None, str]:
    """All images are made first, since Pillow takes them without a chance to stop; each is a byte a pixel."""
    images = []
    for number, image in enumerate(_images(video)):
        if stop.is_set():
            return ""
        images.append(image)
        yield Step(number + 1, len(video.maps), "video")
    duration = max(_MIN_GIF_MS, 10 * round(100.0 / video.rate_hz))
    images[0].save(
        part, "GIF", save_all=True, append_images=images[1:], duration=duration, loop=0, optimize=False, disposal=1
    )
    return f"{short_number(1e3 / duration, 3)} a second"


def _write_png(path: Path, video: Video, stop: threading.Event) -> Generator[Step, None, str]:
    digits = max(4, len(str(len(video.maps) - 1)))
    for number, image in enumerate(_images(video)):
        if stop.is_set():
            return f"stopped after {number} images"
        with atomic_write(path.with_name(f"{path.stem} {number:0{digits}}.png")) as part:
            image.save(part, "PNG")
        yield Step(number + 1, len(video.maps), "images")
    return f"{len(video.maps):,} images written, {path.stem} {0:0{digits}}.png and so on"


def _write_mp4(part: Path, video: Video, stop: threading.Event) -> Generator[Step, None, str]:
    import imageio_ffmpeg

    writer = None
    try:
        for number, image in enumerate(_images(video)):
            if stop.is_set():
                return ""
            frame = np.asarray(image.convert("RGB"))
            frame = np.pad(frame, ((0, frame.shape[0] % 2), (0, frame.shape[1] % 2), (0, 0)))  # mp4: even edges
            if writer is None:
                size = (frame.shape[1], frame.shape[0])
                writer = imageio_ffmpeg.write_frames(str(part), size, fps=video.rate_hz, quality=8, macro_block_size=2)
                writer.send(None)
            writer.send(np.ascontiguousarray(frame))
            yield Step(number + 1, len(video.maps), "video")
    finally:
        if writer is not None:
            writer.close()
    return f"{short_number(video.rate_hz, 3)} a second"


# -- images ---------------------------------------------------------------------------------------------------------


def _images(video: Video) -> Iterator[Image.Image]:
    """Each map in its colors, with a bar, its limits and the time below it; one palette for all."""
    palette = _palette(video.colors)
    for number in range(len(video.maps)):
        image = Image.fromarray(_indexed(np.asarray(video.maps[number]), video.limits))
        image.putpalette(palette)
        time_s = None if video.times_s is None else float(video.times_s[number])
        _label(image, video, time_s)
        yield image


def _palette(colors: Array) -> bytes:
    places = np.linspace(0, len(colors) - 1, _COLORS).round().astype(int)
    black_and_white = bytes(3) + b"\xff" * 3
    return np.rint(255 * colors[places, :3]).astype(np.uint8).tobytes() + black_and_white


def _indexed(values: Array, limits: tuple[float, float]) -> npt.NDArray[np.uint8]:
    """Numbers of colors, with room below the map; black where there is no value."""
    low, high = limits
    with np.errstate(invalid="ignore"):
        shares = np.clip((values - low) / (high - low), 0.0, 1.0)
    numbers = np.where(np.isnan(shares), _BLACK, np.rint(np.nan_to_num(shares) * (_COLORS - 1)))
    image = np.full((values.shape[0] + _STRIP, values.shape[1]), _BLACK, np.uint8)
    image[: values.shape[0]] = numbers
    bar = np.linspace(0, _COLORS - 1, values.shape[1]).round()
    image[values.shape[0] + 2 : values.shape[0] + 2 + _BAR] = bar
    return image


def _label(image: Image.Image, video: Video, time_s: float | None) -> None:
    """Write limits, quantity and time below the bar, as far as there is room."""
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=12)
    y, width = image.height - _STRIP + _BAR + 4, image.width
    title = video.title if time_s is None else f"{video.title}   {time_s:.2f} s"
    low, high = (short_number(limit, 3) for limit in video.limits)
    draw.text((2, y), low, fill=_WHITE, font=font)
    draw.text((width - 2, y), high, fill=_WHITE, font=font, anchor="ra")
    room = width - 2 * draw.textlength(high, font=font) - 20
    if draw.textlength(title, font=font) > room and time_s is not None:
        title = f"{time_s:.2f} s"
    if draw.textlength(title, font=font) <= room:
        draw.text((width / 2, y), title, fill=_WHITE, font=font, anchor="ma")


NO_MAP = "there is no map yet; run the stack first"
NOT_A_VIDEO = (
    "the live map is a single image; record the frames, open the recording, run the stack, and make the video of its "
    "maps"
)
ONE_PICTURE = "{} is a single image; choose the maps of a stack, which follow each other"
_KINDS = ("Animated GIF (*.gif)", "PNG images (*.png)")
_MP4 = "Video, mp4 (*.mp4)"


def video_of(layer: Any | None, result: StackResult | None, rate_hz: float) -> Video:
    """Return the video of a layer of maps, with the limits and colors that it has.

    Maps of the last run have times. Raises InvalidInput if there is no map, or only a single one.
    """
    if layer is None:
        raise InvalidInput(NO_MAP)
    if layer.ndim < 3:
        is_live = carried(layer, PANEL) == LIVE_MAP
        raise InvalidInput(NOT_A_VIDEO if is_live else ONE_PICTURE.format(repr(layer.name)))
    times_s = None
    if result is not None and result.run.name == carried(layer, "source") and len(result.maps) == len(layer.data):
        times_s = result.times_s
    low, high = layer.contrast_limits
    return Video(
        maps=layer.data,
        limits=(float(low), float(high)),
        colors=np.asarray(layer.colormap.map(np.linspace(0, 1, _COLORS)))[:, :3],
        title=str(carried(layer, "title")),
        times_s=times_s,
        rate_hz=rate_hz,
    )


def ask_video_path(parent: QWidget) -> Path | None:
    """Ask where a video is to be written, and as what."""
    kinds = (_MP4, *_KINDS) if has_mp4() else (*_KINDS, _MP4)  # mp4 last where its package is missing
    return save_path(parent, "Write a video of the map", ";;".join(kinds), name="speckle")
