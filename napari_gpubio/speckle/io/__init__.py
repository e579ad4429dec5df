"""Files of frames, maps, regions and time courses: TIFF, videos, raw files of UT Austin's software, and CSV."""

from napari_gpubio.speckle.io.frames import is_raw, open_frames, read_frames, read_raw
from napari_gpubio.speckle.io.regions import Regions, open_regions, read_regions, write_regions
from napari_gpubio.speckle.io.tiff import READ_TIFF_SUFFIXES, TIFF_SUFFIXES, look_at_tiff
from napari_gpubio.speckle.io.tiff_pages import TiffLook
from napari_gpubio.speckle.io.video import VIDEO_SUFFIXES
from napari_gpubio.speckle.io.writing import (
    MapFile,
    write_beats_csv,
    write_curves_csv,
    write_maps,
    write_pulsatility_csv,
)

__all__ = [
    "READ_TIFF_SUFFIXES",
    "TIFF_SUFFIXES",
    "VIDEO_SUFFIXES",
    "MapFile",
    "Regions",
    "TiffLook",
    "is_raw",
    "look_at_tiff",
    "open_frames",
    "open_regions",
    "read_frames",
    "read_raw",
    "read_regions",
    "write_beats_csv",
    "write_curves_csv",
    "write_maps",
    "write_pulsatility_csv",
    "write_regions",
]
