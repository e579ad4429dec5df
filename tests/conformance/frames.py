"""Frames of laser speckle in TIFF of every layout."""

import struct
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import tifffile

from napari_gpubio import speckle
from napari_gpubio.speckle.io import read_frames, read_regions
from napari_gpubio.speckle.live import folder as folder_source
from tests.conformance import Did, Rows

ROWS = Rows("Frames")
COUNT, SHAPE = 12, (16, 20)
FRAMES = np.clip(np.random.default_rng(1).gamma(4, 100, (COUNT, *SHAPE)), 1, 4095).astype(np.uint16)
BYTES = (FRAMES >> 4).astype(np.uint8)


def tiff(folder: Path, pixels=FRAMES, name="a.tif", **options) -> Path:
    """Write pixels as tifffile does."""
    if options.get("compression") in ("lzw", "zstd", "jpeg"):
        pytest.importorskip("imagecodecs", reason="it is not installed: pip install 'napari-gpubio[codecs]'")
    tifffile.imwrite(folder / name, pixels, **{"photometric": "minisblack", **options})
    return folder / name


def pages(folder: Path, frames=FRAMES, name="a.tif", description=None, **options) -> Path:
    """Write frames as plain pages, each with its own data; the first has a description."""
    with tifffile.TiffWriter(folder / name, ome=False) as writer:
        for number, frame in enumerate(frames):
            about = description if number == 0 else None
            writer.write(frame, contiguous=False, metadata=None, description=about, photometric="minisblack", **options)
    return folder / name


def cut(path: Path, share: float) -> Path:
    """Cut the end of a file off."""
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])
    return path


def set_tag(path: Path, code: int, value: int, page: int = 0, becomes: int | None = None) -> Path:
    """Change the value of a tag that stands in its entry, and its code."""
    with tifffile.TiffFile(path) as file:
        tag = file.pages[page].tags[code]
        place, size = tag.valueoffset, struct.calcsize(f"<{'BHI'[{1: 0, 3: 1, 4: 2}[tag.dtype]]}")
    data = bytearray(path.read_bytes())
    data[place : place + size] = value.to_bytes(size, "little")
    data[tag.offset : tag.offset + 2] = (becomes or code).to_bytes(2, "little")
    path.write_bytes(data)
    return path


def same(path: Path, expected=FRAMES, **choice):
    """Read frames and compare them."""
    found = read_frames(path, **choice)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype.newbyteorder("=") == expected.dtype
    return found


# -- layouts ----------------------------------------------------------------------------------------------------------


def layout(trait, did=Did.READ, *facts, expected=FRAMES, pixels=FRAMES, name="a.tif", **options):
    """A row of a file that tifffile writes with some options."""
    ROWS.row("read_frames", trait, did, *facts)(lambda folder: same(tiff(folder, pixels, name, **options), expected))


layout("a stack of 16 bits")
layout("a stack of 8 bits", pixels=BYTES, expected=BYTES)
layout("floating-point frames", pixels=FRAMES.astype(np.float32), expected=FRAMES.astype(np.float32))
layout("a single frame", pixels=FRAMES[0], expected=FRAMES[0])
layout("the highest byte first", byteorder=">")
layout("BigTIFF", bigtiff=True)
layout("BigTIFF named .btf", bigtiff=True, name="a.btf")
layout("signed integers that are not negative", pixels=FRAMES.astype(np.int16), expected=FRAMES.astype(np.int16))
layout("frames in tiles", tile=(16, 16))
layout("strips of a few rows", rowsperstrip=3)
layout("ImageJ, axis T", imagej=True, metadata={"axes": "TYX"})
layout("ImageJ, axes not given", Did.ASSUMED, "12 channels", imagej=True)
layout("OME, axis T", name="a.ome.tif", metadata={"axes": "TYX"})
layout("OME, axis C alone", Did.ASSUMED, "12 channels", name="a.ome.tif", metadata={"axes": "CYX"})
layout("ImageJ, axis Z alone", Did.ASSUMED, "12 planes", imagej=True, metadata={"axes": "ZYX"})
layout("compressed by zlib", compression="zlib")
layout("compressed by LZW", compression="lzw")
layout("compressed by Zstandard, with differences", compression="zstd", predictor=True)


@ROWS.row(
    "read_frames", "a folder of files of one frame each", Did.ASSUMED, "12 files", "natural order", "f1.tif to f12"
)
def _(folder):
    for number, frame in enumerate(FRAMES, 1):
        tiff(folder, frame, f"f{number}.tif")
    return same(folder)


