"""Raw files and videos of laser speckle."""

import struct
import warnings
from fractions import Fraction
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from napari_gpubio.core.reading import ReadingNote
from napari_gpubio.speckle import napari_io
from napari_gpubio.speckle.io import read_frames
from tests.conformance import Did, Rows
from tests.conformance.frames import BYTES, COUNT, FRAMES, cut, same

ROWS = Rows("Raw files and videos of laser speckle")


# -- raw files --------------------------------------------------------------------------------------------------------


def raw(folder: Path, frames, declared=COUNT) -> Path:
    """A raw file of UT Austin's software."""
    header = struct.pack("<4H", *frames.shape[1:], declared, 54321)
    (folder / "a.00000").write_bytes(header + frames.tobytes())
    return folder / "a.00000"


@ROWS.row("read_frames", "raw frames of 8 bits", Did.READ)
def _(folder):
    return same(raw(folder, BYTES), BYTES)


@ROWS.row("read_frames", "raw frames of 16 bits", Did.READ)
def _(folder):
    return same(raw(folder, FRAMES))


@ROWS.row("read_frames", "raw frames, more than their header can count", Did.READ)
def _(folder):
    many = np.random.default_rng(5).integers(0, 255, (65_539, 2, 3), np.uint8)
    return same(raw(folder, many, 3), many)


@ROWS.row("read_frames", "raw frames, the last of which is cut", Did.LEFT_OUT, "12 frames", "11 whole ones of 16 bits")
def _(folder):
    path = raw(folder, FRAMES)
    path.write_bytes(path.read_bytes()[:-5])
    return same(path, FRAMES[:11])


@ROWS.row("read_frames", "raw frames of 16 bits, cut between two", Did.LEFT_OUT, "12 frames", "8 whole ones of 16 bits")
def _(folder):
    return same(raw(folder, FRAMES[:8]), FRAMES[:8])


@ROWS.row("read_frames", "raw frames of 12 bits without gaps, as no program is known to write", Did.ASSUMED, "12 bits")
def _(folder):
    path = raw(folder, FRAMES[:9])  # the bytes of 12 frames in 12 bits
    return same(path, FRAMES[:9])


@ROWS.row("read_frames", "a raw file without a whole frame", Did.REFUSED, "not one whole frame")
def _(folder):
    path = raw(folder, FRAMES)
    path.write_bytes(path.read_bytes()[:100])
    return read_frames(path)


# -- videos -----------------------------------------------------------------------------------------------------------


def video(folder: Path, name: str, codec: str, pixels: str, frames=BYTES, given="gray", ticks=None, **options) -> Path:
    """Write frames with FFmpeg, at times in 1/30 s."""
    av = pytest.importorskip("av", reason="PyAV is not installed: pip install 'napari-gpubio[video]'")
    frames = np.repeat(np.repeat(frames, 4, axis=1), 4, axis=2)  # codecs have a least size
    with av.open(folder / name, "w") as container:
        stream = container.add_stream(codec, rate=30, options=options)
        stream.width, stream.height, stream.pix_fmt = frames.shape[2], frames.shape[1], pixels
        for tick, values in zip(ticks or range(len(frames)), frames, strict=True):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(values), format=given)
            frame.pts, frame.time_base = tick, Fraction(1, 30)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return folder / name


def big(frames=BYTES):
    """The frames of a video."""
    return np.repeat(np.repeat(frames, 4, axis=1), 4, axis=2)


@ROWS.row("read_frames", "an AVI file, not compressed", Did.READ)
def _(folder):
    return same(video(folder, "a.avi", "rawvideo", "gray"), big())


@ROWS.row("read_frames", "an AVI file, compressed without loss", Did.READ)
def _(folder):
    return same(video(folder, "a.avi", "ffv1", "gray"), big())


@ROWS.row("read_frames", "a video of 16 bits", Did.READ)
def _(folder):
    return same(video(folder, "a.mkv", "ffv1", "gray16le", FRAMES, "gray16le"), big(FRAMES))


@ROWS.row("read_frames", "a video of 12 bits", Did.ASSUMED, "scaled to 16 bits")
def _(folder):
    found = read_frames(video(folder, "a.mkv", "ffv1", "gray12le", FRAMES, "gray12le"))
    np.testing.assert_allclose(found / 65535, big(FRAMES) / 4095, atol=2e-4)
    return found


