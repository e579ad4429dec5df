"""Gray frames from videos: AVI, MP4 and others that FFmpeg decodes.

Needs PyAV: ``pip install "napari-gpubio[video]"``.
"""

import itertools
import re
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.core.short_repr import ShortRepr
from napari_gpubio.core.volumes import check_expansion
from napari_gpubio.speckle.io.samples import Choice, one_sample
from napari_gpubio.speckle.stored import Frames, StoredFrames

Array = npt.NDArray[Any]
VIDEO_SUFFIXES = (".avi", ".mp4", ".mov", ".mkv")
_LOSSLESS = ("rawvideo", "ffv1", "huffyuv", "ffvhuff", "utvideo", "png", "v210", "magicyuv", "lagarith", "qtrle")
_DEEP, _DEEP_RGB = "gray16le", "rgb48le"  # of more than 8 bits
_DEEP_COLORS = re.compile(r"(?:p|rgb|bgr|rgba)(?:9|10|12|14|16|48|64)(?:le|be)$")
_UNSTATED, _TELEVISION = 0, 1  # FFmpeg's numbers for ranges of brightness
_BRIGHTNESS = ("yuv4", "yuva", "nv", "uyvy", "yuyv", "yvyu")  # kinds of pixels that are brightness and two differences
_UNEVEN = 0.1  # of the time between two frames, and of the frames
_one_at_a_time = threading.Lock()  # whether FFmpeg logs is a setting of the process


@dataclass
class _Video(ShortRepr):
    """What is decoded of a video, and what its container says."""

    kind: str  # of its pixels
    codec: str
    count: int  # of frames, 0: not known
    tick_s: float
    frames: list[Array] = field(default_factory=list)  # if they are kept
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    places: list[int | None] = field(default_factory=list)  # of frames in time, ticks
    damaged: set[int | None] = field(default_factory=set)  # places of frames that are not as they were written
    end_s: float | None = None  # of the last frame

    @property
    def is_gray(self) -> bool:
        return self.kind.startswith("gray")

    @property
    def shown(self) -> str:
        """The kind that its pixels are turned into, of 8 or 16 bits."""
        if self.is_gray:
            return "gray" if self.kind == "gray" else _DEEP
        return _DEEP_RGB if _DEEP_COLORS.search(self.kind) else "rgb24"


def open_video(file: Path, choice: Choice, *, whole: bool) -> Frames:
    """Open frames, shape (T, Y, X), uint8 or uint16.

    Frames that the decoder finds damaged, and those that are decoded from them, are left out and counted.

    Parameters
    ----------
    file
        An existing file.
    choice
        The color to take, where they differ.
    whole
        Whether all frames are read at once; otherwise they are decoded here to find those that are damaged, and again,
        one after another, when they are needed.

    Raises
    ------
    InvalidInput
        If PyAV is not installed, or nothing can be decoded.
    """
    try:
        import av.logging
    except ImportError as error:
        raise InvalidInput(
            f'{file.name} is a video, which needs PyAV; run: pip install "napari-gpubio[video]"'
        ) from error
    with _one_at_a_time, av.logging.Capture() as log:
        before = av.logging.get_level()
        av.logging.set_level(av.logging.ERROR)  # damage that FFmpeg covers with other pixels is only logged
        try:
            video = _decoded(file, log, keeps=whole)
        except InvalidInput:
            raise
        except Exception as error:  # PyAV raises many kinds on damaged files
            why = log[-1][2].strip() if log else f"{type(error).__name__}: {str(error)[:200]}"
            raise InvalidInput(f"{file.name} cannot be decoded as a video ({why}); copy it again") from error
        finally:
            av.logging.set_level(before)
    good = [number for number, place in enumerate(video.places) if place not in video.damaged]
    good = good or list(range(len(video.places)))  # there are no better ones
    shapes = {video.shapes[number] for number in good}
    if len(shapes) != 1:
        raise InvalidInput(f"{file.name} has {len(good)} frames, which are not of one size; save them again")
    _note_times(video, len(good), [place for number in good if (place := video.places[number]) is not None])
    if video.codec not in _LOSSLESS:
        note(f"its frames are compressed by {video.codec}, which changes speckle contrast where it loses detail")
    if video.is_gray and video.kind not in ("gray", _DEEP):
        note(f"its values ({video.kind}) are scaled to 16 bits")
    choice.check_only("plane", *(["channel"] if video.is_gray else []))
    dtype = np.uint16 if video.shown in (_DEEP, _DEEP_RGB) else np.uint8
    stack: Frames = (
        np.stack([video.frames[number] for number in good])
        if whole
        else StoredFrames((len(good), *shapes.pop()), dtype, _Forwards(file, video.shown, good).read)
    )
    return stack if video.is_gray else one_sample(stack, stack.shape[-1], choice)