@ROWS.row(
    "read_frames", "a folder, in which a file is missing and two are odd", Did.LEFT_OUT, "2 of 11 files", "evenly"
)
def _(folder):
    for number in range(1, COUNT):
        tiff(folder, FRAMES[number].T if number == 5 else FRAMES[number], f"f{number}.tif")
    (folder / "f7.tif").write_bytes(b"no TIFF at all")
    return same(folder, np.delete(FRAMES, (0, 5, 7), axis=0))


@ROWS.row("read_frames", "a folder of stacks", Did.REFUSED, "a.tif", "12 frames")
def _(folder):
    return read_frames(tiff(folder).parent)


@ROWS.row("contrast", "negative integers", Did.REFUSED, "-80", "float32")
def _(folder):
    signed = read_frames(tiff(folder, FRAMES.astype(np.int16) - 100))
    return speckle.contrast(signed, speckle.ContrastSettings(mode=speckle.Spatial(window=5)), device="cpu")


@ROWS.row("read_frames", "two axes without a meaning", Did.ASSUMED, "(2, 6)", "frames")
def _(folder):
    return same(tiff(folder, FRAMES.reshape(2, 6, *SHAPE)))


@ROWS.row("read_frames", "two channels, frame by frame", Did.ASSUMED, "2 channels", "channel=")
def _(folder):
    both = np.stack([FRAMES, FRAMES[::-1]], axis=1)
    return same(tiff(folder, both, "a.ome.tif", metadata={"axes": "TCYX"}))


@ROWS.row("read_frames", "two channels, the second one wanted", Did.READ)
def _(folder):
    both = np.stack([FRAMES, FRAMES[::-1]], axis=1)
    return same(tiff(folder, both, "a.ome.tif", metadata={"axes": "TCYX"}), FRAMES[::-1], channel=1)


@ROWS.row("read_frames", "two channels, one after the other", Did.ASSUMED, "2 channels")
def _(folder):
    both = np.stack([FRAMES, FRAMES[::-1]])
    return same(tiff(folder, both, "a.ome.tif", metadata={"axes": "CTYX"}))


@ROWS.row("read_frames", "frames at several depths", Did.ASSUMED, "3 planes", "plane=")
def _(folder):
    deep = np.stack([FRAMES, FRAMES + 1, FRAMES + 2])
    return same(tiff(folder, deep, "a.ome.tif", metadata={"axes": "ZTYX"}))


@ROWS.row("read_frames", "an ImageJ hyperstack of frames, planes and channels", Did.READ)
def _(folder):
    hyper = np.random.default_rng(2).integers(0, 999, (5, 3, 2, *SHAPE), np.uint16)
    return same(tiff(folder, hyper, imagej=True, metadata={"axes": "TZCYX"}), hyper[:, 2, 1], channel=1, plane=2)


@ROWS.row("read_frames", "pages of ScanImage", Did.READ)
def _(folder):
    return same(pages(folder, description="frameNumbers = 1\nSI.hScan = 1", software="SI.VERSION_MAJOR = 2020"))


@ROWS.row("read_frames", "a channel of a file without channels", Did.REFUSED, "channel is 3", "there is one")
def _(folder):
    return read_frames(tiff(folder), channel=3)


@ROWS.row("read_frames", "ImageJ, whose header names 6 of 12 pages", Did.ASSUMED, "6 of 12 pages")
def _(folder):
    return same(pages(folder, description="ImageJ=1.53t\nimages=6\nframes=6\n"))


@ROWS.row("read_frames", "ImageJ, whose numbers of frames do not agree", Did.ASSUMED, "12 images", "[2, 3, 5]")
def _(folder):
    return same(pages(folder, description="ImageJ=1.53t\nimages=12\nframes=2\nslices=3\nchannels=5\n"))


@ROWS.row("read_frames", "a channel that there is not", Did.REFUSED, "channel is 2", "2")
def _(folder):
    both = np.stack([FRAMES, FRAMES], axis=1)
    return read_frames(tiff(folder, both, "a.ome.tif", metadata={"axes": "TCYX"}), channel=2)


# -- what pixels hold -------------------------------------------------------------------------------------------------


