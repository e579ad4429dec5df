"""A watched folder: order, half-written files, the end."""

import io
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
from PIL import Image

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live import FolderSource, Frame, LiveLoop, SourceFailed
from napari_gpubio.speckle.live.folder import GIVE_UP_S, RESTS_S, Unreadable, natural_order, read_frames
from tests.speckle.live.fakes import FakeClock

SHAPE = (7, 9)


def pixels(number: int, dtype: Any = np.uint16) -> np.ndarray:
    return (np.arange(63).reshape(SHAPE) + number).astype(dtype)


def encoded(array: np.ndarray, suffix: str) -> bytes:
    buffer = io.BytesIO()
    if suffix == ".png":
        Image.fromarray(array).save(buffer, "png")
    else:
        tifffile.imwrite(buffer, array, compression="zlib" if suffix == ".tiff" else None)
    return buffer.getvalue()


def leave(folder: Path, name: str, number: int, dtype: Any = np.uint16) -> None:
    (folder / name).write_bytes(encoded(pixels(number, dtype), Path(name).suffix))


def end(folder: Path) -> None:
    (folder / "final.log").touch()


def numbers(frames: Any) -> list[int]:
    return [int(frame.pixels[0, 0]) for frame in frames]


def watch(folder: Path, at: dict[float, Any] | None = None) -> FolderSource:
    """A source whose clock does things at times after its start."""
    plan = sorted((at or {}).items(), key=lambda item: item[0])

    def meanwhile(now: float) -> None:
        while plan and now - 1000.0 >= plan[0][0]:
            plan.pop(0)[1]()

    return FolderSource(folder, clock=FakeClock(meanwhile))


def frames_of(source: FolderSource) -> list[Frame]:
    return list(source.frames(threading.Event()))


