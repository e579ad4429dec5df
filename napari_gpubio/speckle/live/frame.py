"""A raw frame on its way from a source to a result, and what may be one."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.errors import InvalidInput

Pixels = npt.NDArray[Any]
CAMERA_TYPES = (np.dtype(np.uint8), np.dtype(np.uint16))
_MOST = np.iinfo(np.uint16).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One raw frame.

    Parameters
    ----------
    pixels
        Shape (H, W), uint8 or uint16. It may be memory that is used again for the next frame: copy what you keep.
    number
        Counts the frames of the source from 0; a gap tells of frames that were lost before they came here.
    timestamp_s
        When it was taken, in seconds since the source began, on the source's own clock.
    arrived_s
        When it came here, in seconds on the loop's clock.
    """

    pixels: Pixels
    number: int
    timestamp_s: float
    arrived_s: float


def camera_pixels(array: npt.ArrayLike, what: str) -> Pixels:
    """Return a frame's pixels as uint8 or uint16, shape (H, W), without a change of any value.

    Parameters
    ----------
    array
        The frame. Other integers become uint16 where they fit.
    what
        The frame as the user knows it, for the error.

    Raises
    ------
    InvalidInput
        If it is not one channel of integers of 8 to 16 bits.
    """
    pixels = np.asarray(array)
    if pixels.ndim != 2 or 0 in pixels.shape:
        color = "; it looks like a color image" if pixels.ndim == 3 and pixels.shape[-1] in (3, 4) else ""
        raise InvalidInput(f"{what} has shape {pixels.shape}{color}; give frames of one channel, (height, width)")
    check_camera_type(pixels.dtype, what)
    if pixels.dtype in CAMERA_TYPES:
        return pixels
    if pixels.min() < 0 or pixels.max() > _MOST:
        raise InvalidInput(
            f"{what} has values from {pixels.min()} to {pixels.max()}; give raw frames of 8 to 16 bits (0 to {_MOST})"
        )
    return pixels.astype(np.uint16)


def check_camera_type(dtype: npt.DTypeLike, what: str) -> None:
    """Raise InvalidInput unless the type is one of integers."""
    if np.dtype(dtype).kind not in "iu":
        raise InvalidInput(
            f"{what} holds {np.dtype(dtype)} values; live imaging needs raw integers of 8 to 16 bits, "
            "for instance stack.round().astype('uint16')"
        )


def bits_of(dtype: npt.DTypeLike) -> int:
    """Bits of the type that frames of this type are handed on in: 8 or 16."""
    return 8 if np.dtype(dtype) == np.uint8 else 16
