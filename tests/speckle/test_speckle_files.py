"""Frames from files, maps to files, and the command line's verb."""

import json
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.reading import noted
from napari_gpubio.speckle import ContrastSettings, baseline_k2, contrast, measure_dark
from napari_gpubio.speckle.io import is_raw, read_frames, read_raw, write_maps
from napari_gpubio.speckle.live import folder
from napari_gpubio.speckle.settings import FlowIndex, NoIndex, RelativeFlow, Spatial, Temporal
from tests.fuzzing import fuzzed, refusal
from tests.sentences import says
from tests.shell import run_verb

tifffile = pytest.importorskip("tifffile", reason="tifffile is not installed: it comes with napari")
FRAMES = np.random.default_rng(0).integers(0, 4096, (4, 12, 14), np.uint16)


def raw_bytes(frames, exposure=7, in_header=None):
    count, height, width = frames.shape
    header = np.array([height, width, count if in_header is None else in_header, exposure], "<u2")
    return header.tobytes() + frames.astype(frames.dtype.newbyteorder("<")).tobytes()


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("dtype", ["u1", "u2", "f4"])
def test_tiff_stacks_and_single_frames(tmp_path, dtype, compression):
    frames = (FRAMES // 16).astype(dtype)
    for path, pixels in ((tmp_path / "stack.tif", frames), (tmp_path / "one.TIF", frames[0])):
        tifffile.imwrite(path, pixels, compression=compression, photometric="minisblack")
        found = read_frames(path)
        assert found.dtype == frames.dtype
        np.testing.assert_array_equal(found, pixels)
    contrast(found, device="cpu")


def test_files_that_hold_no_frames(tmp_path):
    tifffile.imwrite(tmp_path / "inks.tif", np.zeros((20, 20, 4), np.uint8), photometric="separated")
    tifffile.imwrite(tmp_path / "waves.tif", np.zeros((20, 20), np.complex64))
    (tmp_path / "frames.png").write_bytes(b"png")
    for name, message in (
        ("inks.tif", "give gray frames"),
        ("waves.tif", "give gray frames"),
        ("frames.png", "save the frames as TIFF"),
        ("gone.tif", "does not exist"),
    ):
        with pytest.raises(InvalidInput, match=message):
            read_frames(tmp_path / name)


@pytest.mark.parametrize("dtype", ["u1", "u2"])
def test_raw_files(tmp_path, dtype):
    path, frames = tmp_path / "run.00000", (FRAMES // 16).astype(dtype)
    path.write_bytes(raw_bytes(frames, exposure=54321))  # the exposure may be garbage
    found = read_frames(path)
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, frames)
    k, expected = (
        contrast(one, ContrastSettings(mode=Spatial(window=3)), device="cpu").contrast for one in (found, frames)
    )
    np.testing.assert_array_equal(k, expected)


def test_the_number_of_raw_frames_wraps_round(tmp_path):
    frames = np.random.default_rng(1).integers(0, 255, (65_539, 2, 3), np.uint8)
    (tmp_path / "long.00000").write_bytes(raw_bytes(frames, in_header=3))
    np.testing.assert_array_equal(read_raw(tmp_path / "long.00000"), frames)


def test_raw_files_that_were_cut(tmp_path):
    path = tmp_path / "cut.00001"
    for missing in (3, 2 * FRAMES[0].size):
        path.write_bytes(raw_bytes(FRAMES)[:-missing])
        with noted() as notes:
            np.testing.assert_array_equal(read_frames(path), FRAMES[:3])
        assert says("".join(notes), "4 frames")
        assert says("".join(notes), "3 whole ones of 16 bits")
    path.write_bytes(raw_bytes(FRAMES)[:8])
    with pytest.raises(InvalidInput, match="has no frames"):
        read_frames(path)
    path.write_bytes(raw_bytes(FRAMES)[:9])
    with pytest.raises(InvalidInput, match="not one whole frame"):
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
    maps, path = contrast(FRAMES, ContrastSettings(mode=Spatial(window=3)), device="cpu"), tmp_path / "maps.tif"
    write_maps(path, maps, which)
    with tifffile.TiffFile(path) as tiff:
        found, about = tiff.asarray(), json.loads(tiff.pages[0].description)
    expected = getattr(maps, which)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert about["map"] == which
    assert about["speckle"]["mode"] == {"kind": "spatial", "window": 3, "edges": "valid"}
    assert about["unit"] == ("1/s" if which == "index" else "")
    assert ("bits" in about) == (which == "mask")


def test_maps_that_are_not_there(tmp_path):
    maps = contrast(FRAMES, ContrastSettings(mode=Spatial(window=3), index=NoIndex()), device="cpu")
    with pytest.raises(InvalidInput, match="have no index"):
        write_maps(tmp_path / "a.tif", maps, "index")
    with pytest.raises(InvalidInput, match=r"does not end in \.tif"):
        write_maps(tmp_path / "a.png", maps)
    with pytest.raises(InvalidInput, match="does not exist; create it"):
        write_maps(tmp_path / "no" / "a.tif", maps)


# -- the command line's verb ``speckle`` -------------------------------------------------------------------------------

STACK = np.random.default_rng(0).integers(100, 4096, (6, 20, 24), np.uint16)


@pytest.fixture
def stack(tmp_path):
    path = tmp_path / "frames.tif"
    tifffile.imwrite(path, STACK, photometric="minisblack")
    return path


def call(*arguments):
    return run_verb("speckle", *arguments, "--device", "cpu")


def test_from_file_to_files(tmp_path, stack, capsys):
    outputs = [tmp_path / f"{name}.tif" for name in ("k", "sfi", "mask")]
    options = ["--window", 3, "--exposure-ms", 4, "--edges", "reflect"]
    assert call(stack, "--out", outputs[0], "--index-out", outputs[1], "--mask-out", outputs[2], *options) == 0
    expected = contrast(
        STACK, ContrastSettings(mode=Spatial(window=3, edges="reflect"), index=FlowIndex(exposure_ms=4)), device="cpu"
    )
    for path, array in zip(outputs, (expected.contrast, expected.index, expected.mask), strict=True):
        np.testing.assert_array_equal(tifffile.imread(path), array)
    assert capsys.readouterr().out.split() == [str(path) for path in outputs]


def test_blocks_report_what_was_left_out(tmp_path, stack, capsys):
    assert call(stack, "--out", tmp_path / "k.tif", "--mode", "temporal", "--frames", 4, "--blocks") == 0
    assert tifffile.imread(tmp_path / "k.tif").shape == (20, 24)
    assert "the last 2 of 6 frames" in capsys.readouterr().err


def test_flow_relative_to_a_baseline(tmp_path, stack):
    assert call(stack, "--index-out", tmp_path / "f.tif", "--index", "relative", "--baseline", 1, 3) == 0
    settings = ContrastSettings(index=RelativeFlow())
    k2 = contrast(STACK[1:4], device="cpu").squared.mean(axis=0, dtype=float)
    expected = contrast(STACK, settings, baseline=k2, device="cpu")
    np.testing.assert_allclose(tifffile.imread(tmp_path / "f.tif"), expected.index, rtol=1e-6)


def test_a_baseline_over_itself_is_one():
    settings = ContrastSettings(mode=Temporal(frames=6), index=RelativeFlow())
    k2 = baseline_k2(STACK, settings, noise=measure_dark(np.zeros((2, 20, 24))), device="cpu")
    np.testing.assert_allclose(contrast(STACK, settings, baseline=k2, device="cpu").index, 1.0, rtol=1e-6)


def test_dark_frames_and_registration(tmp_path, stack, capsys):
    dark = np.random.default_rng(1).integers(40, 60, (30, 20, 24), np.uint16)
    tifffile.imwrite(tmp_path / "dark.tif", dark)
    out = tmp_path / "k.tif"
    assert call(stack, "--out", out, "--dark", tmp_path / "dark.tif", "--gain", 0.2) == 0
    expected = contrast(STACK, noise=measure_dark(dark, gain=0.2), device="cpu")
    np.testing.assert_array_equal(tifffile.imread(out), expected.contrast)
    assert run_verb("register-frames", stack, "--json") == 0
    assert "5 of 6 frames (1, 2, 3, 4, 5) have no detail in common" in capsys.readouterr().err


def test_dark_frames_are_read_at_the_channel_of_the_frames(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    both, dark = np.stack([STACK // 2, STACK], 1), np.random.default_rng(1).integers(4, 60, (9, 2, 20, 24), np.uint16)
    for name, frames in (("frames.tif", both), ("dark.tif", dark)):
        tifffile.imwrite(name, frames, imagej=True, metadata={"axes": "TCYX"})
    tifffile.imwrite("one.tif", dark[:, 0], photometric="minisblack")
    words = "frames.tif", "--channel", 1, "--out", "k.tif", "--force", "--dark"
    with pytest.raises(InvalidInput, match=r"one\.tif.*channel is 1, and there is one"):
        call(*words, "one.tif")
    run_verb("measure-dark", "one.tif", "--record", "one.json")
    for source, channel in (("dark.tif", 1), ("one.json", 0)):
        assert call(*words, source) == 0
        expected = contrast(STACK, noise=measure_dark(dark[:, channel]), device="cpu")
        np.testing.assert_array_equal(tifffile.imread("k.tif"), expected.contrast)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "nothing is to be written; give --out"),
        (["--out", "k.png"], "does not end in .tif"),
        (["--out", "gone/k.tif"], "does not exist; create it"),
        (["--index-out", "i.tif", "--index", "none"], "there is no index with these settings"),
        (["--mask-out", "m.tif", "--mask", "none"], "there is no mask with these settings"),
        (["--out", "k.tif", "--baseline", 0, 1], "--baseline is an option of relative"),
        (["--out", "k.tif", "--index", "relative", "--baseline", 0, 9], "baseline is 0 9 and there are 6 frames"),
        (["--out", "k.tif", "--window", 3, "--mode", "temporal"], "--window is an option of spatial, spatio-temporal"),
        (["--out", "k.tif", "--dark", "frames.tif", "--dark-adu", 3], "dark_adu is 3 ADU, which has no effect"),
    ],
)
def test_what_has_no_meaning_is_reported_before_the_run(tmp_path, monkeypatch, stack, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidInput, match=sentence):
        call(stack, *arguments)


@pytest.mark.parametrize("is_big", [False, True])
def test_a_chain_of_pages_without_an_end_is_refused(tmp_path, is_big):
    path = tmp_path / "loop.tif"
    frames = np.zeros((3, 8, 8), np.uint16)
    tifffile.imwrite(path, frames, bigtiff=is_big, metadata=None, contiguous=False, photometric="minisblack")
    assert read_frames(path).shape == (3, 8, 8)
    with tifffile.TiffFile(path) as tiff:
        first, last = tiff.pages[0].offset, tiff.pages[-1].offset
        tags, sizes = len(tiff.pages[-1].tags), (8, 20, 8) if is_big else (2, 12, 4)
    data, at = bytearray(path.read_bytes()), last + sizes[0] + tags * sizes[1]
    data[at : at + sizes[2]] = first.to_bytes(sizes[2], "little")
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match=r"loop\.tif .* leads back to an earlier one"):
        read_frames(path)


