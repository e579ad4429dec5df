"""Where the inputs of operations come from: files and arrays of frames and of regions."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.operations.kinds import register_kind
from napari_gpubio.core.operations.records import File, Held, Reading
from napari_gpubio.core.operations.stores import STORE, Store
from napari_gpubio.core.parameters import param
from napari_gpubio.core.settings import part
from napari_gpubio.speckle.io import TIFF_SUFFIXES, Regions, open_frames, open_regions, write_regions
from napari_gpubio.speckle.model import Recording
from napari_gpubio.speckle.stored import each_frame


@dataclass(frozen=True, kw_only=True)
class OpenFrames(Reading, verb="open-frames", makes={"recording": Recording}):
    """Open a TIFF, a folder of them, a video or a raw file of UT Austin; frames stay there until they are needed."""

    file: File = part("File", "TIFF, folder, video or raw file.")
    channel: int | None = param(None, "Channel", "Channel or color of the file, from 0.", minimum=0, maximum=10_000)
    plane: int | None = param(
        None, "Plane", "Plane along z of the file, from 0.", minimum=0, maximum=10_000, advanced=True
    )

    def read(self, data: Any) -> Recording:
        """Open them."""
        return Recording(open_frames(data.file, channel=self.channel, plane=self.plane))


@dataclass(frozen=True, kw_only=True)
class HeldFrames(Reading, verb="held-frames", makes={"recording": Recording}):
    """Frames that no file holds, such as an array from Python."""

    array: Held = part("Frames", "Shape (frames, y, x), or (y, x).")
    name: str = param("frames", "Name", "As people know them.", compare=False)

    @classmethod
    def of(cls, frames: Any, name: str = "frames", store: Store = STORE) -> "HeldFrames":
        """Return the operation of frames as they are now; see `Store.hold` for those that are not in memory."""
        return cls(array=store.hold(frames), name=name)

    def read(self, data: Any) -> Recording:
        """Take them from where they are held."""
        return Recording(data.array)


@dataclass(frozen=True, kw_only=True)
class OpenRegions(Reading, verb="open-regions", makes={"regions": Regions}):
    """Open regions of maps: labels (.tif, .nii), or shapes that napari saved (.csv, in pixels)."""

    examples = ("open-regions shapes.csv --out regions.tif",)

    file: File = part("File", "Labels or shapes.")

    def read(self, data: Any) -> Regions:
        """Open them."""
        return open_regions(data.file)


@dataclass(frozen=True, kw_only=True)
class HeldRegions(Reading, verb="held-regions", makes={"regions": Regions}):
    """Regions that no file holds, such as drawn ones."""

    pixels: Held = part("Pixels", "Of each region, shape (regions, y, x): not 0.")
    names: tuple[str, ...] = part("Names", "One for each.")

    @classmethod
    def of(cls, regions: Any, store: Store = STORE) -> "HeldRegions":
        """Return the operation of regions, pixels (Y, X) by name."""
        each = [np.asarray(one) != 0 for one in regions.values()]
        if len(shapes := {one.shape for one in each}) != 1:
            found = f"of shapes {', '.join(map(str, shapes))}" if shapes else "not there"
            raise InvalidInput(f"the regions are {found}; give regions of the same frames")
        pixels = np.stack(each).astype(np.uint8)
        return cls(pixels=store.hold(pixels), names=tuple(map(str, regions)))

    def read(self, data: Any) -> Regions:
        """Take them from where they are held."""
        found = np.asarray(data.pixels)
        if found.ndim != 3 or not len(found) or found.dtype.kind not in "biu":
            raise InvalidInput(f"pixels is {found.dtype} of shape {found.shape}; give whole numbers (regions, y, x)")
        if len(found) != len(self.names) or len({*self.names}) != len(self.names):
            named = ", ".join(map(repr, self.names))[:100]
            raise InvalidInput(f"names is {named or 'empty'} for {len(found)} regions; give each a name of its own")
        return Regions(pixels=dict(zip(self.names, found != 0, strict=True)))


register_kind(
    Recording,
    counts=lambda one: (tuple(one.frames.shape), each_frame(one.frames)),
    opens=OpenFrames,
    shows="napari_gpubio.speckle.napari_io:layers_of_frames",
)
register_kind(
    Regions,
    counts=lambda one: (one.pixels, one.outlines),
    endings=TIFF_SUFFIXES,
    write=lambda regions, path, _: write_regions(path, regions.pixels),
    opens=OpenRegions,
)
