"""Stacks of any length from files to files: the numbers of a run in memory, of which only a few maps are held."""

import json
import sys
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.memory import forget_pages
from napari_gpubio.core.reading import noted
from napari_gpubio.speckle import (
    ContrastSettings,
    NoiseModel,
    baseline_k2,
    contrast,
    contrast_steps,
    measure_dark,
    operations,
    region_curves,
    register,
)
from napari_gpubio.speckle.io import MapFile, open_frames, read_frames, tiff_writer, write_maps
from napari_gpubio.speckle.kernels.contrast import gpu, problem
from napari_gpubio.speckle.live.writers import BigTiffWriter
from napari_gpubio.speckle.regions import CurveTaker
from napari_gpubio.speckle.registration import register_steps
from napari_gpubio.speckle.settings import Temporal
from napari_gpubio.speckle.stored import StoredFrames
from tests.runs import stopped
from tests.sentences import says
from tests.shell import run_verb
from tests.speckle.choices import settings_with

tifffile = pytest.importorskip("tifffile", reason="tifffile is not installed: it comes with napari")
FRAMES = np.random.default_rng(0).integers(1, 4096, (30, 24, 28), np.uint16)
NOISE = NoiseModel(dark_adu=20.3, gain=40.0, read_noise_adu=1.0)  # more than the variance of some windows
PARTS = ("contrast", "index", "mask")
REGIONS = {"left": np.arange(28) < 14 + np.zeros((24, 1)), "all": np.ones((24, 28))}


@pytest.fixture
def one_by_one(monkeypatch, in_chunks_of):
    """Maps are computed one at a time, in chunks of four."""
    in_chunks_of(4)
    monkeypatch.setattr(problem, "BATCH_BYTES", 1)
    monkeypatch.setattr(gpu, "BATCH_BYTES", 1)


def to_files(folder, frames, settings=None, **options):
    """The files of a run, and the curves of regions."""
    curves, paths = CurveTaker(REGIONS), {which: folder / f"{which}.tif" for which in PARTS}
    with MapFile(paths["contrast"]) as k, MapFile(paths["index"], "index") as flow, MapFile(paths["mask"], "mask") as m:
        made = contrast(frames, settings, into=[k, flow, m, curves], **options)
    return made, {which: tifffile.imread(path) for which, path in paths.items()}, curves.curves


def check_same(folder, frames, settings=None, **options):
    """A run to files has the bits of one in memory."""
    expected = contrast(frames, settings, **options)
    made, files, curves = to_files(folder, frames, settings, **options)
    assert (len(made), made.notes, made.complete) == (0, expected.notes, True)
    assert made.parameters.keys() == expected.parameters.keys()
    for which in PARTS:
        np.testing.assert_array_equal(files[which].view(np.uint8), getattr(expected, which).view(np.uint8))
    for found, one in zip(curves, region_curves(expected, REGIONS), strict=True):
        for name in ("k2", "used", "skipped"):
            np.testing.assert_array_equal(getattr(found, name), getattr(one, name))
        assert (found.frames, found.step) == (one.frames, one.step)


@pytest.mark.parametrize("mode", ["spatial", "temporal", "spatio-temporal"])
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("dtype", ["u2", "f4"])
def test_files_have_the_bits_of_a_run_in_memory(tmp_path, one_by_one, mode, blocks, dtype):
    settings = settings_with(mode=mode, frames=5, blocks=blocks)
    check_same(tmp_path, FRAMES.astype(dtype), settings, noise=NOISE, device="cpu")


@pytest.mark.daily
@pytest.mark.parametrize("mode", ["spatial", "temporal", "spatio-temporal"])
def test_several_gpus_write_the_bits_of_a_run_in_memory(tmp_path, fake_gpu, one_by_one, mode):
    fake_gpu(count=3)
    check_same(tmp_path, FRAMES, settings_with(mode=mode, frames=5), noise=NOISE, device="cuda:all")
    means = [baseline_k2(FRAMES, device=device) for device in ("cuda:0", "cuda:all")]
    np.testing.assert_array_equal(*means)