@pytest.mark.parametrize("read", [read_frames, folder.read_frames], ids=["opened", "live"])
@pytest.mark.parametrize("code", [279, 273, 305], ids=["bytes of data", "places", "text"])
def test_lengths_that_a_file_cannot_hold_take_no_memory(tmp_path, read, code):
    """What a tag states is compared with the size of the file before tifffile asks for the memory."""
    import tifffile

    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((2, 8, 8), np.uint8), compression="zlib", metadata=None, software="me and others")
    data = bytearray(path.read_bytes())
    with tifffile.TiffFile(path) as tiff:
        tags = tiff.pages[0].tags
        at = tags[code].offset + (8 if code == 279 else 4)
    data[at : at + 4] = (2**31 - 1).to_bytes(4, "little")
    path.write_bytes(data)
    tracemalloc.start()
    try:
        if read is read_frames and code == 279:  # the data of one page alone: it is left out
            assert read(path).shape == (1, 8, 8)
        else:
            with pytest.raises(InvalidInput, match=r"a\.tif has \d+ bytes and"):
                read(path)
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()


def test_an_endless_chain_of_pages_in_a_watched_folder(tmp_path):
    import tifffile

    path = tmp_path / "a.tif"
    tifffile.imwrite(path, np.zeros((4, 5), np.uint8))
    data = bytearray(path.read_bytes())
    first = int.from_bytes(data[4:8], "little")
    end = first + 2 + 12 * int.from_bytes(data[first : first + 2], "little")
    data[end : end + 4] = data[4:8]
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match=r"a\.tif has 1 pages, the last of which leads back"):
        folder.read_frames(path)