def packed(bits: int, *, lowest_first=False) -> bytes:
    """Frames of so many bits without gaps, each row beginning with a byte."""
    rows = []
    for row in (FRAMES >> (16 - bits if bits < 12 else 0)).reshape(-1, SHAPE[1]) & (1 << bits) - 1:
        text = "".join(f"{value:0{bits}b}" for value in row.tolist())
        text += "0" * (-len(text) % 8)
        one = [text[at : at + 8] for at in range(0, len(text), 8)]
        rows.append(bytes(int(byte[::-1] if lowest_first else byte, 2) for byte in one))
    return b"".join(rows)


def packed_file(folder: Path, bits: int, *, lowest_first=False) -> Path:
    """A TIFF file of packed frames: bytes, whose tags are changed."""
    data = np.frombuffer(packed(bits, lowest_first=lowest_first), np.uint8).reshape(COUNT, SHAPE[0], -1)
    path = pages(folder, data, rowsperstrip=SHAPE[0])
    for page in range(COUNT):
        if lowest_first:
            set_tag(path, 296, 2, page, becomes=266)
        for code, value in ((256, SHAPE[1]), (258, bits)):
            set_tag(path, code, value, page)
    return path


@ROWS.row("read_frames", "12 bits per pixel without gaps", Did.READ)
def _(folder):
    return same(packed_file(folder, 12))


@ROWS.row("read_frames", "10 bits per pixel without gaps", Did.READ)
def _(folder):
    return same(packed_file(folder, 10), FRAMES >> 6)


@ROWS.row("read_frames", "12 bits per pixel without gaps, lowest bit first", Did.READ)
def _(folder):
    return same(packed_file(folder, 12, lowest_first=True))


@ROWS.row("watched folder", "12 bits per pixel without gaps", Did.READ)
def _(folder):
    np.testing.assert_array_equal(folder_source.read_frames(packed_file(folder, 12)), FRAMES)


@ROWS.row("read_frames", "compressed by JPEG", Did.ASSUMED, "JPEG", "contrast")
def _(folder):
    found = read_frames(tiff(folder, BYTES, compression="jpeg", compressionargs={"level": 95}))
    assert 0 < np.abs(found.astype(int) - BYTES).mean() < 8
    return found


@ROWS.row("read_frames", "a compression whose package is not installed", Did.REFUSED, "LZW", "napari-gpubio[codecs]")
def _(folder):
    path = tiff(folder, compression="lzw")
    missing = ValueError("<COMPRESSION.LZW: 5> requires the 'imagecodecs' package")
    with mock.patch.object(tifffile.TiffPage, "asarray", side_effect=missing):
        return read_frames(path)


@ROWS.row("read_frames", "gray frames saved as colors", Did.ASSUMED, "3 colors are equal")
def _(folder):
    return same(tiff(folder, np.repeat(BYTES[..., None], 3, axis=-1), photometric="rgb"), BYTES)


