"""Live speckle imaging: sources of frames, loop, recording and time courses.

::

    camera = SimulatedCamera()
    loop = LiveLoop(camera, process, mode="every frame")
    loop.start()
    loop.record(Recording("run.tif", about={"exposure_ms": camera.exposure_ms}))
    ...
    result = loop.latest.take()  # a GUI's timer: the newest result, or None
    loop.status().message
    loop.close()
"""

from napari_gpubio.speckle.live.buffers import FrameMode, Latest, Ring, RingCounts
from napari_gpubio.speckle.live.camera import CameraSource
from napari_gpubio.speckle.live.folder import FolderSource
from napari_gpubio.speckle.live.frame import Frame, Source, SourceFailed
from napari_gpubio.speckle.live.loop import LiveLoop, LiveResult, LiveStatus, State
from napari_gpubio.speckle.live.recording import Recording, RecordingStatus
from napari_gpubio.speckle.live.sources import SimulatedCamera, StackSource
from napari_gpubio.speckle.live.timecourse import Baseline, Event, TimeCourse

__all__ = [
    "Baseline",
    "CameraSource",
    "Event",
    "FolderSource",
    "Frame",
    "FrameMode",
    "Latest",
    "LiveLoop",
    "LiveResult",
    "LiveStatus",
    "Recording",
    "RecordingStatus",
    "Ring",
    "RingCounts",
    "SimulatedCamera",
    "Source",
    "SourceFailed",
    "StackSource",
    "State",
    "TimeCourse",
]