@pytest.mark.gpu
@pytest.mark.parametrize("mode", ["spatial", "temporal", "spatio-temporal"])
def test_real_gpus_write_the_bits_of_a_run_in_memory(tmp_path, mode):
    frames = np.random.default_rng(1).integers(1, 4096, (300, 24, 28), np.uint16)
    for settings in (settings_with(mode=mode, frames=5, blocks=blocks) for blocks in (False, True)):
        check_same(tmp_path, frames, settings, noise=NOISE, device="cuda:all")


@pytest.mark.parametrize("mode", ["spatial", "temporal", "spatio-temporal"])
def test_a_few_maps_are_held_whatever_there_are(tmp_path, monkeypatch, mode):
    frames = np.random.default_rng(0).integers(1, 255, (600, 64, 64), np.uint8)
    tifffile.imwrite(tmp_path / "frames.tif", frames, photometric="minisblack")
    settings = settings_with(mode=mode, frames=5)
    of_map = 64 * 64 * (9 + 1)
    monkeypatch.setattr(problem, "BATCH_BYTES", 4 * of_map)
    curves = CurveTaker({"all": np.ones((64, 64))})
    stored = open_frames(tmp_path / "frames.tif")
    contrast(stored[:10], settings, device="cpu")  # what is compiled and kept
    tracemalloc.start()
    try:
        with MapFile(tmp_path / "k.tif") as k, MapFile(tmp_path / "flow.tif", "index") as flow:
            contrast(stored, settings, device="cpu", into=[k, flow, curves])
        assert tracemalloc.get_traced_memory()[1] < 40 * of_map
    finally:
        tracemalloc.stop()
    assert len(curves.curves[0].k2) == settings.count(600)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much of a mapped file is in memory")
def test_mapped_frames_do_not_stay_in_memory(tmp_path, in_chunks_of):
    def kilobytes(path):
        lines = iter(Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines())
        return next(int(next(lines).split()[1]) for line in lines if str(path) in line and next(lines) and next(lines))

    in_chunks_of(10)
    path, most = tmp_path / "frames.npy", []
    np.save(path, np.ones((400, 256, 256), np.uint8))
    mapped = np.load(path, mmap_mode="r")
    contrast(mapped, device="cpu", into=[CurveTaker({})], progress=lambda _: most.append(kilobytes(path)))
    assert 0 < max(most) < mapped.nbytes / 1024 / 4
    changed = np.load(path, mmap_mode="c")
    changed[0, 0, 0] = 7  # which is nowhere else
    forget_pages(changed[1:])
    assert changed[0, 0, 0] == 7


# -- stops and errors -------------------------------------------------------------------------------------------------


def test_a_run_that_is_stopped_keeps_its_first_maps(tmp_path, one_by_one):
    stop, curves = threading.Event(), CurveTaker(REGIONS)
    with MapFile(tmp_path / "k.tif") as k:
        made = stopped(contrast_steps(FRAMES, device="cpu", into=[k, curves], stop=stop), stop, after=2)
    found, expected = read_frames(tmp_path / "k.tif"), contrast(FRAMES, device="cpu").contrast
    assert 8 <= len(found) < 30
    np.testing.assert_array_equal(found, expected[: len(found)])
    assert len(curves.curves[0].k2) == len(found)
    assert not made.complete
    assert says(made.notes[-1], f"stopped after {len(found)} of 30 maps")
    with tifffile.TiffFile(tmp_path / "k.tif") as tiff:
        assert json.loads(tiff.pages[0].description)["complete"] is False


def test_what_was_there_stays_if_a_run_fails_or_has_no_map(tmp_path, one_by_one):
    path, stop = tmp_path / "k.tif", threading.Event()
    path.write_bytes(b"before")

    def fail(step):
        raise RuntimeError("the disk is on fire")

    with pytest.raises(RuntimeError, match="fire"), MapFile(path) as k:
        contrast(FRAMES, device="cpu", into=[k], progress=fail)
    stop.set()
    with pytest.raises(InvalidInput, match=r"there are no maps for k\.tif"), MapFile(path) as k:
        stopped(contrast_steps(FRAMES, device="cpu", into=[k], stop=stop), stop, after=0)
    with pytest.raises(InvalidInput, match="is not open"):
        contrast(FRAMES, device="cpu", into=[MapFile(path)])
    assert [file.name for file in tmp_path.iterdir()] == ["k.tif"]
    assert path.read_bytes() == b"before"


