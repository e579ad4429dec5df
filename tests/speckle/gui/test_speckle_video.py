"""Maps as a video."""

import sys
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.core.steps import drive
from napari_gpubio.speckle.gui.video import Video, write_steps
from tests.dock_widgets import wait_until
from tests.speckle.gui.panel_samples import add_stack, run

COLORS = np.stack([np.linspace(0, 1, 254), np.linspace(1, 0, 254), np.full(254, 0.2)], axis=1)


def video(maps=None):
    maps = np.random.default_rng(1).uniform(0, 10, (5, 31, 201)) if maps is None else maps
    return Video(
        maps=maps, limits=(0.0, 10.0), colors=COLORS, title="SFI (1/s)", times_s=np.arange(len(maps)), rate_hz=20.0
    )


def write(path, one=None):
    return drive(write_steps(path, one or video(), threading.Event()))


def colors_of(maps):
    return np.rint(255 * COLORS[np.rint(np.clip(maps / 10, 0, 1) * 253).astype(int)]).astype(np.uint8)


def test_a_gif_has_the_colors_of_the_map(tmp_path):
    maps = video().maps
    maps[2, 3, 4] = np.nan
    maps[2, 3, 5] = 99.0
    messages = write(tmp_path / "a.gif", video(maps))
    assert messages == "a.gif written: 5 maps, 20 a second"
    with Image.open(tmp_path / "a.gif") as gif:
        assert (gif.n_frames, gif.info["duration"]) == (5, 50)
        gif.seek(2)
        pixels = np.asarray(gif.convert("RGB"))
    want = colors_of(np.nan_to_num(maps[2]))
    want[3, 4] = 0
    np.testing.assert_array_equal(pixels[:31], want)
    assert pixels[31:].max() == 255, "there is something written below"


def test_pictures(tmp_path):
    write(tmp_path / "a.png")
    with Image.open(tmp_path / "a 0003.png") as image:
        np.testing.assert_array_equal(np.asarray(image.convert("RGB"))[:31], colors_of(video().maps[3]))
    assert len(list(tmp_path.iterdir())) == 5


def test_mp4_through_the_optional_package(tmp_path, monkeypatch):
    sent = []

    def write_frames(path, size, **options):
        sent.append((size, options["fps"]))
        while True:
            sent.append((yield))

    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", SimpleNamespace(write_frames=write_frames))
    write(tmp_path / "a.mp4")
    (size, rate), *frames = sent
    assert rate == 20.0
    assert [frame.shape for frame in frames] == [(size[1], size[0], 3)] * 5
    assert size[0] % 2 == size[1] % 2 == 0
    np.testing.assert_array_equal(frames[1][:31, :201], colors_of(video().maps[1]))


def test_what_cannot_be_written(tmp_path, monkeypatch):
    with pytest.raises(InvalidInput, match=r"let it end with .mp4, .gif or .png"):
        write(tmp_path / "a.avi")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(InvalidInput, match="pip install imageio-ffmpeg"):
        write(tmp_path / "a.mp4")
    with pytest.raises(InvalidInput, match="does not exist"):
        write(tmp_path / "nowhere" / "a.gif")


def test_a_stopped_video_leaves_nothing(tmp_path):
    stop = threading.Event()
    steps = write_steps(tmp_path / "a.gif", video(), stop)
    next(steps)
    stop.set()
    with pytest.raises(InvalidInput, match="stopped"):
        drive(steps)
    assert list(tmp_path.iterdir()) == []


def test_the_panel_writes_what_it_shows(viewer, panel, qtbot, tmp_path):
    add_stack(viewer)
    run(qtbot, panel)
    panel.map_box.low.setValue(100.0)
    chosen = panel.video()
    assert chosen.limits[0] == 100.0
    assert chosen.title == "SFI (1/s)"
    panel.write_video(tmp_path / "a.gif", chosen)
    wait_until(qtbot, lambda: not panel.running)
    assert panel.status.startswith("a.gif written: 6 maps")
    with Image.open(tmp_path / "a.gif") as gif:
        assert gif.n_frames == 6
