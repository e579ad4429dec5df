"""Gray frames of what pixels hold: one of several channels or colors, without what belongs to the screen."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import note
from napari_gpubio.speckle.stored import Frames, each_frame, turned

Array = npt.NDArray[Any]
_MIN_IS_WHITE, _RGB, _PALETTE, _YCBCR, _FILTERS = 0, 2, 3, 6, 32803  # photometric interpretations of TIFF
_NO_INTENSITY = {5: "shares of inks (CMYK)", 8: "CIE L*a*b*", 9: "CIE L*a*b*", 10: "CIE L*a*b*"}
_MAY_LOSE = ("JPEG", "WEBP", "JPEGXL", "LERC", "APERIO", "JPEGXR")  # names of compressions begin so
_COLORS = ("red", "green", "blue")
_CALIBRATION = re.compile(r"^(cf|c0|c1)=(\S+)\s*$", re.MULTILINE)  # of ImageJ: a function, 0: a line; coefficients
_MAX_NAMED = 6


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What to take of a file that has more than frames of one channel, counted from 0.

    None takes the first, and of colors the brightest, with a note.
    """

    channel: int | None = None
    plane: int | None = None

    def take(self, what: str, count: int) -> int:
        """Return which ``channel`` or ``plane`` of so many to take; InvalidInput if there is no such one."""
        chosen: int | None = getattr(self, what)
        if chosen is None:
            note(f"of its {count} {what}s the first is taken; {what}= takes another one")
            return 0
        if not 0 <= chosen < count:
            there = "there is one; leave it out" if count == 1 else f"there are {count}, counted from 0; choose one"
            raise InvalidInput(f"{what} is {chosen}, and {there}")
        return chosen

    def check_only(self, *names: str) -> None:
        """Check that no other than the first ``channel`` or ``plane`` is wanted of what has one; InvalidInput if so."""
        for what in names:
            if getattr(self, what):
                self.take(what, 1)


def gray_frames(frames: Frames, page: Any, choice: Choice, *, is_imagej: bool, colors: bool) -> Frames:
    """Return frames (T, Y, X) of pages of TIFF, which stay in their file if they are there.

    Parameters
    ----------
    frames
        Shape (T, *page.shape).
    page
        A page of tifffile that stands for all.
    choice
        Which channel to take of several.
    is_imagej
        Whether ImageJ wrote the file: it keeps values as they are measured, whatever they look like on the screen.
    colors
        Whether colors may be turned to gray.

    Raises
    ------
    InvalidInput
        If the pixels are no intensities.
    """
    meaning, name = int(page.photometric), str(getattr(page.compression, "name", ""))
    if meaning in _NO_INTENSITY:
        raise InvalidInput(f"its pixels are {_NO_INTENSITY[meaning]}, not intensities; give gray frames")
    if frames.dtype.kind == "b":
        frames = turned(frames, lambda some: some.astype(np.uint8), copies=True)
    if frames.dtype.kind not in "uif":
        raise InvalidInput(f"it holds {frames.dtype} of shape {page.shape}; give gray frames")
    if name.startswith(_MAY_LOSE):
        note(f"its frames are compressed by {name}, which changes speckle contrast where it loses detail")
    if meaning == _PALETTE:
        note("its colors are those of the screen; the numbers of the colors are taken as intensities")
    if meaning == _FILTERS:
        note("its pixels lie behind a mosaic of color filters; spatial contrast is that of the filters, too")
    if "S" in page.axes:
        if page.axes.index("S") == 0 and meaning == _RGB:
            note("its colors are in planes of their own, as tifffile writes 3 or 4 frames without photometric=")
        axis = 1 + page.axes.index("S")
        frames = turned(frames, lambda some: np.moveaxis(some, axis, -1))
        frames = one_sample(frames, page.samplesperpixel - len(page.extrasamples), choice, colors=colors)
    if meaning == _MIN_IS_WHITE and not is_imagej and frames.dtype.kind == "u":
        top = frames.dtype.type(2**page.bitspersample - 1)
        frames = turned(frames, lambda some: top - some, copies=True)
        note(f"0 is white in this file; values are subtracted from {top}")
    return frames


def one_sample(samples: Frames, bright: int, choice: Choice, *, colors: bool = True) -> Frames:
    """Return one of the samples of pixels, shape (T, Y, X, S), the first ``bright`` of which are channels or colors.

    Raises
    ------
    InvalidInput
        If they are colors that differ, and these are not allowed.
    """
    taken = _which_sample(samples, bright, choice, colors=colors)
    return turned(samples, lambda some: some[..., taken])


def _which_sample(samples: Frames, bright: int, choice: Choice, *, colors: bool) -> int:
    if choice.channel is not None:
        return choice.take("channel", samples.shape[-1])
    if extra := samples.shape[-1] - bright:
        note(f"{extra} extra sample{'s' * (extra > 1)} of each pixel (opacity, for instance) left out")
    if bright <= 1:
        return 0
    if all(np.array_equal(one[..., 0], one[..., other]) for one in each_frame(samples) for other in range(1, bright)):
        note(f"its {bright} colors are equal; one of them is taken")
        return 0
    if not colors:
        raise InvalidInput("it is in colors; save it in gray")
    sums = sum(one[..., :bright].sum(axis=(0, 1), dtype=np.float64) for one in each_frame(samples))
    brightest = int(np.argmax(sums))
    word = _COLORS[brightest] if bright == len(_COLORS) else f"channel {brightest}"
    note(
        f"it is in {bright} colors; the brightest ({word}) is taken, and channel= takes another one; contrast is too "
        "low where the camera interpolated colors"
    )
    return brightest


def calibrated(frames: Frames, description: str) -> Frames:
    """Frames as ImageJ's calibration has them, which is how it stores negative integers; only a line is applied."""
    fields = dict(_CALIBRATION.findall(description))
    try:
        offset, slope = float(fields["c0"]), float(fields["c1"])
    except (KeyError, ValueError):
        return frames
    if (offset, slope) == (0.0, 1.0):
        return frames
    if fields.get("cf") != "0" or not math.isfinite(offset + slope):
        note("ImageJ's calibration of its values is no line, and was not applied")
        return frames
    note(f"ImageJ's calibration of its values was applied: {offset:g} + {slope:g} x")
    if slope == 1 and offset.is_integer() and frames.dtype.kind in "ui" and abs(offset) < 2**31:
        most = np.iinfo(np.uint16).max
        is_small = all(one.min() >= -offset and one.max() <= most - offset for one in each_frame(frames))
        kind = np.uint16 if is_small else np.float32
        return turned(frames, lambda some: (some.astype(np.int64) + int(offset)).astype(kind), copies=True)
    return turned(frames, lambda some: (offset + slope * some.astype(np.float64)).astype(np.float32), copies=True)


def lost_text(lost: Sequence[int], count: int) -> str:
    """Say which frames, counted from 0, of how many are left out."""
    named = ", ".join(map(str, lost[:_MAX_NAMED])) + (", …" if len(lost) > _MAX_NAMED else "")
    return f"{len(lost)} of {count} frames ({named}) are missing or damaged in the file; they are left out"
