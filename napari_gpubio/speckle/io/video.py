"""Gray frames from videos: AVI, MP4 and others that FFmpeg decodes.

Needs PyAV: ``pip install "napari-gpubio[video]"``.
"""

import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.core.volumes import check_expansion
from napari_gpubio.speckle.io.samples import Choice, one_sample

Array = npt.NDArray[Any]
VIDEO_SUFFIXES = (".avi", ".mp4", ".mov", ".mkv")
_LOSSLESS = ("rawvideo", "ffv1", "huffyuv", "ffvhuff", "utvideo", "png", "v210", "magicyuv", "lagarith", "qtrle")
_DEEP = "gray16le"  # of more than 8 bits
_DEEP_COLORS = re.compile(r"(?:p|rgb|bgr|rgba)(?:9|10|12|14|16|48|64)(?:le|be)$")
_UNSTATED, _TELEVISION = 0, 1  # FFmpeg's numbers for ranges of brightness
_BRIGHTNESS = ("yuv4", "yuva", "nv", "uyvy", "yuyv", "yvyu")  # kinds of pixels that are brightness and two differences
_UNEVEN = 0.1  # of the time between two frames, and of the frames
_one_at_a_time = threading.Lock()  # whether FFmpeg logs is a setting of the process


@dataclass
class _Video:
    """What is decoded of a video, and what its container says."""

    kind: str  # of its pixels
    codec: str
    count: int  # of frames, 0: not known
    tick_s: float
    frames: list[Array] = field(default_factory=list)
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
        return "rgb48le" if _DEEP_COLORS.search(self.kind) else "rgb24"


def read_video(file: Path, choice: Choice) -> Array:
    """Read frames, shape (T, Y, X), uint8 or uint16.

    Frames that the decoder finds damaged, and those that are decoded from them, are left out and counted.

    Parameters
    ----------
    file
        An existing file.
    choice
        The color to take, where they differ.

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
            video = _decoded(file, log)
        except InvalidInput:
            raise
        except Exception as error:  # PyAV raises many kinds on damaged files
            why = log[-1][2].strip() if log else f"{type(error).__name__}: {str(error)[:200]}"
            raise InvalidInput(f"{file.name} cannot be decoded as a video ({why}); copy it again") from error
        finally:
            av.logging.set_level(before)
    whole = [number for number, place in enumerate(video.places) if place not in video.damaged]
    whole = whole or list(range(len(video.places)))  # there are no better ones
    frames = [video.frames[number] for number in whole]
    if len({frame.shape for frame in frames}) != 1:
        raise InvalidInput(f"{file.name} has {len(frames)} frames, which are not of one size; save them again")
    _note_times(video, len(frames), [place for number in whole if (place := video.places[number]) is not None])
    if video.codec not in _LOSSLESS:
        note(f"its frames are compressed by {video.codec}, which changes speckle contrast where it loses detail")
    if video.is_gray and video.kind not in ("gray", _DEEP):
        note(f"its values ({video.kind}) are scaled to 16 bits")
    choice.check_only("plane", *(["channel"] if video.is_gray else []))
    stack = np.stack(frames)
    return stack if video.is_gray else one_sample(stack, stack.shape[-1], choice)


def _decoded(file: Path, log: list[Any]) -> _Video:
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
                    video.frames.append(frame.to_ndarray(format=video.shown))
                    video.places.append(frame.pts)
                    check_expansion(file, video.frames[-1].nbytes * len(video.frames))
        except av.FFmpegError as error:
            if not video.frames:
                raise
            log.append((0, container.format.name, str(error)))
        if not video.frames:
            raise ValueError("no frame can be decoded")
        for text in dict.fromkeys(text.strip()[:100] for _, name, text in log if name == container.format.name):
            note(f"it is damaged or cut off, and {len(video.frames)} frames could be read ({text})")
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
    declared, damaged = video.count, 0 if count == len(video.frames) else len(video.damaged)
    if not declared and step and odd.mean() < _UNEVEN and video.end_s is not None:  # gaps, not frames of any length
        declared = round((video.end_s - seconds[0]) / step)
    if (total := max(declared, count + damaged)) > count:
        note(f"{total - count} of {total} frames are missing or damaged in the file; they are left out")
    if odd.any():
        note(
            f"the time between its frames is not even ({1e3 * steps.min():.4g} to {1e3 * steps.max():.4g} ms); time "
            "courses take one rate for all"
        )
