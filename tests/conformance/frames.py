"""Frames of laser speckle in TIFF of every layout."""

import struct
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import tifffile

from napari_gpubio import speckle
from napari_gpubio.speckle.io import read_frames, read_regions
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


# -- frames that are elsewhere, or nowhere ----------------------------------------------------------------------------


@ROWS.row("read_frames", "frames appended one by one", Did.READ)
def _(folder):
    for frame in FRAMES:
        tifffile.imwrite(folder / "a.tif", frame, append=True)
    return same(folder / "a.tif")


@ROWS.row("read_frames", "stacks of 5 and of 7 appended", Did.READ)
def _(folder):
    for part in (FRAMES[:5], FRAMES[5:]):
        tiff(folder, part, append=True)
    return same(folder / "a.tif")


@ROWS.row("read_frames", "frames that are compressed in different ways", Did.READ)
def _(folder):
    for number, frame in enumerate(FRAMES):
        tifffile.imwrite(folder / "a.tif", frame, append=True, compression="zlib" if number % 2 else None)
    return same(folder / "a.tif")


@ROWS.row("read_frames", "a page in the middle is turned", Did.LEFT_OUT, "1 image", "(16, 20)")
def _(folder):
    turned = [*FRAMES[:6], FRAMES[6].T, *FRAMES[7:]]
    return same(pages(folder, turned), np.delete(FRAMES, 6, axis=0))


@ROWS.row("read_frames", "a small picture before the frames", Did.LEFT_OUT, "1 image", "(16, 20)")
def _(folder):
    return same(pages(folder, [FRAMES[0, ::4, ::4].copy(), *FRAMES]))


@ROWS.row("read_frames", "OME with two images", Did.ASSUMED, "2 images", "first")
def _(folder):
    with tifffile.TiffWriter(folder / "a.ome.tif") as writer:
        for part in (FRAMES, FRAMES[::-1]):
            writer.write(part, metadata={"axes": "TYX"}, photometric="minisblack")
    return same(folder / "a.ome.tif")


def ome(frames: int, data: str = "<TiffData/>") -> str:
    """An OME header of so many frames."""
    return (
        '<?xml version="1.0"?><OME xmlns="http://www.openmicroscopy.org/Schemas/OME/2016-06" UUID="urn:uuid:0">'
        '<Image ID="Image:0"><Pixels ID="Pixels:0" DimensionOrder="XYCZT" Type="uint16" SizeX="20" SizeY="16" '
        f'SizeC="1" SizeZ="1" SizeT="{frames}" BigEndian="false"><Channel ID="Channel:0:0" SamplesPerPixel="1"/>'
        f"{data}</Pixels></Image></OME>"
    )


def part(first: int, count: int, name: str, number: int) -> str:
    """A part of an OME set that is in a file."""
    uuid = f'<UUID FileName="{name}">urn:uuid:{number}</UUID>'
    return f'<TiffData FirstT="{first}" IFD="0" PlaneCount="{count}">{uuid}</TiffData>'


@ROWS.row("read_frames", "OME that declares 20 frames and has 12", Did.LEFT_OUT, "8 of 20 frames", "12, 13")
def _(folder):
    found = same(pages(folder, description=ome(20), name="a.ome.tif"))
    contrast = speckle.contrast(found, speckle.ContrastSettings(mode="temporal", frames=COUNT), device="cpu").contrast[
        0
    ]
    values = FRAMES.astype(float)
    np.testing.assert_allclose(contrast, values.std(0, ddof=1) / values.mean(0), rtol=1e-5)
    return found


@ROWS.row("read_frames", "OME that declares 5 frames and has 12", Did.ASSUMED, "5 of 12 pages")
def _(folder):
    return same(pages(folder, description=ome(5, '<TiffData IFD="0" PlaneCount="5"/>'), name="a.ome.tif"))


def ome_set(folder: Path, second: str) -> Path:
    """OME in two files, of which the second has a name."""
    about = ome(COUNT, part(0, 7, "a.ome.tif", 0) + part(7, 5, second, 1))
    pages(folder, FRAMES[7:], "b.ome.tif", about.replace("urn:uuid:0", "urn:uuid:1", 1))
    return pages(folder, FRAMES[:7], "a.ome.tif", about)


@ROWS.row("read_frames", "OME in two files", Did.READ)
def _(folder):
    return same(ome_set(folder, "b.ome.tif"))


@ROWS.row("read_frames", "OME in two files, one of which is missing", Did.LEFT_OUT, "5 of 12 frames", "7, 8")
def _(folder):
    path = ome_set(folder, "b.ome.tif")
    (folder / "b.ome.tif").unlink()
    return same(path, FRAMES[:7])


@ROWS.row("read_frames", "OME, all frames of which are in another file", Did.READ)
def _(folder):
    tiff(folder, FRAMES, "b.ome.tif", metadata=None)
    return same(pages(folder, FRAMES[:1] * 2, "a.ome.tif", ome(COUNT, part(0, COUNT, "b.ome.tif", 1))))


@ROWS.row("read_frames", "OME with a part outside its folder", Did.REFUSED, "same folder")
def _(folder):
    return read_frames(ome_set(folder, "../b.ome.tif"))


@ROWS.row("read_frames", "OME with a part outside its folder, in other letters", Did.REFUSED, "same folder")
def _(folder):
    return read_frames(ome_set(folder, "..&#47;b.ome.tif"))


