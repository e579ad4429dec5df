"""Recordings: read back by others, after a kill, a cut at any byte, a full disk."""

import csv
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import zarr
from PIL import Image

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live import LiveLoop, Recording, State, writers
from napari_gpubio.speckle.live.writers import BigTiffWriter
from tests.speckle.live.fakes import ListSource, frame

KILLED = """
import sys, time
import numpy as np
from napari_gpubio.speckle.live import Frame, Recording
recording = Recording(sys.argv[1], slots=4)
for number in range(100_000):
    pixels = np.full((64, 80), number, np.uint16)
    recording.offer(Frame(pixels=pixels, number=number, timestamp_s=0.01 * number, arrived_s=time.perf_counter()))
    time.sleep(1e-4)
"""
LIMITED = """
import resource, sys
import numpy as np
from napari_gpubio.speckle.live import Frame, Recording
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
recording = Recording(sys.argv[1])
for number in range(20):
    pixels = np.full((64, 80), number, np.uint16)
    recording.offer(Frame(pixels=pixels, number=number, timestamp_s=0.0, arrived_s=0.0))
recording.close()
print(recording.status.message)
"""


def recorded(
    path: Path, n: int = 5, shape: tuple[int, int] = (6, 7), dtype: Any = np.uint16, **options: Any
) -> Recording:
    recording = Recording(path, **options)
    for number in range(n):
        recording.offer(frame(number, shape, dtype))
    assert recording.close(10.0)
    return recording


def pages(path: Path) -> np.ndarray:
    """All frames, by tifffile."""
    with tifffile.TiffFile(path) as file:
        return np.array([page.asarray() for page in file.pages])


def rows(path: Path) -> list[dict[str, str]]:
    with path.with_suffix(".csv").open() as file:
        return list(csv.DictReader(file))


def expected(n: int, shape: tuple[int, int] = (6, 7)) -> np.ndarray:
    return np.broadcast_to(np.arange(n)[:, None, None], (n, *shape))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_tifffile_and_pillow_read_it_and_timestamps_lie_beside_it(tmp_path: Path, dtype: Any) -> None:
    path = tmp_path / "run.tif"
    recording = recorded(path, dtype=dtype, about={"exposure_ms": 5.0, "camera": "µ"})
    np.testing.assert_array_equal(pages(path), expected(5))
    np.testing.assert_array_equal(tifffile.imread(path), expected(5))
    with tifffile.TiffFile(path) as file:
        assert file.is_bigtiff
        assert file.pages[0].dtype == dtype
        about = json.loads(file.pages[0].description)
    assert (about["exposure_ms"], about["camera"]) == (5.0, "µ")
    with Image.open(path) as image:
        assert image.n_frames == 5
        image.seek(4)
        np.testing.assert_array_equal(np.asarray(image), 4)
    status = recording.status
    assert (status.running, status.written, status.dropped, status.message) == (False, 5, 0, "")
    assert status.megabytes == 5 * 42 * np.dtype(dtype).itemsize / 2**20
    table = rows(path)
    assert list(table[0]) == ["index", "number", "timestamp_s", "arrived_s", "dropped"]
    assert [float(row["timestamp_s"]) for row in table] == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4])
    assert [row["index"] for row in table] == [row["number"] for row in table] == list("01234")


def test_frames_of_odd_sizes(tmp_path: Path) -> None:
    recorded(tmp_path / "run.tif", 3, shape=(1, 1), dtype=np.uint8)
    np.testing.assert_array_equal(pages(tmp_path / "run.tif"), expected(3, (1, 1)))


def test_zarr_reads_it(tmp_path: Path) -> None:
    recorded(tmp_path / "run.zarr", about={"exposure_ms": 5.0})
    array = zarr.open_array(tmp_path / "run.zarr", mode="r")
    np.testing.assert_array_equal(array[:], expected(5))
    assert array.chunks == (1, 6, 7)
    assert array.attrs["exposure_ms"] == 5.0
    assert len(rows(tmp_path / "run.zarr")) == 5


@pytest.mark.parametrize("name", ["run.tif", "run.zarr"])
def test_after_a_kill_the_frames_so_far_can_be_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(path)])
    table, deadline = path.with_suffix(".csv"), time.monotonic() + 30.0
    try:
        while not table.exists() or table.read_bytes().count(b"\n") < 40:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    frames = pages(path) if name.endswith(".tif") else zarr.open_array(path, mode="r")[:]
    numbers = [int(line.split(b",")[1]) for line in table.read_bytes().split(b"\n")[1:-1]]  # whole lines
    assert len(numbers) >= 39
    assert len(numbers) <= len(frames) <= len(numbers) + 1
    np.testing.assert_array_equal(frames[: len(numbers)], np.array(numbers)[:, None, None] * np.ones((64, 80)))


class RawFile:
    """An unbuffered file that notes what is written where, on a disk with room for so many bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room
        self.writes = list[tuple[int, bytes]]()

    def write(self, data: memoryview) -> int:
        place = self.file.tell()
        if place >= self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.writes.append((place, bytes(data[: self.room - place])))
        return int(self.file.write(data[: self.room - place]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


@pytest.fixture
def raw_files(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put a `RawFile` under recordings that begin from now on; returns all of them."""
    files, open_raw = list[RawFile](), writers.open_raw

    def put(room: int = 1 << 30) -> list[RawFile]:
        def opened(path: Path) -> RawFile:
            files.append(RawFile(open_raw(path), room))
            return files[-1]

        monkeypatch.setattr(writers, "open_raw", opened)
        return files

    return put