@ROWS.row("read_frames", "a video of 10 bits in colors that are equal", Did.ASSUMED, "3 colors are equal")
def _(folder):
    deep = (FRAMES.astype(np.uint32) * 65535 // FRAMES.max()).astype(np.uint16)
    found = read_frames(video(folder, "a.mkv", "ffv1", "gbrp10le", np.repeat(deep[..., None], 3, axis=-1), "rgb48le"))
    assert found.dtype == np.uint16
    np.testing.assert_allclose(found.astype(float), big(deep), atol=65535 / 1023)
    return found


@ROWS.row("read_frames", "an MP4 file, which loses detail", Did.ASSUMED, "h264", "contrast")
def _(folder):
    found = read_frames(video(folder, "a.mp4", "libx264", "yuv420p"))
    assert found.shape == big().shape
    assert 0 < np.abs(found.astype(int) - big()).mean() < 10
    return found


@ROWS.row("read_frames", "a video in color", Did.ASSUMED, "brightest (red)")
def _(folder):
    colors = np.stack([BYTES, BYTES // 2, BYTES // 4], axis=-1)
    return same(video(folder, "a.avi", "rawvideo", "bgr24", colors, "rgb24"), big())


@ROWS.row("read_frames", "a video whose end is missing", Did.LEFT_OUT, "of 12 frames")
def _(folder):
    found = read_frames(cut(video(folder, "a.avi", "rawvideo", "gray"), 0.6))
    assert 5 <= len(found) <= 8
    np.testing.assert_array_equal(found[:5], big()[:5])
    return found


@ROWS.row("read_frames", "an MKV file whose end is missing", Did.LEFT_OUT, "of 12 frames", "ended prematurely")
def _(folder):
    found = read_frames(cut(video(folder, "a.mkv", "ffv1", "gray"), 0.6))
    assert 5 <= len(found) <= 8
    np.testing.assert_array_equal(found, big()[: len(found)])
    return found


def zeroed(path: Path, length: int) -> Path:
    """Zero the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + length] = bytes(length)
    path.write_bytes(data)
    return path


@ROWS.row("read_frames", "a video with a frame whose checksum is wrong", Did.LEFT_OUT, "1 of 12 frames", "66.67 ms")
def _(folder):
    found = read_frames(zeroed(video(folder, "a.avi", "ffv1", "gray", g="1", level="3", slicecrc="1"), 20))
    assert any(np.array_equal(found, np.delete(big(), place, axis=0)) for place in range(1, COUNT - 1))
    return found


@ROWS.row("read_frames", "a video with a damaged frame that others are decoded from", Did.LEFT_OUT, "of 12 frames")
def _(folder):
    found = read_frames(zeroed(video(folder, "a.avi", "ffv1", "gray", g="4", level="3", slicecrc="1"), 20))
    assert 8 <= len(found) <= 11
    assert all((frame == big()).all(axis=(1, 2)).any() for frame in found)
    return found


@ROWS.row("read_frames", "an MKV file with damage in the middle", Did.LEFT_OUT, "of 12 frames", "damaged or cut off")
def _(folder):
    found = read_frames(zeroed(video(folder, "a.mkv", "ffv1", "gray", g="1", level="3", slicecrc="1"), 300))
    assert 4 <= len(found) <= 11
    assert all((frame == big()).all(axis=(1, 2)).any() for frame in found)
    return found


@ROWS.row("read_frames", "a video at uneven times", Did.ASSUMED, "33", "100 ms", "one rate")
def _(folder):
    ticks = [*range(6), *range(8, 26, 3)]
    return same(video(folder, "a.mkv", "ffv1", "gray", ticks=ticks), big())


@ROWS.row("read_frames", "a video that does not state its range of brightness", Did.ASSUMED, "16", "235")
def _(folder):
    found = read_frames(video(folder, "a.avi", "ffv1", "yuv444p"))  # FFmpeg writes gray so, too
    assert np.abs(found.astype(int) - big()).max() <= 1
    return found


@ROWS.row("read_frames", "an MP4 file whose end is missing, with its table of frames", Did.REFUSED, "moov")
def _(folder):
    return read_frames(cut(video(folder, "a.mp4", "libx264", "yuv420p"), 0.6))


@ROWS.row("read_frames", "another kind of file named .mp4", Did.REFUSED, "a.mp4", "video")
def _(folder):
    (folder / "a.mp4").write_bytes(b"no video at all" * 20)
    return read_frames(folder / "a.mp4")


@ROWS.row("read_frames", "a video where PyAV is not installed", Did.REFUSED, "napari-gpubio[video]")
def _(folder):
    path = video(folder, "a.avi", "rawvideo", "gray")
    with mock.patch.dict("sys.modules", {"av": None}):
        return read_frames(path)


@ROWS.row("File > Open", "a video", Did.ASSUMED, "mjpeg")
def _(folder):
    path = video(folder, "a.avi", "mjpeg", "yuvj420p")
    with warnings.catch_warnings(action="ignore", category=ReadingNote):  # the row hears them
        ((frames, keywords, kind),) = napari_io.get_reader(str(path))(str(path))
    assert (frames.shape, kind, keywords["axis_labels"]) == (big().shape, "image", ("frame", "y", "x"))
    assert "mjpeg" in "".join(keywords["metadata"]["napari_gpubio"]["notes"])


@ROWS.row("File > Open", "a raw file", Did.READ)
def _(folder):
    path = raw(folder, FRAMES)
    ((frames, _, kind),) = napari_io.get_reader(str(path))(str(path))
    np.testing.assert_array_equal(frames, FRAMES)
    assert kind == "image"
