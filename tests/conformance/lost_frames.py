"""Frames of laser speckle that are appended, in other files, or missing, in TIFF."""

from pathlib import Path

import numpy as np
import tifffile

from napari_gpubio import speckle
from napari_gpubio.speckle.io import look_at_tiff, read_frames
from tests.conformance import Did, Rows
from tests.conformance.frames import COUNT, FRAMES, SHAPE, cut, pages, same, set_tag, tiff

ROWS = Rows("Frames that are appended, in other files, or missing")


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
    contrast = speckle.contrast(
        found, speckle.ContrastSettings(mode=speckle.Temporal(frames=COUNT)), device="cpu"
    ).contrast[0]
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


@ROWS.row("read_frames", "OME in two files, one of which is missing", Did.LEFT_OUT, "5 of 12 frames", "b.ome.tif")
def _(folder):
    path = ome_set(folder, "b.ome.tif")
    (folder / "b.ome.tif").unlink()
    return same(path, FRAMES[:7])


@ROWS.row("read_frames", "OME, all frames of which are in another file", Did.READ)
def _(folder):
    pages(folder, FRAMES, "b.ome.tif", ome(COUNT).replace("urn:uuid:0", "urn:uuid:1", 1))
    return same(pages(folder, FRAMES[:1] * 2, "a.ome.tif", ome(COUNT, part(0, COUNT, "b.ome.tif", 1))))


@ROWS.row("read_frames", "OME in two files, the second of another recording", Did.LEFT_OUT, "5 of 12", "UUIDs differ")
def _(folder):
    path = ome_set(folder, "b.ome.tif")
    pages(folder, FRAMES[7:] // 2, "b.ome.tif", ome(5).replace("urn:uuid:0", "urn:uuid:9", 1))
    return same(path, FRAMES[:7])


@ROWS.row("read_frames", "OME in two files, the second without a UUID", Did.ASSUMED, "b.ome.tif", "by its name")
def _(folder):
    path = ome_set(folder, "b.ome.tif")
    pages(folder, FRAMES[7:], "b.ome.tif")
    return same(path)


@ROWS.row("read_frames", "OME in two files, the second renamed as the first", Did.LEFT_OUT, "7 of 12", "UUIDs differ")
def _(folder):
    path = ome_set(folder, "b.ome.tif")
    (folder / "b.ome.tif").replace(path)
    return same(path, FRAMES[7:])


@ROWS.row("read_frames", "OME in two files, the first of which has another name now", Did.READ)
def _(folder):
    return same(ome_set(folder, "b.ome.tif").rename(folder / "c.ome.tif"))


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


def _add_saturated(what, top, dtype, *facts):
    @ROWS.row("contrast", f"frames that are saturated, {what}", Did.ASSUMED, "saturated", f"({top})", *facts)
    def _(folder):
        bright = np.random.default_rng(0).exponential(0.7 * top, (6, 64, 80))
        return speckle.contrast(np.minimum(bright, top).astype(dtype), device="cpu")


_add_saturated("of 8 bits", 255, np.uint8)
_add_saturated("of 12 bits in 16", 4095, np.uint16, "saturation=4095")


# -- files that another reader of napari has opened -------------------------------------------------------------------


@ROWS.row("Laser speckle", "OME that lacks frames, opened by napari's own reader", Did.LEFT_OUT, "8 of 20 frames")
def _(folder):
    assert look_at_tiff(pages(folder, description=ome(20), name="a.ome.tif")).shape == FRAMES.shape


@ROWS.row("Laser speckle", "appended pages, of which napari's own reader shows one", Did.READ)
def _(folder):
    for frame in FRAMES:
        tifffile.imwrite(folder / "a.tif", frame, append=True)
    assert look_at_tiff(folder / "a.tif").shape == FRAMES.shape


@ROWS.row("Laser speckle", "frames where 0 is white, opened by napari's own reader", Did.ASSUMED, "0 is white")
def _(folder):
    assert look_at_tiff(tiff(folder, photometric="miniswhite")).shape == FRAMES.shape
