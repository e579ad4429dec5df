"""Where the inputs of operations come from: files and arrays of frames and of regions."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from napari_gpubio.core.operations.records import File, Held, Reading
from napari_gpubio.core.operations.stores import STORE, Kind, Store, file, register_kind
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part
from napari_gpubio.speckle.io import TIFF_SUFFIXES, Regions, open_frames, open_regions, write_regions
from napari_gpubio.speckle.model import Recording
from napari_gpubio.speckle.stored import each_frame


@dataclass(frozen=True, kw_only=True)
class OpenFrames(Reading, verb="open-frames", makes={"recording": Recording}):
    """Open the frames of a camera, which stay in their files until they are needed."""

    file: File = part("File", "TIFF, folder of TIFF files of one frame each, video, or raw file of UT Austin.")
    channel: int | None = param(None, "Channel", "Channel or color of the file, from 0.", minimum=0, maximum=10_000)
    plane: int | None = param(
        None, "Plane", "Plane along z of the file, from 0.", minimum=0, maximum=10_000, advanced=True
    )

    @property
    def title(self) -> str:
        """Name of the file."""
        return Path(self.file.path).stem

    @classmethod
    def at(cls, path: str | Path, **options: Any) -> "OpenFrames":
        """Return the operation that opens frames as they are now."""
        return cls(file=file(path), **options)

    def read(self, data: Any) -> Recording:
        """Open them."""
        return Recording(open_frames(data.file, channel=self.channel, plane=self.plane))


@dataclass(frozen=True, kw_only=True)
class HeldFrames(Reading, verb="held-frames", makes={"recording": Recording}):
    """Frames that no file holds, such as an array from Python."""

    array: Held = part("Frames", "Shape (frames, y, x), or (y, x).")
    name: str = param("frames", "Name", "As people know them.", compare=False)

    @property
    def title(self) -> str:
        """Name of the frames."""
        return self.name

    @classmethod
    def of(cls, frames: npt.ArrayLike, name: str = "frames", store: Store = STORE) -> "HeldFrames":
        """Return the operation of frames as they are now, which are copied."""
        return cls(array=store.hold(np.asarray(frames)), name=name)

    def read(self, data: Any) -> Recording:
        """Take them from where they are held."""
        return Recording(data.array)


@dataclass(frozen=True, kw_only=True)
class OpenRegions(Reading, verb="open-regions", makes={"regions": Regions}):
    """Open regions of maps."""

    file: File = part("File", "Labels (.tif, .nii), or shapes that napari saved (.csv, in pixels).")

    @property
    def title(self) -> str:
        """Name of the file."""
        return Path(self.file.path).stem

    @classmethod
    def at(cls, path: str | Path) -> "OpenRegions":
        """Return the operation that opens regions as they are now."""
        return cls(file=file(path))

    def read(self, data: Any) -> Regions:
        """Open them."""
        return open_regions(data.file)


@dataclass(frozen=True, kw_only=True)
class HeldRegions(Reading, verb="held-regions", makes={"regions": Regions}):
    """Regions that no file holds, such as drawn ones."""

    pixels: Held = part("Pixels", "Of each region, shape (regions, y, x): not 0.")
    names: tuple[str, ...] = part("Names", "One for each.")

    @property
    def title(self) -> str:
        """What they are."""
        return "regions"

    @classmethod
    def of(cls, regions: Any, store: Store = STORE) -> "HeldRegions":
        """Return the operation of regions, pixels (Y, X) by name."""
        pixels = np.stack([np.asarray(one) != 0 for one in regions.values()]).astype(np.uint8)
        return cls(pixels=store.hold(pixels), names=tuple(map(str, regions)))

    def read(self, data: Any) -> Regions:
        """Take them from where they are held."""
        return Regions(pixels=dict(zip(self.names, data.pixels != 0, strict=True)))


register_kind(
    Kind(
        Recording,
        counts=lambda one: (tuple(one.frames.shape), each_frame(one.frames)),
        opens=OpenFrames,
    )
)
register_kind(
    Kind(
        Regions,
        counts=lambda one: (one.pixels, one.outlines),
        endings=TIFF_SUFFIXES,
        write=lambda regions, path, _: write_regions(path, regions.pixels),
        opens=OpenRegions,
    )
)
