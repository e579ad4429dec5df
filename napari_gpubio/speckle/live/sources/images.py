"""Frames from image files, which may still be being written."""

from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from PIL import Image

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live.frame import Pixels, camera_pixels

TIFF_SUFFIXES, PNG_SUFFIXES = (".tif", ".tiff"), (".png",)
IMAGE_SUFFIXES = TIFF_SUFFIXES + PNG_SUFFIXES


class Unreadable(Exception):
    """The file cannot be read (yet): it is half-written or damaged."""


def read_frames(path: Path) -> list[Pixels]:
    """Read all frames of a TIFF or PNG file, each of shape (H, W), uint8 or uint16.

    Raises
    ------
    Unreadable
        If the file is half-written or damaged.
    InvalidInput
        If it is whole, and its content is no raw frame (color, floats).
    """
    try:
        arrays = _tiff_pages(path) if path.suffix.lower() in TIFF_SUFFIXES else [_png(path)]
    except InvalidInput:
        raise
    except Exception as error:  # the readers' ways to say "damaged" are beyond counting
        raise Unreadable(f"{path.name} cannot be read ({error})") from error
    if not arrays:
        raise Unreadable(f"{path.name} holds no frame")
    return [camera_pixels(array, path.name) for array in arrays]


def _tiff_pages(path: Path) -> list[Any]:
    with tifffile.TiffFile(path) as file:
        return [np.asarray(page.asarray()) for page in file.pages]


def _png(path: Path) -> Any:
    with Image.open(path) as image:
        if image.mode not in ("L", "I;16", "I;16B", "I"):
            raise InvalidInput(f"{path.name} is a PNG of mode {image.mode}; give gray frames of 8 or 16 bits")
        return np.asarray(image)