def test_files_that_are_there_come_in_natural_order_and_final_log_ends(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        leave(tmp_path, f"frame_{number}.tif", number)
    tifffile.imwrite(tmp_path / "pages.TIF", np.stack([pixels(n) for n in (11, 12)]), photometric="minisblack")
    for name in (".f0.tif", "notes.txt"):
        leave(tmp_path, name, 99)
    end(tmp_path)
    source = watch(tmp_path)
    frames = frames_of(source)
    assert numbers(frames) == [1, 2, 10, 11, 12]
    assert [frame.number for frame in frames] == list(range(5))
    assert (source.shape, source.dtype, source.bits, source.lost) == (SHAPE, np.uint16, 16, 0)


def test_an_empty_folder_is_waited_on_and_reported(tmp_path: Path) -> None:
    messages = []
    plan = {1.0: lambda: messages.append(source.message), 2.0: lambda: leave(tmp_path, "a.png", 5, np.uint8)}
    source = watch(tmp_path, plan | {3.0: lambda: end(tmp_path)})
    assert numbers(frames_of(source)) == [5]
    assert messages == [f"{tmp_path} holds no TIFF or PNG file yet; waiting for the first"]
    assert source.message == ""
    assert source.bits == 8


def test_a_file_is_complete_when_its_size_rests_or_a_later_one_is_there(tmp_path: Path) -> None:
    arrivals = {at: partial(leave, tmp_path, f"f{n}.tif", n) for n, at in enumerate((0.0, 10.0, 10.2), 1)}
    frames = frames_of(watch(tmp_path, arrivals | {20.0: lambda: end(tmp_path)}))
    assert numbers(frames) == [1, 2, 3]
    times_s = [frame.arrived_s - 1000.0 for frame in frames]
    np.testing.assert_allclose(times_s, [RESTS_S, 10.2, 10.2 + RESTS_S], atol=0.16)


@pytest.mark.parametrize("name", ["f1.tif", "f1.tiff", "f1.png"])
def test_a_half_written_file_is_waited_for(tmp_path: Path, name: str) -> None:
    """Though a later one is there, and it rests for longer than a complete one must."""
    whole = encoded(pixels(1), Path(name).suffix)
    messages = []
    source = watch(
        tmp_path,
        {
            0.0: lambda: (tmp_path / name).write_bytes(whole[: len(whole) // 2]),
            0.1: lambda: leave(tmp_path, "f2.tif", 2),
            2.0: lambda: messages.append(source.message),
            2.1: lambda: (tmp_path / name).write_bytes(whole),
            9.0: lambda: end(tmp_path),
        },
    )
    assert numbers(frames_of(source)) == [1, 2]
    assert messages == [f"{name} is not complete yet; waiting"]
    assert source.lost == 0


def test_a_damaged_file_is_left_out_and_counted(tmp_path: Path) -> None:
    leave(tmp_path, "f1.tif", 1)
    (tmp_path / "f2.tif").write_bytes(b"no image at all")
    leave(tmp_path, "f3.tif", 3)
    source = watch(tmp_path, {10.0: lambda: end(tmp_path)})
    frames = frames_of(source)
    assert numbers(frames) == [1, 3]
    assert frames[1].arrived_s - 1000.0 == pytest.approx(GIVE_UP_S + RESTS_S, abs=0.2)  # f3 is the last, and must rest
    assert source.lost == 1
    assert source.message.startswith("f2.tif cannot be read")
    assert source.message.endswith("it was left out")


def test_a_page_without_data_is_no_black_frame(tmp_path: Path) -> None:
    path = tmp_path / "f.tif"
    tifffile.imwrite(path, np.ones((4, 5), np.uint16))
    with tifffile.TiffFile(path) as file:
        place = file.pages[0].tags["StripByteCounts"].valueoffset
    data = bytearray(path.read_bytes())
    data[place : place + 2] = bytes(2)
    path.write_bytes(data)
    with pytest.raises(Unreadable, match=r"f\.tif lacks data"):
        read_frames(path)


@pytest.mark.parametrize("suffix", [".tif", ".tiff", ".png"])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_wherever_a_file_is_cut_off_no_wrong_frame_comes_of_it(tmp_path: Path, suffix: str, dtype: Any) -> None:
    whole, path = encoded(pixels(3, dtype), suffix), tmp_path / f"f{suffix}"
    complete = 0
    for length in range(0, len(whole) + 1, 3 if suffix == ".png" else 7):
        path.write_bytes(whole[:length])
        try:
            [found] = read_frames(path)
        except Unreadable:
            continue
        complete += 1
        np.testing.assert_array_equal(found, pixels(3, dtype))
    path.write_bytes(whole)
    np.testing.assert_array_equal(read_frames(path), [pixels(3, dtype)])
    assert complete <= 8  # a last byte or two may be no pixel's


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("rgb.png", np.zeros((4, 4, 3), np.uint8), "mode RGB; give gray frames of 8 or 16 bits"),
        ("rgb.tif", np.zeros((4, 4, 3), np.uint8), r"shape \(4, 4, 3\); it looks like a color image"),
        ("float.tif", np.full((4, 4), np.nan, np.float32), "holds float32 values"),
    ],
)
def test_what_is_no_raw_frame_is_refused(tmp_path: Path, name: str, array: np.ndarray, message: str) -> None:
    if name.endswith(".png"):
        Image.fromarray(array).save(tmp_path / name)
    else:
        tifffile.imwrite(tmp_path / name, array)
    end(tmp_path)
    with pytest.raises(InvalidInput, match=message):
        frames_of(watch(tmp_path))


def test_a_file_of_another_size_ends_the_loop_with_a_sentence(tmp_path: Path) -> None:
    leave(tmp_path, "f1.tif", 1)
    tifffile.imwrite(tmp_path / "f2.tif", np.zeros((5, 5), np.uint16))
    end(tmp_path)
    loop = LiveLoop(FolderSource(tmp_path), np.mean)
    loop.start()
    assert loop.wait(5.0)
    assert loop.status().message.startswith(
        "the frames changed from 9 x 7 uint16 to 5 x 5 uint16; stop and start again"
    )
    assert loop.status().processed == 1


def test_a_folder_that_is_none_or_goes_away(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not a folder; create it"):
        FolderSource(tmp_path / "absent")
    folder = tmp_path / "watched"
    folder.mkdir()
    source = watch(folder, {1.0: folder.rmdir})
    with pytest.raises(SourceFailed, match="can no longer be read"):
        frames_of(source)


def test_a_slow_process_delays_a_folder_and_costs_no_frame(tmp_path: Path) -> None:
    for number in range(30):
        leave(tmp_path, f"{number}.tif", number)
    end(tmp_path)
    seen: list[int] = []
    loop = LiveLoop(FolderSource(tmp_path), lambda frame: seen.append(int(frame[0, 0])), slots=3)
    loop.start()
    assert loop.wait(10.0)
    assert seen == list(range(30))
    assert loop.status().dropped == 0


def test_natural_order() -> None:
    names = ["b1", "a10", "a2", "A1", "10", "9", "a2b10", "a2b9", "x²"]
    assert sorted(names, key=natural_order) == ["9", "10", "A1", "a2", "a2b9", "a2b10", "a10", "b1", "x²"]
