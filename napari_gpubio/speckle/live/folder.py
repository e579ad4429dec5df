"""Source that watches a folder to which another program writes image files."""

import contextlib
import io
import os
import threading
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.foreign import MAX_WHOLE, existing_bytes
from napari_gpubio.core.reading import reads_file
from napari_gpubio.core.volumes import check_expansion
from napari_gpubio.speckle.io.frames import natural_order
from napari_gpubio.speckle.io.tiff_pages import AS_IT_IS, check_data, check_pages, is_whole, pixels_of
from napari_gpubio.speckle.live.frame import CLOCK, Clock, Frame, Pixels, SourceFailed, bits_of, camera_pixels

TIFF_SUFFIXES, PNG_SUFFIXES = (".tif", ".tiff"), (".png",)
IMAGE_SUFFIXES = TIFF_SUFFIXES + PNG_SUFFIXES


class Unreadable(Exception):
    """The file is incomplete or damaged."""


@reads_file
def read_frames(path: Path) -> list[Pixels]:
    """Read all frames of a TIFF or PNG file, each of shape (H, W), uint8 or uint16.

    Raises
    ------
    Unreadable
        If the file is incomplete or damaged.
    InvalidInput
        If the file is complete and not a raw frame (color, floats).
    """
    try:
        arrays = _arrays(path)
    except (InvalidInput, Unreadable):
        raise
    except Exception as error:  # the readers raise many kinds on damaged files
        raise Unreadable(f"{path.name} cannot be read ({error})") from error
    if not arrays:
        raise Unreadable(f"{path.name} holds no frame")
    return [camera_pixels(array, path.name) for array in arrays]


def _arrays(path: Path) -> list[Any]:
    """Read the pages of a TIFF file, or the one image of a PNG file."""
    if path.suffix.lower() in TIFF_SUFFIXES:
        import tifffile

        check_pages(path)
        with tifffile.TiffFile(path, **AS_IT_IS) as file:
            pages = list(file.pages)
            check_data(path, pages)
            if not all(map(is_whole, pages)):  # tifffile would give zeros
                raise Unreadable(f"{path.name} lacks data of its frames")
            return [pixels_of(page) for page in pages]
    from PIL import Image

    data = existing_bytes(path, MAX_WHOLE) if path.stat().st_size else b""  # nothing is written yet
    with Image.open(io.BytesIO(data)) as image:
        if image.mode not in ("L", "I;16", "I;16B", "I"):
            raise InvalidInput(f"{path.name} is a PNG of mode {image.mode}; give gray frames of 8 or 16 bits")
        check_expansion(path, image.width * image.height * 4)
        return [np.asarray(image)]


END_FILE = "final.log"
POLL_S = 0.05
RESTS_S = 0.5  # a file that has not changed for so long is complete
GIVE_UP_S = 3.0  # and damaged, if it has not changed for so long and still cannot be read


@dataclass
class _Waiting:
    """A file to be read, since when it has not changed, and whether reading it failed since then."""

    path: Path
    state: tuple[int, int] | None = None  # its size and when it was written to
    since_s: float = 0.0
    unreadable: bool = False


