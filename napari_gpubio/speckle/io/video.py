"""Gray frames from videos: AVI, MP4 and others that FFmpeg decodes.

Needs imageio and PyAV: ``pip install "napari-gpubio[video]"``.
"""

import re
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


def read_video(file: Path, choice: Choice) -> Array:
    """Read frames, shape (T, Y, X), uint8 or uint16.

    Parameters
    ----------
    file
        An existing file.
    choice
        The color to take, where they differ.

    Raises
    ------
    InvalidInput
        If the packages are not installed, or nothing can be decoded.
    """
    try:
        import av  # noqa: F401 - imageio imports it when it opens a file
        import imageio.v3 as imageio
    except ImportError as error:
        raise InvalidInput(
            f'{file.name} is a video, which needs imageio and PyAV; run: pip install "napari-gpubio[video]"'
        ) from error
    frames: list[Array] = []
    try:
        with imageio.imopen(file, "r", plugin="pyav") as video:
            about, declared = video.metadata(), video.properties().n_images or 0
            kind, codec = str(about.get("video_format")), str(about.get("codec"))
            is_gray = kind.startswith("gray")
            is_deep = kind != "gray" if is_gray else _DEEP_COLORS.search(kind) is not None
            shown = (_DEEP if is_deep else "gray") if is_gray else "rgb48le" if is_deep else "rgb24"
            for frame in video.iter(format=shown, thread_count=1):
                frames.append(frame)
                check_expansion(file, frame.nbytes * len(frames))
    except InvalidInput:
        raise
    except Exception as error:  # imageio and PyAV raise many kinds on damaged files
        if not frames:
            raise InvalidInput(
                f"{file.name} cannot be decoded as a video ({type(error).__name__}: {str(error)[:200]}); copy it again"
            ) from error
        note(f"it is damaged or cut off after {len(frames)} frames, which were read ({str(error)[:100]})")
    if len({frame.shape for frame in frames}) != 1:
        raise InvalidInput(f"{file.name} has {len(frames)} frames of one size; save them again")
    if codec not in _LOSSLESS:
        note(f"its frames are compressed by {codec}, which changes speckle contrast where it loses detail")
    if declared > len(frames):
        note(f"{declared - len(frames)} of {declared} frames are missing or damaged in the file; they are left out")
    stack = np.stack(frames)
    if is_gray and kind not in ("gray", _DEEP):
        note(f"its values ({kind}) are scaled to 16 bits")
    return stack if is_gray else one_sample(stack, stack.shape[-1], choice)