IMAGEJ = "ImageJ=1.54f\nimages=20\nframes=20\n"


@ROWS.row("read_frames", "ImageJ that declares 20 frames and has 12", Did.LEFT_OUT, "8 of 20 frames")
def _(folder):
    return same(pages(folder, description=IMAGEJ))


@ROWS.row("read_frames", "ImageJ that declares more frames than the file has bytes", Did.REFUSED, "999999999 frames")
def _(folder):
    return read_frames(pages(folder, description=IMAGEJ.replace("20", "999999999")))


@ROWS.row("read_frames", "ImageJ, one page for all frames (as beyond 4 GB)", Did.READ)
def _(folder):
    path = pages(folder, FRAMES[:1], description=IMAGEJ.replace("20", "12"))
    with path.open("ab") as file:
        file.write(FRAMES[1:].tobytes())
    return same(path)


def without_end(path: Path) -> Path:
    """Cut a stack in the ninth frame."""
    with tifffile.TiffFile(path) as file:
        first = file.pages[0].dataoffsets[0]
    path.write_bytes(path.read_bytes()[: first + 17 * FRAMES[0].nbytes // 2])
    return path


@ROWS.row("read_frames", "a stack whose end is missing", Did.LEFT_OUT, "of 12 frames")
def _(folder):
    return same(without_end(tiff(folder)), FRAMES[:8])


@ROWS.row("read_frames", "an ImageJ stack whose end is missing", Did.LEFT_OUT, "of 12 frames")
def _(folder):
    return same(without_end(tiff(folder, imagej=True, metadata={"axes": "TYX"})), FRAMES[:8])


@ROWS.row("read_frames", "an ImageJ stack of two channels whose end is missing", Did.LEFT_OUT, "of 12 frames", "8, 9")
def _(folder):
    both = np.stack([FRAMES, FRAMES[::-1]], axis=1)
    path = tiff(folder, both, imagej=True, metadata={"axes": "TCYX"})
    with tifffile.TiffFile(path) as file:
        first = file.pages[0].dataoffsets[0]
    path.write_bytes(path.read_bytes()[: first + 33 * FRAMES[0].nbytes // 2])
    return same(path, FRAMES[::-1][:8], channel=1)


@ROWS.row("read_frames", "a stack of two channels whose end is missing", Did.LEFT_OUT, "of 12 frames", "8, 9")
def _(folder):
    both = np.stack([FRAMES, FRAMES[::-1]], axis=1)
    path = tiff(folder, both, metadata={"axes": "TCYX"})
    with tifffile.TiffFile(path) as file:
        first = file.pages[0].dataoffsets[0]
    path.write_bytes(path.read_bytes()[: first + 33 * FRAMES[0].nbytes // 2])
    return same(path, FRAMES[::-1][:8], channel=1)


@ROWS.row("read_frames", "compressed frames of two channels whose end is missing", Did.LEFT_OUT, "of 12 frames")
def _(folder):
    both = np.stack([FRAMES, FRAMES[::-1]], axis=1)
    found = read_frames(cut(tiff(folder, both, compression="zlib", metadata={"axes": "TCYX"}), 0.6), channel=1)
    assert 5 <= len(found) <= 8
    np.testing.assert_array_equal(found, FRAMES[::-1][: len(found)])
    return found


@ROWS.row("read_frames", "compressed frames whose end is missing", Did.LEFT_OUT, "of 12 frames")
def _(folder):
    found = read_frames(cut(tiff(folder, compression="zlib"), 0.6))
    assert 5 <= len(found) <= 8
    np.testing.assert_array_equal(found, FRAMES[: len(found)])
    return found


@ROWS.row("read_frames", "plain pages whose end is missing", Did.LEFT_OUT, "lost")
def _(folder):
    path = pages(folder)
    with tifffile.TiffFile(path) as file:
        last = file.pages[8].offset
    path.write_bytes(path.read_bytes()[:last])
    return same(path, FRAMES[:8])


@ROWS.row("read_frames", "one frame that cannot be decompressed", Did.LEFT_OUT, "1 of 12 frames (5)")
def _(folder):
    path = tiff(folder, compression="zlib")
    with tifffile.TiffFile(path) as file:
        place = file.pages[5].dataoffsets[0]
    data = bytearray(path.read_bytes())
    data[place : place + 40] = b"\0" * 40
    path.write_bytes(data)
    return same(path, np.delete(FRAMES, 5, axis=0))


@ROWS.row("read_frames", "one frame without data, which other programs show black", Did.LEFT_OUT, "1 of 12 frames (3)")
def _(folder):
    return same(set_tag(pages(folder, rowsperstrip=SHAPE[0]), 279, 0, 3), np.delete(FRAMES, 3, axis=0))


@ROWS.row("read_frames", "no frame is whole", Did.REFUSED, "none of its 12 frames")
def _(folder):
    path = pages(folder, rowsperstrip=SHAPE[0])
    for page in range(COUNT):
        set_tag(path, 279, 0, page)
    return read_frames(path)


@ROWS.row("contrast", "frames that another reader made black", Did.ASSUMED, "2 of 14 frames", "12, 13")
def _(folder):
    return speckle.contrast(np.concatenate([FRAMES, np.zeros_like(FRAMES[:2])]), device="cpu")


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