def test_windows_that_do_not_fit_in_memory_are_refused_before(monkeypatch):
    stored = StoredFrames((30, 24, 28), np.uint16, lambda first, end: FRAMES[first:end])
    settings = ContrastSettings(mode=Temporal(frames=20))
    monkeypatch.setattr("napari_gpubio.speckle.run.free_memory_bytes", lambda _: 20 * 24 * 28 * 4 - 1)
    with pytest.raises(InvalidInput, match="the 20 frames of a window need"):
        contrast(stored, settings, device="cpu", into=[CurveTaker({})])
    contrast(stored, ContrastSettings(mode=Temporal(frames=19)), device="cpu", into=[CurveTaker({})])


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [2**32 - 1, 0], ids=["classic", "big"])
@pytest.mark.parametrize("which", PARTS)
def test_pages_are_mapped_again(tmp_path, monkeypatch, most, which):
    monkeypatch.setattr(tiff_writer, "_MAX_CLASSIC_BYTES", most)
    maps = contrast(FRAMES, device="cpu")
    write_maps(tmp_path / "a.tif", maps, which)
    with tifffile.TiffFile(tmp_path / "a.tif") as tiff:
        assert tiff.is_bigtiff == (most == 0)
        np.testing.assert_array_equal(tiff.asarray(), getattr(maps, which))
    if most:
        image = pytest.importorskip("PIL.Image", reason="Pillow is not installed: it comes with napari")
        with image.open(tmp_path / "a.tif") as read:
            assert read.n_frames == 30
            read.seek(29)
            np.testing.assert_array_equal(np.asarray(read), getattr(maps, which)[29])
    found = open_frames(tmp_path / "a.tif")
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, getattr(maps, which))


def recorded(path, frames):
    writer = BigTiffWriter(path, frames[0], {})
    for frame in frames:
        writer.append(frame)
    writer.close()


def in_a_folder(path, frames):
    path.mkdir()
    for number, frame in enumerate(frames):
        tifffile.imwrite(path / f"frame {number}.tif", frame)


def as_video(path, frames):
    av = pytest.importorskip("av", reason="PyAV is not installed: an extra")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=30)
        stream.height, stream.width, stream.pix_fmt = *frames.shape[1:3], "gray" if frames.ndim == 3 else "bgr0"
        for pixels in frames:
            kind = "gray" if frames.ndim == 3 else "rgb24"
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format=kind)))
        container.mux(stream.encode())


def as_raw(path, frames):
    path.write_bytes(np.array([*frames.shape[1:], len(frames), 5], "<u2").tobytes() + frames.tobytes())


