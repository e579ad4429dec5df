"""A camera through Micro-Manager: a stand-in of the same calls, and the demo camera itself."""

import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from napari_gpubio.core.errors import InvalidInput
from napari_gpubio.speckle.live import CameraSource, LiveLoop, SourceFailed, State
from tests.speckle.live.fakes import FakeClock

SHAPE = (6, 8)


class StandIn:
    """Answers the calls that a `CameraSource` makes; frames come from a list of frame numbers."""

    def __init__(self, numbers: list[int | None], *, keeps_running: bool = True, **answers: Any) -> None:
        self.numbers, self.keeps_running = list(numbers), keeps_running
        self.running = self.unplugged = False
        self.calls = list[str]()
        self.answers = {
            "getCameraDevice": "Camera-1", "getNumberOfComponents": 1, "getBytesPerPixel": 2, "getImageBitDepth": 12,
            "getImageHeight": SHAPE[0], "getImageWidth": SHAPE[1], "getExposure": 10.0, "isBufferOverflowed": False,
            **answers,
        }  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.answers[name]

    def loadSystemConfiguration(self, path: str) -> None:  # noqa: N802
        self.calls.append(f"load {path}")

    def setCircularBufferMemoryFootprint(self, megabytes: int) -> None:  # noqa: N802
        self.calls.append(f"buffer {megabytes}")

    def setExposure(self, exposure_ms: float) -> None:  # noqa: N802
        self.answers["getExposure"] = exposure_ms

    def isSequenceRunning(self) -> bool:  # noqa: N802
        return self.running and (self.keeps_running or bool(self.numbers))

    def startContinuousSequenceAcquisition(self, interval_ms: float) -> None:  # noqa: N802
        self.calls.append("start")
        self.running = True

    def stopSequenceAcquisition(self) -> None:  # noqa: N802
        self.calls.append("stop")
        self.running = False

    def getRemainingImageCount(self) -> int:  # noqa: N802
        if self.unplugged:
            raise RuntimeError("device not connected")
        return len(self.numbers)

    def popNextImageAndMD(self) -> tuple[np.ndarray, dict[str, str]]:  # noqa: N802
        number = self.numbers.pop(0)
        facts = {} if number is None else {"ImageNumber": str(number), "ElapsedTime-ms": str(10 * number)}
        return np.full(SHAPE, number or 0, np.uint16), facts


def opened(core: StandIn, **options: Any) -> CameraSource:
    source = CameraSource(core, **{"clock": FakeClock(), **options})
    source.open()
    return source


def first(source: CameraSource, n: int) -> list[Any]:
    frames = source.frames(threading.Event())
    came = [next(frames) for _ in range(n)]
    frames.close()
    return came


def test_every_frame_with_its_number_and_time() -> None:
    core = StandIn([0, 1, 2])
    source = opened(core, exposure_ms=4.0, buffer_mb=512, config="my.cfg")
    frames = first(source, 3)
    assert [frame.number for frame in frames] == [0, 1, 2]
    np.testing.assert_allclose([frame.timestamp_s for frame in frames], [0.0, 0.01, 0.02])
    assert (source.name, source.shape, source.bits, source.exposure_ms) == ("the camera Camera-1", SHAPE, 12, 4.0)
    assert core.calls == ["load my.cfg", "buffer 512", "start", "stop"]
    assert (source.lost, source.message) == (0, "")


@pytest.mark.parametrize(
    ("counted", "numbers", "lost"),
    [([5, 6, 20, 21], [0, 1, 15, 16], 13), ([0, 1, 0, 1], [0, 1, 2, 3], 0), ([None, None, None], [0, 1, 2], 0)],
    ids=["gap", "counts anew", "counts nothing"],
)
def test_gaps_in_the_cameras_numbers_are_lost_frames(counted: list[int | None], numbers: list[int], lost: int) -> None:
    source = opened(StandIn(counted))
    assert [frame.number for frame in first(source, len(counted))] == numbers
    assert source.lost == lost
    assert (f"overflowed and frames were lost ({lost} counted)" in source.message) == (lost > 0)