@ROWS.row("read_frames", "color frames", Did.ASSUMED, "brightest (green)", "channel=")
def _(folder):
    colors = np.stack([BYTES // 2, BYTES, BYTES // 3], axis=-1)
    return same(tiff(folder, colors, photometric="rgb"), BYTES)


@ROWS.row("read_frames", "colors in planes of their own", Did.ASSUMED, "photometric=")
def _(folder):
    planes = np.stack([BYTES // 2, BYTES, BYTES // 3], axis=1)
    return same(tiff(folder, planes, photometric="rgb", planarconfig="separate"), BYTES // 3, channel=2)


@ROWS.row("read_frames", "gray and opacity", Did.LEFT_OUT, "1 extra sample")
def _(folder):
    both = np.stack([BYTES, np.full_like(BYTES, 255)], axis=-1)
    return same(tiff(folder, both, planarconfig="contig", extrasamples=["unassalpha"]), BYTES)


@ROWS.row("read_frames", "colors and opacity", Did.LEFT_OUT, "1 extra sample")
def _(folder):
    four = np.stack([BYTES, BYTES // 2, BYTES // 2, np.full_like(BYTES, 255)], axis=-1)
    return same(tiff(folder, four, photometric="rgb", extrasamples=["unassalpha"]), BYTES)


@ROWS.row("read_frames", "a color table", Did.ASSUMED, "screen", "intensities")
def _(folder):
    table = np.random.default_rng(3).integers(0, 1 << 16, (3, 256), np.uint16)
    return same(tiff(folder, BYTES, photometric="palette", colormap=table), BYTES)


@ROWS.row("read_frames", "0 is white", Did.ASSUMED, "0 is white", "255")
def _(folder):
    return same(tiff(folder, 255 - BYTES, photometric="miniswhite"), BYTES)


@ROWS.row("read_frames", "a mosaic of color filters", Did.ASSUMED, "filters")
def _(folder):
    path = tiff(folder, BYTES[0])
    return same(set_tag(path, 262, 32803), BYTES[0])


@ROWS.row("read_frames", "one bit per pixel", Did.READ)
def _(folder):
    bits = FRAMES[0] > 400
    return same(tiff(folder, bits), bits.astype(np.uint8))


@ROWS.row("read_frames", "shares of inks", Did.REFUSED, "CMYK")
def _(folder):
    return read_frames(tiff(folder, np.zeros((*SHAPE, 4), np.uint8), photometric="separated"))


@ROWS.row("read_frames", "complex numbers", Did.REFUSED, "complex64")
def _(folder):
    return read_frames(tiff(folder, FRAMES.astype(np.complex64)))


# -- dangerous or foreign ---------------------------------------------------------------------------------------------


@ROWS.row("read_frames", "a chain of pages without an end", Did.REFUSED, "leads back")
def _(folder):
    path = pages(folder)
    with tifffile.TiffFile(path) as file:
        first, last = file.pages[0].offset, file.pages[-1]
        place = last.offset + 2 + 12 * len(last.tags)
    data = bytearray(path.read_bytes())
    data[place : place + 4] = first.to_bytes(4, "little")
    path.write_bytes(data)
    return read_frames(path)


@ROWS.row("read_frames", "a tag that is longer than the file", Did.REFUSED, "damaged")
def _(folder):
    path = tiff(folder, software="me and others")
    with tifffile.TiffFile(path) as file:
        place = file.pages[0].tags[305].offset + 4
    data = bytearray(path.read_bytes())
    data[place : place + 4] = (2**31 - 1).to_bytes(4, "little")
    path.write_bytes(data)
    return read_frames(path)


@ROWS.row("read_frames", "another kind of file named .tif", Did.REFUSED, "a.tif")
def _(folder):
    (folder / "a.tif").write_bytes(b"\x89PNG and more")
    return read_frames(folder / "a.tif")


@ROWS.row("read_frames", "a file of another kind", Did.REFUSED, "save the frames as TIFF")
def _(folder):
    (folder / "a.png").write_bytes(b"\x89PNG and more")
    return read_frames(folder / "a.png")


@ROWS.row("read_regions", "labels saved as gray colors", Did.ASSUMED, "equal")
def _(folder):
    labels = (np.indices(SHAPE)[1] // 7).astype(np.uint8)
    found = read_regions(tiff(folder, np.repeat(labels[..., None], 3, axis=-1), photometric="rgb"), SHAPE)
    np.testing.assert_array_equal(found["region 2"], labels == 2)
    return found


@ROWS.row("read_regions", "labels in colors", Did.REFUSED, "gray")
def _(folder):
    colors = np.random.default_rng(4).integers(0, 2, (*SHAPE, 3), np.uint8)
    return read_regions(tiff(folder, colors, photometric="rgb"), SHAPE)


def _add_calibration(trait, stored, fields, expected, *facts):
    @ROWS.row("read_frames", f"ImageJ, {trait}", Did.ASSUMED, *facts)
    def _(folder):
        text = "ImageJ=1.53t\nimages=6\nframes=6\n" + "".join(f"{name}={value}\n" for name, value in fields.items())
        path = folder / "a.tif"
        tifffile.imwrite(path, stored, description=text, metadata=None, photometric="minisblack")
        np.testing.assert_array_equal(read_frames(path), expected)


_COUNTS = np.random.default_rng(2).integers(0, 4096, (6, 12, 10))
_add_calibration(
    "signed integers, which it stores with an offset", (_COUNTS + 32768).astype(np.uint16),
    {"cf": 0, "c0": -32768.0, "c1": 1.0}, _COUNTS, "calibration", "-32768 + 1 x",
)  # fmt: skip
_add_calibration(
    "values on a line", _COUNTS.astype(np.uint16), {"cf": 0, "c0": 100.0, "c1": 2.0}, 100 + 2 * _COUNTS, "100 + 2 x"
)
_add_calibration(
    "values on a curve", _COUNTS.astype(np.uint16), {"cf": 3, "c0": 1.0, "c1": 2.0}, _COUNTS, "no line", "not applied"
)