def test_cut_off_in_any_write_the_chain_ends_at_the_last_whole_frame(tmp_path: Path, raw_files: Any) -> None:
    """All that is ever written is replayed up to every moment, each write also in halves."""
    files = raw_files()
    recorded(tmp_path / "run.tif")
    content, cut, counts = bytearray(), tmp_path / "cut.tif", []
    for place, data in files[0].writes:
        for part in (data[: len(data) // 2], data):
            is_link = len(data) == 8 and place + 8 <= len(content)
            if is_link and part is not data:
                continue  # eight bytes in one call
            content[place : place + len(part)] = part
            cut.write_bytes(content)
            counts.append(len(frames_of_chain(cut)))
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] == 5


def frames_of_chain(path: Path) -> np.ndarray:
    if path.stat().st_size < 16:
        return np.zeros(0)
    found = pages(path)
    np.testing.assert_array_equal(found, expected(len(found)) if len(found) else found)
    return found


@pytest.mark.parametrize("room", [20, 350, 700, 1001, 1002, 1003, 2000])
def test_a_full_disk_ends_the_recording_with_a_sentence_and_live_goes_on(
    tmp_path: Path, raw_files: Any, room: int
) -> None:
    with tifffile.TiffFile(recorded(tmp_path / "whole.tif", 20).path) as whole:
        starts = [page.dataoffsets[0] for page in whole.pages]
    raw_files(room=room)
    recording = Recording(tmp_path / "run.tif")
    loop = LiveLoop(ListSource([frame(n, (6, 7)) for n in range(20)], can_wait=True), np.mean)
    loop.record(recording)
    loop.start()
    assert loop.wait(10.0)
    assert recording.close(10.0)
    status, written = loop.status(), recording.status.written
    assert (status.state, status.processed) == (State.ENDED, 20)
    assert "disk is full" in status.message
    assert f"its {written} frames can be read" in status.message
    assert written == sum(start <= room for start in starts[1:])  # a page ends where the next one starts
    assert recording.path.stat().st_size == starts[written]  # what was begun is cut off
    np.testing.assert_array_equal(pages(recording.path), expected(written) if written else np.zeros(0))
    assert len(rows(recording.path)) == written


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit for the size of a file")
def test_a_refusal_of_the_system_itself(tmp_path: Path) -> None:
    path = tmp_path / "run.tif"
    done = subprocess.run([sys.executable, "-c", LIMITED, str(path)], capture_output=True, text=True, check=True)
    assert "the disk is full and the recording to run.tif ended; its 9 frames can be read" in done.stdout
    np.testing.assert_array_equal(pages(path), expected(9, (64, 80)))


def test_a_slow_disk_drops_recorded_frames_and_counts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing, go_on, append = threading.Event(), threading.Event(), BigTiffWriter.append

    def slow(self: BigTiffWriter, pixels: np.ndarray) -> None:
        writing.set()
        assert go_on.wait(5.0)
        append(self, pixels)

    monkeypatch.setattr(BigTiffWriter, "append", slow)
    recording = Recording(tmp_path / "run.tif", slots=4)
    recording.offer(frame(0))
    assert writing.wait(5.0)
    for number in range(1, 20):
        recording.offer(frame(number))
    go_on.set()
    assert recording.close(10.0)
    assert (recording.status.written, recording.status.dropped) == (4, 16)
    assert [(row["number"], row["dropped"]) for row in rows(tmp_path / "run.tif")] == [
        ("0", "16"), ("17", "16"), ("18", "16"), ("19", "16"),
    ]  # fmt: skip


def test_the_loop_records_what_it_skips(tmp_path: Path) -> None:
    """The recording has a ring of its own: it gets every frame though the process is slow."""
    source = ListSource([frame(n) for n in range(20)])
    loop = LiveLoop(source, lambda _: source.ended.wait(5.0), mode="most recent", slots=3)
    recording = Recording(tmp_path / "run.tif")
    loop.record(recording)
    loop.start()
    assert loop.wait(10.0)
    assert loop.close()
    assert not recording.status.running
    assert recording.status.written == 20
    assert loop.status().processed < 20
    np.testing.assert_array_equal(pages(recording.path), expected(20, (4, 5)))


def test_recording_may_begin_and_end_while_live(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "run.tif")
    items = [frame(0), lambda: loop.record(recording), frame(1), frame(2), lambda: loop.record(None), frame(3)]
    loop = LiveLoop(ListSource(items, can_wait=True), np.mean)
    loop.start()
    assert loop.wait(10.0)
    assert recording.close(10.0)
    assert loop.recording is None
    assert [row["number"] for row in rows(recording.path)] == ["1", "2"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("run.avi", "run.avi is not a name for a recording; use .tif or .zarr"),
        ("absent/run.tif", "does not exist; create it or choose another place"),
        ("there.tif", "there.tif exists already; choose another name"),
        ("table.tif", "table.csv exists already"),
    ],
)
def test_places_that_cannot_be_recorded_to(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "there.tif").write_text("mine")
    (tmp_path / "table.csv").write_text("mine")
    with pytest.raises(InvalidInput, match=message):
        Recording(tmp_path / name)
    assert (tmp_path / "there.tif").read_text() == "mine"


def test_zarr_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zarr", None)
    with pytest.raises(InvalidInput, match=r"pip install 'napari-gpubio\[zarr\]', or record to .tif"):
        Recording(tmp_path / "run.zarr")


def test_frames_that_change_size_end_the_recording_and_without_a_frame_there_is_no_file(tmp_path: Path) -> None:
    assert recorded(tmp_path / "run.tif", n=0).status.message == ""
    assert list(tmp_path.iterdir()) == []
    recording = Recording(tmp_path / "run.tif")
    for one in (frame(0), frame(1, shape=(9, 9)), frame(2)):
        recording.offer(one)
    assert recording.close(5.0)
    assert recording.status.message.startswith("the recording to run.tif ended: the frames changed from 5 x 4")
    assert recording.status.written == 1
