"""Frames from files, and maps to files."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle import ContrastSettings, contrast
from napari_gpubio.speckle.io import is_raw, read_frames, read_raw, write_maps
from tests.fuzzing import fuzzed, refusal

tifffile = pytest.importorskip("tifffile", reason="tifffile is not installed: it comes with napari")
FRAMES = np.random.default_rng(0).integers(0, 4096, (4, 12, 14), np.uint16)


def raw_bytes(frames, exposure=7, in_header=None):
    count, height, width = frames.shape
    header = np.array([height, width, count if in_header is None else in_header, exposure], "<u2")
    return header.tobytes() + frames.astype(frames.dtype.newbyteorder("<")).tobytes()


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_tiff_stacks(tmp_path, dtype, compression):
    path, frames = tmp_path / "stack.tif", (FRAMES // 16).astype(dtype)
    tifffile.imwrite(path, frames, compression=compression, photometric="minisblack")
    found = read_frames(path)
    assert found.dtype == frames.dtype
    np.testing.assert_array_equal(found, frames)
    contrast(found, device="cpu")


def test_a_single_tiff_frame(tmp_path):
    tifffile.imwrite(tmp_path / "one.TIF", FRAMES[0])
    assert read_frames(tmp_path / "one.TIF").shape == (12, 14)


def test_tiffs_that_are_no_frames(tmp_path):
    tifffile.imwrite(tmp_path / "rgb.tif", np.zeros((2, 20, 20, 3), np.uint8), photometric="rgb")
    with pytest.raises(InvalidInput, match="give gray frames"):
        read_frames(tmp_path / "rgb.tif")
    with tifffile.TiffWriter(tmp_path / "mixed.tif") as writer:
        writer.write(FRAMES[0])
        writer.write(FRAMES[0, :5])
    with pytest.raises(InvalidInput, match="2 images of different kinds"):
        read_frames(tmp_path / "mixed.tif")
    (tmp_path / "frames.png").write_bytes(b"png")
    with pytest.raises(InvalidInput, match="save the frames as TIFF"):
        read_frames(tmp_path / "frames.png")
    with pytest.raises(InvalidInput, match="does not exist"):
        read_frames(tmp_path / "gone.tif")


@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_raw_files(tmp_path, dtype):
    path, frames = tmp_path / "run.00000", (FRAMES // 16).astype(dtype)
    path.write_bytes(raw_bytes(frames, exposure=54321))  # the exposure may be garbage
    found = read_frames(path)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, frames)
    assert same_contrast(found, frames)


def same_contrast(one, other):
    ours, theirs = (contrast(frames, ContrastSettings(window=3), device="cpu").contrast for frames in (one, other))
    return np.array_equal(ours, theirs, equal_nan=True)


def test_the_number_of_raw_frames_wraps_round(tmp_path):
    frames = np.random.default_rng(1).integers(0, 255, (65_539, 2, 3), np.uint8)
    (tmp_path / "long.00000").write_bytes(raw_bytes(frames, in_header=3))
    np.testing.assert_array_equal(read_raw(tmp_path / "long.00000"), frames)


def test_raw_files_that_were_cut(tmp_path):
    path = tmp_path / "cut.00001"
    path.write_bytes(raw_bytes(FRAMES)[:-3])
    with pytest.raises(InvalidInput, match="14 x 12 and 1341 bytes"):
        read_frames(path)
    path.write_bytes(raw_bytes(FRAMES)[:8])
    with pytest.raises(InvalidInput, match="has no frames"):
        read_frames(path)
    assert is_raw("a.00010")
    assert not is_raw("a.tif")


@fuzzed(60)
@given(where=st.integers(0, 700), byte=st.integers(0, 255), cut=st.integers(0, 400))
def test_damaged_tiffs_are_read_or_refused(tmp_path, where, byte, cut):
    path = tmp_path / "good.tif"
    if not path.exists():
        tifffile.imwrite(path, FRAMES[:2], photometric="minisblack")
    data = bytearray(path.read_bytes())
    data[where % len(data)] = byte
    refusal(read_frames, tmp_path / "bad.tif", bytes(data[: len(data) - cut]))


@pytest.mark.parametrize("which", ["contrast", "index", "mask"])
def test_maps_are_written_with_how_they_were_made(tmp_path, which):
    maps, path = contrast(FRAMES, ContrastSettings(window=3), device="cpu"), tmp_path / "maps.tif"
    write_maps(path, maps, which)
    with tifffile.TiffFile(path) as tiff:
        found, about = tiff.asarray(), json.loads(tiff.pages[0].description)
    expected = getattr(maps, which)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert about["map"] == which
    assert about["speckle"]["window"] == 3
    assert about["unit"] == ("1/s" if which == "index" else "")
    assert ("bits" in about) == (which == "mask")


def test_maps_that_are_not_there(tmp_path):
    maps = contrast(FRAMES, ContrastSettings(window=3, index="none"), device="cpu")
    with pytest.raises(InvalidInput, match="have no index"):
        write_maps(tmp_path / "a.tif", maps, "index")
    with pytest.raises(InvalidInput, match=r"does not end in \.tif"):
        write_maps(tmp_path / "a.png", maps)
    with pytest.raises(InvalidInput, match="does not exist; create it"):
        write_maps(tmp_path / "no" / "a.tif", maps)