class _Forwards:
    """Frames of a video that is decoded from one to the next, and from its beginning for what comes before them.

    Parameters
    ----------
    file
        The video.
    shown
        Kind of pixels.
    numbers
        Those of the frames, as they are decoded.
    """

    def __init__(self, file: Path, shown: str, numbers: list[int]) -> None:
        self._file, self._shown, self._numbers = file, shown, numbers
        self._place, self._frames = 0, self._decode()

    def read(self, first: int, end: int) -> Array:
        """Return frames."""
        if first < self._place:
            self._place, self._frames = 0, self._decode()
        found = list(itertools.islice(self._frames, first - self._place, end - self._place))
        self._place = end
        return np.stack([frame.to_ndarray(format=self._shown) for frame in found])

    def _decode(self) -> Iterator[Any]:
        import av

        wanted = set(self._numbers)
        with av.open(str(self._file)) as container:
            stream = container.streams.video[0]
            stream.codec_context.thread_count = 1
            number = 0
            for packet in container.demux(stream):
                found = list[Any]()
                with suppress(av.FFmpegError):  # it is one of those that are left out
                    found = packet.decode()
                for frame in found:
                    if number in wanted:
                        yield frame
                    number += 1


def _decoded(file: Path, log: list[Any], *, keeps: bool) -> _Video:
    """Decode what can be decoded; ``log`` has what FFmpeg tells of the rest."""
    import av

    with av.open(str(file)) as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        context.thread_count = 1  # what another one logs would not be heard
        video = _Video(context.pix_fmt or "", context.name, stream.frames, float(stream.time_base or 0))
        if container.duration and len(container.streams) == 1:
            video.end_s = container.duration / av.time_base
        is_spoiled = False
        try:
            for packet in container.demux(stream):
                logged, found = len(log), list[Any]()
                try:
                    found = packet.decode()
                    is_bad = packet.is_corrupt or len(log) > logged
                except av.FFmpegError:
                    is_bad = True
                is_spoiled = is_bad or (is_spoiled and not packet.is_keyframe)
                if is_spoiled and packet.size:  # the last packet is an empty one
                    video.damaged.add(packet.pts)
                for frame in found:
                    pixels = frame.to_ndarray(format=video.shown)
                    video.shapes.append(pixels.shape)
                    video.places.append(frame.pts)
                    if keeps:
                        video.frames.append(pixels)
                        check_expansion(file, pixels.nbytes * len(video.frames))
        except av.FFmpegError as error:
            if not video.places:
                raise
            log.append((0, container.format.name, str(error)))
        if not video.places:
            raise ValueError("no frame can be decoded")
        for text in dict.fromkeys(text.strip()[:100] for _, name, text in log if name == container.format.name):
            note(f"it is damaged or cut off, and {len(video.places)} frames could be read ({text})")
        if video.kind.startswith(_BRIGHTNESS) and context.color_range == _UNSTATED:
            note("it does not say how bright its values are; 16 is taken as black and 235 as white, as is usual")
        elif video.is_gray and context.color_range == _TELEVISION:
            note("16 is black and 235 is white in it; values are as stored, so 16 belongs to the dark level")
    return video


def _note_times(video: _Video, count: int, places: list[int]) -> None:
    """Say how many of the frames are not read, as far as that is known, and that their times are not even."""
    seconds = np.array(places) * video.tick_s
    steps = np.diff(seconds)
    step = float(np.median(steps)) if len(steps) else 0.0
    odd = np.abs(steps - step) > min(1.01 * video.tick_s, 0.5 * step) + _UNEVEN * step  # ticks are rounded
    declared, damaged = video.count, 0 if count == len(video.places) else len(video.damaged)
    if not declared and step and odd.mean() < _UNEVEN and video.end_s is not None:  # gaps, not frames of any length
        declared = round((video.end_s - seconds[0]) / step)
    if (total := max(declared, count + damaged)) > count:
        note(f"{total - count} of {total} frames are missing or damaged in the file; they are left out")
    if odd.any():
        note(
            f"the time between its frames is not even ({1e3 * steps.min():.4g} to {1e3 * steps.max():.4g} ms); time "
            "courses take one rate for all"
        )