EIGHT_BITS = (FRAMES // 16).astype(np.uint8)
COLORS = np.stack([EIGHT_BITS // 4, EIGHT_BITS, EIGHT_BITS // 3], axis=-1)
FILES = {
    "frames.tif": lambda path: tifffile.imwrite(path, FRAMES, photometric="minisblack"),
    "zipped.tif": lambda path: tifffile.imwrite(path, FRAMES, photometric="minisblack", compression="zlib"),
    "inverse.tif": lambda path: tifffile.imwrite(path, FRAMES, photometric="miniswhite"),
    "colors.tif": lambda path: tifffile.imwrite(path, COLORS, photometric="rgb"),
    "recorded.tif": lambda path: recorded(path, FRAMES),
    "folder": lambda path: in_a_folder(path, FRAMES),
    "gray.avi": lambda path: as_video(path, EIGHT_BITS),
    "colors.mkv": lambda path: as_video(path, COLORS),
    "raw.00000": lambda path: as_raw(path, FRAMES),
}


@pytest.mark.parametrize("name", FILES)
def test_frames_of_any_file_come_a_few_at_a_time(tmp_path, one_by_one, name):
    path = tmp_path / name
    FILES[name](path)
    with noted() as said:
        expected = read_frames(path)
    with noted() as notes:
        found = open_frames(path)
    assert notes == said
    assert found.shape == (30, 24, 28)
    settings = ContrastSettings(mode=Temporal(frames=5))
    with MapFile(tmp_path / "k.tif") as k, noted() as later:
        contrast(found, settings, device="cpu", into=[k])
    assert later == []
    in_memory = contrast(np.array(expected), settings, device="cpu").contrast
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "k.tif"), in_memory)
    np.testing.assert_array_equal(np.asarray(found), expected)
    np.testing.assert_array_equal(found[-1], expected[-1])
    np.testing.assert_array_equal(found[3:9:2], expected[3:9:2])


def test_damaged_pages_are_left_out_and_reported_before_the_run(tmp_path):
    path = tmp_path / "zipped.tif"
    tifffile.imwrite(path, FRAMES, photometric="minisblack", compression="zlib", metadata=None)
    with tifffile.TiffFile(path) as tiff:
        at = tiff.pages[7].dataoffsets[0]
    data = bytearray(path.read_bytes())
    data[at : at + 40] = bytes(40)
    path.write_bytes(data)
    with noted() as notes:
        found = open_frames(path)
    assert says(notes[0], "1 of 30 frames (7)")
    np.testing.assert_array_equal(np.asarray(found), np.delete(FRAMES, 7, axis=0))


def test_windows_that_overlap_read_each_frame_once(one_by_one):
    read = []

    def reading(first, end):
        read.extend(range(first, end))
        return FRAMES[first:end]

    stored = StoredFrames(FRAMES.shape, FRAMES.dtype, reading)
    contrast(stored, ContrastSettings(mode=Temporal(frames=5)), device="cpu")
    assert read == list(range(30))
    with pytest.raises(IndexError, match="there is no frame 30"):
        stored[30]


def test_dark_frames_may_be_stored():
    stored = StoredFrames(FRAMES.shape, FRAMES.dtype, lambda first, end: FRAMES[first:end])
    one, other = measure_dark(stored, gain=0.1), measure_dark(FRAMES, gain=0.1)
    np.testing.assert_array_equal(one.dark_map, other.dark_map)
    np.testing.assert_array_equal(one.variance_map, other.variance_map)


def test_the_verbs_write_registered_maps_and_curves(tmp_path, one_by_one, monkeypatch):
    registered = []
    monkeypatch.setattr(operations, "register_steps", lambda *a, **k: registered.append(1) or register_steps(*a, **k))
    image = np.random.default_rng(3).integers(100, 4000, (90, 96), np.uint16)
    frames = np.stack([np.roll(image, (shift, 2 * shift), axis=(0, 1))[8:-8, 8:-8] for shift in (0, 1, 2, 3)])
    tifffile.imwrite(tmp_path / "frames.tif", frames, photometric="minisblack")
    tifffile.imwrite(tmp_path / "labels.tif", np.ones(frames.shape[1:], np.uint8))
    found = register(frames)
    expected = contrast(found.frames, device="cpu")
    found.clear_outside(expected)
    assert found.shifts[-1].tolist() == [-3, -6]
    moved, more = tmp_path / "moved.json", ("--regions", tmp_path / "labels.tif", "--out", tmp_path / "c.csv")
    assert run_verb("register-frames", tmp_path / "frames.tif", "--record", moved) == 0
    outputs = ["--out", tmp_path / "k.tif", "--mask-out", tmp_path / "m.tif"]
    assert run_verb("speckle", moved, *outputs, "--device", "cpu") == 0
    assert len(registered) == 1, "of all verbs"
    assert run_verb("region-curves", moved, *more, "--device", "cpu") == 0
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "k.tif"), expected.contrast)
    np.testing.assert_array_equal(tifffile.imread(tmp_path / "m.tif"), expected.mask)
    [curve] = region_curves(expected, {"all": np.ones(frames.shape[1:])})
    rows = np.genfromtxt(tmp_path / "c.csv", delimiter=",", skip_header=1)
    np.testing.assert_array_equal(rows[:, 1], curve.k2)