class FolderSource:
    """Watches a folder for TIFF and PNG files, in the natural order of their names (2 before 10).

    A file counts as complete when a later one exists or it has not changed for half a second. If it still cannot be
    read, it counts as lost when it has not changed for three seconds. A file ``final.log`` ends the run after the
    existing files. Hidden files are ignored; a multi-page TIFF gives its pages.

    Parameters
    ----------
    folder
        An existing folder.
    exposure_ms
        Exposure time of the frames, if known.
    bits
        Bits of the camera, for instance 12; by default those of the files' type.
    clock
        For tests.

    Raises
    ------
    InvalidInput
        If it is not a folder.
    """

    rate_hz: float | None = None
    can_wait = True

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        exposure_ms: float | None = None,
        bits: int | None = None,
        clock: Clock = CLOCK,
    ) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            raise InvalidInput(f"{self.folder} is not a folder; create it or choose the one that frames are written to")
        self.name = f"the folder {self.folder.name}"
        self.exposure_ms = exposure_ms
        self.shape: tuple[int, int] | None = None
        self.dtype: Any = None  # uint8 or uint16 when the first frame is known
        self.lost = 0
        self.message = ""
        self._known_bits, self._clock = bits, clock
        self._forget()

    @property
    def bits(self) -> int:
        """Bits of a pixel."""
        return self._known_bits or (16 if self.dtype is None else bits_of(self.dtype))

    def open(self) -> None:
        """Start with all existing files."""
        self._forget()

    def frames(self, stop: threading.Event) -> Generator[Frame, None, None]:
        """Yield the frames of files as they become complete."""
        while not stop.is_set():
            ended = self._find_files()
            while self._waiting and not stop.is_set() and (pages := self._read_first(ended=ended)) is not None:
                yield from pages
            if ended and not self._waiting:
                return
            self._clock.wait(stop, POLL_S)

    def close(self) -> None:
        """Nothing to release."""

    def _forget(self) -> None:
        self._waiting: list[_Waiting] = []
        self._seen: set[str] = set()
        self._number = 0
        self._first_written_s: float | None = None
        self.lost, self.message = 0, ""

    def _find_files(self) -> bool:
        """Find new files; return whether the run has been ended."""
        try:
            names = os.listdir(self.folder)  # noqa: PTH208 - names alone: a folder may hold very many
        except OSError as error:
            raise SourceFailed(
                f"{self.folder} can no longer be read ({error.strerror}); connect the disk and start again"
            ) from error
        new = [name for name in names if name not in self._seen and _is_image(name)]
        self._seen.update(new)
        self._waiting += [_Waiting(self.folder / name) for name in sorted(new, key=natural_order)]
        self._waiting.sort(key=lambda file: natural_order(file.path.name))
        if not self._seen:
            self.message = f"{self.folder} holds no TIFF or PNG file yet; waiting for the first"
        elif not self._waiting and not self.lost:
            self.message = ""
        return END_FILE in names

    def _read_first(self, *, ended: bool) -> Iterator[Frame] | None:
        """Return the frames of the first waiting file, or None if it is not complete."""
        file = self._waiting[0]
        rested_s = self._rested_s(file)
        if not (ended or len(self._waiting) > 1 or rested_s >= RESTS_S) or (file.unreadable and rested_s < GIVE_UP_S):
            return None
        try:
            pages = read_frames(file.path)
        except Unreadable as error:
            if rested_s < GIVE_UP_S:
                file.unreadable = True
                self.message = f"{file.path.name} is not complete yet; waiting"
                return None
            self.lost += 1
            self.message = f"{error}; it was left out"
            pages = []
        written_s = self._written_s(file.path)
        self._waiting.pop(0)
        return self._as_frames(pages, written_s)

    def _rested_s(self, file: _Waiting) -> float:
        """Return for how long the file has not changed."""
        with contextlib.suppress(OSError):  # it was removed; reading it reports that
            facts = file.path.stat()
            if (state := (facts.st_size, facts.st_mtime_ns)) != file.state:
                file.state, file.since_s, file.unreadable = state, self._clock.now(), False
        return self._clock.now() - file.since_s

    def _written_s(self, path: Path) -> float:
        """Return when the file was last written to, relative to the first one."""
        try:
            written_s = path.stat().st_mtime
        except OSError:
            return float("nan")
        if self._first_written_s is None:
            self._first_written_s = written_s
        return written_s - self._first_written_s

    def _as_frames(self, pages: list[Pixels], written_s: float) -> Iterator[Frame]:
        for pixels in pages:
            self.shape, self.dtype = (pixels.shape[0], pixels.shape[1]), pixels.dtype
            yield Frame(pixels=pixels, number=self._number, timestamp_s=written_s, arrived_s=self._clock.now())
            self._number += 1


def _is_image(name: str) -> bool:
    return not name.startswith(".") and name.lower().endswith(IMAGE_SUFFIXES)