def test_overflows_are_counted() -> None:
    core = StandIn([0, 1, 2])
    source = opened(core)
    frames = source.frames(threading.Event())
    for overflowed in (True, True, False):
        core.answers["isBufferOverflowed"] = overflowed
        next(frames)
    assert source.overflows == 1
    assert "overflowed" in source.message


def test_unplugged() -> None:
    core = StandIn([0])
    frames = opened(core).frames(threading.Event())
    next(frames)
    core.unplugged = True
    with pytest.raises(SourceFailed, match=r"stopped working \(device not connected\); check its cable and power"):
        next(frames)
    assert core.calls[-1] == "stop"
    with pytest.raises(SourceFailed, match="the camera Camera-1 stopped sending frames; check its cable"):
        first(opened(StandIn([0, 1], keeps_running=False)), 3)  # a sequence that ends by itself


def test_silence_is_reported() -> None:
    stop = threading.Event()
    source = opened(StandIn([]), clock=FakeClock(meanwhile=lambda now: stop.set() if now > 1007.0 else None))
    assert list(source.frames(stop)) == []
    assert source.message.startswith("the camera Camera-1 has sent no frame for ")


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"getCameraDevice": ""}, "Micro-Manager has no camera; load a configuration with one"),
        (
            {"getNumberOfComponents": 4, "getBytesPerPixel": 4},
            "gives 4 components of 1 bytes a pixel; choose a gray pixel type",
        ),
        ({"getBytesPerPixel": 4}, "gives 1 components of 4 bytes a pixel"),
        (None, "is running already; stop the other live view first"),
    ],
)
def test_cameras_that_cannot_be_used(answers: dict[str, Any] | None, message: str) -> None:
    core = StandIn([], **(answers or {}))
    core.running = answers is None
    with pytest.raises(InvalidInput, match=message):
        opened(core)


@pytest.mark.parametrize("options", [{"exposure_ms": 0.0}, {"exposure_ms": float("nan")}, {"buffer_mb": -1}])
def test_settings_are_positive(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="it must be positive"):
        CameraSource(StandIn([]), **options)


def test_without_pymmcore_plus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymmcore_plus", None)
    with pytest.raises(InvalidInput, match=r"pip install 'napari-gpubio\[camera\]'"):
        CameraSource().open()


@pytest.fixture
def demo_core() -> Any:
    """Micro-Manager's own demo camera, 256 x 128 and 16 bits, a frame every 5 ms."""
    core = pytest.importorskip("pymmcore_plus").CMMCorePlus()
    pytest.importorskip("mm_test_adapters")
    core.loadSystemConfiguration()
    for name, value in (("OnCameraCCDXSize", 256), ("OnCameraCCDYSize", 128), ("PixelType", "16bit")):
        core.setProperty("Camera", name, value)
    core.setExposure(5.0)
    yield core
    core.unloadAllDevices()


def test_the_demo_camera(demo_core: Any) -> None:
    source, seen, enough = CameraSource(demo_core), list[tuple[int, ...]](), threading.Event()

    def look(pixels: np.ndarray) -> None:
        seen.append((*pixels.shape, pixels.dtype.itemsize))
        if len(seen) == 40:
            enough.set()

    loop = LiveLoop(source, look)
    loop.start()
    assert enough.wait(5.0)
    status = loop.status()
    assert loop.close()
    assert not demo_core.isSequenceRunning()
    assert (status.state, status.dropped, status.lost, status.message) == (State.RUNNING, 0, 0, "")
    assert set(seen) == {(128, 256, 2)}
    assert source.bits == 16


def test_what_the_demo_cameras_buffer_loses_is_counted(demo_core: Any) -> None:
    source = CameraSource(demo_core, buffer_mb=1)
    source.open()
    frames = source.frames(threading.Event())
    next(frames)
    time.sleep(0.3)  # some 40 frames, into a buffer of 16
    last = [next(frames) for _ in range(20)][-1]
    frames.close()
    assert source.lost == last.number - 20 > 0
    assert "overflowed" in source.message


def test_the_demo_camera_in_color_is_refused(demo_core: Any) -> None:
    demo_core.setProperty("Camera", "PixelType", "32bitRGB")
    with pytest.raises(InvalidInput, match="gives 4 components of 1 bytes a pixel"):
        CameraSource(demo_core).open()
